"""The tape of the whole of a run in shards, joined from the tapes of its shards where it is missing.

Each state is joined from the parts of all shards, and has the hash of the whole that each of them recorded with that tick. The
inputs are those that each shard recorded, the events and figures those that the first one recorded. So the tape is that of the
run: its ticks, hashes and run id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.frame import Frame
from recorder.format.recording.change_replay import blocks_of
from recorder.recording_options import FUNCTIONS
from recorder.scenarios.shards.checked_manifest import ShardTapesError
from recorder.storage.tape_copy import TapeCopy
from replayer.tape.copied_range import copy_events, copy_telemetry
from replayer.tape.tape import Tape
from replayer.timeline.shards.shard_parts import ShardParts, WholeFacts
from replayer.timeline.timeline import Timeline
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.state import State

KEYFRAME_TICKS = 300
# Facts of META about what parts do not have.
_NOT_JOINED = ("segment", "phases", FUNCTIONS, "cut", "joined", "rekeyed")
_FRAMES = 256  # Written together.


def write_whole(
    parts: ShardParts, facts: WholeFacts, target: Path, progress: Callable[[float], None] = lambda _: None
) -> None:
    """Join the tapes of shards into the tape of the whole. progress: takes the number of ticks so far.

    parts, facts: see ShardParts.alone. Raises ShardTapesError if they are not of one run, FileExistsError, OSError,
    RecordingError.
    """
    with ExitStack() as stack:
        runs = [stack.enter_context(Timeline(path)) for path in parts.paths]
        meta = _meta_of(facts, runs[0].tape)
        copy = stack.enter_context(TapeCopy(target, bytes.fromhex(facts.run_id), meta))
        copy.full(parts.first_tick, parts.joined([run.at(parts.first_tick) for run in runs]).snapshot())
        frames: list[Frame] = []
        for frame, state in _ticks(parts, runs):
            frames.append(frame)
            if len(frames) == _FRAMES or (frame.tick - parts.first_tick) % KEYFRAME_TICKS == 0:
                copy.frames(frames)
                frames = []
            if (frame.tick - parts.first_tick) % KEYFRAME_TICKS == 0:
                copy.full(frame.tick, state.snapshot())
            progress(frame.tick - parts.first_tick)
        copy.frames(frames)
        _copy_outputs(runs[0].tape, copy, parts)
        copy.finish({"reason": "joined from shards", "ticks": parts.last_tick})


def _copy_outputs(first: Tape, copy: TapeCopy, parts: ShardParts) -> None:
    copy_events(first, copy, parts.first_tick, parts.last_tick)
    for block in blocks_of(first.recording, BlockKind.TELEMETRY):
        copy_telemetry(block, copy, parts.first_tick, parts.last_tick)


def _ticks(parts: ShardParts, runs: list[Timeline]) -> Iterator[tuple[Frame, State]]:
    """Yield each tick after the first: its frame, and the whole state. Raises as write_whole does."""
    for tick in range(parts.first_tick + 1, parts.last_tick + 1):
        noted = [_noted(run.tape, tick) for run in runs]
        if any(one != noted[0] for one in noted):
            number = next(number for number, one in enumerate(noted) if one != noted[0])
            raise ShardTapesError(
                f"{parts.paths[number]} is of another run than {parts.paths[0].name}: at tick {tick:,} it recorded other "
                "inputs, or another hash of the whole"
            )
        encoded, whole_hash = noted[0]
        state = parts.joined([run.at(tick) for run in runs])
        if state.hash() != whole_hash:
            raise ShardTapesError(
                f"{parts.paths[0].parent}: the parts of tick {tick:,} together have the hash {state.hash():016x}, but the "
                f"whole had {whole_hash:016x}"
            )
        yield Frame(tick, whole_hash, encoded), state


def _noted(tape: Tape, tick: int) -> tuple[bytes, int]:
    """The inputs of the whole at a tick, encoded, and the hash of its state, as a shard recorded them."""
    match tape.frame(tick).inputs:
        case {"inputs": bytes(encoded), "whole": int(whole_hash)}:
            try:
                decode_plain(encoded)
            except ValueError:
                pass
            else:
                return encoded, whole_hash
    raise ShardTapesError(f"{tape.path} is not the tape of a shard: at tick {tick:,} it has no inputs of the whole")


def _meta_of(facts: WholeFacts, first: Tape) -> bytes:
    meta: dict[str, Any] = {key: value for key, value in facts.meta.items() if key not in _NOT_JOINED}
    if "event_stream" in meta:
        meta["event_stream"] = first.meta.get("event_stream") is True  # Shards of earlier versions recorded no events.
    return encode_plain({**meta, "mode": "events", "joined_from": first.path.parent.name})
