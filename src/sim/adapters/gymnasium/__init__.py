"""The adapter for Gymnasium environments."""
