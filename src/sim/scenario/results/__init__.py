"""The result of a scenario run, and the comparison of two runs."""
