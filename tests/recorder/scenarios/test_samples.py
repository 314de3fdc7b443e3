"""The trace of a run: a sample of each role before the first round and after each, in one order."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_roles import Ring

from recorder.scenarios import run, run_with_scenario
from sim.scenario.scenario_file import load_scenario

THREADED = {"backend": "threaded", "scheduler_concurrency": 2, "worker_threads": 2}


def test_one_choreography_is_run_and_gives_one_sampled_trace() -> None:
    """By its name; each role of each session has a sample at step 0 and after each completed round."""
    result = run("two-phase-vote", steps=12)
    roles = load_scenario("two-phase-vote").make().roles
    assert result.error is None
    assert [sample.step for sample in result.trace.samples] == [step for step in range(12) for _ in roles]
    assert all(set(result.trace.at_step(step)) == set(roles) for step in range(12))


@pytest.mark.parametrize("execution", [{}, THREADED])
def test_the_order_of_samples_is_the_same_in_each_pass(execution: dict[str, Any]) -> None:
    """That of the world's roles, whichever thread was first."""
    world = load_scenario("swarm").make()
    plain = {"name": "order", "execution": execution} if execution else {"name": "order"}
    result = run_with_scenario(world, plain, steps=20)
    passes = [[sample.role for sample in result.trace.samples if sample.step == step] for step in range(20)]
    assert passes == [list(world.roles)] * 20


def test_no_more_samples_than_steps_are_asked_for() -> None:
    """One sample asks for no round; the values of step 0 are those of the world as it was made."""
    result = run_with_scenario(Ring(), {"name": "one"}, steps=1)
    assert (result.final_tick, [sample.step for sample in result.trace.samples]) == (0, [0, 0, 0])
