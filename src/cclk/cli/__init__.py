"""The command line: one file for each command, named after it."""
