"""A choreography with a scenario around it: corruption of each payload type, a crash and a delay, computed by hand."""

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
    """A role cannot recognise the corruption."""
    assert corrupt(payload) == corrupted
    assert find_mismatch(kind, payload) is None
    assert find_mismatch(kind, corrupted) is None


def talk(**scenario: Any) -> list[list[str]]:
    """The messages of two roles in six rounds, with a scenario around them."""
    world = Choreography(
        {
            "protocol": protocol(["A", "B"], loop("l", send("A", "B", "x", payload="number"), times=3)),
            "scheduler": {"policy": "round_robin", "concurrency": 2},
        }
    )
    around = wrap_scenario(world, {"name": "around", "steps": 7, **scenario})
    lines = []
    for _ in range(6):
        around.step(None)
        messages = [event for event in world.events() if "payload" in event]
        lines.append([f"{event['role']} {event['kind']} {event['payload']}" for event in messages])
    return lines


def test_without_adversaries_a_scenario_changes_nothing() -> None:
    """Each message arrives in the round in which it is sent."""
    assert talk() == [[f"A sent {n}", f"B received {n}"] for n in range(3)] + [[], [], []]


def test_a_corrupted_message_is_sent_unchanged_and_received_corrupted() -> None:
    """The trigger selects the second message; the budget is one message."""
    liar = {"id": "liar", "kind": "corruption", "budget": {"total": 1}, "trigger": {"at_tick": 2}}
    assert talk(adversaries=[liar]) == [
        ["A sent 0", "B received 0"],
        ["A sent 1", "B received 2"],
        ["A sent 2", "B received 2"],
        [],
        [],
        [],
    ]


def test_a_crashed_role_does_nothing_and_then_continues() -> None:
    """B is stopped for two rounds; its messages wait, and round robin then begins with it."""
    flu = {"id": "flu", "kind": "crash", "role": "B", "duration": 2, "budget": {"total": 1}}
    assert talk(adversaries=[flu]) == [
        ["A sent 0"],
        ["A sent 1"],
        ["B received 0", "A sent 2"],
        ["B received 1"],
        ["B received 2"],
        [],
    ]


def test_a_slow_network_delivers_later() -> None:
    """Each message takes two ticks."""
    assert talk(network={"latency_ms": 2}) == [
        ["A sent 0"],
        ["A sent 1"],
        ["A sent 2", "B received 0"],
        ["B received 1"],
        ["B received 2"],
        [],
    ]


def test_figures_are_counted_by_session() -> None:
    """Waiting messages and steps left are reported by session."""
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
    """The receipts and failed deliveries of messages from A and B to C, with the sender or receiver."""
    world = Choreography(
        {
            "protocol": protocol(["A", "B", "C"], send("A", "C", "x"), send("B", "C", "x"), send("A", "B", "y")),
            "scheduler": {"policy": "round_robin", "concurrency": 3},
        }
    )
    around = wrap_scenario(world, {"reconfigurations": [{"id": "k", **reconfiguration}], "network": {"latency_ms": 1}})
    lines = []
    for tick in range(1, 6):
        around.step(None)
        kinds = {"received", "faulted", "undeliverable"}
        events = [event for event in around.events() if event["kind"] in kinds]
        lines += [f"{tick} {event['role']} {event['kind']} {event.get('from', event.get('to'))}" for event in events]
    return lines


def test_delegated_messages_use_the_channels_of_the_target() -> None:
    """As B, A reaches C, which waits in vain for a message of A; a message without a channel is undeliverable."""
    no_change = {"kind": "mode_transition", "roles": [], "mode": "as ever"}
    assert in_a_triangle(no_change) == ["2 C received A", "3 B received A", "3 C received B"]
    assert in_a_triangle({"kind": "delegation", "from": "A", "to": "B"}) == ["3 B undeliverable B"]


def test_a_handoff_to_a_role_without_such_a_channel() -> None:
    """Neither A's nor B's message to C can go to A: both are undeliverable, and the run continues."""
    lines = in_a_triangle({"kind": "handoff", "from": "C", "to": "A", "trigger": {"at_tick": 2}})
    assert lines == ["2 A undeliverable A", "2 B undeliverable A", "3 B received A"]


def order_of(policy: Any, execution: dict[str, Any]) -> list[str]:
    """The roles that advance, one per round, of two pairs."""
    scheduler = {"priorities": [1, 3]} | ({"policy": policy} if policy else {})
    plain = {"sessions": 2, "protocol": protocol(["A", "B"], loop("l", send("A", "B", "x"), times=4))}
    world = Choreography({**plain, "scheduler": scheduler, "buffer_capacity": 9})
    around = wrap_scenario(world, {"execution": execution}) if execution else world
    advanced = []
    for _ in range(6):
        around.step(None)
        advanced.append("".join(event["role"] for event in world.events() if event["kind"] in {"sent", "received"}))
    return advanced


def test_the_scheduler_follows_the_policy_that_the_scenario_names() -> None:
    """The order is that of the policy under [scheduler]; of the five policies, only two give the same order here."""
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
        "scenario.execution.scheduler_policy: expected round_robin, the world's own scheduler.policy, got 'cooperative'"
    )


@pytest.mark.seldom(0.15)
def test_a_tape_has_the_policy(tmp_path: Path) -> None:
    """The tape is verified with the scenario's policy, which gives different registers than the default."""
    loaded = load_scenario("swarm")
    config = {**loaded.config, "scheduler": {"concurrency": 2}}
    plain = {"name": "swarm", "execution": {"scheduler_policy": "progress_aware"}}
    path = tmp_path / "a.tape"
    with Recorder(path, wrap_scenario(loaded.world.make(config), plain), keyframe_interval_ticks=9) as tape:
        for _ in range(40):
            tape.step(None)
    with replayer.open(path) as run:
        assert run.verify().ok
    with Recorder(tmp_path / "b.tape", loaded.world.make(config)) as default:
        for _ in range(40):
            default.step(None)
        default_registers = default.simulation.state["roles.registers"].tolist()
    with replayer.open(path) as run:
        run.seek(40)
        assert run.state["roles.registers"].tolist() != default_registers


@pytest.mark.parametrize("race", [["A.0", "A.1"], ["A.1", "A.0"], []])
def test_a_race_orders_the_roles_that_the_scheduler_picks(race: list[str]) -> None:
    """The scheduler picks the roles; with one role at a time there is no race."""

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
    with pytest.raises(ValueError, match=r"race: expected one of the roles A\.0, B\.0, A\.1, B\.1, got 'C'"):
        events(1, {"race": ["C"]})
