"""Read values of a state by their names: fields, recorded objects by path, telemetry, and the tick itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from replayer.desync.object_diff import MALFORMED, objects_in
from replayer.search.exact_values import EachValue, element
from replayer.search.member import FindClass, MemberValue
from replayer.search.names.printed_keys import index_of, is_printed_as
from replayer.search.names.value_names import NameStep, ValueName
from replayer.search.search_errors import ExpressionError, UndefinedError
from replayer.search.standard_values import NUMBERS, is_standard
from replayer.tape.fields import GRAPH_MARK, shown_slots
from sim.kernel.schema import Blob
from sim.kernel.state import Snapshot, State

if TYPE_CHECKING:
    from sim.adapters.object_view.object_tree import ObjectTree
    from sim.adapters.object_view.shown_values import Composite, ShownPart

TICK, TELEMETRY = "tick", "telemetry"


class StateValues:
    """The values of one state. It is read while the state stays as it is."""

    def __init__(
        self, tick: int, state: Snapshot | State, telemetry: Mapping[str, Any], find_class: FindClass = lambda _: None
    ) -> None:
        """telemetry: the figures recorded for this tick; empty if there are none. find_class: of enumerations."""
        self._tick = tick
        self._state = state
        self._telemetry = telemetry
        self._find_class = find_class
        self._tree: ObjectTree | None = None
        self._has_looked = False
        self._reading: _Reading | None = None

    def __call__(self, name: ValueName) -> Any:
        """The value of a name. Raises UndefinedError if this state has none of that name."""
        if is_tick(name):
            return self._tick
        if is_telemetry(name):
            return self._figure(name)
        tree = self.objects()
        if tree is not None:
            if self._reading is None:
                self._reading = _Reading(tree, self._find_class)
            found, value = self._reading.value(name.steps)
            if found:
                return value
        return self._field(name)

    def has(self, name: ValueName) -> bool:
        """Return True if this state has a value of that name."""
        try:
            self(name)
        except UndefinedError:
            return False
        return True

    def _figure(self, name: ValueName) -> Any:
        key = figure_of(name)
        if key not in self._telemetry:
            raise UndefinedError(f"there is no figure {key!r} in the telemetry of tick {self._tick}")
        return self._telemetry[key]

    def objects(self) -> ObjectTree | None:
        """The recorded objects of the state; None if it has none."""
        if not self._has_looked and GRAPH_MARK not in self._state.layout.slots:
            self._has_looked = True  # A snapshot of any other state is a copy that tells nothing.
        if not self._has_looked:
            snapshot = self._state if isinstance(self._state, Snapshot) else self._state.snapshot()
            self._tree, self._has_looked = objects_in(snapshot), True
        return self._tree

    def _field(self, name: ValueName) -> Any:
        blobs = {entry.name for entry in self._state.layout.schema.entries if isinstance(entry, Blob)}
        for length in range(name.dotted_length, 0, -1):
            field = "".join(map(str, name.steps[:length]))
            if field in self._state.layout.slots and field not in blobs:
                value: Any = self._state[field]
                for step in name.steps[length:]:
                    value = element(value, _place(step, name))
                return value.item() if isinstance(value, np.ndarray) and not value.ndim else value
        raise UndefinedError(f"there is no {str(name)!r}")

    def names(self) -> Iterator[str]:
        """The names of fields and of the attributes of recorded objects, for a message."""
        tree = self.objects()
        if tree is not None:
            yield from (entry.step for entry in tree.entries)
        yield from (
            slot.name for slot in shown_slots(self._state.layout) if tree is None or slot.name not in tree.fields
        )
        yield from (f"{TELEMETRY}.{name}" for name in self._telemetry)


def is_tick(name: ValueName) -> bool:
    """Return True for the name of the tape's own tick."""
    return str(name) == TICK


def is_telemetry(name: ValueName) -> bool:
    """Return True for the name of a recorded figure."""
    first, *rest = name.steps
    return str(first) == TELEMETRY and bool(rest) and all(step.kind == "attribute" for step in rest)


def figure_of(name: ValueName) -> str:
    """The recorded figure that such a name means: ``births.clover`` for ``telemetry.births.clover``."""
    return ".".join(str(step.value) for step in name.steps[1:])


def _place(step: NameStep, name: ValueName) -> Any:
    match step.kind:
        case "every":
            return slice(None)
        case "index":
            return step.value
        case "printed":
            return _index(step)
    raise UndefinedError(f"there is no {str(name)!r}")


def _index(step: NameStep) -> tuple[int, ...]:
    """The indices of ``[(0, 1)]`` in an array. Raises ExpressionError for a key that is none."""
    index = index_of(str(step.value))
    if index is None:
        raise ExpressionError(f"{step} is no index of an array: expected a whole number, a slice or a condition")
    return index


# --- objects


