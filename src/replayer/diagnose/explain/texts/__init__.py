"""Texts of values for people."""
