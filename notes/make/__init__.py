"""What is generated in `notes/`: numbers, tables, links to source lines. `python -m notes.make` fills it in."""
