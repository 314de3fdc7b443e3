"""Name the differences between the ambient of a live run and that of a restored copy.

A candidate has a name, such as ``Walkers._memo``, and collects all differences below that name. A difference need not
matter: trials.py tests that.
"""

from __future__ import annotations

import enum
import random
import sys
from collections import deque
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np
import xxhash

from recorder.ambient.ambient import (
    ENVIRONMENT_PATH,
    FOLDER_PATH,
    INSTANCE,
    NUMPY_RANDOM_PATH,
    RANDOM_PATH,
    Ambient,
    iterator_of,
)
from recorder.ambient.c_memory import Memory
from recorder.ambient.leaf_text import NOTHING, difference_of, differing_values, name_of, short_text
from recorder.ambient.members import At
from recorder.ambient.replacement.named_values import Path
from recorder.ambient.value_kinds import is_plain, kind_of, same_leaf
from recorder.processes.seeds.process_generators import NUMBAS
from sim.kernel.class_names import module_of
from sim.kernel.sets.set_layout import SetTable

_TEXT_MAX = 1000  # Of a value that is compared with those of other items of a list; of a longer one its hash is.
WORDS_DRAWN_MAX = 10_000  # Draws of a global generator are counted up to this number.

_NAMING = {
    "attribute": "attribute",
    "global": "module global",
    "class": "class attribute",
    "closure": "closure",
    "default": "default argument",
    "function attribute": "function attribute",
    "local": "local of a generator",
    "class of": "class attribute",
}
NEVER_ALIASES = ("function", "method", "builtin_function_or_method", "tuple", "partial", "generator")


@attrs.frozen
class Candidate:
    """A value outside the state that differs between a restored copy and the live run.

    Attributes:
        name: for finding it in the code.
        kind: attribute, module global, class attribute, closure, default argument, cache, random generator, alias, …
        detail: the difference, in a few words.
        paths: of the differing values, in the live run's ambient.
        is_by_address: True for a dict whose keys are the addresses of objects, which no other run has.
    """

    name: str
    kind: str
    detail: str
    paths: tuple[Path, ...]
    is_by_address: bool = False


def find_candidates(live: Ambient, copy: Ambient) -> list[Candidate]:
    """The differences between two ambients, the outermost names first."""
    groups: dict[Path, list[Path]] = {}  # Differing paths, by the name that they are shown under.
    differing = dict.fromkeys(_differing(live, copy))  # In the order of the walk: that of a set varies from run to run.
    reordered: dict[Path, list[Path]] = {one: [] for one in _reordered_lists(differing, live, copy)}
    for path in sorted(differing, key=len):
        if any(path[:depth] in differing for depth in range(1, len(path))):
            continue  # Restoring the outer one restores this as well.
        whole = next((path[:depth] for depth in range(1, len(path)) if path[:depth] in reordered), None)
        if whole is not None:
            reordered[whole].append(path)
            continue
        shown = tuple((kind, None) if kind == "item" else (kind, name) for kind, name in _place_of(path))
        groups.setdefault(shown, []).append(path)
    candidates = [_candidate(paths, live, copy) for paths in groups.values()]
    orders = [_order_of_items(one, paths, live) for one, paths in reordered.items() if paths]
    return [*candidates, *orders, *_broken_aliases(live, copy)]


def _reordered_lists(differing: Iterable[Path], live: Ambient, copy: Ambient) -> list[Path]:
    """The lists and deques of objects that hold equal ones in both ambients, in another order; the outermost of such lists."""
    lists: dict[Path, None] = {}
    for path in differing:
        for depth in range(1, len(path) - 1):
            one = path[:depth]
            leaf = live.leaves.get(one)
            # A class that is derived of these may give other items than it holds.
            kinds = {type(ambient.objects.get(one)) for ambient in (live, copy)}
            is_list = kinds in ({list}, {deque}) and path[depth][0] == "item"
            if is_list and isinstance(leaf, tuple) and same_leaf(leaf, copy.leaves.get(one)):
                lists[one] = None
    contents = [_contents_of_items(lists, ambient) for ambient in (live, copy)] if lists else []
    found = [
        one
        for one in lists
        if (both := [content[one] for content in contents])[0]
        and None not in both[0]
        and both[0] != both[1]
        and sorted(map(repr, both[0])) == sorted(map(repr, both[1]))
    ]
    return [one for one in found if not any(one[:depth] in found for depth in range(1, len(one)))]


