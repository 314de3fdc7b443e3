"""Scenarios for some roles of a world: messages of the other roles arrive unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from staging import Tally, happened, staged, totals
from tiny_roles import Ring

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
