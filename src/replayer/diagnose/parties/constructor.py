"""In a party's process: note the arguments that a simulation is constructed with, and replace some of them."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import attrs

from recorder.ambient.outside.own_code import is_users_file
from replayer.diagnose.explain.source_lines import SourceFile

KEPT_MAX = 10_000  # Objects whose construction is noted: the simulation comes early, its parts may be many.
LITERAL_CHARS_MAX = 2_000


@attrs.frozen(eq=False)
class _Call:
    """A call of a constructor.

    Attributes:
        arguments: by name.
        code: of the constructor.
        caller: the code that calls it.
        line: of the call.
        position: where the call stands in its file: the lines and columns of its begin and end.
    """

    arguments: dict[str, Any]
    code: CodeType
    caller: CodeType | None
    line: int
    position: tuple[int | None, ...]

    @staticmethod
    def of(frame: FrameType, arguments: dict[str, Any]) -> _Call:
        """The call that a new frame is of."""
        caller = frame.f_back
        if caller is None:
            return _Call(arguments, frame.f_code, None, 0, ())
        positions = itertools.islice(caller.f_code.co_positions(), caller.f_lasti // 2, None)
        return _Call(arguments, frame.f_code, caller.f_code, caller.f_lineno, next(positions, ()))

    def places(self, constructor: Callable[..., None]) -> dict[str, str]:
        """The lines that give the arguments, by name, as far as they are of the user's code."""
        if self.caller is None or not is_users_file(self.caller.co_filename):
            return {}
        found, call = {}, _call_at(self.caller.co_filename, self.position)
        for name, value in self.arguments.items():
            line = self.line if call is None else _line_of(call, name, self.code)
            if line is not None:
                found[name] = f"given at {Path(self.caller.co_filename).name}:{line}"
            elif _is_default(constructor, name, value) and (line := _default_line(self.code, name)) is not None:
                # Not of each argument that is not in the call: a partial function may bring it.
                found[name] = f"the default at {Path(self.code.co_filename).name}:{line}"
        return found


def _call_at(file: str, position: tuple[int | None, ...]) -> ast.Call | None:
    for node in ast.walk(SourceFile(file).tree):
        if isinstance(node, ast.Call) and position == (
            node.lineno,
            node.end_lineno,
            node.col_offset,
            node.end_col_offset,
        ):
            return node
    return None


def _line_of(call: ast.Call, name: str, code: CodeType) -> int | None:
    """The line of an argument in a call of a constructor; that of the call if it is unpacked; None if it is not given."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value.lineno
    names = code.co_varnames[1 : code.co_argcount]
    for number, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            return call.lineno
        if number < len(names) and names[number] == name:
            return argument.lineno
    return call.lineno if any(keyword.arg is None for keyword in call.keywords) else None


def _is_default(constructor: Callable[..., None], name: str, value: Any) -> bool:
    try:
        parameter = inspect.signature(constructor).parameters.get(name)
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.default is value


def _default_line(code: CodeType, name: str) -> int | None:
    """The line of a parameter of a constructor of the user's; None if it is not found."""
    if not is_users_file(code.co_filename):
        return None
    for node in ast.walk(SourceFile(code.co_filename).tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            given = [one for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if one.arg == name]
            if first == code.co_firstlineno and given:
                return given[0].lineno
    return None


class ConstructorWatch:
    """Notes each call of an ``__init__`` that is written in Python, while it is open."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[Any, _Call]] = {}  # The object is kept: its id must not be used again.
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_name != "__init__" or not code.co_argcount or len(self._calls) >= KEPT_MAX:
            return
        variables = frame.f_locals
        made = variables.get(code.co_varnames[0])
        if made is None or id(made) in self._calls:
            return  # The outermost constructor of an object comes first.
        names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        arguments = {name: variables[name] for name in names if name in variables}
        extra = code.co_argcount + code.co_kwonlyargcount
        if code.co_flags & inspect.CO_VARARGS:
            extra += 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            arguments |= variables.get(code.co_varnames[extra], {})
        self._calls[id(made)] = made, _Call.of(frame, arguments)

    def arguments_of(self, made: Any) -> dict[str, str | None]:
        """The arguments that an object was constructed with, as literals; None for values that are none."""
        _, call = self._calls.get(id(made), (None, None))
        return {name: literal_of(value) for name, value in call.arguments.items()} if call is not None else {}

    def places_of(self, made: Any) -> dict[str, str]:
        """The lines that give these arguments, by name: "given at host.py:8", or "the default at game.py:23"."""
        _, call = self._calls.get(id(made), (None, None))
        return call.places(type(made).__init__) if call is not None else {}


def literal_of(value: Any) -> str | None:
    """The Python literal of plain data; None for other values."""
    if not _is_plain(value):
        return None
    text = repr(value)
    return text if len(text) <= LITERAL_CHARS_MAX else None


def _is_plain(value: Any, depth: int = 0) -> bool:
    if type(value) in (list, tuple, set) and depth < 5:
        return all(_is_plain(item, depth + 1) for item in value) and not (type(value) is set and not value)
    if type(value) is dict and depth < 5:
        return all(_is_plain(item, depth + 1) for pair in value.items() for item in pair)
    if type(value) is float:
        return value - value == 0  # Infinities and NaN have no literals.
    return type(value) in (bool, int, str, bytes, type(None))


def replace_arguments(class_name: str, literals: Mapping[str, str]) -> None:
    """From now on, objects of exactly this class (module:name) are constructed with these arguments.

    Raises ValueError if the class is not found, or its constructor does not take them.
    """
    module_name, _, name = class_name.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise ValueError(f"the class {class_name} is not found by its name")  # noqa: TRY004 - what the user gave is at fault
    original: Callable[..., None] = found.__init__  # type: ignore[misc]
    signature = inspect.signature(original)
    values = {argument: ast.literal_eval(literal) for argument, literal in literals.items()}
    refused = [argument for argument in values if argument not in signature.parameters]
    if refused:
        raise ValueError(f"the constructor of {name} takes no argument {refused[0]}")

    @functools.wraps(original)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is not found:
            original(self, *args, **kwargs)
            return
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        bound.arguments.update(values)
        original(*bound.args, **bound.kwargs)

    found.__init__ = construct  # type: ignore[misc]
