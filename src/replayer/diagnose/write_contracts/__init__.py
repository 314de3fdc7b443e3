"""Undeclared writes: phases replayed under a write guard."""
