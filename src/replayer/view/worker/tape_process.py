"""The process of one tape: it seeks for the pages and fills the cache, one tick at a time.

It is a process, not a thread, because steps of a simulation hold the interpreter's lock, and a page must stay live
during a step of any length. There is one for each tape: two would simulate the same ticks.

Invariants:
    1. Of each page, the newest seek, block and question replace those before; a seek replaces the block, too.
    2. Before a step it is asked, every 5 ms, if a seek is still wanted: a newer one waits for one step, or for a load.
    3. It fills only while no page waits.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from recorder.errors import DesyncError, RecordingError
from recorder.factory_spec import load_factory
from recorder.location.tape_location import Location
from recorder.processes.worker_pipes import begin_as_worker
from replayer.view.states.figures import figures_of
from replayer.view.worker.finding_cursors import Role, make_cursor
from replayer.view.worker.page_jobs import (
    BlockJob,
    Described,
    DetailJob,
    Filled,
    FillJob,
    HooksFailed,
    Opened,
    Refused,
    SeekJob,
    ShownTick,
    Trouble,
    ViewSelection,
)
from replayer.view.worker.tick_details import TickDetails
from replayer.view.worker.view_cursor import ViewCursor
from replayer.view.worker.view_facts import view_facts

PICTURE_S = 0.03  # A drag shows where its seeks have come to this often, at most.
FAR_TICKS = 60  # A seek over more steps first shows the keyframe that it starts from.
TICKS_MAX = 50_000  # Kept at most: the bookkeeping of the cache is linear in them.


def serve_tape(
    parent: int,
    pipe: Connection,
    path: Location,
    sim: str | None,
    role: Role | None,
    *,
    is_live: bool = False,
    with_parents: bool = False,
) -> None:
    """Run the process until the server closes the pipe. parent: the server's process id.

    is_live, with_parents: see ViewCursor.
    """
    begin_as_worker(parent)
    try:
        factory = load_factory(sim) if sim is not None else None
        reader = make_cursor(path, factory, role, is_live=is_live, with_parents=with_parents)
        process = _TapeProcess(pipe, reader, lambda: make_cursor(path, factory, role, with_parents=with_parents))
        pipe.send(Opened(view_facts(reader) | {"role": role}))
    except (RecordingError, OSError, ValueError, LookupError) as error:
        pipe.send(Refused(str(error)))
        return
    try:
        process.run()
    except (EOFError, BrokenPipeError):
        return  # The server has ended.


class _TapeProcess:
    def __init__(self, pipe: Connection, reader: ViewCursor, make_filler: Callable[[], ViewCursor]) -> None:
        self._pipe, self._reader, self._make_filler = pipe, reader, make_filler
        self._details = TickDetails(reader)
        self._seeks: OrderedDict[str, SeekJob] = OrderedDict()
        self._blocks: OrderedDict[str, BlockJob] = OrderedDict()
        self._questions: OrderedDict[str, DetailJob] = OrderedDict()
        self._told = set(reader.shown.problems)  # Names of the user's methods, see _tell_problems.
        self._pictured_s = 0.0  # When a drag was shown where it has come to.
        self._filling: Iterator[None] | None = None
        self._filler: ViewCursor | None = None

    def run(self) -> None:
        while True:
            self._receive(waits=not (self._seeks or self._blocks or self._questions or self._filling))
            if self._seeks:
                page, job = self._seeks.popitem(last=False)
                self._try(page, partial(self._seek, job))
            elif self._blocks:
                page, block = self._blocks.popitem(last=False)
                self._try(page, partial(self._play, block))
            elif self._questions:
                page, question = self._questions.popitem(last=False)
                if not self._try(page, partial(self._answer, question)):
                    self._pipe.send(Described(question.ticket, None))
            elif self._filling is not None and next(self._filling, self) is self:
                self._filling = None
                self._pipe.send(Filled())

    def _receive(self, *, waits: bool) -> None:
        while self._pipe.poll(None if waits else 0):
            waits = False
            match self._pipe.recv():
                case SeekJob() as job:
                    self._seeks[job.page] = job
                    self._blocks.pop(job.page, None)
                case BlockJob() as block:
                    self._blocks[block.page] = block
                case DetailJob() as question:
                    if (older := self._questions.pop(question.page, None)) is not None:
                        self._pipe.send(Described(older.ticket, None))
                    self._questions[question.page] = question
                case FillJob() as fill:
                    self._filling = self._fill(fill)

    def _try(self, page: str, work: Callable[[], None]) -> bool:
        """Do work for a page; a tick that cannot be shown is reported to it, and is no reason to end."""
        try:
            work()
        except (EOFError, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - the user's simulation may raise anything
            self._pipe.send(Trouble(page, _tick_of(error), self._reader.trouble_text(error)))
            return False
        return True

    def _is_replaced(self, page: str) -> bool:
        self._receive(waits=False)
        return page in self._seeks

    def _seek(self, job: SeekJob) -> None:
        reader = self._reader
        reader.catch_up(job.tick)
        start = reader.start_of(job.tick)
        is_preview = job.is_drag or reader.is_far(job.tick, FAR_TICKS)
        if reader.problem is None and is_preview and start != job.tick and not reader.is_at_hand(job.tick):
            encoded = reader.encode(*reader.state(start), job.look)
            self._pipe.send(ShownTick(job.tick, encoded, job.look, {}, job.page))
        if reader.walk(job.tick, lambda: self._is_replaced(job.page)):
            self._send(reader, job.tick, job.look)
        elif job.is_drag and reader.tick is not None and time.perf_counter() - self._pictured_s > PICTURE_S:
            self._send(reader, reader.tick, job.look)
            self._pictured_s = time.perf_counter()

    def _play(self, block: BlockJob) -> None:
        """Show the ticks in ascending order, also if they are played backwards: each step is run once."""
        self._reader.catch_up(max(block.ticks))
        for tick in sorted(block.ticks):
            self._receive(waits=False)
            if self._seeks or block.page in self._blocks:
                return
            self._reader.walk(tick, lambda: False)
            self._send(self._reader, tick, block.look)

    def _answer(self, question: DetailJob) -> None:
        self._reader.catch_up(question.tick)
        facts = self._details.describe(question.tick, question.query, lambda: self._is_replaced(question.page))
        if facts is None and question.page not in self._questions:
            self._questions[question.page] = question  # Only a seek came between: it is answered after that.
        else:
            self._pipe.send(Described(question.ticket, facts))

    def _send(self, cursor: ViewCursor, tick: int, look: ViewSelection) -> int:
        """Send what is shown of a tick; returns its size in bytes."""
        snapshot, shown = cursor.state(tick)
        encoded = cursor.encode(snapshot, shown, look)
        figures = figures_of(snapshot, look.curves) if look.curves and shown == tick else {}
        self._pipe.send(ShownTick(tick, encoded, look, figures))
        self._tell_problems(cursor)
        return encoded.size_bytes

    def _tell_problems(self, cursor: ViewCursor) -> None:
        """Tell of each of the user's methods once that it could not be shown."""
        new = {name: found for name, found in cursor.shown.problems.items() if name not in self._told}
        if new:
            self._told |= new.keys()
            self._pipe.send(HooksFailed(new))

    def _fill(self, job: FillJob) -> Iterator[None]:
        """Fill tick by tick, whole keyframe intervals outward from a tick, each forward: a step is run once."""
        if self._filler is None:  # A cursor of its own: filling must not move the one that pages wait for.
            self._filler = self._make_filler()
        filler, room_bytes, count = self._filler, job.budget_bytes, 0
        filler.catch_up(job.last)
        for ticks in filler.outward_from(job.tick):
            for tick in ticks:
                if room_bytes <= 0 or count >= TICKS_MAX:
                    return
                if tick > job.last:
                    break  # Recorded meanwhile: it is filled when the server knows of it, which may be later by intent.
                try:
                    room_bytes -= self._send(filler, tick, job.look)
                except (EOFError, BrokenPipeError):
                    raise
                except Exception as error:  # noqa: BLE001 - as in _try
                    if isinstance(error, DesyncError):
                        self._pipe.send(Trouble(None, error.tick, filler.trouble_text(error)))
                    break  # All that follows up to the next keyframe would fail alike, each after a search.
                count += 1
                yield


def _tick_of(error: Exception) -> int | None:
    tick: Any = getattr(error, "tick", None)
    return tick if isinstance(tick, int) else None
