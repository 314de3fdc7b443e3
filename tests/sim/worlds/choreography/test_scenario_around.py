"""A choreography with a scenario around it: corruption of each payload type, a crash and a delay, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from sim.scenario.around import restage
from sim.scenario.corruption import corrupt
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.builder import again, loop, protocol, send
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


def test_sessions_are_told_apart() -> None:
    """Messages that wait and steps that are left, by session; properties of one session look at that one only."""
    world = Choreography(
        {
            "sessions": 2,
            "protocol": protocol(["A", "B"], send("A", "B", "x"), send("A", "B", "y")),
            "scheduler": {"concurrency": 1, "policy": "round_robin"},
        }
    )
    assert (world.depths(), world.buffered_by_session()) == ({0: 4, 1: 4}, {0: 0, 1: 0})
    world.step({"order": ["A.1"]})
    world.step({"order": ["A.1"]})
    assert (world.depths(), world.buffered_by_session()) == ({0: 4, 1: 2}, {0: 0, 1: 2})
    world.step({"order": ["B.1"]})
    assert (world.depths(), world.buffered_by_session()) == ({0: 4, 1: 1}, {0: 0, 1: 1})
    endless = Choreography({"protocol": protocol(["A", "B"], loop("r", send("A", "B", "x"), again("r")))})
    assert endless.depths() == {}


@pytest.mark.parametrize("race", [["A.0", "A.1"], ["A.1", "A.0"], []])
def test_a_race_orders_those_that_the_scheduler_picks(race: list[str]) -> None:
    """Who goes on is the scheduler's business; with one at a time there is nothing to race for."""

    def events(concurrency: int, inputs: Any) -> list[Any]:
        world = Choreography(
            {
                "sessions": 2,
                "protocol": protocol(["A", "B"], send("A", "B", "x")),
                "scheduler": {"concurrency": concurrency, "policy": "progress_aware"},
            }
        )
        world.step(inputs)
        return [event["role"] for event in world.events() if event["kind"] == "sent"]

    assert events(2, {"race": race}) == (race or ["A.0", "A.1"])
    assert events(1, {"race": race}) == events(1, None) == ["A.0"]
    with pytest.raises(ValueError, match="race: 'C' is none of the roles"):
        events(1, {"race": ["C"]})
