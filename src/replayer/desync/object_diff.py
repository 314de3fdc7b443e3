"""Compare two states by the paths of values: of recorded objects, without their classes, and in texts such as JSON."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import attrs
import numpy as np

from replayer.desync.state_diff import field_title
from replayer.value_text import plain_text
from sim.kernel.schema import COUNTS_FIELD, Blob, Field
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from sim.adapters.object_view.object_comparison import ObjectDifference
    from sim.adapters.object_view.object_tree import ObjectTree

MALFORMED = (ValueError, LookupError, TypeError, RecursionError, OverflowError)
GRAPH_PREFIX = "graph."
_MARK = f"{GRAPH_PREFIX}groups"  # A field of states of captured objects alone.
_COLUMN = re.compile(rf"{re.escape(GRAPH_PREFIX)}\d+\.([^.]+)\.cells\.(?:tag|value)")
_ROW = re.compile(rf"{re.escape(GRAPH_PREFIX)}\d+\.([^.]+)\.(length|node)")
_BUILT_IN = ("list", "dict")
_PARTS = {  # The beginnings of names of fields that hold values of all classes.
    f"{GRAPH_PREFIX}value": "texts, tuples, decimals, dates and the like",
    f"{GRAPH_PREFIX}special": "contents of sets or random generators or the like",
    f"{GRAPH_PREFIX}array": "arrays in objects",
}
SHOWN = 8  # Differences that are shown in a terminal or a report.
NAMED_MAX = 200  # Differences by path in an object of JSON.
OF_EACH_MAX = 3  # Of many differences: those of the same attribute of items of one list or dict.
_PLACE = re.compile(r"\[[^\]]*\]")
ELEMENTS_SHOWN = 3  # Of one array.
KEPT_MAX = 10_000  # If more values differ, the states themselves are easier to read than a list.
SAVED_FORM = "no difference in values, order or identity was found in the objects, but their saved form differs"


@attrs.frozen(eq=False)
class ObjectDiff:
    """The differences by path between two states: of captured objects, and of values in texts in a standard form.

    Attributes:
        differences: order and identity first, then values.
        has_more: True if there are more than were asked for.
        fields: the fields of the states that hold these objects and texts.
        left_out: the number of those that there are more; None if they were not counted.
    """

    differences: list[ObjectDifference]
    has_more: bool
    fields: set[str]
    left_out: int | None = None

    def lines(self, labels: tuple[str, str] = ("recorded", "replayed")) -> list[str]:
        """The first differences as lines. labels: names of the two states."""
        lines = [plain_text(difference.text(labels)) for difference in self.differences[:SHOWN]]
        if not self.has_more and len(self.differences) <= SHOWN:
            return lines
        left = None if self.left_out is None else self.left_out + len(self.differences) - len(lines)
        return [*lines, "… and more" if left is None else f"… and {left:,} more"]

    def holds(self, field: str) -> bool:
        """Return True for a field, a table or a blob of the states that holds these objects or texts."""
        return field in self.fields or field.startswith(GRAPH_PREFIX)


def object_difference_lines(
    states: tuple[Snapshot, Snapshot] | None,
    fields: Iterable[str],
    labels: tuple[str, str] = ("recorded", "replayed"),
) -> tuple[list[str], list[str]]:
    """The first differences by path between two states, and the fields that they do not explain.

    fields: those that differ. All of them remain for states without captured objects and texts in a standard form.
    """
    names = list(fields)
    diff = compare_objects(states) if names else None
    if diff is None:
        return [], names
    rest = [name for name in names if not diff.holds(name)]
    lines = diff.lines(labels)
    return lines or ([_saved_form(set(names) - set(rest))] if len(rest) < len(names) else []), rest


def _saved_form(fields: set[str]) -> str:
    """That only the saved form differs, and in what. fields: those of it that differ."""
    named = ", ".join(shown_fields(sorted(fields)))
    rows = (_ROW.fullmatch(name) for name in fields)
    is_numbered = any(row is not None and row[2] == "node" for row in rows)
    why = (
        "; an object that replaced an equal one has another number there, which the hash counts" if is_numbered else ""
    )
    return f"{SAVED_FORM}: {named}{why}"


def compare_objects(
    states: tuple[Snapshot, Snapshot] | None, *, limit: int = SHOWN, elements: int = ELEMENTS_SHOWN
) -> ObjectDiff | None:
    """Compare the captured objects of two states, and the values in their texts; None without states and without these.

    limit: of the differences. elements: of those in one array.
    """
    if states is None:
        return None
    trees = [objects_in(state) for state in states]
    fields: set[str] = set()
    found: list[Iterator[ObjectDifference]] = []
    if trees[0] is not None and trees[1] is not None:
        from sim.adapters.object_view.object_comparison import object_differences  # noqa: PLC0415 - as in objects_in

        fields |= {*trees[0].fields, *trees[1].fields}
        found.append(object_differences(trees[0], trees[1], elements))
    texts = _text_differences(states, fields, elements)
    if not found and not texts:
        return None
    fields |= set(texts)
    found += texts.values()
    structural: list[ObjectDifference] = []
    values: list[ObjectDifference] = []
    count = 0
    try:
        for difference in chain.from_iterable(found):
            (structural if difference.kind in ("order", "identity") else values).append(difference)
            count += 1
            if count > KEPT_MAX:
                break
    except MALFORMED as error:
        note_malformed(error)
        return None
    if _holds_all_sizes(states, fields):
        fields.add(COUNTS_FIELD)
    structural = _of_each_kind(structural, limit)
    differences = structural + _of_each_kind(values, limit - len(structural))
    left = count - len(differences)
    return ObjectDiff(differences, left > 0, fields, left if count <= KEPT_MAX else None)


def _holds_all_sizes(states: tuple[Snapshot, Snapshot], fields: set[str]) -> bool:
    """Return True if all tables and blobs are among the fields, or at least those whose sizes differ."""
    if all(name in fields or name == COUNTS_FIELD for state in states for name in state):
        return True
    one, other = states
    common = [name for name in one.layout.count_index if name in other.layout.count_index]
    return all(name in fields for name in common if one.count(name) != other.count(name))


def _text_differences(
    states: tuple[Snapshot, Snapshot], known: set[str], elements: int
) -> dict[str, Iterator[ObjectDifference]]:
    """The differences by path in each field that holds one text in a standard form, and another one in the other state.

    known: fields that hold captured objects.
    """
    kinds = [{one.name: type(one) for one in state.layout.schema.entries} for state in states]
    found = {}
    for name, kind in kinds[0].items():
        if (
            kind not in (Blob, Field)
            or kinds[1].get(name) is not kind
            or name in known
            or name.startswith(GRAPH_PREFIX)
        ):
            continue
        arrays = [state[name] for state in states]
        if any(array.dtype != np.uint8 or array.ndim != 1 for array in arrays):
            continue
        from sim.adapters.object_view.documents import SIZE_MAX  # noqa: PLC0415 - as in objects_in
        from sim.adapters.object_view.object_comparison import document_differences  # noqa: PLC0415

        one, other = (array.tobytes() if kind is Blob and array.size <= SIZE_MAX else array for array in arrays)
        of_text = document_differences(name, one, other, elements)
        if of_text is not None:
            found[name] = of_text
    return found


def text_fields(states: tuple[Snapshot, Snapshot] | None) -> set[str]:
    """The fields that hold different texts in a standard form in two states: the number of their bytes tells nothing."""
    return set() if states is None else set(_text_differences(states, set(), 1))


def _of_each_kind(differences: list[ObjectDifference], limit: int) -> list[ObjectDifference]:
    """The first differences; of many, not more of one list or dict than leave room for the others."""
    if len(differences) <= limit:
        return differences
    counts: Counter[str] = Counter()
    first: list[int] = []
    rest: list[int] = []
    for number, one in enumerate(differences):
        counts[shape := _PLACE.sub("[]", one.path)] += 1
        (first if counts[shape] <= OF_EACH_MAX else rest).append(number)
    return [differences[number] for number in sorted([*first, *rest][:limit])]


def are_equal(one: Snapshot, other: Snapshot) -> bool:
    """Return True if two states are equal, or hold objects that are equal in values, order and identity alone.

    The saved form of objects that were given other values may differ from that of objects which had them from the start.
    """
    if one.hash() == other.hash():
        return True
    diff = compare_objects((one, other), limit=1)
    if diff is None or diff.differences:
        return False
    rest = [name for name in {*one, *other} if not diff.holds(name)]
    return all(name in one and name in other and one[name].tobytes() == other[name].tobytes() for name in rest)


def object_differences_of(states: tuple[Snapshot, Snapshot] | None) -> list[ObjectDifference]:
    """The first differences of captured objects between two states; none without states or such objects."""
    diff = compare_objects(states)
    return [] if diff is None else diff.differences


def named_fields(states: tuple[Snapshot, Snapshot] | None, fields: Iterable[str]) -> list[str]:
    """Names for programs of fields that differ: captured objects by the paths of the values, others by their names.

    Of many paths the first NAMED_MAX. Without states, captured objects are named by their classes.
    """
    names = list(fields)
    diff = compare_objects(states, limit=NAMED_MAX) if names else None
    if diff is None or not diff.differences:
        return shown_fields(names)
    return list(
        dict.fromkeys([*(one.path for one in diff.differences), *(name for name in names if not diff.holds(name))])
    )


def shown_fields(fields: Iterable[str]) -> list[str]:
    """Names of fields for people: those that hold captured objects by the classes of these, each once.

    The field of sizes, which the library adds, is left out next to others.
    """
    names = list(fields)
    others = [name for name in names if name != COUNTS_FIELD]
    return list(dict.fromkeys(map(_shown_field, others or names)))


def _shown_field(field: str) -> str:
    if not field.startswith(GRAPH_PREFIX):
        return field_title(field)
    match = _COLUMN.fullmatch(field)
    if match is not None and match[1] == "list":  # The attributes of the outermost object are in the list of all roots.
        return "values of the recorded object itself or of lists"
    if match is not None:
        return f"values of {_many(match[1])}"
    row = _ROW.fullmatch(field)
    if row is not None:
        # Of an object, its attributes are counted; of one that is derived from a list or a dict, its items as well.
        held = f"lengths of {row[1]}s" if row[1] in _BUILT_IN else f"how many values {_many(row[1])} have"
        return held if row[2] == "length" else f"which {_many(row[1])} exist, or in which order they were made"
    return next((text for start, text in _PARTS.items() if field.startswith(start)), "how the objects are saved")


def _many(kind: str) -> str:
    return f"{kind}s" if kind in _BUILT_IN else f"{kind} objects"


def holds_objects(snapshot: Snapshot) -> bool:
    """Return True for a state of captured objects, whose values can be read from it alone."""
    return _MARK in list(snapshot)


def objects_in(snapshot: Snapshot) -> ObjectTree | None:
    """The captured objects of a state; None for a state of anything else, and with a note for one that is malformed."""
    if not holds_objects(snapshot):
        return None
    from sim.adapters.object_view.object_tree import tree_of  # noqa: PLC0415 - most tapes have no captured objects

    try:
        tree = tree_of(snapshot)
        if tree is not None:
            tree.summary()  # A malformed value is found here, not in the middle of the output.
    except MALFORMED as error:
        note_malformed(error)
        return None
    return tree


def note_malformed(error: Exception) -> None:
    """Say on stderr that the objects of a state cannot be shown."""
    print(f"note: its objects cannot be shown: {type(error).__name__}: {plain_text(str(error))}", file=sys.stderr)
