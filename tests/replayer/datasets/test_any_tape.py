"""Every tape is extracted with every table, or refused in one line that names what helps: never a traceback."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import recorder.commands.main
import replayer.commands.main
from replayer.datasets.dataset import Dataset
from replayer.datasets.extract import extract
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import Lists
from replayer.datasets.stream.samples import samples
from replayer.tape.fields import GRAPH_MARK, GRAPH_PREFIX
from replayer.timeline.timeline import Timeline
from sim import Blob, Field, Schema, State, Table
from sim.adapters.capture.graph.groups import STRUCTURE
from sim.kernel.registry import find_world

from oracle.command_lines import assert_one_line, run
from oracle.live_runs import record_live

pytestmark = pytest.mark.share(0.15)

TICKS = 12
HERE = Path(__file__).stem
SCENARIOS = ("arms-race", "boom-and-crash", "ping-pong", "swarm", "two-phase-vote")


class Odd:
    """Fields that no file format holds as they are: complex numbers, no values, bytes of any length."""

    def __init__(self) -> None:
        ants = Table("ants", Field("wave", "c8"), Field("none", "f8", (0,)), capacity=4)
        fields = Field("z", "c16", (3,)), Field("one", "c8"), Field("none", "f8", (0, 3)), Field("half", "f2", (2,))
        self.state = State(Schema(*fields, Field("tick", "i8"), Blob("script"), ants))

    def step(self, _: Any) -> None:
        """Turn all of them, and add an ant."""
        state = self.state
        state["tick"][()] += 1
        tick = int(state["tick"])
        state["z"][:] = np.exp(1j * np.arange(3) * tick)
        state["one"][()] = tick - 2j
        state["half"][:] += 0.5
        state.set_blob("script", bytes(range(tick)))
        state.add_rows("ants", 1)
        state["ants.wave"][:] = tick * 1j


class Game:
    """A plain object whose list of units, and their kinds, change."""

    def __init__(self) -> None:
        self.random = random.Random(3)
        self.board = np.zeros((4, 5), np.int8)
        self.tick = 0
        self.units: list[Any] = [{"x": 1}]
        self.best: Any = None

    def advance(self) -> None:
        """Move."""
        self.tick += 1
        self.board[self.tick % 4] += self.random.randrange(3)
        if self.tick % 3 == 0:
            self.units.append(({self.tick}, [self.tick]))
            self.best = self.units[-1]


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: Any) -> Path:
    folder: Path = tmp_path_factory.mktemp("tapes")
    for name in SCENARIOS:
        line = f"run {name} --ticks {TICKS} -o {folder}/{name}.tape -q"
        assert run(recorder.commands.main.main, line) == 0
    record_live(folder / "odd.tape", Odd(), [None] * TICKS, keyframe_interval_ticks=5)
    game = recorder.record(Game(), folder / "game.tape", step="advance", trial_ms=0)
    for _ in range(TICKS):
        game.advance()
    recorder.tape_of(game).close()
    return folder


@pytest.fixture(autouse=True)
def work(tmp_path: Path, tapes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test works in its own folder with the tapes."""
    for path in tapes.glob("*.tape"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


CHOICES = (
    "",
    "--table states --long",
    "--table pairs",
    "--table actions",
    "--table events",
    "--table pairs --stride 5",
)
FORMATS = ("parquet", "arrow", "zarr", "minari", "lerobot")


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", [*SCENARIOS, "odd", "game"])
@pytest.mark.seldom(0.15)
def test_each_table_is_extracted_or_refused_in_one_line(name: str, choice: str, capfd: Any) -> None:
    """Nothing but a refusal gives no data set, and the defaults are never refused in Parquet."""
    sim = {"odd": f"--sim {HERE}:Odd", "game": f"--sim {HERE}:Game"}.get(name, "")
    for number, file_format in enumerate(FORMATS):
        out = f"out-{number}"
        code = run(
            replayer.commands.main.main, f"extract {name}.tape -o {out} -j 1 --format {file_format} {sim} {choice}"
        )
        captured = capfd.readouterr()
        assert code == 0 or assert_one_line(captured, "error: ") is None, captured.err
        assert code in (0, 2), (captured.err, file_format)
        assert Path(out).exists() == (code == 0)
        assert not Path(f"{out}.unfinished").exists()
        if code:
            assert any(hint in captured.err for hint in ("--observe", "leave out", "use parquet", "Minari")), (
                captured.err
            )
        else:
            Dataset(out).verify()
        assert code == 0 or choice or file_format != "parquet"


def test_complex_numbers_come_back() -> None:
    """In each format, in fields, in columns of tables and in observations, they equal the replayed ones."""
    live: dict[int, dict[str, Any]] = {}
    with Timeline("odd.tape", world=Odd) as timeline:
        for tick in range(TICKS + 1):
            timeline.seek(tick)
            live[tick] = {name: timeline.state[name].copy() for name in ("z", "one", "ants.wave", "script")}
    wanted: dict[str, Any] = {
        "world": Odd,
        "tables": ("states", "pairs"),
        "observations": f"{HERE}:look",
        "fields": "z",
    }
    for file_format in ("parquet", "arrow", None):
        if file_format is None:
            data: Any = extract("odd.tape", **wanted)
        else:
            extract("odd.tape", file_format, file_format=file_format, **wanted)
            data = Dataset(file_format)
        states, pairs = data.table("states").numpy(), data.table("pairs").numpy()
        assert_equal(states["z"], np.array([live[tick]["z"] for tick in range(TICKS + 1)]))
        assert_equal(pairs["next.one"], np.array([live[tick]["one"] for tick in range(1, TICKS + 1)]))
        assert_equal(pairs["obs.turned"], np.array([1j * live[tick]["z"] for tick in range(TICKS)]))
    every = {"fields": ("one", "ants.wave", "script"), "tables": "states", "world": Odd}
    extract("odd.tape", "every", **every)
    found = Dataset("every").table("states").numpy()
    for name in ("ants.wave", "script"):
        column = found[name]
        assert isinstance(column, Lists)
        assert_equal(column.values, np.concatenate([live[tick][name] for tick in live]))
        assert column.lengths.tolist() == list(range(TICKS + 1))
    rows = list(samples("odd.tape", table="states", world=Odd, shuffle=False, fields=("z", "one")))
    assert_equal(np.array([row["z"] for row in rows]), states["z"])
    extract("odd.tape", "cells", long=True, **{**every, "fields": ("one", "ants.wave")})
    cells = Dataset("cells").table("states_ants").numpy("ants.wave")
    assert_equal(cells, found["ants.wave"].values)


def look(state: Any) -> dict[str, Any]:
    """An observation with complex numbers."""
    return {"turned": 1j * state["z"], "one": state["one"]}


def assert_equal(found: Any, expected: Any) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


def test_complex_numbers_in_zarr() -> None:
    """Zarr has its own type for them."""
    zarr = pytest.importorskip("zarr")
    extract("odd.tape", "out", world=Odd, tables="states", file_format="zarr", fields=("z", "ants.wave"))
    group = zarr.open_group("out/data.zarr", mode="r")["states"]
    assert (group["z"].dtype, group["z"].shape) == (np.complex128, (TICKS + 1, 3))
    assert group["z"][7].tolist() == np.exp(1j * np.arange(3) * 7).tolist()
    assert group["ants.wave"].dtype == np.complex64


def test_agents_that_see_arrays_of_different_lengths_get_lists() -> None:
    """The values are those of the world's observation for each agent."""
    extract("two-phase-vote.tape", "out")
    table = Dataset("out").table("pairs")
    payload, agents, ticks = (table.numpy(name) for name in ("obs.next_payload", "agent", "tick"))
    assert isinstance(payload, Lists)
    assert len(set(payload.lengths.tolist())) > 1
    with Timeline("two-phase-vote.tape") as timeline:
        world = timeline.tape.meta["world"]
        make = next(iter(find_world(world["name"]).observations.values()))
        start = 0
        for agent, tick, length in zip(agents, ticks, payload.lengths, strict=True):
            timeline.seek(int(tick))
            expected = np.asarray(make(world["config"], str(agent))(timeline.state)["next_payload"])
            assert_equal(payload.values[start : start + length], expected)
            start += length


def test_one_agent_keeps_its_shape() -> None:
    """A chosen agent has arrays of one shape, so its columns are tensors."""
    extract("two-phase-vote.tape", "out", agents="Coordinator.0")
    shape = Dataset("out").table("pairs").shapes["obs.next_payload"]
    assert shape is not None
    assert not shape.is_list


def test_the_fields_of_an_object_without_its_containers() -> None:
    """Its numbers and arrays are columns; the tables of the objects in its containers come and go."""
    assert (GRAPH_MARK, GRAPH_MARK.startswith(GRAPH_PREFIX)) == (STRUCTURE, True)
    extract("game.tape", "out", world=Game)
    columns = Dataset("out").table("states").shapes
    assert {"Game.board", "Game.tick"} <= set(columns)
    assert not any(name.startswith(GRAPH_PREFIX) for name in columns)


def boom(_: Any) -> Any:
    """Raise."""
    return 1 // 0


def ragged(_: Any) -> Any:
    """Return lists of different lengths."""
    return [[1, 2], [3]]


def some(state: Any) -> Any:
    """Return different names."""
    return {"a": 1} if state["tick"] < 5 else {"b": 1}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("odd.tape --table states --field none", "the field none has no values, its shape is (0, 3): leave it out"),
        ("odd.tape --table states --field ants.none --long", "the field ants.none has no values, its shape is (0,)"),
        ("odd.tape --table pairs --field none", "the field none has no values"),
        (f"odd.tape --observe {HERE}:boom", f"the observation {HERE}:boom raised ZeroDivisionError: "),
        (f"odd.tape --field z --table pairs --action {HERE}:boom", "the encoding of actions"),
        (f"odd.tape --field z --table pairs --reward {HERE}:boom", f"the reward {HERE}:boom raised"),
        (f"odd.tape --observe {HERE}:ragged", "expected arrays of one shape, got lists of different lengths"),
        (f"odd.tape --observe {HERE}:some", "a function must return the same names at all ticks"),
        ("odd.tape --table events", "odd.tape: Odd has no events() to rebuild events with: leave out the table events"),
        ("odd.tape --table pairs", "give one as module:function (--observe), or give fields (--field)"),
        ("boom-and-crash.tape --observe fog", "the observation fog: expected the name of a player as agent, and this"),
    ],
)
def test_what_cannot_be_extracted_is_named(line: str, said: str, capfd: Any) -> None:
    """One line with the option that helps, exit code 2."""
    sim = f"--sim {HERE}:Odd" if line.startswith("odd") else ""
    assert run(replayer.commands.main.main, f"extract {line} -o out -j 1 {sim}") == 2
    assert_one_line(capfd.readouterr(), said)


