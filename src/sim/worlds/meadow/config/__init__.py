"""The configuration of a meadow: TOML, read and checked."""

from sim.worlds.meadow.config.meadow import read_config

__all__ = ["read_config"]
