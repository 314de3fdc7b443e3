"""Record simulations in a test, and keep the tapes of a test that failed. Used by the plugin for pytest."""

from __future__ import annotations

import contextlib
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

from recorder.adapted.flight_recorder import begin_recording, open_command, remove_tape
from recorder.errors import RecordingError, RecordingWarning
from recorder.storage.file_names import segment_numbers, segment_path

OPTIONS = {"trial_ms": 0.0}  # A trial takes longer than most tests.
TAPES_MAX = 20  # Of one test; each that is open has a thread.
NAME_CHARS_MAX = 120  # Of a tape; the names of tests with parameters can be longer than a file system allows.


class TestRecorder:
    """Records simulations in one test: call it with a simulation, and use what it returns in its place.

    Attributes:
        kept: a line about each tape that was kept, with the command that opens its last tick.
    """

    __test__ = False  # For pytest: it holds no tests.

    def __init__(self, scratch: Path, folder: Path, test: str) -> None:
        """scratch: an empty folder for this test. folder: for tapes that are kept. test: its name, as pytest prints it."""
        self.kept: list[str] = []
        self._scratch = scratch
        self._folder = folder
        self._test = test
        self._count = 0
        self._tapes: list[tuple[Path, Any]] = []  # With the recorder of each.

    def __call__(self, simulation: Any, **options: Any) -> Any:
        """Begin to record a simulation; return a Recorder, or what recorder.record returns for other objects.

        options: of Recorder or of recorder.record; it is not tried first. Only the last TAPES_MAX of a test are kept, for
        tests that run many examples. Raises as these do.
        """
        if len(self._tapes) == TAPES_MAX:
            self._remove(*self._tapes.pop(0))
        self._count += 1
        path = self._scratch / f"{self._count}.tape"
        recorded, tape = begin_recording(path, simulation, {**OPTIONS, **options})
        self._tapes.append((path, tape))
        return recorded

    def keep(self, error: BaseException | None) -> None:
        """Seal the tapes of a test that failed, and move them into the folder, in place of those of an earlier run."""
        for number, (path, tape) in enumerate(self._tapes):
            try:
                with warnings.catch_warnings(action="ignore", category=RecordingWarning):
                    target = self._keep(number, path, tape, error)
                self.kept.append(f"tick {tape.tick:,} was the last one: {open_command(target, tape.meta, tape.tick)}")
            except (OSError, RecordingError) as failed:  # It must not hide why the test failed.
                self.kept.append(f"a tape could not be kept: {failed}")
        self._tapes = []

    def _keep(self, number: int, path: Path, tape: Any, error: BaseException | None) -> Path:
        """Seal a tape and move its files into the folder."""
        outcome = {"reason": "test failed"} if error is None else tape.outcome_of(error)
        tape.close({**outcome, "test": self._test})
        target = self._folder / f"{file_name(self._test, number)}.tape"
        self._folder.mkdir(parents=True, exist_ok=True)
        for old in segment_numbers(target) if target.exists() else []:
            segment_path(target, old).unlink()
        for segment in segment_numbers(path):
            shutil.move(segment_path(path, segment), segment_path(target, segment))
        return target

    def discard(self) -> None:
        """Close the tapes of a test that passed, and remove them. What is wrong with them is of no interest any more."""
        for path, tape in self._tapes:
            self._remove(path, tape)
        self._tapes = []
        shutil.rmtree(self._scratch, ignore_errors=True)

    @staticmethod
    def _remove(path: Path, tape: Any) -> None:
        with (
            warnings.catch_warnings(action="ignore", category=RecordingWarning),
            contextlib.suppress(OSError, RecordingError),
        ):
            tape.close()
            remove_tape(path)


def file_name(test: str, number: int = 0) -> str:
    """The name of a tape for a test: its name without what file systems refuse."""
    plain = re.sub(r"[^\w.-]+", "-", test.replace(".py::", "-").replace("/", "-")).strip("-.")
    return plain[-NAME_CHARS_MAX:].strip("-.") + (f"-{number + 1}" if number else "")
