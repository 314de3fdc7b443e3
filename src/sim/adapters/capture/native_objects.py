"""Objects of compiled packages inside an environment: their state as plain arrays, through a bridge for each package.

For example, a MuJoCo environment of Gymnasium has an MjData among its attributes, which has no Python attributes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from sim.adapters.capture.graph.kinds.learned.pygame_numbers import PYGAME_KINDS
from sim.adapters.capture.survey import LAYERS_MAX, field_name, is_open_object
from sim.kernel.class_names import module_of, package_of

_BRIDGES = {  # By package: the module with bridges_in(attributes).
    "ale_py": "sim.adapters.ale.emulator",
    "mujoco": "sim.adapters.mujoco.mjdata",
}
_PLAIN_VALUES = {"ale_py": ("Action",)}  # Their values are state as numbers are.
_DRAWING_PACKAGES = ("pygame", "PIL", "OpenGL", "glfw", "matplotlib")
_Find = Callable[[], dict[str, Any]]  # Returns the attributes of an object, which may be another one in each episode.


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


def is_drawing(value: Any) -> bool:
    """Return True for an object of a package that draws, which no step reads: a picture, a window, a clock.

    pygame's rectangles and vectors are numbers, and its groups of sprites are lists: games keep their state in them.
    """
    kind = type(value)
    if package_of(kind) not in _DRAWING_PACKAGES:
        return False
    module = module_of(kind)
    return module != "pygame.sprite" and f"{module}.{kind.__qualname__}" not in PYGAME_KINDS


def _package_of(value: Any) -> str:
    """The package whose bridge a value needs; a bridge may put an object of ours in the place of the package's."""
    return getattr(type(value), "native_package", None) or package_of(type(value))


@runtime_checkable
class CanFollow(Protocol):
    """A bridge that turns to the object of the package that is there now, if an environment makes it again."""

    def follow(self, find: Callable[[], Any]) -> None:
        """Call find before each copy, for the present object."""


def find_natives(layers: Iterable[tuple[str, Any]]) -> list[tuple[str, Native]]:
    """The native objects that the layers reach by attributes, each with a name for its own layer.

    Also those of objects inside a layer: an environment may keep its physics in another object.
    """
    natives: list[tuple[str, Native]] = []
    waiting: list[tuple[str, Any, _Find]] = [(name, layer, partial(_attributes_of, layer)) for name, layer in layers]
    seen = {id(layer) for _, layer, _ in waiting}
    for name, layer, find in waiting:  # It grows while it is read.
        attributes = vars(layer)
        for package in sorted({_package_of(value) for value in attributes.values()} & _BRIDGES.keys()):
            for key, native in importlib.import_module(_BRIDGES[package]).bridges_in(attributes):
                if id(attributes[key]) in seen:
                    continue
                seen.add(id(attributes[key]))
                if isinstance(native, CanFollow):
                    native.follow(partial(_value_in, find, key))
                natives.append((field_name(name, key), native))
        for attribute, value in attributes.items():
            if id(value) not in seen and is_open_object(value) and len(seen) < LAYERS_MAX:
                seen.add(id(value))
                waiting.append((f"{name}.{attribute}", value, partial(_attributes_in, find, attribute)))
    return natives


def _attributes_of(layer: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = vars(layer)
    return attributes


def _value_in(find: _Find, attribute: str) -> Any:
    return find().get(attribute)


def _attributes_in(find: _Find, attribute: str) -> dict[str, Any]:
    """The attributes of the object that is in an attribute now: an environment may make it again."""
    value = find().get(attribute)
    return vars(value) if hasattr(value, "__dict__") else {}
