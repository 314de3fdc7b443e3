"""Objects made from a graph."""
