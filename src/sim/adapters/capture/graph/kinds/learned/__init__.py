"""Kinds of mutable objects that are known by a rule or a name, since their classes are not there at the start."""
