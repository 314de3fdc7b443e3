"""A tape that is still growing."""
