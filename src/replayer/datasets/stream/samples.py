"""Training data straight from tapes, without a data set in between: the rows of ``extract``, in a shuffled order.

Parts of a tape, an interval or more each, come in a random order, and their rows go through a buffer of bounded size out
of which random ones are given.

Invariants:
    1. In an epoch all shards together give each row exactly once.
    2. The order of a shard depends on tapes, request, seed, epoch, shard and the buffer's bounds, on nothing else.
    3. A row is byte for byte that of ``extract``: the same functions make it, in a fresh simulation for each part.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import attrs

from recorder.processes.fork_pool import ForkPool
from replayer.datasets.extract import list_tapes, make_task
from replayer.datasets.plan import DatasetPart, TapeInput, inspect_tapes, make_parts, open_source
from replayer.datasets.request import ExtractionError, Request
from replayer.datasets.rows.columns import Block, Shape, shape_of
from replayer.datasets.stream.shuffle_buffer import Chunk, ShuffleBuffer, cut, in_batches, row_count, to_chunk
from replayer.datasets.task import Task
from replayer.datasets.worker import Losses, rows_of_part
from replayer.playback.make_simulation import Factory
from replayer.playback.sampled_states import Missing

PART_STRIDES = 8  # A part has so many samples at least, so that what it shares with the next one costs little.
CHUNK_ROWS_MAX = 256  # Rows are collected so many at a time before they go into the buffer,
CHUNK_SHARE = 16  # or until they take this part of its bytes.
OUTCOME = "outcome"

Sample = dict[str, Any]  # Arrays, NumPy numbers, texts.


def _to_shard(shard: Sequence[int]) -> tuple[int, int]:
    number, count = shard
    return number, count


def _to_columns(columns: Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


@attrs.frozen
class Order:
    """In which order rows come.

    Attributes:
        shuffle: whether in a random one. seed: of it.
        buffer_rows, buffer_bytes: how many rows are held back at most; the smaller one counts.
        shard: which one, from 0, and of how many.
        batch: rows in each of what is given; None gives single rows.
        columns: which ones, as names or as patterns such as "obs.*"; None is all. Without outcome, the last state of each
            tape need not be simulated before the first row.
    """

    shuffle: bool = True
    seed: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    buffer_rows: int = attrs.field(default=4096, validator=attrs.validators.ge(1))
    buffer_bytes: int = attrs.field(default=256 << 20, validator=attrs.validators.ge(1))
    shard: tuple[int, int] = attrs.field(default=(0, 1), converter=_to_shard)
    batch: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))
    columns: tuple[str, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(_to_columns))

    def __attrs_post_init__(self) -> None:
        number, count = self.shard
        if not 0 <= number < count:
            raise ValueError(f"shard {number} of {count}: the first is 0, the last is {count - 1}")

    def gives(self, column: str) -> bool:
        """Whether a column of this name is wanted."""
        return self.columns is None or any(fnmatch.fnmatchcase(column, pattern) for pattern in self.columns)


def samples(
    tapes: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    table: Literal["pairs", "states"] | None = None,
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
    """Rows of tapes, or of folders of tapes, to iterate over, one epoch each time: dicts by column, as ``extract`` names them.

    table: training pairs, or states; by default as extract chooses. world: makes the simulation, for tapes that name no
    registered world. shuffle, buffer_rows, buffer_bytes, shard, batch, columns: see Order. seed: of the order, and of the
    choices that splits and balancing make. epoch: which one comes first, see Samples.set_epoch. split: of the splits in
    wanted, the one whose runs are read. jobs: processes that look at the tapes before the first row. wanted: see Request.

    With batch, arrays have an axis for the rows in front, and what differs in length is a list of arrays.

    Raises ExtractionError for what cannot be, ValueError for an order that cannot be; OSError; what opening a tape raises.
    """
    order = Order(shuffle, seed, buffer_rows, buffer_bytes, shard, batch, columns)
    paths = list_tapes([tapes] if isinstance(tapes, str | os.PathLike) else tapes)
    if jobs < 1:
        raise ValueError(f"jobs={jobs}: at least 1 was expected")
    request = Request(tables=() if table is None else (table,), seed=seed, **wanted)
    if request.long:
        raise ExtractionError("long: a row is a sample here; the long form is for files, see extract")
    # Outcomes take the last state of each tape, which is simulated for that; of states nobody asks for them.
    looking = request if order.gives(OUTCOME) else attrs.evolve(request, tables=("states",))
    looked = inspect_tapes(paths, looking, world, ForkPool(jobs), lambda _: None)
    sources = looked.sources
    task = make_task(sources, request, world, Path(), "parquet")
    if len(task.tables) != 1 or task.tables[0] not in ("pairs", "states"):
        raise ExtractionError(f"table {', '.join(task.tables)}: pairs or states was expected")
    if split is not None and not any(source.split == split for source in sources):
        splits = ", ".join(name for name, _ in request.splits) or "none were asked for"
        raise ExtractionError(f"no run is in split {split}; splits: {splits}")
    parts = [
        part
        for part in make_parts(sources, task.request, PART_STRIDES * request.stride)
        if (split is None or sources[part.source].split == split)
        and (
            task.tables == ("states",) or (task.agents[part.source] and (part.then is not None or len(part.ticks) > 1))
        )
    ]
    return Samples(task, parts, order, looked.notes, epoch)


class Samples:
    """Rows of tapes, see samples(). Each iteration gives one epoch.

    Attributes:
        order: in which they come. epoch: of the next iteration.
        sources: the tapes. notes: on those that are left out.
        missing: of the last iteration, as far as it has come: which samples could not be had, by the tape's name.
    """

    def __init__(
        self, task: Task, parts: Sequence[DatasetPart], order: Order, notes: Sequence[str], epoch: int = 0
    ) -> None:
        self._task, self._parts = task, parts
        self.order, self.epoch = order, epoch
        self.sources: Sequence[TapeInput] = task.sources
        self.notes = notes
        self.missing: list[tuple[str, Missing]] = []
        self._given = 0  # Rows of the iteration that is under way, or was last.
        self._skip = 0  # Rows of the next iteration that were given before.

    def set_epoch(self, epoch: int) -> None:
        """Which epoch the next iteration gives: the same rows as any other, in an order of its own."""
        self.epoch, self._skip, self._given = epoch, 0, 0

    def of_shard(self, number: int, count: int) -> Self:
        """The same rows as far as they belong to another shard."""
        order = attrs.evolve(self.order, shard=(number, count))
        return type(self)(self._task, self._parts, order, self.notes, self.epoch)

    def state_dict(self) -> dict[str, Any]:
        """How far the iteration is that is under way, as plain data."""
        return {"plan": self._digest(), "epoch": self.epoch, "rows": self._given}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind the rows that were given when state_dict was called.

        The next iteration simulates its way there again, without giving anything: exact, and as long as it took before.
        Raises ExtractionError for the state of other tapes, another request or another order.
        """
        if state["plan"] != self._digest():
            raise ExtractionError("this state is of other tapes, another request or another order: rows would be lost")
        self.epoch, self._skip, self._given = state["epoch"], state["rows"], state["rows"]

    def _digest(self) -> str:
        tapes = [(source.run, source.digest) for source in self.sources]
        order = attrs.evolve(self.order, batch=None)
        whole = (tapes, self._task.request, self._task.agents, self._task.encodings, self._parts, order)
        return hashlib.blake2b(repr(whole).encode(), digest_size=16).hexdigest()

    def __iter__(self) -> Iterator[Sample]:
        self.missing, self._given = [], self._skip
        skip, self._skip = self._skip, 0
        chunks = _without(self._ordered(), skip)
        if self.order.batch is not None:
            for batch in in_batches(chunks, self.order.batch):
                self._given += row_count(batch)
                yield dict(batch)
            return
        for chunk in chunks:
            for row in range(row_count(chunk)):
                self._given += 1
                yield {name: _own(column[row]) for name, column in chunk.items()}

    def _ordered(self) -> Iterator[Chunk]:
        """All rows of the shard in their order."""
        order = self.order
        parts = list(self._parts)
        if order.shuffle:
            parts.sort(key=lambda part: _lot(order.seed, self.epoch, f"part {part.number}"))
        number, count = order.shard
        chunks = self._rows(parts[number::count])
        if not order.shuffle:
            yield from chunks
            return
        seed = int.from_bytes(_lot(order.seed, self.epoch, f"shard {number} of {count}"))
        buffer = ShuffleBuffer(order.buffer_rows, order.buffer_bytes, seed)
        for chunk in chunks:
            yield from buffer.add(chunk)
        yield from buffer.drain()

    def _rows(self, parts: Sequence[DatasetPart]) -> Iterator[Chunk]:
        """All rows of these parts, in order. Raises ExtractionError if tapes give different columns."""
        settled: tuple[str, dict[str, Shape]] | None = None
        for part in parts:
            source = self.sources[part.source]
            for block in self._blocks(part):
                shapes = {name: shape_of(column) for name, column in block.items()}
                if settled is None:
                    settled = source.name, shapes
                elif shapes != settled[1]:
                    differing = sorted(
                        name for name in {*shapes, *settled[1]} if shapes.get(name) != settled[1].get(name)
                    )
                    raise ExtractionError(
                        f"{settled[0]} and {source.name} give other columns ({', '.join(differing[:4])}): "
                        "iterate over them apart, or choose columns that they share"
                    )
                yield to_chunk(block)

    def _blocks(self, part: DatasetPart) -> Iterator[Block]:
        """The rows of a part, few at a time."""
        task, source, order = self._task, self.sources[part.source], self.order
        at_once = len(task.agents[part.source]) if task.tables == ("pairs",) else 1
        rows = max(1, min(CHUNK_ROWS_MAX, order.buffer_rows // 4))
        losses = Losses()
        with open_source(source) as tape:
            for _, block in rows_of_part(
                task,
                part,
                tape,
                lambda _: None,
                losses,
                buffer_bytes=order.buffer_bytes // CHUNK_SHARE,
                buffer_samples=max(1, rows // at_once),
            ):
                assert not isinstance(block, list)  # Tables of records are not asked for here.
                yield self._chosen(block)
        for one in losses.missing:
            if (source.name, one) not in self.missing:  # Where parts meet, both have the sample.
                self.missing.append((source.name, one))

    def _chosen(self, block: Block) -> Block:
        """The columns that are wanted. Raises ExtractionError for one that there is not."""
        wanted = self.order.columns
        if wanted is None:
            return block
        strange = next((pattern for pattern in wanted if not fnmatch.filter(block, pattern)), None)
        if strange is not None:
            raise ExtractionError(f"there is no column {strange}; columns: {', '.join(block)}")
        return {name: column for name, column in block.items() if self.order.gives(name)}


def _without(chunks: Iterator[Chunk], rows: int) -> Iterator[Chunk]:
    """All but the first rows."""
    for chunk in chunks:
        count = row_count(chunk)
        if rows < count:
            yield cut(chunk, rows, count) if rows else chunk
        rows = max(0, rows - count)


def _own(value: Any) -> Any:
    """One value of a column, which does not keep the column in memory."""
    return str(value) if isinstance(value, str) else value.copy()


def _lot(seed: int, epoch: int, text: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{epoch}:{text}".encode(), digest_size=16).digest()
