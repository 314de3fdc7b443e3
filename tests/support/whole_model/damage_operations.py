"""Operations of the model that damage a tape or its disk, and the repair."""

from __future__ import annotations

import errno
import os
import random
import re
from pathlib import Path

from recorder.errors import RecordingError
from replayer.repair.repair import repair_tape
from whole_model.fallible_disk import WRITE_CODES, journal_of, without_journal
from whole_model.model_run import Run, ensure
from whole_model.operation_state import OperationState
from whole_model.reader_view import View

KIND_OFFSET = 64  # Of the kind in the header of a block.


class DamageOperations(OperationState):
    """See OperationState."""

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

    def _damaged_run(self) -> Run | None:
        """The tape that may be damaged: no process records into it."""
        return self.run if self.recorder is None and self.run is not None else None

    def _change(self, run: Run, file: Path, start: int, data: bytes) -> None:
        run.hit(without_journal(run.path), file, start, start + len(data))
        with file.open("r+b") as opened:
            opened.seek(start)
            opened.write(data)

    def flip(self, numbers: random.Random) -> bool | None:
        """One bit changes; half of the time in the header of a block, of each kind as often as of the others."""
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
            kinds = sorted({data[tag + KIND_OFFSET] for tag in tags if tag + KIND_OFFSET < len(data)})
            kind = numbers.choice(kinds or [0])
            of_kind = [tag for tag in tags if data[tag + KIND_OFFSET : tag + KIND_OFFSET + 1] == bytes([kind])]
            offset = min(len(data) - 1, numbers.choice(of_kind or [0]) + numbers.randrange(72))
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
                for _ in range(20 if data else 0):  # It may have been cut to nothing before.
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
            repair_tape(run.path, target, run.rules.make)
        except (RecordingError, FileNotFoundError) as error:
            ensure((run.is_damaged and not must) or run.is_lossy or run.acknowledged < 0, f"no repair: {error}")
            return None
        repaired = run.branch(target)
        repaired.sealed, repaired.acknowledged, repaired.account = True, max(must, default=-1), None
        repaired.harmed = []
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
