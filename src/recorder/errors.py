"""Errors of recordings. Readers and writers raise nothing else for data from a disk.

Misuse of the API raises ValueError or TypeError at the call. Test the attributes, not the texts.
"""

from __future__ import annotations

from typing import Any


class RecordingError(Exception):
    """Base class of all errors of a recording."""


class UnreadableError(RecordingError):
    """The file contains no block of a tape, or cannot be read.

    Attributes:
        path: the file.
        why: the reason: the expected and the actual content, or the system's message.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class DeniedTapeError(UnreadableError):
    """The system, or a store, does not permit reading the file. What it holds is unknown."""


class UnsupportedVersionError(RecordingError):
    """The tape was written by a newer program and states that this one must not read it.

    Attributes:
        found: the version or flags of the tape.
        supported: the versions that this program reads.
    """

    def __init__(self, found: str, supported: str) -> None:
        super().__init__(found, supported)
        self.found = found
        self.supported = supported

    def __str__(self) -> str:
        return f"the tape needs {self.found}, this program reads {self.supported}: install a newer version"


class CorruptError(RecordingError):
    """Bytes of the tape differ from those that were written.

    Attributes:
        offset: of the damaged block, in bytes from the start of the file.
        what: the expected and the actual content.
        kind: of block, by name; None if unknown.
        ticks: the first and the last tick that are lost; None if there are none, or they are unknown.
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
        """Return this error with the number of the file set."""
        return CorruptError(self.offset, self.what, self.kind, self.ticks, segment)

    def __str__(self) -> str:
        in_segment = f" of segment {self.segment}" if self.segment else ""
        return f"corrupt at byte {self.offset}{in_segment}: {self.what}"


class TornError(RecordingError):
    """The file ends inside a block.

    Attributes:
        offset: of the incomplete block, in bytes from the start of the file.
        need_bytes: the size that the file would have with the complete block.
        have_bytes: the size of the file.
    """

    def __init__(self, offset: int, need_bytes: int, have_bytes: int) -> None:
        super().__init__(offset, need_bytes, have_bytes)
        self.offset = offset
        self.need_bytes = need_bytes
        self.have_bytes = have_bytes

    def __str__(self) -> str:
        return f"torn at byte {self.offset}: expected a file of {self.need_bytes} bytes, got {self.have_bytes}"


class MissingTickError(RecordingError):
    """A tick is not on the tape, or cannot be reached because of damage.

    Attributes:
        tick: the requested tick.
        why: the ticks that the tape has, or what is missing.
        damaged: True if the tick was recorded but cannot be reached because of damage.
    """

    def __init__(self, tick: int, why: str, damaged: bool = False) -> None:  # noqa: FBT001, FBT002 - pickling needs it
        super().__init__(tick, why, damaged)
        self.tick = tick
        self.why = why
        self.damaged = damaged

    def __str__(self) -> str:
        return f"tick {self.tick}: {self.why}"


class MissingStepError(MissingTickError):
    """An episode has no step of a number; ``why`` names the step, and those that it has."""

    def __str__(self) -> str:
        return self.why


class MissingEpisodeError(MissingTickError):
    """The tape has no episode of a number; ``why`` names those that it has."""

    def __str__(self) -> str:
        return self.why


