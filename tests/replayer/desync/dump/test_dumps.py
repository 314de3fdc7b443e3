"""Dumps are tapes that reproduce the divergent tick; two dumps are compared by their trees of hashes."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
import replayer.commands.main
from recorder import MissingTickError, PeerDesyncError, Recorder
from recorder.session.lockstep import DUMPS_MAX
from recorder.storage.run_seed import dump_folder, run_seed
from replayer.desync.dump.differences_csv import LINES_MAX, write_differences
from replayer.desync.dump.dump_tapes import diff_dumps
from replayer.tape.tape import Tape
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State
from sim.kernel.merkle_tree import BLOCK_BYTES, MerkleTree, find_differing_leaves

from oracle.command_lines import run
from small_worlds import Walkers


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Wrong(Walkers):
    """Walkers that are wrong at one tick."""

    def __init__(self, wrong_tick: int = 29) -> None:
        super().__init__()
        self.wrong_tick = wrong_tick

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["rng"][2] == self.wrong_tick * 40:
            self.state["y"][7] ^= 4


@pytest.mark.seldom(0.15)
def test_a_dump_reproduces_the_bad_tick_alone() -> None:
    """Its first keyframe is the agreed state before the tick; verifying it needs one step."""
    with Recorder("run.tape", Walkers(), keyframe_interval_ticks=10) as tape:
        for tick in range(1, 41):
            tape.step([[tick % 20, 2]])
    report = verify_tape("run.tape", Wrong, dump_folder=Path("dumps"))
    assert report.dump_path == Path("dumps/run.desync-29")
    cut = verify_tape(report.dump_path / "reproduction.tape", Wrong)
    assert (cut.first_bad, cut.verified_ticks) == (29, 1)
    assert verify_tape(report.dump_path / "reproduction.tape", Walkers).ok
    with (
        replayer.open("run.tape", Walkers) as whole,
        replayer.open(report.dump_path / "reproduction.tape", Walkers) as one,
    ):
        assert (one.first_tick, one.last_tick) == (28, 39)
        assert one[28].hash() == whole[28].hash()
    with Tape(report.dump_path / "state.tape") as state:
        (place,) = state.keyframes
        assert (place.tick, state.snapshot(place).hash()) == (29, report.findings[0].actual_hash)


@pytest.mark.seldom(0.18)
def test_a_dump_has_the_sections_that_others_kept() -> None:
    """A camera or a script may be the cause: dumps of a replay and of a live peer have those of the tick (002)."""
    camera = {"x": 0}

    def sections(world: Any) -> dict[str, Any]:
        return {"camera": dict(camera), "sum": int(world.state["x"].sum())}

    with Recorder("run.tape", Walkers(), keyframe_interval_ticks=10, aux=sections) as tape:
        for tick in range(1, 41):
            camera["x"] = tick // 3
            tape.step([[tick % 20, 2]])
        with pytest.raises(PeerDesyncError):
            tape.report_hash(37, 1)
    folder = verify_tape("run.tape", Wrong, dump_folder=Path("dumps")).dump_path
    assert folder is not None
    (live,) = Path().glob("*peer-desync*/run.tape")
    with Tape("run.tape") as whole:
        for path, ticks in ((folder / "state.tape", [29]), (folder / "reproduction.tape", [28, 39]), (live, [37, 40])):
            with Tape(path) as part:
                assert [part.aux[tick] for tick in ticks] == [whole.aux[tick] for tick in ticks]


def test_differences_are_a_table() -> None:
    """Every element that differs, with values that can be parsed, and ULPs of floats."""
    schema = Schema(Field("f", "f8", (2, 3)), Field("n", "i8", (4,)), Field("same", "i8", (2,)))
    one, two = State(schema), State(schema)
    one["f"][:] = [[1.0, 0.1, np.nan], [2.0, -0.0, 5.0]]
    two["f"][:] = [[np.nextafter(1.0, 2), 0.1, 1.0], [2.0, 0.0, 5.0]]
    two["n"][3] = -7
    write_differences(Path("d.csv"), one.snapshot(), two.snapshot())
    assert Path("d.csv").read_text().splitlines() == [
        "field,index,recorded,replayed,ulps",
        "f,0 0,1.0,1.0000000000000002,1",
        "f,0 2,nan,1.0,",
        "f,1 1,-0.0,0.0,0",
        "n,3,0,-7,",
    ]


@pytest.mark.parametrize("count", [LINES_MAX, LINES_MAX + 1])
def test_a_table_of_differences_has_an_end(count: int) -> None:
    """At most LINES_MAX lines."""
    one, two = (State(Schema(Field("n", "i8", (count,)))) for _ in range(2))
    two["n"][:] = 1
    write_differences(Path("d.csv"), one.snapshot(), two.snapshot())
    assert len(Path("d.csv").read_text().splitlines()) == 1 + LINES_MAX


# --- peers


def lockstep(wrong_tick: int, late: int = 0) -> tuple[list[PeerDesyncError], int]:
    """Two runs that exchange their hashes, late ticks later; returns the error, and its tick."""
    sides = Recorder("one.tape", Walkers(), keyframe_interval_ticks=5), Recorder("two.tape", Wrong(wrong_tick))
    said: list[tuple[int, int, int]] = []
    errors = []
    with sides[0] as one, sides[1] as two:
        for tick in range(1, 31):
            for side in (one, two):
                side.step(None)
            said.append((tick, one.simulation.state.hash(), two.simulation.state.hash()))
            if len(said) > late:
                past, first, second = said[-1 - late]
                for side, told in ((one, second), (two, first)):
                    try:
                        side.report_hash(past, told)
                    except PeerDesyncError as error:
                        errors.append(error)
            if errors:
                return errors, tick
    return errors, 30


def test_peers_that_agree_say_nothing() -> None:
    """No dump is written, and the tapes are unchanged."""
    assert lockstep(0) == ([], 30)
    assert not list(Path().glob("*desync*"))
    assert verify_tape("one.tape", Walkers).ok


@pytest.mark.parametrize("late", [0, 4])
def test_peers_that_part_leave_a_dump_each(late: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Raised at the tick at which they diverge, before either continues; the agreed state before it is in the dump."""
    errors, now = lockstep(12, late)
    assert [error.tick for error in errors] == [12, 12]
    assert now == 12 + late
    error = errors[0]
    assert "desync with a peer at tick" in str(error)
    dump = error.dump_path
    facts = json.loads((dump / "desync.json").read_text())
    assert (facts["tick"], facts["tick_now"], facts["last_agreed_tick"]) == (error.tick, now, error.tick - 1)
    with replayer.open(dump / "run.tape", Walkers) as cut:
        assert cut.first_tick <= error.tick - 1
        assert cut.last_tick == now
        live = Walkers()
        for _ in range(error.tick - 1):
            live.step(None)
        assert cut[error.tick - 1].hash() == live.state.hash()
    found = diff_dumps(errors[0].dump_path, errors[1].dump_path)
    assert [(one.field, one.rows) for one in found.differences] == [("y", [(7,)])]
    assert found.blocks == [("y", 0)]
    assert run(replayer.commands.main.main, f"diff {errors[0].dump_path} {errors[1].dump_path}") == 1
    assert f"states of tick {now}\n  1 of 3 blocks differ, found in 3 exchanges\n" in capsys.readouterr().out


