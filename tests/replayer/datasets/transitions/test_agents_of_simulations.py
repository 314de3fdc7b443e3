"""Data of the agents of your own simulation, by its methods: every row equals what a plain loop collected beside it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from optional_packages import needs

import recorder
import replayer
import replayer.commands.main
from recorder import Recorder
from replayer.datasets.request import ExtractionError
from sim import Field, Schema, State

needs("gymnasium")  # The independent reading of values knows its spaces.

from oracle.columns_of_values import ensure_row, ensure_value, leaves  # noqa: E402
from oracle.command_lines import assert_one_line, run  # noqa: E402

HERE = Path(__file__).stem
TICKS = 150
Row = dict[str, Any]


class Pond:
    """Fish that hatch and leave, with actions of several types, until it has frozen."""

    size = 5

    def __init__(self) -> None:
        fields = (
            Field("x", "f8", (self.size, 2)),
            Field("energy", "i2", (self.size,)),
            Field("gain", "f4", (self.size,)),
        )
        self.state = State(Schema(*fields, Field("tick", "i8")))
        self.state["energy"][:2] = 9

    def step(self, inputs: dict[str, Any]) -> None:
        """Move the fish, let one hatch now and then, and take energy."""
        state = self.state
        state["tick"][()] += 1
        before = state["energy"].copy()
        for number, (dx, dy, eats) in inputs.get("moves", {}).items():
            state["x"][int(number)] += (dx, dy)
            state["energy"][int(number)] += 3 if eats else -2
        state["energy"][state["energy"] > 0] -= 1
        state["energy"][state["energy"] < 0] = 0
        tick = int(state["tick"])
        if tick % 4 == 0:
            state["energy"][tick // 4 % self.size] += 7
        state["gain"][:] = (state["energy"] - before) / np.float32(3)

    def ended(self) -> tuple[str, str] | None:
        """The pond freezes."""
        return ("frozen", "the pond has frozen") if self.state["tick"] >= TICKS else None

    def agent_names(self) -> list[str]:
        """The living fish."""
        return [f"fish{number}" for number in range(self.size) if self.state["energy"][number] > 0]

    def agent_observation(self, agent: str) -> Any:
        """A view of the state, which the next step writes to, and values of other kinds."""
        number = int(agent[4:])
        near = np.flatnonzero(np.abs(self.state["x"] - self.state["x"][number]).sum(1) < 3).astype(np.int32)
        hunger = "hungry" if self.state["energy"][number] < 4 else "fed"
        return {"me": (self.state["x"][number], self.state["energy"][number]), "near": near, "hunger": hunger}

    def agent_actions(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The moves of the fish that live."""
        names = self.agent_names()
        moves = {f"fish{number}": move for number, move in inputs.get("moves", {}).items()}
        return {
            name: {"go": np.array(move[:2], np.float32), "eats": bool(move[2])}
            for name, move in moves.items()
            if name in names
        }

    def agent_reward(self, agent: str) -> Any:
        """The gain of energy in the last step."""
        return self.state["gain"][int(agent[4:])]


