"""Values of captured objects as text of a limited length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sim.adapters.object_view.shown_values import Composite, Ref, Word

DEPTH = 3  # Objects inside objects, in one line.
LEAF_MAX = 60  # Characters of one text or number.
ARRAY_ITEMS = 6  # Of a small array; of a larger one as many at each end as half of it.
ORDER_WIDTH = 45  # Of the items that are shown of an order, about; two at least.
MORE = "…"

PathOf = Callable[[Ref, str], str | None]  # The path of a reference that is shown elsewhere than at this path.


def leaf_text(value: Any) -> str:
    """A value without parts; of one with parts the brackets and what is in them."""
    if isinstance(value, Word):
        return _cut(value.text)
    if isinstance(value, np.ndarray):
        return array_text(value)
    if isinstance(value, Composite):
        inner = ", ".join(f"{entry.label}{leaf_text(entry.value)}" for entry in value.entries)
        return f"{value.title}{value.opening}{inner}{value.closing}"
    if isinstance(value, Ref):
        return f"<object {value.number}>"
    return _cut(repr(value.item() if isinstance(value, np.generic) else value))


def _cut(text: str) -> str:
    return text if len(text) <= LEAF_MAX else f"{text[: LEAF_MAX - 1]}{MORE}"


def differing_texts(one: Any, other: Any) -> tuple[str, str]:
    """Two texts, or two strings of bytes, that differ: from a little before the first difference if they are long."""
    if max(len(repr(one)), len(repr(other))) <= LEAF_MAX:
        return repr(one), repr(other)
    common = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, common - LEAF_MAX // 4)
    before = f"{MORE} from [{start:,}]: " if start else ""
    return f"{before}{_cut(repr(one[start:]))}", f"{before}{_cut(repr(other[start:]))}"


def told_apart(texts: Sequence[str], values: Sequence[Any]) -> tuple[str, str]:
    """The texts of two different values; if the texts are equal, with the types or the bits, which then differ."""
    if texts[0] != texts[1]:
        return texts[0], texts[1]
    kinds = [type(value) for value in values]
    if all(issubclass(kind, np.generic | float | int | str | bytes) for kind in kinds):
        if kinds[0] is not kinds[1]:
            names = [f"numpy.{kind.__name__}" if issubclass(kind, np.generic) else kind.__name__ for kind in kinds]
            return f"{texts[0]} ({names[0]})", f"{texts[1]} ({names[1]})"
        if issubclass(kinds[0], np.generic):
            bits = [value.tobytes()[::-1].hex() for value in values]
            return f"{texts[0]} (bits {bits[0]})", f"{texts[1]} (bits {bits[1]})"
    return texts[0], "another value that is shown alike"


def order_texts(names: Sequence[str], order: Sequence[int]) -> tuple[str, str]:
    """Two different orders of the same items, from the first place whose texts differ.

    names: of the items in the first order. order: the second order, by the places in the first one. If all texts are
    equal, as those of items that are shown alike, the places in the first order tell the items apart.
    """
    if [names[place] for place in order] == list(names):
        names = [f"[{place}] {name}" for place, name in enumerate(names)]
    one, other = names, [names[place] for place in order]
    start = next((at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), 0)
    before = f"{MORE} from [{start:,}]: " if start else ""
    count = next((n for n in range(2, len(one)) if sum(map(len, one[start : start + n])) > ORDER_WIDTH), len(one))
    texts = [f"{before}{', '.join(shown[start : start + count])}" for shown in (one, other)]
    more = f", {MORE}" if len(one) > start + count else ""
    return f"{texts[0]}{more}", f"{texts[1]}{more}"


def is_nested(value: Composite) -> bool:
    """Return True if a value holds others that have parts."""
    return any(isinstance(entry.value, Ref | Composite) for entry in value.entries)


def count_text(value: Composite) -> str:
    """A list, a dict or a set by the number of its entries."""
    count = len(value.entries)
    return f"{value.title}{value.opening}{MORE} {count:,} {'item' if count == 1 else 'items'}{value.closing}"


def array_text(array: np.ndarray[Any, Any]) -> str:
    """The dtype, the shape and the first and last values of an array."""
    shape = " × ".join(map(str, array.shape)) or "one"
    if not array.size:
        return f"array of {shape} {array.dtype.name}"
    shown = np.array2string(array, threshold=ARRAY_ITEMS, edgeitems=ARRAY_ITEMS // 2, separator=" ")
    return f"array of {shape} {array.dtype.name}: {' '.join(shown.split())}"


def shortened(value: Any, path: str, path_of: PathOf, width: int, depth: int = DEPTH) -> tuple[str, bool]:
    """A value in one line of about this width, and True if nothing was left out.

    path: of the value.
    """
    if isinstance(value, Ref):
        elsewhere = path_of(value, path)
        if elsewhere is not None:
            return elsewhere, True
        value = value.source.composite(value.number)
    if not isinstance(value, Composite):
        text = leaf_text(value)
        return (text, True) if len(text) <= max(width, LEAF_MAX) else (f"{text[:width]}{MORE}", False)
    if not value.entries:
        return f"{value.title}{value.opening}{value.closing}", True
    if not depth and is_nested(value):
        text = count_text(value) if value.is_list else f"{value.title}{value.opening}{MORE}{value.closing}"
        return text, False
    parts: list[str] = []
    left, is_whole = width - len(value.title), True
    for index, entry in enumerate(value.entries):
        text, is_all = shortened(
            entry.value, f"{path}{entry.step}", path_of, left - len(entry.label), max(0, depth - 1)
        )
        part = f"{entry.label}{text}"
        if parts and len(part) > left:
            more = f" {len(value.entries) - index:,} more" if value.is_list else ""
            parts.append(f"{MORE}{more}")
            is_whole = False
            break
        is_whole = is_whole and is_all
        parts.append(part)
        left -= len(part) + 2
    return f"{value.title}{value.opening}{', '.join(parts)}{value.closing}", is_whole
