"""A recorder takes a captured state again before each keyframe, against what a plain loop kept of the objects."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import replayer
from recorder import Recorder
from recorder.errors import RecordingWarning
from recorder.format.blocks.block import BlockKind
from replayer.repair.repair import repair_tape
from sim import Field, Schema, State

TICKS = 60


class Copying:
    """Two numbers, and a state into which each step copies them; at some ticks it forgets one.

    Attributes:
        deferred: ticks at which no keyframe may be taken.
        asked: ticks at which a keyframe was due.
    """

    def __init__(self, forgets: Any = (), deferred: Any = ()) -> None:
        self.state = State(Schema(Field("x", "i8"), Field("y", "i8")))
        self.x = self.y = 0
        self.forgets, self.deferred = forgets, deferred
        self.asked: list[int] = []
        self.compared: list[int] = []

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - it has no inputs
        self.x += 1
        if self.x % 4 == 0:
            self.y += self.x
        self.state["x"][...] = self.x
        if self.x not in self.forgets:
            self.state["y"][...] = self.y

    def after_restore(self) -> None:
        self.x, self.y = int(self.state["x"]), int(self.state["y"])

    def recapture(self) -> list[str]:
        self.compared.append(self.x)
        if self.state["y"] == self.y:
            return []
        self.state["y"][...] = self.y
        return ["copying.y"]

    def keyframe_deferred(self) -> bool:
        self.asked.append(self.x)
        return self.x in self.deferred


def live_states() -> list[tuple[int, int]]:
    x = y = 0
    states = [(0, 0)]
    for tick in range(1, TICKS + 1):
        x = tick
        if tick % 4 == 0:
            y += x
        states.append((x, y))
    return states


def recorded(path: Path, simulation: Any, **options: Any) -> tuple[Any, list[str]]:
    """Record, and return the statistics and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Recorder(path, simulation, **{"keyframe_interval_ticks": 10, "full_every": 4, **options}) as tape:
            for _ in range(TICKS):
                tape.step(None)
        statistics = tape.statistics()
    assert all(issubclass(one.category, RecordingWarning) for one in caught)
    return statistics, [str(one.message) for one in caught]


def keyframes(path: Path) -> dict[int, tuple[bool, int, int]]:
    with replayer.Tape(path) as tape:
        return {
            place.tick: (place.is_full, int(state["x"]), int(state["y"]))
            for place in tape.keyframes
            for state in [tape.snapshot(place)]
        }


def test_a_fault_is_repaired_in_a_full_keyframe_and_counted_and_named_once(tmp_path: Path) -> None:
    """One number is forgotten around the ticks 20 and 50: their keyframes are right, and full."""
    path = tmp_path / "run.tape"
    simulation = Copying(forgets={*range(12, 21), *range(44, 51)})
    statistics, texts = recorded(path, simulation)

    truth = live_states()
    found = keyframes(path)
    assert {tick: (x, y) for tick, (_, x, y) in found.items()} == {tick: truth[tick] for tick in range(0, 61, 10)}
    assert [tick for tick, (is_full, *_) in found.items() if is_full] == [0, 20, 40, 50]
    assert statistics.capture_faults == 2
    (text,) = texts
    assert "at tick 20 the recorded state differed from copying.y" in text
    assert "report" in text


def test_an_intact_capture_gives_no_notice_and_the_same_tape(tmp_path: Path) -> None:
    """Byte for byte the tape of a simulation without the member; it is compared before each keyframe alone."""

    class Plain(Copying):
        recapture = None  # type: ignore[assignment]
        keyframe_deferred = None  # type: ignore[assignment]

    options = {"deterministic": True, "run_id": bytes(16)}
    simulation = Copying()
    statistics, texts = recorded(tmp_path / "one.tape", simulation, **options)
    Plain.__qualname__, Plain.__module__ = Copying.__qualname__, Copying.__module__
    recorded(tmp_path / "two.tape", Plain(), **options)

    assert (statistics.capture_faults, texts) == (0, [])
    assert simulation.compared == [0, *range(10, 61, 10)]
    assert (tmp_path / "one.tape").read_bytes() == (tmp_path / "two.tape").read_bytes()


