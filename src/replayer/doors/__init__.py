"""Doors to other programs: recordings as files that viewers open."""
