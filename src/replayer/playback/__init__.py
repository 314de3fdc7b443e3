"""A simulation moved along a tape by its own step."""
