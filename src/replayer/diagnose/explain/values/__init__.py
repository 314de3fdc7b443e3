"""Values of two traces for people: the parts in which they differ, by path."""
