"""Branches of a tape: each is compared with a plain loop that was not recorded and did the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked_worlds import Battle, Garden, battle_run, garden_run

import recorder
import replayer
from recorder.errors import MissingTickError, RecordingError, SimulationFailedError
from recorder.storage.tape_copy import TapeCopy, copied_meta
from replayer.branches.parent_run import parent_of
from replayer.diagnose.compare.tape_diff import diff_tapes
from replayer.tape.copied_range import UnfitTapeError, copy_range
from replayer.tape.tape import Tape
from sim import Field, Schema, State
from sim.kernel.registry import ConfigError

TICKS, INTERVAL = 60, 20
GIFT = {"row": 2, "food": 7}


def garden_inputs(seed: int, ticks: int) -> list[Any]:
    """The inputs of garden_run, drawn as it draws them."""
    chance = random.Random(seed)
    return [{"row": chance.randrange(6), "food": 1} if chance.random() < 0.05 else None for _ in range(ticks)]


def plain_garden(seed: int, inputs: list[Any]) -> list[dict[str, np.ndarray[Any, Any]]]:
    """The fields of a garden at each tick, by a loop without a recorder."""
    garden = Garden(seed)
    states = [{name: garden.state[name].copy() for name in garden.state}]
    for one in inputs:
        garden.step(one)
        states.append({name: garden.state[name].copy() for name in garden.state})
    return states


def assert_equal(run: replayer.Timeline, states: list[dict[str, np.ndarray[Any, Any]]], ticks: range) -> None:
    """Each state of the run equals that of the loop, bit by bit."""
    for tick in ticks:
        state = run.at(tick)
        for name, values in states[tick].items():
            assert state[name].tobytes() == values.tobytes(), (tick, name)


@pytest.mark.parametrize("fork", [0, 1, 19, 20, 33, 59])
@pytest.mark.parametrize("standalone", [False, True])
@pytest.mark.share(0.22)
def test_a_branch_is_what_a_plain_loop_does(tmp_path: Path, fork: int, *, standalone: bool) -> None:
    """Before the fork as its parent, after it with the inputs that were replaced."""
    garden_run(tmp_path / "run.tape", 3, TICKS, INTERVAL)
    inputs = garden_inputs(3, TICKS)
    changed = min(fork + 4, TICKS)
    inputs[changed - 1] = GIFT
    states = plain_garden(3, inputs)
    with replayer.open(tmp_path / "run.tape", Garden) as run:
        with run.branch(tmp_path / "way.tape", at=fork, standalone=standalone) as branch:
            assert (branch.tick, branch.fork_tick) == (fork, fork)
            branch.run(instead={changed: GIFT})
        assert run.tick is None, "the timeline does not move"
    with replayer.open(tmp_path / "way.tape", Garden) as way:
        assert (way.first_tick, way.last_tick) == (0 if standalone else fork, TICKS)
        assert [place.tick for place in way.tape.keyframes].count(fork) == 1
        assert_equal(way, states, range(TICKS + 1))
        assert way.verify().ok
        assert way.tape.sealed
        with Tape(tmp_path / "run.tape") as parent:
            found = parent_of(way.tape.meta)
            assert found is not None
            assert (found.run_id, found.tick, found.path) == (parent.run_id, fork, "run.tape")
            assert found.state_hash == f"{parent.state_hash(fork):016x}"
            difference = diff_tapes(parent, way.tape)
            assert difference.first_bad == changed
            assert difference.inputs_tick == changed


def test_an_unchanged_branch_is_its_parent(tmp_path: Path) -> None:
    """With the same inputs and code all ticks are the same, from any fork."""
    garden_run(tmp_path / "run.tape", 5, TICKS, INTERVAL)
    with replayer.open(tmp_path / "run.tape", Garden) as run, run.branch(tmp_path / "way.tape", at=-20) as branch:
        assert branch.run().tick == TICKS
    with Tape(tmp_path / "run.tape") as run_tape, Tape(tmp_path / "way.tape") as way:
        assert diff_tapes(run_tape, way).same


def test_ticks_are_walked_across_the_fork(tmp_path: Path) -> None:
    """Steps forward and back, of the state and of the tick, in one timeline."""
    states = garden_run(tmp_path / "run.tape", 4, TICKS, INTERVAL)
    with replayer.open(tmp_path / "run.tape", Garden) as run, run.branch(tmp_path / "way.tape", at=30) as branch:
        branch.run(40, {})
    with replayer.open(tmp_path / "way.tape", Garden) as way:
        way.seek(32)
        for tick in (31, 30, 29, 28):
            assert way.step_back().tick == way.tick == tick
        assert way.state["steps"] == 28
        assert way.subject.state["steps"] == 28
        for tick in (29, 30, 31):
            assert way.step().tick == way.tick == tick
        assert way.seek(-1).tick == 40
        assert way.seek(0).tick == 0
        assert_equal(way, states, range(31))
        with pytest.raises(MissingTickError):
            way.step_back()


def test_branches_of_branches(tmp_path: Path) -> None:
    """A seek goes up as far as it must; a fork before the first tick of a branch leaves the run that has this tick."""
    states = garden_run(tmp_path / "run.tape", 4, TICKS, INTERVAL)
    (tmp_path / "sub").mkdir()
    with replayer.open(tmp_path / "run.tape", Garden) as run, run.branch(tmp_path / "a.tape", at=30) as branch:
        branch.run(50, {35: GIFT})
    with replayer.open(tmp_path / "a.tape", Garden) as a:
        with a.branch(tmp_path / "sub" / "b.tape", at=40) as branch:
            branch.run(45, {})
        with a.branch(tmp_path / "c.tape", at=10) as branch:
            branch.run(12, {})
    inputs = [*garden_inputs(4, 30), None, None, None, None, GIFT, *[None] * 10]
    with replayer.open(tmp_path / "sub" / "b.tape", Garden) as b:
        assert_equal(b, plain_garden(4, inputs), range(46))
        assert parent_of(b.tape.meta).path == "../a.tape"  # type: ignore[union-attr]
    with replayer.open(tmp_path / "c.tape", Garden) as c:
        assert parent_of(c.tape.meta).path == "run.tape"  # type: ignore[union-attr]
        assert_equal(c, states, range(11))


def test_a_branch_of_objects_is_what_a_plain_loop_does(tmp_path: Path) -> None:
    """Its object is used as record() returned it; assignments to it are inputs of the next step."""
    battle_run(tmp_path / "run.tape", 3, TICKS, INTERVAL)
    plain = Battle(3)
    for tick in range(33):
        plain.step(3 if tick % 11 == 0 else None)
    with (
        replayer.open(tmp_path / "run.tape", Battle) as run,
        run.branch(tmp_path / "way.tape", at=33) as branch,
        branch.object as game,
    ):
        assert branch.object is game
        for _ in range(5):
            game.step(100)
            plain.step(100)
        game.gold = {"red": 1, "blue": 1}
        plain.gold = {"red": 1, "blue": 1}
        for _ in range(5):
            game.step()
            plain.step()
    with replayer.open(tmp_path / "way.tape", Battle) as way:
        assert way.verify().ok
        way.seek(-1)
        assert (way.tick, way.subject.gold) == (43, plain.gold)
        assert [vars(knight) for knight in way.subject.knights] == [vars(knight) for knight in plain.knights]
        assert way.subject.rng.getstate() == plain.rng.getstate()
        way.seek(20)
        assert way.subject.gold["red"] == 6


def double_hurt(_: Battle, knight: Any, damage: int) -> None:
    """Other code."""
    knight.hp -= 2 * damage


Furious = type("Battle", (Battle,), {"hurt": double_hurt, "__module__": "asked_worlds"})  # Of the same name.


def pay(game: Battle) -> None:
    """An edit."""
    game.gold["blue"] = 50


def test_other_code_and_an_edit(tmp_path: Path) -> None:
    """They act from the fork on; the edit is in the first state of the branch."""
    battle_run(tmp_path / "run.tape", 3, TICKS, INTERVAL)
    expected = []
    for code, edit in ((Furious, None), (Battle, pay)):
        plain = Battle(3)
        for tick in range(TICKS):
            if tick == 33:
                plain.__class__ = code
                if edit is not None:
                    edit(plain)
            plain.step(3 if tick % 11 == 0 else None)
        expected.append(plain)
    with replayer.open(tmp_path / "run.tape", Battle) as run:
        with run.branch(tmp_path / "code.tape", at=33, world=Furious) as branch:
            branch.run()
        with run.branch(tmp_path / "edit.tape", at=33, edit=pay) as branch:
            branch.run()
    for name, kind, plain in (("code.tape", Furious, expected[0]), ("edit.tape", Battle, expected[1])):
        with replayer.open(tmp_path / name, kind) as way:
            assert way.verify().ok
            way.seek(-1)
            assert way.subject.gold == plain.gold
            assert [vars(knight) for knight in way.subject.knights] == [vars(knight) for knight in plain.knights]
    with Tape(tmp_path / "run.tape") as one, Tape(tmp_path / "edit.tape") as other:
        assert diff_tapes(one, other).first_bad == 33


def test_an_edit_of_a_state_that_is_saved(tmp_path: Path) -> None:
    """A simulation with save and load is saved again after the edit."""

    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def save(self) -> bytes:
            return self.count.to_bytes(8, "little")

        def load(self, saved: bytes) -> None:
            self.count = int.from_bytes(saved, "little")

        def step(self, inputs: int) -> None:
            self.count += inputs

    with recorder.Recorder(tmp_path / "run.tape", Counter()) as tape:
        for _ in range(10):
            tape.step(1)
    way_path = tmp_path / "way.tape"
    with (
        replayer.open(tmp_path / "run.tape", Counter) as run,
        run.branch(way_path, at=4, edit=lambda counter: setattr(counter, "count", 100)) as branch,
    ):
        branch.run(7, lambda tick, state: tick)  # noqa: ARG005 - the signature
    with replayer.open(tmp_path / "way.tape", Counter) as way:
        assert way.verify().ok
        way.seek(7)
        assert way.subject.count == 100 + 5 + 6 + 7
        way.seek(3)
        assert way.subject.count == 3


def test_parameters_of_a_registered_world(tmp_path: Path) -> None:
    """They replace those of the parent, in META, too; unknown ones are refused."""
    from sim.kernel.registry import find_world
    from sim.scenario.scenario_file import load_scenario

    loaded = load_scenario("quiet-meadow")
    with recorder.Recorder(tmp_path / "run.tape", loaded.make(30)) as tape:
        for _ in range(30):
            tape.step([])
    with replayer.open(tmp_path / "run.tape") as run:
        config = run.tape.meta["world"]["config"]
        (name, value) = next((key, one) for key, one in config.items() if isinstance(one, int))
        with run.branch(tmp_path / "way.tape", at=17, config={name: value + 1}) as branch:
            branch.run()
        with pytest.raises(ConfigError, match="nonsense"):
            run.branch(tmp_path / "b.tape", at=17, config={"nonsense": 1})
        assert not (tmp_path / "b.tape").exists()
    with replayer.open(tmp_path / "way.tape") as way:
        assert way.tape.meta["world"]["config"] == {**config, name: value + 1}
        assert way.verify().ok
        plain = find_world("meadow").make({**config, name: value + 1})
        from sim.kernel.simulation import restore

        with replayer.open(tmp_path / "run.tape") as run:
            restore(plain, run.at(17))
        for _ in range(13):
            plain.step([])
        assert way.at(30).hash() == plain.state.hash()


def test_a_branch_of_an_environment_is_what_a_plain_loop_does(tmp_path: Path) -> None:
    """From the middle of an episode, with other actions and a reset; totals that are not known are not recorded."""
    gymnasium = pytest.importorskip("gymnasium")
    actions = [number % 2 for number in range(12)]
    with recorder.record(gymnasium.make("CartPole-v1"), tmp_path / "run.tape", trial_ms=0, quiet=True) as env:
        env.reset(seed=4)
        for action in actions:
            env.step(action)
    plain = gymnasium.make("CartPole-v1")
    plain.reset(seed=4)
    for action in actions[:7]:
        plain.step(action)
    with (
        replayer.open(tmp_path / "run.tape") as run,
        run.branch(tmp_path / "way.tape", at=8) as branch,
        branch.object as other,
    ):
        for _ in range(5):
            ours, theirs = other.step(1), plain.step(1)
            assert ours[0].tobytes() == theirs[0].tobytes()
            assert ours[1:4] == theirs[1:4]
        ours, theirs = other.reset(), plain.reset()
        assert ours[0].tobytes() == theirs[0].tobytes()
        for _ in range(3):
            assert other.step(0)[0].tobytes() == plain.step(0)[0].tobytes()
    with replayer.open(tmp_path / "way.tape") as way:
        assert (way.first_tick, way.last_tick) == (8, 8 + 5 + 1 + 3)
        assert way.verify().ok
        assert way.tape.frame(14).inputs == {"reset": None}
        assert way.tape.outcome["episode"]["steps"] == 3
        way.seek(-1)
        assert np.array(way.subject.unwrapped.state).tobytes() == np.array(plain.unwrapped.state).tobytes()
        way.seek(3)
        with replayer.open(tmp_path / "run.tape") as run:
            assert way.state.hash() == run.at(3).hash()


class Drum:
    """Marks its writes; large enough that its frames have chained hashes."""

    marks_writes = True

    def __init__(self) -> None:
        self.state = State(Schema(Field("beats", "i8", (160_000,)), Field("tick", "i8")))

    def step(self, inputs: Any) -> None:
        tick = int(self.state["tick"]) + 1
        self.state.set("tick", 0, tick)
        self.state.set("beats", [tick * 37 % 1000, inputs or 0], [tick, tick + 1])


@pytest.mark.parametrize("standalone", [False, True])
def test_a_run_with_chained_hashes(tmp_path: Path, *, standalone: bool) -> None:
    """The branch has them as well, and the parent is compared by its own."""
    with recorder.Recorder(tmp_path / "run.tape", Drum(), mode="changes", keyframe_interval_ticks=10) as tape:
        for _ in range(25):
            tape.step(3)
    plain = Drum()
    for tick in range(25):
        plain.step(3 if tick < 14 else 5)
    with replayer.open(tmp_path / "run.tape", Drum) as run:
        assert run.tape.recording.recorded_hashes.is_chained(14)
        with run.branch(tmp_path / "way.tape", at=14, standalone=standalone) as branch:
            branch.run(25, lambda *_: 5)
    with replayer.open(tmp_path / "way.tape", Drum) as way:
        assert way.tape.recording.recorded_hashes.has_hash_chain
        assert way.verify().ok
        assert way.at(25)["beats"].tobytes() == plain.state["beats"].tobytes()
        assert int(way.at(12)["tick"]) == 12


def test_a_parent_that_is_missing_or_was_changed_is_said_in_one_line(tmp_path: Path) -> None:
    """The branch itself is read as before; a file of the parent's name next to it is found."""
    states = garden_run(tmp_path / "run.tape", 4, TICKS, INTERVAL)
    garden_run(tmp_path / "other.tape", 5, TICKS, INTERVAL)
    (tmp_path / "far").mkdir()
    with (
        replayer.open(tmp_path / "run.tape", Garden) as run,
        run.branch(tmp_path / "far" / "way.tape", at=30) as branch,
    ):
        branch.run()
    moved = tmp_path / "far" / "run.tape"
    (tmp_path / "run.tape").rename(moved)
    with replayer.open(tmp_path / "far" / "way.tape", Garden) as way:
        assert_equal(way, states, range(20, 40))
    moved.unlink()
    way_path = tmp_path / "far" / "way.tape"
    with replayer.open(way_path, Garden) as way:
        assert_equal(way, states, range(30, 40))
        assert way.verify().ok
        with pytest.raises(
            MissingTickError, match=r"begins at tick 30, and the tape of its parent, \.\./run\.tape, is m"
        ):
            way.seek(29)
        assert way.tick is None
        moved.write_bytes((tmp_path / "other.tape").read_bytes())
        with pytest.raises(MissingTickError, match="is another run than its parent"):
            way.at(3)
        moved.write_bytes(b"no tape at all")
        with pytest.raises(MissingTickError, match="its parent cannot be read"):
            way.at(3)
        moved.unlink()
    with replayer.open(tmp_path / "other.tape", Garden) as other:
        run_id = bytes.fromhex(parent_of(Tape(way_path).meta).run_id)  # type: ignore[union-attr]
        with recorder.Recorder(moved, Garden(4), run_id=run_id) as tape:
            for one in garden_inputs(5, 40):
                tape.step(one)
        assert other.tick is None
    with (
        replayer.open(way_path, Garden) as way,
        pytest.raises(MissingTickError, match="was changed: it has another state"),
    ):
        way[3]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"path": "way.tape"}, "is another run than its parent"),
        ({"path": "/etc/passwd"}, "is missing"),
        ({"path": "/dev/zero"}, "is missing"),
        ({"path": "x" * 5000}, "is missing"),
        ({"path": "a\0b"}, "is missing"),
        ({"path": ".."}, "is missing"),
        ({"hash": "0" * 16}, "was changed"),
        ({"tick": -4}, "the tape has ticks 30 to 60"),
        ({"tick": 2**60}, "names tick"),
        ({"tick": "30"}, "the tape has ticks 30 to 60"),
    ],
)
def test_a_made_up_parent_is_said_in_one_line(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    """A tape may name anything, itself included: nothing but the tape of that run is read."""
    garden_run(tmp_path / "run.tape", 4, TICKS, INTERVAL)
    with replayer.open(tmp_path / "run.tape", Garden) as run, run.branch(tmp_path / "way.tape", at=30) as branch:
        branch.run()
    with Tape(tmp_path / "way.tape") as way:
        meta = copied_meta(way.assembled, parent={**way.meta["parent"], **changes})
        with TapeCopy(tmp_path / "odd.tape", way.assembled.run_id, meta) as copy:
            copy_range(way, copy, 30, TICKS)
            copy.finish({"reason": "closed"})
    with replayer.open(tmp_path / "odd.tape", Garden) as odd:
        assert odd.seek(40).tick == 40
        with pytest.raises(MissingTickError, match=why):
            odd.seek(20)


def test_a_tape_that_names_itself_is_not_its_parent(tmp_path: Path) -> None:
    """It is not followed in a circle."""
    garden_run(tmp_path / "run.tape", 4, TICKS, INTERVAL)
    with Tape(tmp_path / "run.tape") as run:
        own = {"run": run.run_id, "tick": 40, "hash": f"{run.state_hash(40):016x}", "path": "odd.tape"}
        with TapeCopy(tmp_path / "odd.tape", run.assembled.run_id, copied_meta(run.assembled, parent=own)) as copy:
            copy_range(run, copy, 40, TICKS)
            copy.finish({"reason": "closed"})
    with (
        replayer.open(tmp_path / "odd.tape", Garden) as odd,
        pytest.raises(MissingTickError, match=r"its parent .*odd\.tape begins at tick 40"),
    ):
        odd.seek(20)


def test_mistakes_write_nothing(tmp_path: Path) -> None:
    """Ticks that are not there, names that are taken, contradictory and unknown arguments, an edit that raises."""
    garden_run(tmp_path / "run.tape", 4, TICKS, INTERVAL)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with replayer.open(tmp_path / "run.tape", Garden) as run:
        target = tmp_path / "way.tape"
        for at in (61, -62, 10**9):
            with pytest.raises(MissingTickError, match="the tape has ticks 0 to 60"):
                run.branch(target, at=at)
        with pytest.raises(FileExistsError):
            run.branch(tmp_path / "run.tape", at=3)
        with pytest.raises(FileNotFoundError):
            run.branch(tmp_path / "nowhere" / "way.tape", at=3)
        with pytest.raises(UnfitTapeError, match="names no registered world"):
            run.branch(target, at=3, config={"seed": 3})
        with pytest.raises(UnfitTapeError, match="stand-alone"):
            run.branch(target, at=3, edit=print, standalone=True)
        with pytest.raises(TypeError, match="keyframe_interval_ticks"):
            run.branch(target, at=3, keyframe_interval=3)  # type: ignore[call-arg]
        with pytest.raises(SimulationFailedError, match="the edit raised ZeroDivisionError"):
            run.branch(target, at=3, edit=lambda _: 1 // 0)
        with pytest.raises(RecordingError, match="different fields"):
            run.branch(target, at=3, world=Drum)
        with pytest.raises(TypeError):
            run.branch(target, at=1.5)  # type: ignore[arg-type]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_torn_tape_is_left_at_any_tick_that_can_be_reached(tmp_path: Path) -> None:
    """Of an unsealed or damaged tape too; where a tick cannot be reached, that is said."""
    states = garden_run(tmp_path / "whole.tape", 4, TICKS, INTERVAL)
    whole = (tmp_path / "whole.tape").read_bytes()
    with Tape(tmp_path / "whole.tape") as tape:
        middle = next(place for place in tape.keyframes if place.tick == 40).entry.offset
    (tmp_path / "run.tape").write_bytes(whole[:middle])
    with replayer.Timeline(tmp_path / "run.tape", Garden) as run:
        last = run.last_tick
        with run.branch(tmp_path / "way.tape", at=last) as branch:
            branch.run(last + 5, {})
        with pytest.raises(MissingTickError):
            run.branch(tmp_path / "b.tape", at=last + 1)
    with replayer.Timeline(tmp_path / "way.tape", Garden) as way:
        assert way.verify().ok
        assert_equal(way, states, range(last + 1))
        assert way.last_tick == last + 5
