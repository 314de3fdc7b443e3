"""The adapter for MuJoCo models and data."""
