"""The protocol language: types, projection to each role, bounds."""
