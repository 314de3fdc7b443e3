"""The machine against a second interpreter of global types that never projects, on random protocols."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.worlds.choreography import Choreography

from oracle.naive_choreography import ONE, Acts, NaiveRun, all_paths, most_waiting
from oracle.protocols import REGISTERS, configs, protocols

POLICIES = ("cooperative", "round_robin", "priority_aging", "priority_token_weighted", "progress_aware")


def registers_of(config: dict[str, Any]) -> dict[str, list[int]]:
    """The registers of each role at tick 0."""
    registers = {}
    for initial in config["initial"]:
        values = [value * ONE for value in initial["values"]]
        padded = values + [0] * (REGISTERS - 2 - len(values))
        registers[initial["role"]] = [0, padded[0] if values else 0, *padded]
    return registers


def plain(event: dict[str, Any]) -> dict[str, Any]:
    """An event with "offered" as "received": a third role may be offered a choice by an ordinary message."""
    return {**event, "kind": "received"} if event["kind"] == "offered" else event


@pytest.mark.seldom(0.15)
@settings(deadline=None, max_examples=20)
@given(st.data())
def test_every_event_of_every_round_follows_the_global_type(data: st.DataObject) -> None:
    """Roles, labels, numbers, payloads and halts in orders that Hypothesis picks, over 40 rounds."""
    config = data.draw(configs())
    world = Choreography(config)
    naive = NaiveRun(Acts(config["protocol"]), config["buffer_capacity"], registers_of(config))
    orders = data.draw(st.lists(st.permutations(world.roles), min_size=1, max_size=6))
    sizes = data.draw(st.lists(st.integers(0, len(world.roles)), min_size=1, max_size=4))
    for tick in range(40):
        order = orders[tick % len(orders)][: sizes[tick % len(sizes)] or None]
        world.step({"order": order})
        expected = naive.round(order)
        if naive.exhausted():
            break
        for event in expected:
            if event["kind"] == "offered":
                assert event in world.events()  # The receiver of a choice is offered it.
        assert list(map(plain, world.events())) == list(map(plain, expected))
        assert world.buffered_count() == sum(map(len, naive.queues.values()))
    for role in world.roles:
        assert world.sample(role) == naive.registers[role][2:] or naive.exhausted()


@settings(deadline=None, max_examples=16)
@given(st.data())
@pytest.mark.seldom(0.15)
def test_a_protocol_without_endless_loops_ends_under_each_policy(data: st.DataObject) -> None:
    """With room for one message only; each productive step is counted, W falls to 0, and no role faults."""
    config = {
        **data.draw(configs(endless=False, scheduled=data.draw(st.booleans()))),
        "buffer_capacity": 1,
        "sessions": data.draw(st.integers(1, 3)),
        "scheduler": {
            "policy": data.draw(st.sampled_from(POLICIES)),
            "concurrency": data.draw(st.integers(1, 6)),
        },
    }
    world = Choreography(config)
    before = world.progress()
    w, productive = before["initial_w"], 0
    assert w == before["remaining_w"] == 2 * before["depth_budget"]
    for _ in range(5_000):
        if world.ended():
            break
        world.step(None)
        productive += sum(event["kind"] in ("sent", "received", "offered", "chose") for event in world.events())
        now = world.progress()
        assert now["remaining_w"] <= w
        w = now["remaining_w"]
        assert now["productive_steps"] == productive
    assert world.ended() == ("halted", "all roles have halted")
    assert (w, world.progress()["consumed"], world.buffered_count()) == (0, before["initial_w"], 0)


@settings(deadline=None, max_examples=16)
@given(protocols(endless=False, size=2, roles=3))
def test_the_buffer_capacity_suffices_for_all_orders_of_steps(protocol: dict[str, Any]) -> None:
    """Every interleaving of every combination of choices is tried."""
    paths = []
    for acts in all_paths(protocol):
        paths.append(acts)
        if len(paths) > 20 or sum(map(len, acts.of.values())) > 30:
            return  # Too many to try all orders.
    needed = max(map(most_waiting, paths))

    for capacity, phase in ((needed - 1, "below"), (needed, "at"), (needed + 1, "above")):
        if capacity:
            progress = Choreography(
                {"protocol": protocol, "registers": REGISTERS, "buffer_capacity": capacity}
            ).progress()
            assert (progress["buffer_capacity"], progress["buffer_phase"]) == (needed, phase)
