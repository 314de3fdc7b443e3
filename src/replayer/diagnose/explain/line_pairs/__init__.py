"""The corresponding lines, functions and variables of two versions of a source file."""
