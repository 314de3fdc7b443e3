"""Resume a tape that a crash, a power cut or a close has ended: the same run continues in the same tape.

The steps. A crash during any of them leaves a tape that can be resumed again:
    1. Lock the tape; read it and its journal; write nothing yet.
    2. Restore the state of the last tick and compare it with the recorded hash (last_tick.py).
    3. Copy the torn tail to a separate file, cut it off, sync. Do the same with a segment that was only begun.
    4. Append the journal's frames to the tape, sync. The journal is replaced when the recorder starts its own.
    5. Write META of the new session, and a full keyframe of the last tick (4 and 5: next_session.py).
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from recorder.errors import UnreadableError
from recorder.format.recording.assembly import Assembled, SegmentInput, assemble
from recorder.format.segments.segment_contents import NoTapeError
from recorder.reopen.last_tick import Progress, restore_last_tick
from recorder.reopen.next_session import open_for_writing
from recorder.reopen.preconditions import ensure_first_file, ensure_intact, settings_of
from recorder.reopen.torn_tail import take_begun_segment_away
from recorder.session.change_source import find_source
from recorder.session.recorder import Recorder
from recorder.session.session import Resumed
from recorder.settings import ChangeTracking
from recorder.storage.file_interfaces import IO, Files
from recorder.storage.file_names import segment_path
from recorder.storage.tape_files import NOT_OURS, TapeFiles
from sim.kernel.hooks import HasAdapter, ensure_hooks, hook
from sim.kernel.registry import find_world
from sim.kernel.simulation import Simulation, as_simulation, inner_of
from sim.scenario.wrap import wrap_scenario

_R = TypeVar("_R", bound=Recorder)


def resume(
    path: str | os.PathLike[str],
    simulation: Any = None,
    *,
    changes: ChangeTracking = "auto",
    progress: Progress | None = None,
    telemetry: Callable[[Any], Any] | None = None,
    events: Callable[[Any], Any] | None = None,
    aux: Callable[[Any], Any] | None = None,
) -> Recorder:
    """Open a tape again, restore the simulation to its last tick and continue to record with the tape's settings.

    The returned recorder is ready for the next step; its ``resumed`` describes the tape as it was found.
    simulation: a new one like the recorded one, in any state, or an object like the one that record() was given, which
    gets the step, the fields and the level that the tape names. Calls of a Python object's step are recorded from then
    on; object_of(recorder) is what record() would have returned for it. None makes the registered world or environment that the
    tape names.
    progress: called with the ticks re-simulated so far and the ticks in all.
    telemetry, events, aux: functions as those of record(). A tape does not hold them: give them again, or the ticks from here on
    have no such output.

    Raises FileNotFoundError or another OSError, BlockingIOError if a different process is recording into the tape,
    FileExistsError if a file that is not part of the tape has the name of its next segment,
    UnreadableError, CorruptError for a tape with damage (repair it first) or with invalid settings,
    RecordingError for a different format or for a file that is not the first of its tape,
    MissingTickError if its last tick cannot be reached, SimulationFailedError if the simulation raises,
    DesyncError if re-simulating does not give the recorded states,
    UnknownWorldError and ConfigError for a world that is not registered, TypeError for an object that is not a
    simulation or has different fields, ValueError for changes that it cannot track; the tape is unchanged then.
    Raises WriterFailedError or OSError if the disk fails later; no data is lost, and the tape can be resumed again.

    Examples:
        >>> with recorder.resume("run.tape", Walkers()) as tape:
        ...     tape.step(1)
        ...     print("tick", tape.tick)
        tick 1001
    """
    functions = {"telemetry": telemetry, "events": events, "aux": aux}
    return resume_in(TapeFiles(path), path, simulation, changes=changes, progress=progress, functions=functions)


def resume_as(kind: type[_R], path: str | os.PathLike[str], simulation: Simulation) -> _R:
    """Resume a tape with a recorder of this kind. Raises as resume does."""
    return resume_in(TapeFiles(path), path, simulation, kind=kind)


def resume_in(
    files: Files,
    path: str | os.PathLike[str],
    simulation: Any = None,
    *,
    changes: ChangeTracking = "auto",
    progress: Progress | None = None,
    kind: type[_R] = Recorder,  # type: ignore[assignment]
    functions: Mapping[str, Any] | None = None,
) -> _R:
    """Resume the tape in these files. path: for messages. kind: of recorder. functions: see resume. Raises as resume does."""
    try:
        assembled, ios, begun = _read(files, os.fspath(path))
        given = {name: function for name, function in (functions or {}).items() if function is not None}
        settings = attrs.evolve(settings_of(assembled), **given)
        adapted = (
            wrap_scenario(_as_recorded(simulation, assembled), assembled.meta.get("scenario"))
            if simulation is not None
            else make_world(assembled)
        )
        find_source(adapted, changes)
        ensure_hooks(inner_of(adapted))
        keyframe_tick = restore_last_tick(assembled, adapted, progress, with_totals=True)
        if begun is not None:
            take_begun_segment_away(files, ios.pop(begun), begun)
        session, torn_file = open_for_writing(files, ios, assembled, settings)
        seal = assembled.recording.segments[-1].contents.seal
        outcome = seal.outcome if seal is not None and seal.final else None
        resumed = Resumed(session.tick, keyframe_tick, torn_file, assembled.recording.journal_ticks, outcome)
        recorder = kind.resuming(path, adapted, session, resumed, changes)
    except BaseException:
        files.release()
        raise
    record_calls(recorder)
    return recorder


def record_calls(recorder: Recorder) -> None:
    """Record the calls of a Python object's step, however they are made, as record() does, while the recorder lives."""
    adapted = hook(inner_of(recorder.simulation), HasAdapter)
    if adapted is not None and adapted.adapter.get("name") == "plain_object":
        from sim.adapters.plain_object.recorded import ObjectRecording  # noqa: PLC0415 - only for a tape of an object

        recorder.calls = ObjectRecording(inner_of(recorder.simulation), weakref.proxy(recorder))


