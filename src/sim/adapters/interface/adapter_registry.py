"""Find the adapter for a simulation through entry points, so that other packages can add adapters.

An entry point of the group ``sim.adapters`` is named after the package whose objects it adapts (``gymnasium``,
``mesa``) and loads an Adapter. It is imported only when such an object exists. A tape names the adapter that made it.
The name is looked up among the installed entry points; nothing else that a tape names is imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from sim.extras import missing_package

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "sim.adapters"


class NoAdapterError(LookupError):
    """There is no adapter for an object, or its package is not installed; the message gives a remedy."""


class NoStepError(TypeError):
    """An object has no method of the name that its step is said to have; the message lists its methods.

    Attributes:
        methods: the names of the object's public methods, in order.
    """

    def __init__(self, message: str, methods: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.methods = methods


class NotCapturedError(TypeError):
    """A simulation holds something that cannot be saved; the message names it and lists the options."""


class MissingPartError(NotCapturedError):
    """A saved part, such as a wrapper of an environment, has no object that it could be restored into.

    Attributes:
        part: its name. made: the names of the parts of the object at hand.
    """

    def __init__(self, part: str, made: tuple[str, ...]) -> None:
        super().__init__(part, made)
        self.part, self.made = part, made

    def __str__(self) -> str:
        return (
            f"expected an object with the part {self.part}, got {', '.join(self.made)}: make the object as it "
            "was made for the recording, of a class of the same name; a class that was renamed needs its old name"
        )


@attrs.frozen
class Adapter:
    """The functions that record the simulations of one package and build it again.

    Attributes:
        name: of the entry point: the package whose objects it adapts.
        adapt: from such an object, and the keyword arguments level, ignore and pickler (see sim.adapters.adapt; pickler
            is None without trust), to a simulation with ``.state`` and ``.step``, or ``.save``, ``.load`` and
            ``.step``. It has ``.level``, ``.report()``, and ``.adapter``, plain data for the tape: name, class, report,
            subject (for rebuild) and ignored. Raises NotCapturedError, and TypeError or ValueError for other arguments.
        door: from that simulation and its recorder (an object with ``step(inputs)`` and ``close(outcome)``) to the
            object that the user continues with in place of the original.
        rebuild: from a tape's description of the object to a new object, or None if only the user can make it. It may
            call only installed code that is registered under a name.
        player: from a simulation and a seed to a function that returns the inputs of each next step, for tests. Equal
            seeds give equal inputs; by default the inputs are None.
        has_short_steps: a step may take a few microseconds, millions of times: per-field hashes are off by default.
    """

    name: str
    adapt: Callable[..., Any]
    door: Callable[[Any, Any], Any]
    rebuild: Callable[[Mapping[str, Any]], Any | None] = lambda _: None
    player: Callable[[Any, int], Callable[[], Any]] = lambda _, __: lambda: None
    has_short_steps: bool = False


@functools.cache
def _points() -> tuple[EntryPoint, ...]:
    from importlib import metadata  # noqa: PLC0415 - it brings half of the standard library along

    return tuple(metadata.entry_points(group=ENTRY_POINT_GROUP))


def adapter_names() -> list[str]:
    """The names of all installed adapters, sorted; the packages that they adapt may be missing."""
    return sorted({point.name for point in _points()})


def adapter_named(name: str) -> Adapter:
    """The installed adapter of this name.

    Raises NoAdapterError if there is none, or its package cannot be imported; TypeError if it is not an Adapter.
    """
    for point in _points():
        if point.name == name:
            try:
                adapter = point.load()
            except ModuleNotFoundError as error:
                package = f"the package {error.name!r}, which is not installed"
                raise NoAdapterError(missing_package(f"the adapter {name!r}", package, extra=name)) from None
            if not isinstance(adapter, Adapter):
                raise TypeError(f"entry point {name}: expected an Adapter, got {type(adapter).__name__}")
            return adapter
    raise NoAdapterError(f"no adapter named {name!r} is installed; installed: {', '.join(adapter_names()) or 'none'}")


def adapter_for(candidate: object) -> Adapter | None:
    """The adapter for the package of the candidate's class, or of one of its base classes; None if there is none."""
    names = set(adapter_names())
    for kind in type(candidate).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in names:
            return adapter_named(package)
    return None
