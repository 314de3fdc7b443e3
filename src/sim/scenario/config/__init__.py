"""A scenario as it is written: TOML read and checked."""
