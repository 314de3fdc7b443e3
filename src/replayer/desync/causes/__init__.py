"""Possible causes of a desync that a tape or the code tells of, each with what is known of it."""
