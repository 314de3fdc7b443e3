"""The order in which a line goes through a set whose members look alike: it is fixed, as a test."""