def test_hashes_of_ticks_to_come_wait() -> None:
    """A peer may be ahead; the step that reaches the peer's tick raises, and the tick is recorded."""
    with Recorder("run.tape", Walkers()) as tape:
        tape.report_hash(3, 77)
        tape.step(None)
        tape.step(None)
        with pytest.raises(PeerDesyncError, match=r"tick 3: our hash .* the peer's 000000000000004d; dump in"):
            tape.step(None)
        assert tape.tick == 3
        tape.step(None)
    assert verify_tape("run.tape", Walkers).verified_ticks == 5


def test_hashes_of_old_ticks_are_read_from_the_tape() -> None:
    """Also inputs from before the first report, and tick 0, which has no frame. Lost ones are listed."""
    live = Walkers()
    hashes = [live.state.hash()]
    with Recorder("run.tape", Walkers(), keep=10, keyframe_interval_ticks=2, deterministic=True) as tape:
        for _ in range(9):
            tape.step(None)
            live.step(None)
            hashes.append(live.state.hash())
        for tick in (0, 1, 5, 9):
            tape.report_hash(tick, hashes[tick])
        for _ in range(60):
            tape.step(None)
        with pytest.raises(MissingTickError):
            recorder_of_old_ticks(tape)


def recorder_of_old_ticks(tape: recorder.Recorder) -> None:
    """Request a tick that is neither in memory nor in the ring."""
    tape._peers._own.clear()  # type: ignore[union-attr]
    tape.report_hash(1, 1)


@pytest.mark.parametrize("ticks_apart", [1, 2, 7])
def test_a_divergence_has_one_dump_and_its_ticks_are_counted(ticks_apart: int) -> None:
    """Raised once for each divergence; the run goes on, and agreement in between makes the next one a new one."""
    raised, returned = [], []
    with Recorder("run.tape", Walkers(), keyframe_interval_ticks=5) as tape:
        for tick in range(1, 31):
            tape.step(None)
            own = tape.simulation.state.hash()
            apart = 5 <= tick < 5 + ticks_apart or tick >= 20
            try:
                returned.append(tape.report_hash(tick, own ^ apart))
            except PeerDesyncError as error:
                raised.append((tick, error.tick, error.dump_path))
    assert raised == [(5, 5, Path.cwd() / "run.peer-desync-5"), (20, 20, Path.cwd() / "run.peer-desync-20")]
    last = returned[-1]
    assert last is not None
    assert (last.first_tick, last.last_tick, last.ticks, last.peer) == (20, 30, 11, None)
    counts = [entry.ticks for entry in returned if entry is not None and entry is not last]
    assert counts == [ticks_apart] * (ticks_apart - 1)  # One object, returned for each later tick.
    assert sorted(path.name for path in Path().glob("*desync*")) == ["run.peer-desync-20", "run.peer-desync-5"]
    assert verify_tape("run.tape", Walkers).verified_ticks == 31


