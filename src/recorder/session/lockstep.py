"""Compare the hashes of a live run, tick by tick, with those of peers in lockstep; write a dump of each divergence.

Processes in lockstep send each other (tick, hash) and pass what they receive to Recorder.report_hash. At the first hash
that differs the dump is written before the simulation continues. Later hashes that differ are counted, until the two
agree again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import attrs

from recorder.environment import describe_environment
from recorder.errors import MissingTickError, PeerDesyncError, RecordingError, RecordingWarning
from recorder.format.blocks.block import BlockKind
from recorder.format.recording.assembly import Assembled
from recorder.format.recording.stored_sections import StoredSections
from recorder.settings import OnDesync
from recorder.storage.atomic_folder import write_folder
from recorder.storage.open_tape import OpenTape
from recorder.storage.run_seed import dump_folder, run_seed
from recorder.storage.tape_copy import TapeCopy, copied_meta
from recorder.writer.writer import Writer
from sim.kernel.merkle_tree import MerkleTree
from sim.kernel.state import Snapshot
from sim.user_warning import warn_user

WAITING_MAX = 100_000  # Hashes of future ticks; a peer that is further ahead is not in lockstep.
TREE_NAME, RUN_NAME, FACTS_NAME = "tree.json", "run.tape", "desync.json"  # Files of a dump.
KEPT_TICKS = 1024  # Own hashes in memory; those of older ticks are read from the tape.
DUMPS_MAX = 8  # Of one recorder: a run that diverges and agrees again all the time must not fill the disk.

Peer = str | int | None


@attrs.define
class PeerDivergence:
    """The ticks from the first at which a peer has a different state until the two agree again.

    Attributes:
        peer: the name of the peer; None if it was given none.
        first_tick, last_tick: the first and the last tick whose hashes differ.
        ticks: the number of hashes that differ.
        dump_path: the folder of the dump; None if it could not be written, or if there are DUMPS_MAX already.
    """

    peer: Peer
    first_tick: int
    last_tick: int
    ticks: int = 1
    dump_path: Path | None = None


@attrs.define
class _Side:
    """A peer as it is known: the last tick on which both agree, and the last divergence."""

    agreed_tick: int = -1
    divergence: PeerDivergence | None = None

    def continued(self, tick: int) -> PeerDivergence | None:
        """The divergence that a tick belongs to: hashes may be late, and those before an agreement are old."""
        last = self.divergence
        if last is None or last.last_tick < self.agreed_tick < tick:
            return None
        return last


class PeerHashes:
    """The hashes that peers reported, and our own.

    Attributes:
        divergences: in the order in which they were noticed.
    """

    def __init__(self, tape: Path, writer: Writer, on_desync: OnDesync) -> None:
        self._tape = tape
        self._writer = writer
        self._on_desync = on_desync
        self._own: dict[int, int] = {}
        self._waiting: dict[int, dict[Peer, int]] = {}
        self._sides: dict[Peer, _Side] = {}
        self._dump_count = 0
        self.divergences: list[PeerDivergence] = []

    def report(
        self, tick: int, state_hash: int, now: int, snapshot: Callable[[], Snapshot], peer: Peer = None
    ) -> PeerDivergence | None:
        """Compare a peer's hash of a tick with ours, at once or when the run reaches it; see Recorder.report_hash."""
        if tick > now:
            if len(self._waiting) >= WAITING_MAX:
                raise ValueError(
                    f"expected at most {WAITING_MAX:,} hashes of ticks after tick {now:,}, "
                    f"got one more, of tick {tick:,}: the peer is not in lockstep"
                )
            self._waiting.setdefault(tick, {})[peer] = state_hash
            return None
        own = self._own.get(tick)
        own = own if own is not None else self._read(tick)
        error = self._compare(tick, own, state_hash, now, snapshot, peer)
        if error is not None:
            self._tell(error)
        return None if own == state_hash else self._sides[peer].divergence

    def arrive(self, tick: int, own: int, snapshot: Callable[[], Snapshot]) -> None:
        """Note our own hash of the tick just recorded. Raises PeerDesyncError if a peer reported a different one.

        Each peer is told of before the first error is raised; further ones are its notes, and its ``others``.
        """
        self._own[tick] = own
        self._own.pop(tick - KEPT_TICKS, None)
        reported = self._waiting.pop(tick, {})
        compared = [self._compare(tick, own, theirs, tick, snapshot, peer) for peer, theirs in reported.items()]
        raised: list[Exception] = []
        for error in compared:
            if error is not None:
                try:
                    self._tell(error)
                except Exception as one:  # noqa: BLE001 - raised below: a function of the user's raises what it likes
                    raised.append(one)
        if raised:
            first, *others = raised
            for other in others:
                first.add_note("; ".join([f"also: {other}", *getattr(other, "__notes__", ())]))
            if isinstance(first, PeerDesyncError):
                first.others = tuple(one for one in others if isinstance(one, PeerDesyncError))
            raise first

    def _read(self, tick: int) -> int:
        """Read our own hash of an older tick. Raises MissingTickError if the tape no longer has it."""
        self._writer.flush(sync=False)
        with OpenTape(self._tape) as opened:
            return opened.assemble().recording.state_hash(tick)

    def _compare(
        self, tick: int, own: int, reported: int, now: int, snapshot: Callable[[], Snapshot], peer: Peer
    ) -> PeerDesyncError | None:
        """Compare two hashes; returns an error, with its dump, if a divergence begins with them."""
        side = self._sides.setdefault(peer, _Side())
        if own == reported:
            side.agreed_tick = max(side.agreed_tick, tick)
            return None
        current = side.continued(tick)
        if current is not None:
            current.ticks += tick != current.last_tick
            current.first_tick, current.last_tick = min(current.first_tick, tick), max(current.last_tick, tick)
            return None
        side.divergence = PeerDivergence(peer, tick, tick)
        self.divergences.append(side.divergence)
        error = PeerDesyncError(tick, own, reported)
        error.divergence = side.divergence
        if self._dump_count == DUMPS_MAX:
            error.add_note(f"no dump was written: {DUMPS_MAX} dumps of earlier divergences exist")
            return error
        try:
            self._writer.flush(sync=False)
            agreed_tick = side.agreed_tick if side.agreed_tick < tick else -1
            error.dump_path = write_peer_dump(self._tape, tick, own, reported, agreed_tick, now, snapshot(), peer)
            side.divergence.dump_path = error.dump_path
            self._dump_count += 1
        except (OSError, RecordingError) as failed:
            error.add_note(f"the dump could not be written: {failed}")
        return error

    def _tell(self, error: PeerDesyncError) -> None:
        if self._on_desync == "raise":
            raise error
        if callable(self._on_desync):
            self._on_desync(error)
            return
        text = "; ".join([f"{self._tape}: {error}", *getattr(error, "__notes__", ())])
        warn_user(text, RecordingWarning)  # The caller of step or report_hash.


