"""Tapes whose frames have chained hashes in place of state hashes: as exact as others, and as strict about damage."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

import recorder
import replayer
from recorder import Recorder
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.hash_chain import HashChain
from replayer.commands.main import main
from replayer.repair.repair import repair_tape
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State
from sim.kernel.simulation import restore

from oracle.crashes import lay_out
from oracle.fake_files import MemoryFiles, use_files
from oracle.naive_changes import apply, changes_of
from oracle.repair_runs import all_blocks, destroy
from oracle.second_reader import Reader
from small_worlds import Herd, Walkers, record

TICKS = 60
LINKED: Any = {"mode": "changes", "hashes": "changes", "keyframe_interval_ticks": 9, "full_every": 2}


class Grid:
    """Marks its writes, some of them twice; ``forgets`` names a field that it does not mark, ``slips`` a tick."""

    marks_writes = True

    rest: tuple[Field, ...] = ()

    def __init__(self, forgets: str = "", slips: int = -1, everything: bool = False) -> None:  # noqa: FBT001, FBT002
        self.state = State(
            Schema(Field("cells", "i4", (50, 3), row_axes=1), Field("heat", "f8", (40,)), Field("n", "i8"), *self.rest)
        )
        self.forgets, self.slips, self.everything = forgets, slips, everything

    def step(self, inputs: Any) -> None:
        tick = int(self.state["n"]) + 1
        rows = np.array([tick * 7 % 50, tick * 11 % 50, tick * 7 % 50])
        self.state["n"][...] = tick
        self.state["cells"][rows] += inputs or tick
        self.state["heat"][tick % 40] += 0.25 + (tick == self.slips)
        for name, written in (("cells", rows), ("heat", np.array([tick % 40])), ("n", None)):
            if name != self.forgets:
                self.state.mark(name, None if self.everything else written)


def make_tape(folder: Path, make: Any = Grid, **settings: Any) -> tuple[Path, dict[int, bytes]]:
    """Record a tape with chained hashes; return it and the live states."""
    path = folder / "run.tape"
    return path, record(path, make(), [None] * TICKS, **LINKED | settings)


@pytest.mark.parametrize("make", [Grid, Herd])
def test_every_tick_is_the_live_state(tmp_path: Path, make: Any) -> None:
    """Each tick is reached by the change log, with and without the simulation, and by steps; its hash is available."""
    path, live = make_tape(tmp_path, make)
    ticks = [*range(TICKS + 1), *random.Random(5).choices(range(TICKS + 1), k=60)]
    for simulation in (make, None):
        with replayer.Timeline(path, simulation) as run:
            for tick in ticks:
                report = run.seek(tick)
                assert report.simulated_ticks <= 1
                assert run.state.arena.tobytes() == live[tick]
                assert report.state_hash == run.state.hash() == run.tape.state_hash(tick)
    with replayer.Tape(path) as tape:
        linked = [tick for tick in range(1, TICKS + 1) if tape.frame(tick).link]
        assert all(tape.frame(tick).state_hash is None for tick in linked)
        assert {1, *(place.tick for place in tape.keyframes)}.isdisjoint(linked)  # The first of a session, and these.
        assert len(linked) > TICKS // 2
    report = verify_tape(path, make)
    assert (report.ok, report.first_bad, report.problems) == (True, None, [])


def test_a_second_reader_gets_the_chained_hashes(tmp_path: Path) -> None:
    """A second reader, written after SPEC.md, reads the same chained hashes."""
    path, live = make_tape(tmp_path)
    reader = Reader(path.read_bytes())
    keyframe = next(iter(reader.keyframes()))
    names, offsets = list(keyframe.layout), {name: place[4] for name, place in keyframe.layout.items()}
    by_tick = defaultdict(list)
    for block in reader.blocks:
        if block.kind == BlockKind.CHANGES:
            for change in changes_of(block.payload):
                by_tick[change[0]].append(change)
    arena, before, linked = bytearray(keyframe.arena), b"", 0
    for tick, proof, *_ in reader.frames():
        apply(arena, offsets, by_tick[tick])
        assert arena == live[tick]
        if isinstance(proof, int):
            before = proof.to_bytes(8, "little")
            continue
        told = before
        for number, name in enumerate(names):
            of_field = [change for change in by_tick[tick] if change[1] == name]
            if of_field:
                told += number.to_bytes(4, "little") + len(of_field).to_bytes(4, "little")
                told += b"".join(change[3].to_bytes(4, "little") for change in of_field)
                for _, _, word_bytes, word, _, _ in of_field:
                    place = offsets[name] + word * word_bytes
                    told += arena[place : place + word_bytes]
        assert xxhash.xxh3_64_intdigest(told).to_bytes(8, "little") == proof
        before, linked = proof, linked + 1
    assert linked > 40


def test_literal_chained_hashes() -> None:
    """The chained hashes equal bytes computed by hand."""
    state = State(Schema(Field("a", "i4", (4,)), Field("b", "u1", (3,))))
    fields = {
        "b": (np.array([2], np.uint32), np.array([7], "u1")),
        "a": (np.array([1, 3], np.uint32), np.array([5, 6], "<u4")),
    }
    told = bytes(8) + bytes([0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0])
    told += bytes([1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 7])
    assert HashChain(state.layout).extend(bytes(8), fields) == xxhash.xxh3_64_intdigest(told).to_bytes(8, "little")
    fields["a"] = np.zeros(0, np.uint32), np.zeros(0, "<u4")
    told = bytes(8) + bytes([1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 7])
    assert HashChain(state.layout).extend(bytes(8), fields) == xxhash.xxh3_64_intdigest(told).to_bytes(8, "little")


@pytest.mark.parametrize("slip", [2, 9, 30, 58, 60])
@pytest.mark.share(0.22)
def test_a_desync_is_named(tmp_path: Path, slip: int) -> None:
    """A desync is reported with tick, field and row, though no frame has a hash of that state."""
    path, live = make_tape(tmp_path)
    report = verify_tape(path, lambda: Grid(slips=slip))
    assert report.first_bad == slip
    if slip % LINKED["keyframe_interval_ticks"]:  # No step is made for a keyframe's own tick.
        with replayer.Timeline(path, lambda: Grid(slips=slip)) as run:
            run.seek(slip - 1)
            with pytest.warns(UserWarning, match=f"the steps to tick {slip} give another state"):
                run.step()
            assert run.state.arena.tobytes() == live[slip]


def test_marks_are_not_part_of_the_state(tmp_path: Path) -> None:
    """A version of the simulation that marks more than it writes still replays the tape."""
    path, live = make_tape(tmp_path)

    def generous() -> Grid:
        return Grid(everything=True)

    assert verify_tape(path, generous).first_bad is None
    with replayer.Timeline(path, generous) as run:
        run.seek(20)
        run.step()
        assert run.state.arena.tobytes() == live[21]


def test_a_write_without_a_mark_is_found(tmp_path: Path) -> None:
    """The chained hashes agree, the keyframe does not: the change log fails, steps succeed, verify reports it."""
    path, live = make_tape(tmp_path, lambda: Grid(forgets="heat"), full_every=1)
    with replayer.Timeline(path, lambda: Grid(forgets="heat")) as run:
        for tick in (5, 30, 53):
            assert run.seek(tick).simulated_ticks > 0
            assert run.state.arena.tobytes() == live[tick]
    with replayer.Timeline(path) as run, pytest.raises(Exception, match="only the states that are on the tape"):
        run.seek(30)
    report = verify_tape(path, lambda: Grid(forgets="heat"))
    assert report.first_bad is None
    assert any("the changes of ticks 1 to 9" in str(problem) for problem in report.problems)


@pytest.mark.parametrize("killed", [14, 18, 33])
@pytest.mark.seldom(0.18)
def test_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: int) -> None:
    """The last ticks have no changes on the tape: their chained hashes are checked by steps, also after a resume."""
    files = use_files(monkeypatch, MemoryFiles())
    tape = Recorder("memory", Grid(), **LINKED)
    live = {0: tape.simulation.state.arena.tobytes()}
    for _ in range(killed):
        if tape.tick == killed - 3:
            tape.flush()
        tape.step()
        live[tape.tick] = tape.simulation.state.arena.tobytes()
    path = lay_out(files, tmp_path)
    tape.close()
    monkeypatch.undo()
    with replayer.Timeline(path, Grid) as run:
        assert run.tape.journal_ticks
        for tick in (killed, killed - 1, killed):
            run.seek(tick)
            assert run.state.arena.tobytes() == live[tick]
    assert verify_tape(path, Grid).first_bad is None
    bad = verify_tape(path, lambda: Grid(slips=killed))
    assert bad.first_bad == killed
    with pytest.raises(recorder.DesyncError):
        recorder.resume(path, Grid(slips=killed))
    with recorder.resume(path, Grid()) as tape:
        assert tape.tick == killed
        while tape.tick < TICKS:
            tape.step()
            live[tape.tick] = tape.simulation.state.arena.tobytes()
    with replayer.Timeline(path, Grid) as run:
        for tick in range(TICKS, -1, -1):
            run.seek(tick)
            assert run.state.arena.tobytes() == live[tick]
    assert verify_tape(path, Grid).ok


@pytest.mark.seldom(0.18)
def test_lost_blocks_cost_no_tick_of_a_simulation_that_can_step(tmp_path: Path) -> None:
    """After a lost block of changes, the states are checked by the chained hashes of the steps."""
    path, live = make_tape(tmp_path)
    data = path.read_bytes()
    for block in [block for block in all_blocks(path) if block.kind == BlockKind.CHANGES]:
        path.write_bytes(destroy(data, block, "payload"))
        with replayer.Timeline(path, Grid) as run:
            for tick in random.Random(block.first_tick).sample(range(TICKS + 1), 20):
                run.seek(tick)
                assert run.state.arena.tobytes() == live[tick]
        assert verify_tape(path, Grid).first_bad is None
        mended = tmp_path / "mended.tape"
        repair_tape(path, mended, Grid)
        with replayer.Timeline(mended, Grid) as run:
            assert all(run[tick].arena.tobytes() == live[tick] for tick in range(TICKS + 1))
        mended.unlink()


def test_replaced_states_and_peers(tmp_path: Path) -> None:
    """A different state or layout restarts the chain; a peer's hash is compared with that of the complete state."""
    path, world = tmp_path / "run.tape", Herd()
    live, hashes = {}, {}
    with Recorder(path, world, **LINKED) as tape:
        for _ in range(TICKS):
            if tape.tick == 20:
                restore(world, world.state.snapshot())
            if tape.tick > 30:
                tape.report_hash(tape.tick - 5, hashes[tape.tick - 5])
            tape.step()
            live[tape.tick], hashes[tape.tick] = world.state.arena.tobytes(), world.state.hash()
        with pytest.raises(recorder.PeerDesyncError):
            tape.report_hash(40, hashes[40] ^ 1)
    with replayer.Timeline(path, Herd) as run:
        for tick, arena in live.items():
            assert run[tick].arena.tobytes() == arena


