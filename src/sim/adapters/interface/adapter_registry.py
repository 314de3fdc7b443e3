"""Find the adapter for a foreign simulation, through entry points, so that others can add theirs.

An entry point of the group ``sim.adapters`` is named after the package whose objects it is for (``gymnasium``,
``mesa``), so that none is imported before such an object is there; it leads to an Adapter. A tape names the adapter
that made it; only what is installed can answer to that name, and nothing else that a tape says is imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import attrs

from sim.extras import missing_package

ENTRY_POINT_GROUP = "sim.adapters"


class NoAdapterError(LookupError):
    """There is no adapter for this, or its package is not installed; the message says what would help."""


class NotCapturedError(TypeError):
    """A simulation holds what cannot be saved; the message names it, and what there is to choose."""


@attrs.frozen
class Adapter:
    """How one kind of foreign simulation is recorded and made again.

    Attributes:
        name: of the entry point: the package whose objects it is for.
        adapt: from such an object, and the keyword arguments level, ignore and pickler (see sim.adapters.adapt; pickler is
            None without trust), to a simulation with ``.state`` and ``.step``, or ``.save``, ``.load`` and ``.step``. It
            has ``.level``, ``.report()``, and ``.adapter``, plain data for the tape: name, class, report, subject (for
            rebuild) and ignored. Raises NotCapturedError, and TypeError or ValueError for other arguments.
        door: from that simulation, what it is recorded by (something with ``step(inputs)`` and ``close(outcome)``), to
            what the user goes on with instead of the object.
        rebuild: from what a tape says about the object to the object made anew, or None if only the user can make it.
            It may call only what is installed and registered under a name.
        player: from a simulation and a seed to what gives the inputs of each next step, for tests: the same for the same
            seed; by default None at each step.
    """

    name: str
    adapt: Callable[..., Any]
    door: Callable[[Any, Any], Any]
    rebuild: Callable[[Mapping[str, Any]], Any | None] = lambda _: None
    player: Callable[[Any, int], Callable[[], Any]] = lambda _, __: lambda: None


@functools.cache
def _points() -> tuple[metadata.EntryPoint, ...]:
    return tuple(metadata.entry_points(group=ENTRY_POINT_GROUP))


def adapter_names() -> list[str]:
    """The names of all adapters that are installed, sorted; their packages may be missing."""
    return sorted({point.name for point in _points()})


def adapter_named(name: str) -> Adapter:
    """The installed adapter of this name.

    Raises NoAdapterError if there is none, or its package cannot be imported; TypeError if it leads to no Adapter.
    """
    for point in _points():
        if point.name == name:
            try:
                found = point.load()
            except ModuleNotFoundError as error:
                package = f"the package {error.name!r}, which is not installed"
                raise NoAdapterError(missing_package(f"the adapter {name!r}", package, extra=name)) from None
            if not isinstance(found, Adapter):
                raise TypeError(f"the entry point {name} leads to {type(found).__name__}, not to an Adapter")
            return found
    raise NoAdapterError(f"no adapter named {name!r} is installed; installed: {', '.join(adapter_names()) or 'none'}")


def adapter_for(candidate: object) -> Adapter | None:
    """The adapter for the package that the candidate's class, or one that it inherits from, is of; None if none is."""
    names = set(adapter_names())
    for kind in type(candidate).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in names:
            return adapter_named(package)
    return None
