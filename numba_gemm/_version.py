"""The version of the package, in a module that imports nothing: all others may import it."""

__version__ = "0.1.0"
