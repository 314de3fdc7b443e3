"""Random operations on one tape after the other, with readers at the same time; the model decides what is right.

Each operation is a method that takes random numbers. The campaign calls them by ``run_next``, at full speed;
hypothesis calls the same ones. An operation that is not possible at the moment does nothing and returns False.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import random
import re
import shutil
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import recorder.session.recorder
import recorder.writer.journal
import recorder.writer.retries
import recorder.writer.writer
import replayer.follow.tail
from recorder import Recorder
from recorder.errors import (
    DesyncError,
    MissingTickError,
    RecordingError,
    RecordingWarning,
    SimulationFailedError,
    WriterFailedError,
)
from recorder.reopen.resume import resume_in
from recorder.storage.open_tape import OpenFile
from replayer.repair.repair import repair_tape
from replayer.repair.repair_report import NothingToRepairError

from whole_model.counted_worlds import RAISES, RULES, StepRefusedError
from whole_model.fallible_disk import (
    READ_CODES,
    WRITE_CODES,
    Disk,
    FallibleFiles,
    Interruption,
    journal_of,
    without_journal,
)
from whole_model.model_run import BrokenPromiseError, Run, ensure
from whole_model.reader_view import TailView, View

TICKS_MAX = 250  # Of one tape: then it is closed.
VIEWS_MAX = 4
AREA_BYTES = 1 << 11  # Of the journal: some dozen ticks, so that the areas are reused and grow.
BACKLOG_BYTES_MAX = 6_000  # Of blocks kept while the disk refuses: then ticks are dropped.

WEIGHTS: Mapping[str, float] = {
    "step": 250,
    "steps": 90,
    "moves": 45,
    "frames": 25,
    "seeks": 30,
    "flush": 10,
    "new_tape": 10,
    "close_tape": 9,
    "abandon": 4,
    "kill": 6,
    "kill_process": 0.3,
    "resume": 18,
    "write_out": 1,
    "raising_step": 2,
    "interrupted_step": 5,
    "refuse": 6,
    "recover": 8,
    "flip": 7,
    "overwrite": 3,
    "cut": 3,
    "remove_file": 1.5,
    "damage_journal": 2,
    "repair": 3,
    "open_view": 11,
    "close_view": 7,
    "seek": 70,
    "at": 70,
    "move": 100,
    "frame": 60,
    "facts": 50,
    "walk": 30,
    "go_on": 110,
    "check": 4,
    "distrust": 4,
    "events": 6,
    "refresh": 16,
    "verify": 0.4,
    "open_tail": 3,
    "poll": 20,
    "interrupted_read": 40,
    "two_threads": 1.5,
}  # What starts a process or reads a whole tape is rare.
STORMS = {"steps": "step", "moves": "move", "frames": "frame", "seeks": "seek"}  # Many calls of one kind.


@contextlib.contextmanager
def model_settings() -> Iterator[Interruption]:
    """Small journals and backlogs, no waits between attempts; reads that may fail."""
    interruption = Interruption()
    tail_reader = replayer.follow.tail.reader
    changed: list[tuple[Any, str, Any]] = [
        (recorder.writer.journal, "AREA_BYTES", AREA_BYTES),
        (recorder.writer.journal, "RETRY_S", 0.0),
        (recorder.writer.retries, "RETRY_S", (0.0, 0.0)),
        (recorder.writer.writer, "BACKLOG_BYTES_MAX", BACKLOG_BYTES_MAX),
        (OpenFile, "read", interruption.wrapped(OpenFile.read)),
        (replayer.follow.tail, "reader", lambda descriptor: interruption.wrapped(tail_reader(descriptor))),
    ]
    before = [(place, name, getattr(place, name)) for place, name, _ in changed]
    for place, name, value in changed:
        setattr(place, name, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RecordingWarning)
            warnings.simplefilter("ignore", ResourceWarning)  # Of recordings that are abandoned on purpose.
            yield interruption
    finally:
        for place, name, value in before:
            setattr(place, name, value)


class Driver:
    """Tapes in a folder, one of them recorded into, some of them read; use it inside model_settings."""

    def __init__(self, folder: Path, interruption: Interruption) -> None:
        self.folder = folder
        self.interruption = interruption
        self.counts: Counter[str] = Counter()
        self.recorder: Recorder | None = None
        self.run: Run | None = None
        self.disk = Disk()
        self.views: list[View] = []
        self.tails: list[TailView] = []
        self._made = 0
        self._said: list[str] = []
        warnings.showwarning = lambda message, *_, **__: self._said.append(str(message))  # type: ignore[assignment]

    # --- running operations

    def do(self, name: str, number: int) -> bool:
        """Do the operation of this name, with the random numbers of a seed; False if it is not possible now.

        Counted are the calls of the library: a storm is many of one kind.
        """
        done = getattr(self, name)(random.Random(number))
        if done is False:
            return False
        self.counts[STORMS.get(name, name)] += 1 if done is None else done
        return True

    def end(self) -> None:
        """Close everything, and remove the files."""
        self.interruption.off()
        self.disk.recover()
        for view in [*self.views, *self.tails]:
            view.close()
        if self.recorder is not None:
            self.recorder._abandon()
            self.recorder = None
        for path in self.folder.iterdir():
            shutil.rmtree(path)

    # --- recording

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

    def _new_folder(self) -> Path:
        self._made += 1
        folder = self.folder / f"{self._made}"
        folder.mkdir()
        return folder

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

    def _listen(self) -> None:
        """Take what the recording has said since."""
        said, self._said = self._said, []
        if self.run is not None:
            self.run.journal_is_safe &= not any("journal" in text for text in said)
            self.run.is_lossy |= any("are lost" in text for text in said)
            self.run.was_rewritten |= self.disk.unsynced
        if self.recorder is not None and self.run is not None:
            self.run.is_lossy |= bool(self.recorder.statistics().writer.dropped)

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
        if run.options["durability"] == "tick" and run.journal_is_safe:
            run.acknowledged = tick

    def _give_up(self, tape: Recorder, run: Run) -> None:
        """The recording has failed: close it, which says so."""
        try:
            tape.close()
        except (WriterFailedError, OSError):
            run.may_be_sealed = True
        else:
            ensure(False, "close says nothing of a failed writer")  # noqa: FBT003
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
        except (WriterFailedError, OSError):
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
        with contextlib.suppress(OSError):  # The journal cannot be removed; Python prints that.
            self.recorder._abandon()
        if not self.disk.refused:
            self.run.acknowledged = tick
        self._listen()
        self.recorder = None
        return None

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
        ensure(run.acknowledged <= ticks[0] <= run.last, f"resumed at tick {ticks[0]}, {run.acknowledged} of {run.last}")
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
        except (RecordingError, FileNotFoundError) as error:
            empty = run.acknowledged < 0 and isinstance(error, RecordingError)
            may = run.is_damaged or run.is_lossy or empty or self.disk.refused > refused
            ensure(may, f"an undamaged tape cannot be resumed: {type(error).__name__}: {error}")
            if empty:
                self._leave()
            return None
        if made:
            self._compare_resumed(run)
        return None

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
        """The run after a resume. Where it cut ticks off, the file that readers have open is written anew: they refresh."""
        self.run = run.continued_from(tick)
        for view in self.views:
            if view.run is run is not self.run:
                view.refresh(random.Random(0))
        return self.run

    # --- the disk

    def refuse(self, numbers: random.Random) -> bool | None:
        """The disk will refuse some calls of the writer."""
        if self.recorder is None or self.disk.is_failing:
            return False
        code = numbers.choice(WRITE_CODES)
        error: BaseException = OSError(code, errno.errorcode[code]) if numbers.random() < 0.85 else MemoryError()
        kept = numbers.choice([0.0, 0.0, 0.3, 0.99, 1.0])
        self.disk.refuse(error, numbers.randint(0, 8), numbers.choice([1, 1, 2, 5, 1000]), kept)
        return None

    def recover(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """It accepts all again."""
        if not self.disk.is_failing:
            return False
        self.disk.recover()
        return None

    # --- damage

    def _damaged_run(self) -> Run | None:
        """The tape that may be damaged: nobody records into it."""
        return self.run if self.recorder is None and self.run is not None else None

    def _change(self, run: Run, file: Path, start: int, data: bytes) -> None:
        run.hit(without_journal(run.path), file, start, start + len(data))
        with file.open("r+b") as opened:
            opened.seek(start)
            opened.write(data)

    def flip(self, numbers: random.Random) -> bool | None:
        """One bit changes; half of the time in the header of a block."""
        run = self._damaged_run()
        files = without_journal(run.path) if run is not None else []
        if run is None or not files:
            return False
        file = numbers.choice(files)
        data = file.read_bytes()
        if not data:
            return False
        offset = numbers.randrange(len(data))
        if numbers.random() < 0.6:
            tags = [match.start() for match in re.finditer(re.escape(b"\xf5BLK"), data)]
            offset = min(len(data) - 1, numbers.choice(tags or [0]) + numbers.randrange(72))
        self._change(run, file, offset, bytes([data[offset] ^ 1 << numbers.randrange(8)]))
        return None

    def overwrite(self, numbers: random.Random) -> bool | None:
        """Some bytes become zeros, or others."""
        run = self._damaged_run()
        files = without_journal(run.path) if run is not None else []
        if run is None or not files:
            return False
        file = numbers.choice(files)
        size = file.stat().st_size
        if not size:
            return False
        start = numbers.randrange(size)
        count = min(size - start, numbers.choice([8, 64, 512]))
        self._change(run, file, start, bytes(count) if numbers.random() < 0.5 else numbers.randbytes(count))
        return None

    def cut(self, numbers: random.Random) -> bool | None:
        """The last file loses its end."""
        run = self._damaged_run()
        files = without_journal(run.path) if run is not None else []
        if run is None or not files:
            return False
        size = files[-1].stat().st_size
        keep = max(0, size - numbers.choice([1, 24, 100, numbers.randint(1, 1 + size)]))
        run.hit(files, files[-1], keep, max(size, keep + 1))
        os.truncate(files[-1], keep)
        return None

    def remove_file(self, numbers: random.Random) -> bool | None:
        """One of its files is removed."""
        run = self._damaged_run()
        files = without_journal(run.path) if run is not None else []
        if run is None or not files:
            return False
        file = numbers.choice(files)
        run.hit(files, file, 0, file.stat().st_size + 1)
        file.unlink()
        return None

    def damage_journal(self, numbers: random.Random) -> bool | None:
        """The journal is changed, cut or removed."""
        run = self._damaged_run()
        if run is None or not journal_of(run.path).exists():
            return False
        file = journal_of(run.path)
        run.hit(without_journal(run.path), file, 0, 0)
        size = file.stat().st_size
        match numbers.randrange(3):
            case 0:
                file.unlink()
            case 1:
                os.truncate(file, numbers.randrange(size + 1))
            case _:
                data = bytearray(file.read_bytes())
                for _ in range(20):
                    data[numbers.randrange(min(len(data), 1000))] ^= 1 << numbers.randrange(8)
                file.write_bytes(data)
        return None

    def repair(self, numbers: random.Random) -> bool | None:
        """Make an intact tape of it, and continue with that."""
        run = self._damaged_run()
        if run is None or not (run.is_damaged or numbers.random() < 0.1):
            return False
        target = self._new_folder() / "repaired.tape"
        must = [tick for tick in range(run.last + 1) if run.is_required(tick, run.acknowledged, run.last)]
        try:
            report = repair_tape(run.path, target, run.rules.make)
        except (RecordingError, NothingToRepairError, FileNotFoundError) as error:
            ensure(run.is_damaged and not must or run.is_lossy or run.acknowledged < 0, f"no repair: {error}")
            return None
        repaired = run.branch(target)
        repaired.sealed, repaired.acknowledged, repaired.account = True, max(must, default=-1), None
        repaired.options = {**run.options, "keep": None}
        repaired.spared, repaired.safe_from = frozenset(must), repaired.last + 1
        view = View(repaired)
        try:
            problems = view.timeline.tape.check_blocks()
            ensure(not problems, f"a repaired tape has problems: {problems[:3]}")
            view.facts(numbers)
            for tick in must:
                state = view.attempt(lambda tick=tick: view.timeline.at(tick), tick)
                repaired.ensure_state(tick, state)
        finally:
            view.close()
        self.run = repaired
        return None

    # --- readers

    def open_view(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """Open a reader of the present tape."""
        run = self.run
        if run is None or len(self.views) >= VIEWS_MAX:
            return False
        try:
            self.views.append(View(run))
        except (RecordingError, FileNotFoundError) as error:
            ensure(run.is_damaged or run.acknowledged < 0, f"it cannot be opened: {type(error).__name__}: {error}")
        return None

    def close_view(self, numbers: random.Random) -> bool | None:
        """Close a reader."""
        readers: list[Any] = [*self.views, *self.tails]
        if not readers:
            return False
        reader = numbers.choice(readers)
        reader.close()
        (self.views if reader in self.views else self.tails).remove(reader)
        return None

    def _view(self, numbers: random.Random) -> View | None:
        return numbers.choice(self.views) if self.views else None

    def _read(self, name: str, numbers: random.Random) -> bool | None:
        view = self._view(numbers)
        if view is None:
            return False
        return None if getattr(view, name)(numbers) is not False else False

    def seek(self, numbers: random.Random) -> bool | None:
        """See View; likewise the operations below."""
        return self._read("seek", numbers)

    def at(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("at", numbers)

    def move(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("move", numbers)

    def frame(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("frame", numbers)

    def moves(self, numbers: random.Random) -> int:
        """Step on or back many times."""
        view = self._view(numbers)
        return False if view is None else sum(view.move(numbers) for _ in range(numbers.randint(4, 40)))

    def frames(self, numbers: random.Random) -> int:
        """Read many frames."""
        view = self._view(numbers)
        return False if view is None else sum(view.frame(numbers) for _ in range(numbers.randint(4, 40)))

    def seeks(self, numbers: random.Random) -> int:
        """Scrub: seek near the tick, many times."""
        view = self._view(numbers)
        return False if view is None else sum(view.scrub(numbers) for _ in range(numbers.randint(4, 20)))

    def facts(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("facts", numbers)

    def walk(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("walk_keyframes", numbers)

    def go_on(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("go_on", numbers)

    def check(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("check", numbers)

    def distrust(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("distrust", numbers)

    def events(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("events", numbers)

    def refresh(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("refresh", numbers)

    def verify(self, numbers: random.Random) -> bool | None:
        """See View."""
        return self._read("verify", numbers)

    def open_tail(self, numbers: random.Random) -> bool | None:  # noqa: ARG002
        """Follow the present tape."""
        if self.run is None or len(self.tails) >= 2 or not self.run.path.exists():
            return False
        self.tails.append(TailView(self.run))
        return None

    def poll(self, numbers: random.Random) -> bool | None:
        """Read on in a tail."""
        if not self.tails:
            return False
        numbers.choice(self.tails).poll()
        return None

    def interrupted_read(self, numbers: random.Random) -> bool | None:
        """Memory, or the disk, fails in the middle of a reader's call; later calls must give what is right."""
        view = self._view(numbers)
        if view is None:
            return False
        name = numbers.choice(["seek", "seek", "at", "at", "move", "frame", "facts", "go_on", "distrust", "refresh", "check"])
        if numbers.random() < 0.5:
            code = numbers.choice(READ_CODES)
            error: BaseException = OSError(code, errno.errorcode[code]) if numbers.random() < 0.5 else MemoryError()
            self.interruption.at_read(error, numbers.randrange(4))
        else:
            self.interruption.at_call(numbers.randrange(200))
        try:
            getattr(view, name)(numbers)
        except (MemoryError, BrokenPromiseError, OSError):
            if not self.interruption.happened:
                raise
            if name == "go_on":
                view.held.clear()
        finally:
            self.interruption.off()
        return None

    def two_threads(self, numbers: random.Random) -> bool | None:
        """Two threads read, one reader or two, while a third one records."""
        if not self.views:
            return False
        failures: list[BaseException] = []

        def read(seed: int, view: View) -> None:
            own = random.Random(seed)
            try:
                for _ in range(4):
                    view.at(own)
            except BaseException as error:  # noqa: BLE001 - raised again in the main thread
                failures.append(error)

        threads = [
            threading.Thread(target=read, args=(numbers.randrange(1 << 32), numbers.choice(self.views))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        try:
            self.steps(numbers)
        finally:
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]
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


def collect() -> None:
    """Collect garbage, so that a file that nobody closed is noticed where it was left."""
    gc.collect()


__all__ = ["WEIGHTS", "Driver", "MissingTickError", "collect", "model_settings", "random_options"]
