"""A choreography with a scenario around it: corruption of each payload type, a crash and a delay, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

import replayer
from recorder import Recorder
from sim.kernel.registry import ConfigError
from sim.scenario.config.scenario import SchedulerPolicy
from sim.scenario.middleware.corruption import corrupt
from sim.scenario.scenario_file import load_scenario
from sim.scenario.wrap import wrap_scenario
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.config import POLICIES
from sim.worlds.choreography.protocol.builder import again, loop, protocol, send
from sim.worlds.choreography.protocol.payload import find_mismatch
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
    around = wrap_scenario(world, {"name": "around", "steps": 7, **scenario})
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


def in_a_triangle(reconfiguration: dict[str, Any]) -> list[str]:
    """What A and B send to C in two rounds, under whose name it comes, and what does not."""
    world = Choreography(
        {
            "protocol": protocol(["A", "B", "C"], send("A", "C", "x"), send("B", "C", "x"), send("A", "B", "y")),
            "scheduler": {"policy": "round_robin", "concurrency": 3},
        }
    )
    around = wrap_scenario(world, {"reconfigurations": [{"id": "k", **reconfiguration}], "network": {"latency_ms": 1}})
    found = []
    for tick in range(1, 6):
        around.step(None)
        kinds = {"received", "faulted", "undeliverable"}
        told = [event for event in around.events() if event["kind"] in kinds]
        found += [f"{tick} {one['role']} {one['kind']} {one.get('from', one.get('to'))}" for one in told]
    return found


def test_what_counts_as_anothers_goes_where_that_one_sends() -> None:
    """As B, A reaches C, which waits for A's own in vain; where B sends nothing there is no way, and it is told."""
    as_ever = {"kind": "mode_transition", "roles": [], "mode": "as ever"}
    assert in_a_triangle(as_ever) == ["2 C received A", "3 B received A", "3 C received B"]
    assert in_a_triangle({"kind": "delegation", "from": "A", "to": "B"}) == ["3 B undeliverable B"]


def test_what_is_handed_to_a_role_that_gets_nothing_of_the_kind() -> None:
    """Neither A's nor B's message to C can go to A, which is told, and the run goes on."""
    found = in_a_triangle({"kind": "handoff", "from": "C", "to": "A", "trigger": {"at_tick": 2}})
    assert found == ["2 A undeliverable A", "2 B undeliverable A", "3 B received A"]


def order_of(policy: Any, execution: dict[str, Any]) -> list[str]:
    """Who is advanced, one a round, of two pairs."""
    scheduler = {"priorities": [1, 3]} | ({"policy": policy} if policy else {})
    plain = {"sessions": 2, "protocol": protocol(["A", "B"], loop("l", send("A", "B", "x"), times=4))}
    world = Choreography({**plain, "scheduler": scheduler, "buffer_capacity": 9})
    around = wrap_scenario(world, {"execution": execution}) if execution else world
    found = []
    for _ in range(6):
        around.step(None)
        found.append("".join(event["role"] for event in world.events() if event["kind"] in {"sent", "received"}))
    return found


def test_the_scheduler_follows_the_policy_that_the_scenario_names() -> None:
    """As if it stood under [scheduler]; all five, of which only two give the same order here."""
    assert get_args(SchedulerPolicy)[1:] == POLICIES
    truth = {policy: order_of(policy, {}) for policy in POLICIES}
    assert len({tuple(order) for order in truth.values()}) == 4
    for policy in POLICIES:
        assert order_of(None, {"scheduler_policy": policy}) == truth[policy]
        assert order_of(policy, {"scheduler_policy": policy}) == truth[policy]
        assert order_of(policy, {"scheduler_policy": "auto"}) == truth[policy]
    with pytest.raises(ConfigError) as caught:
        order_of("round_robin", {"scheduler_policy": "cooperative"})
    assert str(caught.value) == (
        "scenario.execution.scheduler_policy: the world's own scheduler.policy is round_robin, found 'cooperative'"
    )


def test_a_tape_has_the_policy(tmp_path: Path) -> None:
    """It is verified, and gone on with, by the same scheduler; and two such scenarios are two."""
    loaded = load_scenario("swarm")
    config = {**loaded.config, "scheduler": {"concurrency": 2}}
    plain = {"name": "swarm", "execution": {"scheduler_policy": "progress_aware"}}
    path = tmp_path / "a.tape"
    with Recorder(path, wrap_scenario(loaded.world.make(config), plain), keyframe_interval_ticks=9) as tape:
        for _ in range(40):
            tape.step(None)
    with replayer.open(path) as run:
        assert run.verify().ok
    with Recorder(tmp_path / "b.tape", loaded.world.make(config)) as other:
        for _ in range(40):
            other.step(None)
        own = other.simulation.state["roles.registers"].tolist()
    with replayer.open(path) as run:
        run.seek(40)
        assert run.state["roles.registers"].tolist() != own


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
