"""Simulations that are already wrapped in a scenario when a tape is opened; user-defined worlds on the threaded backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from staging import SavedRing, Tally, staged
from tiny_roles import Ring

import recorder
import replayer
from recorder.exit_codes import UsageError
from recorder.scenarios import run_with_scenario
from replayer.playback.make_simulation import UnfitSimulationError
from sim.kernel.plain_data import decode_plain, encode_plain

PLAIN: dict[str, Any] = {"name": "rain", "seed": 3, "network": {"loss": 0.5}}
OTHERS = [
    PLAIN | {"seed": 4},
    PLAIN | {"network": {"loss": 0.25}},
    PLAIN | {"roles": ["a"]},
]


def record(path: Path, simulation: Any) -> None:
    """Record eight ticks."""
    with recorder.Recorder(path, simulation) as tape:
        for _ in range(8):
            tape.step(None)


def test_the_scenario_that_was_recorded(tmp_path: Path) -> None:
    """A wrapped simulation replays like an unwrapped one; keys without effect on the run may differ."""
    path = tmp_path / "a.tape"
    record(path, staged(PLAIN, Ring()))
    for make in (Ring, lambda: staged(PLAIN, Ring()), lambda: staged(PLAIN | {"name": "x", "steps": 9}, Ring())):
        with replayer.open(path, world=make) as run:
            assert run.verify().ok
    with recorder.resume(path, staged(PLAIN, Ring())) as tape:
        tape.step(None)


@pytest.mark.parametrize("plain", OTHERS, ids=["seed", "network", "roles"])
def test_another_scenario_than_was_recorded(tmp_path: Path, plain: dict[str, Any]) -> None:
    """The error names both hashes before any replay; nothing is written."""
    path = tmp_path / "a.tape"
    record(path, staged(PLAIN, Ring()))
    before = path.read_bytes()
    line = r"expected the recorded scenario around the simulation: rain, hash [0-9a-f]{16}; got rain, hash [0-9a-f]{16}"
    with (
        pytest.raises(UnfitSimulationError, match=line),
        replayer.open(path, world=lambda: staged(plain, Ring())) as run,
    ):
        run.seek(3)
    with pytest.raises(TypeError, match=line):
        recorder.resume(path, staged(plain, Ring()))
    assert path.read_bytes() == before


def test_a_scenario_where_none_was_recorded(tmp_path: Path) -> None:
    """An empty scenario is recorded as one, so the simulation alone is enough to open its tape."""
    record(tmp_path / "none.tape", Ring())
    line = "expected a simulation without a scenario, as recorded, got one with the scenario rain"
    with (
        pytest.raises(UnfitSimulationError, match=line),
        replayer.open(tmp_path / "none.tape", world=lambda: staged(PLAIN, Ring())) as run,
    ):
        run.seek(3)
    record(tmp_path / "empty.tape", staged({}, Ring()))
    for make in (Ring, lambda: staged({}, Ring())):
        with replayer.open(tmp_path / "empty.tape", world=make) as run:
            assert run.tape.meta["scenario"] == {}
            assert run.verify().ok


# --- threads


class RacedRing(SavedRing):
    """A world with save and load that advances its roles in the order of its inputs, and notes the order."""

    def __init__(self) -> None:
        super().__init__()
        self._raced: list[list[str]] = []
        self.step = self._step  # type: ignore[method-assign]

    def _step(self, inputs: Any) -> None:
        self._raced.append(list(inputs["race"]))
        self._ring.step(None)

    def save(self) -> dict[str, Any]:
        return {**super().save(), "raced": encode_plain(self._raced)}

    def load(self, saved: dict[str, Any]) -> None:
        self._raced = decode_plain(saved["raced"])
        super().load({name: value for name, value in saved.items() if name != "raced"})


THREADED = {"name": "race", "execution": {"backend": "threaded", "worker_threads": 3}, "network": {"loss": 0.25}}


@pytest.mark.parametrize("roles", [[], ["b"]])
def test_a_foreign_world_with_messages_is_raced(tmp_path: Path, roles: list[str]) -> None:
    """Each round gets an order of all roles; the tape replays to the same states without threads."""
    path = tmp_path / "a.tape"
    result = run_with_scenario(RacedRing(), THREADED | {"roles": roles}, steps=21, tape=path)
    assert (result.error, result.regime, result.final_tick) == (None, "threaded_exact", 20)
    with replayer.open(path, world=RacedRing) as run:
        assert run.verify().ok
        run.seek(20)
        raced = decode_plain(run.state.blob("raced"))
    assert [sorted(order) for order in raced] == [["a", "b", "c"]] * 20


def test_inputs_of_a_threaded_run_are_refused() -> None:
    """They would be lost; None and an empty list are accepted."""
    assert run_with_scenario(RacedRing(), THREADED, steps=3, inputs=lambda *_: []).error is None
    with pytest.raises(UsageError, match=r"a threaded run takes no inputs, .*; got \{'order': \['a'\]\}"):
        run_with_scenario(RacedRing(), THREADED, steps=3, inputs=lambda *_: {"order": ["a"]})


def test_a_world_whose_inputs_are_the_messages_has_nothing_to_race_for() -> None:
    """It gets its inputs unchanged."""
    result = run_with_scenario(Tally(), THREADED | {"network": {}}, steps=4, inputs=lambda tick, _: [tick])
    assert (result.error, result.event_counts["received"]) == (None, 3)
