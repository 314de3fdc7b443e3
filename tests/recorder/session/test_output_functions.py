"""telemetry= and events= by functions: outputs of each tick that a user's function makes of the recorded object."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from recorder.errors import OutputFunctionError, RecordingWarning, SimulationFailedError
from replayer import Tape
from replayer.commands.main import main
from replayer.playback.make_simulation import UnfitSimulationError
from sim import Field, Schema, State

BIG = 300  # Elements of a container that is assumed to be constant.


class Unit:
    def __init__(self, number: int) -> None:
        self.hp = 100
        self.tags = {"scout", number}
        self.path = [number]


class Game:
    """Each step damages a unit and draws a number."""

    def __init__(self) -> None:
        self.units = [Unit(number) for number in range(5)]
        self.turn = 0
        self.ratio = 0.5
        self.field = np.zeros(4)
        self.rng = np.random.default_rng(3)
        self.prices = list(range(BIG))

    def step(self) -> None:
        self.turn += 1
        self.units[self.turn % 5].hp -= int(self.rng.integers(1, 3))
        self.field[self.turn % 4] += 1


class Watched(Game):
    """A game in which the end of an object can be seen, so that no object is kept between two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Any = weakref.ref(self.units[0])


class Counter:
    """A simulation with its state in an arena, and telemetry and events of its own."""

    def __init__(self, rows: int = 4) -> None:
        self.state = State(Schema(Field("n", "i8"), Field("rows", "i8", (rows,))))

    def step(self, _: Any) -> None:
        self.state["n"][()] += 1

    def telemetry(self) -> dict[str, int]:
        return {"own": 1}

    def events(self) -> list[dict[str, Any]]:
        return [{"kind": "own"}]


class Saved:
    """A simulation with save and load."""

    def __init__(self) -> None:
        self.n = 0

    def step(self, _: Any) -> None:
        self.n += 1

    def save(self) -> bytes:
        return self.n.to_bytes(8, "little")

    def load(self, saved: bytes) -> None:
        self.n = int.from_bytes(saved, "little")


def total(game: Game) -> dict[str, Any]:
    return {"hp": sum(unit.hp for unit in game.units), "ratio": game.ratio}


def thirds(game: Game) -> list[dict[str, Any]]:
    return [{"kind": "third", "turn": game.turn}] if game.turn % 3 == 0 else []


def make_steps(tape: recorder.Recorder, count: int) -> None:
    for _ in range(count):
        tape.step()


def without_parameters() -> dict[str, Any]:
    return {}


def record_game(path: Path, steps: int, game: Game | None = None, **options: Any) -> None:
    with recorder.record(game or Game(), path, quiet=True, **options) as recorded:
        for _ in range(steps):
            recorded.step()


def test_telemetry_and_events_by_functions_are_on_the_tape_at_each_tick(tmp_path: Path) -> None:
    """They equal those of a plain loop; the replay needs no function."""
    path, game = tmp_path / "run.tape", Game()
    rows, events = [total(game)], [(0, event) for event in thirds(game)]
    for tick in range(1, 401):
        game.step()
        rows.append(total(game))
        events += [(tick, event) for event in thirds(game)]

    record_game(path, 400, telemetry=total, events=thirds)

    with Tape(path) as tape:
        columns = tape.telemetry()
        assert columns["tick"].tolist() == list(range(401))
        assert columns["hp"].tolist() == [row["hp"] for row in rows]
        assert columns["ratio"].tolist() == [row["ratio"] for row in rows]
        assert list(tape.events()) == events
        assert tape.missing_event_ticks() == []
        assert tape.meta["output_functions"] == ["telemetry", "events"]
        assert list(replayer.rebuild_events(tape, Game)) == events
    assert replayer.verify_tape(path, Game).ok


def pop_unit(game: Game) -> None:
    game.units.pop()


def set_in_list(game: Game) -> None:
    game.units[2].hp = 1


def add_attribute(game: Game) -> None:
    game.cache = 1  # type: ignore[attr-defined]


def add_inside(game: Game) -> None:
    game.units[1].cache = 1  # type: ignore[attr-defined]


