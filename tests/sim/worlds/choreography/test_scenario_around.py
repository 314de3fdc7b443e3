"""A choreography with a scenario around it: corruption of each payload type, a crash and a delay, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from sim.scenario.around import restage
from sim.scenario.corruption import corrupt
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.builder import loop, protocol, send
from sim.worlds.choreography.payload import find_mismatch
from sim.worlds.choreography.q32 import HIGHEST, LOWEST, ONE


@pytest.mark.parametrize(
    ("kind", "payload", "corrupted"),
    [
        (("unit",), None, None),
        (("number",), HIGHEST, LOWEST),
        (("boolean",), False, True),
        (("text",), "yes", "corrupted:yes"),
        (("fixed",), {"fixed": ONE}, {"fixed": -ONE}),
        (("fixed",), {"fixed": LOWEST}, {"fixed": HIGHEST}),
        (("vector", 2), {"vector": [-3, 4]}, {"vector": [3, 4]}),
        (("pair", ("number",), ("fixed",)), {"pair": [7, {"fixed": 1}]}, {"pair": [8, {"fixed": 1}]}),
    ],
)
def test_a_corrupted_payload_is_of_the_same_type(kind: Any, payload: Any, corrupted: Any) -> None:
    """So that a role takes it for a true one."""
    assert corrupt(payload) == corrupted
    assert find_mismatch(kind, payload) is None
    assert find_mismatch(kind, corrupted) is None


def talk(**scenario: Any) -> list[list[str]]:
    """What the two roles do in six rounds of three messages, with a scenario around them."""
    world = Choreography(
        {
            "protocol": protocol(["A", "B"], loop("l", send("A", "B", "x", payload="number"), times=3)),
            "scheduler": {"policy": "round_robin", "concurrency": 2},
        }
    )
    around = restage(world, {"name": "around", "steps": 7, **scenario})
    found = []
    for _ in range(6):
        around.step(None)
        found.append([f"{one['role']} {one['kind']} {one['payload']}" for one in world.events() if "payload" in one])
    return found


def test_without_adversaries_a_scenario_changes_nothing() -> None:
    """Each message arrives in the round in which it is sent."""
    assert talk() == [[f"A sent {n}", f"B received {n}"] for n in range(3)] + [[], [], []]


def test_a_corrupted_message_is_sent_as_it_was_and_received_otherwise() -> None:
    """The second one, by its trigger; the budget is one message."""
    one = {"id": "liar", "kind": "corruption", "budget": {"total": 1}, "trigger": {"at_tick": 2}}
    assert talk(adversaries=[one]) == [
        ["A sent 0", "B received 0"],
        ["A sent 1", "B received 2"],
        ["A sent 2", "B received 2"],
        [],
        [],
        [],
    ]


def test_a_crashed_role_does_nothing_and_goes_on_afterwards() -> None:
    """B is gone for two rounds; its messages wait, and round robin begins with it then."""
    one = {"id": "flu", "kind": "crash", "role": "B", "duration": 2, "budget": {"total": 1}}
    assert talk(adversaries=[one]) == [
        ["A sent 0"],
        ["A sent 1"],
        ["B received 0", "A sent 2"],
        ["B received 1"],
        ["B received 2"],
        [],
    ]


def test_a_slow_network_delivers_later() -> None:
    """Two ticks under way."""
    assert talk(network={"latency_ms": 2}) == [
        ["A sent 0"],
        ["A sent 1"],
        ["A sent 2", "B received 0"],
        ["B received 1"],
        ["B received 2"],
        [],
    ]
