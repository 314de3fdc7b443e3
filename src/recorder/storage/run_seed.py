"""The seed of a run at a tick, and the name of a desync's dump that is made of both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recorder.errors import CorruptError
from recorder.format.recording.recording import Recording

_MARKS = (b"reset", b"seed")  # Found in encoded inputs with a seed; inputs without them are not decoded.
_BITS_MAX = 128  # Of a seed in a name: NumPy's own seeds have as many. A longer one is left out.


def meta_seed(meta: Mapping[str, Any]) -> Any:
    """The entry ``seed`` of a tape's world, scenario or notes, of any type; None without one."""
    world = meta.get("world")
    for part in (world.get("config") if isinstance(world, Mapping) else None, meta.get("scenario"), meta.get("notes")):
        if isinstance(part, Mapping) and "seed" in part:
            return part["seed"]
    return None


def run_seed(meta: Mapping[str, Any], recording: Recording, tick: int) -> int | None:
    """The seed of the last reset with one, up to a tick; otherwise that of META; None without any."""
    seed = meta_seed(meta)
    if meta.get("adapter"):
        for run in recording.runs(recording.first_tick + 1, tick):
            for frame in run.frames:
                if any(mark in frame.encoded_inputs for mark in _MARKS):
                    found = _seed_of(frame)
                    seed = found if found is not None else seed
    return seed if _is_whole(seed) else None


def _seed_of(frame: Any) -> int | None:
    try:
        inputs = frame.inputs
    except CorruptError:
        return None  # The dump reports damage; only the name has no seed then.
    found = [inputs.get(name) for name in ("reset", "seed")] if isinstance(inputs, dict) else []
    return next((one for one in found if _is_whole(one)), None)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def dump_folder(tape: Path, kind: str, seed: int | None, tick: int) -> Path:
    """The folder next to a tape for a dump of a tick: ``run.desync-333``, with a seed ``run.desync_7_333``."""
    has_seed = seed is not None and seed.bit_length() <= _BITS_MAX
    return tape.with_name(f"{tape.stem}.{kind}_{seed}_{tick}" if has_seed else f"{tape.stem}.{kind}-{tick}")
