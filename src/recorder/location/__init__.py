"""Locations of tapes as users name them: paths of this machine, and URLs."""
