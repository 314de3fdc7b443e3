"""The recording loop of a command: run up to the last tick or a signal, then print a summary.

Invariant: a failure to print never stops the recording.
"""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recorder.console.output import say, say_on_stderr
from recorder.console.progress import progress_bar
from recorder.console.stop_signals import StoppedBySignal, heed_signals_again, ignore_further_signals, stop_of
from recorder.errors import RecordingError, RecordingWarning
from recorder.exit_codes import SAME, UsageError
from recorder.runs.input_source import InputSource
from recorder.runs.outcome import end_with_scores, outcome_at
from recorder.session.recorder import Recorder
from recorder.storage.file_names import segment_numbers, segment_path
from recorder.storage.open_tape import OpenTape
from recorder.text import bytes_text, counted

PROGRESS_TICKS = 50  # Ticks between updates of the progress bar; an update costs a microsecond or two.


def run_and_report(
    recorder: Recorder,
    input_source: InputSource,
    last_tick: int,
    *,
    quiet: bool,
    ticks_a_second: float | None = None,
    watch: Callable[[Any, int], None] | None = None,
) -> int:
    """Record up to last_tick, or until the simulation ends; print a summary and return the exit code.

    ticks_a_second: the speed limit; None is as fast as possible. watch: called with the simulation and the tick after
    each step. Raises what recording raises, and UsageError for inputs from a file that the simulation refuses.
    """
    start_s, start_tick = time.perf_counter(), recorder.tick
    stopped = _run_ticks(recorder, input_source, last_tick, _Pace(ticks_a_second), watch, quiet=quiet)
    seconds = time.perf_counter() - start_s
    if not quiet:
        try:
            end = None if stopped is not None else outcome_at(recorder, input_source, last_tick)
            _print_summary(recorder, input_source, recorder.tick - start_tick, seconds, stopped=stopped, end=end)
        except (OSError, RecordingError) as error:  # The file was removed meanwhile; the run has ended regardless.
            say_on_stderr(f"warning: {recorder.path}: {error}")
    return stopped.exit_code if stopped is not None else SAME


class _Pace:
    """Limits the speed: no tick starts before its time. A delay is not made up for."""

    def __init__(self, ticks_a_second: float | None) -> None:
        self._interval_s = 1 / ticks_a_second if ticks_a_second else 0.0
        self._next_s = time.monotonic()

    def wait(self) -> None:
        """Wait until the next tick is due."""
        if self._interval_s:
            self._next_s = max(self._next_s + self._interval_s, time.monotonic())
            time.sleep(max(0.0, self._next_s - time.monotonic()))


def _run_ticks(
    recorder: Recorder,
    input_source: InputSource,
    last_tick: int,
    pace: _Pace,
    watch: Callable[[Any, int], None] | None,
    *,
    quiet: bool,
) -> StoppedBySignal | None:
    """Record up to last_tick and seal the tape; return the signal that stopped the run earlier, if any."""
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
                ignore_further_signals()  # None seals the tape any faster.
            except KeyboardInterrupt as interrupt:
                ignore_further_signals()
                stopped = stop_of(interrupt)
            recorder.close({"reason": stopped.word} if stopped else _end_of(recorder, input_source, last_tick))
    finally:
        if stopped is None:
            heed_signals_again()
    return stopped


def _end_of(recorder: Recorder, input_source: InputSource, last_tick: int) -> dict[str, Any] | None:
    """What the tape says of the end of the run. With its scores, a reader need not run it again to know who won."""
    end = outcome_at(recorder, input_source, last_tick)
    return end if end is None else end_with_scores(recorder, end)


def _step(recorder: Recorder, input_source: InputSource, tick: int) -> None:
    inputs = input_source.inputs(tick, recorder.simulation.state)
    try:
        recorder.step(inputs)
    except ValueError as error:
        if input_source.file is None:
            raise
        raise UsageError(f"{input_source.file}: the inputs of tick {tick} are refused: {error}") from None


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line, without its location in our code."""
    say_on_stderr(f"warning: {message}")


def _print_summary(
    recorder: Recorder,
    input_source: InputSource,
    ticks: int,
    seconds: float,
    *,
    stopped: StoppedBySignal | None,
    end: dict[str, Any] | None,
) -> None:
    statistics, path, state = recorder.statistics(), Path(recorder.path), recorder.simulation.state
    first_tick = _first_tick(recorder)
    if ticks or stopped:
        size_bytes = sum(segment_path(path, number).stat().st_size for number in segment_numbers(path))
        say(
            f"{f'{stopped.word} after ' if stopped else ''}{counted(ticks, 'tick')} in {seconds:.1f} s "
            f"({ticks / seconds:,.0f} ticks a second), {bytes_text(size_bytes)} on the disk "
            f"({size_bytes / max(recorder.tick - first_tick, 1):,.0f} bytes a tick), "
            f"{statistics.writer.full_count} full and {statistics.writer.delta_count} delta keyframes"
        )
    else:
        say(f"sealed: all ticks up to {recorder.tick:,} had been recorded, only the seal was missing")
    if end is not None and "text" in end:
        say(f"  ended by {end['reason']} at tick {recorder.tick:,}: {end['text']}")
    if first_tick:
        say(f"  kept: ticks {first_tick:,} to {recorder.tick:,}")
    if statistics.capture_faults:
        say(f"  {counted(statistics.capture_faults, 'captured value')} differed from the object, and were repaired")
    for first, last in statistics.writer.dropped:
        say(f"  lost: ticks {first:,} to {last:,}, which could not be written to the disk")
    if not stopped:  # An interrupted step leaves a state that belongs to no tick.
        for name, value in input_source.summarize(state.snapshot()).items():
            say(f"  {name}: {value}")
        say(f"  state hash: {state.hash():016x}")
    commands = _next_commands(path, input_source, _tick_to_see(first_tick, recorder.tick, statistics.writer.dropped))
    say("next: " + "    or: ".join(commands if stopped else commands[1:]))


def _next_commands(path: Path, input_source: InputSource, tick: int) -> list[str]:
    """Commands for the next step, quoted for a shell."""
    words = [shlex.quote(str(path))] + ([f"--sim {shlex.quote(input_source.sim)}"] if input_source.sim else [])
    tape = " ".join(words)
    return [f"record resume {tape}", f"replay seek {tape} --tick {tick}", f"replay verify {tape}"]


def _first_tick(recorder: Recorder) -> int:
    """Return the first tick that is still on the tape: a ring drops older ones. Raises OSError, RecordingError."""
    match recorder.meta["settings"]:
        case {"keep_ticks": None, "keep_s": None} if recorder.resumed is None:
            return recorder.start_tick  # A resumed tape may have begun at a checkpoint.
    with OpenTape(recorder.path) as opened:
        keyframes = opened.assemble().recording.keyframes
        return keyframes[0].tick if keyframes else recorder.tick


def _tick_to_see(first_tick: int, last_tick: int, lost: list[tuple[int, int]]) -> int:
    """Return a tick in the middle of the tape, or the last one if the middle was lost."""
    middle = (first_tick + last_tick) // 2
    return last_tick if any(first <= middle <= last for first, last in lost) else middle
