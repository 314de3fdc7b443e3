"""Players of the meadow: what they see, scripted policies, training data."""