def test_an_audit_finds_a_fault_at_its_tick(tmp_path: Path) -> None:
    """The state of that tick is already right, and it has a full keyframe."""
    path = tmp_path / "run.tape"
    statistics, texts = recorded(path, Copying(forgets={12, 13}), changes="audit")

    truth, found = live_states(), keyframes(path)
    assert statistics.capture_faults == 1  # At tick 13 the repair of tick 12 still holds.
    assert ["at tick 12" in text for text in texts] == [True]
    assert found[12] == (True, *truth[12])
    with replayer.Timeline(path, Copying) as run:
        for tick in range(TICKS + 1):
            run.seek(tick)
            assert (int(run.state["x"]), int(run.state["y"])) == truth[tick]


def test_a_deferred_keyframe_comes_at_a_later_tick_and_is_full(tmp_path: Path) -> None:
    """The simulation is asked at each tick from the one at which the keyframe was due."""
    path = tmp_path / "run.tape"
    simulation = Copying(deferred=range(20, 25))
    recorded(path, simulation)

    found = keyframes(path)
    assert simulation.asked == [10, 20, 21, 22, 23, 24, 25, 35, 45, 55]
    assert list(found) == [0, 10, 25, 35, 45, 55]
    assert found[25] == (True, *live_states()[25])
    assert [tick for tick in simulation.compared if 20 <= tick < 25] == [], "there is no keyframe to prove"


def test_the_members_are_looked_up_once(tmp_path: Path) -> None:
    """No lookup after the start: a simulation without them pays nothing in a tick."""
    lookups: list[str] = []

    class Watched(Copying):
        recapture = None  # type: ignore[assignment]
        keyframe_deferred = None  # type: ignore[assignment]

        def __getattribute__(self, name: str) -> Any:
            lookups.append(name)
            return super().__getattribute__(name)

    with Recorder(tmp_path / "run.tape", Watched(), keyframe_interval_ticks=10) as tape:
        started = len(lookups)
        for _ in range(TICKS):
            tape.step(None)
    assert not {"recapture", "keyframe_deferred", "value_digest"} & set(lookups[started:])
    assert {"recapture", "keyframe_deferred", "value_digest"} <= set(lookups[:started])


class Digesting(Copying):
    """Its digest is the text of its values."""

    def value_digest(self) -> Any:
        return f"{self.x:8} {self.y:8}".encode()


def test_each_keyframe_holds_the_digest_of_its_tick(tmp_path: Path) -> None:
    """Full ones and deltas; copies of the tape keep them."""
    path = tmp_path / "run.tape"
    with Recorder(path, Digesting(), keyframe_interval_ticks=10, full_every=4) as tape:
        for _ in range(TICKS):
            tape.step(None)
        tape.write_out(tmp_path / "copy.tape")
    repair_tape(path, tmp_path / "repaired.tape", Digesting)

    truth = live_states()
    for name in ("run.tape", "copy.tape", "repaired.tape"):
        with replayer.Tape(tmp_path / name) as read:
            found = {place.tick: read.recording.value_digest(place) for place in read.keyframes}
            kinds = {place.entry.kind for place in read.keyframes}
        assert found == {tick: b"%8d %8d" % truth[tick] for tick in found}, name
        assert list(found)[:7] == list(range(0, 61, 10))
        assert kinds == {BlockKind.FULL, BlockKind.DELTA}


def test_a_simulation_that_loads_inexactly_has_no_digest(tmp_path: Path) -> None:
    class Canonical(Digesting):
        level = "canonical"

    recorded(tmp_path / "run.tape", Canonical())
    with replayer.Tape(tmp_path / "run.tape") as read:
        assert {read.recording.value_digest(place) for place in read.keyframes} == {b""}


@pytest.mark.parametrize(("digest", "got"), [(b"1234567", "7 bytes"), (bytes(65), "65 bytes"), ("a" * 16, "str")])
def test_a_digest_that_no_tape_can_hold_is_refused(tmp_path: Path, digest: Any, got: str) -> None:
    simulation = Digesting()
    simulation.value_digest = lambda: digest  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=rf"Digesting\.value_digest\(\): expected bytes, 8 to 64 of them, got {got}"):
        Recorder(tmp_path / "run.tape", simulation)
    assert not list(tmp_path.iterdir())
