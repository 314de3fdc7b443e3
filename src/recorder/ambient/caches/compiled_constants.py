"""The values of globals and of closures that numba took as constants when it compiled a function: later changes have no effect.

Such a function keeps them as a cache keeps results. Numba has no call that tells them: they are read from what it keeps of each
function that it compiled in this process, see frozen_constants.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator, Mapping
from types import CellType, FunctionType, ModuleType
from typing import Any

from recorder.ambient.outside.code_parts.frozen_constants import (
    UNKNOWN,
    are_same,
    constants_of,
    current_value,
    names_taken,
    overloads_of,
)
from recorder.ambient.outside.code_parts.machine_code import is_compiled
from recorder.ambient.roots import Roots, put_cache

Key = tuple[str, str]  # The label of a compiled function, and the name that it took the value of.


class CompiledFunctions:
    """The functions around a simulation that numba compiles when they are called, by their labels, such as "kernels.sail"."""

    def __init__(self, roots: Roots, *, with_early: bool = False) -> None:
        """What is compiled already is left alone: each process compiles it as it imports the modules. with_early: not so."""
        self._roots = roots
        self._early = {id(one): one for one in _found(roots).values() if overloads_of(one) and not with_early}

    def now(self) -> dict[str, Any]:
        """Those that are in place."""
        return {label: one for label, one in _found(self._roots).items() if id(one) not in self._early}

    def constants(self) -> dict[Key, Any]:
        """The plain values that those which are compiled now took as constants."""
        return {(label, name): value for label, one in self.now().items() for name, value in constants_of(one).items()}

    def changed(self) -> set[Key]:
        """What was taken as a constant and has another value now."""
        present, taken = self.now(), self.constants()
        return {
            (label, name)
            for (label, name), one in taken.items()
            if not are_same(one, current_value(present[label], name))
        }

    def renew(self, changed: Iterable[Key]) -> None:
        """Replace the functions that took what changes, and those that call them, by new ones, which are compiled at their call."""
        present = self.now()
        self.put({label: _new(present[label], {}) for label in self._with_callers({label for label, _ in changed})})

    def with_constants(self, values: Mapping[Key, Any]) -> None:
        """Put new functions in place, to be compiled with these values as constants, and new ones that call them.

        They take all else as they are compiled with now. A value that is UNKNOWN: the function takes all as it is at its call.
        """
        present, taken = self.now(), self.constants() | dict(values)
        is_open = {label for (label, _), value in values.items() if value is UNKNOWN}
        for label in self._with_callers({label for label, _ in values}):
            kept = {name: one for (own, name), one in taken.items() if own == label and label not in is_open}
            self.put({label: _new(present[label], kept)})

    def lines(self, key: Key) -> tuple[str, list[int]]:
        """The file of a function, and the numbers of its lines that read the name."""
        code = self.now()[key[0]].py_func.__code__
        found = {one.positions.lineno for one in dis.get_instructions(code) if one.argval == key[1] and one.positions}
        return code.co_filename, sorted(number for number in found if number is not None)

    def _with_callers(self, labels: set[str]) -> set[str]:
        """Compiled code holds what it calls."""
        present = self.now()
        while True:
            held = {id(present[label]) for label in labels if label in present}
            callers = {label for label, one in present.items() if held & set(map(id, _compiled_with(one)))}
            if callers <= labels:
                return labels & present.keys()
            labels = labels | callers

    def put(self, functions: Mapping[str, Any]) -> None:
        """Put functions in place of those with their labels, under each name."""
        old = {id(one): label for label, one in self.now().items()}
        for holder, name, value in list(_places(self._roots)):
            label = old.get(id(value), "")
            if label in functions:
                put_cache(holder, name, functions[label])


def _places(roots: Roots) -> Iterator[tuple[ModuleType | type, str, Any]]:
    holders: list[ModuleType | type] = [*roots.modules.values(), *roots.classes]
    for holder in holders:
        for name, value in list(vars(holder).items()):
            if is_compiled(value) and not _is_fixed(value):
                yield holder, name, value


def _found(roots: Roots) -> dict[str, Any]:
    found = dict[str, Any]()
    for _, _, value in _places(roots):
        label = f"{value.py_func.__module__}.{value.py_func.__qualname__}"
        found.setdefault(label, value)
    return found


def _is_fixed(function: Any) -> bool:
    """Return True for one with declared signatures: it is compiled where it is defined, in each process alike."""
    return not getattr(function, "_can_compile", False) or not hasattr(function, "targetoptions")


def _compiled_with(function: Any) -> list[Any]:
    return [value for _, value in names_taken(function) if is_compiled(value)]


class _Globals(dict[str, Any]):
    """The globals of a module, with other values of some: the rest may change until the function is compiled."""

    def __init__(self, module: dict[str, Any], values: Mapping[str, Any]) -> None:
        super().__init__(module)
        self._module, self._values = module, values

    def __contains__(self, name: object) -> bool:
        return name in self._values or name in self._module

    def __getitem__(self, name: str) -> Any:
        return self._values[name] if name in self._values else self._module[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name."""
        return self._values.get(name, self._module.get(name, default))


def _new(function: Any, values: Mapping[str, Any]) -> Any:
    """A function of the same code and options that is not compiled yet. values: which it takes as constants in place of its own."""
    plain = function.py_func
    if values:
        code = plain.__code__
        cells = zip(code.co_freevars, plain.__closure__ or (), strict=True)
        closure = tuple(CellType(values[name]) if name in values else cell for name, cell in cells)
        copy = FunctionType(
            code, _Globals(plain.__globals__, values), plain.__name__, plain.__defaults__, closure or None
        )
        copy.__kwdefaults__, copy.__qualname__, copy.__module__ = (
            plain.__kwdefaults__,
            plain.__qualname__,
            plain.__module__,
        )
        plain = copy
    return type(function)(plain, function.locals, function.targetoptions)
