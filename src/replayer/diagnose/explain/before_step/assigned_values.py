"""Candidates that give values before a step those of a later keyframe, or others that code of a user interface gives them."""

from __future__ import annotations

import copy
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from recorder.text import counted
from replayer.diagnose.explain.before_step.changeable_values import (
    MISSING,
    Change,
    Path,
    ValuePlace,
    are_same,
    is_plain,
    last_attribute,
    path_text,
    put_at,
    value_at,
)
from replayer.value_text import plain_text

TEXT_CHARS_MAX = 60
PARTS_SHOWN = 4
ROUNDED_TO = (0, 1, 2, 3, 4)
_NUMBERS = (int, float)


def shown(value: Any) -> str:
    """A value for people, in a few words."""
    if value is MISSING:
        return "not there"
    text = plain_text(repr(value))
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 1]}…"


def set_to(root: Any, place: ValuePlace, value: Any) -> Change:
    """The place with another value."""
    text = f"{path_text(root, place.path)} {shown(value)} in place of {shown(place.before)}"
    return Change(text, (last_attribute(place.path),), partial(_put, place.path, value), (place.path,))


def as_recorded(root: Any, places: Sequence[ValuePlace]) -> list[Change]:
    """Values as they are at the keyframe, where the steps up to it do not write them in the replay."""
    found = []
    here = {id(place.recorded): place.path for place in reversed(places) if not is_plain(place.recorded)}
    for place in places:
        if place.path and not are_same(place.before, place.recorded):
            if place.before is not MISSING and place.replayed is MISSING:
                continue
            change = _as_recorded(root, place, here)
            found += [change] if change is not None else []
    return found


def _as_recorded(root: Any, place: ValuePlace, here: dict[int, Path]) -> Change | None:
    text = path_text(root, place.path)
    names = (last_attribute(place.path),)
    new = place.recorded
    if isinstance(place.before, np.ndarray):
        return _array_as_recorded(text, names, place)
    is_unwritten = are_same(place.before, place.replayed) or (place.before is MISSING and place.replayed is MISSING)
    if new is MISSING and is_unwritten:
        return Change(f"{text} removed", names, partial(_put, place.path, MISSING), (place.path,))
    if is_plain(new) and is_unwritten:
        if place.before is not MISSING:
            return set_to(root, place, new)
        return Change(f"{text} {shown(new)} added", names, partial(_put, place.path, new), (place.path,))
    if isinstance(new, list | deque | dict | set) and type(new) is type(place.before) and is_unwritten:
        if _holds_plain(new):
            return Change(
                f"{text} {shown(new)} in place of {shown(place.before)}",
                names,
                partial(_fill, place.path, new),
                (place.path,),
            )
        return None
    if place.before is None and place.replayed is None and id(new) in here:
        target = here[id(new)]
        told = f"{text} set to {path_text(root, target)}"
        return Change(told, names, lambda live: put_at(live, place.path, value_at(live, target)), (place.path,))
    return None


def _array_as_recorded(text: str, names: tuple[str, ...], place: ValuePlace) -> Change | None:
    """The elements that the steps do not write in the replay, as they are at the keyframe."""
    if not _are_alike(place):
        return None
    chosen = (place.before == place.replayed) & (place.recorded != place.before)
    return _elements(text, names, place, chosen, place.recorded, "as at the keyframe") if chosen.any() else None


