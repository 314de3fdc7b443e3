"""What save() says right after load(): fields that load() did not give back."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_instance
from recorder.ambient.replacement.named_values import set_child
from recorder.processes.fork_call import in_a_copy
from replayer.desync.ulps import compare_elements
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile, Statement
from replayer.diagnose.explain.values.value_parts import differing_parts, parts_of
from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.schema import Blob
from sim.kernel.simulation import ArenaOfSaved, Simulation
from sim.kernel.state import Snapshot, State

_LINES_MAX = 4  # Of load(), for each field.
_CHANGES_MAX = 200  # Calls of save(), each with another attribute changed.
_CHANGED: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: not value,
    int: lambda value: value + 1,
    float: lambda value: value + 1.0,
    str: lambda value: value + "_",
    np.ndarray: lambda value: ~value if value.dtype == np.bool_ else value + 1,
}


@attrs.frozen
class NotGivenBack:
    """A field that save() returns with another value right after load().

    Attributes:
        name: of the field.
        saved, reloaded: what was loaded, and what save() then returned: the first elements that differ.
        lines: of load(), that name the field.
        held_in: the attributes that save() makes this value of: each was changed, and save() then returned another one.
    """

    name: str
    saved: str
    reloaded: str
    lines: list[SourceLocation] = attrs.field(factory=list)
    held_in: list[str] = attrs.field(factory=list)

    def __str__(self) -> str:
        return f"{self.name}: {self.saved} was loaded, save() then returns {self.reloaded}"

    def to_plain(self) -> list[Any]:
        """Encode as plain data."""
        return list(attrs.astuple(self))

    @property
    def field(self) -> str:
        """The name without the place of an element."""
        return self.name.partition("[")[0]

    @staticmethod
    def from_plain(plain: list[Any]) -> NotGivenBack:
        """Decode the plain data of to_plain."""
        name, saved, reloaded, lines, held_in = plain
        return NotGivenBack(name, saved, reloaded, [SourceLocation(*line) for line in lines], held_in)


def not_given_back(simulation: Simulation, loaded: Snapshot) -> list[NotGivenBack]:
    """The fields in which save() differs from what was just loaded; none if two calls of save() differ.

    loaded: the state. Only for a simulation with a save() and a load() of its own. It runs in a copy of this process.
    Raises RuntimeError if that died.
    """
    if not isinstance(simulation, ArenaOfSaved) or hook(simulation.inner, HasAdapter) is not None:
        return []

    def compared() -> dict[str, Any]:
        try:
            again = [ArenaOfSaved(simulation.inner).state for _ in range(2)]
        except Exception:  # noqa: BLE001 - of the user's save(): what it would return is not known
            return {"fields": []}
        if again[0].hash() != again[1].hash():
            return {"fields": []}
        found = _differing(simulation.inner, loaded, again[0])
        held = _holders(simulation, again[0], found) if found else {}
        return {"fields": [attrs.evolve(one, held_in=held.get(one.name, [])).to_plain() for one in found]}

    return [NotGivenBack.from_plain(plain) for plain in in_a_copy(compared)["fields"]]


def _holders(simulation: ArenaOfSaved, again: State, lost: list[NotGivenBack]) -> dict[str, list[str]]:
    """For each lost value the attributes of which save() makes it. Each is changed for a call of save(), in this copy."""
    held: dict[str, list[str]] = {one.name: [] for one in lost}
    before = {name: _saved_value(name, again) for name in held}
    attributes = [
        (path, holder, name, value)
        for path, holder in take_instance(simulation).objects.items()
        for name, value in list(getattr(holder, "__dict__", {}).items())
        if type(value) in _CHANGED and not isinstance(holder, type)
    ]
    for path, holder, name, value in attributes[:_CHANGES_MAX]:
        try:
            set_child(holder, ("attribute", name), _CHANGED[type(value)](value))
            state = ArenaOfSaved(simulation.inner).state
            changed = [lost_name for lost_name in held if _saved_value(lost_name, state) != before[lost_name]]
        except Exception:  # noqa: BLE001 - of the user's save(), with a value that it may not bear, or of an array of no numbers
            changed = []
        finally:
            set_child(holder, ("attribute", name), value)
        for lost_name in changed:
            held[lost_name].append(f"{name_of(path)}.{name}")
    return held


def _saved_value(name: str, state: State) -> Any:
    """A value that save() returned, by the name of what is not given back: an element, a part of a text, or a field."""
    field, is_text, path = name.partition(": ")
    if is_text:
        return parts_of(json.loads(state.blob(field))).get(path)
    field, has_index, index = name.partition("[")
    value = state[field]
    if has_index:
        return value[tuple(map(int, index.rstrip("]").split(",")))].tobytes()
    return value.dtype, value.shape, value.tobytes()


def _differing(inner: Any, loaded: Snapshot, again: State) -> list[NotGivenBack]:
    found = []
    blobs = {entry.name for entry in again.layout.schema.entries if isinstance(entry, Blob)}
    for name in again:
        if name not in loaded.layout.slots:
            continue
        if name in blobs:
            found += _differing_json(inner, name, loaded.blob(name), again.blob(name))
            continue
        elements = compare_elements(loaded[name], again[name])
        if elements is None:
            sizes = [f"an array of {one.size:,} {one.dtype}" for one in (loaded[name], again[name])]
            found.append(NotGivenBack(name, sizes[0], sizes[1], _lines_of_load(inner, name)))
        elif elements.count:
            index, first, second, _ = elements.shown[0]
            where = f"[{', '.join(map(str, index))}]" if index else ""
            found.append(NotGivenBack(f"{name}{where}", f"{first}", f"{second}", _lines_of_load(inner, name)))
    return found


def _differing_json(inner: Any, name: str, loaded: bytes, again: bytes) -> list[NotGivenBack]:
    """The first part in which two texts of JSON differ; other bytes, such as a pickle, may differ and mean the same."""
    try:
        first, second = json.loads(loaded), json.loads(again)
    except (ValueError, RecursionError):
        return []
    differing = differing_parts(parts_of(first), parts_of(second))
    return [NotGivenBack(f"{name}: {path}", one, two, _lines_of_load(inner, name)) for path, one, two in differing[:1]]


def _lines_of_load(inner: Any, name: str) -> list[SourceLocation]:
    """The lines of load() that name a field: as a text, or as an attribute that they set."""
    code = getattr(inspect.unwrap(type(inner).load), "__code__", None)
    if code is None:
        return []
    source = SourceFile(code.co_filename)
    numbers = sorted({number for *_, number in code.co_lines() if number is not None})
    statements: dict[int, Statement] = {}
    for number in numbers:
        statement = source.statement(number)
        if statement is not None and (repr(name) in statement.reads or f"self.{name}" in statement.writes):
            statements[statement.first_line] = statement
    return [
        SourceLocation(code.co_filename, line, code.co_qualname, source.statement_text(line)) for line in statements
    ][:_LINES_MAX]


def is_field(name: str, fields: list[NotGivenBack]) -> bool:
    """Return True if a value of a line, such as self.cursor, has the name of a field, or save() makes one of it."""
    held = {attribute.rpartition(".")[2] for one in fields for attribute in one.held_in}
    return name.partition(".")[2] in {one.field for one in fields} or name.rpartition(".")[2] in held
