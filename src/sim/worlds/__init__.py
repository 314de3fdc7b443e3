"""Worlds that ship with the recorder; none of them depends on it."""