def test_it_is_chosen_by_size_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Chosen from 1 MiB on, if writes are marked and the changes are on the tape; META records the choice."""

    class Wide(Grid):
        rest = (Field("rest", "f8", ((1 << 20) // 8,)),)

    class Narrow(Grid):
        rest = (Field("rest", "f8", ((1 << 20) // 8 - 1000,)),)

    for make, settings, expected in (
        (Wide, {"mode": "changes"}, True),
        (Narrow, {"mode": "changes"}, False),
        (Wide, {}, False),
        (Wide, {"mode": "changes", "changes": "scan"}, False),
        (Wide, {"mode": "changes", "hashes": "states"}, False),
    ):
        path = tmp_path / f"{make.__name__}{len(settings)}{settings}.tape".replace("'", "")
        live = record(path, make(), [None] * 20, **settings)
        with replayer.Timeline(path, make) as run:
            assert bool(run.tape.frame(7).link) is expected
            assert run[7].arena.tobytes() == live[7]
        with pytest.raises(SystemExit, match="0"):
            main(["info", str(path)])
        assert ("hashes: a chained hash of the changes" in capsys.readouterr().out) is expected
    for settings in (
        {"hashes": "changes"},
        {"hashes": "changes", "mode": "changes", "changes": "scan"},
        {"hashes": "all"},
    ):
        with pytest.raises(ValueError, match="hashes="):
            Recorder(tmp_path / "none.tape", Grid(), **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hashes="):
        Recorder(tmp_path / "none.tape", Walkers(), mode="changes", hashes="changes")
