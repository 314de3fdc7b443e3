"""META, which describes how a tape was made, and the id of its run."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from recorder.ambient.outside.loaded_code import code_note
from recorder.ambient.outside.outside_note import KEY as OUTSIDE
from recorder.ambient.outside.outside_note import NotedReads, named_note, note_of
from recorder.environment import describe_environment
from recorder.format.blocks.changes_block import ensure_changes_fit
from recorder.format.blocks.file_header import RUN_ID_BYTES
from recorder.format.digests import new_digest
from recorder.format.limits import META_BYTES_MAX
from recorder.recording_options import FUNCTIONS, RecordingOptions
from recorder.session.blame_hashes import PhaseBlame
from sim.kernel.arithmetic.counter_rng import GENERATOR_NAME
from sim.kernel.class_names import importable_name
from sim.kernel.exactness import Level, level_of
from sim.kernel.hashing import HASH_NAME
from sim.kernel.hooks import HasAdapter, HasOrigin, HasScenario, hook
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.registry import Origin
from sim.kernel.simulation import emits_unrequested_events, events_of, inner_of
from sim.kernel.state import Snapshot


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
        meta[OUTSIDE] = {**note_of(noted), **code_note(simulation)}
        # Without a trial, nothing of files and variables is on the tape: a digest of what can be guessed is no secret.
        if settings.trial_ms or noted is not None:
            meta[OUTSIDE] |= named_note(adapted)
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


def new_run_id(meta_bytes: bytes, state: Snapshot, *, deterministic: bool) -> bytes:
    """Return 16 random bytes; if deterministic, a digest of META and the initial state."""
    content = meta_bytes + state.hash().to_bytes(8, "little")
    return new_digest(RUN_ID_BYTES, content).digest() if deterministic else os.urandom(RUN_ID_BYTES)
