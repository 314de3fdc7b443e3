"""A tape for each shard beside the tape of the whole, and the manifest that joins them.

The tapes hold the rows of each shard at every tick, by changes: they are read without the simulation. The inputs of each are
those of the whole, and the hash of the whole state; the first has its events and figures. So the whole can be joined from them
alone, and its states proved. The folder ``NAME.shards`` beside the tape ``NAME`` has them, and the manifest, which is written
last: without it there are none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from recorder.location.shards_manifest import (
    MANIFEST_NAME,
    MANIFEST_VERSION,
    digest_of,
    shard_tape_name,
    shards_folder,
)
from recorder.recording_options import FUNCTIONS, RecordingOptions
from recorder.session.recorder import Recorder
from recorder.storage.atomic_file import make_folder, write_file
from recorder.storage.open_tape import OpenTape
from sim.kernel.hooks import HasTelemetry, hook
from sim.kernel.simulation import Simulation, events_of
from sim.kernel.state import State
from sim.sharding import PartedPlan, ShardRun, Stripes


class ShardPart:
    """The part of one shard as a simulation: each step takes it out of the whole state, which another one advances."""

    def __init__(self, plan: PartedPlan, whole: State, stripes: Stripes, shard: int) -> None:
        self._plan, self._whole, self.stripes, self._shard = plan, whole, stripes, shard
        self.state = State(plan.part_schema(whole, stripes, shard))
        self.step(None)

    def step(self, inputs: Any) -> None:
        """Take the part out of the whole state."""
        del inputs
        self._plan.write_part(self._whole, self.stripes, self._shard, self.state)


class FirstShardPart(ShardPart):
    """The part of the first shard, with the figures and the events of the whole, which are no shard's own."""

    def __init__(self, plan: PartedPlan, whole: Simulation, stripes: Stripes) -> None:
        """whole: the simulation that advances the whole state."""
        super().__init__(plan, whole.state, stripes, 0)
        self._reporting, self._events = hook(whole, HasTelemetry), events_of(whole)

    def telemetry(self) -> Mapping[str, int | float]:
        """The figures of the whole; none if it has none."""
        return self._reporting.telemetry() if self._reporting is not None else {}

    def events(self) -> Sequence[dict[str, Any]]:
        """The events of the last step of the whole. Asked for only if the tape of the whole has them, too."""
        return list(self._events()) if self._events is not None else []


class ShardTapes:
    """Records the tapes of all shards of a run."""

    def __init__(self, tape: Path, shards: ShardRun, whole: Simulation, tick: int, meta: Mapping[str, Any]) -> None:
        """Begin the tapes. tape, meta: of the whole, a simulation at this tick. Raises FileExistsError, OSError."""
        state = whole.state
        self._tape, self._stripes, self._state, self._ticks = tape, shards.stripes, state, (tick, tick)
        self._last_hash = state.hash()
        with OpenTape(tape) as opened:
            self._run_id = opened.assemble().run_id.hex()
        folder = shards_folder(tape)
        if folder.exists():
            raise FileExistsError(f"{folder} already exists")
        make_folder(folder)
        options = RecordingOptions(mode="changes", trial_ms=0, changes="scan")
        plan: Any = shards.plan
        with_events = meta.get("event_stream") is True and "events" not in meta.get(FUNCTIONS, ())
        self._recorders = [
            Recorder.beginning_at(
                folder / shard_tape_name(shard),
                ShardPart(plan, state, self._stripes, shard) if shard else FirstShardPart(plan, whole, self._stripes),
                tick,
                attrs.evolve(
                    options,
                    events=with_events if not shard else None,
                    notes={"shard": shard, "shards": self._stripes.count, "whole": dict(meta)},
                ),
            )
            for shard in range(self._stripes.count)
        ]

    def watch(self, tick: int, encoded_inputs: bytes) -> None:
        """Record the tick that the whole has just reached, by these inputs, as encode_plain writes them."""
        self._ticks, self._last_hash = (self._ticks[0], tick), self._state.hash()
        for one in self._recorders:
            one.step({"inputs": encoded_inputs, "whole": self._last_hash})

    def abandon(self) -> None:
        """Seal the tapes without a manifest: the run has failed."""
        for one in self._recorders:
            one.close()

    def close(self) -> Path:
        """Seal the tapes and write the manifest; return its path."""
        self.abandon()
        folder = shards_folder(self._tape)
        paths = [folder / shard_tape_name(shard) for shard in range(self._stripes.count)]
        manifest = {
            "version": MANIFEST_VERSION,
            "whole": self._tape.name,
            "run_id": self._run_id,
            "first_tick": self._ticks[0],
            "last_tick": self._ticks[1],
            "last_hash": f"{self._last_hash:016x}",
            "cuts": list(self._stripes.cuts),
            "halo": self._stripes.halo,
            "tapes": [{"name": path.name, "bytes": path.stat().st_size, "blake2b": digest_of(path)} for path in paths],
        }
        path = folder / MANIFEST_NAME
        write_file(path, json.dumps(manifest, indent=1) + "\n", existing="refuse")
        return path


@contextmanager
def shard_tapes_beside(recorder: Recorder) -> Iterator[Callable[[int, bytes], None] | None]:
    """Record the tapes of the shards of a simulation in shards; yield what is called after each step, see ShardTapes.watch.

    Another simulation, and one with a scenario around it, has none. Raises as ShardTapes.
    """
    shards = getattr(recorder.simulation, "shards", None)
    if not isinstance(shards, ShardRun):
        yield None
        return
    tapes = ShardTapes(Path(recorder.path), shards, recorder.simulation, recorder.tick, recorder.meta)
    try:
        yield tapes.watch
    except BaseException:
        tapes.abandon()
        raise
    tapes.close()