def _contents_of_items(lists: Iterable[Path], ambient: Ambient) -> dict[Path, list[list[str] | None]]:
    """What each item of these lists holds, as texts in which their places do not count; None if it leads back into the list, or is not known."""
    found: dict[Path, list[list[str] | None]] = {one: [[] for _ in ambient.objects[one]] for one in lists}
    for path, leaf in [*ambient.leaves.items(), *ambient.aliases.items()]:
        for depth in range(1, len(path)):
            items = found.get(one := path[:depth])
            if items is None or path[depth][0] != "item":
                continue
            number, is_alias = path[depth][1], path in ambient.aliases
            texts = items[number]
            text = None if is_alias and leaf[:depth] == one else _exact_text((path[depth + 1 :], is_alias, leaf))
            if text is None:
                items[number] = None
            elif texts is not None:
                texts.append(text if len(text) <= _TEXT_MAX else xxhash.xxh3_128_hexdigest(text.encode()))
    return {one: [texts and sorted(texts) for texts in items] for one, items in found.items()}


def _exact_text(value: Any) -> str | None:
    """A text that two values have in common only if they are equal in type and content; None if the content is not known.

    No class of the user's takes part, as its own text may leave things out.
    """
    kind: Any = type(value)
    if kind in (list, tuple):
        parts = [_exact_text(one) for one in value]
        return None if None in parts else f"{kind.__name__}({', '.join(map(str, parts))})"
    if kind is At:
        return _within("At", value.path)
    if kind is Memory:
        content = value.content
        return None if content is None else f"{id(value.layout)} {xxhash.xxh3_128_hexdigest(content)}"
    if kind is SetTable:
        return repr(value)
    for base in (bool, int, float, complex, str, bytes):
        if kind is base:
            return f"{kind.__name__} {value!r}"
        if issubclass(kind, base) and not issubclass(kind, np.generic | enum.Enum):  # With its own text.
            return f"{id(kind)} {base.__repr__(value)}"
    if issubclass(kind, np.generic):
        return f"{value.dtype.str} {value.tobytes()!r}"
    is_pythons = kind.__module__ in sys.stdlib_module_names and kind.__hash__ is not object.__hash__
    return f"{kind.__qualname__} {value!r}" if is_pythons else f"{id(kind)} {id(value)}"


def _within(name: str, value: Any) -> str | None:
    text = _exact_text(value)
    return None if text is None else f"{name}({text})"


def _order_of_items(whole: Path, paths: list[Path], live: Ambient) -> Candidate:
    """A list whose items are equal in both ambients, in another order. paths: of the values that differ place by place."""
    holder = live.objects[whole]
    order, kind = f"order of a {kind_of(type(holder))}", _NAMING.get(whole[-1][0], whole[-1][0])
    detail = f"the same {len(holder)} items, in another order"
    if kind != "attribute":
        return Candidate(name_of(whole), kind, f"{order}: {detail}", tuple(paths))
    return Candidate(name_of(whole), order, detail, tuple(paths))


def _differing(live: Ambient, copy: Ambient) -> Iterable[Path]:
    for path, leaf in live.leaves.items():
        other = copy.leaves.get(path, NOTHING)
        if other is not leaf and not same_leaf(leaf, other) and not (other is NOTHING and _is_inside(path, copy)):
            yield path
    for path in copy.leaves:
        if path not in live.leaves and not _is_inside(path, live):
            yield path


def _is_inside(path: Path, ambient: Ambient) -> bool:
    """Return True for a value of an object that the ambient has under another path: it is not absent there."""
    return any(path[:depth] in ambient.aliases for depth in range(1, len(path) + 1))


def _place_of(path: Path) -> Path:
    """The innermost name on the path to a value: items of a container belong to the name that holds it."""
    for end in range(len(path), 1, -1):
        if path[end - 1][0] in _NAMING and path[end - 1][1] not in ("__self__", "__func__", "keywords", "args"):
            return path[:end]
    return path


