"""Scenarios for some roles of a world: messages of the other roles arrive unchanged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from staging import Tally, happened, staged, totals
from tiny_roles import Ring

import replayer
from recorder.scenarios import run_with_scenario
from recorder.session.recorder import Recorder
from replayer.timeline.verify import verify_tape
from sim.kernel.registry import ConfigError

THIEF = {"id": "x", "kind": "withholding", "budget": {"total": 99}}


class Players(Tally):
    """A world with inputs of three players."""

    roles = ("p", "q", "r")


def given_to_players(plain: dict[str, Any], inputs: Any) -> list[Any]:
    """The inputs of the world's step, and the roles with samples."""
    simulation = staged(plain, Players())
    simulation.step(inputs)
    sampled = [event["role"] for event in simulation.events() if event["kind"] == "sample"]
    return [json.loads(simulation.state.blob("log")), sampled]


def test_only_messages_of_these_roles_are_affected() -> None:
    """In a ring of three, with the roles a and b, messages of c reach a despite a thief and a dead network."""
    plain = {"adversaries": [THIEF], "network": {"loss": 1}, "roles": ["b", "a"]}
    lines, simulation = happened(plain, 3, Ring("abc"), without=("sent",))

    assert [line for line in lines if " received " in line] == ["2 received a<c 2", "3 received a<c 5"]
    assert [line for line in lines if "sample" in line][:2] == ["1 sample a [0.0] step=1", "1 sample b [0.0] step=1"]
    assert not [line for line in lines if "sample c" in line]
    assert {line.split()[3] for line in lines if " withheld " in line} == {"a>b", "b>c"}
    assert totals(simulation) == [1 + 2, 0, 0]
    assert simulation.roles == ("a", "b")


def test_naming_all_roles_is_the_same_as_naming_none() -> None:
    """The order of the names does not matter."""
    plain = {"adversaries": [THIEF]}
    assert happened(plain, 3, Ring("abc"))[0] == happened(plain | {"roles": ["c", "a", "b"]}, 3, Ring("abc"))[0]


def test_inputs_of_other_roles_reach_the_world() -> None:
    """A thief takes only the inputs of p; in a list, the others' come first, in the world's order."""
    plain = {"adversaries": [THIEF], "roles": ["p"]}
    sent = {"r": [1], "p": [2], "": [3], "q": [4, 5]}
    assert given_to_players(plain, sent) == [[3, 4, 5, 1], ["p"]]
    assert given_to_players({"roles": ["p"]}, sent) == [[3, 4, 5, 1, 2], ["p"]]
    by_role = plain | {"inputs": "by_role", "idle": 0}
    assert given_to_players(by_role, {"r": 1, "p": 2}) == [{"p": 0, "q": 0, "r": 1}, ["p"]]
    with pytest.raises(ValueError, match="expected inputs by role, of p, q, r, got"):
        given_to_players(plain, {"s": [1]})
    with pytest.raises(ConfigError, match='inputs: expected one role with "one", got 3'):
        given_to_players({"roles": ["p"], "inputs": "one"}, None)


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (
            {"adversaries": [{**THIEF, "senders": ["c"]}]},
            "adversaries[0].senders[0]: c is not one of the scenario's roles: a, b",
        ),
        ({"adversaries": [{**THIEF, "receivers": ["c"]}]}, None),
        (
            {"adversaries": [{**THIEF, "receivers": ["d"]}]},
            "adversaries[0].receivers[0]: d is not a role; roles: a, b, c",
        ),
        (
            {"adversaries": [{"id": "x", "kind": "crash", "role": "c", "budget": {"total": 1}}]},
            "adversaries[0].role: c is not one of the scenario's roles: a, b",
        ),
        ({"network": {"links": [{"from": "a", "to": "c"}]}}, None),
        (
            {"network": {"links": [{"from": "c", "to": "a"}]}},
            "network.links[0].from: c is not one of the scenario's roles: a, b",
        ),
        ({"reconfigurations": [{"id": "k", "kind": "handoff", "from": "c", "to": "a"}]}, None),
        (
            {"reconfigurations": [{"id": "k", "kind": "delegation", "from": "a", "to": "c"}]},
            "reconfigurations[0].to: c is not one of the scenario's roles: a, b",
        ),
    ],
)
def test_parts_that_name_a_role_outside_the_scenario(part: dict[str, Any], line: str | None) -> None:
    """No part can act on messages of such a role, so it is refused; a receiver may be any role."""
    plain = {"roles": ["a", "b"], **part}
    if line is None:
        staged(plain, Ring("abc"))
        return
    with pytest.raises(ConfigError) as caught:
        staged(plain, Ring("abc"))
    assert str(caught.value).startswith(line)


