"""A tape that is being recorded, in the server: a ViewedTape whose head is followed.

The pages that follow get each new tick as it is there, see PageSession.head. All others learn how far the tape goes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replayer.view.live.growing_marks import follow_marks
from replayer.view.live.growing_tape import PAGES_NICENESS, be_nice, wait_for_first_ticks
from replayer.view.live.head_process import (
    Grown,
    HeadTick,
    HeadTrouble,
    RecordingState,
    StreamJob,
    WatchJob,
    follow_head,
)
from replayer.view.live.state_stream import StreamedChange, StreamedState
from replayer.view.live.stream_session import StreamSession
from replayer.view.viewed_tape import Head, StateStream, ViewedTape
from replayer.view.worker.page_jobs import ViewSelection
from replayer.view.worker.tape_process import serve_tape

GROWTH_TOLD_S = 0.2
STREAMS_MAX = 16


class LiveTape(ViewedTape):
    """A tape that is being recorded, side 0."""

    def __init__(self, path: Path, sim: str | None, budget_bytes: int, delay_ticks: int = 0) -> None:
        """delay_ticks: what is shown ends so many ticks before the last one, until the recording ends."""
        super().__init__(0, path, sim, None, budget_bytes)
        self._delay_ticks = delay_ticks
        self._streams: set[StreamSession] = set()
        self._early: dict[str, Any] = {"live": "recording"}  # Facts that were told before the tape was open.
        self._looks: dict[str, ViewSelection] = {}  # By page, of those that follow.
        self._newest: Head | None = None
        self._growth_told: asyncio.TimerHandle | None = None

    def _start_processes(self) -> None:
        self._start(_serve_live_tape, self.path, self.sim)
        self._start(follow_marks, self.path, self._delay_ticks)
        self._head_pipe = self._start(follow_head, self.path, self.sim, self._delay_ticks)

    def follow(self, page: str, look: ViewSelection | None) -> Head | None:
        """See ViewedTape."""
        if look is None:
            self._looks.pop(page, None)
        else:
            self._looks[page] = look
        looks = self._looks.values()
        layers = tuple(dict.fromkeys(name for one in looks for name in one.layers))
        curves = tuple(dict.fromkeys(name for one in looks for name in one.curves))
        self._tell_head(WatchJob(ViewSelection(layers, False, curves) if looks else None))
        return self._newest

    def open_stream(self) -> StreamSession | None:
        """See ViewedTape."""
        if len(self._streams) >= STREAMS_MAX or (self.facts or {}).get("live") == "ended":
            return None
        session = StreamSession()
        self._streams.add(session)
        self._ask_for_stream()
        return session

    def close_stream(self, stream: StateStream) -> None:
        """See ViewedTape."""
        self._streams = {one for one in self._streams if one is not stream}
        self._ask_for_stream()

    def _ask_for_stream(self) -> None:
        self._tell_head(StreamJob(bool(self._streams), any(one.waits_for_state for one in self._streams)))

    def _tell_head(self, job: object) -> None:
        with contextlib.suppress(OSError):  # The recording has ended, and with it the process.
            self._head_pipe.send(job)

    def _heard(self, message: object) -> None:
        match message:
            case HeadTick():
                self._reached_head(message)
            case Grown(first, last):
                self._change({"first": first, "last": last})
                if self._growth_told is None:
                    self._growth_told = self._loop.call_later(GROWTH_TOLD_S, self._tell_growth)
            case RecordingState(facts):
                self._turned(facts)
            case StreamedState() | StreamedChange():
                for stream in self._streams:
                    stream.take(message)
            case HeadTrouble(tick, text):
                if tick is not None:
                    self.troubles[tick] = text
                self._audience.announce({"kind": "trouble", "side": self.side, "tick": tick, "text": text})
            case _:
                super()._heard(message)
                if self.facts is not None and self._early:
                    self.facts["last"] = max(self.facts["first"], self.facts["last"] - self._delay_ticks)
                    early, self._early = self._early, {}
                    self._change(early)

    def _turned(self, facts: dict[str, Any]) -> None:
        """The recording has ended or stopped, or goes on."""
        self._change(facts)
        self._tell_growth()
        self._audience.announce({"kind": "recording", "side": self.side, "facts": facts})
        for stream in self._streams if facts["live"] == "ended" else ():
            stream.end(int((self.facts or {}).get("last", 0)), "ended")
        if facts["live"] != "recording" and self.facts is not None and self._look is not None and self.fills:
            self._send(self._fill_job(self.cache.centre, self._look))

    def _change(self, facts: Mapping[str, Any]) -> None:
        if self.facts is None:
            self._early |= facts
        else:
            self.facts |= facts

    def _reached_head(self, reached: HeadTick) -> None:
        tick = reached.tick
        self._change({"last": max(tick, int((self.facts or {}).get("last", 0)))})
        for one, values in reached.figures.items():
            for name, value in values.items():
                self._figures.setdefault(name, {})[one] = value
        self.marks.foresee(reached.rows, reached.events)
        self.cache.centre = tick
        self.cache.put(tick, reached.encoded)
        figures = {**reached.figures.get(tick, {}), **reached.rows.get(tick, {})}
        self._newest = Head(tick, reached.encoded, figures, reached.events)
        self._audience.head(self.side, self._newest)

    def _tell_growth(self) -> None:
        if self._growth_told is not None:
            self._growth_told.cancel()
        self._growth_told = None
        if self.facts is not None:
            told = {"first": self.facts["first"], "last": self.facts["last"]}
            self._audience.announce({"kind": "grown", "side": self.side, **told})


def _serve_live_tape(parent: int, pipe: Any, path: Path, sim: str | None) -> None:
    """The process that answers the pages: as for any tape, once a few ticks are there, and after others."""
    be_nice(PAGES_NICENESS)
    wait_for_first_ticks(path)
    serve_tape(parent, pipe, path, sim, None, is_live=True)
