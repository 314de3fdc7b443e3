"""Conformance checks of a simulation by trials: repeat, save and load, restart in another process."""