def add_to_set(game: Game) -> None:
    game.units[1].tags.add("seen")


def set_number(game: Game) -> None:
    game.ratio = 0.25


def replace_array(game: Game) -> None:
    game.field = (0.0, 0.0)  # type: ignore[assignment]


def append_inside(game: Game) -> None:
    game.units[3].path.append(4)


def delete_inside(game: Game) -> None:
    del game.units[0].hp


def replace_list(game: Game) -> None:
    game.units = list(game.units)


def write_array(game: Game) -> None:
    game.field[1] = 7.5


def draw(game: Game) -> None:
    game.rng.random()


def write_large(game: Game) -> None:
    game.prices[7] = -1


CHANGES = {
    pop_unit: "Game.units",
    set_in_list: "Game.units[2].hp",
    add_attribute: "Game",
    add_inside: "Game.units[1]",
    add_to_set: "Game.units[1].tags",
    set_number: "Game.ratio",
    replace_array: "Game.field",
    append_inside: "Game.units[3].path",
    delete_inside: "Game.units[0]",
    replace_list: "Game.units",
    write_array: "Game.field",
    draw: "Game.rng",
    write_large: "Game.prices[7]",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("option", ["telemetry", "events"])
def test_a_change_of_the_object_by_a_function_is_found(
    tmp_path: Path, change: Callable[[Game], None], option: str
) -> None:
    """It is one line with the path and the tick. What is on the tape replays: it is no desync."""
    path = tmp_path / "run.tape"

    def meddle(game: Game) -> Any:
        if game.turn == 7:
            change(game)
        return {} if option == "telemetry" else []

    with pytest.raises(OutputFunctionError) as caught:
        record_game(path, 20, **{option: meddle})

    assert str(caught.value).startswith(f"{option}= changed {CHANGES[change]} at tick 7, which no replay does")
    assert "\n" not in str(caught.value)
    assert (caught.value.name, caught.value.tick) == (option, 7)
    with Tape(path) as tape:
        assert tape.last_tick == 6
    assert replayer.verify_tape(path, Game).ok


def test_a_function_that_reads_in_any_way_changes_nothing(tmp_path: Path) -> None:
    """Nor does one that replaces a value by an equal one, or asks for the dicts of objects."""

    def read(game: Game) -> dict[str, Any]:
        game.units[2].hp = int(str(game.units[2].hp))
        game.ratio = float(str(game.ratio))
        return {"names": sum(len(vars(unit)) for unit in game.units), "least": min(game.prices)}

    record_game(tmp_path / "run.tape", 30, telemetry=read)

    assert replayer.verify_tape(tmp_path / "run.tape", Game).ok


def test_a_change_is_found_where_no_object_is_kept(tmp_path: Path) -> None:
    """With weak references in the state."""

    def meddle(game: Game) -> dict[str, Any]:
        if game.turn == 7:
            game.units[2].hp = 1
        return total(game)

    with pytest.raises(OutputFunctionError, match=r"telemetry= changed .*units\[2\]\.hp at tick 7"):
        record_game(tmp_path / "run.tape", 20, Watched(), telemetry=meddle)


@pytest.mark.parametrize("rows", [4, 50_000])
def test_a_change_of_an_arena_is_found(tmp_path: Path, rows: int) -> None:
    """With the field's name in a small state."""

    def meddle(world: Counter) -> dict[str, Any]:
        if world.state["n"] == 7:
            world.state["rows"][1] = 5
        return {}

    tape = recorder.Recorder(tmp_path / "run.tape", Counter(rows), telemetry=meddle)
    with pytest.raises(OutputFunctionError, match=f"changed {'rows' if rows == 4 else 'the state'} at tick 7"):
        make_steps(tape, 20)
    with pytest.raises(SimulationFailedError):
        tape.step()
    tape.close()


def test_a_change_of_what_save_returns_is_found(tmp_path: Path) -> None:
    def meddle(world: Saved) -> dict[str, Any]:
        world.n += world.n == 7
        return {}

    with (
        recorder.Recorder(tmp_path / "run.tape", Saved(), telemetry=meddle) as tape,
        pytest.raises(OutputFunctionError, match="changed saved at tick 7"),
    ):
        make_steps(tape, 20)


def test_functions_take_the_place_of_the_simulation_s_own(tmp_path: Path) -> None:
    """A Recorder takes them, too."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(
        path, Counter(), telemetry=lambda world: {"n": int(world.state["n"])}, events=lambda _: []
    ) as tape:
        for _ in range(3):
            tape.step()

    with Tape(path) as opened:
        assert list(opened.telemetry()) == ["tick", "n"]
        assert list(opened.events()) == []


def test_a_function_that_raises_later_costs_the_figures_of_these_ticks(tmp_path: Path) -> None:
    """One warning; the end of the tape counts the ticks; the recording goes on."""
    path = tmp_path / "run.tape"

    def ratio(game: Game) -> dict[str, Any]:
        return {"ratio": 1 / (game.turn % 5)} if game.turn else {"ratio": 0.0}

    with pytest.warns(RecordingWarning, match=r"telemetry= raised ZeroDivisionError: .*, at tick 5: ") as warned:
        record_game(path, 20, telemetry=ratio)

    assert len(warned) == 1
    with Tape(path) as tape:
        assert tape.last_tick == 20
        assert tape.telemetry()["tick"].tolist() == [tick for tick in range(21) if not tick or tick % 5]
        failed = tape.outcome["output_functions"]["telemetry"]
        assert (failed["first_tick"], failed["count"]) == (5, 4)
        assert "ZeroDivisionError: " in failed["text"]
    assert replayer.verify_tape(path, Game).ok


def test_ticks_whose_events_are_unknown_are_not_ticks_without_events(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"

    def some(game: Game) -> list[dict[str, Any]]:
        if 4 <= game.turn < 7:
            raise LookupError("gone")
        return thirds(game)

    with pytest.warns(RecordingWarning, match="events= raised LookupError: gone"):
        record_game(path, 20, events=some)

    with Tape(path) as tape:
        assert tape.missing_event_ticks() == [(4, 6)]
        assert [tick for tick, _ in tape.events()] == [0, 3, 9, 12, 15, 18]
        with pytest.raises(UnfitSimulationError, match="events of tick 4 are not on the tape"):
            list(replayer.rebuild_events(tape, Game))


@pytest.mark.parametrize(
    ("option", "function", "words"),
    [
        ("telemetry", lambda _: 1 / 0, "telemetry= raised ZeroDivisionError"),
        ("telemetry", lambda _: [1], "telemetry= raised TypeError: the function returned list: expected a mapping"),
        ("telemetry", lambda _: {"hp": "many"}, "the function figure hp is str: expected a number"),
        ("events", lambda _: {"kind": "x"}, "events= raised TypeError: expected a list of events"),
        ("events", lambda _: [{"tick": 1, "kind": "x"}], "an event with the key 'tick'"),
        ("telemetry", lambda game: setattr(game, "turn", 9) or {}, "telemetry= changed Game.turn at tick 0"),
    ],
)
def test_a_mistake_at_the_start_leaves_no_file(tmp_path: Path, option: str, function: Any, words: str) -> None:
    with pytest.raises(OutputFunctionError) as caught:
        recorder.record(Game(), tmp_path / "run.tape", quiet=True, **{option: function})

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [3, "hp", without_parameters, make_steps])
@pytest.mark.parametrize("option", ["telemetry", "events"])
def test_what_is_no_function_of_the_object_is_refused(tmp_path: Path, option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{option}.*expected "):
        recorder.record(Game(), tmp_path / "run.tape", quiet=True, **{option: value})
    assert list(tmp_path.iterdir()) == []


def test_a_function_that_steps_the_object_is_told(tmp_path: Path) -> None:
    def step_again(game: Game) -> dict[str, Any]:
        if game.turn == 2:
            game.step()
        return {}

    with pytest.warns(RecordingWarning, match="telemetry= raised ConcurrentStepError"):
        record_game(tmp_path / "run.tape", 5, telemetry=step_again)
    assert replayer.verify_tape(tmp_path / "run.tape", Game).ok


@pytest.mark.parametrize("again", [True, False])
def test_a_resumed_tape_has_them_from_there_on_if_they_are_given_again(tmp_path: Path, *, again: bool) -> None:
    path = tmp_path / "run.tape"
    record_game(path, 6, telemetry=total, events=thirds)

    functions: Any = {"telemetry": total, "events": thirds} if again else {}
    with recorder.resume(path, Game(), **functions) as tape:
        for _ in range(6):
            tape.subject.step()

    with Tape(path) as opened:
        last = 12 if again else 6
        assert opened.last_tick == 12
        assert opened.telemetry()["tick"].tolist() == list(range(last + 1))
        assert [tick for tick, _ in opened.events()] == [tick for tick in (0, 3, 6, 9, 12) if tick <= last]
        assert opened.missing_event_ticks() == ([] if again else [(7, 12)])


def test_an_environment_has_them(tmp_path: Path) -> None:
    """They get the environment itself; a change of it is found."""
    gymnasium = pytest.importorskip("gymnasium")
    path = tmp_path / "run.tape"

    def angle(env: Any) -> dict[str, Any]:
        state = env.unwrapped.state
        return {"angle": 0.0 if state is None else float(state[2])}

    def right(env: Any) -> list[dict[str, Any]]:
        state = env.unwrapped.state
        return [] if state is None or state[0] <= 0 else [{"kind": "right", "x": float(state[0])}]

    env = recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True, telemetry=angle, events=right)
    env.reset(seed=1)
    angles, places = [], []
    for _ in range(5):
        observation, *_ = env.step(1)
        angles.append(observation[2])
        places.append(observation[0])
    env.close()

    expected = [(tick, "right", float(x)) for tick, x in enumerate(places, 2) if x > 0]  # Tick 1 is the reset.
    with Tape(path) as tape:
        assert np.float32(tape.telemetry()["angle"][2:]).tolist() == np.float32(angles).tolist()
        found = [(tick, event["kind"], float(np.float32(event["x"]))) for tick, event in tape.events() if tick > 1]
    assert 0 < len(expected) <= 5
    assert found == expected
    assert replayer.verify_tape(path).ok

    def push(env: Any) -> dict[str, Any]:
        if env.unwrapped.steps_beyond_terminated is None and env.unwrapped.state is not None:
            env.unwrapped.state = (1.0, 0.0, 0.0, 0.0)
        return {}

    env = recorder.record(gymnasium.make("CartPole-v1"), tmp_path / "bad.tape", quiet=True, telemetry=push)
    with pytest.raises(OutputFunctionError, match=r"telemetry= changed .*state"):
        env.reset(seed=1)
    env.close()


def run_command(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(words))
    return int(left.value.code or 0)


def test_commands_show_what_functions_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they show telemetry and events of worlds: find, export, plot, extract, info."""
    monkeypatch.chdir(tmp_path)
    record_game(Path("run.tape"), 60, telemetry=total, events=thirds)
    with Tape("run.tape") as tape:
        hp = tape.telemetry()["hp"].tolist()

    assert run_command("find", "telemetry.hp < 450", "run.tape", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ticks"] == [tick for tick, one in enumerate(hp) if one < 450]
    assert run_command("export", "run.tape", "--telemetry", "-o", "run.csv") == 0
    assert Path("run.csv").read_text(encoding="utf-8").splitlines()[:2] == ["tick,hp,ratio", "0,500,0.5"]
    assert run_command("export", "run.tape", "--events", "-o", "run.ndjson") == 0
    assert len(Path("run.ndjson").read_text(encoding="utf-8").splitlines()) == 21
    assert run_command("info", "run.tape") == 0
    assert "  events: 21" in capsys.readouterr().out
    pytest.importorskip("matplotlib")
    assert run_command("plot", "run.tape", "-o", "run.svg") == 0
    assert "ratio" in Path("run.svg").read_text(encoding="utf-8") or Path("run.svg").stat().st_size > 10_000