class Cart:
    """A plain object with a dict action, resets, and a second method that makes ticks."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(4)
        self.place = np.zeros(2, np.float32)
        self.last: dict[str, Any] = {}

    def reset(self) -> None:
        """Begin again."""
        self.place[:] = self.random.normal(size=2)

    def jolt(self, by: float) -> None:
        """No step of an agent."""
        self.place += np.float32(by)

    def drive(self, force: float, *, gear: dict[str, Any] | None = None) -> None:
        """A step, with a keyword."""
        if force > 2:
            raise ValueError("too much")
        self.last = {"force": force, **(gear or {})}
        self.place[1] += np.float32(force) * (gear or {}).get("ratio", 1)
        self.place[0] += self.place[1]

    def agent_names(self) -> tuple[str, ...]:
        """The only agent."""
        return ("driver",)

    def agent_observation(self, agent: str) -> Any:
        """The place itself, not a copy."""
        assert agent == "driver"
        return self.place

    def agent_actions(self, force: float, *, gear: dict[str, Any] | None = None) -> dict[str, Any]:
        """A dict action."""
        return {"driver": {"force": force, "gear": {"ratio": (gear or {}).get("ratio", 1), "low": bool(gear)}}}

    def agent_reward(self, _: str) -> float:
        """Near the middle."""
        return -abs(float(self.place[0]))


class SavingPond:
    """The pond as a simulation that keeps its state elsewhere."""

    def __init__(self) -> None:
        self.pond = Pond()
        self.step, self.ended = self.pond.step, self.pond.ended
        for name in ("agent_names", "agent_observation", "agent_actions", "agent_reward"):
            setattr(self, name, getattr(self.pond, name))

    def save(self) -> dict[str, Any]:
        """All fields."""
        return {name: self.pond.state[name].copy() for name in ("x", "energy", "gain", "tick")}

    def load(self, saved: dict[str, Any]) -> None:
        """Take them."""
        for name, array in saved.items():
            self.pond.state[name][...] = array


def moves_of(rng: np.random.Generator, pond: Any) -> dict[str, Any]:
    """The inputs of a tick: most fish move, also one that is dead."""
    numbers = [name[4:] for name in pond.agent_names() if rng.random() < 0.7] + ["0"]
    return {"moves": {n: [float(rng.normal()), float(rng.normal()), int(rng.random() < 0.6)] for n in numbers}}


def recorded_pond(path: Path, make: Callable[[], Any]) -> list[Row]:
    """Record a pond; the loop asks a second one, which is stepped without a recorder."""
    rng, beside, rows = np.random.default_rng(7), make(), []
    with Recorder(path, make(), keyframe_interval_ticks=10, durability="none") as tape:
        for tick in range(TICKS):
            inputs = moves_of(rng, beside)
            names = beside.agent_names()
            seen = {name: copy.deepcopy(beside.agent_observation(name)) for name in names}
            done = copy.deepcopy(beside.agent_actions(inputs))
            tape.step(inputs)
            beside.step(inputs)
            for name in names:
                is_there = name in beside.agent_names()
                rows.append(
                    {
                        "episode": 0,
                        "step": tick,
                        "tick": tick,
                        "agent": name,
                        "obs": seen[name],
                        "action": done.get(name),
                        "reward": copy.deepcopy(beside.agent_reward(name)),
                        "next": copy.deepcopy(beside.agent_observation(name)) if is_there else None,
                        "terminated": not is_there or beside.ended() is not None,
                        "truncated": False,
                        "seed": None,
                    }
                )
        assert beside.ended() is not None
    return rows


def recorded_cart(path: Path) -> list[Row]:
    """Record an object whose episodes begin with a reset; the loop reads a second object."""
    cart = recorder.record(
        Cart(), path, step=("drive", "reset", "jolt"), keyframe_interval_ticks=10, durability="none", quiet=True
    )
    beside, rows, rng = Cart(), [], np.random.default_rng(2)
    tick = episode = 0
    for round_number in range(6):
        if round_number:  # The first episode begins with the recording.
            cart.reset()
            beside.reset()
            tick, episode = tick + 1, episode + 1
        step = 0
        for number in range(14):
            if number == 5:
                cart.jolt(0.25)
                beside.jolt(0.25)
                tick += 1
            if number == 8:
                for one in (cart, beside):
                    with pytest.raises(ValueError, match="too much"):
                        one.drive(3.0)
                tick += 1
            force, gear = float(rng.normal()), {"ratio": 2} if number % 3 else None
            seen = beside.place.copy()
            for one in (cart, beside):
                one.drive(min(force, 2.0), gear=gear)
            action = {"force": min(force, 2.0), "gear": {"ratio": 2 if gear else 1, "low": gear is not None}}
            rows.append(
                {
                    "episode": episode,
                    "step": step,
                    "tick": tick,
                    "agent": "driver",
                    "obs": seen,
                    "action": action,
                    "reward": beside.agent_reward("driver"),
                    "next": beside.place.copy(),
                    "terminated": False,
                    "truncated": False,
                    "seed": None,
                }
            )
            tick, step = tick + 1, step + 1
    cart.close()
    return rows


CASES: dict[str, tuple[Callable[[Path], list[Row]], Callable[[], Any]]] = {
    "state": (lambda path: recorded_pond(path, Pond), Pond),
    "saved": (lambda path: recorded_pond(path, SavingPond), SavingPond),
    "object": (recorded_cart, Cart),
}


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_every_row_equals_the_one_of_a_loop(name: str, jobs: int, tmp_path: Path, monkeypatch: Any) -> None:
    """Over many parts, in one process and in two: transitions by default, and the actions as a table with columns."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 20)
    record, make = CASES[name]
    rows = record(tmp_path / "run.tape")
    assert {row["agent"] for row in rows} == ({"driver"} if name == "object" else {f"fish{n}" for n in range(5)})
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=make, jobs=jobs)
    assert (made.code, made.tables) == (0, ("transitions",))
    assert len(made.manifest["tables"]["transitions"]["files"]) > 1
    table = made.table("transitions").to_arrow()
    found = table.to_pylist()
    assert len(found) == len(rows)
    for row, expected in zip(found, rows, strict=True):
        assert row["tick"] == expected["tick"]
        ensure_row(row, expected, table.schema)

    actions = replayer.extract(tmp_path / "run.tape", tmp_path / "acts", world=make, tables="actions", jobs=jobs)
    ensure_actions(actions.table("actions").to_arrow(), rows)
    in_memory = replayer.extract(tmp_path / "run.tape", world=make, tables=("transitions", "actions"))
    assert in_memory.table("actions").to_arrow().to_pylist() == actions.table("actions").to_arrow().to_pylist()
    assert in_memory.table("transitions").to_arrow().to_pylist() == found


