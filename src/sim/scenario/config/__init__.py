"""A scenario file as classes: TOML, read and checked."""
