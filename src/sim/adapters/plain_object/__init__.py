"""The adapter for any Python object with a step."""
