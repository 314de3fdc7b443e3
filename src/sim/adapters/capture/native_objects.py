"""Objects of compiled packages inside an environment: their state as plain arrays, through a bridge for each package.

For example, a MuJoCo environment of Gymnasium has an MjData among its attributes, which has no Python attributes.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Protocol

from sim.adapters.capture.survey import field_name
from sim.kernel.class_names import package_of

_BRIDGES = {"mujoco": "sim.adapters.mujoco.mjdata"}  # By package: the module with bridges_in(attributes).


class Native(Protocol):
    """A bridge to one object of a compiled package."""

    arrays: Any

    def take(self) -> None:
        """Copy its state into the attributes of ``arrays``."""

    def put(self) -> None:
        """Restore it from ``arrays``."""


def is_native(value: Any) -> bool:
    """Return True if value belongs to a package that has a bridge."""
    return package_of(type(value)) in _BRIDGES


def find_natives(layers: Iterable[tuple[str, Any]]) -> list[tuple[str, Native]]:
    """The native objects among the attributes of the layers, each with a name for its own layer."""
    natives: list[tuple[str, Native]] = []
    for name, layer in layers:
        for package in sorted({package_of(type(value)) for value in vars(layer).values()} & _BRIDGES.keys()):
            bridges = importlib.import_module(_BRIDGES[package]).bridges_in(vars(layer))
            natives += [(field_name(name, attribute), native) for attribute, native in bridges]
    return natives
