"""Compare the hashes of a live run, tick by tick, with those of a peer in lockstep; write a dump of a desync.

Two processes in lockstep send each other (tick, hash) and pass what they receive to Recorder.report_hash. At the first
hash that differs the dump is written before the simulation continues.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from recorder.environment import describe_environment
from recorder.errors import MissingTickError, PeerDesyncError, RecordingError
from recorder.storage.atomic_folder import write_folder
from recorder.storage.open_tape import OpenTape
from recorder.storage.tape_copy import TapeCopy, copied_meta
from sim.kernel.merkle_tree import MerkleTree
from sim.kernel.state import Snapshot

WAITING_MAX = 100_000  # Hashes of future ticks; a peer that is further ahead is not in lockstep.
TREE_NAME, RUN_NAME, FACTS_NAME = "tree.json", "run.tape", "desync.json"  # Files of a dump.
KEPT_TICKS = 1024  # Own hashes in memory; those of older ticks are read from the tape.


class PeerHashes:
    """The hashes that a peer reported, and our own."""

    def __init__(self, tape: Path, flush: Callable[[], None]) -> None:
        """flush: returns when all recorded ticks can be read from the tape."""
        self._tape = tape
        self._flush = flush
        self._own: dict[int, int] = {}
        self._waiting: dict[int, int] = {}
        self.agreed_tick = -1

    def report(self, tick: int, state_hash: int, now: int, snapshot: Callable[[], Snapshot]) -> None:
        """Compare a peer's hash of a tick with ours, at once or when the run reaches it; see Recorder.report_hash."""
        if tick > now:
            if len(self._waiting) >= WAITING_MAX:
                raise ValueError(
                    f"expected at most {WAITING_MAX:,} hashes of ticks after tick {now:,}, "
                    f"got one more, of tick {tick:,}: the peer is not in lockstep"
                )
            self._waiting[tick] = state_hash
            return
        own = self._own.get(tick)
        self._compare(tick, own if own is not None else self._read(tick), state_hash, now, snapshot)

    def arrive(self, tick: int, own: int, snapshot: Callable[[], Snapshot]) -> None:
        """Note our own hash of the tick just recorded. Raises PeerDesyncError if a peer reported a different one."""
        self._own[tick] = own
        self._own.pop(tick - KEPT_TICKS, None)
        reported = self._waiting.pop(tick, None)
        if reported is not None:
            self._compare(tick, own, reported, tick, snapshot)

    def _read(self, tick: int) -> int:
        """Read our own hash of an older tick. Raises MissingTickError if the tape no longer has it."""
        self._flush()
        with OpenTape(self._tape) as opened:
            return opened.assemble().recording.state_hash(tick)

    def _compare(self, tick: int, own: int, reported: int, now: int, snapshot: Callable[[], Snapshot]) -> None:
        if own == reported:
            self.agreed_tick = max(self.agreed_tick, tick)
            return
        try:
            self._flush()
            dump = write_peer_dump(self._tape, tick, own, reported, self.agreed_tick, now, snapshot())
        except (OSError, RecordingError) as error:
            desync = PeerDesyncError(tick, own, reported)
            desync.add_note(f"the dump could not be written: {error}")
            raise desync from None
        raise PeerDesyncError(tick, own, reported, dump)


def write_peer_dump(
    tape: Path, tick: int, own: int, reported: int, agreed_tick: int, now: int, snapshot: Snapshot
) -> Path:
    """Write the dump of a desync with a peer into a folder next to the tape. An existing dump of the tick is kept.

    It holds ``run.tape`` (the run from the last keyframe on which both agree to now, and the state now), ``tree.json``
    (the hashes of the state now, see MerkleTree) and ``desync.json``. Raises OSError, RecordingError.
    """
    facts = {
        "tick": tick,
        "own_hash": f"{own:016x}",
        "peer_hash": f"{reported:016x}",
        "last_agreed_tick": agreed_tick if agreed_tick >= 0 else None,
        "tick_now": now,
        "environment": describe_environment(),
    }

    def write(folder: Path) -> None:
        (folder / FACTS_NAME).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        write_tree(folder, now, snapshot)
        cut_run(tape, folder / RUN_NAME, tick - 1, now, snapshot)

    folder = tape.with_name(f"{tape.stem}.peer-desync-{tick}")
    return write_folder(folder, write, files={FACTS_NAME, TREE_NAME, RUN_NAME})


def write_tree(folder: Path, tick: int, snapshot: Snapshot) -> None:
    """Write the hashes of a state into the folder of a dump, for comparison with another dump. Raises OSError."""
    tree = {"tick": tick, **MerkleTree.of(snapshot).to_plain()}
    (folder / TREE_NAME).write_text(json.dumps(tree) + "\n", encoding="utf-8")


def cut_run(source: Path, target: Path, first_needed: int, last_tick: int, last: Snapshot) -> None:
    """Copy the part of a recording from the keyframe at or before first_needed to last_tick, whose state is last.

    Raises OSError, RecordingError; MissingTickError if no keyframe leads there.
    """
    with OpenTape(source) as opened:
        assembled = opened.assemble()
        recording = assembled.recording
        keyframe = next(recording.keyframes_at_or_before(max(first_needed, recording.first_tick)), None)
        if keyframe is None:
            raise MissingTickError(first_needed, "there is no keyframe before it")
        with TapeCopy(target, assembled.run_id, copied_meta(assembled, cut={"from": source.name})) as copy:
            copy.full(keyframe.tick, recording.snapshot(keyframe))
            copy.frames([recording.frame(tick) for tick in range(keyframe.tick + 1, last_tick + 1)])
            if last_tick > keyframe.tick:
                copy.full(last_tick, last)
            copy.finish({"reason": "peer desync", "ticks": last_tick})
