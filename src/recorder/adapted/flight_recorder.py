"""A flight recorder: keep the last ticks of a simulation, and write them to a tape when something goes wrong.

The last ticks are a ring on the disk. It is removed when all went well. An exception that leaves the ``with`` block, a
failed assertion among them, and each signal that was named write it out; a process that is killed leaves it as it is.

Invariant: a signal writes out what is on the disk, as another process would read it. So it may come during a step, also
during one that hangs.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self, Unpack

from recorder.adapted.record import record, tape_of
from recorder.errors import RecordingError, RecordingWarning
from recorder.factory_spec import sim_option
from recorder.recording_options import OptionArguments
from recorder.session.recorder import Recorder
from recorder.storage.file_names import first_free, journal_path, numbered, segment_numbers, segment_path
from recorder.storage.tape_copy import copy_run
from recorder.text import counted
from sim.kernel.simulation import SavedSimulation
from sim.kernel.state import State
from sim.user_warning import warn_user

KEEP = "60s"
_CONTINUING = frozenset({signal.SIGUSR1, signal.SIGUSR2})  # After these the run goes on.
_Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


class FlightRecorder:
    """Keeps the last ticks of one simulation while the ``with`` block runs, and writes them out if it raises.

    Attributes:
        written: the tapes that were written out, in order.

    Examples:
        >>> with recorder.FlightRecorder("crash.tape", keep="30s") as flight:
        ...     dice = flight.record(Dice(), step="roll", quiet=True)
        ...     dice.roll()
        >>> flight.written
        []
    """

    def __init__(
        self, path: str | os.PathLike[str], keep: int | str = KEEP, *, signals: Iterable[signal.Signals] = ()
    ) -> None:
        """Choose what is kept and when it is written out; nothing is written yet.

        path: the first tape that is written out; further ones get -2, -3 and so on. The ring is a file next to it.
        keep: a number of ticks, or a time such as "30s". signals: write out when one of them comes. The run continues
        after SIGUSR1 and SIGUSR2; after any other, the program does what it would have done without a flight recorder.
        """
        self.written: list[Path] = []
        self._path = Path(path)
        self._keep = keep
        self._signals = tuple(signals)
        self._before: dict[int, _Handler] = {}
        self._tape: Recorder | None = None
        self._ring: Path | None = None
        self._owner = os.getpid()

    def record(self, simulation: Any, **options: Any) -> Any:
        """Begin the ring. Use what it returns: a Recorder, or what recorder.record returns for other objects.

        options: of Recorder, or of recorder.record. Raises as these do, and ValueError for a second simulation.
        """
        if self._tape is not None:
            raise ValueError("this flight recorder has a simulation already: make another one for the next")
        ring = self._path.with_name(f"{self._path.stem}.ring{self._path.suffix or '.tape'}")
        free = first_free(numbered(ring, ring.suffix))
        if free != ring:
            warn_user(f"{ring} is left of a run that was killed: look at it, or remove it", RecordingWarning)
        self._owner = os.getpid()
        recorded, self._tape = begin_recording(free, simulation, {"keep": self._keep, **options})
        self._ring = free
        return recorded

    def write_out(self, outcome: Any = None) -> Path:
        """Write the last ticks to a new tape now, and go on; return its path. Raises as Recorder.write_out does."""
        tape, target = self._recorder(), self._target()
        ticks = tape.write_out(target, outcome)
        return self._wrote(target, ticks)

    def _recorder(self) -> Recorder:
        if self._tape is None:
            raise ValueError("this flight recorder has no simulation yet: call record(simulation) first")
        return self._tape

    def _target(self) -> Path:
        return first_free(numbered(self._path, self._path.suffix))

    def _wrote(self, target: Path, ticks: tuple[int, int]) -> Path:
        self.written.append(target)
        self._ticks = ticks
        return target

    def _line(self) -> str:
        """Where the last ticks are, and the command that opens them."""
        first, last = self._ticks
        command = open_command(self.written[-1], self._recorder().meta, last)
        return f"{self.written[-1]} has the last {counted(last - first, 'tick')}: {command}"

    # --- signals and the end

    def __enter__(self) -> Self:
        """Watch for the signals. Raises ValueError in any thread but the main one, if there are some."""
        for number in self._signals:
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self._ring is not None and os.getpid() == self._owner:
            try:
                target = self._target()
                self._wrote(target, copy_run(self._ring, target, {"reason": "written out", "signal": name}))
                print(f"{name}: {self._line()}", file=sys.stderr)
            except (OSError, RecordingError) as error:
                print(f"{name}: the last ticks could not be written out: {error}", file=sys.stderr)
        before = self._before.get(number)
        if number in _CONTINUING or before == signal.SIG_IGN:
            return
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before = {}
        tape, ring = self._tape, self._ring
        if tape is None or ring is None or os.getpid() != self._owner:
            return  # A forked child leaves its copy of the block: the ring is its parent's.
        if error is None or (isinstance(error, SystemExit) and not error.code):
            try:
                tape.close()
            finally:
                remove_tape(ring)
            return
        outcome = tape.outcome_of(error)
        try:
            tape.close(outcome)
            target = self._target()
            self._wrote(target, copy_run(ring, target, outcome))
            error.add_note(self._line())
            remove_tape(ring)
        except (OSError, RecordingError, RecordingWarning) as failed:  # It must not hide the exception under way.
            error.add_note(f"the last ticks are in {ring}, and could not be written out: {failed}")


def begin_recording(path: Path, simulation: Any, options: Mapping[str, Any]) -> tuple[Any, Recorder]:
    """Record a simulation of any kind; return what to use in its place, and its recorder.

    A simulation with a state, or with save and load, is stepped by its recorder. Raises as Recorder and record do.
    """
    if isinstance(getattr(simulation, "state", None), State) or isinstance(simulation, SavedSimulation):
        arguments: OptionArguments = {**options}  # type: ignore[typeddict-item]
        tape = _recorder_of(path, simulation, **arguments)
        return tape, tape
    recorded = record(simulation, path, **{"quiet": True, **options})
    return recorded, tape_of(recorded)


def _recorder_of(path: Path, simulation: Any, **options: Unpack[OptionArguments]) -> Recorder:
    return Recorder(path, simulation, **options)


def open_command(path: Path, meta: Mapping[str, Any], tick: int) -> str:
    """The command that goes to a tick of a tape."""
    is_known = (
        meta.get("world") is not None or (meta.get("adapter") or {}).get("name", "plain_object") != "plain_object"
    )
    sim = "" if is_known else f" {sim_option(meta.get('simulation'))}"
    return f"replay seek {shlex.quote(os.fspath(path))} --tick {tick}{sim}"


def remove_tape(path: Path) -> None:
    """Remove the files of a closed tape. Raises OSError."""
    for number in reversed(segment_numbers(path)):
        segment_path(path, number).unlink()
    journal_path(path).unlink(missing_ok=True)