class DesyncError(RecordingError):
    """Re-simulating gave a different state than the recorded run had.

    Attributes:
        tick: the first tick whose hash differs; if finding has a latest_tick, that of another run.
        expected_hash: on the tape.
        actual_hash: of the re-simulated state.
        dump_path: the folder of the dump, or None if no dump was requested.
        finding: the result of the investigation, a replayer Finding, or None.
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
        details = f"; {self.finding.note}" if getattr(self.finding, "note", None) else ""
        details += f"; dump in {self.dump_path}" if self.dump_path is not None else ""
        latest = getattr(self.finding, "latest_tick", None)
        where = (
            f"at tick {self.tick}"
            if latest is None
            else f"at or before tick {latest}; at tick {self.tick} of a later run"
        )
        return f"desync {where}: recorded hash {self.expected_hash:016x}, replayed {self.actual_hash:016x}{details}"


class PeerDesyncError(DesyncError):
    """A peer of a lockstep run has a different state; expected_hash is our own, actual_hash the peer's.

    Attributes:
        divergence: a PeerDivergence: the name of the peer, the dump, and the ticks that differ, which are counted on.
        others: the errors of further peers that differ first at the same tick; each is raised with the first one only.
    """

    divergence: Any = None
    others: tuple[PeerDesyncError, ...] = ()

    def __str__(self) -> str:
        dump = f"; dump in {self.dump_path}" if self.dump_path is not None else ""
        peer = getattr(self.divergence, "peer", None)
        named = "a peer" if peer is None else f"peer {peer}"
        return (
            f"desync with {named} at tick {self.tick}: our hash {self.expected_hash:016x}, "
            f"the peer's {self.actual_hash:016x}{dump}"
        )


class WriterFailedError(RecordingError):
    """The background writer stopped; the cause is chained. Everything written before is intact.

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


class ConcurrentStepError(RecordingError):
    """A step was called while another one of the same recording was under way; nothing has happened.

    Either two threads stepped at the same time, which no replay could repeat, or a step called itself through its
    recording. Steps from several threads, one after the other, are recorded.
    """

    def __init__(self) -> None:
        super().__init__(
            "a step of this recording is under way, in another thread or around this call: take a lock around the steps "
            "of several threads, so that their order is one that a replay can repeat"
        )


class SimulationFailedError(RecordingError):
    """The simulation raised during a step, or refused a recorded state.

    After an exception during a step the simulation's state belongs to no tick.

    Attributes:
        tick: the tick that the step should have led to, or that of the refused state.
        why: the exception raised during a replay, which is also chained as the cause; None during a recording.
    """

    def __init__(self, tick: int, why: str | None = None) -> None:
        super().__init__(tick, why)
        self.tick = tick
        self.why = why

    def __str__(self) -> str:
        if self.why is not None:
            return f"tick {self.tick}: {self.why}"
        return f"the step to tick {self.tick} raised an exception; the tape ends at tick {self.tick - 1}"


class OutputFunctionError(RecordingError):
    """A function that was given as telemetry=, events= or aux= raised at the first tick, or changed the object.

    Attributes:
        name: of the option.
        tick: at which it was called.
        why: what happened.
    """

    def __init__(self, name: str, tick: int, why: str) -> None:
        super().__init__(name, tick, why)
        self.name = name
        self.tick = tick
        self.why = why

    def __str__(self) -> str:
        return self.why


class MemoryBudgetError(RecordingError):
    """A part of the tape would take more memory than the budget allows; nothing is wrong with the tape.

    Attributes:
        what: the part: a state, or the content of a block.
        need_bytes: the memory that it would take, as its headers claim, or counted until it exceeded the budget.
        budget_bytes: the budget for one part.
    """

    def __init__(self, what: str, need_bytes: int, budget_bytes: int) -> None:
        super().__init__(what, need_bytes, budget_bytes)
        self.what = what
        self.need_bytes = need_bytes
        self.budget_bytes = budget_bytes

    def __str__(self) -> str:
        return (
            f"{self.what} takes {self.need_bytes:,} bytes of memory, the budget is {self.budget_bytes:,}: if you trust "
            f"the tape, raise it with --memory, memory_bytes= or REPLAY_MEMORY"
        )


class RecordingWarning(UserWarning):
    """A recording continues with a problem: the disk refuses writes, frames were lost, or the journal is not in use."""


class IncompleteTapeWarning(UserWarning):
    """A tape was opened that is not complete: it was cut off, is damaged, or lacks ticks. What is whole of it is there."""


class ForkedRecorderError(RecordingError):
    """A forked child process used the recorder of its parent; only the parent may write the tape.

    Attributes:
        owner: process id of the parent.
    """

    def __init__(self, owner: int) -> None:
        super().__init__(owner)
        self.owner = owner

    def __str__(self) -> str:
        return f"this recorder belongs to process {self.owner}: a forked child cannot write its tape"
