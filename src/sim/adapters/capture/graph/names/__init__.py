"""Names of classes, functions and objects in a graph, and what they are found by."""
