"""Functions in place of a simulation's agent_ methods give the same rows, refusals and provenance."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

import recorder
import replayer
import replayer.commands.main
from replayer.datasets.request import ExtractionError

needs("gymnasium")

import gymnasium  # noqa: E402
from acting_simulations import Cart, Pond, SavingPond, recorded_cart, recorded_pond  # noqa: E402

from oracle.columns_of_values import ensure_row  # noqa: E402
from oracle.command_lines import assert_one_line, run  # noqa: E402

NAMES = ("agent_names", "agent_observation", "agent_actions", "agent_reward")
HERE = __name__
CASES: dict[str, Any] = {
    "state": (lambda path: recorded_pond(path, Pond), Pond),
    "saved": (lambda path: recorded_pond(path, SavingPond), SavingPond),
    "object": (recorded_cart, Cart),
}


def bare(cls: type) -> Any:
    """A class of the same name without the methods."""
    own = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (cls,), {**own, **dict.fromkeys(NAMES)})


class BareSavingPond(SavingPond):
    """The pond that keeps its state elsewhere, without the methods."""

    def __init__(self) -> None:
        super().__init__()
        for name in NAMES:
            delattr(self, name)


def functions_of(cls: type) -> dict[str, Any]:
    """Functions of (simulation, ...) that do what the methods of the class do."""

    def function(name: str) -> Any:
        def call(simulation: Any, *arguments: Any, **keywords: Any) -> Any:
            if isinstance(simulation, SavingPond):
                return getattr(simulation.pond, name)(*arguments, **keywords)
            seen = copy.copy(simulation)
            seen.__class__ = cls
            return getattr(seen, name)(*arguments, **keywords)

        return call

    return {name: function(name) for name in NAMES}


BARE = {"state": bare(Pond), "saved": BareSavingPond, "object": bare(Cart)}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.seldom(0.15)
def test_functions_give_the_rows_of_the_loop(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """By default transitions, and the actions as a table with columns; in two processes, and without files."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 20)
    record, cls = CASES[name]
    rows = record(tmp_path / "run.tape")
    wanted: Any = {"world": BARE[name], **functions_of(cls)}
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", jobs=2, **wanted)
    table = made.table("transitions").to_arrow()
    assert (made.code, made.tables) == (0, ("transitions",))
    for row, expected in zip(table.to_pylist(), rows, strict=True):
        ensure_row(row, expected, table.schema)

    tables = ("transitions", "actions")
    by_methods = replayer.extract(tmp_path / "run.tape", world=cls, tables=tables)
    in_memory = replayer.extract(tmp_path / "run.tape", tables=tables, **wanted)
    for one in tables:
        assert in_memory.table(one).to_arrow().equals(by_methods.table(one).to_arrow())
    assert in_memory.table("transitions").to_arrow().to_pylist() == table.to_pylist()


def test_functions_are_streamed(tmp_path: Path) -> None:
    """By samples, which has the same arguments."""
    rows = recorded_pond(tmp_path / "run.tape", Pond)
    wanted: Any = {"world": bare(Pond), **functions_of(Pond), "agent_reward": lambda _, agent: len(agent)}
    found = list(replayer.samples(tmp_path / "run.tape", columns=("tick", "agent", "reward"), **wanted))
    assert {(row["tick"], row["agent"], row["reward"]) for row in found} == {
        (row["tick"], row["agent"], 5.0) for row in rows
    }


def energy(pond: Pond, agent: str) -> Any:
    """An observation that the class does not have."""
    return pond.state["energy"][int(agent[4:])]


def test_a_function_takes_the_place_of_a_method(tmp_path: Path, capfd: Any) -> None:
    """The other methods are used. The command takes its name, and so does Python; the manifest has it."""
    rows = recorded_pond(tmp_path / "run.tape", Pond)
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Pond, agent_observation=energy)
    found = made.table("transitions").to_arrow().to_pylist()
    assert [row["obs"] for row in found] == [row["obs"]["me"][1] for row in rows]
    assert [row["reward"] for row in found] == [float(row["reward"]) for row in rows]
    assert made.manifest["request"]["agent_observation"] == f"{HERE}:energy"
    assert not {"agent_names", "agent_actions", "agent_reward"} & made.manifest["request"].keys()

    line = f"extract {tmp_path}/run.tape --sim acting_simulations:Pond -o {tmp_path}/typed -j 1"
    assert run(replayer.commands.main.main, f"{line} --agent-observation {HERE}:energy") == 0
    typed = replayer.Dataset(tmp_path / "typed")
    assert typed.table("transitions").to_arrow().to_pylist() == found
    by_function = json.loads((tmp_path / "set" / "manifest.json").read_text())
    assert typed.manifest["request"] == by_function["request"]
    recorded_pond(tmp_path / "two.tape", Pond)
    capfd.readouterr()
    assert run(replayer.commands.main.main, f"{line.replace('run.tape', 'two.tape')} --append") == 2
    assert_one_line(
        capfd.readouterr(), f"was made with a different request (agent_observation: {HERE}:energy, now None)"
    )


