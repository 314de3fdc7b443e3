"""The paths that differ at the next keyframe and are of the kinds of which the divergent tick has hashes alone."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable

from replayer.desync.finding import Finding
from replayer.desync.object_diff import GRAPH_PREFIX, NAMED_MAX, compare_objects, objects_in, shown_fields
from replayer.value_text import plain_text

_SHOWN = 8
_LOOKED_UP = 2  # Paths that differ in keys and numbers alone: in a long list, each takes a while to find.
_PLACE = re.compile(r"\[[^\]]*\]")
_OF_A_VALUE = ("value", "state", "count")  # Kinds of differences: not of an order, or of which objects are one.


@functools.lru_cache(maxsize=1)  # A report is printed and written into a dump.
def later_line(finding: Finding) -> str | None:
    """The paths, in a line; None without any, and where the values of the tick itself are known."""
    states, fields = finding.compared_states, finding.place.fields
    kinds = shown_fields(name for name in fields or () if name.startswith(GRAPH_PREFIX))
    if states is None or not kinds or finding.compared_tick == finding.tick:
        return None
    trees = [objects_in(state) for state in states]
    diff = compare_objects(states, limit=NAMED_MAX)
    if diff is None:
        return None
    paths, looked = [], Counter[str]()
    for one in diff.differences:
        looked[shape := _PLACE.sub("[…]", one.path)] += 1
        if one.kind not in _OF_A_VALUE or looked[shape] > _LOOKED_UP:
            continue
        held = [tree.fields_of(one.path) for tree in trees if tree is not None]
        if all(held) and not set(kinds).isdisjoint(shown_fields(name for names in held for name in names)):
            paths.append(one.path)
    if not paths:
        return None
    return f"at the keyframe of tick {finding.compared_tick:,}, values of these kinds differ: {_named(paths)}"


def _named(paths: Iterable[str]) -> str:
    """The paths, those that differ in their keys or numbers alone as one."""
    alike: dict[str, list[str]] = {}
    for path in paths:
        alike.setdefault(_PLACE.sub("[…]", path), []).append(path)
    named = [plain_text(shape if len(own) > 1 else own[0]) for shape, own in alike.items()]
    more = len(named) - _SHOWN
    return f"{', '.join(named[:_SHOWN])}{f' and {more:,} more' if more > 0 else ''}"
