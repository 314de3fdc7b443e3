"""The background writer thread and its queue from the simulation's thread."""
