"""Laboratories: each tests one kind of cause of a desync. None imports another."""