def write_peer_dump(
    tape: Path,
    tick: int,
    own: int,
    reported: int,
    agreed_tick: int,
    now: int,
    snapshot: Snapshot,
    peer: Peer = None,
) -> Path:
    """Write the dump of a desync with a peer into a folder next to the tape. An existing dump of the tick is kept.

    It holds ``run.tape`` (the run from the last keyframe on which both agree to now, and the state now), ``tree.json``
    (the hashes of the state now, see MerkleTree) and ``desync.json``. Raises OSError, RecordingError.
    """
    with OpenTape(tape) as opened:
        assembled = opened.assemble()
        seed = run_seed(assembled.meta, assembled.recording, tick)
        facts = {
            "tick": tick,
            "seed": seed,
            "peer": peer,
            "own_hash": f"{own:016x}",
            "peer_hash": f"{reported:016x}",
            "last_agreed_tick": agreed_tick if agreed_tick >= 0 else None,
            "tick_now": now,
            "environment": describe_environment(),
        }

        def write(folder: Path) -> None:
            (folder / FACTS_NAME).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
            write_tree(folder, now, snapshot)
            _cut_run(assembled, tape.name, folder / RUN_NAME, tick - 1, now, snapshot)

        folder = dump_folder(tape, "peer-desync", seed, tick)
        return write_folder(folder, write, files={FACTS_NAME, TREE_NAME, RUN_NAME})


def write_tree(folder: Path, tick: int, snapshot: Snapshot) -> None:
    """Write the hashes of a state into the folder of a dump, for comparison with another dump. Raises OSError."""
    tree = {"tick": tick, **MerkleTree.of(snapshot).to_plain()}
    (folder / TREE_NAME).write_text(json.dumps(tree) + "\n", encoding="utf-8")


def _cut_run(assembled: Assembled, name: str, target: Path, first_needed: int, last_tick: int, last: Snapshot) -> None:
    """Copy the part of a recording from the keyframe at or before first_needed to last_tick, whose state is last.

    name: of the tape. Raises OSError, RecordingError; MissingTickError if no keyframe leads there.
    """
    recording = assembled.recording
    keyframe = next(recording.keyframes_at_or_before(max(first_needed, recording.first_tick)), None)
    if keyframe is None:
        raise MissingTickError(first_needed, "there is no keyframe before it")
    with TapeCopy(target, assembled.run_id, copied_meta(assembled, cut={"from": name})) as copy:
        copy.full(keyframe.tick, recording.snapshot(keyframe))
        copy.frames([recording.frame(tick) for tick in range(keyframe.tick + 1, last_tick + 1)])
        if last_tick > keyframe.tick:
            copy.full(last_tick, last)
        for start, payload in StoredSections(recording).payloads(keyframe.tick, last_tick):
            copy.optional_payload(BlockKind.AUX, payload, start)
        copy.finish({"reason": "peer desync", "ticks": last_tick})
