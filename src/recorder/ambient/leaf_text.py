"""Say in a few words how two values of an ambient differ: their order, their position, or what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from recorder.ambient.c_memory import Memory
from recorder.ambient.members import At
from recorder.ambient.replacement.named_values import Path
from recorder.ambient.value_kinds import same_leaf

SHOWN_CHARS_MAX = 40  # Of a value in a sentence.
ORDER_SHOWN = 4  # Items of an order.
NOTHING: Any = object()  # Stands for a leaf that an ambient does not have.

_SIZED = {"dict", "list", "tuple", "set", "deque", "array"}
_ORDERED = {
    "dict": "dict",
    "set": "set",
    "list": "list",
    "deque": "deque",
    "weak set": "WeakSet",
    "weak dict": "WeakValueDictionary",
}


def name_of(path: Path) -> str:
    """A path as written in code, such as Walkers.agents[3]._memo or module walkers: COUNTER."""
    text = ""
    for kind, name in path:
        match kind:
            case "module":
                text = f"module {name}:"
            case "global":
                text += f" {name}"
            case "instance" | "class of" | "function" | "ambient":
                plain = str(name).rpartition(":")[2]
                text = f"{text}.{plain}" if text and kind == "function" else plain
            case "item":
                text += "[…]" if name is ... else f"[{short_text(name)}]"
            case "setting of the process":
                text = str(name)
            case "closure" | "default" | "local":
                text += f": {name}"
            case "cell" | "held" | "own":
                pass
            case _:
                text += f".{name}"
    return text


_TABLES = (
    "equal at this tick, but its hash table differs from the live run's: it can iterate differently once elements come "
    "or go"
)


def difference_of(ours: Any, theirs: Any) -> tuple[str | None, str]:
    """The kind of a difference between two leaves, or None for that of the name that holds them; and the contrast."""
    heads = {leaf[0] if isinstance(leaf, tuple) and leaf else None for leaf in (ours, theirs)}
    if "iterator" in heads:
        return "iterator", _positions(ours, theirs)
    if "stands at line" in heads:
        return "generator", f"{_contrast(ours, theirs)}; the position of a generator cannot be saved"
    if "weak reference" in heads:
        return "weak reference", _referents(ours, theirs)
    if heads == {"weak keys"}:
        return None, _keyed_entry(ours, theirs)
    if len(heads) == 1 and (kind := heads.pop()) in _ORDERED:
        if kind == "set" and len(ours) == len(theirs) == 3 and same_leaf(ours[1], theirs[1]):
            return "order of a set", _TABLES
        if _is_order(ours, theirs):
            return f"order of a {_ORDERED[kind]}", _orders(_items(ours), _items(theirs))
        if kind.startswith("weak"):
            counts = [len(_items(leaf)) for leaf in (ours, theirs)]
            return "weak references", f"{_entries(counts[0])} in the live run, {_entries(counts[1])} for the copy"
        if kind == "dict" and len(ours) == len(theirs) == 3 and _has_same_keys(ours, theirs):
            return None, _first_entry(ours, theirs) or _contrast(ours, theirs)
        if kind == "dict" and (keys := _other_keys(ours, theirs)) is not None:
            return None, keys
    return None, _contrast(ours, theirs)


def _items(leaf: Any) -> list[Any]:
    """The items of a container, a dict's keys; empty if only their number is known."""
    return list(leaf[1]) if isinstance(leaf[1], list | tuple) else []


def _is_order(ours: Any, theirs: Any) -> bool:
    """Return True if two containers have the same items in different orders, and nothing else differs."""
    one, other = _items(ours), _items(theirs)
    if len(ours) != len(theirs) or not one or same_leaf(one, other) or not _have_same_items(one, other):
        return False
    if ours[0] == "dict" and len(ours) == 3:  # A dict with its values.
        pairs = _paired(ours, theirs)
        return pairs is not None and all(same_leaf(value, other) for _, value, other in pairs)
    return True


