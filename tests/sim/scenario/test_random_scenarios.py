"""Properties of any scenario: budgets, the fate of messages, and the middleware as state."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scenarios import CASES, Case, any_scenario, check_many
from staging import happened, staged
from tiny_roles import Ring

from sim.kernel.plain_data import encode_plain
from sim.kernel.simulation import restore

ORDINARY, MANY = 300, 10_000


@pytest.mark.seldom(0.18)
def test_no_budget_is_exceeded_and_no_message_vanishes() -> None:
    """This is checked in hundreds of random scenarios with about a thousand strikes."""
    assert check_many(range(ORDINARY)) > 3 * ORDINARY


@pytest.mark.long
def test_no_budget_is_exceeded_in_ten_thousand_scenarios() -> None:
    """The check above in ten thousand random scenarios."""
    assert check_many(range(ORDINARY, ORDINARY + MANY)) > 3 * MANY


# --- all of the middleware is state


@attrs.frozen
class AfterTick:
    """The observable results of a tick."""

    snapshot: Any
    state_hash: int
    events: bytes


def run_from(simulation: Any, case: Case, start: int) -> list[AfterTick]:
    """Run from the tick start to the end."""
    ticks = []
    for tick in range(start + 1, case.ticks + 1):
        simulation.step(case.inputs(tick))
        ticks.append(AfterTick(simulation.state.snapshot(), simulation.state.hash(), encode_plain(simulation.events())))
    return ticks


def check_restoring(name: str, chance: random.Random) -> None:
    """Continue from every tick, in a fresh instance and in a used one: equal states and equal events to the end."""
    case = CASES[name]
    plain = any_scenario(name, chance)
    first = staged(plain, case.make())
    start = AfterTick(first.state.snapshot(), first.state.hash(), b"")
    live = [start, *run_from(first, case, 0)]
    used = staged(plain, case.make())
    for tick in chance.sample(range(case.ticks), case.ticks):
        for again in (staged(plain, case.make()), used):
            restore(again, live[tick].snapshot)
            assert again.state.hash() == live[tick].state_hash
            repeated, expected = run_from(again, case, tick), live[tick + 1 :]
            assert [after.state_hash for after in repeated] == [after.state_hash for after in expected], f"from {tick}"
            assert [after.events for after in repeated] == [after.events for after in expected], f"from {tick}"


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["ring", "saved", "choreography", "list", "one", "by_role"]))
@pytest.mark.seldom(0.18)
def test_a_run_can_continue_from_every_tick(chance: random.Random, name: str) -> None:
    """Worlds with messages, also in the save/load form, and a save/load world with each form of inputs."""
    check_restoring(name, chance)


@settings(max_examples=5, deadline=None)
@given(st.randoms(use_true_random=False))
@pytest.mark.seldom(0.18)
def test_a_meadow_can_continue_from_every_tick(chance: random.Random) -> None:
    """The inputs of its players are withheld, late and corrupted."""
    check_restoring("meadow", chance)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_many_scenarios_can_continue_from_every_tick(name: str, chance: random.Random) -> None:
    """Each world runs in dozens of scenarios."""
    check_restoring(name, chance)


def digest(seeds: range) -> str:
    """The digest of the states and events of scenarios around each of the worlds."""
    total = hashlib.sha256()
    for seed in seeds:
        for name, case in CASES.items():
            for after in run_from(staged(any_scenario(name, random.Random(seed)), case.make()), case, 0):
                total.update(after.state_hash.to_bytes(8, "little") + after.events)
    return total.hexdigest()


@pytest.mark.seldom(0.15)
def test_no_state_depends_on_the_process() -> None:
    """A process with a different hash seed gives the same states and events."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import test_random_scenarios as t; print(t.digest(range(3)))"
    expected = digest(range(3))
    process = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )

    assert process.stdout.strip() == expected


def test_random_draws_of_one_part_do_not_affect_another() -> None:
    """An adversary with many random draws that never strikes changes no random draw of the other parts."""
    network = {"tick_ms": 1, "latency_ms": 5, "variance": 1, "loss": 0.25}
    drawing = {"kind": "correlated", "total": 9, "chance": 0.5, "burst_ticks": 1}
    striking = {
        "id": "x",
        "kind": "withholding",
        "budget": {"kind": "independent", "total": 99, "chance": 0.25},
        "trigger": {"random": 0.5},
    }
    idle = {"id": "y", "kind": "corruption", "budget": drawing, "trigger": {"random": 0.01}, "labels": ["none"]}
    change = {"id": "k", "kind": "mode_transition", "roles": ["a"], "mode": "m", "trigger": {"random": 0.125}}
    for seed in range(10):
        plain = {"seed": seed, "network": network, "adversaries": [striking]}
        alone, _ = happened(plain, 30, Ring("abc"))
        more = plain | {"adversaries": [striking, idle], "reconfigurations": [change]}
        together, _ = happened(more, 30, Ring("abc"))
        assert [line for line in together if " y " not in line and " k " not in line] == alone
        fewer, _ = happened(plain | {"adversaries": []}, 30, Ring("abc"))
        struck = {line.split()[-1] for line in alone if " withheld x " in line}

        def of_the_network(lines: list[str], excluded: set[str] = struck) -> list[str]:
            return [line for line in lines if " x " not in line and not excluded & set(line.split())]

        assert of_the_network(fewer) == of_the_network(alone)


EVERYTHING = (
    *(
        "activated",
        "consumed",
        "exhausted",
        "diagnostic",
        "withheld",
        "delayed",
        "corrupted",
        "repeated",
        "crashed",
        "recovered",
    ),
    *("suppressed", "reconfigured", "split_off", "cut", "lost", "under_way", "retried", "incapable", "unreachable"),
    *("refused", "collided", "contended", "moved", "fell_asleep", "woke", "received", "superseded", "violation"),
)


@pytest.mark.seldom(0.18)
def test_the_generator_reaches_everything() -> None:
    """Each kind of event of a scenario happens in a few hundred of them; otherwise these tests would prove little."""
    kinds = set()
    for seed in range(60):
        chance = random.Random(seed)
        for name in ("ring", "list", "one"):
            lines, _ = happened(any_scenario(name, chance), 8, CASES[name].make(), inputs=CASES[name].inputs)
            kinds |= {line.split()[1] for line in lines}
    assert set(EVERYTHING) <= kinds