def test_late_hashes_belong_to_the_divergence_before_the_last_agreement() -> None:
    """Hashes may arrive in any order: an old one that differs is no new divergence, an old one that agrees ends none."""
    with Recorder("run.tape", Walkers(), on_desync="warn") as tape:
        hashes = [tape.simulation.state.hash()]
        for _ in range(12):
            tape.step(None)
            hashes.append(tape.simulation.state.hash())
        wrong = [tick in (3, 4, 5, 9) for tick in range(13)]
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for tick in (1, 4, 2, 3, 6, 5, 8, 9, 7, 12):
                tape.report_hash(tick, hashes[tick] ^ wrong[tick])
        assert tape._peers is not None
        told = [(one.first_tick, one.last_tick, one.ticks) for one in tape._peers.divergences]
    assert told == [(3, 5, 3), (9, 9, 1)]
    assert [str(one.message).partition(": our")[0] for one in warned] == [
        f"{Path.cwd()}/run.tape: desync with a peer at tick {tick}" for tick in (4, 9)
    ]


def test_peers_are_kept_apart_and_dumps_have_a_limit() -> None:
    """Of two peers, one of which agrees; and of a peer that differs at each second tick."""
    errors: list[PeerDesyncError] = []
    with Recorder("run.tape", Walkers(), on_desync=errors.append) as tape:
        for tick in range(1, 41):
            tape.step(None)
            own = tape.simulation.state.hash()
            for peer, theirs in (("west", own), ("east", own ^ (tick >= 3)), ("odd", own ^ (tick % 2))):
                tape.report_hash(tick, theirs, peer=peer)
        tape.report_hash(41, 7, peer="east")  # Waits, also when another peer is ahead as far.
        tape.report_hash(41, 8, peer="new")
        tape.step(None)
        assert tape._peers is not None
        by_peer = [(one.peer, one.first_tick, one.ticks) for one in tape._peers.divergences]
    assert by_peer[:2] == [("odd", 1, 1), ("east", 3, 39)]
    assert errors[1].divergence is not None
    assert errors[1].divergence.ticks == 39
    assert [entry for entry in by_peer if entry[0] == "odd"] == [("odd", tick, 1) for tick in range(1, 41, 2)]
    assert by_peer[-1] == ("new", 41, 1)
    assert [error.dump_path is not None for error in errors] == [True] * DUMPS_MAX + [False] * (22 - DUMPS_MAX)
    assert len(list(Path().glob("*desync*"))) == DUMPS_MAX
    assert "no dump was written: 8 dumps of earlier divergences exist" in errors[-1].__notes__
    assert "desync with peer east at tick 3: our hash" in str(errors[1])


@pytest.mark.parametrize("on_desync", ["raise", "function"])
def test_all_peers_that_differ_at_one_tick_are_told_of(on_desync: str) -> None:
    """The step that reaches the tick raises the first error; it holds the other ones."""
    told: list[PeerDesyncError] = []

    def refuse(error: PeerDesyncError) -> None:
        told.append(error)
        raise ValueError(error.divergence.peer)

    with Recorder("run.tape", Walkers(), on_desync=refuse if on_desync == "function" else "raise") as tape:
        for number, peer in enumerate(("west", "north", "east")):
            tape.report_hash(2, 77 + number, peer=peer)
        tape.step(None)
        with pytest.raises((PeerDesyncError, ValueError)) as caught:
            tape.step(None)
        tape.step(None)
    error = caught.value
    if isinstance(error, PeerDesyncError):
        told = [error, *error.others]
        assert [note.partition(": our")[0] for note in error.__notes__] == [
            f"also: desync with peer {peer} at tick 2" for peer in ("north", "east")
        ]
    else:
        assert (str(error), error.__notes__) == ("west", ["also: north", "also: east"])
    assert [one.divergence.peer for one in told] == ["west", "north", "east"]
    assert [one.actual_hash for one in told] == [77, 78, 79]
    assert len({one.dump_path for one in told}) == 3


