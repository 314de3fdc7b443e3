"""Lines of the user's program that were run before a step as a test, as data."""
