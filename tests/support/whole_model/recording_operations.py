"""Operations of the model that record: tapes are begun, stepped, flushed, copied and closed on a disk that may refuse."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from typing import Any

import recorder.session.recorder
from recorder import Recorder
from recorder.errors import RecordingError, SimulationFailedError, WriterFailedError
from whole_model.counted_worlds import RAISES, RULES, StepRefusedError
from whole_model.fallible_disk import FallibleFiles
from whole_model.model_run import Run, ensure
from whole_model.operation_state import OperationState
from whole_model.reader_view import View

TICKS_MAX = 250  # Of one tape: then it is closed.
VIEWS_MAX = 4


class RecordingOperations(OperationState):
    """See OperationState."""

    def new_tape(self, numbers: random.Random) -> bool | None:
        """Begin a new tape; the one before is left as it is, and its readers stay."""
        if self.recorder is not None or (self.run is not None and numbers.random() < 0.6):
            return False
        kind = numbers.choice(sorted(RULES))
        options = random_options(numbers, marks=kind == "ants")
        run = Run(kind, self._new_folder() / "run.tape", options)
        run.states, run.inputs, run.hashes = [run.rules.start], [None], [None]
        self._leave()
        if self._record(lambda: Recorder(run.path, run.rules.make(), **options)):
            assert self.recorder is not None
            self.run, run.hashes[0] = run, self.recorder.simulation.state.hash()
            run.acknowledged = 0 if options["durability"] == "tick" else -1
        else:
            ensure(not list(run.path.parent.iterdir()), f"left after a refusal: {list(run.path.parent.iterdir())}")
            shutil.rmtree(run.path.parent)
        return None

    def _leave(self) -> None:
        """Forget the present tape; its files stay as long as it has readers."""
        self.run = None

    def _record(self, make: Callable[[], Recorder]) -> bool:
        """Make a recorder that writes to the fallible disk; False if the disk refused."""
        before, refused = recorder.session.recorder.TapeFiles, self.disk.refused
        recorder.session.recorder.TapeFiles = lambda path: FallibleFiles(path, self.disk)  # type: ignore[misc,assignment]
        try:
            self.recorder = make()
        except (OSError, WriterFailedError, MemoryError):
            if self.disk.refused == refused:
                raise
            return False
        finally:
            recorder.session.recorder.TapeFiles = before  # type: ignore[misc]
            self._listen()
        return True

    def step(self, numbers: random.Random) -> bool | None:
        """Record one tick."""
        tape, run = self.recorder, self.run
        if tape is None or run is None or run.last >= TICKS_MAX:
            return False
        self._step(tape, run, numbers.randrange(1000))
        return None

    def steps(self, numbers: random.Random) -> int:
        """Record some ticks."""
        if self.recorder is None or self.run is None or self.run.last >= TICKS_MAX:
            return False
        count = 0
        while self.recorder is not None and count < numbers.randint(2, 24):
            self._step(self.recorder, self.run, numbers.randrange(1000))
            count += 1
        return count

    def _step(self, tape: Recorder, run: Run, inputs: int) -> None:
        refused = self.disk.refused
        run.add(inputs)
        tick = tape.tick + 1
        ensure(tick == run.last, f"the recorder is at tick {tape.tick}, the run at {run.last - 1}")
        try:
            tape.step(inputs)
        except WriterFailedError:
            ensure(self.disk.refused, f"the writer failed, the disk has refused nothing ({refused})")
            self._listen()
            self._give_up(tape, run)
            return
        self._listen()
        run.ensure_state(tick, tape.simulation.state)
        run.hashes[tick] = tape.simulation.state.hash()
        # That the journal is not in use is said by the next call; until then no caller was told that a tick is safe.
        run.journal_is_safe &= tape._journal is not None and not tape._journal._suspended
        if run.journal_is_safe:
            run.acknowledged = tick

    def _give_up(self, tape: Recorder, run: Run) -> None:
        """The recording has failed: close it, which says so."""
        try:
            tape.close()
        except (WriterFailedError, OSError):
            run.may_be_sealed = True
        else:
            ensure(False, "close says nothing of a failed writer")
        ensure(run.last >= tape.tick, "more ticks than steps")
        self._listen()
        self.recorder = None
        self.disk.recover()

    def raising_step(self, numbers: random.Random) -> bool | None:  # noqa: ARG002 - as the others
        """The simulation raises: the tape ends at the tick before."""
        tape, run = self.recorder, self.run
        if tape is None or run is None:
            return False
        tick = tape.tick
        for expected in (StepRefusedError, SimulationFailedError):
            try:
                tape.step(RAISES)
            except expected:
                continue
            except WriterFailedError:
                ensure(self.disk.refused, "the writer failed, the disk has refused nothing")
            break
        else:
            ensure(tape.tick == tick, "a step that raised counts")
        self.close_tape(random.Random(0))
        return None

    def interrupted_step(self, numbers: random.Random) -> bool | None:
        """Memory runs out somewhere in a step; the recording may go on, or say that it cannot."""
        tape, run = self.recorder, self.run
        if tape is None or run is None or self.disk.is_failing or run.last >= TICKS_MAX:
            return False
        inputs, before = numbers.randrange(1000), tape.tick
        run.add(inputs)
        self.interruption.at_call(numbers.randint(1, 60))
        try:
            tape.step(inputs)
        except MemoryError:
            pass
        except RecordingError as error:
            ensure(self.interruption.happened or self.disk.refused, f"{type(error).__name__}: {error}")
        finally:
            self.interruption.off()
            self._listen()
        if tape.tick > before:
            run.ensure_state(tape.tick, tape.simulation.state)
            run.hashes[-1] = tape.simulation.state.hash()
        run.acknowledged = min(run.acknowledged, before)
        try:
            tape.flush()
        except (SimulationFailedError, WriterFailedError):
            self.close_tape(random.Random(0))
            return None
        if tape.tick == before:  # It was refused before it began.
            run.drop_attempt()
            run.ensure_state(before, tape.simulation.state)
        run.acknowledged = tape.tick
        return None

    def flush(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """Wait until all is in the file."""
        tape, run = self.recorder, self.run
        if tape is None or run is None:
            return False
        refused = self.disk.refused
        try:
            tape.flush()
        except WriterFailedError:
            self._listen()
            ensure(self.disk.refused, f"the writer failed, the disk has refused nothing ({refused})")
            if tape._writer.has_failed:
                self._give_up(tape, run)
            return None
        self._listen()
        run.acknowledged = tape.tick
        return None

    def write_out(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """Copy the tape while it is recorded; the copy becomes what a reader reads."""
        tape, run = self.recorder, self.run
        if tape is None or run is None or len(self.views) >= VIEWS_MAX or self.disk.is_failing:
            return False
        target = self._new_folder() / "copy.tape"
        try:
            first, last = tape.write_out(target)
        except WriterFailedError:
            ensure(self.disk.refused, "the writer failed, the disk has refused nothing")
            return None
        except RecordingError:
            ensure(run.is_damaged or run.is_lossy, "a sound tape cannot be copied")
            return None
        self._listen()
        ensure(last == tape.tick or run.is_lossy, f"the copy ends at tick {last}, the run is at {tape.tick}")
        ensure(first <= run.first_required(run.last) or run.is_damaged or run.is_lossy, f"it begins at tick {first}")
        copy = run.branch(target)
        copy.sealed, copy.acknowledged = True, tape.tick
        self.views.append(View(copy))
        return None

    def close_tape(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """Seal it."""
        tape, run = self.recorder, self.run
        if tape is None or run is None:
            return False
        refused = self.disk.refused
        try:
            tape.close()
        except (WriterFailedError, OSError, MemoryError):
            ensure(self.disk.refused, f"the writer failed, the disk has refused nothing ({refused})")
            run.may_be_sealed = True  # The journal may be all that could not be removed.
        else:
            run.acknowledged, run.sealed = tape.tick, True
        self._listen()
        self.recorder = None
        return None

    def abandon(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """Forget the recorder without closing it: all is written, nothing sealed."""
        if self.recorder is None or self.run is None:
            return False
        tick = self.recorder.tick
        with contextlib.suppress(OSError, MemoryError):  # The journal cannot be removed; Python prints that.
            self.recorder._abandon()
        if not self.disk.refused:
            self.run.acknowledged = tick
        self._listen()
        self.recorder = None
        return None


def random_options(numbers: random.Random, *, marks: bool) -> dict[str, Any]:
    """Arguments for a Recorder."""
    options: dict[str, Any] = {
        "durability": numbers.choice(["tick", "tick", "tick", "block", "none"]),
        "keyframe_interval_ticks": numbers.choice([1, 2, 3, 5, 9, 20]),
        "full_every": numbers.choice([1, 2, 3, 10]),
        "on_error": numbers.choice(["continue", "continue", "raise"]),
        "mode": numbers.choice(["events", "events", "changes"]),
        "blame": numbers.choice(["auto", "none"]),
        "deterministic": numbers.random() < 0.1,
        "trial_ms": 0,
    }
    if options["durability"] != "none":
        options["sync"] = numbers.choice(["1s", "block", "never"])
    if numbers.random() < 0.3:
        options["changes"] = "audit" if marks else "scan"
    elif options["mode"] == "changes" and marks:
        options["hashes"] = numbers.choice(["auto", "changes"])
    limits: dict[str, Any] = numbers.choice([{}, {}, {"split": 1200}, {"split": 4000}, {"keep": 6}, {"keep": 25}])
    return options | limits
