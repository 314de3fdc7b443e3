"""Worlds by name."""

from __future__ import annotations

import copy

import pytest

from sim import ConfigError, UnknownWorldError, World, find_world, world_names
from sim.kernel.registry import OWN_WORLDS, _points
from sim.worlds.meadow import WORLD


def test_an_installed_world_is_found_by_its_name() -> None:
    """The entry point 'meadow' names the meadow."""
    assert find_world("meadow") is WORLD
    assert isinstance(WORLD, World)
    assert "meadow" in world_names()
    assert world_names() == sorted(world_names())


def test_an_unknown_world_lists_those_that_are_installed() -> None:
    """A name without an entry point is refused; nothing is imported for it."""
    with pytest.raises(UnknownWorldError) as caught:
        find_world("os:system")
    assert str(caught.value) == f"no world named 'os:system' is installed; installed: {', '.join(world_names())}"


def test_a_config_error_names_the_key_and_can_be_copied() -> None:
    """The text is one line that begins with the key, also after a copy: errors are copied between processes."""
    error = ConfigError("flora[0].name", "expected text, got 5")

    assert str(error) == "flora[0].name: expected text, got 5"
    assert str(ConfigError("", "not TOML")) == "not TOML"
    assert str(copy.copy(error)) == str(error)


def test_the_names_of_own_worlds_are_those_that_are_installed() -> None:
    """They are found without the list of what is installed, which has them, too."""
    ours = {point.name: point for point in _points() if point.value.startswith("sim.worlds.")}
    assert set(ours) == OWN_WORLDS
    for name, point in ours.items():
        assert find_world(name) is point.load()
        assert find_world(name).name == name
