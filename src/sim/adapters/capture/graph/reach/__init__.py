"""Which nodes of a graph can be reached, and from where."""
