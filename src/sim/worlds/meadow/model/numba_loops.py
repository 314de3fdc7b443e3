"""Have a loop of the meadow compiled by numba, where that is installed and a meadow is large enough to gain from it.

Compiled or not, a loop does the same to the last bit: it is one and the same function, of whole numbers alone, and
nothing is switched on that would let the compiler change what it computes (no fastmath, no threads). An index that is
not there raises IndexError in both. numba keeps what it has compiled, beside this file or in the user's cache folder.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import attrs
import numpy.typing as npt

Function = Callable[..., Any]

# From how many on it pays to import numba, which takes as long as some hundred ticks of less.
SWARMS_MIN, PLANTS_MIN, CELLS_MIN = 1_000, 20_000, 100_000


@attrs.frozen
class Loop:
    """A loop in one of its two forms.

    Attributes:
        run: the function.
        hold: makes of an array what the function takes for it, to be read and written item by item.
        view: the same for an array of one axis of which only few places are looked at: written through.
    """

    run: Function
    hold: Callable[[npt.NDArray[Any]], Any]
    view: Callable[[npt.NDArray[Any]], Any]


def loop_for(count: int, least: int, function: Function, *helpers: Function) -> Loop:
    """The form of a function for a loop over so many: compiled from the least count on. helpers: what it calls."""
    compiled = compiled_for(count, least, function, *helpers)
    return Loop(function, _as_list, _as_memory) if compiled is None else Loop(compiled, _as_it_is, _as_it_is)


def compiled_for(count: int, least: int, function: Function, *helpers: Function) -> Function | None:
    """The compiled function for so many, or None: the caller then does the same otherwise."""
    return compile_loop(function, helpers) if pays(count, least) else None


def pays(count: int, least: int) -> bool:
    """Whether a loop over so many is worth it."""
    return count >= least


def _as_list(values: npt.NDArray[Any]) -> Any:
    return values.tolist()


def _as_memory(values: npt.NDArray[Any]) -> Any:
    return values.data


def _as_it_is(values: npt.NDArray[Any]) -> Any:
    return values


@functools.cache
def compile_loop(function: Function, helpers: tuple[Function, ...]) -> Function | None:
    """The function as numba compiles it, at its first call; None where numba is missing or switched off."""
    if find_spec("numba") is None:
        return None
    import numba  # noqa: PLC0415 - takes half a second

    if numba.config.DISABLE_JIT:
        return None
    for helper in helpers:
        numba.extending.register_jitable(boundscheck=True)(helper)
    try:
        compiled = numba.njit(function, boundscheck=True, cache=True)
    except RuntimeError:  # There is no folder where it could be kept.
        compiled = numba.njit(function, boundscheck=True)
    _announce(compiled)
    done: Callable[..., None] = compiled
    return done


def _announce(compiled: Any) -> None:
    """Say so when the function is compiled, which takes seconds, rather than taken from where numba has kept it."""
    from numba.core import event  # noqa: PLC0415 - as above

    class Announcement(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            if event.data["dispatcher"] is compiled:
                text = "meadow: numba compiles a loop, which takes some seconds and is kept for the next time"
                print(text, file=sys.stderr, flush=True)

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Announcement())
