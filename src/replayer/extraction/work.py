"""What one worker does: walk through a part of a tape and write its rows into files of their own.

Invariant: the files depend on the part and the request alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import attrs

from recorder.errors import RecordingError
from replayer.cursor import Cursor
from replayer.events import rebuild_events
from replayer.export import PART_SUFFIX
from replayer.extraction.blocks import Block, shape_of
from replayer.extraction.pairs import Pairs
from replayer.extraction.plan import OUTCOMES, Part, Source, open_source
from replayer.extraction.request import Request
from replayer.extraction.states import AGENT, RUN, StateCells, StateRows, Vocabulary
from replayer.extraction.walking import Missing, OnStep, Walker
from replayer.show import to_json
from replayer.tape import Tape
from replayer.worlds import Factory, make_simulation
from sim.kernel.registry import Readable

BUFFER_BYTES = 32 << 20  # Rows are written when so much is collected: a row group; memory does not grow with a part.
RECORDS = ("actions", "events")  # Tables whose columns are known only when all rows are.


@attrs.frozen
class Task:
    """What all workers have in common.

    Attributes:
        sources: the tapes. request: what is wanted. tables: which tables.
        agents: of each source. encodings: of actions in pairs.
        factory: of the user's simulation; None for registered worlds.
        format: of the files, see files.py. folder: where they go.
    """

    sources: Sequence[Source]
    request: Request
    tables: tuple[str, ...]
    agents: Sequence[tuple[str, ...]]
    encodings: tuple[str, ...]
    factory: Factory | None
    format: str
    folder: Path

    def labels(self) -> Vocabulary:
        """All texts of the columns that hold texts."""
        reasons = dict.fromkeys(["", *(source.reason for source in self.sources)])
        agents = dict.fromkeys(agent for own in self.agents for agent in own)
        runs = dict.fromkeys(source.run for source in self.sources)
        return {RUN: tuple(runs), AGENT: tuple(agents), "reason": tuple(reasons), "outcome": OUTCOMES}


@attrs.frozen
class FileRecord:
    """A file of a part.

    Attributes:
        path: below the data set's folder. rows, bytes: of it. sha256: of its content.
    """

    path: str
    rows: int
    bytes: int
    sha256: str


@attrs.frozen
class PartRecord:
    """What came of a part.

    Attributes:
        number: of the part. files: by table. columns: by table, what each column holds.
        missing: samples that could not be had. problems: of events that could not be had, in words.
    """

    number: int
    files: dict[str, FileRecord]
    columns: dict[str, dict[str, dict[str, Any]]]
    missing: list[Missing]
    problems: list[str] = attrs.field(factory=list)


def do_part(task: Task, part: Part, tell: Callable[[int], None]) -> PartRecord:
    """Extract one part. Raises ExtractionError, OSError, and what making the simulation raises."""
    source = task.sources[part.source]
    with open_source(source) as tape, _Output(task, part, source) as output:
        walker_missing: list[Missing] = []
        problems: list[str] = []
        if {"states", "pairs", "actions"} & set(task.tables):
            walker_missing = _walk(task, part, tape, output, tell)
        if "events" in task.tables:
            problems = _tell_events(task, part, tape, output)
        return PartRecord(part.number, output.finish(), output.columns, walker_missing, problems)


def _walk(task: Task, part: Part, tape: Tape, output: _Output, tell: Callable[[int], None]) -> list[Missing]:
    cursor = Cursor(tape, make_simulation(tape, task.factory))
    agents, on_step = task.agents[part.source], None
    missing: list[Missing] = []
    if "actions" in task.tables and agents:
        on_step = _Actions(task, task.sources[part.source], agents, output, cursor).on_step
    output.write(walk_part(task, part, cursor, missing, tell, on_step=on_step))
    return missing


def walk_part(
    task: Task,
    part: Part,
    cursor: Cursor,
    missing: list[Missing],
    tell: Callable[[int], None],
    *,
    on_step: OnStep | None = None,
    buffer_bytes: int = BUFFER_BYTES,
    buffer_samples: int | None = None,
) -> Iterator[tuple[str, Block]]:
    """The rows of a part's states and pairs, by table, in blocks: of about buffer_bytes, or of buffer_samples at most.

    missing: takes the samples that could not be had; complete when the last block was given. tell: called with how many
    ticks were gone. on_step: called for each step up to the part's last tick.
    Raises ExtractionError.
    """
    source, request, labels = task.sources[part.source], task.request, task.labels()
    agents = task.agents[part.source]
    states, pairs = None, None
    if "states" in task.tables:
        states = (StateCells if request.long else StateRows)(source.run, request.fields, labels)
    if "pairs" in task.tables and agents:
        pairs = Pairs(source, source.setting(task.factory), request, agents, task.encodings, labels)
    if states is None and pairs is None and on_step is None:
        return

    def tell_step(inputs: Any, state: Readable) -> None:
        if pairs is not None:
            pairs.on_step(inputs, state)
        if on_step is not None:
            on_step(inputs, state)

    whole = on_step is not None or (pairs is not None and pairs.needs_steps)
    walker = Walker(cursor, tell_step if whole else None)
    ends = [*part.ticks, *([part.then] if part.then is not None and (pairs or on_step) else [])]
    if on_step is not None and ends[-1] < part.last:
        ends.append(part.last)
    collected = 0
    for tick, follows in walker.samples(ends):
        if states is not None and tick in part.ticks:
            states.add(tick, cursor.state)
        if pairs is not None and (tick in part.ticks or tick == part.then):
            pairs.add(tick, cursor.state, follows=follows, opens=tick in part.ticks and tick != ends[-1])
        collected += 1
        is_enough = collected == buffer_samples
        for table in (states, pairs):
            if table is not None and (is_enough or table.bytes > buffer_bytes):
                yield from table.take()
        collected *= not is_enough
        tell(tick - part.ticks[0])
    for table in (states, pairs):
        if table is not None:
            yield from table.take()
    missing += walker.missing


class _Actions:
    """The table of actions: each input of each agent in a row of its own."""

    def __init__(self, task: Task, source: Source, agents: tuple[str, ...], output: _Output, cursor: Cursor) -> None:
        setting = source.setting(task.factory)
        self._own = {agent: setting.own_inputs(agent) for agent in agents}
        self._run, self._output, self._cursor = source.run, output, cursor

    def on_step(self, inputs: Any, state: Readable) -> None:
        """The inputs of the step that the cursor makes next."""
        assert self._cursor.tick is not None
        for agent, own in self._own.items():
            sent = own(inputs, state)
            items = sent if isinstance(sent, list | tuple) else [] if sent is None else [sent]
            for place, item in enumerate(items):
                row = {RUN: self._run, "tick": self._cursor.tick + 1, AGENT: agent, "place": place}
                self._output.tell("actions", _beside(row, item))


def _beside(keys: dict[str, Any], item: Any) -> dict[str, Any]:
    """A row of our keys and an input or event; where it has a key of the same name, that one is called own.NAME."""
    plain = to_json(item)
    if not isinstance(plain, dict):
        return keys | {"value": plain}
    return keys | {f"own.{name}" if name in keys else name: value for name, value in plain.items()}


def _tell_events(task: Task, part: Part, tape: Tape, output: _Output) -> list[str]:
    """The events of a part's ticks; what could not be had."""
    run, next_tick = task.sources[part.source].run, part.first
    try:
        for tick, event in rebuild_events(tape, task.factory, part.first, part.last):
            next_tick = tick
            output.tell("events", _beside({RUN: run, "tick": tick}, event))
    except RecordingError as error:
        return [f"events from tick {next_tick:,} to {part.last:,}: {error}"]
    return []


