"""One picture a file: `draw()` from the models alone, or `draw(results)` with stored results."""
