"""Variants that teach by contrast: callable like the rungs, each with one thing changed."""