def test_a_peers_error_in_a_step_leaves_nothing_for_the_comparison_between_steps() -> None:
    """The state after the step is kept before the error is raised."""
    with Recorder("run.tape", Walkers(), between_steps=True) as tape:
        tape.report_hash(2, 77)
        tape.step(None)
        with pytest.raises(PeerDesyncError):
            tape.step(None)
        tape.step(None)
        assert tape.between is not None
        assert tape.outside.count == 0


class Deaf(Walkers):
    """Takes any inputs."""

    def step(self, _inputs: Any) -> None:
        super().step(None)


def test_dumps_are_named_with_the_seed() -> None:
    """That of META, or of the last reset before the tick; a name that is taken gets a number."""
    path = Path("somewhere/run.tape")
    names = [dump_folder(path, "desync", seed, 29).name for seed in (None, 0, 7, -1, 1 << 127, 1 << 128)]
    huge = "run.desync_170141183460469231731687303715884105728_29"
    assert names == ["run.desync-29", "run.desync_0_29", "run.desync_7_29", "run.desync_-1_29", huge, "run.desync-29"]
    with Recorder("run.tape", Deaf()) as tape:
        for number in range(1, 8):
            tape.step({"reset": {2: 11, 5: 12, 6: None}[number]} if number in (2, 5, 6) else number)
    with Tape("run.tape") as tape:
        adapted = {"adapter": {"name": "gymnasium"}, "scenario": {"seed": 3}}
        assert [run_seed(adapted, tape.recording, tick) for tick in range(1, 8)] == [3, 11, 11, 11, 12, 12, 12]
        assert run_seed({"scenario": {"seed": 3}}, tape.recording, 7) == 3
        assert run_seed({"notes": {"seed": 9}}, tape.recording, 7) == 9  # Your own engine has no other place for it.
        assert run_seed({"world": {"config": {"seed": True}}}, tape.recording, 7) is None
        assert run_seed({"world": 5, "scenario": None}, tape.recording, 7) is None


# --- trees


def tree_of(blocks: int, changed: list[int]) -> MerkleTree:
    """Trees of a state with many blocks, some of which are changed in one byte."""
    state = State(Schema(Field("a", "u1", (blocks * BLOCK_BYTES,))))
    for block in changed:
        state["a"][block * BLOCK_BYTES + 17] ^= 5
    return MerkleTree.of(state.snapshot())


@pytest.mark.parametrize("blocks", [1, 2, 3, 31, 32, 33])
def test_every_block_that_differs_is_found_in_log2_exchanges(blocks: int) -> None:
    """One, several, all or no blocks; few hashes are exchanged."""
    random = np.random.default_rng(blocks)
    for changed in ([], [0], [blocks - 1], sorted(set(random.integers(0, blocks, 3).tolist())), list(range(blocks))):
        asked = []
        other = tree_of(blocks, changed)

        def ask(level: int, numbers: Any, asked: list[int] = asked, other: MerkleTree = other) -> list[bytes]:
            asked.append(len(numbers))
            return other.ask(level, numbers)

        found, exchanges = find_differing_leaves(tree_of(blocks, []), ask)
        assert found == changed
        assert exchanges == len(asked) <= math.ceil(math.log2(blocks)) + 1
        assert sum(asked) <= 1 + 2 * len(changed) * math.ceil(math.log2(blocks or 1))


def test_a_tree_that_was_tampered_with_is_refused() -> None:
    """Inner nodes must match their leaves."""
    plain = tree_of(5, []).to_plain()
    assert MerkleTree.from_plain(plain) == tree_of(5, [])
    plain["levels"][1][0] = "00" * 8
    with pytest.raises(ValueError, match="do not match its leaves"):
        MerkleTree.from_plain(plain)
    with pytest.raises(ValueError, match="not a Merkle tree"):
        MerkleTree.from_plain({"leaves": 3})


def test_a_dump_holds_the_hashes_of_both_sides() -> None:
    """Of a replay the recorded and the replayed one, of two peers that of each; they are those of plain runs."""
    with Recorder("run.tape", Walkers(), keyframe_interval_ticks=10) as tape:
        for _ in range(40):
            tape.step(None)
    live, wrong = Walkers(), Wrong()
    for _ in range(29):
        live.step(None)
        wrong.step(None)
    dump = verify_tape("run.tape", Wrong, dump_folder=Path(), tests_causes=False).dump_path
    assert dump is not None
    facts = json.loads((dump / "finding.json").read_text())
    expected = {"tick": 29, "expected_hash": f"{live.state.hash():016x}", "actual_hash": f"{wrong.state.hash():016x}"}
    assert {key: facts[key] for key in expected} == expected
    errors, _ = lockstep(12, 0)
    hashes = [json.loads((error.dump_path / "desync.json").read_text()) for error in errors]
    both = [(one["own_hash"], one["peer_hash"]) for one in hashes]
    assert both[0] == both[1][::-1]
    assert both[0] != both[1]
