"""Objects of compiled packages inside of an environment: their state as plain arrays, by those who know the package.

An environment of Gymnasium's over MuJoCo has an MjData among its attributes, which is no Python object to look into.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Protocol

from sim.adapters.capture.survey import field_name
from sim.kernel.class_names import package_of

_BRIDGES = {"mujoco": "sim.adapters.mujoco.mjdata"}  # By package: what has bridges_in(attributes).


class Native(Protocol):
    """One such object."""

    arrays: Any

    def take(self) -> None:
        """Take its state down into the attributes of ``arrays``."""

    def put(self) -> None:
        """Make it what ``arrays`` says."""


def is_native(value: Any) -> bool:
    """Whether it belongs to a package that has a bridge."""
    return package_of(type(value)) in _BRIDGES


def find_natives(layers: Iterable[tuple[str, Any]]) -> list[tuple[str, Native]]:
    """What there is among the attributes of some layers, each with a name for its own layer."""
    found: list[tuple[str, Native]] = []
    for name, layer in layers:
        for package in sorted({package_of(type(one)) for one in vars(layer).values()} & _BRIDGES.keys()):
            bridges = importlib.import_module(_BRIDGES[package]).bridges_in(vars(layer))
            found += [(field_name(name, attribute), native) for attribute, native in bridges]
    return found
