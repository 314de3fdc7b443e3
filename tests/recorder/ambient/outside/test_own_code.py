"""Which files are the user's code, which this library's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import recorder
import replayer
import sim
from recorder.ambient.outside.own_code import OwnCode, is_librarys
from sim.worlds.meadow import Meadow

_WORLDS = ("worlds", "scenario")


def test_every_file_of_the_library_is_its_own_but_those_of_worlds() -> None:
    """A file that is not would be traced as the user's wherever a watched operation calls it."""
    is_own = OwnCode(Plain())
    for package in (sim, recorder, replayer):
        root = Path(str(package.__file__)).parent
        for path in root.rglob("*.py"):
            is_world = package is sim and path.relative_to(root).parts[0] in _WORLDS
            assert is_librarys(str(path)) == (not is_world), path
            assert is_own(str(path)) <= is_world, path


def test_a_world_of_the_library_is_the_users_code() -> None:
    assert OwnCode(object.__new__(Meadow))(str(sys.modules[Meadow.__module__].__file__))


class Plain:
    """Of this file: the user's."""

    state: Any = None

    def step(self, inputs: object) -> None: ...


def test_this_file_is_the_users_code() -> None:
    assert OwnCode(Plain())(__file__)
