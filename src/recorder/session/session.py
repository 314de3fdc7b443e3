"""One session of a recording: open files, a log and settings; and META, which describes how the tape was made."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs

from recorder.ambient.outside.outside_note import KEY as OUTSIDE
from recorder.ambient.outside.outside_note import NotedReads, note_of
from recorder.environment import describe_environment
from recorder.format.blocks.changes_block import ensure_changes_fit
from recorder.format.blocks.file_header import RUN_ID_BYTES, features_of, make_file_header
from recorder.format.digests import new_digest
from recorder.format.limits import META_BYTES_MAX
from recorder.format.segments.segment_encoder import SegmentEncoder
from recorder.recording_options import FUNCTIONS, RecordingOptions
from recorder.session.blame_hashes import PhaseBlame
from recorder.storage.file_interfaces import Files
from recorder.storage.segmented_log import SegmentedLog
from recorder.writer.journal import Journal
from recorder.writer.writer import Writer
from sim.kernel.arithmetic.counter_rng import GENERATOR_NAME
from sim.kernel.class_names import importable_name
from sim.kernel.exactness import Level, level_of
from sim.kernel.hashing import HASH_NAME
from sim.kernel.hooks import CanEnd, HasAdapter, HasOrigin, HasScenario, hook
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.registry import Origin
from sim.kernel.simulation import emits_unrequested_events, end_of, events_of, inner_of
from sim.kernel.state import Snapshot

EXCEPTION_TEXT_MAX = 4000  # Characters; some exceptions print whole arrays.


@attrs.frozen
class Session:
    """A tape that is open for writing.

    Attributes:
        files, log: of the tape.
        settings: the options of the recording.
        run_id: 16 bytes.
        meta: META, without the entries about single files.
        tick: the last one on the tape; of a new tape the one that its first keyframe will have, mostly 0.
    """

    files: Files
    log: SegmentedLog
    settings: RecordingOptions
    run_id: bytes
    meta: dict[str, Any]
    tick: int


@attrs.frozen
class Resumed:
    """The state of a tape when it was opened again.

    Attributes:
        tick: the last one on it, from which the recording continues.
        keyframe_tick: of the keyframe from which the state of that tick was restored.
        torn_file: the file that holds the torn tail; None if there was none.
        journal_ticks: the number of ticks taken from the journal.
    """

    tick: int
    keyframe_tick: int
    torn_file: str | None
    journal_ticks: int


def describe(
    simulation: object, adapted: Any, settings: RecordingOptions, noted: NotedReads | None = None
) -> dict[str, Any]:
    """Return META: what a reader needs to build the simulation again and to judge a difference.

    settings: with the kind of hashes already chosen. noted: what the first steps read in a trial.

    Raises ValueError for events of a simulation that has none, or changes that a tape cannot hold.
    """
    if settings.mode == "changes":
        ensure_changes_fit(adapted.state.layout)
    from_world, staged = hook(adapted, HasOrigin), hook(adapted, HasScenario)
    origin = from_world.origin if from_world is not None else None
    scenario = staged.scenario if staged is not None else None
    adapter, level = _adapter_of(adapted), level_of(adapted)
    # A scenario wraps a simulation, whose name is recorded. An empty scenario counts: its fields are in the state.
    named = type(inner_of(adapted.inner) if scenario is not None else simulation)
    meta: dict[str, Any] = {
        "world": origin.described() if isinstance(origin, Origin) else None,
        **({"scenario": dict(scenario)} if scenario is not None else {}),
        "simulation": adapter["class"] if adapter is not None else importable_name(named),
        "mode": settings.mode,
        **({"level": level.value} if adapter is not None or level is not Level.EXACT else {}),
        **({"adapter": adapter} if adapter is not None else {}),
        "hash": HASH_NAME,
        "random": GENERATOR_NAME,
        "settings": settings.to_meta(),
        "notes": dict(settings.notes or {}),
    }
    events = settings.events
    if settings.output_functions:
        meta[FUNCTIONS] = list(settings.output_functions)
    if callable(events):
        meta["event_stream"] = True
    elif events_of(adapted) is not None:
        meta["event_stream"] = emits_unrequested_events(adapted) if events is None else events
    elif events:
        raise ValueError(
            f"events=True: {named.__qualname__} has no events() that could be recorded: add it, or pass a "
            "function, events=…"
        )
    if settings.blame == "phases":
        meta["phases"] = PhaseBlame(adapted).names
    if not settings.deterministic:
        meta["environment"] = describe_environment()
        meta[OUTSIDE] = note_of(noted)
        meta["created"] = datetime.now(UTC).isoformat(timespec="seconds")
    return meta


def _adapter_of(adapted: Any) -> dict[str, Any] | None:
    """Return an adapter's entry for META, of a simulation with an arena or in the save/load form."""
    for simulation in (adapted, inner_of(adapted)):
        adapter = hook(simulation, HasAdapter)
        entry: Any = adapter.adapter if adapter is not None else None
        if entry:
            return entry if isinstance(entry, dict) else None
    return None


