"""The command ``record``: run a scenario and keep what happens."""

from __future__ import annotations

import itertools
import re
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
from cyclopts import App, Parameter

from recorder.console import (
    INTERRUPTED,
    TERMINATED,
    NotNegative,
    Positive,
    UsageError,
    bytes_text,
    progress_bar,
    run_app,
    version,
)
from recorder.errors import RecordingWarning
from recorder.names import segment_numbers, segment_path
from recorder.reading import OpenTape
from recorder.recorder import FULL_EVERY, KEYFRAME_INTERVAL_TICKS, Recorder
from recorder.resume import resume as resume_tape
from recorder.settings import make_settings
from sim.kernel.registry import Config, World, find_world
from sim.kernel.simulation import Simulation
from sim.scenario.load import load_scenario, shipped_scenarios

RECORDINGS_FOLDER = "recordings"
PROGRESS_TICKS = 50  # The bar is told each so many ticks; telling it costs a microsecond or two.

SETTING_NAMES = (
    "keyframe_interval_ticks",
    "full_every",
    "durability",
    "sync",
    "on_error",
    "keep",
    "split",
    "deterministic",
)

app = App(
    name="record",
    help="Record a simulation: inputs and a state hash for every tick, keyframes now and then.\n\n"
    "Try:\n"
    "  record scenarios                 list the scenarios that ship\n"
    "  record run quiet-meadow          record one of them into recordings/\n"
    "  record run my.toml -o my.tape --ticks 10000 --seed 3\n"
    "  record resume my.tape            go on after a crash, in the same tape",
    help_format="plaintext",
    version=version,
    suppress_keyboard_interrupt=False,
)


