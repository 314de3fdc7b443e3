"""Graphs of Python objects as columns of an arena."""
