"""Transitions made block by block, as columns: the quick way to those of environments whose values are numbers."""
