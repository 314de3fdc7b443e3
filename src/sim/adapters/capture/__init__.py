"""Attributes of Python objects written to an arena and restored from it."""
