"""Fewer inputs: a minimal list that fails in the same way, and the inputs that influence a value."""