def _candidate(paths: list[Path], live: Ambient, copy: Ambient) -> Candidate:
    path = paths[0]
    first = _place_of(path)
    ours, theirs = live.leaves.get(path, NOTHING), copy.leaves.get(path, NOTHING)
    where = name_of(path[len(first) :]) if len(path) > len(first) else ""
    special, detail = difference_of(ours, theirs)
    kind = _NAMING.get(first[-1][0], first[-1][0])
    if special is not None and kind == "attribute":
        kind = special
    elif special is not None:  # That it is one of a class or of a module says more.
        detail = f"{special}: {detail}"
    if first == RANDOM_PATH:
        kind, detail = "random generator", _words_text(ours, theirs)
    elif first[0][0] == "ambient" and first[0][1] in NUMBAS:
        kind, detail = "random generator", "that of compiled code: its state differs"
    elif first == NUMPY_RANDOM_PATH or _is_generator(ours) or _is_generator(theirs):
        kind, detail = "random generator", _generators_text(ours, theirs)
        holder = live.objects.get(path[:-1], copy.objects.get(path[:-1]))
        if _is_space(type(holder)) and len(paths) == 1:
            return Candidate(name_of(path[:-1]), "generator of a space", detail, (path,))
    elif first == ENVIRONMENT_PATH:
        changed = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        one = changed[0]
        named = " and ".join(f"os.environ[{key!r}]" for key in changed[:3])
        _, detail = difference_of(ours.get(one, NOTHING), theirs.get(one, NOTHING))
        return Candidate(named, "environment variable", detail, tuple(paths))
    elif first == FOLDER_PATH:
        kind = "current folder"
    elif isinstance(ours, tuple) and ours[:1] == ("cache",):
        kind = "cache"
        kept = theirs[1] if isinstance(theirs, tuple) and theirs[:1] == ("cache",) else 0
        detail = f"{ours[1]} results kept in the live run, {kept} for the copy"
    pairs = [(live.leaves.get(one, NOTHING), copy.leaves.get(one, NOTHING)) for one in paths]
    further = sum(differing_values(*pair) for pair in pairs) - 1
    more = f", and {further} more like it" if further else ""
    is_by_address = _has_addresses(ours, live) or _has_addresses(theirs, copy)
    if is_by_address and len(paths) == 1 and (by_object := _values_by_object(path, live, copy)) is not None:
        detail, more = by_object, ""
    more += "; its keys are addresses of objects" if is_by_address else ""
    detail = (f"{where} " if where else "") + detail + _of_class(path, copy, theirs) + more
    return Candidate(name_of(_common(paths)), kind, detail, tuple(paths), is_by_address)


def _of_class(path: Path, copy: Ambient, theirs: Any) -> str:
    """Of an attribute that the copy's object lacks: what it reads in its place, from its class; empty without that."""
    holder = copy.objects.get(path[:-1])
    if theirs is not NOTHING or path[-1][0] != "attribute" or holder is None:
        return ""
    kept = next((vars(base)[path[-1][1]] for base in type(holder).__mro__ if path[-1][1] in vars(base)), NOTHING)
    return f", whose class has {short_text(kept)}" if is_plain(kept) else ""


def _has_addresses(leaf: Any, ambient: Ambient) -> bool:
    """Return True for a dict whose keys are the addresses of objects of the ambient."""
    match leaf:
        case ("dict", (int() as first, *_) as keys, *_) if all(type(key) is int for key in keys):
            addresses = {id(one) for one in ambient.objects.values()}
            return first in addresses and all(key in addresses for key in keys)
    return False


