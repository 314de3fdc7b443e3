"""The recorded object in a state, and what differs in it between two: values by their paths, without its classes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from recorder.exit_codes import UsageError
from replayer.tape.fields import ensure_fields
from replayer.value_text import describe_field, field_lines, plain_text, state_summary
from sim.kernel.registry import Config, World
from sim.kernel.schema import COUNTS_FIELD
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from sim.adapters.object_view.object_tree import ObjectTree

_MALFORMED = (ValueError, LookupError, TypeError, RecursionError, OverflowError)
DIFFERENCES = 8  # Values that are shown.
_MARK = "graph.groups"  # A field of states of captured objects alone.


class ShownState:
    """A state as ``replay seek`` shows it: the objects in it by paths, its other fields by their names.

    Attributes:
        fields: those of the requested names that are fields of the state.
    """

    def __init__(self, snapshot: Snapshot, requested: Sequence[str]) -> None:
        """requested: names of fields, or paths of values in the objects. Raises UsageError for one that is neither."""
        self._snapshot, self._requested = snapshot, requested
        self._tree = _objects_in(snapshot)
        self.fields = [name for name in requested if self._tree is None or name in list(snapshot)]
        ensure_fields(snapshot, self.fields)
        self._found = {name: self._find(name) for name in requested if name not in self.fields}

    def _find(self, path: str) -> tuple[str, Any]:
        assert self._tree is not None
        found = self._tree.find(path)
        if found is None:
            attributes = ", ".join(plain_text(entry.step) for entry in self._tree.entries)
            raise UsageError(f"no attribute or field {path!r}; the attributes are {attributes}")
        return found

    def summary(self, world: World | None, config: Config) -> dict[str, str]:
        """Each attribute of the objects in a line, and the other fields as state_summary has them."""
        if self._tree is None:
            return state_summary(self._snapshot, world, config)
        return {**self._tree.summary(), **self._other_fields()}

    def _other_fields(self) -> dict[str, str]:
        shown = self._tree.fields if self._tree is not None else set()
        return {name: describe_field(self._snapshot, name) for name in self._snapshot if name not in shown}

    def summary_lines(self, world: World | None, config: Config, *, whole: bool) -> list[str]:
        """The summary as lines, with the first parts of attributes that need more than one. whole: all parts."""
        if self._tree is None:
            return [f"{name}: {text}" for name, text in self.summary(world, config).items()]
        lines = [plain_text(line) for line in self._tree.lines(whole=whole)]
        return lines + [f"{name}: {text}" for name, text in self._other_fields().items()]

    def requested_lines(self, *, whole: bool) -> list[str]:
        """The requested fields and values as lines. whole: all of their values."""
        lines: list[str] = []
        for name in self._requested:
            if name in self._found:
                assert self._tree is not None
                lines += [plain_text(line) for line in self._tree.lines_at(*self._found[name], whole=whole)]
                continue
            lines.append(f"{name}: {describe_field(self._snapshot, name)}")
            lines += [f"  {line}" for line in field_lines(self._snapshot[name], whole=whole)]
        return lines

    def requested_values(self) -> dict[str, Any]:
        """The requested fields and values, for JSON."""
        values: dict[str, Any] = {}
        for name in self._requested:
            if name in self._found:
                assert self._tree is not None
                values[name] = self._tree.plain(*self._found[name])
            else:
                values[name] = self._snapshot[name]
        return values


def object_difference_lines(
    states: tuple[Snapshot, Snapshot] | None, labels: tuple[str, str] = ("recorded", "replayed")
) -> tuple[list[str], set[str]]:
    """The first values of captured objects that differ between two states, by their paths, and the fields that hold them.

    Both are empty without states, for states of anything else, and if no value differs: what differs then is only how
    the objects are saved.
    """
    if states is None:
        return [], set()
    trees = [_objects_in(state) for state in states]
    if trees[0] is None or trees[1] is None:
        return [], set()
    try:
        found = list(islice(trees[0].differences(trees[1]), DIFFERENCES + 1))
    except _MALFORMED as error:
        _note(error)
        return [], set()
    left, right = labels
    lines = [plain_text(f"{path}: {left} {first}, {right} {second}") for path, first, second in found[:DIFFERENCES]]
    if not lines:
        return [], set()
    shown = {*trees[0].fields, *trees[1].fields}
    if all(name in shown or name == COUNTS_FIELD for state in states for name in state):
        shown.add(COUNTS_FIELD)  # All tables are those of the objects.
    return lines + (["… and more"] if len(found) > DIFFERENCES else []), shown


def _objects_in(snapshot: Snapshot) -> ObjectTree | None:
    """The captured objects of a state; None for a state of anything else, and with a note for one that is malformed."""
    if _MARK not in list(snapshot):
        return None
    from sim.adapters.object_view.object_tree import tree_of  # noqa: PLC0415 - most tapes have no captured objects

    try:
        tree = tree_of(snapshot)
        if tree is not None:
            tree.summary()  # A malformed value is found here, not in the middle of the output.
    except _MALFORMED as error:
        _note(error)
        return None
    return tree


def _note(error: Exception) -> None:
    print(f"note: its objects cannot be shown: {type(error).__name__}: {plain_text(str(error))}", file=sys.stderr)
