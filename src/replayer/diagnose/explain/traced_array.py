"""Watch the operations of a step: views that report each operation on an array, and modules that report each call.

A view shares the memory of its array and computes the same results. Views and watched modules stay in place until the
process ends: use them in a process that runs one traced step and nothing else.
"""

from __future__ import annotations

import math
import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from operator import is_
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from replayer.diagnose.explain.texts.item_names import item_names
from sim.kernel.simulation import ArenaOfSaved, Simulation
from sim.kernel.state import State

# Name, digests of inputs, digests of outputs, the names of the outputs that are parts of the result.
Note = Callable[[str, list[int], list[int], list[str]], None]

_WATCHED: tuple[ModuleType, ...] = (np, random, math, time, os, uuid, secrets)
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, np.ufunc, type(np.sum))
_METHODS = (
    "all any argmax argmin argpartition argsort astype byteswap choose clip compress conj copy cumprod cumsum diagonal dot "
    "flatten max mean min nonzero partition prod put repeat round searchsorted sort std sum take trace var fill"
)
_IN_PLACE = {"fill", "partition", "put", "sort"}
_ATTRIBUTES_DEEP = 2  # Levels below a simulation that are searched for arrays: self.x, and self.grid.x.


class OperationWatch:
    """The receiver of the operations of one step.

    Attributes:
        quiet: set during computations that are not the user's operations.
    """

    def __init__(self, digest: Callable[[Any], int], note: Note) -> None:
        self._digest = digest
        self._note = note
        self.quiet = False

    def run(self, name: str, call: Callable[[], Any], inputs: Iterable[Any], changed: Iterable[Any] = ()) -> Any:
        """Call, report, and return the result with views over its arrays. changed: inputs that the call may change."""
        if self.quiet:
            return call()
        self.quiet = True
        try:
            input_digests = [self._digest(value) for value in inputs]
            result = call()
            outputs, parts = _outputs(result)
            output_digests = [self._digest(value) for value in outputs]
            self._note(name, input_digests, output_digests + [self._digest(value) for value in changed], parts)
        finally:
            self.quiet = False
        return tuple(map(viewed, result)) if type(result) is tuple else viewed(result)


def _outputs(result: Any) -> tuple[tuple[Any, ...], list[str]]:
    """The values that a call gave, and their names if they are parts of its result.

    The arrays of a tuple are compared one by one. A tuple with names, such as a time of the system, is one value.
    """
    if not isinstance(result, tuple):
        return (result,), []
    names = item_names(result)
    if names and not any(isinstance(one, np.ndarray | np.generic) for one in result):
        return (result,), []
    return result, [names.get(number, f"[{number}]") for number in range(len(result))]


_lays_views = [True]  # False for a simulation that is captured: only arrays of the exact class are saved.
_watch: list[OperationWatch] = []  # The current watch; a class of arrays has no other access to it.


def viewed(value: Any) -> Any:
    """A plain array with a view over it, if views are laid over arrays; anything else as it is."""
    return value.view(WatchedArray) if type(value) is np.ndarray and _lays_views[-1] else value


def plain(value: Any) -> Any:
    """The array below a view, also in lists, tuples and dicts; anything else as it is.

    A list or a dict without views is given as it is: a function may change it, as random.shuffle does.
    """
    if isinstance(value, WatchedArray):
        return value.view(np.ndarray)
    if isinstance(value, WatchedCall):
        return value.original
    if type(value) in {list, tuple}:
        parts = [plain(part) for part in value]
        return value if all(map(is_, parts, value)) else type(value)(parts)
    if type(value) is dict:
        inner = {key: plain(part) for key, part in value.items()}
        return value if all(map(is_, inner.values(), value.values())) else inner
    return value


class WatchedArray(np.ndarray[Any, Any]):
    """An array that reports the operations that it takes part in."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        """Run a ufunc of NumPy, or a reduction by one, and report it."""
        out = settings.pop("out", None)
        below = [plain(value) for value in inputs]
        rest = {name: plain(value) for name, value in settings.items()}
        if out is not None:
            rest["out"] = tuple(plain(value) for value in out)
        name = f"np.{ufunc.__name__}{'' if method == '__call__' else f'.{method}'}"
        changed = [below[0]] if method == "at" else []
        result = report(name, lambda: getattr(ufunc, method)(*below, **rest), [*below, settings], changed)
        if out is not None:
            return out[0] if len(out) == 1 else tuple(out)
        return result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Run any other function of NumPy, and report it."""
        positional, named = plain(tuple(args)), plain(dict(kwargs))
        changed = [value for value in (named.get("out"),) if value is not None]
        result = report(_name_of(func), lambda: func(*positional, **named), [*positional, named], changed)
        out = kwargs.get("out")
        return out if out is not None else result

    def __setitem__(self, key: Any, value: Any) -> None:
        below = self.view(np.ndarray)
        key, value = plain(key), plain(value)
        report("ndarray[...] =", lambda: below.__setitem__(key, value), [key, value, below], [below])


