"""The work of one worker: walk through a part of a tape and write its rows into its own files.

Invariant: the files depend on the part and the request alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import attrs

from recorder.errors import RecordingError
from recorder.storage.atomic_file import PART_SUFFIX, publish_file
from replayer.datasets.parts.kept_tape import KeptTape, KeptTapes
from replayer.datasets.plan import DatasetPart, TapeInput
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import AGENT, Block, cut_block, shape_of
from replayer.datasets.rows.pairs import Pairs
from replayer.datasets.rows.records import Row
from replayer.datasets.rows.states import RUN, TICK, StateCells, StateRows
from replayer.datasets.task import Task
from replayer.datasets.transitions.call_rows import rows_of_call
from replayer.datasets.transitions.made_environment import open_environment, open_simulation
from replayer.datasets.transitions.quick.quick_steps import QuickRows
from replayer.datasets.transitions.transition_rows import TRANSITIONS, ActionRows, TransitionRows
from replayer.datasets.transitions.transitions_of_part import transitions_of_part
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.playback.rebuild_events import rebuild_events
from replayer.playback.sampled_states import Missing, Walker
from replayer.tape.tape import Tape
from replayer.value_text import to_json
from sim.kernel.registry import Readable

BUFFER_BYTES = (
    32 << 20
)  # Rows are written as a row group when this much is collected, so memory does not grow with a part.
_ACTION_BYTES = 1 << 10  # An input as a dictionary.


@attrs.frozen
class FileRecord:
    """A file of a part.

    Attributes:
        path: relative to the data set's folder. rows, bytes: the size. sha256: of the contents. run: whose rows it has.
    """

    path: str
    rows: int
    bytes: int
    sha256: str
    run: str = ""


@attrs.frozen
class PartRecord:
    """The result of a part.

    Attributes:
        number: of the part. files: by table. columns: by table, the dtype and shape of each column.
        missing: the missing samples. problems: a sentence for each range of missing events.
    """

    number: int
    files: dict[str, FileRecord]
    columns: dict[str, dict[str, dict[str, Any]]]
    missing: list[Missing]
    problems: list[str] = attrs.field(factory=list)


@attrs.define
class Losses:
    """The losses of a part.

    Attributes:
        missing: the missing samples. problems: a sentence for each range of missing events.
    """

    missing: list[Missing] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)


def do_parts(task: Task, parts: Sequence[DatasetPart], on_progress: Callable[[int], None]) -> list[PartRecord]:
    """Extract some parts, one after the other. Raises ExtractionError, OSError, and as making the simulation does.

    on_progress: called with the ticks done of all of them.
    """
    records: list[PartRecord] = []
    done = 0
    with KeptTapes(task.sources, task.factory) as tapes:
        for part in parts:
            kept = tapes.of(part.source)
            records.append(_do_part(task, part, kept, lambda ticks, done=done: on_progress(done + ticks)))  # type: ignore[misc]
            done += part.last - part.first + 1
    return records


def _do_part(task: Task, part: DatasetPart, kept: KeptTape, on_progress: Callable[[int], None]) -> PartRecord:
    with _Output(task, part, task.sources[part.source]) as output:
        losses = Losses()
        for table, rows in rows_of_part(task, part, kept, on_progress, losses):
            output.add(table, rows)
        return PartRecord(part.number, output.finish(), output.columns, losses.missing, losses.problems)


def rows_of_part(
    task: Task,
    part: DatasetPart,
    kept: KeptTape,
    on_progress: Callable[[int], None],
    losses: Losses,
    *,
    buffer_bytes: int | None = None,
    buffer_samples: int | None = None,
    as_they_come: bool = False,
) -> Iterator[tuple[str, Block | list[Row]]]:
    """Yield the rows of a part with the name of their table: blocks, or lists of rows for RECORDS. Fills losses.

    buffer_bytes: a block is made when this much is collected; None is BUFFER_BYTES. buffer_samples: a block is also made
    after this many samples. as_they_come: rows that are made as columns are not cut into blocks of so many. Raises
    ExtractionError.
    """
    limit = BUFFER_BYTES if buffer_bytes is None else buffer_bytes
    if {"states", "pairs", "actions"} & (set(task.tables) - set(task.settled_tables)):
        with open_simulation(kept.tape, task.factory) as simulation:
            cursor = Cursor(kept.tape, simulation)
            yield from _walk(task, part, cursor, on_progress, losses, limit, buffer_samples)
    if task.settled_tables:
        place = task, part, kept, on_progress, losses
        yield from _transitions(*place, limit, buffer_samples, as_they_come=as_they_come)
    if "events" in task.tables:
        yield from _events(task, part, kept.tape, losses)


def _walk(
    task: Task,
    part: DatasetPart,
    cursor: Cursor,
    on_progress: Callable[[int], None],
    losses: Losses,
    buffer_bytes: int,
    buffer_samples: int | None,
) -> Iterator[tuple[str, Block | list[Row]]]:
    source, request, labels = task.sources[part.source], task.request, task.labels()
    agents = task.agents[part.source]
    states, pairs, actions = None, None, None
    if "states" in task.tables:
        states = (StateCells if request.long else StateRows)(source.run, request.fields, labels)
    if "pairs" in task.tables and agents:
        pairs = Pairs(source, source.setting(task.factory), request, agents, task.encodings, labels)
    if "actions" in task.record_tables and agents:
        actions = _Actions(task, source, agents, cursor)
    tables = [table for table in (states, pairs, actions) if table is not None]
    if not tables:
        return

    def on_step(inputs: Any, state: Readable) -> None:
        if pairs is not None:
            pairs.on_step(inputs, state)
        if actions is not None:
            actions.on_step(inputs, state)

    needs_steps = actions is not None or (pairs is not None and pairs.needs_steps)
    walker = Walker(cursor, on_step if needs_steps else None)
    losses.missing = walker.missing
    ends = [*part.ticks, *([part.then] if part.then is not None and (pairs or actions) else [])]
    if actions is not None and ends[-1] < part.last:
        ends.append(part.last)
    for count, (tick, follows) in enumerate(walker.samples(ends), 1):
        if states is not None and tick in part.ticks:
            states.add(tick, cursor.state)
        if pairs is not None and (tick in part.ticks or tick == part.then):
            pairs.add(tick, cursor.state, follows=follows, opens=tick in part.ticks and tick != ends[-1])
        is_enough = buffer_samples is not None and count % buffer_samples == 0
        for table in tables:
            if is_enough or table.bytes > buffer_bytes:
                yield from table.take()
        on_progress(tick - part.ticks[0])
    for table in tables:
        yield from table.take()


def _transitions(
    task: Task,
    part: DatasetPart,
    kept: KeptTape,
    on_progress: Callable[[int], None],
    losses: Losses,
    buffer_bytes: int,
    buffer_samples: int | None,
    *,
    as_they_come: bool,
) -> Iterator[tuple[str, Block]]:
    source, facts = task.sources[part.source], task.environments[part.source]
    assert task.columns is not None
    runs = task.labels()[RUN]
    tables: list[TransitionRows | ActionRows] = [
        TransitionRows(source.run, runs, task.columns, facts.label)
        if name == TRANSITIONS
        else ActionRows(source.run, runs, task.columns)
        for name in task.settled_tables
    ]
    first = part.ticks.start
    done = first - 1
    if len(tables) == 1 and isinstance(tables[0], TransitionRows):
        quick = kept.quick_steps(facts, task.columns, task.request)
        if quick is not None:
            made_quickly = quick.rows(part, on_progress)
            if as_they_come:
                yield from _as_made(made_quickly, tables[0])
            else:
                yield from _collected(made_quickly, tables[0], buffer_bytes, buffer_samples)
            done = quick.done
    missing: list[Missing] = []
    if done < part.last:
        kept.forget()
        start = max(first, done)
        with open_environment(kept.tape, task.factory) as simulation:
            made = transitions_of_part(
                attrs.evolve(part, ticks=range(start, part.ticks.stop)),
                source,
                task.request,
                facts,
                kept.tape,
                simulation,
                factory=task.factory,
                missing=missing,
                problems=losses.problems,
                on_progress=lambda ticks: on_progress(start - first + ticks),
            )
            for count, row in enumerate(made, 1 + sum(map(len, tables))):
                is_enough = buffer_samples is not None and count % buffer_samples == 0
                for table in tables:
                    table.add(row)
                    if is_enough or table.bytes > buffer_bytes:
                        yield from table.take()
    for table in tables:
        yield from table.take()
    losses.missing += [one for one in missing if one not in losses.missing]  # The other tables may miss them, too.


def _as_made(made: Iterator[QuickRows], table: TransitionRows) -> Iterator[tuple[str, Block]]:
    for rows in made:
        table.add_columns(rows.facts, rows.values)
        yield from table.take()


def _collected(
    made: Iterator[QuickRows], table: TransitionRows, buffer_bytes: int, buffer_samples: int | None
) -> Iterator[tuple[str, Block]]:
    """Add rows to a table; yield its blocks, which are cut as if each row had been added for itself."""
    rows_max = buffer_bytes // table.row_bytes + 1  # The first number of rows that exceeds the limit.
    if buffer_samples is not None:
        rows_max = min(rows_max, buffer_samples)
    for rows in made:
        start, end = 0, len(rows)
        while start < end:
            stop = min(end, start + rows_max - len(table))
            table.add_columns(cut_block(rows.facts, start, stop), cut_block(rows.values, start, stop))
            start = stop
            if len(table) == rows_max:
                yield from table.take()


class _Actions:
    """Makes the table of actions: a row for each input of each agent."""

    def __init__(self, task: Task, source: TapeInput, agents: tuple[str, ...], cursor: Cursor) -> None:
        setting = source.setting(task.factory)
        self._own = {agent: setting.own_inputs(agent) for agent in agents}
        self._run, self._cursor = source.run, cursor
        self._is_of_calls, self._chosen = bool(source.environment), task.request.agents
        self.rows: list[Row] = []

    def on_step(self, inputs: Any, state: Readable) -> None:
        """Collect the inputs of the cursor's next step."""
        assert self._cursor.tick is not None
        if self._is_of_calls:
            tick = self._cursor.tick + 1
            for row in rows_of_call(tick, inputs, self._cursor.simulation):
                if self._chosen is None or row[AGENT] in self._chosen:
                    self.rows.append({RUN: self._run, TICK: tick, **row})
            return
        for agent, own in self._own.items():
            sent = own(inputs, state)
            items = sent if isinstance(sent, list | tuple) else [] if sent is None else [sent]
            for index, item in enumerate(items):
                row = {RUN: self._run, TICK: self._cursor.tick + 1, AGENT: agent, "place": index}
                self.rows.append(_merged(row, item))

    @property
    def bytes(self) -> int:
        """The size of the collected rows, roughly."""
        return len(self.rows) * _ACTION_BYTES

    def take(self) -> Iterator[tuple[str, list[Row]]]:
        """Yield the collected rows and forget them."""
        if self.rows:
            yield "actions", self.rows
            self.rows = []


