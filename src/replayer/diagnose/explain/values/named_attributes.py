"""Attributes of other objects that a line names, as in ``creep.health`` or ``self.market.prices``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import FrameType
from typing import Any

from recorder.ambient.roots import is_users
from replayer.diagnose.explain.source_lines import Statement
from replayer.diagnose.explain.value_hash import attributes_of, is_data

_PLAIN = (int, float, complex, str, bytes)
_PLAIN_MEMBERS = frozenset({*_PLAIN, bool, type(None)})  # Their hashes and comparisons run no code of the user's.
_SETS = frozenset({set, frozenset})
_MADE_MAX = 1000  # Members of a set that is made again before each line that makes it.
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.Sub: operator.sub,
    ast.BitXor: operator.xor,
}


def named_attributes(
    frame: FrameType, statements: Iterable[Statement | None], number_of: Callable[[Any], int | None]
) -> Iterator[tuple[str, str, Any]]:
    """The attributes that statements name: as written, as traces name them, and their values.

    number_of: the number of an object whose attributes are read one by one; None for all others.
    """
    for chain in {chain for one in statements if one is not None for chain in one.chains}:
        base, _, attribute = chain.rpartition(".")
        holder = value_of_word(frame, base)
        number = None if holder is None else number_of(holder)
        values = watched_attributes(holder) if number is not None else None
        if values is not None and attribute in values and is_data(values[attribute]):
            yield chain, f"o{number}:{attribute}", values[attribute]


def watched_attributes(value: Any) -> dict[str, Any] | None:
    """The attributes of an object that are read one by one, those in slots of the user's classes, too; None of all else."""
    own, kind = getattr(value, "__dict__", None), type(value)
    if _has_own_slots(kind):  # type: ignore[arg-type] # A class is hashable.
        return (own if isinstance(own, dict) else {}) | attributes_of(value)
    return own if isinstance(own, dict) else None


@cache
def _has_own_slots(kind: type) -> bool:
    """Return True if a class of the user's, or a base of it, has slots."""
    return any(vars(base).get("__slots__") and is_users(base.__module__) for base in kind.__mro__)


def value_of_word(frame: FrameType, word: str) -> Any:
    """The value of a name, or of an attribute of one, in a function; None if there is none. It runs no property."""
    base, *attributes = word.split(".")
    value = frame.f_locals.get(base, frame.f_globals.get(base))
    for attribute in attributes:
        value = attributes_of(value).get(attribute)
    return value


def asked_identities(frame: FrameType, statement: Statement | None) -> dict[str, tuple[bool, bool]]:
    """Of two values of which a line asks whether they are one object: whether they are, and whether they are equal.

    No code of the user's compares them: equal are numbers and texts alone.
    """
    found = {}
    for one, other in statement.identities if statement is not None else ():
        first, second = value_of_word(frame, one), value_of_word(frame, other)
        are_equal = type(first) is type(second) and type(first) in _PLAIN and first == second
        found[f"{one} is {other}"] = first is second, bool(are_equal)
    return found


def set_made(frame: FrameType, expression: str) -> Any:
    """The set that an expression of sets makes, such as ``self.all - busy``, in its order; None if that is not known.

    It is made of values that names hold, again: nothing of the user's runs, since the members are numbers and texts.
    """
    return _made(frame, _parsed(expression))


@cache
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _made(frame: FrameType, part: ast.expr) -> Any:
    match part:
        case ast.Name() | ast.Attribute():
            value = value_of_word(frame, ast.unparse(part))
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _made(frame, left), _made(frame, right)
            is_of_sets = type(one) in _SETS and type(other) in _SETS
            value = _OPERATIONS[type(op)](one, other) if is_of_sets else None
        case ast.Call(func=ast.Name(id="set" | "frozenset" as name), args=[of]) if not _is_hidden(frame, name):
            members = _made(frame, of)
            value = None if members is None else set(members) if name == "set" else frozenset(members)
        case _:
            return None
    is_known = type(value) in {*_SETS, list, tuple} and len(value) <= _MADE_MAX
    return value if is_known and all(type(one) in _PLAIN_MEMBERS for one in value) else None


def _is_hidden(frame: FrameType, name: str) -> bool:
    return name in frame.f_locals or name in frame.f_globals
