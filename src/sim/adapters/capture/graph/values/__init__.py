"""Immutable values in a graph as plain data and bytes."""
