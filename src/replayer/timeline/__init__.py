"""Seek and verify: the front door of a recording."""