def test_minari_names_complex_numbers(capfd: Any) -> None:
    """It has no space of them."""
    pytest.importorskip("minari")
    line = f"extract odd.tape -o out -j 1 --sim {HERE}:Odd --format minari --observe {HERE}:look --reward {HERE}:zero"
    assert run(replayer.commands.main.main, f"{line} --action {HERE}:zero") == 2
    assert_one_line(capfd.readouterr(), "Minari has no complex numbers, and obs.")


def zero(*_: Any) -> int:
    """A reward, and an encoding."""
    return 0


def test_names_count_once() -> None:
    """A field or table that is given twice is extracted once."""
    extract("odd.tape", "out", world=Odd, tables=("states", "states"), fields=("z", "z"), long=True)
    assert Dataset("out").tables == ("states_3",)


def test_runs_without_agents_get_the_observation_that_needs_none() -> None:
    """The first observation of the meadow needs a player."""
    extract("boom-and-crash.tape", "out", tables="pairs", ranges=((0, 2),))
    assert Dataset("out").rows == {"pairs": 2}
    with pytest.raises(ExtractionError, match="this run has no agents"):
        extract("boom-and-crash.tape", "fog", observations="fog")


class Words:
    """An object with a list, a number, and nothing else."""

    def __init__(self) -> None:
        self.turn, self.words = 0, ["a"]

    def step(self) -> None:
        """Add a word."""
        self.turn += 1
        self.words.append("b" * self.turn)


def test_what_the_capture_keeps_for_itself_is_no_column(tmp_path: Path) -> None:
    """Of a recorded object, the attributes are; what is inside others is named with what reads it."""
    with recorder.record(Words(), tmp_path / "run.tape", quiet=True, trial_ms=0) as words:
        for _ in range(3):
            words.step()
    extract([tmp_path / "run.tape"], tmp_path / "data", world=Words)
    table = Dataset(tmp_path / "data").table("states").to_arrow()
    assert table.drop_columns(["run"]).to_pydict() == {"tick": [0, 1, 2, 3], "Words.turn": [0, 1, 2, 3]}
    with pytest.raises(
        ExtractionError,
        match=r"fields there: Words\.turn \(what is inside lists, dicts and objects is read by your own functions",
    ):
        extract([tmp_path / "run.tape"], tmp_path / "more", world=Words, fields=["words"])