def test_actions_need_only_their_function(tmp_path: Path) -> None:
    recorded_pond(tmp_path / "run.tape", Pond)
    table = replayer.extract(
        tmp_path / "run.tape",
        world=bare(Pond),
        tables="actions",
        agent_actions=lambda _, inputs: {"all": len(inputs)},
    ).table("actions")
    assert set(table.numpy("agent")) == {"all"}
    assert table.numpy("action").dtype == "int64"


class Callables:
    """An object that is called is a function, too."""

    def __call__(self, pond: Pond) -> Any:
        return Pond.agent_names(pond)


def test_objects_that_are_called(tmp_path: Path) -> None:
    rows = recorded_pond(tmp_path / "run.tape", Pond)
    wanted: Any = {**functions_of(Pond), "agent_names": Callables()}
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=bare(Pond), **wanted)
    assert made.rows == {"transitions": len(rows)}
    assert made.manifest["request"]["agent_names"] == f"{HERE}:Callables"


def wrong(*_: Any) -> Any:
    """Return nothing that any of the functions may return."""
    return object


WRONG = {
    "agent_names": r"at tick 0: expected a list of different texts, got <class 'object'>: return the names",
    "agent_observation": r"at tick 0: expected numbers, texts or arrays, .*, got <class 'object'> for 'fish0': return",
    "agent_actions": r"at tick 0: expected a dict from names of agents to their actions, got <class 'object'>: return",
    "agent_reward": r"at tick 1: expected a number, got <class 'object'> for 'fish0': return 0\.0",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_return_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    """As that of a method, with the name of the function."""
    recorded_pond(tmp_path / "run.tape", Pond)
    message = rf"^{name} \(.*test_agent_functions:wrong\) {WRONG[name]}"
    with pytest.raises(ExtractionError, match=message) as caught:
        replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Pond, **{name: wrong})
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]


def failing(pond: Pond, agent: str) -> Any:
    """Raise."""
    return 1 / (pond is agent)


def drawing(pond: Pond, agent: str) -> Any:
    """Write to the simulation."""
    pond.state["x"][int(agent[4:])] += 0.5
    return 1.0


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    recorded_pond(path, Pond)
    env = recorder.record(gymnasium.make("CartPole-v1"), tmp_path / "env.tape", quiet=True, trial_ms=0)
    env.reset(seed=1)
    env.step(0)
    env.close()

    def refused(message: str, tape: str = "run.tape", **wanted: Any) -> None:
        with pytest.raises(ExtractionError, match=message) as caught:
            replayer.extract(tmp_path / tape, tmp_path / "set", **{"world": Pond} | wanted)
        assert "\n" not in str(caught.value)
        assert not list(tmp_path.glob("set*"))

    refused(
        r"agent_reward \(.*:failing\) raised ZeroDivisionError: division by zero \(test_agent_f", agent_reward=failing
    )
    refused(r"at tick 1 is as recorded if the agent_ functions of Pond are not called", agent_observation=drawing)
    refused(
        r"^agent_observation \(.*<lambda>\): expected a function that can be called with \(simulation, agent\), got \(x\)",
        agent_observation=lambda x: x,
    )
    refused(
        r"^agent_names: expected a function of \(simulation\), or its name as module:function, got 5", agent_names=5
    )
    refused(r"^agent_names: expected a function .*, got 'fish'", agent_names="fish")
    refused("^agent_names nowhere:none: ", agent_names="nowhere:none")
    refused(
        "^agent_reward gives the tables transitions and actions, and the tables are states: choose one with --table; "
        "transitions need agent_names, agent_observation, agent_actions",
        agent_reward=energy,
        tables="states",
    )
    refused("and the tables are states", agent_names=Pond.agent_names, world=bare(Pond))
    refused(
        "it has no agent_actions: add it, give it as a function, or choose",
        agent_names=Pond.agent_names,
        world=bare(Pond),
        agent_observation=energy,
        tables="transitions",
    )
    refused(
        r"env.tape is the tape of an environment, which has its own agents: leave agent_reward out",
        "env.tape",
        agent_reward=energy,
        world=None,
    )
    refused(r"^agent_reward is for your own simulation: give what makes it as world", world=None, agent_reward=energy)
