"""A tape read without a simulation."""