def _merged(keys: dict[str, Any], item: Any) -> dict[str, Any]:
    """Merge our keys with an input or event; its keys that clash with ours are renamed to own.NAME."""
    plain = to_json(item)
    if not isinstance(plain, dict):
        return keys | {"value": plain}
    return keys | {f"own.{name}" if name in keys else name: value for name, value in plain.items()}


def _events(task: Task, part: DatasetPart, tape: Tape, losses: Losses) -> Iterator[tuple[str, list[Row]]]:
    """Yield the events of a part's ticks."""
    source, next_tick = task.sources[part.source], part.first
    try:
        for tick, event in rebuild_events(tape, task.factory, part.first, part.last):
            next_tick = tick
            yield "events", [_merged({RUN: source.run, "tick": tick}, event)]
    except RecordingError as error:
        if isinstance(error, UnfitSimulationError) and "event_stream" not in tape.meta:
            raise ExtractionError(f"{source.name}: {error}: leave out the table events") from None
        losses.problems.append(f"events from tick {next_tick:,} to {part.last:,}: {error}")


class _Output:
    """The files of a part, removed if the part fails."""

    def __init__(self, task: Task, part: DatasetPart, source: TapeInput) -> None:
        self._folder, self._format = task.folder, task.format
        self._split = f"split={source.split}/" if source.split else ""
        self._number, self._run = part.number, source.run
        self._open: dict[str, tuple[Path, Any]] = {}
        self._rows: dict[str, int] = {}
        self.columns: dict[str, dict[str, dict[str, Any]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            opened = [*self._open.values()]
            for path, _file in opened:
                path.unlink(missing_ok=True)  # Before closing: on a full disk a file cannot be finished.
            for _path, file in opened:
                with contextlib.suppress(OSError):  # The incomplete file is removed already.
                    file.close()

    def add(self, table: str, rows: Block | list[Row]) -> None:
        """Add rows to a table."""
        if isinstance(rows, list):
            self._write_records(table, rows)
        else:
            self._write_block(table, rows)

    def _write_block(self, table: str, block: Block) -> None:
        """Add rows to a table of columns."""
        from replayer.datasets.stores.arrow_files import FILES  # noqa: PLC0415 - pyarrow is an extra, and only workers need it

        if table not in self._open:
            path = self._path(table, self._format)
            self._open[table] = (path, FILES[self._format](path))
            self.columns[table] = {name: shape_of(column).plain() for name, column in block.items()}
            self._rows[table] = 0
        self._open[table][1].write(block)
        self._rows[table] += len(block["tick"])  # type: ignore[arg-type]

    def _write_records(self, table: str, rows: list[Row]) -> None:
        """Add rows to a table of records: lines of JSON until all columns are known."""
        if table not in self._open:
            path = self._path(table, "ndjson")
            self._open[table] = (path, path.open("w", encoding="utf-8", newline=""))
            self._rows[table] = 0
        self._open[table][1].writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        self._rows[table] += len(rows)

    def finish(self) -> dict[str, FileRecord]:
        """Close the files, force them to the disk, and return their records by table."""
        records = {}
        for table, (part, file) in self._open.items():
            file.close()
            path = part.with_name(part.name.removesuffix(f".{os.getpid()}{PART_SUFFIX}"))
            publish_file(part, path)
            with path.open("rb") as written:
                digest = hashlib.file_digest(written, "sha256").hexdigest()
            size = path.stat().st_size
            records[table] = FileRecord(str(path.relative_to(self._folder)), self._rows[table], size, digest, self._run)
        self._open = {}
        return records

    def _path(self, table: str, suffix: str) -> Path:
        """Make the path of an incomplete file; the process id keeps it apart from those of killed workers."""
        path = self._folder / table / f"{self._split}part-{self._number:05d}.{suffix}.{os.getpid()}{PART_SUFFIX}"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
