"""The rules of docs/organisms.md, each by a small example with a literal outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.kernel.registry import ConfigError
from sim.worlds.organisms import WORLD, Organisms
from sim.worlds.organisms.instructions import parse_program, program_text
from sim.worlds.organisms.taxonomy import classify, rank_names

QUIET: dict[str, Any] = {"world": "organisms", "organisms_min": 1, "mutation": 0, "slip": 0, "inflow": 0, "pool_max": 0}
COPYING = "copy copy copy copy copy divide nop nop"


def one(program: str, instructions: int, **changes: Any) -> Organisms:
    """One organism with a program after this many instructions."""
    world = Organisms({**QUIET, "ancestors": [program], "slice": instructions, **changes})
    world.step(None)
    return world


def at(world: Organisms, column: str, row: int = 0) -> Any:
    """A column of the organism in a row."""
    return world.state[f"organisms.{column}"][row].tolist()


@pytest.mark.parametrize(
    ("program", "instructions", "a", "b", "ip"),
    [
        ("nop nop nop nop", 3, 0, 0, 3),
        ("inc inc nop nop", 2, 2, 0, 2),
        ("dec nop nop nop", 1, 65535, 0, 1),
        ("inc swap inc add", 4, 2, 1, 0),
        ("inc swap zero sub", 4, 65535, 1, 0),
        ("inc zero nop nop", 2, 0, 0, 2),
        ("jz inc inc dec", 2, 65535, 0, 0),  # a is 0: two operations are left out.
        ("inc jz inc nop", 3, 2, 0, 3),  # a is not 0: none.
        ("inc jback inc nop", 2, 1, 0, 0),  # The operand is inc, 1: back from 2 by 1 + 1.
        ("load eat nop nop", 1, 13, 0, 2),
        ("inc swap read nop", 3, 5, 1, 3),  # Of operation 1, swap: 5.
        ("skip inc inc nop", 2, 1, 0, 3),
    ],
)
def test_operations(program: str, instructions: int, a: int, b: int, ip: int) -> None:
    world = one(program, instructions)
    assert (at(world, "a"), at(world, "b"), at(world, "ip")) == (a, b, ip)
    assert at(world, "energy") == 120 - instructions
    assert at(world, "age_in_instructions") == instructions


def test_sense_reads_the_pool_after_the_inflow() -> None:
    world = one("sense nop nop nop", 1, inflow=70000, pool_max=100000)
    assert at(world, "a") == 100000 & 0xFFFF


def test_a_division_gives_half_of_the_energy_to_a_copy() -> None:
    world = one(
        "copy divide jback dec", 11
    )  # Copy, divide, back to copy: four times, and three divisions come too early.
    assert world.state["organisms.id"].tolist() == [1, 2]
    assert [at(world, "energy", row) for row in (0, 1)] == [55, 54]  # Of 120 - 11.
    assert [at(world, "error_count", row) for row in (0, 1)] == [3, 0]
    assert (at(world, "mother", 1), at(world, "generation", 1), at(world, "created_at", 1)) == (1, 1, 1)
    assert at(world, "genome", 1) == at(world, "genome", 0)
    assert at(world, "child_size") == at(world, "copied") == 0


def test_a_full_child_buffer_and_too_little_energy_are_errors() -> None:
    assert at(one("copy copy copy copy", 66), "error_count") == 2
    assert at(one("copy copy copy copy divide nop", 5, divide_energy=116), "error_count") == 1


def test_food_is_shared_by_what_was_asked() -> None:
    """Two organisms ask 3 + 1 times for a pool of 50: 12 for each, and 2 stay."""
    config = {**QUIET, "ancestors": ["eat eat eat skip", "eat nop nop nop"], "organisms_min": 2, "slice": 3}
    world = Organisms(config | {"bite": 99})
    world.step([{"kind": "feed", "amount": 50}])
    assert world.state["organisms.energy"].tolist() == [120 - 3 + 36, 120 - 3 + 12]
    assert world.state["organisms.max_energy"].tolist() == [153, 129]
    assert int(world.state["pool"]) == 2


def test_an_organism_holds_at_most_energy_max_and_the_rest_stays() -> None:
    world = Organisms({**QUIET, "ancestors": ["eat nop nop nop"], "slice": 1, "bite": 99, "energy_max": 130})
    world.step([{"kind": "feed", "amount": 50}])
    assert (at(world, "energy"), int(world.state["pool"])) == (130, 50 - 11)


def test_the_inflow_fills_the_pool_up_to_its_maximum_and_a_gift_goes_above() -> None:
    world = Organisms({**QUIET, "inflow": 30, "pool_max": 50, "ancestors": ["nop nop nop nop"], "slice": 1})
    levels = []
    for gift in (0, 0, 100, 0):
        world.step([{"kind": "feed", "amount": gift}] if gift else None)
        levels.append(int(world.state["pool"]))
    assert levels == [50, 50, 150, 150]


def test_without_energy_an_organism_dies_and_the_seed_bank_fills_up() -> None:
    world = one("nop nop nop nop", 120, start_energy=100)
    assert world.state["organisms.id"].tolist() == [2]
    assert (at(world, "mother"), at(world, "energy"), at(world, "created_at")) == (0, 100, 1)
    assert world.telemetry()["starved"] == world.telemetry()["reseeded"] == 1
    assert world.telemetry()["instructions"] == 100  # None without energy.
    assert world.state["seed_bank.births"].tolist() == [2]
    assert world.state["seed_bank.reseeded"].tolist() == [1]


def test_without_a_floor_a_world_dies_out() -> None:
    world = one("nop nop nop nop", 120, organisms_min=0)
    assert world.ended() == ("extinct", "no organism lives, and none is reseeded")
    world.step(None)
    assert world.state.count("organisms") == 0


def test_the_reaper_takes_the_most_errors_then_the_oldest_then_the_lowest_id() -> None:
    programs = ["nop nop nop nop", "divide nop nop nop", "nop nop nop nop", "nop nop nop nop"]
    world = Organisms({**QUIET, "ancestors": programs, "organisms_min": 4, "organisms_max": 4, "slice": 1})
    newcomer = {"kind": "inject", "program": "nop nop nop nop", "count": 1}
    world.step([newcomer])
    assert world.state["organisms.id"].tolist() == [1, 3, 4, 5]  # 2 had an error.
    world.step([newcomer])
    assert world.state["organisms.id"].tolist() == [3, 4, 5, 6]  # 1, 3 and 4 are older than 5.
    assert world.telemetry()["reaped"] == 2


def test_the_seed_bank_keeps_the_most_used_then_the_newest_seeds() -> None:
    programs = ["nop nop nop nop", "inc inc inc inc", "nop nop nop nop"]
    world = Organisms({**QUIET, "ancestors": programs, "organisms_min": 3, "slice": 1, "seed_bank_max": 2})
    world.step([{"kind": "inject", "program": "dec dec dec dec", "count": 1}])
    kept = world.state["seed_bank.genome"][:, 0].tolist()
    assert kept == [0, 2]  # Of those born once, inc is older than dec.


@pytest.mark.parametrize("slip", [0, 1])
def test_each_copy_is_replaced_or_slips_by_chance(slip: int) -> None:
    """With slip 1 each copy is left out and a random operation added; with mutation 1 each is replaced."""
    changes = {"slip": 1} if slip else {"mutation": 1}
    world = one("copy copy copy copy", 64, **changes)
    assert world.telemetry()["mutations"] == 64
    assert np.unique(world.state["organisms.child"][0]).size > 8


def test_energy_is_accounted_for() -> None:
    """What the pool and the organisms have comes from inflow, gifts and the seed bank, and goes with instructions and deaths."""
    config = {"world": "organisms", "seed": 4, "organisms_max": 10_000, "inflow": 300, "pool_max": 1 << 40}
    world, expected = Organisms(config), 12 * 120 + 300
    for _ in range(60):
        before = world.telemetry()
        world.step(None)
        after = world.telemetry()
        spent = after["instructions"] - before["instructions"]
        expected += 300 - spent + 120 * (after["reseeded"] - before["reseeded"])
        assert after["energy"] + after["pool"] == expected
    assert world.telemetry()["births"] > 20


def test_taxonomy_by_hand() -> None:
    names = rank_names(classify(parse_program("eat copy copy copy eat copy copy copy eat divide jback read")))
    species = names.pop("species")
    assert names == {
        "kingdom": "Replicantia", "phylum": "Brevia", "class": "Cyclica", "order": "Voracia", "family": "Copyidae",
        "genus": "Lector",
    }  # fmt: skip
    assert species.startswith("Lector ")
    other = rank_names(classify(parse_program("inc sense " * 16)))
    assert list(other.values())[:6] == ["Sterilia", "Longa", "Linearia", "Ieiuna", "Incidae", "Sensor"]


def test_the_registry_has_the_taxonomy_of_each_genome() -> None:
    world = Organisms({"world": "organisms", "seed": 1, "mutation": 3})
    for _ in range(30):
        world.step(None)
    for row, size in enumerate(world.state["organisms.size"].tolist()):
        genome = world.state["organisms.genome"][row, :size].tobytes()
        assert tuple(at(world, "taxonomy", row)) == classify(genome)
        assert parse_program(program_text(genome)) == genome


@pytest.mark.parametrize(
    "inputs",
    [
        "feed",
        [{"kind": "feed"}],
        [{"kind": "feed", "amount": 0}],
        [{"kind": "feed", "amount": True}],
        [{"kind": "feed", "amount": 5, "more": 1}],
        [{"kind": "inject", "program": "eat", "count": 1}],
        [{"kind": "inject", "program": "eat eat eat run", "count": 1}],
        [{"kind": "inject", "program": "eat eat eat eat", "count": 1 << 17}],
        [{"kind": "inject", "program": "eat eat eat eat", "count": 1 << 16}] * 2,
        [{"kind": "dance"}],
    ],
)
def test_an_input_that_is_wrong_is_refused_and_changes_nothing(inputs: Any) -> None:
    world = Organisms(QUIET)
    before = world.state.hash()
    with pytest.raises(ValueError, match="expected"):
        world.step(inputs)
    assert world.state.hash() == before


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"ancestors": []}, "ancestors"),
        ({"ancestors": ["eat copy"]}, "ancestors[0]"),
        ({"organisms_min": 400}, "organisms_min"),
        ({"start_energy": 2000}, "start_energy"),
        ({"slice": 0}, "slice"),
        ({"inputs": [{"tick": 1, "kind": "sing"}]}, "inputs[0].kind"),
        ({"inputs": [{"tick": 1, "kind": "feed"}]}, "inputs[0].amount"),
        ({"inputs": [{"tick": 1, "kind": "feed", "amount": 1, "count": 1}]}, "inputs[0].count"),
        ({"workers": 3}, "workers"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused_with_its_key(change: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Organisms({"world": "organisms", **change})
    assert raised.value.key == key


def test_scheduled_inputs() -> None:
    inputs_at = WORLD.inputs({"inputs": [{"kind": "feed", "amount": 5, "tick": 3, "every": 2, "until": 6}]})
    assert [tick for tick in range(1, 10) if inputs_at(tick)] == [3, 5]
    assert inputs_at(3) == [{"kind": "feed", "amount": 5}]