class _Reading:
    """Reads values of one tree by their names."""

    def __init__(self, tree: ObjectTree, find_class: FindClass) -> None:
        self._tree, self._find_class = tree, find_class
        self._opened: dict[Any, Any] = {}  # By references: many names lead through one object.

    def _open(self, value: Any) -> Any:
        from sim.adapters.object_view.shown_values import Ref  # noqa: PLC0415 - most tapes have no objects

        if not isinstance(value, Ref):
            return opened_value(value)
        found = self._opened.get(value)
        if found is None:
            found = self._opened[value] = opened_value(value)
        return found

    def value(self, steps: tuple[NameStep, ...]) -> tuple[bool, Any]:
        """Whether the objects have a value of that name, and the value."""
        texts = [str(step) for step in steps]
        for skipped in (0, 1) if len(texts) > 1 and f"{texts[0]}." == self._tree.prefix else (0,):
            first = [
                text.removeprefix(".") if skipped and not number else text
                for number, text in enumerate(texts[skipped:])
            ]
            for length in range(len(first), 0, -1):
                joined = "".join(first[:length])
                for entry in self._tree.entries:
                    if entry.step == joined:
                        return True, self._below(entry.value, steps[skipped + length :])
        return False, None

    def _below(self, value: Any, steps: tuple[NameStep, ...]) -> Any:
        """The value that the steps lead to, from a value of the tree on."""
        for number, step in enumerate(steps):
            opened = self._open(value)
            if isinstance(opened, np.ndarray):
                return _element_below(opened, steps[number:])
            if opened is None:
                raise UndefinedError(f"there is no {''.join(map(str, steps[: number + 1]))!r} in it")
            if step.kind == "every":
                return _each([self._below(entry.value, steps[number + 1 :]) for entry in opened.entries])
            value = _entry(opened, step)
        return self._plain(value)

    def _plain(self, value: Any) -> Any:
        opened = self._open(value)
        if opened is None:
            return self._leaf(value)
        if isinstance(opened, np.ndarray):
            return opened.item() if not opened.ndim else opened
        if opened.value is not _not_known():
            return self._of_word(opened.value, "")
        if opened.is_list and not opened.is_dict and not opened.is_set:
            parts = [
                entry if self._open(entry.value) is not None else self._leaf(entry.value) for entry in opened.entries
            ]
            return together(parts)
        return {entry.step: entry for entry in opened.entries}

    def _leaf(self, value: Any) -> Any:
        from sim.adapters.object_view.shown_values import Word  # noqa: PLC0415 - most tapes have no objects

        try:
            text = self._tree.plain("", value)
        except MALFORMED as error:
            raise ExpressionError(f"a value of this state cannot be read: {error}") from None
        return self._of_word(value.value, text) if isinstance(value, Word) else text

    def _of_word(self, value: Any, text: str) -> Any:
        """What a word stands for; its text if that is nothing that can be compared."""
        from sim.adapters.object_view.shown_values import Member  # noqa: PLC0415 - most tapes have no objects

        if isinstance(value, Member):
            kind = value.kind.rpartition(":")[2].rpartition(".")[2]
            plain = None if value.name else value.value
            return MemberValue(kind, value.name or "", plain, self._find_class(value.kind))
        return value if is_standard(value) or isinstance(value, bool | int | float | str | bytes) else text


def _not_known() -> Any:
    from sim.adapters.object_view.shown_values import NOT_KNOWN  # noqa: PLC0415 - most tapes have no objects

    return NOT_KNOWN


def opened_value(value: Any) -> Any:
    """The parts of a value, or its array; None if it has no parts."""
    from sim.adapters.object_view.shown_values import Composite, Ref, Word  # noqa: PLC0415 - most tapes have no objects

    if isinstance(value, Ref):
        value = value.source.composite(value.number)
    if isinstance(value, Word) and isinstance(value.value, np.ndarray):
        return value.value  # It is shown elsewhere.
    if isinstance(value, Composite):
        only = value.entries[0] if len(value.entries) == 1 else None
        return only.value if only is not None and not only.step and isinstance(only.value, np.ndarray) else value
    return value if isinstance(value, np.ndarray) else None


def _entry(opened: Composite, step: NameStep) -> Any:
    if step.kind == "index" and opened.is_list and not opened.is_dict and not opened.is_set:
        index = int(step.value)
        if not -len(opened.entries) <= index < len(opened.entries):
            raise UndefinedError(f"there is nothing at index {index}")
        return opened.entries[index].value
    found = step_in(opened.entries, step)
    if found is None:
        raise UndefinedError(f"there is no {step} in it")
    return found.value


def step_in(entries: Sequence[ShownPart], step: NameStep) -> ShownPart | None:
    """The part of an object or a dict at a step, by the text of the step; None if there is none."""
    wanted = str(step)
    found = next((one for one in entries if one.step == wanted), None)
    if found is None and step.kind == "printed":
        found = next((one for one in entries if is_printed_as(one.step, str(step.value))), None)
    return found


def _element_below(array: np.ndarray[Any, Any], steps: tuple[NameStep, ...]) -> Any:
    value: Any = array
    for step in steps:
        if step.kind not in ("every", "index", "printed"):
            raise UndefinedError(f"an array has no {step}")
        place = slice(None) if step.kind == "every" else _index(step) if step.kind == "printed" else step.value
        value = element(value, place)
    return value


def together(values: list[Any]) -> Any:
    """The values of all items as an array if they are numbers, else as a list."""
    if all(type(value) in (int, float, bool) for value in values):
        whole = all(isinstance(value, int) for value in values)
        fits = all(-(1 << 63) <= value < 1 << 63 for value in values) if whole else True
        return np.asarray(values, dtype=None if values and fits else object if values else np.int64)
    if all(isinstance(value, NUMBERS) for value in values):
        return np.asarray(values, object)  # Decimal numbers and fractions stay what they are.
    return values


def _each(values: list[Any]) -> Any:
    found = together(values)
    return EachValue(found) if isinstance(found, list) else found
