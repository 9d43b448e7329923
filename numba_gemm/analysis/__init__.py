"""Models and machine-code reading: what can be said about a kernel without a GPU."""
