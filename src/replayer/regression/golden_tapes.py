"""Golden tapes: a run is recorded once, and each later run of the code must give the same states."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs

from recorder.adapted.flight_recorder import begin_recording
from recorder.errors import RecordingError, RecordingWarning, SimulationFailedError
from recorder.storage.atomic_file import publish_file
from replayer.playback.make_simulation import Factory
from replayer.playback.mapped_simulation import with_field_map
from replayer.report.report_text import print_report, unrepeated_text
from replayer.tape.tape import Tape
from replayer.timeline.verify import verify_tape

OPTIONS = {"deterministic": True, "trial_ms": 0.0, "blame": "fields"}  # The fields that differ are named.
Play = Callable[[Any], object]
Inputs = Iterable[Any] | Play


@attrs.frozen
class Differs:
    """A run that is not that of its golden tape.

    Attributes:
        tick: the first tick that differs; None if the tapes have the same ticks up to the end of the shorter one.
        text: what differs, for people.
    """

    tick: int | None
    text: str


def record_golden(path: Path, world: Factory, inputs: Inputs, **options: Any) -> int:
    """Record a run as a golden tape, in place of an old one; return its last tick.

    inputs: of each step, or a function that is called with what is recorded, and plays. Raises what the recording and
    the simulation raise; the old tape is then as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".golden-") as folder:
        new = Path(folder) / path.name
        last = _record(new, world, inputs, options)
        publish_file(new, path)  # One file: a golden tape is not split.
    return last


def compare_golden(
    path: Path, world: Factory, inputs: Inputs, *, field_map: Path | None = None, **options: Any
) -> Differs | None:
    """Verify a golden tape with the simulation as it is now, and compare the inputs; None if all is the same.

    field_map: a TOML file that tells how the fields of the tape are called now. Raises FileNotFoundError if there is no
    such tape, FieldMapError for a map that does not fit, and as verify_tape does. Warns of keyframes whose values prove nothing.
    """
    mapped = world if field_map is None else with_field_map(world, field_map, path)
    try:
        report = verify_tape(path, mapped)
    except SimulationFailedError as error:
        return Differs(error.tick, f"{path.name}: {error}")
    if report.not_repeated is not None:
        warnings.warn(
            f"{path.name}: {unrepeated_text(report.unrepeated_keyframes, report.not_repeated)}",
            RecordingWarning,
            stacklevel=2,
        )
    if not report.ok:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            print_report(path, report)
        lines = printed.getvalue().splitlines()
        return Differs(report.first_bad, "\n".join(line for line in lines if not line.startswith("next:")))
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        again = Path(folder) / path.name
        try:
            _record(again, world, inputs, options)
        except RecordingError as error:
            return Differs(None, f"{path.name}: the run cannot be recorded again: {error}")
        return _difference(path, again, compares_states=field_map is None)


def _record(path: Path, world: Factory, inputs: Inputs, options: dict[str, Any]) -> int:
    recorded, tape = begin_recording(path, world(), {**OPTIONS, **options})
    with tape:
        if callable(inputs):
            inputs(recorded)
        else:
            step = recorded.step if recorded is tape else _step_of(recorded, options)
            for one in inputs:
                step(one)
    return tape.tick


def _step_of(recorded: Any, options: dict[str, Any]) -> Callable[[Any], Any]:
    """The method of a recorded object that makes a step."""
    name = options.get("step", "step")
    method: Callable[[Any], Any] = getattr(recorded, name if isinstance(name, str) else next(iter(name)))
    return method


def _difference(path: Path, again: Path, *, compares_states: bool) -> Differs | None:
    """The first tick at which two tapes have other inputs or states.

    compares_states: False where the fields are called otherwise; the states were compared through the field map.
    """
    with Tape(path) as golden, Tape(again) as run:
        for tick in range(golden.first_tick + 1, min(golden.last_tick, run.last_tick) + 1):
            one, other = golden.frame(tick), run.frame(tick)
            if one.encoded_inputs != other.encoded_inputs:
                what = f"the inputs of tick {tick:,} are {other.inputs!r:.200}, and were {one.inputs!r:.200}"
                return Differs(tick, f"{path.name}: {what}")
            if compares_states and one.identity != other.identity:
                return Differs(tick, f"{path.name}: the state of tick {tick:,} differs, with the same inputs as before")
        if compares_states and golden.state_hash(golden.first_tick) != run.state_hash(run.first_tick):
            return Differs(golden.first_tick, f"{path.name}: the run begins in a different state")
        if golden.last_tick != run.last_tick:
            what = f"the run has {run.last_tick:,} ticks, and had {golden.last_tick:,}"
            return Differs(None, f"{path.name}: {what}")
    return None
