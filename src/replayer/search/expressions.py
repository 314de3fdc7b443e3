"""Conditions over the values of a state, as a text: ``plants.energy.sum() > 2000 and tick < 900``.

A text is parsed by Python and built from a list of allowed nodes: nothing else of it is ever executed, no attribute of
an object is read, and nothing can be called but the reductions below. Whole numbers are exact: they do not wrap around.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any, NoReturn

import attrs
import numpy as np

from replayer.search.exact_values import (
    ARITHMETIC,
    COMPARISONS,
    REDUCTIONS,
    both,
    compared,
    contained,
    element,
    exact,
    inverted,
    negated,
    selected,
)
from replayer.search.names.printed_keys import key_text
from replayer.search.names.value_names import EVERY, NameStep, ValueName
from replayer.search.search_errors import ExpressionError, OtherKindError, UndefinedError

TEXT_MAX = 2_000  # Characters. The longest condition that anybody typed in a trial had 90.
NODES_MAX = 200  # Of the syntax tree: a condition of 2,000 characters can have more, and each costs time at each tick.
WHOLE_MAX = 1 << 63  # A larger number in a text cannot be a value of a field.

Values = Callable[[ValueName], Any]  # Reads one value of a state. Raises UndefinedError if it is not there.
Evaluate = Callable[[Values], Any]


@attrs.frozen
class Expression:
    """A condition over the values of a state.

    Attributes:
        text: as it was written.
        names: the values that it reads.
    """

    text: str
    names: frozenset[ValueName]
    _evaluate: Evaluate = attrs.field(repr=False, eq=False)
    tree: ast.expr = attrs.field(repr=False, eq=False)

    def holds(self, values: Values) -> bool:
        """Return True if the condition holds in the state whose values are read by ``values``.

        Raises UndefinedError if it has no value there, ExpressionError if its value is not one truth value.
        """
        try:
            with np.errstate(all="ignore"):  # Infinite and not-a-number are values of floating point, too.
                value = self._evaluate(values)
        except (ExpressionError, UndefinedError):
            raise
        except (TypeError, ArithmeticError) as error:
            raise OtherKindError(f"{self.text!r}: {error}") from None
        except (ValueError, IndexError, MemoryError) as error:
            raise ExpressionError(f"{self.text!r}: {error}") from None
        if isinstance(value, np.ndarray) and value.ndim:
            raise ExpressionError(f"{self.text!r} has one value for each row: say .any() or .all()")
        if not isinstance(value, bool | int | float | np.ndarray):
            raise OtherKindError(f"{self.text!r} is no condition: its value is {type(value).__name__}")
        return bool(value)


LOOP_HINT = "a loop is not allowed in a condition; NAME[:] is all values of a list or dict: (units[:].hp > 3).any()"

TUPLE_HINT = "a tuple is not allowed in a condition: in Python, seek to the tick and ask the object itself, run.subject"

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_ASSIGNED = re.compile(r"(?<![=<>!:])=(?!=)")


def parse_expression(text: str) -> Expression:
    """Parse a condition. Which of its names exist is only known in a state. Raises ExpressionError."""
    if len(text) > TEXT_MAX:
        raise ExpressionError(f"a condition of {len(text):,} characters: {TEXT_MAX:,} are the most")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        hint = "; to compare, write ==" if _ASSIGNED.search(_QUOTED.sub("", text)) else ""
        raise ExpressionError(f"{_short(text)!r} is not an expression: {why}{hint}") from None
    if sum(1 for _ in ast.walk(tree)) > NODES_MAX:
        raise ExpressionError(f"the condition has more than {NODES_MAX} parts")
    builder = _Builder(text)
    evaluate = builder.build(tree)
    return Expression(text, frozenset(builder.names), evaluate, tree)


class _Builder:
    """Builds the function of a syntax tree, and collects the names of the values that it reads."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.names: set[ValueName] = set()

    def build(self, node: ast.expr) -> Evaluate:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                if isinstance(value, int) and abs(value) >= WHOLE_MAX:
                    self._refuse(node, "the number is too large for any field")
                return lambda _: value
            case ast.Name() | ast.Attribute():
                return self._value(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                calculate, one, other = ARITHMETIC[type(op)], self.build(left), self.build(right)
                return lambda values: exact(calculate, one(values), other(values))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(node, op, self.build(operand))
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARISONS for op in ops):
                return _comparison([COMPARISONS[type(op)] for op in ops], list(map(self.build, (left, *others))))
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[whole]):
                item, holder, is_in = self.build(left), self.build(whole), isinstance(op, ast.In)
                return lambda values: contained(item(values), holder(values)) is is_in
            case ast.BoolOp(op=op, values=parts):
                return _connection(list(map(self.build, parts)), is_and=isinstance(op, ast.And))
            case ast.Call(keywords=[]):
                return self._call(node)
        if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
            self._refuse(node, LOOP_HINT)
        if isinstance(node, ast.Tuple):
            self._refuse(node, TUPLE_HINT)
        return self._refuse(node, f"{type(node).__name__} is not allowed in a condition")

    def _unary(self, node: ast.expr, op: ast.unaryop, operand: Evaluate) -> Evaluate:
        match op:
            case ast.USub():
                return lambda values: exact(operator.sub, 0, operand(values))
            case ast.Not():
                return lambda values: negated(operand(values))
            case ast.Invert():
                return lambda values: inverted(operand(values))
        return self._refuse(node, f"{type(op).__name__} is not allowed in a condition")

    def _value(self, node: ast.expr) -> Evaluate:
        steps = self._steps(node)
        if steps is None:
            self._refuse(node, "expected the name of a value")
        name = ValueName(steps)
        self.names.add(name)
        return lambda values: values(name)

    def _steps(self, node: ast.expr) -> tuple[NameStep, ...] | None:
        """The steps of a chain of names, attributes and keys; None if it is anything else."""
        match node:
            case ast.Name(id=name):
                return (NameStep(name, "name"),)
            case ast.Attribute(value=inner, attr=name) if (steps := self._steps(inner)) is not None:
                return (*steps, NameStep(name, "attribute"))
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() as key)):
                steps = self._steps(inner)
                return None if steps is None else (*steps, NameStep(key, "key"))
            case ast.Subscript(value=inner, slice=ast.Slice(lower=None, upper=None, step=None)):
                steps = self._steps(inner)
                return None if steps is None else (*steps, EVERY)
            case ast.Subscript(value=inner, slice=key) if (number := _whole(key)) is not None:
                steps = self._steps(inner)
                return None if steps is None else (*steps, NameStep(number, "index"))
            case ast.Subscript(value=inner, slice=key) if (printed := self._key(key)) is not None:
                steps = self._steps(inner)
                return None if steps is None else (*steps, NameStep(printed, "printed"))
        return None

    def _key(self, node: ast.expr) -> str | None:
        """The text of a key as it is printed; None for anything else. ``[0, 1]`` are indices, ``[(0, 1)]`` may be a key."""
        if isinstance(node, ast.Tuple) and all(_whole(part) is not None for part in node.elts):
            segment = ast.get_source_segment(self._text.strip(), node) or ""
            return key_text(node) if segment.startswith("(") else None
        return key_text(node)

    def _subscript(self, node: ast.Subscript) -> Evaluate:
        if self._steps(node) is not None:
            return self._value(node)  # The state decides whether the last steps are a path or indices.
        array = self.build(node.value)
        if isinstance(node.slice, ast.Compare | ast.BoolOp | ast.BinOp | ast.UnaryOp) and _whole(node.slice) is None:
            mask = self.build(node.slice)
            return lambda values: selected(array(values), mask(values))
        place = self._place(node.slice)
        return lambda values: element(array(values), place)

    def _place(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Tuple):
            return tuple(map(self._place, node.elts))
        if isinstance(node, ast.Slice):
            return slice(*(None if part is None else self._index(part) for part in (node.lower, node.upper, node.step)))
        return self._index(node)

    def _index(self, node: ast.expr) -> int:
        number = _whole(node)
        if number is None:
            self._refuse(node, "an index is a whole number, a slice or a condition")
        return number

    def _call(self, node: ast.Call) -> Evaluate:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[]) if name in REDUCTIONS:
                argument = inner
            case ast.Call(func=ast.Name(id=name), args=[inner]) if name in REDUCTIONS:
                argument = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="values" | "items" | "keys"), args=[]):
                self._refuse(node, f"expected the name of a value; {_all_of(inner)} is all values of a dict or a list")
            case _:
                self._refuse(node, f"only {', '.join(REDUCTIONS)} can be called")
        reduce, values_of = REDUCTIONS[name], self.build(argument)
        return lambda values: reduce(values_of(values))

    def _refuse(self, node: ast.expr, why: str) -> NoReturn:
        raise ExpressionError(f"{_short(self._text)!r}, column {getattr(node, 'col_offset', 0) + 1}: {why}")


