"""What verbs of the command line do, where that is more than a call: `cli` parses and calls."""