def _read(files: Files, path: str) -> tuple[Assembled, dict[int, IO], int | None]:
    """Read the tape. Return it, its open files, and the number of a segment that was only begun at a crash."""
    ios = {0: files.open(0)}  # This takes the lock.
    ios |= {number: files.open(number) for number in files.numbers() if number}
    sources = [SegmentInput(number, io.pread, io.size()) for number, io in ios.items()]
    journal = files.read_journal()
    try:
        assembled = assemble(sources, journal, believe_index=False)
        begun = _begun_segment(assembled, sources)
        if begun is not None:
            assembled = assemble([source for source in sources if source.number != begun], journal, believe_index=False)
    except NoTapeError as error:
        raise UnreadableError(path, f"not a tape: {error}") from None
    ensure_first_file(path, assembled)
    _forget_what_follows_torn_blocks(assembled)
    ensure_intact(assembled, died=journal is not None or begun is not None)
    _ensure_names_are_free(assembled, [number for number in ios if number != begun], path)
    return assembled, ios, begun


def _ensure_names_are_free(assembled: Assembled, numbers: Sequence[int], path: str) -> None:
    """Refuse a file that has the name of a later segment: a copy of the tape, for example."""
    last = assembled.recording.segments[-1].number
    taken = next((number for number in numbers if number > last), None)
    if taken is not None:
        raise FileExistsError(errno.EEXIST, NOT_OURS, os.fspath(segment_path(path, taken)))


def _forget_what_follows_torn_blocks(assembled: Assembled) -> None:
    """Drop the blocks after a torn one: a power cut may tear a block and keep a later one."""
    recording = assembled.recording
    last = recording.segments[-1]
    if any(damage.torn and damage.segment == last.number for damage in assembled.damages):
        recording.clip(last.number, last.contents.good_end)


def _begun_segment(assembled: Assembled, sources: Sequence[SegmentInput]) -> int | None:
    """Return the number of a last segment that has no META yet: it holds nothing of the run."""
    last = max(assembled.described, default=-1)
    following = [source.number for source in sources if last >= 0 and source.number > last]
    own = {segment.number for segment in assembled.recording.segments}
    own |= {damage.segment for damage in assembled.damages if damage.offset == 0}  # Without an intact block.
    own -= {damage.segment for damage in assembled.damages if not damage.torn}
    return following[0] if following == [last + 1] and following[0] in own else None


def make_world(assembled: Assembled) -> Simulation:
    """Make the simulation that a tape names, in its initial state.

    Raises TypeError if it names none, UnknownWorldError, ConfigError, and what rebuilt_simulation raises.
    """
    match assembled.meta.get("world"):
        case {"name": str(name), "config": dict(config)}:
            world = find_world(name)
            return wrap_scenario(world.make(config), assembled.meta.get("scenario"), world.properties)
    recorded = assembled.meta.get("simulation")
    if not assembled.meta.get("adapter"):
        raise TypeError(
            f"the tape names no registered world (it was recorded from {recorded}): pass the simulation to "
            "recorder.resume"
        )
    from sim.adapters.as_recorded import rebuilt_simulation  # noqa: PLC0415 - only for a tape of an adapter

    simulation = rebuilt_simulation(assembled.meta)
    if simulation is None:
        raise TypeError(
            f"the tape does not state how to make its {recorded}: pass a new one to recorder.resume, made as for the "
            "recording"
        )
    return as_simulation(simulation)


def _as_recorded(simulation: Any, assembled: Assembled) -> Any:
    if not assembled.meta.get("adapter"):
        return simulation
    from sim.adapters.as_recorded import as_recorded  # noqa: PLC0415 - only for a tape of an adapter

    return as_recorded(simulation, assembled.meta)
