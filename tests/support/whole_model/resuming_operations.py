"""Operations of the model that end a recording without closing it, and those that continue it."""

from __future__ import annotations

import os
import random
import shutil
import signal

from recorder.errors import DesyncError, RecordingError
from recorder.reopen.resume import resume_in
from whole_model.fallible_disk import Disk, FallibleFiles
from whole_model.model_run import BrokenPromiseError, Run, ensure
from whole_model.recording_operations import TICKS_MAX, RecordingOperations


class ResumingOperations(RecordingOperations):
    """See OperationState."""

    def kill(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """The process dies between two calls of the system."""
        tape, run = self.recorder, self.run
        if tape is None or run is None:
            return False
        self._listen()
        path = self.disk.copy(run.path, self._new_folder())
        run.is_lossy |= bool(tape.statistics().writer.dropped)
        self.run = run.branch(path)
        self.disk.recover()
        self.disk = Disk()
        tape._abandon()
        self._said.clear()
        run.gone, self.recorder = True, None
        shutil.rmtree(run.path.parent)
        return None

    def kill_process(self, numbers: random.Random) -> bool | None:
        """A real process resumes the tape, acknowledges some ticks and is killed."""
        run = self.run
        if self.recorder is not None or run is None or run.is_damaged or run.is_lossy or run.last + 20 > TICKS_MAX:
            return False
        read_end, write_end = os.pipe()
        inputs = [numbers.randrange(1000) for _ in range(numbers.randint(1, 15))]
        child = os.fork()
        if not child:
            try:
                tape = resume_in(FallibleFiles(run.path, Disk()), run.path, run.rules.make())
                os.write(write_end, bytes([tape.tick]))
                for number in inputs:
                    tape.step(number)
                    os.write(write_end, bytes([tape.tick]))
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as pipe:
            ticks = pipe.read()
        if not ticks:
            ensure(run.acknowledged < 0, "a resume in a process of its own failed")
            return None
        ensure(
            run.acknowledged <= ticks[0] <= run.last, f"resumed at tick {ticks[0]}, {run.acknowledged} of {run.last}"
        )
        run = self._continue(run, ticks[0])
        for number in inputs:
            run.add(number)
        if run.options["durability"] == "tick":
            run.acknowledged = ticks[-1]
        return None

    def resume(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """Continue the tape."""
        run = self.run
        if self.recorder is not None or run is None:
            return False
        refused = self.disk.refused
        if run.last >= TICKS_MAX:
            self._leave()
            return None
        try:
            made = self._record(lambda: resume_in(FallibleFiles(run.path, self.disk), run.path, run.rules.make()))
        except DesyncError as error:
            raise BrokenPromiseError(f"a sound run is accused: {error}") from error
        except (RecordingError, FileNotFoundError, FileExistsError) as error:
            # A file of which too much is cut off cannot be told from one that is not part of the tape.
            empty = run.acknowledged < 0 and isinstance(error, RecordingError)
            may = run.is_damaged or run.is_lossy or empty or self.disk.refused > refused
            ensure(may, f"an undamaged tape cannot be resumed: {type(error).__name__}: {error}")
            if empty:
                self._leave()
            return None
        if made:
            self._compare_resumed(run)
        else:  # It may have written behind the seal before the disk refused.
            run.sealed, run.may_be_sealed = False, run.sealed or run.may_be_sealed
        return None

    def sessions(self, numbers: random.Random) -> int:
        """Continue the tape some times, and close it after each."""
        if self.recorder is not None or self.run is None:
            return False
        count = 0
        for _ in range(numbers.randint(1, 4)):
            if self.resume(numbers) is False or self.recorder is None:
                break
            count += 2 + int(self.steps(numbers))
            if self.recorder is not None:
                self.close_tape(numbers)
        return count

    def _compare_resumed(self, run: Run) -> None:
        tape = self.recorder
        assert tape is not None
        prefix = run.account.intact_prefix_end() if run.account is not None else run.acknowledged
        least = -1 if run.is_lossy or (run.is_damaged and run.was_rewritten) else min(prefix, run.acknowledged)
        ensure(least <= tape.tick <= run.last, f"resumed at tick {tape.tick}, not between {least} and {run.last}")
        run.ensure_state(tape.tick, tape.simulation.state)
        run = self._continue(run, tape.tick)
        run.hashes[-1] = tape.simulation.state.hash()
        self._listen()

    def _continue(self, run: Run, tick: int) -> Run:
        """The run after a resume. Where it cut blocks off, the file that readers have open is written again: they refresh."""
        self.run = run.continued_from(tick)
        for view in self.views:
            if view.run is run and (run is not self.run or run.is_damaged):
                view.refresh(random.Random(0))
        return self.run
