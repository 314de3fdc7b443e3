"""Scenarios that look at some of a world's roles only: the others send as if there were none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from staging import Tally, happened, staged, totals
from tiny_roles import Ring

from sim.kernel.registry import ConfigError

THIEF = {"id": "x", "kind": "withholding", "budget": {"total": 99}}


class Players(Tally):
    """Takes inputs of three players."""

    roles = ("p", "q", "r")


def given_to_players(plain: dict[str, Any], inputs: Any) -> list[Any]:
    """What the world's step is given, and the roles of which there are samples."""
    simulation = staged(plain, Players())
    simulation.step(inputs)
    sampled = [event["role"] for event in simulation.events() if event["kind"] == "sample"]
    return [json.loads(simulation.state.blob("log")), sampled]


def test_only_what_these_roles_send_is_looked_at() -> None:
    """In a ring of three a thief takes all that it can; with roles of a and b, c's messages reach a over a dead network."""
    plain = {"adversaries": [THIEF], "network": {"loss": 1}, "roles": ["b", "a"]}
    lines, simulation = happened(plain, 3, Ring("abc"), without=("sent",))

    assert [line for line in lines if " received " in line] == ["2 received a<c 2", "3 received a<c 5"]
    assert [line for line in lines if "sample" in line][:2] == ["1 sample a [0.0] step=1", "1 sample b [0.0] step=1"]
    assert not [line for line in lines if "sample c" in line]
    assert {line.split()[3] for line in lines if " withheld " in line} == {"a>b", "b>c"}
    assert totals(simulation) == [1 + 2, 0, 0]
    assert simulation.roles == ("a", "b")


def test_roles_of_all_are_as_none() -> None:
    """In whatever order they are named."""
    plain = {"adversaries": [THIEF]}
    assert happened(plain, 3, Ring("abc"))[0] == happened(plain | {"roles": ["c", "a", "b"]}, 3, Ring("abc"))[0]


def test_inputs_of_the_others_are_the_worlds_own() -> None:
    """A thief that takes all takes p's; in a list the others' come first, in the world's order."""
    plain = {"adversaries": [THIEF], "roles": ["p"]}
    sent = {"r": [1], "p": [2], "": [3], "q": [4, 5]}
    assert given_to_players(plain, sent) == [[3, 4, 5, 1], ["p"]]
    assert given_to_players({"roles": ["p"]}, sent) == [[3, 4, 5, 1, 2], ["p"]]
    by_role = plain | {"inputs": "by_role", "idle": 0}
    assert given_to_players(by_role, {"r": 1, "p": 2}) == [{"p": 0, "q": 0, "r": 1}, ["p"]]
    with pytest.raises(ValueError, match="inputs by role were expected, of p, q, r; found"):
        given_to_players(plain, {"s": [1]})
    with pytest.raises(ConfigError, match='inputs: "one" needs one role, found 3'):
        given_to_players({"roles": ["p"], "inputs": "one"}, None)


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ({"adversaries": [{**THIEF, "senders": ["c"]}]}, "adversaries[0].senders[0]: c is none of the roles that are"),
        ({"adversaries": [{**THIEF, "receivers": ["c"]}]}, None),
        ({"adversaries": [{**THIEF, "receivers": ["d"]}]}, "adversaries[0].receivers[0]: d is no role; roles: a, b, c"),
        (
            {"adversaries": [{"id": "x", "kind": "crash", "role": "c", "budget": {"total": 1}}]},
            "adversaries[0].role: c is none of the roles that are looked at: a, b",
        ),
        ({"network": {"links": [{"from": "a", "to": "c"}]}}, None),
        ({"network": {"links": [{"from": "c", "to": "a"}]}}, "network.links[0].from: c is none of the roles that are"),
        ({"reconfigurations": [{"id": "k", "kind": "handoff", "from": "c", "to": "a"}]}, None),
        (
            {"reconfigurations": [{"id": "k", "kind": "delegation", "from": "a", "to": "c"}]},
            "reconfigurations[0].to: c is none of the roles that are looked at: a, b",
        ),
    ],
)
def test_parts_that_name_a_role_which_is_not_looked_at(part: dict[str, Any], line: str | None) -> None:
    """Nobody can act on what it sends, so that is a mistake; who only receives may be any role."""
    plain = {"roles": ["a", "b"], **part}
    if line is None:
        staged(plain, Ring("abc"))
        return
    with pytest.raises(ConfigError) as caught:
        staged(plain, Ring("abc"))
    assert str(caught.value).startswith(line)


# --- of which nothing arrives


@pytest.mark.parametrize("idle", [{}, {"idle": 7}])
def test_a_table_has_an_entry_for_every_role(idle: dict[str, Any]) -> None:
    """Of a role from which nothing arrives it is ``idle``, whether it sent nothing, nobody did, or it was withheld."""
    plain = {"inputs": "by_role", "roles": ["p", "q"], **idle}
    thief = {"adversaries": [{**THIEF, "senders": ["p"]}]}
    none = idle.get("idle")
    simulation = staged(plain, Tally())
    for inputs in ({"p": 1}, None, {}, {"p": None, "q": 2}):
        simulation.step(inputs)
    robbed = staged(plain | thief, Tally())
    robbed.step({"p": 1, "q": 2})

    found = simulation.state.blob("log").splitlines()
    assert [json.loads(line) for line in found] == [
        {"p": 1, "q": none},
        {"p": none, "q": none},
        {"p": none, "q": none},
        {"p": None, "q": 2},
    ]
    assert json.loads(robbed.state.blob("log")) == {"p": none, "q": 2}
