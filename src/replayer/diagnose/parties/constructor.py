"""In a party's process: note the arguments that a simulation is constructed with, and replace some of them."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Self

KEPT_MAX = 10_000  # Objects whose construction is noted: the simulation comes early, its parts may be many.
LITERAL_CHARS_MAX = 2_000


class ConstructorWatch:
    """Notes each call of an ``__init__`` that is written in Python, while it is open."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[Any, dict[str, Any]]] = {}  # The object is kept: its id must not be used again.
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
        self._calls[id(made)] = (made, arguments)

    def arguments_of(self, made: Any) -> dict[str, str | None]:
        """The arguments that an object was constructed with, as literals; None for values that are none."""
        _, arguments = self._calls.get(id(made), (None, {}))
        return {name: literal_of(value) for name, value in arguments.items()}


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
