"""Calculate with values of states: whole numbers are exact, in arrays as well, and do not wrap around."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from replayer.search.member import MemberValue, compared_members
from replayer.search.search_errors import ExpressionError, OtherKindError, UndefinedError
from replayer.search.standard_values import compared_standard, is_standard

INT64 = np.iinfo(np.int64)


def exact(calculate: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Calculate; whole numbers in arrays are int64 where the result fits, else Python's own."""
    one, other = _number(one), _number(other)
    if calculate not in BITWISE:
        one, other = _counted(one), _counted(other)
    is_division = calculate in {operator.floordiv, operator.mod, operator.truediv}
    if is_division and np.any(np.asarray(other) == 0):
        raise UndefinedError("a division by zero")
    arrays = [_as_array(part) for part in (one, other)]
    is_exact = any(array.dtype.kind == "O" and not _is_whole(array) for array in arrays)
    if is_exact or not any(array.ndim for array in arrays):  # Decimal numbers and fractions are never made floats.
        try:
            return calculate(one, other)
        except TypeError:
            kinds = " and ".join(dict.fromkeys(_kind(value) for value in (one, other)))
            raise OtherKindError(f"{kinds} cannot be calculated with each other") from None
    if all(array.dtype.kind in "iO" and _is_whole(array) for array in arrays):
        fits = _fits(calculate, arrays)
        dtype: Any = np.int64 if fits else object
        return calculate(*(array.astype(dtype) for array in arrays))
    if all(array.dtype == bool for array in arrays):
        return calculate(*arrays)
    return calculate(*(array.astype(np.float64) for array in arrays))


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    """An array of one of the kinds of _number; NumPy would make a large whole number unsigned."""
    is_large = isinstance(value, int) and not INT64.min <= value <= INT64.max
    return np.asarray(value, object if is_large else None)


def _counted(value: Any) -> Any:
    """True counts as 1: NumPy would add two truth values to True."""
    if isinstance(value, np.ndarray):
        return value.astype(np.int64) if value.dtype == bool else value
    return int(value) if isinstance(value, bool) else value


