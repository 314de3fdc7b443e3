"""The adapter for PettingZoo environments."""