@app.command
def run(
    scenario: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    ticks: Positive | None = None,
    seed: NotNegative | None = None,
    keyframe_interval: Positive = KEYFRAME_INTERVAL_TICKS,
    full_every: Positive = FULL_EVERY,
    changes: Literal["auto", "marks", "scan", "audit"] = "auto",
    durability: Literal["tick", "block", "none"] = "tick",
    sync: str | None = None,
    on_error: Literal["continue", "raise"] = "continue",
    keep: str | None = None,
    split: str | None = None,
    deterministic: Annotated[bool, Parameter(negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
) -> int:
    """Run a scenario and record it.

    Example: record run quiet-meadow -o meadow.tape --ticks 2000

    Parameters
    ----------
    scenario
        A scenario file (TOML), or the name of one that ships.
    output
        The tape to write; it must not exist. By default a new name in recordings/.
    ticks
        How many ticks to run; by default what the scenario says.
    seed
        Replaces the scenario's seed.
    keyframe_interval
        Ticks from one keyframe to the next: how far a seek re-simulates at most.
    full_every
        One keyframe in so many is full, the others are deltas.
    changes
        How deltas know what changed: marks, scan, or audit (both, failing where they disagree).
    durability
        What a killed process may cost: tick (nothing), block (up to a second), none (whatever was not written).
    sync
        When to force data to the disk: a time such as 1s, block, or never; 1s by default.
    on_error
        When the disk refuses: continue (in memory, trying again, noting what is lost) or raise.
    keep
        Keep only the last so many ticks, or a time such as 60s: a flight recorder's loop.
    split
        Begin a new file after so many bytes, such as 500MB; the tape is read as one.
    deterministic
        Equal runs give equal bytes: no clock and no environment on the tape.
    quiet
        Print nothing but errors.
    """
    loaded = load_scenario(scenario, seed=seed)
    simulation = loaded.world.make(loaded.config)
    tick_count = ticks if ticks is not None else int(loaded.config.get("ticks", 1000))
    path = output if output is not None else _new_path(loaded.name)
    if path.exists():
        raise UsageError(f"{path} exists already: choose another name with -o")
    settings: dict[str, Any] = {
        "keyframe_interval_ticks": keyframe_interval,
        "full_every": full_every,
        "changes": changes,
        "durability": durability,
        "sync": sync,
        "on_error": on_error,
        "keep": keep,
        "split": split,
        "deterministic": deterministic,
        "notes": {"ticks": tick_count},
    }
    recorder = _start(path, simulation, settings, make_folder=output is None)
    if not quiet:
        seed_text = loaded.config.get("seed", 0)
        print(f"recording {loaded.name} (world {loaded.world.name}, seed {seed_text}), {tick_count:,} ticks → {path}")
    return _run_and_report(recorder, loaded.world, loaded.config, tick_count, quiet=quiet)


@app.command
def resume(
    tape: Path,
    /,
    *,
    ticks: Positive | None = None,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
) -> int:
    """Go on with a recording that was ended by a crash, a kill, a power cut, or by its last tick.

    Example: record resume meadow.tape

    The world is put into the state of the last recorded tick, proved by its hash, and the run goes on in the same
    tape as if nothing had happened. Half-written bytes at the end are kept in a file beside the tape.

    For a simulation of your own: recorder.resume(path, simulation) in Python.

    Parameters
    ----------
    tape
        The tape; it must have been recorded from a registered world.
    ticks
        The tick to go on to; by default the one that the recording was meant to reach.
    quiet
        Print nothing but errors.
    """
    world, config, planned = _plan(tape, ticks)
    with progress_bar("restoring", 1, quiet=quiet) as show:
        try:
            recorder = resume_tape(tape, progress=lambda done, total: show(done / total))
        except TypeError as error:  # The world that is installed is not the one that was recorded.
            raise UsageError(f"{tape}: {error}") from None
    found = recorder.resumed
    if not quiet and found is not None:
        print(
            f"{tape}: at tick {found.tick:,}, restored from the keyframe at tick {found.keyframe_tick:,}"
            + (f", {found.journal_ticks:,} ticks from the journal" if found.journal_ticks else "")
            + (f", half-written bytes kept in {found.torn_file}" if found.torn_file else "")
        )
    return _run_and_report(recorder, world, config, planned, quiet=quiet)


def _plan(tape: Path, ticks: int | None) -> tuple[World, Config, int]:
    """The world of a tape and up to which tick it is to be recorded. Raises UsageError; nothing is written then."""
    with OpenTape(tape) as opened:
        assembled = opened.assemble()
        last_tick = assembled.recording.last_tick
    match assembled.meta.get("world"):
        case {"name": str(name), "config": dict(config)}:
            world = find_world(name)
        case _:
            raise UsageError(
                f"{tape} names no registered world: go on with it in Python, recorder.resume({str(tape)!r}, simulation)"
            )
    planned = ticks if ticks is not None else (assembled.meta.get("notes") or {}).get("ticks")
    if not isinstance(planned, int) or planned <= last_tick:
        raise UsageError(f"{tape} is at tick {last_tick:,} already: say how far to go with --ticks")
    return world, config, planned


def _run_and_report(recorder: Recorder, world: World, config: Config, last_tick: int, *, quiet: bool) -> int:
    """Record up to last_tick and say how it went; the exit code."""
    start_s, start_tick = time.perf_counter(), recorder.tick
    stopped = _run_ticks(recorder, world, config, last_tick, quiet=quiet)
    if not quiet:
        seconds = time.perf_counter() - start_s
        _print_summary(recorder, world, config, recorder.tick - start_tick, seconds, stopped=stopped)
    return stopped.exit_code if stopped is not None else 0


def _start(path: Path, simulation: Simulation, settings: dict[str, Any], *, make_folder: bool) -> Recorder:
    """A recorder with these settings; nothing is written if one of them cannot be."""
    try:
        make_settings(**{name: settings[name] for name in SETTING_NAMES})
        if make_folder:
            path.parent.mkdir(exist_ok=True)
        return Recorder(path, simulation, **settings)
    except ValueError as error:
        raise UsageError(str(error)) from None


@attrs.frozen
class _Stopped(BaseException):
    """The run was told to stop."""

    reason: str
    exit_code: int


def _stop_at_sigterm(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Being told again seals the tape no faster.
    raise _Stopped("terminated", TERMINATED)


def _run_ticks(recorder: Recorder, world: World, config: Config, last_tick: int, *, quiet: bool) -> _Stopped | None:
    """Record up to last_tick and seal the tape; how the run was stopped before that, if it was."""
    inputs_at = world.inputs(config)
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
    print(f"warning: {message}", file=sys.stderr)


def _print_summary(
    recorder: Recorder, world: World, config: Config, ticks: int, seconds: float, *, stopped: _Stopped | None
) -> None:
    statistics, path = recorder.statistics(), Path(recorder.path)
    size_bytes = sum(segment_path(path, number).stat().st_size for number in segment_numbers(path))
    state = recorder.simulation.state
    print(
        f"{f'{stopped.reason} after ' if stopped else ''}{ticks:,} ticks in {seconds:.1f} s "
        f"({ticks / seconds:,.0f} ticks a second), {bytes_text(size_bytes)} "
        f"({size_bytes / max(recorder.tick, 1):,.0f} bytes a tick), "
        f"{statistics.writer.full_count} full and {statistics.writer.delta_count} delta keyframes"
    )
    for first, last in statistics.writer.dropped:
        print(f"  lost: ticks {first:,} to {last:,}, which the disk did not take")
    if not stopped:  # An interrupted step leaves a state that is of no tick.
        for name, value in world.summarize(config, state.snapshot()).items():
            print(f"  {name}: {value}")
        print(f"  state hash: {state.hash():016x}")
    print(f"next: replay seek {path} --tick {recorder.tick // 2}    or: replay verify {path}")


def _new_path(name: str) -> Path:
    """The first free recordings/NAME-N.tape."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "recording"  # A name may hold slashes and spaces.
    number = 1
    while (path := Path(RECORDINGS_FOLDER) / f"{plain}-{number}.tape").exists():
        number += 1
    return path


@app.command
def scenarios() -> None:
    """List the scenarios that ship, with what their first comment says."""
    for name, file in shipped_scenarios().items():
        comment = itertools.takewhile(lambda line: line.startswith("#"), file.read_text(encoding="utf-8").splitlines())
        print(f"{name}: {' '.join(line.lstrip('# ') for line in comment)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script ``record``."""
    sys.exit(run_app(app, arguments))
