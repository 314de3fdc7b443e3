"""Parts of a scenario that can never act are refused when a run begins, and tapes that have them replay as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from staging import Tally, happened, staged
from tiny_roles import Ring

from recorder.scenarios import run_with_scenario
from recorder.session.recorder import Recorder
from replayer.timeline.verify import verify_tape
from sim.kernel.registry import ConfigError
from sim.scenario.config.can_act import ensure_can_act, without_late_parts
from sim.scenario.scenario_file import FOREIGN, Scenario, load_scenario
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.protocol.builder import protocol, send

from oracle.command_lines import TINY


def refused(plain: dict[str, Any], world: Any = None, last_tick: int | None = 20) -> str:
    """The error of a scenario around a world, by default a simulation of two roles whose inputs are the messages."""
    names = {} if world is not None else {"roles": ["cat", "dog"]}
    try:
        ensure_can_act(staged({**names, **plain}, world if world is not None else Tally()), last_tick)
    except ConfigError as error:
        return str(error)
    return ""


def chain() -> Choreography:
    """Alice sends to Bob, and Bob to Carol."""
    return Choreography(
        {"protocol": protocol(["Alice", "Bob", "Carol"], send("Alice", "Bob", "a"), send("Bob", "Carol", "b"))}
    )


NETWORK_PARTS: list[tuple[dict[str, Any], str]] = [
    ({"network": {"partition": [["cat"], ["dog"]]}}, "network.partition: no message goes from one group to another"),
    ({"network": {"partition": [["cat"], ["world"]]}}, ""),
    ({"network": {"links": [{"from": "cat", "to": "dog"}]}}, 'network.links[0].to: expected "world", which receives'),
    ({"network": {"links": [{"from": "cat", "to": "world"}]}}, ""),
    (
        {"reconfigurations": [{"id": "f", "kind": "federation", "groups": [["cat"], ["dog"]]}]},
        "reconfigurations[0].groups: no message goes from one group to another",
    ),
    ({"reconfigurations": [{"id": "f", "kind": "federation", "groups": [["cat", "dog"], ["world"]]}]}, ""),
    ({"reconfigurations": [{"id": "f", "kind": "federation", "groups": []}]}, "there is no partition that could be"),
    (
        {"reconfigurations": [{"id": "l", "kind": "link", "from": "cat", "to": "dog", "enabled": False}]},
        'reconfigurations[0].to: expected "world"',
    ),
    (
        {"reconfigurations": [{"id": "h", "kind": "handoff", "from": "cat", "to": "dog"}]},
        "reconfigurations[0].kind: no message waits for a role",
    ),
    (
        {"adversaries": [{"id": "w", "kind": "withholding", "budget": {"total": 1}, "receivers": ["dog"]}]},
        'adversaries[0].receivers[0]: expected "world"',
    ),
    (
        {"environment": {"reach": 5, "bodies": [{"role": "cat"}, {"role": "dog"}]}},
        'environment.reach: needs the bodies of a role and of "world"',
    ),
    ({"environment": {"reach": 5, "bodies": [{"role": "cat"}, {"role": "world"}]}}, ""),
]


@pytest.mark.parametrize(("plain", "text"), NETWORK_PARTS)
def test_network_parts_that_can_never_act_are_refused(plain: dict[str, Any], text: str) -> None:
    """Where the inputs are the messages, the world is the receiver: other receivers, and groups without it, never act."""
    found = refused(plain)
    assert bool(found) is bool(text)
    assert text in found


def test_the_messages_of_a_world_whose_inputs_are_the_messages_go_through_the_network() -> None:
    """With the world as a receiver, partitions, links, federations and the reach act."""
    names = {"roles": ["cat", "dog"]}
    parts: list[tuple[dict[str, Any], str]] = [
        ({"network": {"partition": [["cat"], ["world", "dog"]]}}, "split_off"),
        ({"network": {"links": [{"from": "cat", "to": "world", "enabled": False}]}}, "cut"),
        ({"reconfigurations": [{"id": "f", "kind": "federation", "groups": [["cat"], ["world"]]}]}, "split_off"),
        ({"environment": {"reach": 5, "bodies": [{"role": "cat", "x": 9}, {"role": "world"}]}}, "unreachable"),
    ]
    for plain, effect in parts:
        assert refused(plain) == ""
        lines, simulation = happened({**names, **plain}, 1, Tally(), inputs=lambda _: {"cat": 1, "dog": 2})
        assert [line.split()[:3] for line in lines if effect in line] == [["1", effect, "cat>world"]], plain
        assert b'"cat": null, "dog": 2' in simulation.state.blob("log")


def test_a_protocol_without_such_messages() -> None:
    """Links and partitions between roles that never write to each other, unless a delegation gives them messages."""
    link = {"network": {"links": [{"from": "Alice", "to": "Carol", "loss": 0.5}]}}
    assert refused(link, chain()) == "network.links[0]: Alice sends no messages to Carol"
    given = {"reconfigurations": [{"id": "d", "kind": "delegation", "from": "Bob", "to": "Alice"}]}
    assert refused({**link, **given}, chain()) == ""
    parted = {"network": {"partition": [["Alice"], ["Carol"]]}}
    assert "no message goes from one group to another" in refused(parted, chain())
    assert refused({"network": {"partition": [["Alice"], ["Bob", "Carol"]]}}, chain()) == ""
    for key, plain in (
        ("network.links[0].to", {"network": {"links": [{"from": "a", "to": "world"}]}}),
        ("network.partition[1]", {"network": {"partition": [["a"], ["world"]]}}),
        (
            "adversaries[0].receivers[0]",
            {"adversaries": [{"id": "w", "kind": "withholding", "budget": {"total": 1}, "receivers": ["world"]}]},
        ),
    ):
        assert refused(plain, Ring("ab")) == f"{key}: world is not a role; roles: a, b"


def test_a_link_from_a_role_to_itself_is_refused() -> None:
    """In the network and in a reconfiguration."""
    links = {"network": {"links": [{"from": "a", "to": "a", "latency_ms": 1}]}}
    assert refused(links, Ring("ab")) == "network.links[0]: a link from a to itself: no role sends messages to itself"
    change = {"id": "l", "kind": "link", "from": "b", "to": "b", "loss": 1}
    assert "reconfigurations[0]: a link from b to itself" in refused({"reconfigurations": [change]}, Ring("ab"))


def crash(**trigger: int) -> dict[str, Any]:
    """A scenario that stops a role at some time."""
    return {"adversaries": [{"id": "x", "kind": "crash", "role": "a", "budget": {"total": 1}, "trigger": trigger}]}


def test_a_trigger_after_the_last_tick_is_refused() -> None:
    """The last tick is the longest of scenario, world and call: a shorter run of a long scenario is no mistake."""
    text = "adversaries[0].trigger.at_tick: expected at most 20, the last tick of the run, got 21"
    part = "; to run a part of a longer scenario, give it steps = 22 or more"
    assert refused(crash(at_tick=21), Ring("ab")) == text + part
    assert refused({**crash(at_tick=21), "steps": 21}, Ring("ab")) == text
    assert refused(crash(at_tick=20), Ring("ab")) == ""
    text = "adversaries[0].trigger.after_step: expected less than 20, the rounds of the run, got 20"
    assert refused(crash(after_step=20), Ring("ab")) == text + part
    assert refused(crash(after_step=19), Ring("ab")) == ""
    _, simulation = happened(crash(after_step=19), 20, Ring("ab"))
    assert any(event["kind"] == "crashed" for event in simulation.events())
    with pytest.raises(ConfigError, match="at most 9, the last tick"):
        run_with_scenario(Ring("ab"), {**crash(at_tick=15), "steps": 10})
    run_with_scenario(Ring("ab"), {**crash(at_tick=15), "steps": 10}, steps=16)
    run_with_scenario(Ring("ab"), {**crash(at_tick=15), "steps": 16}, steps=4)


def test_the_call_is_the_plan_of_a_scenario_without_a_length() -> None:
    """Your own simulation has no length either. With a length of its own, the scenario may be run in parts."""
    adversary = {"id": "x", "kind": "crash", "role": "cat", "budget": {"total": 1}, "trigger": {"at_tick": 15}}
    plain = {"name": "late", "roles": ["cat", "dog"], "adversaries": [adversary]}
    text = r"at_tick: expected at most 9, the last tick of the run, got 15; .* give it steps = 16 or more$"
    with pytest.raises(ConfigError, match=text):
        run_with_scenario(Tally(), plain, steps=10)
    run_with_scenario(Tally(), plain, steps=16)
    run_with_scenario(Tally(), {**plain, "steps": 16}, steps=10)
    loaded = Scenario("late", attrs.evolve(FOREIGN, make=lambda _: Tally()), {}, plain)
    with pytest.raises(ConfigError, match=r"^scenario.adversaries\[0\].trigger.at_tick: expected at most 10, .*got 15"):
        loaded.make(10)
    loaded.make(15)
    attrs.evolve(loaded, provocation={**plain, "steps": 16}).make(10)


def test_parts_that_come_too_late_change_nothing_before() -> None:
    """Without them, a run is the same up to that tick."""
    late = {**crash(at_tick=9), "steps": 12}
    shorter = without_late_parts(late, 8)
    assert shorter["adversaries"] == []
    assert without_late_parts(late, 9) == late
    events = [happened(plain, 8, Ring("ab"))[0] for plain in (late, shorter)]
    assert events[0] == events[1]


def test_chances_that_sum_to_more_than_1_are_refused() -> None:
    """Of byzantine_interference."""
    adversary = {"id": "b", "kind": "byzantine_interference", "budget": {"total": 1}, "withhold": 0.5, "corrupt": 0.5}
    assert refused({"adversaries": [adversary]}, Ring("ab")) == ""
    many = {"adversaries": [{**adversary, "delay": 0.25, "ticks": 1}]}
    text = "adversaries[0]: expected chances with a sum of at most 1, got 0.5 + 0.5 + 0.25"
    assert refused(many, Ring("ab")) == text


@pytest.mark.parametrize("name", ["../up", "a/b", "a\\b"])
def test_a_name_with_a_path_in_it_is_refused(tmp_path: Path, name: str) -> None:
    """In a file with a scenario and in one without."""
    (tmp_path / "a.toml").write_text(f"name = {name!r}\n{TINY}")
    with pytest.raises(ConfigError, match="name: expected a name, got a path"):
        load_scenario(str(tmp_path / "a.toml"))


def test_a_tape_with_a_part_that_never_acts_replays(tmp_path: Path) -> None:
    """What is refused today was recorded by earlier versions: such a tape is verified as before."""
    with Recorder(tmp_path / "a.tape", staged(crash(at_tick=900), Ring("ab"))) as recorder:
        for _ in range(5):
            recorder.step(None)
    assert verify_tape(tmp_path / "a.tape", lambda: Ring("ab")).ok
