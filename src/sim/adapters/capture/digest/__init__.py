"""Tokens and contents of values for a digest of them, without the code that captures."""