def _have_same_items(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return True if each item of the one is an item of the other; the texts of two that differ may be equal."""
    rest: dict[str, list[Any]] = {}
    for item in other:
        rest.setdefault(repr(item), []).append(item)
    for item in one:
        alike = rest.get(repr(item), [])
        place = next((place for place, these in enumerate(alike) if same_leaf(item, these)), None)
        if place is None:
            return False
        del alike[place]
    return len(one) == len(other)


def _orders(one: Sequence[Any], other: Sequence[Any]) -> str:
    start = next(place for place, pair in enumerate(zip(one, other, strict=True)) if not same_leaf(*pair))
    before = "… " if start else ""

    def text(items: Sequence[Any]) -> str:
        more = ", …" if len(items) > start + ORDER_SHOWN else ""
        return before + ", ".join(map(_item_text, items[start : start + ORDER_SHOWN])) + more

    return f"{text(one)} in the live run, {text(other)} for the copy"


def _item_text(item: Any) -> str:
    match item:
        case At((key, At())):  # Of a weak dict.
            return short_text(key)
        case At(tuple() as path):
            return name_of(path[1:]).lstrip(".") or name_of(path)
        case At(path):
            return str(path)
    return short_text(item)


def differing_values(ours: Any, theirs: Any) -> int:
    """The number of entries that differ, where difference_of shows the first of them; 1 for any other difference."""
    match ours, theirs:
        case ("weak keys", *_), ("weak keys", *_):
            return max(1, len(_keyed_entries(ours, theirs)))
        case ("dict", _, _), ("dict", _, _) if _has_same_keys(ours, theirs):
            return max(1, len(_differing_entries(ours, theirs)))
    return 1


def _has_same_keys(ours: Any, theirs: Any) -> bool:
    return sorted(map(repr, ours[1])) == sorted(map(repr, theirs[1]))


def _other_keys(ours: Any, theirs: Any) -> str | None:
    """The first keys that one of two dicts of equal size has alone; None if these are shown alike."""
    one, other = ([(repr(key), _item_text(key)) for key in _items(leaf)] for leaf in (ours, theirs))
    left, right = (
        [text for key, text in these if key not in dict(those)] for these, those in ((one, other), (other, one))
    )
    if len(one) != len(other) or not left or not right or left[0] == right[0]:
        return None
    further = f"; {len(left)} of {len(one)} keys are others" if len(left) > 1 else ""
    return f"key {left[0]} in the live run only, key {right[0]} for the copy only{further}"


def _keyed_entries(ours: Any, theirs: Any) -> list[tuple[Any, Any, Any]]:
    """The entries of two dictionaries with weak keys that differ: the name of the key, and the values."""
    one, other = (dict(zip(leaf[1], leaf[2], strict=True)) for leaf in (ours, theirs))
    both = [(key, one.get(key, NOTHING), other.get(key, NOTHING)) for key in {**one, **other}]
    return [entry for entry in both if any(one is NOTHING for one in entry) or not same_leaf(*entry[1:])]


def _keyed_entry(ours: Any, theirs: Any) -> str:
    """The first value of two dictionaries with weak keys that differs, by the name of its key."""
    differing = _keyed_entries(ours, theirs)
    if not differing:
        return "in another order"
    name, *values = differing[0]
    return f"[{name}] {_contrast(*values)}"


def _differing_entries(ours: Any, theirs: Any) -> list[tuple[Any, Any, Any]]:
    return [pair for pair in _paired(ours, theirs) or () if not same_leaf(*pair[1:])]


def _first_entry(ours: Any, theirs: Any) -> str | None:
    """The first key of two dicts with equal keys whose values differ; None if several keys are shown alike, in other orders."""
    differing = _differing_entries(ours, theirs)
    if not differing:
        return None
    key, *values = differing[0]
    return f"[{short_text(key)}] {_contrast(*values)}"


def _paired(ours: Any, theirs: Any) -> list[tuple[Any, Any, Any]] | None:
    """The keys and both values of two dicts with equal keys; None if it is not known which values belong together."""
    left, right = list(map(repr, ours[1])), list(map(repr, theirs[1]))
    if left == right:
        return list(zip(ours[1], ours[2], theirs[2], strict=True))
    if len(set(left)) < len(left):  # Such as objects, of which the class is shown.
        return None
    values = dict(zip(right, theirs[2], strict=True))
    return [(key, value, values[text]) for key, value, text in zip(ours[1], ours[2], left, strict=True)]


def _positions(ours: Any, theirs: Any) -> str:
    def following(leaf: Any) -> str | None:
        return leaf[3] if isinstance(leaf, tuple) and leaf[:1] == ("iterator",) else None

    one, other = following(ours), following(theirs)
    if one is not None and other is not None and one != other:
        return f"continues with {one} in the live run, with {other} for the copy"
    left, right = (
        f"a {leaf[1]}" if isinstance(leaf, tuple) and leaf[:1] == ("iterator",) else _summary(leaf)
        for leaf in (ours, theirs)
    )
    if left == right:
        return f"{left} at a different position for the copy"
    return f"{left} in the live run, {right} for the copy"


def _referents(ours: Any, theirs: Any) -> str:
    def referent(leaf: Any) -> str:
        match leaf:
            case ("weak reference", [None]):
                return "an object that has ended"
            case ("weak reference", [item]):
                return _item_text(item)
        return _summary(leaf)

    return f"refers to {referent(ours)} in the live run, to {referent(theirs)} for the copy"


def _contrast(ours: Any, theirs: Any) -> str:
    """The difference between two leaves, in a few words."""
    for leaf in (ours, theirs):
        if isinstance(leaf, tuple) and leaf[:1] == ("view of the state",):
            which = "the live run" if leaf is ours else "the copy"
            return (
                f"is a view of the state in {which} only" if not _both_views(ours, theirs) else "views different bytes"
            )
    elements = _first_element(ours, theirs)
    if elements is not None:
        return elements
    left, right = _summary(ours), _summary(theirs)
    if left == right and "entr" in left:
        right = "as many, which are not the same,"
    elif left == right:
        return f"{left} in both, with different contents"
    return f"{left} in the live run, {right} for the copy"


def _first_element(ours: Any, theirs: Any) -> str | None:
    """The first element in which two arrays of one type and shape, numbers of ctypes, or two generators of ``random``, differ."""
    match ours, theirs:
        case Memory(), Memory() if ours.layout is theirs.layout and None not in (ours.content, theirs.content):
            return _first_number(ours.numbers(), theirs.numbers())
        case (str(kind), tuple() as shape, bytes(one)), (str(other), tuple() as same, bytes(two)) if (kind, shape) == (
            other,
            same,
        ):
            pair = [np.frombuffer(content, kind) for content in (one, two)]
            rows = [np.frombuffer(content, np.uint8).reshape(len(pair[0]), -1) for content in (one, two)]
            differing = np.flatnonzero((rows[0] != rows[1]).any(axis=1))
            first = int(differing[0])
            index = f"[{', '.join(map(str, np.unravel_index(first, shape)))}] " if shape else ""
            left, right = (short_text(array[first].item()) for array in pair)
            more = f"; {len(differing)} of {len(pair[0])} elements differ" if len(pair[0]) > 1 else ""
            how = f"{left} in the live run, {right} for the copy" if left != right else "differs"
            return f"{index}{how}{more}"
        case (int(), tuple(), _), (int(), tuple(), _):  # Of random.Random.getstate().
            names = ("version", "words", "second number of a pair from gauss()")
            differing_names = [name for name, a, b in zip(names, ours, theirs, strict=True) if not same_leaf(a, b)]
            return f"the state of the generator differs: {', '.join(differing_names)}"
    return None


def _first_number(ours: list[tuple[str, Any]], theirs: list[tuple[str, Any]]) -> str | None:
    """The first of the values of two structures of ctypes that differs, by its path; None if none does, as bytes between fields may."""
    if len(ours) != len(theirs):
        return None
    differing = [
        (path, one, other) for (path, one), (_, other) in zip(ours, theirs, strict=True) if not same_leaf(one, other)
    ]
    if not differing:
        return None
    path, one, other = differing[0]
    more = f"; {len(differing)} of {len(ours)} values differ" if len(ours) > 1 else ""
    return f"{path} {short_text(one)} in the live run, {short_text(other)} for the copy{more}"


def _both_views(ours: Any, theirs: Any) -> bool:
    return all(isinstance(leaf, tuple) and leaf[:1] == ("view of the state",) for leaf in (ours, theirs))


def _summary(leaf: Any) -> str:
    if leaf is NOTHING:
        return "absent"
    match leaf:
        case ("set", list() as content, _):
            return _summary(
                ("set", list(map(_item_text, content)) if any(type(one) is At for one in content) else content)
            )
        case (str(kind), list() | tuple() as content) | (str(kind), tuple() as content, tuple()) if kind in _SIZED:
            text = short_text(list(leaf[-1]))
            return text if len(text) < SHOWN_CHARS_MAX and len(leaf) == 2 else _entries(len(content))
        case (str(kind), int(count)) if kind in _SIZED:
            return _entries(count)
        case ("weak set" | "weak dict", list() as content):
            return _entries(len(content))
        case ("stands at line", line):
            return f"stands at line {line}" if line is not None else "has ended"
        case (str(dtype), tuple() as shape, bytes() | int()):
            return f"array of {' × '.join(map(str, shape)) or 'one'} {dtype}"
    return short_text(leaf)


def _entries(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"


def short_text(value: Any) -> str:
    """A value in at most SHOWN_CHARS_MAX characters."""
    try:
        text = repr(value)
    except ValueError:  # An integer in it has more digits than may be turned into text.
        text = f"a {type(value).__name__} with a number of too many digits"
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"
