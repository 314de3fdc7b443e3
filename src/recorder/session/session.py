"""What a recorder goes on with: open files, a log, settings; and META, which says how it all was made."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs

from recorder.environment import describe_environment
from recorder.format.blocks.changes_block import ensure_changes_fit
from recorder.format.blocks.file_header import RUN_ID_BYTES, features_of, make_file_header
from recorder.format.digests import new_digest
from recorder.format.limits import META_BYTES_MAX
from recorder.format.segments.segment_encoder import SegmentEncoder
from recorder.recording_options import RecordingOptions
from recorder.session.blame_hashes import PhaseBlame
from recorder.storage.segmented_log import SegmentedLog
from recorder.storage.tape_files import Files
from recorder.writer.journal import Journal
from recorder.writer.writer import Writer
from sim.kernel.arithmetic.counter_rng import GENERATOR_NAME
from sim.kernel.exactness import Level, level_of
from sim.kernel.hashing import HASH_NAME
from sim.kernel.hooks import HasAdapter, HasOrigin, HasScenario, hook
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.registry import Origin
from sim.kernel.simulation import emits_unrequested_events, events_of, inner_of
from sim.kernel.state import Snapshot

EXCEPTION_TEXT_MAX = 4000  # Characters; some exceptions print whole arrays.


@attrs.frozen
class Session:
    """One time that a tape is open for writing.

    Attributes:
        files, log: of the tape.
        settings: how it is recorded.
        run_id: 16 bytes.
        described: META, without what is about single files.
        tick: the last one on the tape; 0 for a new one, whose first keyframe is still to come.
    """

    files: Files
    log: SegmentedLog
    settings: RecordingOptions
    run_id: bytes
    described: dict[str, Any]
    tick: int


@attrs.frozen
class Resumed:
    """What was found when a tape was opened again.

    Attributes:
        tick: the last one on it, from which the recording goes on.
        keyframe_tick: from which the state of that tick was made.
        torn_file: where the torn tail was kept; None if there was none.
        journal_ticks: how many ticks came from the journal.
    """

    tick: int
    keyframe_tick: int
    torn_file: str | None
    journal_ticks: int


def describe(simulation: object, adapted: Any, settings: RecordingOptions) -> dict[str, Any]:
    """META: what a reader needs to build the simulation again and to judge a difference.

    settings: with the hashes chosen.

    Raises ValueError for events of a simulation that has none, or changes that a tape cannot hold.
    """
    if settings.mode == "changes":
        ensure_changes_fit(adapted.state.layout)
    from_world, staged = hook(adapted, HasOrigin), hook(adapted, HasScenario)
    origin = from_world.origin if from_world is not None else None
    scenario = staged.scenario if staged is not None else None
    adapter, level = _adapter_of(adapted), level_of(adapted)
    # A scenario is around something that has a name; an empty one is one, too: its fields are in the state.
    named = type(inner_of(adapted.inner) if scenario is not None else simulation)
    described: dict[str, Any] = {
        "world": origin.described() if isinstance(origin, Origin) else None,
        **({"scenario": dict(scenario)} if scenario is not None else {}),
        "simulation": adapter["class"] if adapter is not None else f"{named.__module__}.{named.__qualname__}",
        "mode": settings.mode,
        **({"level": level.value} if adapter is not None or level is not Level.EXACT else {}),
        **({"adapter": adapter} if adapter is not None else {}),
        "hash": HASH_NAME,
        "random": GENERATOR_NAME,
        "settings": settings.to_meta(),
        "notes": dict(settings.notes or {}),
    }
    events = settings.events
    if events_of(adapted) is not None:
        described["event_stream"] = emits_unrequested_events(adapted) if events is None else events
    elif events:
        raise ValueError(f"events=True: {named.__qualname__} has no events() that could be recorded")
    if settings.blame == "phases":
        described["phases"] = PhaseBlame(adapted).names
    if not settings.deterministic:
        described["environment"] = describe_environment()
        described["created"] = datetime.now(UTC).isoformat(timespec="seconds")
    return described


def _adapter_of(adapted: Any) -> dict[str, Any] | None:
    """What an adapter says for META, of a simulation with an arena or in the save/load form."""
    for one in (adapted, inner_of(adapted)):
        found = hook(one, HasAdapter)
        told: Any = found.adapter if found is not None else None
        if told:
            return told if isinstance(told, dict) else None
    return None


def meta_maker(described: dict[str, Any]) -> Callable[[int, int], bytes]:
    """What makes the META payloads of further segments: the same, and where the segment goes on from."""
    return lambda number, after: encode_plain({**described, "segment": {"number": number, "after": after}})


def encode_small(value: Any, what: str) -> bytes:
    """Plain data that goes into META or END. Raises TypeError or ValueError if it cannot be read back from there."""
    encoded = encode_plain(value)
    decode_plain(encoded)
    if len(encoded) > META_BYTES_MAX:
        raise ValueError(f"{what} takes {len(encoded)} bytes, more than {META_BYTES_MAX}")
    return encoded


def exception_text(error: BaseException) -> str:
    """What ended a run, for END: always text that can be written down, and not more than is worth reading."""
    try:
        said = str(error)
    except Exception as failed:  # noqa: BLE001 - it is the user's code, and not what is to be told about
        said = f"its text cannot be had ({type(failed).__name__})"
    text = f"{type(error).__name__}: {said}"
    if len(text) > EXCEPTION_TEXT_MAX:
        text = f"{text[:EXCEPTION_TEXT_MAX]}… ({len(text):,} characters)"
    return text.encode("utf-8", "replace").decode("utf-8")


def new_session(
    files: Files,
    path: str | os.PathLike[str],
    described: dict[str, Any],
    settings: RecordingOptions,
    baseline: Snapshot,
) -> Session:
    """The files of a new tape that begins with a state. Raises as create_session does, TypeError or ValueError."""
    meta = encode_small(described, "the description of the world")
    run_id = settings.run_id or new_run_id(meta, baseline, deterministic=settings.deterministic)
    try:
        header = make_file_header(run_id, 0, 0, features_of(described))
        return create_session(files, SegmentEncoder(header, meta), described, settings)
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise


def create_session(
    files: Files, encoder: SegmentEncoder, described: dict[str, Any], settings: RecordingOptions
) -> Session:
    """The files of a new tape, with header and META in the first. Raises OSError; nothing is left behind then."""
    io = files.create(0)
    try:
        log = SegmentedLog(
            files,
            io,
            encoder,
            meta_maker(described),
            syncs=settings.sync_interval_s is not None,
            tell_durable=settings.sync_each_block or not settings.deterministic,
        )
        log.start()
        if settings.is_ring:
            log.put_rotation()  # The first segment keeps the tape's name and META; the others come and go.
    except BaseException:
        files.discard()
        raise
    return Session(files, log, settings, encoder.header.run_id, described, 0)


def new_run_id(meta: bytes, state: Snapshot, *, deterministic: bool) -> bytes:
    """16 random bytes; deterministic: such as come from META and the state at the start."""
    content = meta + state.hash().to_bytes(8, "little")
    return new_digest(RUN_ID_BYTES, content).digest() if deterministic else os.urandom(RUN_ID_BYTES)


def abandon_writer(writer: Writer, journal: Journal | None, path: str) -> None:
    """Write what is left of a recording that nobody closes, unsealed, and warn."""
    writer.stop()  # First: where warnings are errors, nothing comes after them.
    if journal is not None and not writer.has_failed:
        journal.close()
    if writer.seals:
        return  # Its close was only interrupted.
    warnings.warn(
        f"the recording {path} was never closed: its ticks are written, it is not sealed", ResourceWarning, stacklevel=2
    )
