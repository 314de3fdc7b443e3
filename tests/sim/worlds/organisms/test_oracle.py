"""Random worlds of organisms against a second implementation of the rules, field by field, at every tick."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.scenario.scenario_file import load_scenario
from sim.worlds.organisms import WORLD, Organisms
from sim.worlds.organisms.instructions import OPS

from oracle.naive_organisms import NaiveOrganisms

PROGRAMS = st.lists(st.sampled_from([*OPS, "copy", "copy", "eat", "divide"]), min_size=4, max_size=64).map(" ".join)
COPYING = "eat copy copy copy eat copy copy copy eat divide jback read"
INPUTS = st.one_of(
    st.builds(lambda amount: {"kind": "feed", "amount": amount}, st.integers(1, 5000)),
    st.builds(lambda text, count: {"kind": "inject", "program": text, "count": count}, PROGRAMS, st.integers(1, 3)),
)


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Small worlds, in which the reaper, the seed bank and its cap act within a few ticks."""
    most = draw(st.integers(3, 25))
    return {
        "world": "organisms",
        "seed": draw(st.integers(0, (1 << 63) - 1)),
        "ancestors": [COPYING, *draw(st.lists(PROGRAMS, max_size=2))],
        "organisms_min": draw(st.integers(0, most)),
        "organisms_max": most,
        "slice": draw(st.integers(1, 40)),
        "energy_max": draw(st.sampled_from([150, 1000])),
        "divide_energy": draw(st.sampled_from([2, 40])),
        "inflow": draw(st.sampled_from([0, 100, 1000])),
        "pool_max": draw(st.sampled_from([0, 2000])),
        "bite": draw(st.sampled_from([0, 5, 30])),
        "mutation": draw(st.sampled_from([0, 1, 5])),
        "slip": draw(st.sampled_from([0, 2, 9])),
        "seed_bank_max": draw(st.integers(1, 8)),
    }


@given(configs(), st.lists(st.lists(INPUTS, max_size=2), min_size=3, max_size=20))
@pytest.mark.seldom(0.18)
def test_every_field_follows_the_rules_at_every_tick(
    config: dict[str, Any], inputs: list[list[dict[str, Any]]]
) -> None:
    naive, world = NaiveOrganisms(config), Organisms(config)
    assert naive.differs_from(world.state) is None
    for sent in inputs:
        naive.step(sent)
        world.step(list(reversed(sent)))
        assert naive.differs_from(world.state) is None


@pytest.mark.parametrize("seed", [9])
def test_the_shipped_scenario_follows_the_rules(seed: int) -> None:
    """With its injections brought forward, and the reaper at work."""
    config = {**load_scenario("organisms", seed=seed).config, "organisms_max": 60, "seed_bank_max": 20, "slip": 100}
    config["inputs"] = [{**item, "tick": item["tick"] // 10} for item in config["inputs"]]
    naive, world, inputs_at = NaiveOrganisms(config), Organisms(config), WORLD.inputs(config)
    for tick in range(1, 81):
        naive.step(inputs_at(tick))
        world.step(inputs_at(tick))
        assert naive.differs_from(world.state) is None
    assert naive.counts["reaped"] > 0
    assert naive.counts["injected"] == 3