def ensure_actions(table: pa.Table, rows: list[Row]) -> None:
    """Raise AssertionError unless the table has the actions of these rows, typed, and nothing else."""
    acted = [row for row in rows if row["action"] is not None]
    assert table.num_rows == len(acted) > 0
    for row, expected in zip(table.to_pylist(), acted, strict=True):
        assert (row["tick"], row["agent"]) == (expected["tick"] + 1, expected["agent"])
        wanted = leaves(expected["action"], "action")
        assert row.keys() == {"run", "tick", "agent", *wanted}
        for name, value in wanted.items():
            ensure_value(name, row[name], value, table.schema.field(name).type)


def test_ranges_agents_fields_and_appending(tmp_path: Path) -> None:
    """The same rows, fewer of them."""
    paths = [tmp_path / "one.tape", tmp_path / "two.tape"]
    rows, _ = (recorded_pond(path, Pond) for path in paths)
    wanted: Any = {"world": Pond, "tables": ("transitions", "actions"), "ranges": ((40, 60),), "agents": "fish3"}
    made = replayer.extract(paths[0], tmp_path / "set", fields="me.0", **wanted)
    chosen = [row for row in rows if row["agent"] == "fish3" and 40 <= row["tick"] < 60]
    table = made.table("transitions").to_arrow()
    assert 0 < len(chosen) < 20
    assert [row["tick"] for row in chosen] == table["tick"].to_pylist()
    assert [name for name in table.column_names if name.startswith("obs")] == ["obs.me.0"]
    ensure_actions(made.table("actions").to_arrow(), chosen)
    grown = replayer.extract(paths, tmp_path / "set", fields="me.0", append=True, **wanted)
    assert grown.rows == {name: 2 * count for name, count in made.rows.items()}


