"""A meadow as it is written: TOML read and checked."""
