"""The phases of a meadow step, one module each."""
