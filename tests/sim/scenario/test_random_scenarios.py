"""What holds in any scenario: budgets, the fate of messages, and that all of the middleware is state."""

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


def test_no_budget_is_exceeded_and_no_message_is_lost_without_a_word() -> None:
    """In hundreds of random scenarios, in which a thousand strikes happen."""
    assert check_many(range(ORDINARY)) > 3 * ORDINARY


@pytest.mark.long
def test_no_budget_is_exceeded_in_ten_thousand_scenarios() -> None:
    """The same in ten times as many."""
    assert check_many(range(ORDINARY, ORDINARY + MANY)) > 3 * MANY


# --- all of the middleware is state


@attrs.frozen
class Behind:
    """What is behind a tick."""

    snapshot: Any
    state_hash: int
    events: bytes


def go_on(simulation: Any, case: Case, start: int) -> list[Behind]:
    """Every tick behind start, to the end."""
    found = []
    for tick in range(start + 1, case.ticks + 1):
        simulation.step(case.inputs(tick))
        found.append(Behind(simulation.state.snapshot(), simulation.state.hash(), encode_plain(simulation.events())))
    return found


def check_restoring(name: str, chance: random.Random) -> None:
    """Go on from every tick, in a fresh instance and in a used one: equal states and equal events to the end."""
    case = CASES[name]
    plain = any_scenario(name, chance)
    first = staged(plain, case.make())
    start = Behind(first.state.snapshot(), first.state.hash(), b"")
    live = [start, *go_on(first, case, 0)]
    used = staged(plain, case.make())
    for tick in chance.sample(range(case.ticks), case.ticks):
        for again in (staged(plain, case.make()), used):
            restore(again, live[tick].snapshot)
            assert again.state.hash() == live[tick].state_hash
            found = go_on(again, case, tick)
            assert [one.state_hash for one in found] == [one.state_hash for one in live[tick + 1 :]], f"from {tick}"
            assert [one.events for one in found] == [one.events for one in live[tick + 1 :]], f"from {tick}"


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["ring", "saved", "choreography", "list", "one", "by_role"]))
def test_every_tick_is_a_place_to_go_on_from(chance: random.Random, name: str) -> None:
    """Worlds with messages, which a foreign one may have too, and a foreign one in each form of inputs."""
    check_restoring(name, chance)


@settings(max_examples=5, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_meadow_goes_on_from_every_tick(chance: random.Random) -> None:
    """Whose players' inputs are withheld, late and corrupted."""
    check_restoring("meadow", chance)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_every_tick_of_many_scenarios_is_a_place_to_go_on_from(name: str, chance: random.Random) -> None:
    """The same, of each world in dozens of scenarios."""
    check_restoring(name, chance)


def digest(seeds: range) -> str:
    """Of the states and events of scenarios around each of the worlds."""
    told = hashlib.sha256()
    for seed in seeds:
        for name, case in CASES.items():
            for one in go_on(staged(any_scenario(name, random.Random(seed)), case.make()), case, 0):
                told.update(one.state_hash.to_bytes(8, "little") + one.events)
    return told.hexdigest()


def test_no_state_depends_on_the_process() -> None:
    """Another process, which hashes texts otherwise, finds the same states and events."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import test_random_scenarios as t; print(t.digest(range(3)))"
    own = digest(range(3))
    there = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )

    assert there.stdout.strip() == own


def test_nobodys_draws_disturb_anothers() -> None:
    """An adversary that never strikes, whose draws are many, changes nothing that anybody else draws."""
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

        def of_the_network(lines: list[str], besides: set[str] = struck) -> list[str]:
            return [line for line in lines if " x " not in line and not besides & set(line.split())]

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


def test_the_generator_reaches_everything() -> None:
    """Else these tests would show little: each kind of event of a scenario happens in a few hundred of them."""
    kinds = set()
    for seed in range(60):
        chance = random.Random(seed)
        for name in ("ring", "list", "one"):
            lines, _ = happened(any_scenario(name, chance), 8, CASES[name].make(), inputs=CASES[name].inputs)
            kinds |= {line.split()[1] for line in lines}
    assert set(EVERYTHING) <= kinds