def test_methods_that_were_added_after_the_recording_are_enough(tmp_path: Path) -> None:
    """The recorded class needs nothing: the data are chosen afterwards. Without a reward its column is null."""

    class Oven:
        def __init__(self) -> None:
            self.heat = 1.5

        def step(self, by: float) -> None:
            self.heat += by

    oven = recorder.record(Oven(), tmp_path / "run.tape", quiet=True, durability="none")
    for by in (0.5, -1.0, 4.0):
        oven.step(by)
    oven.close()
    functions = {
        "agent_names": lambda _: ["oven"],
        "agent_observation": lambda self, _: self.heat,
        "agent_actions": lambda _, by: {"oven": by},
    }
    for name, function in functions.items():
        setattr(Oven, name, function)
    table = replayer.extract(tmp_path / "run.tape", world=Oven).table("transitions").to_arrow()
    assert table["obs"].to_pylist() == [1.5, 2.0, 1.0]
    assert table["action"].to_pylist() == [0.5, -1.0, 4.0]
    assert table["next"].to_pylist() == [2.0, 1.0, 5.0]
    assert table["reward"].to_pylist() == [None] * 3


class Draws(Pond):
    """Its observation draws from the state, and so changes it."""

    def agent_observation(self, agent: str) -> Any:
        """Write to what the next step reads."""
        self.state["x"][int(agent[4:])] += 0.5
        return 1.0


def without(name: str) -> type[Pond]:
    return type("Lacking", (Pond,), {name: None})


def returning(name: str, value: Any) -> type[Pond]:
    return type("Wrong", (Pond,), {name: lambda self, *_: value})  # noqa: ARG005 - a method


AT = r" at tick 0: expected "
WRONG: list[tuple[str, Any, str]] = [
    ("agent_names", "fish", r"Wrong\.agent_names" + AT + r"a list of different texts, got 'fish': return the names"),
    (
        "agent_names",
        {"a", "b"},
        r"Wrong\.agent_names" + AT + "a list of different texts, got .*always in the same order",
    ),
    ("agent_names", ["a", "a"], r"Wrong\.agent_names" + AT + "a list of different texts"),
    ("agent_names", [1], r"Wrong\.agent_names" + AT + r"a list of different texts, got \[1\]"),
    (
        "agent_observation",
        None,
        r"Wrong\.agent_observation" + AT + ".*, got None for 'fish0': .*leave the agent out of",
    ),
    (
        "agent_observation",
        {"a": [[1], [1, 2]]},
        r"Wrong\.agent_observation" + AT + r".* got \[\[1\], .* 'fish0', a: return",
    ),
    (
        "agent_observation",
        object,
        r"Wrong\.agent_observation" + AT + "numbers, texts or arrays, .*, got <class 'object'>",
    ),
    ("agent_actions", [1], r"Wrong\.agent_actions" + AT + r"a dict .*, got \[1\]: return \{\} if no agent acts"),
    (
        "agent_actions",
        {"crab": 1},
        r"Wrong\.agent_actions" + AT + r"agents of agent_names\(\) \(fish0, fish1\), got 'crab'",
    ),
    ("agent_actions", {"fish0": {1, 2}}, r"Wrong\.agent_actions" + AT + r"numbers, .* got \{1, 2\} for 'fish0'"),
    ("agent_reward", None, r"Wrong\.agent_reward at tick 1: expected a number, got None for 'fish0': return 0\.0"),
    ("agent_reward", [[1], []], r"Wrong\.agent_reward at tick 1: expected a number, got \[\[1\], \[\]\]"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_a_wrong_return_is_refused_in_one_line(name: str, value: Any, message: str, tmp_path: Path) -> None:
    recorded_pond(tmp_path / "run.tape", Pond)
    with pytest.raises(ExtractionError, match=message) as caught:
        replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=returning(name, value))
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]