def _comparison(comparisons: list[Callable[[Any, Any], Any]], parts: list[Evaluate]) -> Evaluate:
    def compare(values: Values) -> Any:
        operands = [part(values) for part in parts]
        results = [
            compared(test, one, other)
            for test, one, other in zip(comparisons, operands[:-1], operands[1:], strict=True)
        ]
        whole = results[0]
        for result in results[1:]:
            whole = both(whole, result)
        return whole

    return compare


def _connection(parts: list[Evaluate], *, is_and: bool) -> Evaluate:
    def connect(values: Values) -> Any:
        whole = parts[0](values)
        for part in parts[1:]:
            if not isinstance(whole, np.ndarray) and bool(whole) is not is_and:
                return bool(whole)  # As in Python, the rest is not asked, and need not have a value.
            whole = both(whole, part(values)) if is_and else negated(both(negated(whole), negated(part(values))))
        return whole

    return connect


def _whole(node: ast.expr) -> int | None:
    """The whole number that a node is; None if it is none."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value < WHOLE_MAX:
        return sign * node.value
    return None


def _all_of(node: ast.expr) -> str:
    """The name of all values of a dict, a list or a set."""
    text = ast.unparse(node)
    return f"{text}[:]" if len(text) <= 40 else "NAME[:]"


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
