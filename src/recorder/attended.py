"""A recording that a command makes: up to its last tick, or until it is told to stop; and what is said about it.

Invariant: what is printed is never a reason for the recording to stop.
"""

from __future__ import annotations

import shlex
import signal
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder.console import INTERRUPTED, SAME, TERMINATED, bytes_text, counted, progress_bar, say, say_aside
from recorder.errors import RecordingError, RecordingWarning
from recorder.names import segment_numbers, segment_path
from recorder.reading import OpenTape
from recorder.recorder import Recorder
from sim.kernel.registry import Config, World
from sim.kernel.state import Snapshot

PROGRESS_TICKS = 50  # The bar is told each so many ticks; telling it costs a microsecond or two.


@attrs.frozen
class Course:
    """What a run is fed with, and how it is shown.

    Attributes:
        inputs: from a tick to the inputs that lead to it.
        summarize: from a snapshot to a few figures by name.
        sim: module:factory, if that is where the simulation comes from.
    """

    inputs: Callable[[int], Any]
    summarize: Callable[[Snapshot], Mapping[str, str]]
    sim: str | None = None


def course_of(world: World, config: Config, sim: str | None = None) -> Course:
    """What the scenario of a registered world sends. Raises ConfigError."""
    return Course(world.inputs(config), lambda snapshot: world.summarize(config, snapshot), sim)


def course_without_inputs(sim: str) -> Course:
    """For a simulation that lives on its own."""
    return Course(lambda _: None, lambda _: {}, sim)


def run_and_report(recorder: Recorder, course: Course, last_tick: int, *, quiet: bool) -> int:
    """Record up to last_tick and say how it went; the exit code. Raises what recording raises."""
    start_s, start_tick = time.perf_counter(), recorder.tick
    stopped = _run_ticks(recorder, course.inputs, last_tick, quiet=quiet)
    seconds = time.perf_counter() - start_s
    if not quiet:
        try:
            _print_summary(recorder, course, recorder.tick - start_tick, seconds, stopped=stopped)
        except (OSError, RecordingError) as error:  # Somebody has taken the file away: the run is over all the same.
            say_aside(f"warning: {recorder.path}: {error}")
    return stopped.exit_code if stopped is not None else SAME


@attrs.frozen
class _Stopped(BaseException):
    """The run was told to stop."""

    reason: str
    exit_code: int


def _stop_at_sigterm(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Being told again seals the tape no faster.
    raise _Stopped("terminated", TERMINATED)


def _run_ticks(recorder: Recorder, inputs_at: Callable[[int], Any], last_tick: int, *, quiet: bool) -> _Stopped | None:
    """Record up to last_tick and seal the tape; how the run was stopped before that, if it was."""
    before = signal.signal(signal.SIGTERM, _stop_at_sigterm)
    first_tick, stopped = recorder.tick + 1, None
    try:
        with warnings.catch_warnings(), recorder:
            warnings.simplefilter("always", RecordingWarning)
            warnings.showwarning = _show_warning
            try:
                with progress_bar("recording", last_tick - recorder.tick, quiet=quiet) as show:
                    for tick in range(first_tick, last_tick + 1):
                        recorder.step(inputs_at(tick))
                        if tick % PROGRESS_TICKS == 0:
                            show(tick - first_tick + 1)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            except KeyboardInterrupt:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                stopped = _Stopped("interrupted", INTERRUPTED)
            except _Stopped as told:
                stopped = told
            recorder.close({"reason": stopped.reason} if stopped else {"reason": "ticks", "ticks": last_tick})
    finally:
        signal.signal(signal.SIGTERM, before)
    return stopped


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """What goes wrong on the way, in one line, without the place in our code."""
    say_aside(f"warning: {message}")


def _print_summary(recorder: Recorder, course: Course, ticks: int, seconds: float, *, stopped: _Stopped | None) -> None:
    statistics, path, state = recorder.statistics(), Path(recorder.path), recorder.simulation.state
    first_tick = _first_tick(recorder)
    if ticks or stopped:
        size_bytes = sum(segment_path(path, number).stat().st_size for number in segment_numbers(path))
        say(
            f"{f'{stopped.reason} after ' if stopped else ''}{counted(ticks, 'tick')} in {seconds:.1f} s "
            f"({ticks / seconds:,.0f} ticks a second), {bytes_text(size_bytes)} on the disk "
            f"({size_bytes / max(recorder.tick - first_tick, 1):,.0f} bytes a tick), "
            f"{statistics.writer.full_count} full and {statistics.writer.delta_count} delta keyframes"
        )
    else:
        say(f"sealed: the recording had reached its last tick, {recorder.tick:,}, and only its end was missing")
    if first_tick:
        say(f"  kept: ticks {first_tick:,} to {recorder.tick:,}")
    for first, last in statistics.writer.dropped:
        say(f"  lost: ticks {first:,} to {last:,}, which the disk did not take")
    if not stopped:  # An interrupted step leaves a state that is of no tick.
        for name, value in course.summarize(state.snapshot()).items():
            say(f"  {name}: {value}")
        say(f"  state hash: {state.hash():016x}")
    ways = _ways_on(path, course, _tick_to_see(first_tick, recorder.tick, statistics.writer.dropped))
    say("next: " + "    or: ".join(ways if stopped else ways[1:]))


def _ways_on(path: Path, course: Course, tick: int) -> list[str]:
    """Commands that are of use now, as a shell takes them."""
    words = [shlex.quote(str(path))] + ([f"--sim {shlex.quote(course.sim)}"] if course.sim else [])
    tape = " ".join(words)
    return [f"record resume {tape}", f"replay seek {tape} --tick {tick}", f"replay verify {tape}"]


def _first_tick(recorder: Recorder) -> int:
    """The first tick that is still on the tape: a ring has dropped what came before. Raises OSError, RecordingError."""
    match recorder.meta["settings"]:
        case {"keep_ticks": None, "keep_s": None}:
            return 0
    with OpenTape(recorder.path) as opened:
        keyframes = opened.assemble().recording.keyframes
        return keyframes[0].tick if keyframes else recorder.tick


def _tick_to_see(first_tick: int, last_tick: int, lost: list[tuple[int, int]]) -> int:
    """One in the middle of the tape, or its end where that is lost."""
    middle = (first_tick + last_tick) // 2
    return last_tick if any(first <= middle <= last for first, last in lost) else middle
