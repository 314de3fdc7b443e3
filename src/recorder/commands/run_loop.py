"""A recording that a command makes: up to its last tick, or until it is told to stop; and what is said about it.

Invariant: what is printed is never a reason for the recording to stop.
"""

from __future__ import annotations

import shlex
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from recorder.console.output import say, say_aside
from recorder.console.progress import progress_bar
from recorder.errors import RecordingError, RecordingWarning
from recorder.exit_codes import INTERRUPTED, SAME, TERMINATED, UsageError
from recorder.runs.input_source import InputSource
from recorder.runs.outcome import outcome_at
from recorder.session.recorder import Recorder
from recorder.storage.file_names import segment_numbers, segment_path
from recorder.storage.open_tape import OpenTape
from recorder.text import bytes_text, counted

PROGRESS_TICKS = 50  # The bar is told each so many ticks; telling it costs a microsecond or two.


def run_and_report(
    recorder: Recorder,
    input_source: InputSource,
    last_tick: int,
    *,
    quiet: bool,
    ticks_a_second: float | None = None,
    watch: Callable[[Any, int], None] | None = None,
) -> int:
    """Record up to last_tick, or to where the simulation says that it has ended, and say how it went; the exit code.

    ticks_a_second: how fast at most; None is as fast as it goes. watch: called with the simulation and the tick behind
    each step. Raises what recording raises, and UsageError for inputs from a file that the simulation refuses.
    """
    start_s, start_tick = time.perf_counter(), recorder.tick
    stopped = _run_ticks(recorder, input_source, last_tick, _Pace(ticks_a_second), watch, quiet=quiet)
    seconds = time.perf_counter() - start_s
    if not quiet:
        try:
            end = None if stopped is not None else outcome_at(recorder, input_source, last_tick)
            _print_summary(recorder, input_source, recorder.tick - start_tick, seconds, stopped=stopped, end=end)
        except (OSError, RecordingError) as error:  # Somebody has taken the file away: the run is over all the same.
            say_aside(f"warning: {recorder.path}: {error}")
    return stopped.exit_code if stopped is not None else SAME


class _Pace:
    """Keeps ticks to the clock: the n-th is not made before its time. Time that was lost is not made up for."""

    def __init__(self, ticks_a_second: float | None) -> None:
        self._interval_s = 1 / ticks_a_second if ticks_a_second else 0.0
        self._next_s = time.monotonic()

    def wait(self) -> None:
        """Until the next tick is due."""
        if self._interval_s:
            self._next_s = max(self._next_s + self._interval_s, time.monotonic())
            time.sleep(max(0.0, self._next_s - time.monotonic()))


@attrs.frozen
class _Stopped(BaseException):
    """The run was told to stop."""

    reason: str
    exit_code: int


def _stop_at_sigterm(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Being told again seals the tape no faster.
    raise _Stopped("terminated", TERMINATED)


def _run_ticks(
    recorder: Recorder,
    input_source: InputSource,
    last_tick: int,
    pace: _Pace,
    watch: Callable[[Any, int], None] | None,
    *,
    quiet: bool,
) -> _Stopped | None:
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
                        pace.wait()
                        _step(recorder, input_source, tick)
                        if watch is not None:
                            watch(recorder.simulation, tick)
                        if tick % PROGRESS_TICKS == 0:
                            show(tick - first_tick + 1)
                        if outcome_at(recorder, input_source, last_tick) is not None:
                            break
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            except KeyboardInterrupt:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                stopped = _Stopped("interrupted", INTERRUPTED)
            except _Stopped as told:
                stopped = told
            recorder.close({"reason": stopped.reason} if stopped else outcome_at(recorder, input_source, last_tick))
    finally:
        signal.signal(signal.SIGTERM, before)
    return stopped


def _step(recorder: Recorder, input_source: InputSource, tick: int) -> None:
    inputs = input_source.inputs(tick, recorder.simulation.state)
    try:
        recorder.step(inputs)
    except ValueError as error:
        if input_source.file is None:
            raise
        raise UsageError(f"{input_source.file}: the inputs of tick {tick} are refused: {error}") from None


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """What goes wrong on the way, in one line, without the place in our code."""
    say_aside(f"warning: {message}")


def _print_summary(
    recorder: Recorder,
    input_source: InputSource,
    ticks: int,
    seconds: float,
    *,
    stopped: _Stopped | None,
    end: dict[str, Any] | None,
) -> None:
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
    if end is not None and "text" in end:
        say(f"  ended by {end['reason']} at tick {recorder.tick:,}: {end['text']}")
    if first_tick:
        say(f"  kept: ticks {first_tick:,} to {recorder.tick:,}")
    for first, last in statistics.writer.dropped:
        say(f"  lost: ticks {first:,} to {last:,}, which the disk did not take")
    if not stopped:  # An interrupted step leaves a state that is of no tick.
        for name, value in input_source.summarize(state.snapshot()).items():
            say(f"  {name}: {value}")
        say(f"  state hash: {state.hash():016x}")
    ways = _ways_on(path, input_source, _tick_to_see(first_tick, recorder.tick, statistics.writer.dropped))
    say("next: " + "    or: ".join(ways if stopped else ways[1:]))


def _ways_on(path: Path, input_source: InputSource, tick: int) -> list[str]:
    """Commands that are of use now, as a shell takes them."""
    words = [shlex.quote(str(path))] + ([f"--sim {shlex.quote(input_source.sim)}"] if input_source.sim else [])
    tape = " ".join(words)
    return [f"record resume {tape}", f"replay seek {tape} --tick {tick}", f"replay verify {tape}"]


def _first_tick(recorder: Recorder) -> int:
    """The first tick that is still on the tape: a ring has dropped what came before. Raises OSError, RecordingError."""
    match recorder.meta["settings"]:
        case {"keep_ticks": None, "keep_s": None} if recorder.resumed is None:
            return 0  # Else it may be a tape that goes on from a checkpoint.
    with OpenTape(recorder.path) as opened:
        keyframes = opened.assemble().recording.keyframes
        return keyframes[0].tick if keyframes else recorder.tick


def _tick_to_see(first_tick: int, last_tick: int, lost: list[tuple[int, int]]) -> int:
    """One in the middle of the tape, or its end where that is lost."""
    middle = (first_tick + last_tick) // 2
    return last_tick if any(first <= middle <= last for first, last in lost) else middle
