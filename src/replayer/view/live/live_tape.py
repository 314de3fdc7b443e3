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
from replayer.view.live.head_process import Grown, HeadTick, HeadTrouble, RecordingState, WatchJob, follow_head
from replayer.view.viewed_tape import Head, ViewedTape
from replayer.view.worker.page_jobs import ViewSelection
from replayer.view.worker.tape_process import serve_tape

GROWTH_TOLD_S = 0.2


class LiveTape(ViewedTape):
    """A tape that is being recorded, side 0."""

    def __init__(self, path: Path, sim: str | None, budget_bytes: int) -> None:
        super().__init__(0, path, sim, None, budget_bytes)
        self._early: dict[str, Any] = {"live": "recording"}  # Facts that were told before the tape was open.
        self._looks: dict[str, ViewSelection] = {}  # By page, of those that follow.
        self._newest: Head | None = None
        self._growth_told: asyncio.TimerHandle | None = None

    def _start_processes(self) -> None:
        self._start(_serve_live_tape, self.path, self._sim)
        self._start(follow_marks, self.path)
        self._head_pipe = self._start(follow_head, self.path, self._sim)

    def follow(self, page: str, look: ViewSelection | None) -> Head | None:
        """See ViewedTape."""
        if look is None:
            self._looks.pop(page, None)
        else:
            self._looks[page] = look
        looks = self._looks.values()
        layers = tuple(dict.fromkeys(name for one in looks for name in one.layers))
        curves = tuple(dict.fromkeys(name for one in looks for name in one.curves))
        with contextlib.suppress(OSError):  # The recording has ended, and with it the process.
            self._head_pipe.send(WatchJob(ViewSelection(layers, False, curves) if looks else None))
        return self._newest

    def _heard(self, message: object) -> None:
        match message:
            case HeadTick(tick, encoded, figures):
                self._reached_head(tick, figures)
                self.cache.centre = tick
                self.cache.put(tick, encoded)
                self._newest = Head(tick, encoded, figures.get(tick, {}))
                self._audience.head(self.side, self._newest)
            case Grown(first, last):
                self._change({"first": first, "last": last})
                if self._growth_told is None:
                    self._growth_told = self._loop.call_later(GROWTH_TOLD_S, self._tell_growth)
            case RecordingState(facts):
                self._change(facts)
                self._tell_growth()
                self._audience.announce({"kind": "recording", "side": self.side, "facts": facts})
                if facts["live"] != "recording" and self.facts is not None and self._look is not None and self.fills:
                    self._send(self._fill_job(self.cache.centre, self._look))
            case HeadTrouble(tick, text):
                if tick is not None:
                    self.troubles[tick] = text
                self._audience.announce({"kind": "trouble", "side": self.side, "tick": tick, "text": text})
            case _:
                super()._heard(message)
                if self.facts is not None and self._early:
                    early, self._early = self._early, {}
                    self._change(early)

    def _change(self, facts: Mapping[str, Any]) -> None:
        if self.facts is None:
            self._early |= facts
        else:
            self.facts |= facts

    def _reached_head(self, tick: int, figures: Mapping[int, Mapping[str, float]]) -> None:
        """Note what came with a tick of the head: the tick before which it is not known that the tape goes so far."""
        self._change({"last": max(tick, int((self.facts or {}).get("last", 0)))})
        for one, values in figures.items():
            for name, value in values.items():
                self._figures.setdefault(name, {})[one] = value

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
    serve_tape(parent, pipe, path, sim, None)