# --- roles from which nothing arrives


@pytest.mark.parametrize("idle", [{}, {"idle": 7}])
def test_a_table_has_an_entry_for_every_role(idle: dict[str, Any]) -> None:
    """If nothing arrives from a role, its entry is ``idle``: no input was sent, or it was withheld."""
    plain = {"inputs": "by_role", "roles": ["p", "q"], **idle}
    thief = {"adversaries": [{**THIEF, "senders": ["p"]}]}
    idle_input = idle.get("idle")
    simulation = staged(plain, Tally())
    for inputs in ({"p": 1}, None, {}, {"p": None, "q": 2}):
        simulation.step(inputs)
    robbed = staged(plain | thief, Tally())
    robbed.step({"p": 1, "q": 2})

    lines = simulation.state.blob("log").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"p": 1, "q": idle_input},
        {"p": idle_input, "q": idle_input},
        {"p": idle_input, "q": idle_input},
        {"p": None, "q": 2},
    ]
    assert json.loads(robbed.state.blob("log")) == {"p": idle_input, "q": 2}


def recorded_inputs(path: Path, plain: dict[str, Any], inputs: Sequence[Any], world: type[Tally]) -> list[Any]:
    """The inputs that a simulation gets in a run that is recorded, and that verifies."""
    result = run_with_scenario(
        world(), {"name": "x", **plain}, inputs=lambda tick, _: inputs[tick - 1], steps=len(inputs) + 1, tape=path
    )
    assert result.error is None
    assert verify_tape(path, world).ok
    with replayer.Timeline(path, world=world) as timeline:
        timeline.seek(len(inputs))
        return [json.loads(line) for line in timeline.state.blob("log").splitlines()]


class Soloist(Tally):
    """A world of one player."""

    roles = ("p",)


def test_roles_of_a_simulation_of_ones_own_get_their_inputs_as_scenarios_md_says(tmp_path: Path) -> None:
    """A table with an entry for every role, or the value of the only one; idle for a role from which nothing arrives."""
    sent = [{"p": 1, "q": 2}, {"r": 3}, None]
    table = recorded_inputs(tmp_path / "a.tape", {}, sent, Players)
    assert table == [{"p": 1, "q": 2, "r": None}, {"p": None, "q": None, "r": 3}, dict.fromkeys("pqr")]
    withheld = recorded_inputs(
        tmp_path / "b.tape", {"adversaries": [{**THIEF, "senders": ["p"]}], "idle": 0}, sent[:1], Players
    )
    assert withheld == [{"p": 0, "q": 2, "r": 0}]
    assert recorded_inputs(tmp_path / "c.tape", {}, [5, None], Soloist) == [5, None]
    listed = recorded_inputs(tmp_path / "d.tape", {"inputs": "list"}, [{"p": [1], "q": [2, 3]}], Players)
    assert listed == [[1, 2, 3]]


def test_a_tape_of_an_earlier_version_still_gives_a_list(tmp_path: Path) -> None:
    """Its scenario does not name the form of the inputs."""
    with Recorder(tmp_path / "a.tape", staged({"name": "x"}, Players())) as recorder:
        recorder.step({"p": [1], "q": [2]})
    assert verify_tape(tmp_path / "a.tape", Players).ok
