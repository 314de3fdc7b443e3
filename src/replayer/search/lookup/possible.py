"""Whether a condition can hold at any tick of an interval, from the zones of its fields.

The same syntax tree is read as by expressions.parse_expression, with bounds in place of values. A condition is ruled out
only if it has a value at each tick, and that value is false: where it may have none, or may be an error, the interval
is simulated.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from replayer.search.exact_values import ARITHMETIC, COMPARISONS
from replayer.search.lookup.bounds import (
    BOUND_REDUCTIONS,
    Bounded,
    NotKnownError,
    both_true,
    calculated,
    chosen,
    compared_bounds,
    inverted_truth,
    number,
    of_zone,
    part_of,
    truth,
    unknown,
)
from replayer.search.lookup.zone import Zone

TICK, TELEMETRY = "tick", "telemetry"


def may_hold(tree: ast.expr, ticks: range, zones: Mapping[str, Any] | None) -> bool:
    """Return False only if a condition is certainly false at each of these ticks.

    zones: of fields by name, as plain data; None if nothing is known.
    """
    try:
        value = _Bounds(ticks, zones).of(tree)
    except (NotKnownError, ArithmeticError):
        return True
    return value.shape is not None or value.may_be_nonzero


class _Bounds:
    """The bounds of parts of a condition."""

    def __init__(self, ticks: range, zones: Mapping[str, Any] | None) -> None:
        self._ticks, self._zones = ticks, zones

    def of(self, node: ast.expr) -> Bounded:
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return _constant(value)
            case ast.Name() | ast.Attribute():
                return self._value(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                return calculated(ARITHMETIC[type(op)], self.of(left), self.of(right))
            case ast.UnaryOp(op=op, operand=operand):
                return _unary(op, self.of(operand))
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARISONS for op in ops):
                return self._comparison(ops, [left, *others])
            case ast.BoolOp(op=op, values=parts):
                return self._connection(parts, is_and=isinstance(op, ast.And))
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in BOUND_REDUCTIONS:
                return _reduced(name, self.of(inner))
            case ast.Call(func=ast.Name(id=name), args=[inner]) if name in BOUND_REDUCTIONS:
                return _reduced(name, self.of(inner))
        return unknown()

    def _comparison(self, ops: list[ast.cmpop], parts: list[ast.expr]) -> Bounded:
        values = [self.of(part) for part in parts]
        tests = [COMPARISONS[type(op)] for op in ops]
        results = [compared_bounds(*each) for each in zip(tests, values[:-1], values[1:], strict=True)]
        whole = results[0]
        for result in results[1:]:
            whole = both_true(whole, result)
        return whole

    def _connection(self, parts: list[ast.expr], *, is_and: bool) -> Bounded:
        """As in expressions: a number that decides alone ends it, and the rest need not have a value."""
        whole = self.of(parts[0])
        for part in parts[1:]:
            decides = not (whole.may_be_nonzero if is_and else whole.may_be_zero)
            if whole.shape is None and decides:
                return truth(may_hold=not is_and, may_fail=is_and)
            other = self.of(part)
            if is_and:
                whole = both_true(whole, other)
            else:
                whole = inverted_truth(both_true(inverted_truth(whole), inverted_truth(other)))
        return whole

    def _value(self, node: ast.expr) -> Bounded:
        dotted = _path(node)
        if dotted is None:
            return unknown()
        if dotted == TICK:
            return number("i", self._ticks[0], self._ticks[-1])
        if dotted.startswith(f"{TELEMETRY}.") and dotted.count(".") == 1:
            return unknown()  # Recorded figures, and not a field or a column that is called so: see state_values.
        zone = self._zones.get(dotted) if self._zones is not None else None
        if zone is None:
            return unknown()
        try:
            return of_zone(Zone.from_plain(zone))
        except ValueError:
            return unknown()

    def _subscript(self, node: ast.Subscript) -> Bounded:
        if self._zones is not None and _path(node) in self._zones:
            return self._value(node)
        array = self.of(node.value)
        if isinstance(node.slice, ast.Compare | ast.BoolOp | ast.BinOp) or (
            isinstance(node.slice, ast.UnaryOp) and not isinstance(node.slice.op, ast.USub)
        ):
            return chosen(array, self.of(node.slice))
        return part_of(array, _place(node.slice))


def _constant(value: float) -> Bounded:
    if isinstance(value, bool):
        return truth(may_hold=value, may_fail=not value)
    return number("i" if isinstance(value, int) else "f", value, value)


def _unary(op: ast.unaryop, operand: Bounded) -> Bounded:
    match op:
        case ast.USub():
            return calculated(ARITHMETIC[ast.Sub], number("i", 0, 0), operand)
        case ast.Not():
            return inverted_truth(operand)
        case ast.Invert() if operand.kind == "b":
            return inverted_truth(operand)
    return unknown()


def _reduced(name: str, value: Bounded) -> Bounded:
    return BOUND_REDUCTIONS[name](value)


def _path(node: ast.expr) -> str | None:
    """The text of a chain of names, attributes, keys and places, as zones are named; None for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name) if (before := _path(inner)) is not None:
            return f"{before}.{name}"
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
            before = _path(inner)
            return None if before is None or isinstance(key, bool) else f"{before}[{key!r}]"
        case ast.Subscript(value=inner, slice=ast.Slice(lower=None, upper=None, step=None)):
            before = _path(inner)
            return None if before is None else f"{before}[:]"
    return None


def _place(node: ast.expr) -> Any:
    match node:
        case ast.Tuple(elts=parts):
            return tuple(map(_place, parts))
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(None if part is None else _place(part) for part in (lower, upper, step)))
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    return unknown()
