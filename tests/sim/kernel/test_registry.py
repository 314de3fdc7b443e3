"""Worlds by name."""

from __future__ import annotations

import copy

import pytest

from sim import ConfigError, UnknownWorldError, World, find_world, world_names
from sim.worlds.meadow import WORLD


def test_an_installed_world_is_found_by_its_name() -> None:
    """The entry point 'meadow' leads to the meadow."""
    assert find_world("meadow") is WORLD
    assert isinstance(WORLD, World)
    assert "meadow" in world_names()
    assert world_names() == sorted(world_names())


def test_an_unknown_world_lists_those_that_are_installed() -> None:
    """A name that no entry point has is refused; nothing is imported for it."""
    with pytest.raises(UnknownWorldError) as caught:
        find_world("os:system")
    assert str(caught.value) == f"no world named 'os:system' is installed; installed: {', '.join(world_names())}"


def test_a_config_error_names_the_key_and_can_be_copied() -> None:
    """One line with the place in front, also after a copy, which is how one goes from process to process."""
    error = ConfigError("flora[0].name", "text was expected, found 5")

    assert str(error) == "flora[0].name: text was expected, found 5"
    assert str(ConfigError("", "no TOML")) == "no TOML"
    assert str(copy.copy(error)) == str(error)
