"""Every way in which a recording can fail a reader or a writer; nothing else is raised for data from a disk.

Misuse of the API is ValueError or TypeError at the call. Test the attributes, not the texts.
"""

from __future__ import annotations

from typing import Any


class RecordingError(Exception):
    """Whatever is wrong with a recording."""


class UnreadableError(RecordingError):
    """Nothing in the file is a block of a tape.

    Attributes:
        path: the file.
        why: what was expected and found.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class UnsupportedVersionError(RecordingError):
    """The tape was written by a newer program and says that this one must not read it.

    Attributes:
        found: the version or flags of the tape.
        supported: what this program reads.
    """

    def __init__(self, found: str, supported: str) -> None:
        super().__init__(found, supported)
        self.found = found
        self.supported = supported

    def __str__(self) -> str:
        return f"the tape needs {self.found}, this program reads {self.supported}: install a newer version"


class CorruptError(RecordingError):
    """Bytes of the tape are not what was written.

    Attributes:
        offset: of the block concerned, in bytes from the start of the file.
        what: what was expected and found.
        kind: of block, by name; None where that is not known.
        ticks: the first and the last one that it costs; None if there are none, or they are not known.
        segment: number of the file.
    """

    def __init__(
        self,
        offset: int,
        what: str,
        kind: str | None = None,
        ticks: tuple[int, int] | None = None,
        segment: int = 0,
    ) -> None:
        super().__init__(offset, what, kind, ticks, segment)
        self.offset = offset
        self.what = what
        self.kind = kind
        self.ticks = ticks
        self.segment = segment

    def inside(self, segment: int) -> CorruptError:
        """The same error, in the file of this number."""
        return CorruptError(self.offset, self.what, self.kind, self.ticks, segment)

    def __str__(self) -> str:
        where = f" of segment {self.segment}" if self.segment else ""
        return f"corrupt at byte {self.offset}{where}: {self.what}"


class TornError(RecordingError):
    """The file ends inside a block.

    Attributes:
        offset: of the block concerned.
        need_bytes: how long the file would have to be.
        have_bytes: how long it is.
    """

    def __init__(self, offset: int, need_bytes: int, have_bytes: int) -> None:
        super().__init__(offset, need_bytes, have_bytes)
        self.offset = offset
        self.need_bytes = need_bytes
        self.have_bytes = have_bytes

    def __str__(self) -> str:
        return f"torn at byte {self.offset}: {self.need_bytes} bytes expected, {self.have_bytes} are there"


class MissingTickError(RecordingError):
    """A tick is not on the tape, or cannot be reached because what leads to it is damaged.

    Attributes:
        tick: what was asked for.
        why: which ticks there are, or what is missing.
        damaged: the tick was recorded, and damage keeps us from it.
    """

    def __init__(self, tick: int, why: str, damaged: bool = False) -> None:  # noqa: FBT001, FBT002 - pickling needs it
        super().__init__(tick, why, damaged)
        self.tick = tick
        self.why = why
        self.damaged = damaged

    def __str__(self) -> str:
        return f"tick {self.tick}: {self.why}"


class DesyncError(RecordingError):
    """Re-simulating gave another state than the run had.

    Attributes:
        tick: the first tick whose hash differs.
        expected_hash: on the tape.
        actual_hash: of the re-simulated state.
        dump_path: the folder of the dump, or None if none was asked for.
        finding: what was found out, a replayer Finding, or None.
    """

    def __init__(
        self, tick: int, expected_hash: int, actual_hash: int, dump_path: Any = None, finding: Any = None
    ) -> None:
        super().__init__(tick, expected_hash, actual_hash, dump_path)
        self.tick = tick
        self.expected_hash = expected_hash
        self.actual_hash = actual_hash
        self.dump_path = dump_path
        self.finding = finding

    def __str__(self) -> str:
        where = f"; {self.finding.note}" if getattr(self.finding, "note", None) else ""
        where += f"; dump in {self.dump_path}" if self.dump_path is not None else ""
        return (
            f"desync at tick {self.tick}: recorded hash {self.expected_hash:016x}, "
            f"replayed {self.actual_hash:016x}{where}"
        )


class PeerDesyncError(DesyncError):
    """A peer that runs the same has another state; expected_hash is our own, actual_hash the peer's."""

    def __str__(self) -> str:
        where = f"; dump in {self.dump_path}" if self.dump_path is not None else ""
        return (
            f"desync with a peer at tick {self.tick}: our hash {self.expected_hash:016x}, "
            f"the peer's {self.actual_hash:016x}{where}"
        )


class WriterFailedError(RecordingError):
    """The background writer stopped; the cause is chained. What was written before is sound.

    Attributes:
        path: the tape.
        why: the cause in one line.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: the recording stopped: {self.why}"


class SimulationFailedError(RecordingError):
    """The simulation raised in the middle of a step, so that its state is of no tick; or it refused a recorded state.

    Attributes:
        tick: that the step should have led to, or of the state.
        why: what it raised when it was replayed, which is the cause of this error, too; None if it was being recorded.
    """

    def __init__(self, tick: int, why: str | None = None) -> None:
        super().__init__(tick, why)
        self.tick = tick
        self.why = why

    def __str__(self) -> str:
        if self.why is not None:
            return f"tick {self.tick}: {self.why}"
        return f"the step to tick {self.tick} raised an exception; the tape ends at tick {self.tick - 1}"


class RecordingWarning(UserWarning):
    """A recording goes on, but not as it should: the disk refuses, frames were lost, the journal is not in use."""


class ForkedRecorderError(RecordingError):
    """A child process, made by fork, used its parent's recorder; the tape is the parent's alone.

    Attributes:
        owner: process id of the parent.
    """

    def __init__(self, owner: int) -> None:
        super().__init__(owner)
        self.owner = owner

    def __str__(self) -> str:
        return f"this recorder belongs to process {self.owner}: a forked child cannot write its tape"
