"""Training data directly from tapes, without a data set in between: the rows of ``extract``, in a shuffled order.

Parts of a tape, an interval or more each, are read in a random order. Their rows pass through a buffer of bounded size,
which returns random ones.

Invariants:
    1. In an epoch all shards together yield each row exactly once.
    2. The order of a shard depends only on tapes, request, seed, epoch, shard and the bounds of the buffer.
    3. A row equals that of ``extract`` byte for byte: the same functions make it. A simulation is kept from one part to the
       next only for transitions whose states are compared with recorded hashes.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import attrs

from recorder.processes.inline_pool import InlinePool, local_pool
from replayer.datasets.extract import make_task
from replayer.datasets.parts.inspect_tapes import inspect_tapes
from replayer.datasets.parts.kept_tape import KeptTape, KeptTapes
from replayer.datasets.parts.warn_losses import warn_of_samples
from replayer.datasets.parts.worker import Losses, rows_of_part
from replayer.datasets.plan import DatasetPart, TapeInput, make_parts
from replayer.datasets.plan_transitions import columns_to_plain, different_environments, plan_transitions
from replayer.datasets.request import ExtractionError, list_tapes, make_request
from replayer.datasets.rows.columns import Block, Shape, shape_of
from replayer.datasets.stream.parts_together import PartsTogether
from replayer.datasets.stream.reading_progress import Position, Progress
from replayer.datasets.stream.row_counts import rows_of_parts
from replayer.datasets.stream.row_order import Order, at_least
from replayer.datasets.stream.shuffle_buffer import Chunk, Held, ShuffleBuffer, cut, in_batches, row_count, to_chunk
from replayer.datasets.task import Task
from replayer.datasets.transitions.transition_rows import TRANSITIONS
from replayer.playback.make_simulation import Factory
from replayer.playback.sampled_states import Missing

PART_STRIDES = 8  # The least number of samples in a part: the ticks shared with the next part cost little.
CHUNK_ROWS_MAX = 256  # The number of rows collected before they go into the buffer,
CHUNK_SHARE = 16  # unless they take 1/16 of its bytes before.
POSITION_SHARE = 4  # A position to resume at is noted when a quarter of the shuffle buffer has been replaced.
OUTCOME = "outcome"
SAMPLED = (TRANSITIONS, "pairs", "states")
# Of transitions, by default: the others may miss values, which arrays cannot.
PRESENT = ("run", "episode", "step", "tick", "agent", "obs*", "action*", "reward*", "next*", "terminated", "truncated")

Sample = dict[str, Any]  # Arrays, NumPy numbers, texts.


def samples(
    tapes: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    table: Literal["transitions", "pairs", "states"] | None = None,
    world: Factory | None = None,
    shuffle: bool = True,
    seed: int = 0,
    epoch: int = 0,
    buffer_rows: int = 4096,
    buffer_bytes: int = 256 << 20,
    shard: tuple[int, int] = (0, 1),
    batch: int | None = None,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    jobs: int = 1,
    **wanted: Any,
) -> Samples:
    """Return the rows of tapes, or of folders of tapes: dicts by column, named as by ``extract``.

    Each iteration yields one epoch. With batch, arrays have a first axis for the rows, and arrays that differ in length
    are a list.

    table: transitions of environments, training pairs, or states; by default as extract chooses. Of transitions, those
    columns are yielded by default that every row has. world: makes the simulation, for tapes that name no
    registered world. shuffle, buffer_rows, buffer_bytes, shard, batch, columns: see Order. seed: of the order, and of the
    random choices of splits and balanced agents. epoch: the first one, see Samples.set_epoch. split: read only the runs
    of this split. jobs: the number of processes that inspect the tapes before the first row. wanted: see Request.

    Raises ExtractionError for a request that cannot be met, ValueError for an invalid order, OSError, and as opening a
    tape does.
    """
    order = Order(shuffle, seed, buffer_rows, buffer_bytes, shard, batch, columns)
    paths = list_tapes([tapes] if isinstance(tapes, str | os.PathLike) else tapes)
    at_least("jobs", jobs, 1)
    at_least("epoch", epoch, 0)
    named = {"tables": () if table is None else (table,), "seed": seed, **wanted}
    request = make_request(named, samples.__kwdefaults__)
    if request.long:
        raise ExtractionError("long is not available here: a row is a sample; use extract")
    # Outcomes need the last state of each tape, which has to be simulated; the table states has none.
    inspected_request = request if order.includes(OUTCOME) else attrs.evolve(request, tables=("states",))
    # The rows are made in this process in any case; another one would import the simulation once more.
    pool = InlinePool() if jobs == 1 else local_pool(jobs)
    inspected = inspect_tapes(paths, inspected_request, world, pool, lambda _: None)
    sources = inspected.sources
    task = make_task(sources, request, world, Path(), "parquet")
    if len(task.tables) != 1 or task.tables[0] not in SAMPLED:
        raise ExtractionError(f"table: expected {', '.join(SAMPLED)}, got {', '.join(task.tables)}")
    if split is not None and not any(source.split == split for source in sources):
        splits = ", ".join(name for name, _ in request.splits) or "none"
        raise ExtractionError(f"no run is in split {split}; splits: {splits}")
    cut: Sequence[DatasetPart]
    if task.tables == (TRANSITIONS,):
        plan = plan_transitions(task, pool, None, PART_STRIDES)
        task, cut = plan.task, plan.parts
        assert task.columns is not None
        inspected.notes.extend(plan.noted())
        if order.columns is None:
            order = attrs.evolve(order, columns=(*PRESENT, *task.columns.always_there()))
    else:
        cut = make_parts(sources, task.request, PART_STRIDES * request.stride)
    parts = [
        part
        for part in cut
        if (split is None or sources[part.source].split == split)
        and (task.tables != ("pairs",) or (task.agents[part.source] and (part.then is not None or len(part.ticks) > 1)))
    ]
    return Samples(task, parts, order, inspected.notes, epoch)


class Samples:
    """Rows of tapes, see samples(). Each iteration yields one epoch.

    Attributes:
        order: of the rows. epoch: of the next iteration.
        sources: the tapes. notes: a sentence for each tape left out, and one if they are of different environments.
        missing: the missing samples of the last iteration so far, each with the name of its tape. The first one of each tape is
            also an ExtractionWarning.
    """

    def __init__(
        self, task: Task, parts: Sequence[DatasetPart], order: Order, notes: Sequence[str], epoch: int = 0
    ) -> None:
        self._task, self._parts = task, parts
        self.order, self.epoch = order, epoch
        self.sources: Sequence[TapeInput] = task.sources
        self.notes = notes
        self.missing: list[tuple[str, Missing]] = []
        self._progress = Progress(epoch)  # Of the current iteration, or of the last one.
        self._resumed: Progress | None = None  # Where the next iteration begins; None is the beginning.

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration. Each epoch has the same rows in a different order."""
        self.epoch, self._resumed, self._progress = epoch, None, Progress(epoch)

    def of_shard(self, number: int, count: int) -> Self:
        """Return the samples of a different shard."""
        order = attrs.evolve(self.order, shard=(number, count))
        return type(self)(self._task, self._parts, order, self.notes, self.epoch)

    def length(self) -> int | None:
        """Return the number of items of an iteration, rows or batches; None if only reading the tapes would tell.

        It counts every state that can be replayed: samples that are missing after all (see missing) make it shorter.
        """
        rows = rows_of_parts(self._task, self._parts_in_order(self.epoch))
        return rows if rows is None or self.order.batch is None else -(-rows // self.order.batch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the current iteration as plain data, which JSON can hold."""
        return {"plan": self._digest, "shard": list(self.order.shard), **self._progress.plain()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the rows that had been yielded when state_dict was called.

        The next iteration seeks there: of the rows yielded before, it simulates only those of the last pieces, and
        reads the pieces again whose rows wait in the shuffle buffer. Raises ExtractionError for the state of different
        tapes, a different request, a different order or a different shard.
        """
        progress = Progress.from_plain(state)
        if "shard" in state and tuple(state["shard"]) != self.order.shard:
            (number, count), (own, own_count) = state["shard"], self.order.shard
            raise ExtractionError(
                f"this state is of shard {number} of {count}, and these are the rows of shard {own} of {own_count}: use as "
                "many shards and workers as before"
            )
        if state["plan"] != self._digest:
            raise ExtractionError(
                "this state is of different tapes, a different request or a different order: rows would be lost"
            )
        self.epoch, self._resumed, self._progress = progress.epoch, progress, progress

    @functools.cached_property
    def _digest(self) -> str:
        """A digest of all that decides the rows and their order; loaders take a state with each item."""
        tapes = [(source.run, source.digest) for source in self.sources]
        order = attrs.evolve(self.order, batch=None)
        columns = () if self._task.columns is None else (columns_to_plain(self._task.columns),)
        plan = (tapes, self._task.request, self._task.agents, self._task.encodings, self._parts, order, *columns)
        return hashlib.blake2b(repr(plan).encode(), digest_size=16).hexdigest()

    def __iter__(self) -> Iterator[Sample]:
        # At once, not with the first row: a loader may make an iterator that it does not use.
        progress = self._resumed or Progress(self.epoch)
        self.missing, self._resumed, self._progress = [], None, progress
        return self._iterate(progress)

    def _iterate(self, progress: Progress) -> Iterator[Sample]:
        skip = progress.rows - progress.position.rows
        chunks = _without(self._ordered(progress), skip)
        if self.order.batch is not None:
            for batch in in_batches(chunks, self.order.batch):
                progress.rows += row_count(batch)
                yield dict(batch)
            return
        for chunk in chunks:
            for row in range(row_count(chunk)):
                progress.rows += 1
                yield {name: _own(column[row]) for name, column in chunk.items()}

    def _parts_in_order(self, epoch: int) -> list[DatasetPart]:
        """The parts of the shard in the order in which they are read."""
        order = self.order
        parts = list(self._parts)
        if order.shuffle:
            parts.sort(key=lambda part: _lot(order.seed, epoch, f"part {part.number}"))
        number, count = order.shard
        return parts[number::count]

    def _ordered(self, progress: Progress) -> Iterator[Chunk]:
        """Yield the rows of the shard in their order, from the position in progress on, and note later positions there."""
        order = self.order
        parts = self._parts_in_order(progress.epoch)
        number, count = order.shard
        seed = int.from_bytes(_lot(order.seed, progress.epoch, f"shard {number} of {count}"))
        buffer = ShuffleBuffer(order.buffer_rows, order.buffer_bytes, seed)
        reading = _Reading(KeptTapes(self._task.sources, self._task.factory))
        with reading.kept:
            yield from self._read(parts, buffer, progress, reading)

    def _read(
        self, parts: Sequence[DatasetPart], buffer: ShuffleBuffer, progress: Progress, reading: _Reading
    ) -> Iterator[Chunk]:
        order, start = self.order, progress.position
        if start.held is not None:
            buffer.restore(start.held, self._held_chunks(parts, start.held, reading))
        made, index = start.rows, start.part
        together = PartsTogether(is_allowed=not order.shuffle and self._task.tables == (TRANSITIONS,))
        while index < len(parts):
            # Positions of a buffer cost time in proportion to its rows, so they are taken after as many rows.
            if made - progress.newest.rows >= max(1, len(buffer) // POSITION_SHARE):
                progress.note(Position(index, made, buffer.held() if order.shuffle else None))
            first = 0
            part, end = together.take(parts, index)
            for chunk in together.timed(self._chunks(part, reading)):
                for piece in buffer.add(chunk, index, first) if order.shuffle else [chunk]:
                    made += row_count(piece)
                    yield piece
                first += row_count(chunk)
            index = end
        yield from buffer.drain()

    def _held_chunks(
        self, parts: Sequence[DatasetPart], held: Held, reading: _Reading
    ) -> Iterator[tuple[int, int, Chunk]]:
        """Yield the chunks up to the last row that is held of each part, with the part and the first row in it."""
        last_rows: dict[int, int] = {}
        for index, row in zip(held.parts, held.rows, strict=True):
            last_rows[index] = max(row, last_rows.get(index, 0))
        for index, last in sorted(last_rows.items()):
            first = 0
            with contextlib.closing(self._chunks(parts[index], reading)) as chunks:
                for chunk in chunks:
                    yield index, first, chunk
                    first += row_count(chunk)
                    if first > last:
                        break

    def _chunks(self, part: DatasetPart, reading: _Reading) -> Generator[Chunk]:
        """Yield the rows of a part. Raises ExtractionError if they have other columns than those before."""
        for block in self._blocks(part, reading.kept.of(part.source)):
            reading.ensure_same_columns(self.sources[part.source].name, block)
            yield to_chunk(block, different_environments(self._task))

    def _blocks(self, part: DatasetPart, kept: KeptTape) -> Iterator[Block]:
        """Yield the rows of a part, a few at a time."""
        task, source, order = self._task, self.sources[part.source], self.order
        rows_per_sample = len(task.agents[part.source]) if task.tables == ("pairs",) else 1
        rows = max(1, min(CHUNK_ROWS_MAX, order.buffer_rows // 4))
        losses = Losses()
        for _, block in rows_of_part(
            task,
            part,
            kept,
            lambda _: None,
            losses,
            buffer_bytes=order.buffer_bytes // CHUNK_SHARE,
            buffer_samples=max(1, rows // rows_per_sample),
            as_they_come=not order.shuffle,
        ):
            assert not isinstance(block, list)  # samples() refuses tables of records.
            yield self._chosen(block)
        for missing in losses.missing:
            if (source.name, missing) not in self.missing:  # Neighbouring parts share a sample.
                before = tuple(self.missing)
                self.missing.append((source.name, missing))
                warn_of_samples(source.name, missing, before)

    def _chosen(self, block: Block) -> Block:
        """Return the requested columns. Raises ExtractionError for an unknown one."""
        return {name: block[name] for name in _requested(self.order, tuple(block))}


@functools.lru_cache(maxsize=16)  # Asked for each block, of which a tape has many with the same columns.
def _requested(order: Order, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the requested ones of these columns. Raises ExtractionError for an unknown one."""
    unknown = next((pattern for pattern in order.columns or () if not fnmatch.filter(columns, pattern)), None)
    if unknown is not None:
        raise ExtractionError(f"there is no column {unknown}; columns: {', '.join(columns)}")
    return tuple(filter(order.includes, columns))


class _Reading:
    """What an iteration keeps from one part to the next.

    Attributes:
        kept: the tapes.
    """

    def __init__(self, kept: KeptTapes) -> None:
        self.kept = kept
        self._first: tuple[str, dict[str, Shape]] | None = None

    def ensure_same_columns(self, name: str, block: Block) -> None:
        """Raise ExtractionError if these rows of a tape have other columns than the first ones. name: of the tape."""
        shapes = {column: shape_of(values) for column, values in block.items()}
        if self._first is None:
            self._first = name, shapes
        first_name, first = self._first
        if shapes != first:
            differing = sorted(column for column in {*shapes, *first} if shapes.get(column) != first.get(column))
            raise ExtractionError(
                f"{first_name} and {name} have different columns ({', '.join(differing[:4])}): "
                "iterate over them separately, or choose columns that they share"
            )


def _without(chunks: Iterator[Chunk], rows: int) -> Iterator[Chunk]:
    """Yield all but the first rows."""
    for chunk in chunks:
        count = row_count(chunk)
        if rows < count:
            yield cut(chunk, rows, count) if rows else chunk
        rows = max(0, rows - count)


def _own(value: Any) -> Any:
    """Copy one value of a column, so that the column can be freed."""
    return str(value) if isinstance(value, str) else value.copy()


def _lot(seed: int, epoch: int, text: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{epoch}:{text}".encode(), digest_size=16).digest()
