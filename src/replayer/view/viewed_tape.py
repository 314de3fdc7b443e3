"""One tape in the server: its processes, its cache, its marks. No state is read here, and no simulation runs."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import shlex
import threading
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import attrs
import numpy as np
import numpy.typing as npt

from recorder.location.tape_location import Location
from recorder.processes.worker_pipes import starting
from replayer.view.frame_cache import FrameCache
from replayer.view.mark_index import MarkIndex, Ticks
from replayer.view.states.frame_encoding import EncodedTick
from replayer.view.worker.finding_cursors import Role
from replayer.view.worker.page_jobs import (
    BlockJob,
    Described,
    DetailJob,
    Filled,
    FillJob,
    HooksFailed,
    Indexed,
    Opened,
    Refused,
    SeekJob,
    ShownTick,
    Trouble,
    ViewSelection,
)
from replayer.view.worker.tape_marks import read_marks
from replayer.view.worker.tape_process import serve_tape
from replayer.view.worker.view_facts import hook_facts

ANSWER_S = 60.0  # The longest wait for the description of a tick.
FILL_TOLD_S = 0.25


@attrs.frozen
class Head:
    """The newest tick that was reached of a tape that is being recorded.

    Attributes:
        figures: of the curves and the telemetry at this tick, as far as they are known.
        events: the numbers of events by kind, of this tick and of those since the last head, by tick.
    """

    tick: int
    encoded: EncodedTick
    figures: Mapping[str, float]
    events: Mapping[int, Mapping[str, int]] = attrs.field(factory=dict)


class StateStream(Protocol):
    """The states of a recording on their way to a program."""

    async def next_message(self) -> bytes | None:
        """The next message; waits for it. None after the last."""


class Audience(Protocol):
    """The pages that look at the tapes."""

    def reached(self, side: int, tick: int) -> None:
        """A tick is in the cache."""

    def head(self, side: int, head: Head) -> None:
        """The newest tick of a tape that is being recorded is in the cache."""

    def preview(self, side: int, page: str, tick: int, encoded: EncodedTick) -> None:
        """A picture on the way to a tick is there for one page."""

    def announce(self, message: dict[str, Any], page: str | None = None) -> None:
        """Send JSON to a page, or to all of them."""


class ViewedTape:
    """One tape, side 0 or 1.

    Attributes:
        facts: as view_facts gives; None until the tape is open.
        refused: the reason why it cannot be shown; None if it can.
        troubles: ticks that cannot be shown, with the reason.
        sim: module:factory of the simulation; None for registered worlds and adapters.
        role: which side of a desync it is; None if it is none.
    """

    def __init__(
        self,
        side: int,
        path: Location,
        sim: str | None,
        other: Location | None,
        budget_bytes: int,
        role: Role | None = None,
        *,
        with_parents: bool = False,
    ) -> None:
        """other: the tape that this one is compared with. with_parents: see ViewCursor."""
        self.side, self.path = side, path
        self.cache = FrameCache(budget_bytes)
        self.marks = MarkIndex()
        self.facts: dict[str, Any] | None = None
        self.refused: str | None = None
        self.troubles: dict[int, str] = {}
        self.fills = budget_bytes > 0
        self.is_filled = False
        self._look: ViewSelection | None = None
        self._fill_interval: int | None = None
        self._figures: dict[str, dict[int, float]] = {}
        self._tickets, self._answers = count(), dict[int, asyncio.Future[dict[str, Any] | None]]()
        self._told: asyncio.TimerHandle | None = None
        self._opened = asyncio.Event()
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        self.sim, self.role, self._other, self._with_parents = sim, role, other, with_parents

    # --- the processes

    def start(self, audience: Audience) -> None:
        """Start the processes; call it in the event loop."""
        self._audience, self._loop = audience, asyncio.get_running_loop()
        self._start_processes()

    def _start_processes(self) -> None:
        """Start the process that answers the pages first, then all others."""
        self._start(partial(serve_tape, with_parents=self._with_parents), self.path, self.sim, self.role)
        self._start(read_marks, self.path, self._other)

    def _start(self, work: Callable[..., None], *arguments: object) -> Connection:
        """Start a process; returns our end of its pipe."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(os.getpid(), theirs, *arguments))
        with starting():
            process.start()
        theirs.close()
        self._pipes.append(ours)
        self._processes.append(process)
        threading.Thread(target=self._listen, args=(ours,), daemon=True).start()
        return ours

    def _listen(self, pipe: Connection) -> None:
        """In a thread: pass the messages of a process to the event loop, until the process ends."""
        is_seeker = pipe is self._pipes[0]
        with contextlib.suppress(RuntimeError):  # The event loop has ended.
            try:
                while True:
                    self._loop.call_soon_threadsafe(self._heard, pipe.recv())
            except (EOFError, OSError):
                if is_seeker:
                    self._loop.call_soon_threadsafe(self._lost)

    def stop(self) -> None:
        """End the processes and wait for them."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        for pipe in self._pipes:
            pipe.close()

    def _lost(self) -> None:
        """The process has ended: of its simulation, by a signal, or for lack of memory."""
        if self.refused is not None:
            return
        why = "the process of the tape has ended; see its output in the terminal"
        if self.facts is None:
            self._heard(Refused(why))
            return
        self._audience.announce({"kind": "trouble", "side": self.side, "tick": None, "text": why})
        for ticket in list(self._answers):
            self._heard(Described(ticket, None))

    def _heard(self, message: object) -> None:
        match message:
            case Opened(facts):
                self.facts = facts
                self._opened.set()
            case Refused(why):
                self.refused = why
                self._opened.set()
            case ShownTick():
                self._reached(message)
            case Filled():
                self.is_filled = True
                self.tell_filled()
            case Described(ticket, description):
                answer = self._answers.pop(ticket, None)
                if answer is not None and not answer.done():
                    answer.set_result(description)
            case Trouble():
                self._failed(message)
            case HooksFailed(problems) if self.facts is not None:
                self.facts["hook_problems"] += hook_facts(problems)
                told = {"kind": "hooks", "side": self.side, "problems": self.facts["hook_problems"]}
                self._audience.announce(told)
            case Indexed(part):
                if "added" in part:
                    self.marks.extend(part["added"])
                else:
                    self.marks.add(part)
                if self.facts is not None:
                    self.facts |= part.get("checked", {})
                self._audience.announce({"kind": "marks", "side": self.side, "checked": part.get("checked")})

    def _reached(self, reached: ShownTick) -> None:
        if reached.page is not None:
            self.cache.put(reached.encoded.shown, reached.encoded)
            self._audience.preview(self.side, reached.page, reached.tick, reached.encoded)
            # The drag may be elsewhere by now, and this be nearer to it than what is shown.
            self._audience.reached(self.side, reached.encoded.shown)
            return
        self.cache.put(reached.tick, reached.encoded)
        for name, value in reached.figures.items():
            self._figures.setdefault(name, {})[reached.tick] = value
        self._audience.reached(self.side, reached.tick)
        self.tell_filled()

    def _failed(self, trouble: Trouble) -> None:
        if trouble.tick is not None:
            self.troubles[trouble.tick] = trouble.text
        self._audience.announce({"kind": "marks"})
        if trouble.page is not None:
            message = {"kind": "trouble", "side": self.side, "tick": trouble.tick, "text": trouble.text}
            self._audience.announce(message, trouble.page)

    @property
    def render_command(self) -> str:
        """The beginning of the command that draws ticks of this tape into a file."""
        return self._command("render")

    @property
    def branch_command(self) -> str:
        """The beginning of the command that leaves this tape at a tick."""
        return self._command("branch")

    def _command(self, word: str) -> str:
        return shlex.join(["replay", word, str(self.path), *(["--sim", self.sim] if self.sim is not None else [])])

    async def opened(self) -> None:
        """Wait until the tape is open, or refused."""
        await self._opened.wait()
        if self.facts is not None:
            self.facts |= self.marks.checked

    # --- wishes of pages

    def follow(self, page: str, look: ViewSelection | None) -> Head | None:  # noqa: ARG002 - of LiveTape
        """Let a page follow the head of the tape, if it is being recorded. look: what it looks at; None to end that.

        Returns the newest tick that is known of the head, if any.
        """
        return None

    def clamp(self, tick: int) -> int:
        """The tick of the tape that is nearest to a tick."""
        assert self.facts is not None
        first, last = int(self.facts["first"]), int(self.facts["last"])
        return max(first, min(last, tick))

    def seek(self, page: str, tick: int, look: ViewSelection, *, is_drag: bool) -> None:
        """Get a tick into the cache, if it is not there."""
        if self.cache.get(tick, look) is None:
            self._send(SeekJob(page, tick, look, is_drag))
        self._look_at(tick, look)

    def near(self, tick: int) -> int | None:
        """The tick in the cache that is nearest to a tick, in the same keyframe interval; None if there is none."""
        found = self.cache.nearest(tick)
        return found if found is not None and self.marks.interval_of(found) == self.marks.interval_of(tick) else None

    def play(self, page: str, ticks: list[int], look: ViewSelection) -> None:
        """Get ticks into the cache."""
        missing = tuple(tick for tick in ticks if self.cache.get(tick, look) is None)
        if missing:
            self._send(BlockJob(page, missing, look))
        if ticks:
            self._look_at(ticks[0], look)

    async def describe(self, page: str, tick: int, query: dict[str, Any]) -> dict[str, Any] | None:
        """The description of a tick; None if a newer question of the page came, or it took too long."""
        ticket = next(self._tickets)
        answer = self._answers[ticket] = self._loop.create_future()
        self._send(DetailJob(page, ticket, tick, query))
        try:
            return await asyncio.wait_for(answer, ANSWER_S)
        except (TimeoutError, asyncio.CancelledError):  # The second: the server ends while it waits.
            return None
        finally:
            self._answers.pop(ticket, None)

    def values(self, name: str) -> tuple[Ticks, npt.NDArray[np.float64]]:
        """Ticks and values of a curve, ascending: recorded telemetry, or what was computed so far."""
        recorded = self.marks.telemetry(name)
        if recorded is not None:
            return recorded
        known = sorted(self._figures.get(name, {}).items())
        ticks = np.array([tick for tick, _ in known], np.int64)
        return ticks, np.array([value for _, value in known], np.float64)

    def open_stream(self) -> StateStream | None:
        """Begin a stream of states; None if the tape is not being recorded, or has too many of them."""
        return None

    def close_stream(self, stream: StateStream) -> None:
        """End a stream."""

    def _look_at(self, tick: int, look: ViewSelection) -> None:
        """Let the filling go on around a tick, if it is in another keyframe interval, or something else is shown."""
        self.cache.look_at(tick, look)
        interval = self.marks.interval_of(tick)
        is_new = look != self._look
        if self.fills and (is_new or (interval != self._fill_interval and not self._holds_all())):
            self._look, self._fill_interval, self.is_filled = look, interval, False
            self._send(self._fill_job(tick, look))

    def _fill_job(self, tick: int, look: ViewSelection) -> FillJob:
        assert self.facts is not None
        return FillJob(tick, look, self.cache.budget_bytes, int(self.facts["last"]))

    def _holds_all(self) -> bool:
        assert self.facts is not None
        return self.is_filled and self.cache.ready_count > self.facts["last"] - self.facts["first"]

    def _send(self, job: object) -> None:
        with contextlib.suppress(OSError):  # The process has ended, which _lost reports.
            self._pipes[0].send(job)

    def tell_filled(self) -> None:
        """Tell the pages what is in the cache, at most four times a second."""
        if self._told is None:
            self._told = self._loop.call_later(FILL_TOLD_S, self._tell_filled)

    def _tell_filled(self) -> None:
        self._told = None
        ranges, size = self.cache.ready_ranges(), self.cache.size_bytes
        message = {"kind": "fill", "side": self.side, "ranges": ranges, "bytes": size, "done": self.is_filled}
        message["scales"] = self.cache.scales
        self._audience.announce(message)