def _is_whole(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind == "i" or all(isinstance(value, int) for value in array.ravel().tolist())


def _fits(calculate: Callable[[Any, Any], Any], arrays: list[np.ndarray[Any, Any]]) -> bool:
    """Return True if no result can leave int64; the extremes of +, - and * are at the extremes of the operands."""
    if any(array.dtype.kind == "O" for array in arrays):
        return False
    if calculate in BITWISE or not all(array.size for array in arrays):
        return True
    if calculate in {operator.floordiv, operator.mod}:
        return int(arrays[0].min()) > INT64.min  # The one quotient that is too large is that of the least by -1.
    if calculate is operator.truediv:
        return True
    ends = [(int(array.min()), int(array.max())) for array in arrays]
    results = [calculate(a, b) for a in ends[0] for b in ends[1]]
    return bool(min(results) >= INT64.min and max(results) <= INT64.max)


def _number(value: Any) -> Any:
    """A value to calculate with: Python's numbers, int64, float64, or whole numbers of Python in an array of objects."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "u" and value.dtype.itemsize == 8:
            return value.astype(object)  # It may be more than int64 holds.
        if value.dtype.kind in "iu":
            return value.astype(np.int64)
        if value.dtype.kind in "fbO":
            return value.astype(np.float64) if value.dtype.kind == "f" else value
        raise OtherKindError(f"values of {value.dtype} cannot be calculated with")
    if isinstance(value, MemberValue):
        return value.number()
    if isinstance(value, bool | int | float | Decimal | Fraction):
        return value
    raise OtherKindError(f"{_kind(value)} cannot be calculated with")


def _kind(value: Any) -> str:
    """The kind of a value in a message."""
    return "an object" if isinstance(value, dict) else type(value).__name__


def compared(test: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Compare two values as Python does; whole numbers with floats exactly. Raises OtherKindError if that is not possible.

    Values of all items of a list are compared one by one, with what is no array.
    """
    if isinstance(one, EachValue) or isinstance(other, EachValue):
        return _compared_each(test, one, other)
    is_equality = test in {operator.eq, operator.ne}
    if not is_equality and any(value is None or type(value) is bytes for value in (one, other)):
        raise OtherKindError("texts and None can be compared with == and != only")
    if one is None or other is None:
        return (one is None and other is None) is (test is operator.eq)
    if any(isinstance(value, MemberValue) for value in (one, other)):
        return compared_members(test, one, other)
    if any(map(is_standard, (one, other))) and not any(isinstance(value, np.ndarray) for value in (one, other)):
        return compared_standard(test, one, other)
    if any(isinstance(value, str) for value in (one, other)):
        return _compared_texts(test, one, other)
    if is_equality and any(type(value) in (bytes, complex) for value in (one, other)):
        if type(one) is not type(other) and bytes in (type(one), type(other)):
            raise OtherKindError(f"{_kind(one)} and {_kind(other)} cannot be compared")
        return bool(test(one, other))
    one, other = _number(one), _number(other)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.asarray(test(*_comparable(one, other)), bool)
    return test(one, other)  # Python compares whole numbers with others exactly.


def _compared_texts(test: Callable[[Any, Any], Any], one: Any, other: Any) -> bool:
    """Compare two values of which one at least is a text. A text is not a number, in Python too."""
    if test not in {operator.eq, operator.ne}:
        raise OtherKindError("texts and None can be compared with == and != only")
    for value in (one, other):
        if isinstance(value, np.ndarray | list):
            raise OtherKindError(
                "a list cannot be compared with a text: name one item, [3], or say [:] for all of them"
            )
        if isinstance(value, dict):
            raise OtherKindError("an object cannot be compared with a text: name one of its values")
        if isinstance(value, bytes):
            raise OtherKindError("bytes cannot be compared with a text")
    return bool(test(one, other))


def _compared_each(test: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Compare each item with a value, or with the item at its place."""
    count = len(one if isinstance(one, EachValue) else other)
    sides = []
    for value in (one, other):
        is_each = isinstance(value, list | np.ndarray)
        if is_each and len(value) != count:
            raise OtherKindError(f"{count:,} values cannot be compared with {len(value):,}")
        sides.append(value if is_each else [value] * count)
    return np.asarray([bool(compared(test, *pair)) for pair in zip(*sides, strict=True)], bool)


class EachValue(list[Any]):
    """The values of all items of a list that are not all numbers: ``units[:].name``."""


def _comparable(one: Any, other: Any) -> tuple[Any, Any]:
    """Two operands whose comparison is exact: NumPy turns whole numbers into float64 beside others, and rounds them."""
    arrays = [_as_array(part) for part in (one, other)]
    kinds = {array.dtype.kind for array in arrays}
    if "O" in kinds or ("f" in kinds and "i" in kinds):
        large = any(array.dtype.kind == "i" and array.size and _is_large(array) for array in arrays)
        if "O" in kinds or large:
            return arrays[0].astype(object), arrays[1].astype(object)
    return arrays[0], arrays[1]


def _is_large(array: np.ndarray[Any, Any]) -> bool:
    return max(abs(int(array.min())), abs(int(array.max()))) > 1 << 53  # Beyond, float64 has gaps.


def both(one: Any, other: Any) -> Any:
    """And, element by element if one of the two is an array."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.logical_and(one, other)
    return bool(one) and bool(other)


def negated(value: Any) -> Any:
    """Not, element by element of an array."""
    return np.logical_not(value) if isinstance(value, np.ndarray) else not value


def inverted(value: Any) -> Any:
    """The operator ~: not, of truth values; all bits inverted, of whole numbers. Raises ExpressionError for others."""
    value = _number(value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
        raise OtherKindError("~ needs whole numbers or a condition")
    return ~value


def selected(array: Any, mask: Any) -> Any:
    """The rows of an array where a condition holds. Raises ExpressionError if the shapes do not fit."""
    if not isinstance(array, np.ndarray) or not isinstance(mask, np.ndarray) or mask.dtype != bool:
        raise ExpressionError("a condition in brackets selects rows of a field: field[other > 3]")
    if mask.shape != array.shape[: mask.ndim]:
        raise ExpressionError(f"a condition over {mask.shape} values cannot select from {array.shape}")
    return array[mask]


def element(value: Any, place: Any) -> Any:
    """The elements of an array, a text or a list at a place. Raises UndefinedError if there are none."""
    try:
        return _plain(value[place])
    except IndexError:
        raise UndefinedError(f"there is nothing at index {place}") from None
    except (KeyError, TypeError):
        raise OtherKindError(f"{_kind(value)} has no index {place}") from None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# --- reductions


def _array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, list | tuple):
        parts = [part.number() if isinstance(part, MemberValue) else part for part in value]
        is_plain = all(type(part) in (int, float, bool) for part in parts)
        is_exact = all(isinstance(part, bool | int | float | Decimal | Fraction) for part in parts)
        value = np.asarray(parts, None if is_plain else object) if is_plain or is_exact else None
    if value is None or isinstance(value, str | Mapping):
        raise OtherKindError("only numbers can be reduced")
    return _as_array(_number(value))


def _nonempty(value: Any) -> np.ndarray[Any, Any]:
    array = _array(value)
    if not array.size:
        raise UndefinedError("there are no values to reduce")
    return array


def _sum(value: Any) -> Any:
    array = _array(value)
    if array.dtype.kind in "ib" and array.size:
        largest = max(abs(int(array.min())), abs(int(array.max())))
        if largest * array.size > INT64.max:
            return sum(array.ravel().tolist())
    return _plain(array.sum()) if array.dtype.kind != "O" else sum(array.ravel().tolist())


def _length(value: Any) -> int:
    if isinstance(value, np.ndarray) and not value.ndim:
        raise ExpressionError("a single number has no length")
    if isinstance(value, np.ndarray | list | tuple | str | Mapping):
        return len(value)
    raise OtherKindError(f"{_kind(value)} has no length")


def _absolute(value: Any) -> Any:
    number = _number(value)
    if isinstance(number, np.ndarray) and number.dtype.kind == "i" and number.size and int(number.min()) == INT64.min:
        number = number.astype(object)
    return abs(number)


def contained(one: Any, whole: Any) -> bool:
    """Return True if a text, a number or None is in a text, a list, a set or the keys of a dict, as Python has it.

    Raises OtherKindError for what else is asked, and where an item that is none of these decides.
    """
    if not isinstance(one, bool | int | float | str | None):
        raise OtherKindError("'in' asks for a text, a number or None")
    if isinstance(whole, str):
        if not isinstance(one, str):
            raise OtherKindError("only a text can be in a text")
        return one in whole
    items, is_whole = _items_of(whole)
    if one in items:
        return True
    if not is_whole:
        raise OtherKindError("it has items that are no texts or numbers, or keys too long to compare: not known")
    return False


def _items_of(whole: Any) -> tuple[list[Any], bool]:
    """The texts and numbers in a container, and True if it has nothing else."""
    if isinstance(whole, np.ndarray) and whole.ndim == 1:
        return whole.tolist(), True
    if isinstance(whole, Mapping):
        if any(str(step).startswith(".") for step in whole):
            raise OtherKindError("an object has no items: 'in' asks a set, a list, the keys of a dict or a text")
        items: list[Any] = [_key(step) if step.startswith("[") else entry.value for step, entry in whole.items()]
    elif isinstance(whole, list | tuple):
        items = list(whole)
    else:
        raise OtherKindError(f"{_kind(whole)} has no items: 'in' asks a set, a list, the keys of a dict or a text")
    plain = [item for item in items if isinstance(item, bool | int | float | str | bytes | None)]
    return plain, len(plain) == len(items)


def _key(step: str) -> Any:
    """The key of a dict's entry; an empty tuple for one that is no text or number."""
    try:
        return ast.literal_eval(step[1:-1])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": _sum,
    "min": lambda value: _plain(_nonempty(value).min()),
    "max": lambda value: _plain(_nonempty(value).max()),
    "mean": lambda value: _sum(value) / _nonempty(value).size,
    "any": lambda value: bool(_array(value).any()),
    "all": lambda value: bool(_array(value).all()),
    "count": lambda value: int(np.count_nonzero(_array(value))),
    "len": _length,
    "abs": _absolute,
}
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
BITWISE = {operator.and_, operator.or_, operator.xor}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,  # ``target is None`` is what people write; there is no identity in a recorded value.
    ast.IsNot: operator.ne,
}
