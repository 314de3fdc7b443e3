"""Statements of the user's program that no step runs, run before a step as a test: they change values outside the state, or what a step returned."""