class _Output:
    """The files of a part. Nothing is left of them if it fails."""

    def __init__(self, task: Task, part: Part, source: Source) -> None:
        self._folder, self._format = task.folder, task.format
        self._split = f"split={source.split}/" if source.split else ""
        self._number = part.number
        self._open: dict[str, tuple[Path, Any]] = {}
        self._rows: dict[str, int] = {}
        self.columns: dict[str, dict[str, dict[str, Any]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for path, file in self._open.values():
                file.close()
                path.unlink(missing_ok=True)

    def write(self, blocks: Iterator[tuple[str, Block]]) -> None:
        """Add rows to tables of columns."""
        from replayer.extraction.files import FILES  # noqa: PLC0415 - pyarrow is an extra, and only workers need it

        for table, block in blocks:
            if table not in self._open:
                path = self._path(table, self._format)
                self._open[table] = (path, FILES[self._format](path))
                self.columns[table] = {name: shape_of(column).plain() for name, column in block.items()}
                self._rows[table] = 0
            self._open[table][1].write(block)
            self._rows[table] += len(block["tick"])  # type: ignore[arg-type]

    def tell(self, table: str, row: dict[str, Any]) -> None:
        """Add a row to a table of records, which waits in a file of its own until all columns are known."""
        if table not in self._open:
            path = self._path(table, "ndjson")
            self._open[table] = (path, path.open("w", encoding="utf-8", newline=""))
            self._rows[table] = 0
        self._open[table][1].write(json.dumps(row, ensure_ascii=False) + "\n")
        self._rows[table] += 1

    def finish(self) -> dict[str, FileRecord]:
        """Close the files, and force them to the disk; what they are."""
        found = {}
        for table, (part, file) in self._open.items():
            file.close()
            path = part.with_name(part.name.removesuffix(f".{os.getpid()}{PART_SUFFIX}"))
            part.replace(path)
            with path.open("rb") as written:
                os.fsync(written.fileno())
                digest = hashlib.file_digest(written, "sha256").hexdigest()
            size = path.stat().st_size
            found[table] = FileRecord(str(path.relative_to(self._folder)), self._rows[table], size, digest)
        self._open = {}
        return found

    def _path(self, table: str, suffix: str) -> Path:
        """Where the rows go until the file is whole; whoever else has been at this part wrote somewhere else."""
        path = self._folder / table / f"{self._split}part-{self._number:05d}.{suffix}.{os.getpid()}{PART_SUFFIX}"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
