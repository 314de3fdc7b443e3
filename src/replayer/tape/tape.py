"""Open a tape and read frames, keyframes and events from it, without a simulation.

Reads with pread and never maps the files: a tape may grow or be truncated while it is read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any, Literal

import numpy.typing as npt

from recorder.errors import CorruptError, RecordingError, TornError, UnsupportedVersionError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.drop_block import Drop
from recorder.format.blocks.events_block import Event
from recorder.format.blocks.frame import Frame
from recorder.format.blocks.telemetry_block import decode_telemetry, join_telemetry
from recorder.format.recording.assembly import NOT_CHECKED, Assembled
from recorder.format.recording.recording import Recording
from recorder.format.recording.stored_sections import StoredSections
from recorder.format.recording.tick_gaps import merged
from recorder.format.segments.block_location import TICK_MAX, KeyframeLocation, optional_blocks
from recorder.format.segments.index import Entry
from recorder.format.segments.segment_contents import Damage
from recorder.format.segments.segment_reader import Segment
from recorder.location.tape_location import Location, tape_location
from recorder.storage.open_tape import OpenTape, is_locked
from replayer.html_renderers import RenderedAsHtml
from replayer.tape.seal_check import check_seals
from replayer.tape.stored_events import event_blocks, missing_event_ticks, stored_events
from sim.closed_on_exit import ClosedOnExit
from sim.kernel.state import Snapshot

Mode = Literal["salvage", "prefix", "strict"]
STOPPED_EARLY = "the recording stopped before its first keyframe was written"


class Tape(RenderedAsHtml, ClosedOnExit):
    """One tape, open for reading; a context manager.

    It shows the files as they were when it was opened; ``refresh`` reads them again.

    Examples:
        >>> with replayer.Tape("run.tape") as tape:
        ...     print(tape.first_tick, tape.last_tick, [keyframe.tick for keyframe in tape.keyframes])
        ...     print("inputs of tick 700:", tape.frame(700).inputs)
        0 1000 [0, 300, 600, 900]
        inputs of tick 700: 0
    """

    def __init__(
        self, path: str | os.PathLike[str], mode: Mode = "salvage", *, memory_bytes: int | None = None
    ) -> None:
        """Open the tape and find its blocks, and the frames in its journal.

        path: a path, or a URL: a text such as "s3://bucket/run.tape", or a TapeUrl with options for its file system.
        mode: the response to damage that headers show. "salvage" reads everything that is intact, "prefix" only what
        comes before the first damage, "strict" refuses the tape.
        memory_bytes: the memory that one state, or the content of one block, may take; a larger one raises
        MemoryBudgetError when it is read. By default that of the environment (REPLAY_MEMORY), or a quarter of the memory
        that this process may use.

        Raises FileNotFoundError or another OSError if the file cannot be opened, UnreadableError if it has no block of
        a tape, UnsupportedVersionError if a newer program wrote it, CorruptError for damage in mode "strict".
        """
        if mode not in ("salvage", "prefix", "strict"):
            raise ValueError(f'mode: expected "salvage", "prefix" or "strict", got {mode!r}')
        self.path: Location = tape_location(path)
        self._mode = mode
        self._aux: StoredSections | None = None
        self._files = OpenTape(path, memory_bytes)
        try:
            self._open_and_assemble()
        except BaseException:
            self.close()
            raise

    def refresh(self) -> None:
        """Read what was added to the files: a tape that is being written has grown.

        The duration depends on what was added, not on the length of the tape. Blocks that were found before are not
        looked for again; as always, each of them is checked when it is read. What was begun before, such as a loop over
        events, continues with the files as they were.

        Raises as opening it does; the tape is then as before.
        """
        self._open_and_assemble()

    def _open_and_assemble(self) -> None:
        assembled = self._files.assemble(believe_index=self._mode == "salvage")
        recording = assembled.recording if self._mode == "salvage" else self._obeying_mode(assembled)
        self.assembled, self.recording = assembled, recording
        self._problems: list[RecordingError] | None = None  # Of the last check of all blocks; None before it.
        self._was_misled = False  # By an index: the files have other blocks.
        self.__dict__.pop("_unread_ticks", None)

    def _obeying_mode(self, assembled: Assembled) -> Recording:
        """The recording as the mode wants it. Raises CorruptError."""
        recording = assembled.recording
        damage = next((damage for damage in assembled.damages if not damage.torn), None)
        missing = assembled.missing_segments[0] if assembled.missing_segments else None
        if damage is None and missing is None:
            return recording
        if self._mode == "strict":
            raise damage.as_error() if damage is not None else CorruptError(0, f"segment {missing} is missing")
        kept = [s for s in recording.segments if missing is None or s.number < missing]
        if damage is not None:
            kept = [segment for segment in kept if segment.number <= damage.segment]
            for segment in kept:
                if segment.number == damage.segment:
                    segment.clip = damage.offset
                    segment.take(segment.contents)
        clipped = Recording(kept)
        clipped.copier = recording.copier
        return clipped

    # --- facts

    @property
    def segments(self) -> list[Segment]:
        """The files of the tape."""
        return self.recording.segments

    @property
    def meta(self) -> dict[str, Any]:
        """Facts about the recording's origin (see SPEC.md, META); empty if all copies are damaged."""
        return self.assembled.meta

    @property
    def run_id(self) -> str:
        """The run's identifier, hexadecimal; empty if it is lost."""
        return self.assembled.run_id.hex()

    @property
    def sealed(self) -> bool:
        """True if the recording was closed properly."""
        return self.assembled.final

    @property
    def outcome(self) -> Any:
        """The reason for the recording's end, with details; None if it was not closed."""
        seal = self.segments[-1].contents.seal if self.segments else None
        return seal.outcome if seal is not None and self.sealed else None

    @property
    def size_bytes(self) -> int:
        """The size of all segments together, when they were last read."""
        return sum(segment.contents.size_bytes for segment in self.segments)

    @property
    def damages(self) -> list[Damage]:
        """Stretches of the files without intact blocks, as shown by headers, or by an index that is trusted."""
        self._rescan_if_misled()
        return self.assembled.damages

    @property
    def missing_segments(self) -> list[int]:
        """Numbers of segments that should exist and do not."""
        return self.assembled.missing_segments

    @property
    def drops(self) -> list[Drop]:
        """Ticks that the recording could not keep, as its DROP blocks state."""
        return self.recording.drops

    @property
    def journal_ticks(self) -> int:
        """The number of last ticks that are in the journal only."""
        return self.recording.journal_ticks

    @property
    def status(self) -> str:
        """What is known so far of the tape's condition; ``check_blocks`` and ``verify`` read all of it.

        "corrupt": damage was found, or a file is missing. "incomplete": no damage was found, but the tape is not sealed,
        or ticks were dropped. "not checked": sealed, and nothing is wrong with its headers or its index; the content of
        the blocks has not been read. "intact": check_blocks has read every block of the sealed tape, and all are good.
        """
        self._rescan_if_misled()
        if self._problems:
            return "corrupt"
        status = self.assembled.status
        return "intact" if status == NOT_CHECKED and self._problems is not None else status

    @property
    def checked(self) -> bool:
        """True if check_blocks has read every block since the tape was opened or refreshed."""
        return self._problems is not None

    @property
    def has_proved_index(self) -> bool:
        """True if check_blocks has found the blocks that the index lists and no others, and all are good."""
        return self._problems == [] and not self._was_misled and self._mode == "salvage" and not self.missing_segments

    def _rescan_if_misled(self) -> None:
        """Scan the files once reading has shown that an index hides blocks."""
        if self.recording.hopped:
            self.distrust_index()

    def is_being_written(self) -> bool:
        """Return True if a process is recording into this tape at the moment."""
        try:
            return is_locked(self.path)
        except FileNotFoundError:
            return False  # A writer locks the first file, which is missing.

    @property
    def keyframes(self) -> list[KeyframeLocation]:
        """All keyframes in tick order, without deltas whose base is missing."""
        return self.recording.keyframes

    @property
    def first_tick(self) -> int:
        """The first tick whose state is available. Raises MissingTickError if there is none."""
        return self.recording.first_tick

    @property
    def last_tick(self) -> int:
        """The last tick with a frame or a keyframe. Raises MissingTickError if there is no keyframe."""
        return self.recording.last_tick

    def missing_ticks(self) -> list[tuple[int, int]]:
        """Ranges of ticks, first and last, between first_tick and last_tick that have no frame.

        Those whose frames cannot be read are among them once check_blocks has found damage.
        """
        return list(self._unread_ticks if self._problems else self.recording.missing_ticks())

    @functools.cached_property
    def _unread_ticks(self) -> list[tuple[int, int]]:
        """The ranges of ticks whose frames cannot be read; reads all of them."""
        first, last = self.first_tick + 1, self.last_tick
        try:
            runs = self.recording.runs(first, last)
            return merged([(run.first_tick, run.last_tick) for run in runs if run.error is not None])
        except UnsupportedVersionError:  # This version must not read any of them.
            return [(first, last)] if first <= last else []

    # --- reading

    def frame(self, tick: int) -> Frame:
        """The frame of one tick.

        Raises MissingTickError, CorruptError if its block is damaged, UnsupportedVersionError if the tape has blocks of
        a required kind that this version does not know.
        """
        return self.recording.frame(tick)

    def keyframes_at_or_before(self, tick: int) -> Iterator[KeyframeLocation]:
        """Keyframes from which tick can be reached, the nearest first."""
        return self.recording.keyframes_at_or_before(tick)

    def keyframe_after(self, tick: int) -> KeyframeLocation | None:
        """The first keyframe at or after tick."""
        return self.recording.keyframe_after(tick)

    def keyframe_at(self, tick: int) -> KeyframeLocation | None:
        """The keyframe of exactly this tick."""
        return self.recording.keyframe_at(tick)

    def snapshot(self, place: KeyframeLocation) -> Snapshot:
        """The state at a keyframe, verified by its hash. Raises CorruptError, TornError or as frame does."""
        return self.recording.snapshot(place)

    def state_hash(self, tick: int) -> int:
        """The recorded hash of the state at tick. Raises as frame and snapshot do."""
        return self.recording.state_hash(tick)

    def telemetry(self) -> dict[str, npt.NDArray[Any]]:
        """The simulation's figures of its ticks: columns of equal length by name.

        "tick" comes first, int64, ascending; the others are int64 or float64. Ticks without figures, such as those from
        a journal, are left out. Damaged blocks are skipped; check_blocks reports them.
        """
        tables = []
        for block in self.recording.believing_index(lambda: optional_blocks(self.segments)):
            if block.entry.kind == BlockKind.TELEMETRY:
                try:
                    tables.append(decode_telemetry(block.payload(), block.entry.offset))
                except (CorruptError, TornError):
                    continue
        return join_telemetry(tables)

    @property
    def aux(self) -> StoredSections:
        """The sections that others kept beside the state: ``tape.aux[tick]`` is a dict by name."""
        if self._aux is None or self._aux.recording is not self.recording:
            self._aux = StoredSections(self.recording)
        return self._aux

    @property
    def logs_changes(self) -> bool:
        """True if the changes of each tick were recorded: mode "changes"."""
        return self.meta.get("mode") == "changes"

    @property
    def has_events(self) -> bool:
        """True if the recorded simulation emitted events."""
        return self.meta.get("event_stream") is True or bool(event_blocks(self.recording))

    def has_function_for(self, output: str) -> bool:
        """Return True if a function of the user made this output of each tick: "telemetry", "events" or "aux"."""
        return output in self.meta.get("output_functions", ())

    @property
    def could_tell_events(self) -> bool:
        """True if the simulation can emit events, recorded or not: those that are not on the tape can be rebuilt."""
        return self.meta.get("event_stream") is False or self.has_events

    def events(self, first: int | None = None, last: int | None = None) -> Iterator[tuple[int, Event]]:
        """The events on the tape, each with its tick, in tick order; events of one tick in the order of emission.

        first, last: the range of ticks, both included. Blocks are read one at a time: memory does not grow with the
        tape. Damaged blocks are skipped. missing_event_ticks lists the ticks without events on the tape;
        replayer.playback.rebuild_events.rebuild_events rebuilds them.
        """
        for block in stored_events(self.recording, first or 0, TICK_MAX if last is None else last):
            for tick, events in block.found:
                yield from ((tick, event) for event in events)

    def missing_event_ticks(self) -> list[tuple[int, int]]:
        """Ranges of ticks, first and last, whose events are not on the tape; the events of all others are complete.

        Empty for a simulation without events. Reads all blocks of events.
        """
        settings = self.meta.get("settings") or {}
        is_ring = settings.get("keep_ticks") is not None or settings.get("keep_s") is not None
        return missing_event_ticks(self.recording, is_ring=is_ring) if self.could_tell_events else []

    def check_blocks(self) -> list[RecordingError]:
        """Read every block completely, without trusting an index, and compare the seals; returns the problems.

        Damage raises nothing. A torn end is not a problem. From then on, ``status`` is that of the complete tape. A
        payload is read piece by piece and not kept: a state is never completely in memory.
        """
        self.distrust_index()
        problems: list[RecordingError] = [damage.as_error() for damage in self.damages if not damage.torn]
        damaged = {
            damage.segment for damage in self.damages
        }  # The seal of a file without all of its blocks cannot fit.
        problems += check_seals(self.segments, damaged)
        for segment in self.segments:
            blocks = [(entry, 0) for entry in segment.contents.indexes]
            for part in segment.parts:
                loaded = part.load()
                blocks += [(entry, loaded.end_of(row)) for row, entry in enumerate(loaded.entries())]
            for entry, end_offset in sorted(blocks, key=lambda block: block[0].offset):
                try:
                    for _ in segment.pieces(entry, end_offset):
                        pass
                except (CorruptError, TornError) as error:
                    problems.append(error)
        self._problems = problems
        self.__dict__.pop("_unread_ticks", None)
        return list(problems)

    def distrust_index(self) -> bool:
        """Find the blocks by their headers from now on; True if these are not the blocks that the index lists.

        Damage that an index hid then appears in damages and status.
        """
        before = self.recording
        if not before.hopped and not any(segment.contents.by_index for segment in before.segments):
            return False
        self.assembled = self._files.assemble_again(believe_index=False)
        self.recording = self.assembled.recording
        is_misled = _entries_of(before) != _entries_of(self.recording)
        self._was_misled |= is_misled
        return is_misled

    # --- closing

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        self._files.close()


def _entries_of(recording: Recording) -> list[Entry] | None:
    """All listed blocks; None if the index cannot be read."""
    try:
        return [entry for segment in recording.segments for part in segment.parts for entry in part.load().entries()]
    except (CorruptError, TornError):
        return None
