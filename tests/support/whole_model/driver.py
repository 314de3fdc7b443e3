"""Random operations on one tape after the other, with readers at the same time; the model decides what is right.

Each operation is a method that takes random numbers. The campaign calls them by ``run_next``, at full speed;
hypothesis calls the same ones. An operation that is not possible at the moment does nothing and returns False.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import recorder.writer.journal
import recorder.writer.retries
import recorder.writer.writer
import replayer.follow.tail
from recorder.errors import RecordingWarning
from recorder.storage.open_tape import OpenFile
from whole_model.damage_operations import DamageOperations
from whole_model.fallible_disk import Interruption
from whole_model.reader_view import View
from whole_model.reading_operations import ReadingOperations
from whole_model.resuming_operations import ResumingOperations

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
    "sessions": 5,
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


class Driver(ResumingOperations, DamageOperations, ReadingOperations):
    """All operations; use it inside model_settings."""

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
            threading.Thread(target=read, args=(numbers.randrange(1 << 32), numbers.choice(self.views)))
            for _ in range(2)
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
