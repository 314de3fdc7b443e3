"""Nested runs: an outer concurrency with inner rounds per step, observed-only manifests, per-site results."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import replayer
from recorder.scenarios import run_nested
from replayer import Tape
from sim.kernel.simulation import as_simulation, inner_of
from sim.scenario.nested import NestedContract, NestedSimulation
from sim.worlds.choreography import Choreography

from small_worlds import Herd, Walkers

PROTOCOL: dict[str, Any] = {
    "roles": ["A", "B"],
    "steps": [{"send": "x", "from": "A", "to": "B"}, {"send": "y", "from": "B", "to": "A"}],
}
CONTRACT = NestedContract(concurrency=2, inner_rounds=3)


class Saved:
    """A simulation with save and load."""

    def __init__(self) -> None:
        self.total = 1

    def step(self, _: Any) -> None:
        self.total = self.total * 3 % 1009

    def save(self) -> bytes:
        return self.total.to_bytes(2, "little")

    def load(self, saved: bytes) -> None:
        self.total = int.from_bytes(saved, "little")


def sites() -> dict[str, Any]:
    """In both forms, with tables that grow, and one that ends."""
    plain = {"world": "choreography", "protocol": PROTOCOL}
    return {"walkers": Walkers(5), "herd": Herd(2), "saved": Saved(), "talk": Choreography(plain)}


def nested() -> NestedSimulation:
    return NestedSimulation(sites(), CONTRACT)


def hash_alone(name: str, rounds: int) -> str:
    """The state of a site that was stepped alone, by a plain loop."""
    site = as_simulation(sites()[name])
    for _ in range(rounds):
        site.step(None)
    return f"{site.state.hash():016x}"


@pytest.mark.parametrize("concurrency", [1, 2, 4, 9])
@pytest.mark.parametrize("inner_rounds", [1, 3])
def test_nested_runs_have_an_outer_concurrency_and_inner_rounds_per_step(concurrency: int, inner_rounds: int) -> None:
    """Each site is where a plain loop of as many rounds leaves it; the trace says who advanced, by how much."""
    contract = NestedContract(concurrency, inner_rounds)
    result = run_nested(sites(), contract, steps=30)

    ends = as_simulation(sites()["talk"])
    end_rounds = 0
    while inner_of(ends).ended() is None:
        ends.step(None)
        end_rounds += 1
    expected: list[dict[str, int]] = []
    order, rounds = list(sites()), dict.fromkeys(sites(), 0)
    place = 0
    for _ in range(30):
        live = [
            order[(place + n) % 4]
            for n in range(4)
            if not (order[(place + n) % 4] == "talk" and rounds["talk"] == end_rounds)
        ]
        picked = live[:concurrency]
        place = (order.index(picked[-1]) + 1) % 4
        expected.append(
            {name: min(inner_rounds, end_rounds - rounds[name]) if name == "talk" else inner_rounds for name in picked}
        )
        for name, made in expected[-1].items():
            rounds[name] += made
    assert list(result.trace) == expected
    for name, site in result.sites.items():
        assert site.rounds == rounds[name]
        assert site.final_hash == hash_alone(name, rounds[name])


def test_the_manifest_of_a_nested_run_is_observed_only() -> None:
    """It can be written as JSON, and claims no bound."""
    result = run_nested(sites(), CONTRACT, steps=12)
    manifest = json.loads(json.dumps(result.manifest))
    assert manifest["classification"] == "observed_only"
    assert (manifest["concurrency"], manifest["inner_rounds"], manifest["steps"]) == (2, 3, 12)
    assert list(manifest["sites"]) == ["walkers", "herd", "saved", "talk"]
    assert "upper_bound" not in json.dumps(manifest)


def test_each_site_of_a_nested_run_has_its_result() -> None:
    result = run_nested(sites(), CONTRACT, steps=40)
    alone = Choreography({"world": "choreography", "protocol": PROTOCOL})
    counts: Counter[str] = Counter()
    rounds = 0
    while alone.ended() is None:
        alone.step(None)
        rounds += 1
        counts.update(event["kind"] for event in alone.events())
    talk = result.sites["talk"]
    assert (talk.rounds, talk.ended, talk.progress) == (rounds, alone.ended(), alone.progress())
    assert talk.event_counts == counts
    assert result.sites["walkers"].ended is None
    assert result.sites["walkers"].progress is None


def test_a_run_ends_when_all_sites_are_over() -> None:
    plain = {"world": "choreography", "protocol": PROTOCOL}
    result = run_nested({"a": Choreography(plain), "b": Choreography(plain)}, steps=1000)
    assert result.steps == sum(site.rounds for site in result.sites.values())
    assert result.steps < 1000


def test_a_nested_run_is_recorded_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    result = run_nested(sites(), CONTRACT, steps=25, inputs=lambda tick: {"walkers": [[[0, tick]]]}, tape=path)

    assert replayer.verify_tape(path, nested).ok
    with replayer.open(path, world=nested) as run:
        run.seek(13)
        run.seek(25)
        simulation = inner_of(run.simulation)
        assert {name: one.rounds for name, one in result.sites.items()} == simulation.rounds
    with Tape(path) as tape:
        stepped = [event for _, event in tape.events() if event["kind"] == "site_stepped"]
    assert len(stepped) == sum(len(step) for step in result.trace)


def test_a_state_of_another_contract_is_refused() -> None:
    one, other = nested(), NestedSimulation(sites(), NestedContract(2, 4))
    one.step(None)
    with pytest.raises(ValueError, match="expected a state of NestedContract"):
        other.load(one.save())
    with pytest.raises(ValueError, match="expected the state of the sites"):
        NestedSimulation({"x": Walkers(5)}, CONTRACT).load(one.save())


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: NestedSimulation({}), "sites: expected at least one"),
        (lambda: NestedSimulation({"a.b": Walkers()}), "sites: expected names without dots, got 'a.b'"),
        (lambda: NestedContract(0, 1), "concurrency=0: expected an integer from 1 to 1048576"),
        (lambda: NestedContract(1, 1.5), "inner_rounds=1.5: expected an integer"),  # type: ignore[arg-type]
        (lambda: run_nested(sites(), steps=0), "steps=0: expected at least 1"),
        (lambda: nested().step({"east": []}), "expected inputs by site, of walkers, herd, saved, talk"),
        (lambda: nested().step({"herd": [1, 2, 3, 4]}), "inputs of herd: expected a list of at most 3"),
    ],
)
def test_a_mistake_gets_one_line(make: Any, line: str) -> None:
    with pytest.raises(ValueError, match=line.replace("(", r"\(")):
        make()
