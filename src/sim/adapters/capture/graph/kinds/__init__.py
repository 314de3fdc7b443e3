"""Kinds of mutable objects made by C code: the state of each as plain data, and a new object from it."""
