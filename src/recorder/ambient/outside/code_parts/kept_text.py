"""What functions keep besides their code, as text that is the same in each process."""

from __future__ import annotations

import re
import types
from typing import Any

from recorder.ambient.outside.code_parts.c_functions import c_function_text
from recorder.ambient.outside.code_text import is_constant, value_text
from recorder.ambient.outside.reached_functions import PARTIAL, VISITED_MAX, reached_functions
from recorder.ambient.roots import content_of, kept_by_decorator
from sim.kernel.class_names import MAIN, importable_module


def kept_text(value: Any, module: str) -> str | None:
    """What functions of a module, partial calls, patterns and tables of functions keep besides code.

    Free variables, arguments of partial calls, and defaults that can change; those that cannot are part of the function's text.
    Empty if nothing is kept, None if a part of it is no plain value. The module itself is not named: a program that is run,
    and a copy of the code, have another name of it.
    """
    return _text_by(_Kept(module), value, module)


def earlier_kept_texts(value: Any, module: str) -> list[str | None]:
    """The texts that earlier versions noted: with the name of the module, and with that of a program that was run."""
    return [_text_by(_EarlierKept(home), value, module) for home in ({}, {module: MAIN})]


def _text_by(kept: _Kept, value: Any, module: str) -> str | None:
    is_pattern = type(value) is re.Pattern
    functions = list(reached_functions(value))
    if not (is_pattern or type(value) in PARTIAL or any(one.__module__ == module for one in functions)):
        return ""
    try:
        text = kept.text(value)
    except _NotPlainError:
        return None
    return text if kept.is_any else ""


class _NotPlainError(Exception):
    """A value that is kept has a part that is not plain."""


class _Kept:
    """What values keep, as text.

    Attributes:
        is_any: True if there is anything besides names of functions and classes.
    """

    def __init__(self, home: str) -> None:
        """home: the module whose name is left out."""
        self.is_any = False
        self._home = importable_module(home)
        self._seen = dict[int, Any]()

    def text(self, value: Any) -> str:
        """Raises _NotPlainError."""
        kind = type(value)
        if len(self._seen) > VISITED_MAX:
            raise _NotPlainError
        if kind is types.FunctionType:
            return self._of_function(value)
        if (text := self._of_another_name(value)) is not None:
            return text
        if issubclass(kind, type):
            return self._named(value)
        if kind is re.Pattern:
            self.is_any = True
            return f"{value.pattern!r} {value.flags}"
        if kind in PARTIAL:
            arguments = [
                *map(self.text, value.args),
                *(f"{name}={self.text(one)}" for name, one in value.keywords.items()),
            ]
            return f"{self.text(value.func)}({arguments})"
        plain = value_text(value)
        if plain is not None:
            self.is_any = True
            return plain
        if kind in (list, tuple):
            self._tell_table()
            return f"{kind.__name__}({[self.text(one) for one in value]})"
        if kind is dict:
            self._tell_table()
            return f"dict({[(self.text(key), self.text(one)) for key, one in list(value.items())]})"
        inner = kept_by_decorator(value)
        if inner[0] is value:
            raise _NotPlainError
        of_class = self._of_class(value) if kind is types.MethodType else ""
        return f"{kind.__qualname__}({[self.text(one) for one in inner if one is not None]}){of_class}"

    def _of_another_name(self, value: Any) -> str | None:
        """A function of C or a module; None for anything else. Raises _NotPlainError for a method that keeps an object."""
        kind = type(value)
        if (text := c_function_text(value)) is not None:
            return text
        if issubclass(kind, types.ModuleType):
            self.is_any = True
            return f"module {importable_module(str((content_of(value) or {}).get('__name__')))}"
        if kind is types.BuiltinFunctionType or (
            kind is types.MethodType and not issubclass(type(value.__self__), type)
        ):
            raise _NotPlainError
        return None

    def _of_class(self, method: Any) -> str:
        """The class that a method is bound to."""
        return f" of {self._named(method.__self__)}"

    def _tell_table(self) -> None:
        """A table tells which functions are in it, and in which order, which no other digest does."""
        self.is_any = True

    def _named(self, value: Any) -> str:
        module = importable_module(str(value.__module__))
        package = self._home.partition(".")[0]
        if module == self._home:
            module = ""
        elif module == package or module.startswith(f"{package}."):
            module = f".{module.removeprefix(package)}"
        return f"{module}.{value.__qualname__}"

    def _of_function(self, function: types.FunctionType) -> str:
        name = self._named(function)
        if id(function) in self._seen:
            return name
        self._seen[id(function)] = function  # Alive: another function gets no id that was seen.
        cells = [self._of_cell(cell) for cell in function.__closure__ or ()]
        defaults = [*enumerate(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
        changing = [f"{key}={self.text(one)}" for key, one in defaults if not is_constant(one)]
        return f"{name}({[*cells, *changing]})"

    def _of_cell(self, cell: types.CellType) -> str:
        try:
            return self.text(cell.cell_contents)
        except ValueError:
            return "empty"


class _EarlierKept(_Kept):
    """What values keep, as the text of earlier versions."""

    def __init__(self, names: dict[str, str]) -> None:
        """names: of modules, where others are written than they have."""
        super().__init__("")
        self._names = names

    def _of_another_name(self, value: Any) -> str | None:
        kind = type(value)
        if kind in (types.BuiltinFunctionType, types.MethodType) and not (
            value.__self__ is None or issubclass(type(value.__self__), type | types.ModuleType)
        ):
            raise _NotPlainError
        return self._named(value) if kind is types.BuiltinFunctionType else None

    def _of_class(self, _: Any) -> str:
        return ""

    def _tell_table(self) -> None:
        pass

    def _named(self, value: Any) -> str:
        module = value.__module__
        return f"{self._names.get(module, module)}.{value.__qualname__}"
