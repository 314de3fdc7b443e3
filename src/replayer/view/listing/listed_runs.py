"""The runs of one folder as the list shows them, from the index that `replay ls` uses.

Invariant: a run is found by the name that the folder's listing gave it, and by nothing else. No path is made from a
request, and a link that leads out of the folder is listed but not opened.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import attrs

from recorder.corpus.corpus import look
from recorder.corpus.run import PlayerResult, Run
from recorder.errors import RecordingError
from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from recorder.storage.open_tape import is_locked
from replayer.tape.tape import Tape
from replayer.view.listing.telemetry_sketch import NO_SKETCH, telemetry_sketch
from replayer.view.states.page_json import page_json, page_text

FRESH_S = 1.0  # The list is read again after this time, or later: reading takes at most a tenth of the time.
READING_SHARE = 0.1
RECENT_S = 60.0  # A tape that is not sealed and has changed since then may be under way.
SKETCHES_MAX = 5000  # Kept.
UNDER_WAY = "being recorded"  # In place of a status.


@attrs.frozen
class _Listing:
    """The folder at one moment.

    Attributes:
        runs: by their keys: the names of the tapes as an address holds them.
        facts: of each run, as JSON.
        due_s: when it is to be read again.
        error: the reason why the folder cannot be read.
    """

    runs: dict[str, Run]
    facts: list[dict[str, Any]]
    due_s: float
    error: str | None = None


def folder_name(folder: Location) -> str:
    """The name of a folder; of one that is named by dots, or is the root, its path from the root."""
    if isinstance(folder, Path) and folder.name in ("", ".."):
        folder = folder.resolve()
    return folder.name or str(folder)


class ListedRuns:
    """The runs of a folder, read again when they are asked for. Used in one event loop; it reads in threads."""

    def __init__(self, folder: Location) -> None:
        self.folder = folder
        self._listing: _Listing | None = None
        self._reading = asyncio.Lock()
        self._sketching = asyncio.Semaphore(2)
        self._sketches: dict[tuple[Any, ...], dict[str, Any]] = {}

    async def facts(self) -> dict[str, Any]:
        """The list as JSON."""
        listing = await self._current()
        return {
            "folder": page_text(folder_name(self.folder)),
            "runs": listing.facts,
            "error": listing.error,
        }

    async def tape_of(self, key: str) -> Location | None:
        """The tape of a run in the list; None if there is no such run, or it is a link that leads out of the folder."""
        listing = self._listing or await self._current()
        run = listing.runs.get(key) or (await self._current()).runs.get(key)
        return run.path if run is not None and _is_inside(run.path) else None

    async def sketch(self, key: str, figure: str | None) -> dict[str, Any]:
        """A small curve of a run, see telemetry_sketch. Without such a run, or if it cannot be read, there is none."""
        tape = await self.tape_of(key)
        run = self._listing.runs.get(key) if self._listing is not None else None
        if tape is None or run is None:
            return NO_SKETCH
        kept = (key, figure, run.changed_ns, run.size_bytes)
        if kept not in self._sketches:
            async with self._sketching:
                sketch = await asyncio.to_thread(_sketch, tape, figure)
            while len(self._sketches) >= SKETCHES_MAX:
                del self._sketches[next(iter(self._sketches))]
            self._sketches[kept] = sketch
        return self._sketches[kept]

    async def _current(self) -> _Listing:
        async with self._reading:
            if self._listing is None or time.monotonic() >= self._listing.due_s:
                self._listing = await asyncio.to_thread(_read, self.folder, self._listing)
            return self._listing


def _read(folder: Location, before: _Listing | None) -> _Listing:
    """Read the folder. If it cannot be read, the runs are those of before."""
    begun_s = time.monotonic()
    try:
        runs, error = look(folder).runs, None
    except (OSError, RecordingError) as problem:
        runs, error = tuple(before.runs.values()) if before is not None else (), str(problem)
    keyed = {_key_of(run): run for run in runs}
    facts = [run_row(key, run) for key, run in keyed.items()]
    ended_s = time.monotonic()
    return _Listing(keyed, facts, ended_s + max(FRESH_S, (ended_s - begun_s) / READING_SHARE), error)


def _key_of(run: Run) -> str:
    """The name of a tape as an address can hold it."""
    return run.tape.encode("utf-8", "backslashreplace").decode()


def _is_inside(path: Location) -> bool:
    """Return True if a file is in the folder that it was listed in: a link may lead elsewhere. A store has no links."""
    if isinstance(path, TapeUrl):
        return True
    try:
        return path.resolve(strict=True).is_relative_to(path.parent.resolve())
    except OSError:
        return False


def _sketch(tape: Location, figure: str | None) -> dict[str, Any]:
    try:
        with Tape(tape) as opened:
            return telemetry_sketch(opened, figure)
    except (RecordingError, OSError):
        return NO_SKETCH


def run_row(key: str, run: Run) -> dict[str, Any]:
    """One run as JSON. Texts of the tape are short and visible."""
    return {
        "key": key,
        "name": page_text(run.tape),
        "scenario": page_json(run.subject or None),
        "seed": page_json(run.seed),
        "first": run.first_tick,
        "ticks": run.ticks,
        "size": run.size_bytes,
        "status": UNDER_WAY if _is_under_way(run) else run.status,
        "reason": page_json(run.reason),
        "text": page_json(run.text),
        "error": page_json(run.error),
        "players": [page_text(_player_text(player)) for player in run.players],
        "quality": run.quality.tier if run.quality is not None else None,
        "changed": run.changed_ns // 1_000_000,
        "can_open": _is_inside(run.path),
    }


def _is_under_way(run: Run) -> bool:
    if run.sealed or time.time_ns() - run.changed_ns > RECENT_S * 1e9:
        return False
    try:
        return is_locked(run.path)
    except OSError:
        return False


def _player_text(player: PlayerResult) -> str:
    policy = f"={player.policy}" if player.policy is not None else ""
    return f"{player.player}{policy}{f' {player.outcome}' if player.outcome is not None else ''}"
