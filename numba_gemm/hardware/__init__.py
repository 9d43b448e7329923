"""Devices as the models see them: figures with their sources, and the figures of the GPU at hand."""
