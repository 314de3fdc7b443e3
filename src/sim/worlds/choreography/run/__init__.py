"""The interpreter of projected protocols, as a simulation."""