def meta_maker(meta: dict[str, Any]) -> Callable[[int, int], bytes]:
    """Return a function that makes the META of further segments: meta, the segment's number and where it continues."""
    return lambda number, after: encode_plain({**meta, "segment": {"number": number, "after": after}})


def encode_small(value: Any, what: str) -> bytes:
    """Encode plain data for META or END. Raises TypeError or ValueError if it could not be read back from there."""
    encoded = encode_plain(value)
    decode_plain(encoded)
    if len(encoded) > META_BYTES_MAX:
        raise ValueError(f"{what} takes {len(encoded)} bytes, more than {META_BYTES_MAX}")
    return encoded


def exception_text(error: BaseException) -> str:
    """Describe the exception that ended a run, for END: always encodable text, of limited length."""
    try:
        message = str(error)
    except Exception as failed:  # noqa: BLE001 - the user's __str__ may raise anything, which must not hide the error
        message = f"its text cannot be had ({type(failed).__name__})"
    text = f"{type(error).__name__}: {message}"
    if len(text) > EXCEPTION_TEXT_MAX:
        text = f"{text[:EXCEPTION_TEXT_MAX]}… ({len(text):,} characters)"
    return text.encode("utf-8", "replace").decode("utf-8")


def end_outcome(simulation: Any, tick: int) -> dict[str, Any] | None:
    """Return the outcome of a run that the simulation itself reports as over at its present tick, else None.

    simulation: in either form, see inner_of. Raises TypeError if its ended() returns anything but two texts or None, and
    what ended() raises.
    """
    end = end_of(simulation if hook(simulation, CanEnd) is not None else inner_of(simulation))
    match end:
        case None:
            return None
        case (str(reason), str(text)):
            return {"reason": reason, "text": text, "ticks": tick}
    raise TypeError(f"ended(): expected a short name and a sentence, or None, got {end!r:.60}")


def known_outcome(
    simulation: Any, tick: int, otherwise: dict[str, Any], notify: Callable[[str], None]
) -> dict[str, Any]:
    """As end_outcome, or otherwise if the run is not over; and, after notify was called with the reason, if it raises."""
    try:
        end = end_outcome(simulation, tick)
        encode_small(end, "the end of the simulation")
    except Exception as error:  # noqa: BLE001 - the user's ended() may raise anything, which must not leave the tape unsealed
        notify(f"the simulation's end is unknown: {exception_text(error)}")
        return otherwise
    return otherwise if end is None else end


def new_session(
    files: Files,
    path: str | os.PathLike[str],
    meta: dict[str, Any],
    settings: RecordingOptions,
    baseline: Snapshot,
    tick: int = 0,
) -> Session:
    """Create the files of a new tape that begins with this state, of this tick.

    Raises as create_session, TypeError or ValueError.
    """
    meta_bytes = encode_small(meta, "the description of the world")
    run_id = settings.run_id or new_run_id(meta_bytes, baseline, deterministic=settings.deterministic)
    try:
        header = make_file_header(run_id, 0, 0, features_of(meta))
        session = create_session(files, SegmentEncoder(header, meta_bytes), meta, settings)
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise
    return attrs.evolve(session, tick=tick)


def create_session(files: Files, encoder: SegmentEncoder, meta: dict[str, Any], settings: RecordingOptions) -> Session:
    """Create the files of a new tape, with header and META in the first. Raises OSError and leaves no file then."""
    io = files.create(0)
    try:
        log = SegmentedLog(
            files,
            io,
            encoder,
            meta_maker(meta),
            syncs=settings.sync_interval_s is not None,
            record_durable=settings.sync_each_block or not settings.deterministic,
        )
        log.start()
        if settings.is_ring:
            log.put_rotation()  # The first segment holds the tape's name and META; the later ones are dropped in turn.
    except BaseException:
        files.discard()
        raise
    return Session(files, log, settings, encoder.header.run_id, meta, 0)


def new_run_id(meta_bytes: bytes, state: Snapshot, *, deterministic: bool) -> bytes:
    """Return 16 random bytes; if deterministic, a digest of META and the initial state."""
    content = meta_bytes + state.hash().to_bytes(8, "little")
    return new_digest(RUN_ID_BYTES, content).digest() if deterministic else os.urandom(RUN_ID_BYTES)


def abandon_writer(writer: Writer, journal: Journal | None, path: str) -> None:
    """Write what is left of a recording that was never closed, unsealed, and warn."""
    writer.stop()  # First: where warnings are errors, the code after them does not run.
    if journal is not None and not writer.has_failed:
        journal.close()
    if writer.seals:
        return  # Its close was only interrupted.
    warnings.warn(
        f"the recording {path} was never closed: its ticks are written, but the tape is not sealed; use "
        "with, or call close()",
        ResourceWarning,
        stacklevel=2,
    )
