"""Training data from recordings."""
