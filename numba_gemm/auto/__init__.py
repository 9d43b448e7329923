"""Tuning: what `tune` measures on a device, and the database in which `version="auto"` looks it up.

`tune` makes a `trial`, times its `candidates` and stores the best as an `entry` of the `database`. Only `tune`
measures; looking up reads two small files once a process.
"""