def _watched_method(name: str) -> Callable[..., Any]:
    def method(self: WatchedArray, *args: Any, **kwargs: Any) -> Any:
        below, positional, named = self.view(np.ndarray), plain(args), plain(kwargs)
        changed = [below] if name in _IN_PLACE else []
        result = report(
            f"ndarray.{name}", lambda: getattr(below, name)(*positional, **named), [below, *positional, named], changed
        )
        out = kwargs.get("out")
        return out if out is not None else result

    return method


for _name in _METHODS.split():
    setattr(WatchedArray, _name, _watched_method(_name))


def report(name: str, call: Callable[[], Any], inputs: list[Any], changed: list[Any]) -> Any:
    """Call, report the operation while a step is watched, and return the result with views over its arrays."""
    return _watch[-1].run(name, call, inputs, changed) if _watch else viewed(call())


def _name_of(function: Any) -> str:
    module = str(getattr(function, "__module__", "") or "numpy")
    return (
        f"{'np' + module.removeprefix('numpy')}.{function.__name__}"
        if module.startswith("numpy")
        else (f"{module}.{function.__name__}")
    )


# --- functions that are called


class WatchedCall:
    """A function that reports each call; otherwise it equals the function that it replaces."""

    def __init__(self, name: str, function: Any) -> None:
        self._name = name
        self.original = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, and report it."""
        positional, named = plain(args), plain(kwargs)
        result = report(self._name, lambda: self.original(*positional, **named), [*positional, named], [])
        out = kwargs.get("out")
        return out if isinstance(out, WatchedArray) else result

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.original, name)
        return (
            WatchedCall(f"{self._name}.{name}", value)
            if isinstance(self.original, np.ufunc) and callable(value)
            else value
        )


class WatchedModule(ModuleType):
    """A module whose functions report each call."""

    def __init__(self, name: str, module: ModuleType) -> None:
        super().__init__(module.__name__)
        self.__dict__.update({"_shown": name, "_module": module})

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__dict__["_module"], name)
        shown = f"{self.__dict__['_shown']}.{name}"
        if isinstance(value, ModuleType):
            watched: Any = WatchedModule(shown, value) if value.__name__.startswith("numpy.") else value
        else:
            watched = WatchedCall(shown, value) if isinstance(value, _FUNCTIONS) else value
        self.__dict__[name] = watched
        return watched


def watch_modules(is_own: Callable[[str], bool]) -> None:
    """Make the functions of NumPy, random, math, time, os, uuid and secrets report calls by the user's modules."""
    shown = {id(module): WatchedModule("np" if module is np else module.__name__, module) for module in _WATCHED}
    named = {
        id(value): WatchedCall(f"{shown[id(module)].__dict__['_shown']}.{name}", value)
        for module in reversed(_WATCHED)
        for name, value in vars(module).items()
        if isinstance(value, _FUNCTIONS) and not name.startswith("_")
    }
    for module in list(sys.modules.values()):
        if is_own(getattr(module, "__file__", None) or ""):
            for name, value in list(vars(module).items()):
                replaced = shown.get(id(value)) or named.get(id(value))
                if replaced is not None:
                    setattr(module, name, replaced)


# --- the arrays of a simulation


def watch_arrays(simulation: Simulation) -> None:
    """Lay views over the state's fields and over the arrays that the simulation's attributes hold."""
    state = simulation.state

    class WatchedState(type(state)):  # type: ignore[misc] # a subclass of the user's own class of states
        """A state whose fields report the operations on them."""

        def __getitem__(self, name: str) -> Any:
            return viewed(super().__getitem__(name))

    WatchedState.__name__, WatchedState.__qualname__ = type(state).__name__, type(state).__qualname__  # As it is shown.
    state.__class__ = WatchedState
    _view_attributes(simulation.inner if isinstance(simulation, ArenaOfSaved) else simulation, _ATTRIBUTES_DEEP)


def _view_attributes(holder: Any, levels: int) -> None:
    attributes = getattr(holder, "__dict__", None)
    if not isinstance(attributes, dict) or isinstance(holder, State | ModuleType | type):
        return
    for name, value in list(attributes.items()):
        if type(value) is np.ndarray:
            attributes[name] = viewed(value)
        elif levels > 1:
            _view_attributes(value, levels - 1)


def start_watching(watch: OperationWatch, *, lays_views: bool) -> None:
    """Report operations to watch from now on; without views over arrays, only calls of functions."""
    _watch.append(watch)
    _lays_views.append(lays_views)


def stop_watching() -> None:
    """Stop reporting operations."""
    _watch.clear()
    del _lays_views[1:]