def arrays_by_difference(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    """Arrays changed by what the recording has more of their elements at the keyframe than the replay."""
    for place in places:
        if isinstance(place.before, np.ndarray) and _are_alike(place) and place.before.dtype.kind in "iuf":
            chosen = place.recorded != place.replayed
            if chosen.any():
                text, names = path_text(root, place.path), (last_attribute(place.path) or str(place.path[-1][1]),)
                values = place.before + (place.recorded - place.replayed)
                yield _elements(text, names, place, chosen, values, "changed by what the keyframe has more")


def _are_alike(place: ValuePlace) -> bool:
    arrays = place.before, place.recorded, place.replayed
    if any(not isinstance(one, np.ndarray) or one.shape != place.before.shape for one in arrays):
        return False
    return bool(place.before.ndim and not place.before.dtype.hasobject)


def _elements(text: str, names: tuple[str, ...], place: ValuePlace, chosen: Any, values: Any, how: str) -> Change:
    new, old = values[chosen].copy(), place.before[chosen]

    def apply(root: Any) -> None:
        value_at(root, place.path)[chosen] = new

    if len(new) == 1:
        index = ", ".join(str(int(one[0])) for one in np.nonzero(chosen))
        return Change(f"{text}[{index}] {new[0]} in place of {old[0]}", names, apply, (place.path,))
    return Change(f"{text}: {len(new):,} elements {how}", names, apply, (place.path,))


def added_items(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    """Values that the recording has in a list after those of before the step, and the replay has not: appended."""
    for place in places:
        now, recorded, replayed = place.before, place.recorded, place.replayed
        if not isinstance(now, list | deque) or not (
            isinstance(recorded, list | deque) and isinstance(replayed, list | deque)
        ):
            continue
        lists = [list(one) for one in (now, recorded, replayed)]
        count = len(now)
        if (
            not all(map(is_plain, lists[1]))
            or not are_same(lists[0], lists[1][:count])
            or not are_same(lists[0], lists[2][:count])
        ):
            continue
        more = lists[1][count:]
        if more and (len(replayed) == count or not are_same(more[0], lists[2][count])):
            for many in range(1, min(len(more), 3) + 1):
                yield Change(
                    f"{path_text(root, place.path)} with {', '.join(map(shown, more[:many]))} appended",
                    (last_attribute(place.path),),
                    partial(_append, place.path, more[:many]),
                    (place.path,),
                )


def by_difference(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    """Numbers changed by what the recording has more of them at the keyframe than the replay; then the rounded ones, or by one."""
    changed = [place for place in places if _has_difference(place)]
    for number in range(6):
        for place in changed:
            now, wanted = place.before, place.recorded - place.replayed
            values = [now + wanted, place.recorded]
            if type(wanted) is float:
                values += [now + round(wanted, digits) for digits in (0, 1, 2, 6)]
            else:
                values += [now + 1, now - 1]
            if number < len(values) and values[number] not in (now, *values[:number]):
                yield set_to(root, place, values[number])


def _has_difference(place: ValuePlace) -> bool:
    values = place.before, place.recorded, place.replayed
    return all(type(value) in _NUMBERS for value in values) and values[1] != values[2]


def usual_values(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    """Values that code often gives: True or False turned, None, zero, one more; each in a place that is shown nowhere else."""
    for place in places:
        if not place.path or place.path[-1][0] != "attribute" or any(kind == "item" for kind, _ in place.path):
            continue
        for value in _usual(place.before):
            yield set_to(root, place, value)


def _usual(value: Any) -> list[Any]:
    if type(value) is bool:
        return [not value]
    if type(value) in _NUMBERS:
        return [one for one in (type(value)(0), value + 1, value - 1) if one != value]
    return [] if value is None or (is_plain(value) and type(value) is not str) else [None]


def of_all_items(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    """One attribute of all objects of a list: rounded, or with one value."""
    groups: defaultdict[tuple[Path, type, str], list[ValuePlace]] = defaultdict(list)
    for place in places:
        if len(place.path) > 1 and place.path[-1][0] == "attribute" and place.path[-2][0] == "item":
            groups[place.path[:-2], type(place.before), str(place.path[-1][1])].append(place)
    by_holder: defaultdict[tuple[Path, int], list[Change]] = defaultdict(list)
    for (holder, kind, name), members in groups.items():
        text = f"{path_text(root, holder)}[…].{name}"
        if kind is float:
            for digits in ROUNDED_TO:
                values = {one.path: round(one.before, digits) for one in members if np.isfinite(one.before)}
                change = _set_all(f"{text} rounded to {digits} digits", name, values)
                by_holder[holder, digits].append(change)
                yield change
        if kind in (bool, int, float) and len(members) > 1:
            for value in [True, False] if kind is bool else [kind(0)]:
                yield _set_all(f"{text} {value!r} in all of them", name, {one.path: value for one in members})
    for changes in by_holder.values():
        if len(changes) > 1:
            yield joined(changes)


def joined(changes: Sequence[Change]) -> Change:
    """Several changes as one."""
    names = tuple(dict.fromkeys(name for one in changes for name in one.names))
    paths = tuple(path for one in changes for path in one.paths)

    def apply(root: Any) -> None:
        for one in changes:
            one.apply(root)

    texts = [one.text for one in changes]
    more = len(texts) - PARTS_SHOWN
    if more > 0:
        texts = [*texts[:PARTS_SHOWN], f"and {counted(more, 'more value')}"]
    return Change("; ".join(texts), names, apply, paths, tuple(changes))


def groups_of(changes: Sequence[Change]) -> Iterator[Change]:
    """The changes of each object as one, then all of them. Of several at one path, the first."""
    by_holder: defaultdict[Path, list[Change]] = defaultdict(list)
    changes = list({one.paths: one for one in reversed(changes)}.values())[::-1]
    for one in changes:
        by_holder[one.paths[0][:-1]].append(one)
    for own in by_holder.values():
        if 1 < len(own) < len(changes):
            yield joined(own)
    if len(changes) > 1:
        yield joined(changes)


def _set_all(text: str, name: str, values: dict[Path, Any]) -> Change:
    def apply(root: Any) -> None:
        for path, value in values.items():
            put_at(root, path, value)

    return Change(text, (name,), apply, tuple(values))


def _put(path: Path, value: Any, root: Any) -> None:
    put_at(root, path, value)


def _append(path: Path, values: list[Any], root: Any) -> None:
    value_at(root, path).extend(values)


def _holds_plain(value: Any) -> bool:
    return all(map(is_plain, value)) and (not isinstance(value, dict) or all(map(is_plain, value.values())))


def _fill(path: Path, new: Any, root: Any) -> None:
    """Give a container the content of another one, in place."""
    held, content = value_at(root, path), copy.copy(new)
    if isinstance(held, set):
        held.intersection_update(content)
        held.update(content)
        return
    held.clear()
    fill: Callable[[Any], None] = held.update if isinstance(held, dict) else held.extend
    fill(content)
