"""Name the differences between the ambient of a live run and that of a restored copy.

A candidate has a name, such as ``Walkers._memo``, and collects all differences below that name. A difference need not
matter: trials.py tests that.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import attrs

from recorder.ambient.ambient import (
    ENVIRONMENT_PATH,
    FOLDER_PATH,
    INSTANCE,
    NUMPY_RANDOM_PATH,
    RANDOM_PATH,
    Ambient,
    Path,
)
from recorder.ambient.value_kinds import same_leaf

WORDS_DRAWN_MAX = 10_000  # Draws of a global generator are counted up to this number.
SHOWN_CHARS_MAX = 40  # Of a value in a sentence.

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
_NEVER_ALIASES = ("function", "method", "builtin_function_or_method", "tuple", "partial", "generator")
_NOTHING: Any = object()


@attrs.frozen
class Candidate:
    """A value outside the state that differs between a restored copy and the live run.

    Attributes:
        name: for finding it in the code.
        kind: attribute, module global, class attribute, closure, default argument, cache, random generator, alias, …
        detail: the difference, in a few words.
        paths: of the differing values, in the live run's ambient.
    """

    name: str
    kind: str
    detail: str
    paths: tuple[Path, ...]


def find_candidates(live: Ambient, copy: Ambient) -> list[Candidate]:
    """The differences between two ambients, the outermost names first."""
    groups: dict[Path, list[Path]] = {}  # Differing paths, by the name that they are shown under.
    differing = set(_differing(live, copy))
    for path in sorted(differing, key=len):
        if any(path[:depth] in differing for depth in range(1, len(path))):
            continue  # Restoring the outer one restores this as well.
        shown = tuple((kind, None) if kind == "item" else (kind, name) for kind, name in _place_of(path))
        groups.setdefault(shown, []).append(path)
    candidates = [_candidate(paths, live, copy) for paths in groups.values()]
    return [*candidates, *_broken_aliases(live, copy)]


def _differing(live: Ambient, copy: Ambient) -> Iterable[Path]:
    for path, leaf in live.leaves.items():
        other = copy.leaves.get(path, _NOTHING)
        if other is not leaf and not same_leaf(leaf, other) and not (other is _NOTHING and path in copy.aliases):
            yield path
    for path in copy.leaves:
        if path not in live.leaves and path not in live.aliases:
            yield path


def _place_of(path: Path) -> Path:
    """The innermost name on the path to a value: items of a container belong to the name that holds it."""
    for end in range(len(path), 1, -1):
        if path[end - 1][0] in _NAMING and path[end - 1][1] not in ("__self__", "__func__", "keywords", "args"):
            return path[:end]
    return path


def _candidate(paths: list[Path], live: Ambient, copy: Ambient) -> Candidate:
    path = paths[0]
    first = _place_of(path)
    ours, theirs = live.leaves.get(path, _NOTHING), copy.leaves.get(path, _NOTHING)
    kind = _NAMING.get(first[-1][0], first[-1][0])
    where = name_of(path[len(first) :]) if len(path) > len(first) else ""
    detail = _contrast(ours, theirs)
    if first == RANDOM_PATH:
        kind, detail = "random generator", _words_text(ours, theirs)
    elif first == NUMPY_RANDOM_PATH or (isinstance(ours, dict) and "bit_generator" in ours):
        kind = "random generator"
        detail = "its state differs: " + ", ".join(key for key in ours if not same_leaf(ours[key], theirs.get(key)))
    elif first == ENVIRONMENT_PATH:
        changed = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        one = changed[0]
        named = " and ".join(f"os.environ[{key!r}]" for key in changed[:3])
        detail = _contrast(ours.get(one, _NOTHING), theirs.get(one, _NOTHING))
        return Candidate(named, "environment variable", detail, tuple(paths))
    elif first == FOLDER_PATH:
        kind = "current folder"
    elif isinstance(ours, tuple) and ours[:1] == ("cache",):
        kind = "cache"
        detail = f"{ours[1]} results kept in the live run, {theirs[1] if theirs is not _NOTHING else 0} for the copy"
    more = f", and {len(paths) - 1} more like it" if len(paths) > 1 else ""
    return Candidate(name_of(_common(paths)), kind, (f"{where} " if where else "") + detail + more, tuple(paths))


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
            if first not in other.objects or type(one.objects.get(first)).__name__ in _NEVER_ALIASES:
                continue
            how = (
                "shared memory in the live run, not after the load"
                if one is live
                else "share memory after the load, not in the live run"
            )
            name = f"{name_of(_place_of(first))} and {name_of(_place_of(path))}"
            candidates.append(Candidate(name, "alias", how, (first, path)))
    return candidates


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
                text += "[…]" if name is ... else f"[{_shown(name)}]"
            case "closure" | "default" | "local":
                text += f": {name}"
            case "cell":
                pass
            case _:
                text += f".{name}"
    return text


def _contrast(ours: Any, theirs: Any) -> str:
    """The difference between two leaves, in a few words."""
    for leaf in (ours, theirs):
        if isinstance(leaf, tuple) and leaf[:1] == ("view of the state",):
            which = "the live run" if leaf is ours else "the copy"
            return (
                f"is a view of the state in {which} only" if not _both_views(ours, theirs) else "views different bytes"
            )
    left, right = _summary(ours), _summary(theirs)
    if left == right:
        left, right = f"{left}", "the same number with different values" if "entr" in left or "×" in left else right
    return f"{left} in the live run, {right} for the copy"


def _both_views(ours: Any, theirs: Any) -> bool:
    return all(isinstance(leaf, tuple) and leaf[:1] == ("view of the state",) for leaf in (ours, theirs))


def _summary(leaf: Any) -> str:
    if leaf is _NOTHING:
        return "absent"
    match leaf:
        case (str(kind), list() | tuple() as content) | (str(kind), tuple() as content, tuple()) if kind in _SIZED:
            shown = _shown(list(leaf[-1]))
            return shown if len(shown) < SHOWN_CHARS_MAX and len(leaf) == 2 else _entries(len(content))
        case (str(kind), int(count)) if kind in _SIZED:
            return _entries(count)
        case ("stands at line", line):
            return f"stands at line {line}" if line is not None else "has ended"
        case (str(dtype), tuple() as shape, bytes() | int()):
            return f"array of {' × '.join(map(str, shape)) or 'one'} {dtype}"
    return _shown(leaf)


_SIZED = {"dict", "list", "tuple", "set", "deque", "array"}


def _entries(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"


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
