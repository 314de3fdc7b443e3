"""Data of the agents of your own simulation, by its methods: every row equals what a plain loop collected beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from optional_packages import needs

import recorder
import replayer
import replayer.commands.main
from replayer.datasets.request import ExtractionError

needs("gymnasium")  # The independent reading of values knows its spaces.

from acting_simulations import TICKS, Cart, Draws, Pond, Row, SavingPond, recorded_cart, recorded_pond  # noqa: E402

from oracle.columns_of_values import ensure_row, ensure_value, leaves  # noqa: E402
from oracle.command_lines import assert_one_line, run  # noqa: E402

CASES: dict[str, tuple[Callable[[Path], list[Row]], Callable[[], Any]]] = {
    "state": (lambda path: recorded_pond(path, Pond), Pond),
    "saved": (lambda path: recorded_pond(path, SavingPond), SavingPond),
    "object": (recorded_cart, Cart),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.seldom(0.15)
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


def test_the_rows_are_streamed(tmp_path: Path) -> None:
    """Shuffled, each once; what misses values is named."""
    rows = recorded_pond(tmp_path / "run.tape", Pond)
    wanted: Any = {"world": Pond, "seed": 2}
    found = list(replayer.samples(tmp_path / "run.tape", columns=("tick", "agent", "obs.me.1", "reward"), **wanted))
    expected = {(row["tick"], row["agent"]): (row["obs"]["me"][1], float(row["reward"])) for row in rows}
    assert {(row["tick"], row["agent"]): (row["obs.me.1"], row["reward"]) for row in found} == expected
    assert len(found) == len(rows)
    with pytest.raises(ExtractionError, match=r"the column action\..* misses some values"):
        list(replayer.samples(tmp_path / "run.tape", **wanted))


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
@pytest.mark.share(0.22)
def test_a_wrong_return_is_refused_in_one_line(name: str, value: Any, message: str, tmp_path: Path) -> None:
    recorded_pond(tmp_path / "run.tape", Pond)
    with pytest.raises(ExtractionError, match=message) as caught:
        replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=returning(name, value))
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]


@pytest.mark.seldom(0.15)
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


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
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


def test_the_command_writes_them(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "run.tape"
    rows = recorded_pond(path, Pond)
    assert run(replayer.commands.main.main, f"extract {path} --sim acting_simulations:Pond -o {tmp_path}/set -j 1") == 0
    assert f"set/transitions: {len(rows)} rows" in capfd.readouterr().out
    assert run(replayer.commands.main.main, f"extract {path} --sim acting_simulations:Draws -o {tmp_path}/x -j 1") == 2
    assert_one_line(capfd.readouterr(), "they may only read the simulation")
