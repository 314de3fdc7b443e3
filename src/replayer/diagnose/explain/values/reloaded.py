"""What save() says right after load(): fields that load() did not give back."""

from __future__ import annotations

import inspect
import json
from typing import Any

import attrs

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


@attrs.frozen
class NotGivenBack:
    """A field that save() returns with another value right after load().

    Attributes:
        name: of the field.
        saved, reloaded: what was loaded, and what save() then returned: the first elements that differ.
        lines: of load(), that name the field.
    """

    name: str
    saved: str
    reloaded: str
    lines: list[SourceLocation] = attrs.field(factory=list)

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
        name, saved, reloaded, lines = plain
        return NotGivenBack(name, saved, reloaded, [SourceLocation(*line) for line in lines])


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
        return {"fields": [one.to_plain() for one in _differing(simulation.inner, loaded, again[0])]}

    return [NotGivenBack.from_plain(plain) for plain in in_a_copy(compared)["fields"]]


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
    """Return True if a value of a line, such as self.cursor, has the name of a field."""
    return name.partition(".")[2] in {one.field for one in fields}
