"""The background writer thread, and what the simulation thread hands to it."""
