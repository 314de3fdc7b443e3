"""Scenarios: what a run starts from and what is sent to it, as TOML files."""