def _values_by_object(path: Path, live: Ambient, copy: Ambient) -> str | None:
    """The difference of a dict whose keys are addresses, by the names of the objects; None if it is in no key of these."""
    tables: list[dict[str, Any]] = []
    for ambient in (live, copy):
        leaf = ambient.leaves.get(path, NOTHING)
        names = {id(one): name_of(place) for place, one in ambient.objects.items()} if _is_table(leaf) else {}
        tables.append(
            {names[key]: value for key, value in zip(*leaf[1:], strict=True) if key in names} if names else {}
        )
    both = [(name, tables[0].get(name, NOTHING), tables[1].get(name, NOTHING)) for name in {**tables[0], **tables[1]}]
    differing = [one for one in both if any(value is NOTHING for value in one) or not same_leaf(*one[1:])]
    if not differing:
        is_whole = both and all(len(ambient.leaves[path][1]) == len(both) for ambient in (live, copy))
        return "the same values for the same objects, which have other addresses" if is_whole else None
    name, ours, theirs = differing[0]
    more = f", and {len(differing) - 1} more like it" if len(differing) > 1 else ""
    return f"[id({name})] {difference_of(ours, theirs)[1]}{more}"


def _is_table(leaf: Any) -> bool:
    """Return True for a dict of plain values whose keys are numbers."""
    match leaf:
        case ("dict", (int(), *_) as keys, tuple()):
            return all(type(key) is int for key in keys)
    return False


def _is_generator(leaf: Any) -> bool:
    return isinstance(leaf, dict) and "bit_generator" in leaf


def _generators_text(ours: Any, theirs: Any) -> str:
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        one, other = ("made" if isinstance(leaf, dict) else "not made yet" for leaf in (ours, theirs))
        return f"{one} in the live run, {other} for the copy"
    return "its state differs: " + ", ".join(key for key in ours if not same_leaf(ours[key], theirs.get(key)))


def _is_space(kind: type) -> bool:
    """Return True for a space of Gymnasium, whose generator a step may draw from by sample()."""
    return any(base.__name__ == "Space" and module_of(base).startswith("gymnasium.spaces") for base in kind.__mro__)


def _common(paths: list[Path]) -> Path:
    """The common name of several paths, with an ellipsis for the items in which they differ."""
    places = [_place_of(path) for path in paths]
    return tuple(
        step if all(place[index] == step for place in places) else (step[0], ...)
        for index, step in enumerate(places[0])
    )


def _broken_aliases(live: Ambient, copy: Ambient) -> list[Candidate]:
    candidates = []
    for one, other in ((live, copy), (copy, live)):
        for path, first in one.aliases.items():
            if path[0][0] != INSTANCE or other.aliases.get(path) == first or path not in other.objects:
                continue
            base = one.objects.get(first)
            if (inside := iterator_of(path)) is not None and inside == iterator_of(first):
                continue  # What an iterator keeps for itself is reached by no other name.
            if first not in other.objects or type(base).__name__ in NEVER_ALIASES:
                continue
            if isinstance(base, np.ndarray):
                how = (
                    "shared memory in the live run, not after the load"
                    if one is live
                    else "share memory after the load, not in the live run"
                )
            else:
                how = (
                    "one object in the live run, two after the load"
                    if one is live
                    else "two objects in the live run, one after the load"
                )
            # Names that lead to the second object as well: they are joined, or are separate, together.
            same = (name for name, base_name in other.aliases.items() if base_name == path and one is live)
            further = (name for name in same if one.aliases.get(name) == first)
            candidates.append(Candidate(f"{name_of(first)} and {name_of(path)}", "alias", how, (first, path, *further)))
    return candidates


def _words_text(ours: Any, theirs: Any) -> str:
    """The number of words drawn from the random module between two of its states, as text."""
    for before, after, when in ((ours, theirs, "since the live run"), (theirs, ours, "in the live run only")):
        count = words_between(before, after)
        if count is not None:
            return f"{count} word{'' if count == 1 else 's'} of 32 bits drawn {when}"
    return "its state differs"


def words_between(before: Any, after: Any) -> int | None:
    """The number of 32-bit words drawn between two states of random.Random; None if it is WORDS_DRAWN_MAX or more."""
    walker = random.Random()  # noqa: S311 - it only repeats draws
    walker.setstate(before)
    if before[1] == after[1]:
        return 0
    for count in range(1, WORDS_DRAWN_MAX):
        walker.getrandbits(32)
        if count % 624 == (after[1][-1] - before[1][-1]) % 624 and walker.getstate()[1] == after[1]:
            return count
    return None
