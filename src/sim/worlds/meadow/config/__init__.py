"""A meadow as it is written: TOML read and checked."""

from sim.worlds.meadow.config.meadow import read_config

__all__ = ["read_config"]
