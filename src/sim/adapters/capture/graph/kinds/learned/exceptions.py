"""Exceptions that an object keeps: their class, arguments, cause and attributes. A traceback holds frames, and is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.adapters.capture.graph.kinds.kind_protocol import Plain, StrongKind, wrong_data
from sim.adapters.capture.graph.names.python_class import is_python_class
from sim.adapters.capture.graph.unsavable import UnsavableError


def is_plain_exception(kind: Any) -> bool:
    """Return True for a class of exceptions that hold nothing but what BaseException and a dict hold."""
    if not issubclass(kind, BaseException):
        return False
    for one in kind.__mro__:
        if not is_python_class(one):
            return bool(one.__basicsize__ == BaseException.__basicsize__ and one.__module__ == "builtins")
        if "__new__" in vars(one) or "__slots__" in vars(one):
            return False
    return False


class ExceptionKind(StrongKind):
    """An exception without a traceback."""

    name = "exception"

    def take(self, value: BaseException) -> tuple[Plain, tuple[Any, ...]]:
        """The names of its attributes, and its class, arguments, cause, context and the attributes' values."""
        if value.__traceback__ is not None:
            raise UnsavableError(
                "an exception with a traceback, which refers to frames",
                "keep its text, or error.with_traceback(None)",
                value,
            )
        held = dict(sorted(vars(value).items()))
        chain = (value.__cause__, value.__context__)
        return [list(held), value.__suppress_context__], (type(value), value.args, *chain, *held.values())

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """An exception of this class; its __init__ is not called."""
        match plain, parts:
            case [[*names], bool(is_suppressed)], [type() as kind, tuple(args), cause, context, *values] if (
                is_plain_exception(kind) and all(isinstance(name, str) for name in names)
            ):
                made: Any = BaseException.__new__(kind)
                made.args, made.__cause__, made.__context__ = args, cause, context
                made.__suppress_context__ = is_suppressed
                vars(made).update(zip(names, values, strict=True))
                return made
        raise wrong_data(self.name)