def test_methods_that_raise_change_the_state_or_take_other_arguments_are_named(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    recorded_pond(path, Pond)

    def refused(make: Any, message: str, **wanted: Any) -> None:
        with pytest.raises(ExtractionError, match=message):
            replayer.extract(path, tmp_path / "set", world=make, **wanted)
        assert not list(tmp_path.glob("set*"))

    refused(
        Draws, r"the state at tick 1 is as recorded if the agent_ methods of Draws are not called, and differs if they"
    )
    refused(returning("agent_actions", {"fish0": 1, "fish4": 2}), "agent_actions at tick 0")
    boom = type("Boom", (Pond,), {"agent_reward": lambda self, agent: 1 / (self is agent)})
    refused(boom, r"Boom\.agent_reward raised ZeroDivisionError: division by zero \(test_agents_of_simulations\.py:")
    narrow = type("Narrow", (Pond,), {"agent_observation": lambda self: self.size})
    refused(
        narrow, r"Narrow\.agent_observation: expected a method that can be called as agent_observation\(agent\), got"
    )
    lacks = r"run.tape: transitions of your own simulation need its methods .*, and it has no agent_names: add it"
    refused(without("agent_names"), lacks, tables="transitions")
    refused(
        Pond,
        "mode: your own simulation has no infos, and who won is not known of it: leave --mode out",
        tables="actions",
        mode="winners",
    )
    refused(Pond, "info: your own simulation has no infos, .*: leave --info out", tables="transitions", info=True)
    refused(Pond, "run.tape: there is no row of crab in the requested ticks", agents="crab")
    refused(Pond, "stride: a transition is one step", tables="transitions", stride=2)
    differing = type(
        "Differs", (Pond,), {"agent_actions": lambda self, _: {n: n if n == "fish0" else 1 for n in self.agent_names()}}
    )
    refused(differing, "action of fish0 is text, and of fish1 <i8: choose agents whose values have one form")


class Warmer(Pond):
    """Steps otherwise than the recorded one from tick 60 on."""

    def step(self, inputs: dict[str, Any]) -> None:
        """Feed the fish."""
        super().step(inputs)
        if self.state["tick"] == 60:
            self.state["energy"][0] += 1


def test_a_desync_of_the_simulation_itself_leaves_out_rows_as_elsewhere(tmp_path: Path) -> None:
    """It differs also where no method is asked; the rows before and after it are exact."""
    rows = recorded_pond(tmp_path / "run.tape", Pond)
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Warmer)
    [missing] = made.manifest["missing"]
    assert (made.code, missing["first_tick"], missing["is_desync"]) == (1, 60, True)
    table = made.table("transitions").to_arrow()
    found = {(row["tick"], row["agent"]): row for row in table.to_pylist()}
    expected = [row for row in rows if not 59 <= row["tick"] < missing["last_tick"]]
    assert len(found) == len(expected) > 100
    for row in expected:
        ensure_row(found[row["tick"], row["agent"]], row, table.schema)


def test_other_tables_are_made_where_methods_are_missing(tmp_path: Path) -> None:
    """Without an observation, the states by default; the actions have columns as soon as agent_actions is there."""
    recorded_pond(tmp_path / "run.tape", Pond)
    blind = without("agent_observation")
    assert replayer.extract(tmp_path / "run.tape", world=blind).tables == ("states",)
    nameless = type("Nameless", (Pond,), {"agent_names": [], "agent_actions": lambda _, inputs: {"all": len(inputs)}})
    table = replayer.extract(tmp_path / "run.tape", world=nameless, tables="actions").table("actions").to_arrow()
    assert table.schema.field("action").type == pa.int64()
    assert (table.num_rows, set(table["agent"].to_pylist())) == (TICKS, {"all"})


def test_the_command_writes_them(tmp_path: Path, capfd: Any, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    path = tmp_path / "run.tape"
    rows = recorded_pond(path, Pond)
    assert run(replayer.commands.main.main, f"extract {path} --sim {HERE}:Pond -o {tmp_path}/set -j 1") == 0
    assert f"set/transitions: {len(rows)} rows" in capfd.readouterr().out
    assert run(replayer.commands.main.main, f"extract {path} --sim {HERE}:Draws -o {tmp_path}/x -j 1") == 2
    assert_one_line(capfd.readouterr(), "they may only read the simulation")
