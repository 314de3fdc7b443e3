"""Objects of compiled packages inside an environment: their state as plain arrays, through a bridge for each package.

For example, a MuJoCo environment of Gymnasium has an MjData among its attributes, which has no Python attributes.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Protocol

from sim.adapters.capture.survey import field_name
from sim.kernel.class_names import package_of

_BRIDGES = {  # By package: the module with bridges_in(attributes).
    "ale_py": "sim.adapters.ale.emulator",
    "mujoco": "sim.adapters.mujoco.mjdata",
}
_PLAIN_VALUES = {"ale_py": ("Action",)}  # Their values are state as numbers are.


class Native(Protocol):
    """A bridge to one object of a compiled package."""

    arrays: Any

    def take(self) -> None:
        """Copy its state into the attributes of ``arrays``."""

    def put(self) -> None:
        """Restore it from ``arrays``."""


def is_native(value: Any) -> bool:
    """Return True if value belongs to a package that has a bridge."""
    package = _package_of(value)
    return package in _BRIDGES and type(value).__name__ not in _PLAIN_VALUES.get(package, ())


def _package_of(value: Any) -> str:
    """The package whose bridge a value needs; a bridge may put an object of ours in the place of the package's."""
    return getattr(type(value), "native_package", None) or package_of(type(value))


def find_natives(layers: Iterable[tuple[str, Any]]) -> list[tuple[str, Native]]:
    """The native objects among the attributes of the layers, each with a name for its own layer."""
    natives: list[tuple[str, Native]] = []
    for name, layer in layers:
        for package in sorted({_package_of(value) for value in vars(layer).values()} & _BRIDGES.keys()):
            bridges = importlib.import_module(_BRIDGES[package]).bridges_in(vars(layer))
            natives += [(field_name(name, attribute), native) for attribute, native in bridges]
    return natives
