"""Compile loops of the meadow with numba, if it is installed and the meadow is large enough to gain from it.

Compiled or not, a loop gives the same result to the last bit: both forms are one function of integers alone, and no
option lets the compiler change the result (no fastmath, no threads). An index out of range raises IndexError in both;
the compiler does not check it where indices follow from the shapes of arrays, or are checked before (loops.by_shape).
numba caches the compiled code, next to this file or in the user's cache folder.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import attrs
import numpy.typing as npt

from sim.waiting_notice import tell_who_waits

Function = Callable[..., Any]

# Counts from which compiled loops are worth the import of numba, which takes as long as some hundred smaller ticks.
SWARMS_MIN, PLANTS_MIN, CELLS_MIN = 1_000, 20_000, 100_000


@attrs.frozen
class Loop:
    """A loop in one of its two forms, interpreted or compiled.

    Attributes:
        run: the function.
        hold: converts an array to the function's argument type, for reading and writing item by item.
        view: converts a one-dimensional array of which few items are used; writes go through to the array.
    """

    run: Function
    hold: Callable[[npt.NDArray[Any]], Any]
    view: Callable[[npt.NDArray[Any]], Any]


def loop_for(count: int, least: int, function: Function, *helpers: Function, compiled_as: Function) -> Loop:
    """Return the form of a function for a loop over count items: compiled from least items on.

    helpers: its callees. compiled_as: the function to compile, which calls it and gives the same result.
    """
    compiled = compiled_for(count, least, compiled_as, *helpers, function)
    return Loop(function, _as_list, _as_memory) if compiled is None else Loop(compiled, _as_it_is, _as_it_is)


def compiled_for(count: int, least: int, function: Function, *helpers: Function) -> Function | None:
    """Return the compiled function for count items, or None: the caller then uses NumPy."""
    return compile_loop(function, helpers) if is_worth_it(count, least) else None


def is_worth_it(count: int, least: int) -> bool:
    """Return True if compiling is worth it for a loop over count items."""
    return count >= least


def _as_list(values: npt.NDArray[Any]) -> Any:
    return values.tolist()


def _as_memory(values: npt.NDArray[Any]) -> Any:
    return values.data


def _as_it_is(values: npt.NDArray[Any]) -> Any:
    return values


@functools.cache
def compile_loop(function: Function, helpers: tuple[Function, ...]) -> Function | None:
    """Return the function, which numba compiles at its first call; None if numba is missing or disabled."""
    if find_spec("numba") is None:
        return None
    import numba  # noqa: PLC0415 - takes half a second

    if numba.config.DISABLE_JIT:
        return None
    _teach_fetching()
    for helper in helpers:
        numba.extending.register_jitable(boundscheck=True)(helper)
    is_checked = getattr(function, "checks_indices", True)
    try:
        compiled = numba.njit(function, boundscheck=is_checked, cache=True)
    except RuntimeError:  # There is no folder for the cache.
        compiled = numba.njit(function, boundscheck=is_checked)
    _announce(compiled)
    typed: Callable[..., None] = compiled
    return typed


def _announce(compiled: Any) -> None:
    """Tell who waits at a terminal when the function is compiled, which takes seconds; it is not when the cache has it."""
    from numba.core import event  # noqa: PLC0415 - as above

    class Announcement(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            if event.data["dispatcher"] is compiled:
                tell_who_waits("meadow: numba is compiling a loop; this takes some seconds, and the result is cached")

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Announcement())


def fetch_ahead(values: Any, index: int) -> None:
    """Begin to load an item of a one-dimensional array; an index outside of it is no error. Interpreted: do nothing.

    A processor fetches ahead by itself where addresses follow a pattern. Those of the cells of plants and swarms do not.
    """


@functools.cache
def _teach_fetching() -> None:
    """Let numba compile calls of fetch_ahead to the processor's instruction."""
    from llvmlite import ir  # noqa: PLC0415 - with numba, which takes half a second
    from numba import types  # noqa: PLC0415
    from numba.core import cgutils  # noqa: PLC0415
    from numba.extending import intrinsic, overload  # noqa: PLC0415

    @intrinsic  # type: ignore[untyped-decorator]
    def fetch(_: Any, array: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            how = [ir.Constant(number, value) for value in (0, 3, 1)]  # To read, keep it in all caches, data.
            builder.call(function, [builder.bitcast(builder.gep(data, [arguments[1]]), byte), *how])
            return context.get_dummy_value()

        return types.void(array, place), generate

    @overload(fetch_ahead, inline="always")  # type: ignore[untyped-decorator]
    def compiled_form(values: Any, index: Any) -> Any:  # noqa: ARG001 - numba asks with the types
        def form(values: Any, index: Any) -> Any:
            fetch(values, index)

        return form
