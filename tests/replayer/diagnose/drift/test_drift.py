"""Drift equals what brute force measures, at every interval, and is never reported as exact."""

from __future__ import annotations

import json
import math
import statistics
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer.commands.main
from recorder import Recorder
from replayer.diagnose.drift.drift import compare_values, measure_drift
from sim import Field, Schema, State, Table

from oracle.command_lines import run
from small_worlds import Herd, Saved, Walkers

pytestmark = pytest.mark.share(0.18)

INTERVAL = 25
TICKS = 110


class Springs:
    """Forty masses on springs, in float64 and float32, by + and × only; and a counter."""

    def __init__(self) -> None:
        self.state = State(
            Schema(Field("tick", "i8"), Field("x", "f8", (40,)), Field("v", "f8", (40,)), Field("heat", "f4", (5, 4)))
        )
        self.state["x"][:] = np.arange(40) / 10 - 2
        self.state["heat"][:] = np.arange(20).reshape(5, 4) / 7

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        state = self.state
        state["tick"][()] += 1
        state["v"][:] -= 0.01 * state["x"]
        state["x"][:] += 0.1 * state["v"]
        state["heat"][:] = state["heat"] * np.float32(0.99) + np.float32(0.01)


class Nudged(Springs):
    """Springs that are one ULP off in one mass at each step, and in one heat at some steps."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        self.state["x"][7] = np.nextafter(self.state["x"][7], 10)
        if self.state["tick"] % INTERVAL == 20:
            self.state["heat"][2, 1] = np.nextafter(self.state["heat"][2, 1], np.float32(10))


class NudgedOnce(Springs):
    """Springs with an error of a billionth at tick 60, which stays."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["tick"] == 60:
            self.state["x"][3] += 1e-9


class Transient(Springs):
    """Springs with an error of one ULP at tick 60, which rounding removes again."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["tick"] == 60:
            self.state["x"][3] = np.nextafter(self.state["x"][3], 10)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in its own folder."""
    monkeypatch.chdir(tmp_path)


def record(simulation: Any, ticks: int = TICKS, inputs: Any = None) -> dict[int, Any]:
    """Record a run as a.tape; return the live states by tick."""
    with Recorder("a.tape", simulation, keyframe_interval_ticks=INTERVAL) as tape:
        live = {0: tape.simulation.state.snapshot()}
        for tick in range(1, ticks + 1):
            tape.step(inputs)
            live[tick] = tape.simulation.state.snapshot()
    return live


def steps_between(first: float, second: float, code: str) -> int:
    """The distance in ULPs, by the order of the bits."""

    def place(value: float) -> int:
        size = struct.calcsize(code)
        bits = int.from_bytes(struct.pack(f"<{code}", value), "little")
        return -(bits - (1 << (8 * size - 1))) - 1 if bits >> (8 * size - 1) else bits

    return abs(place(first) - place(second))


def brute_force(recorded: Any, replayed: Any, code: str) -> dict[str, Any]:
    """Compute the same figures by loops over fractions."""
    pairs = [
        (a, b) for a, b in zip(recorded.reshape(-1).tolist(), replayed.reshape(-1).tolist(), strict=True) if a != b
    ]
    errors = [abs(Fraction(a) - Fraction(b)) for a, b in pairs]
    relative = [error / max(abs(Fraction(a)), abs(Fraction(b))) for error, (a, b) in zip(errors, pairs, strict=True)]
    return {
        "max_abs": float(max(errors)),
        "median_abs": float(statistics.median(errors)),
        "max_rel": float(max(relative)),
        "median_rel": float(statistics.median(relative)),
        "max_ulp": max(steps_between(a, b, code) for a, b in pairs),
    }


def test_the_drift_of_each_interval_equals_brute_force() -> None:
    """First bad tick, bad ticks and every figure of every field and interval, from the live run's own states."""
    live = record(Springs())
    report = measure_drift("a.tape", Nudged)

    assert [(found.start_tick, found.end_tick) for found in report.intervals] == [
        (0, 25), (25, 50), (50, 75), (75, 100), (100, 110),
    ]  # fmt: skip
    assert [found.first_bad for found in report.intervals] == [1, 26, 51, 76, 101]
    assert (report.compared_ticks, report.bad_ticks) == (TICKS, TICKS)
    assert not report.exact
    for found in report.intervals[:-1]:
        other = Nudged()
        other.state.restore(live[found.start_tick])
        for _ in range(INTERVAL):
            other.step(None)
        recorded, replayed = live[found.end_tick], other.state.snapshot()
        assert found.compared
        assert {drift.field for drift in found.fields} == {"x", "v", "heat"}
        for drift in found.fields:
            code = "f" if drift.field == "heat" else "d"
            expected = brute_force(recorded[drift.field], replayed[drift.field], code)
            assert drift.row_count == 1
            assert drift.max_ulp == expected.pop("max_ulp")
            assert {name: getattr(drift, name) for name in expected} == pytest.approx(expected, rel=1e-12, abs=0)
            assert found.growth(drift) == pytest.approx(expected["max_abs"] / INTERVAL)
    assert not report.intervals[-1].compared
    assert report.intervals[-1].fields == []


def test_snapping_bounds_the_error() -> None:
    """One nudge shows in its own interval only, although a run that is not snapped would carry it to the end."""
    live = record(Springs())
    report = measure_drift("a.tape", NudgedOnce)
    unsnapped = NudgedOnce()
    for _ in range(100):
        unsnapped.step(None)

    assert [found.first_bad for found in report.intervals] == [None, None, 60, None, None]
    assert report.intervals[2].bad_ticks == 16
    assert report.bad_ticks == 16
    assert unsnapped.state.hash() != live[100].hash()
    assert set(report.worst()) == {"x", "v"}
    assert max(found.max_abs for _, found in report.worst().values()) < 2e-9


def test_a_difference_that_vanishes_is_counted() -> None:
    """Bad ticks in the middle of an interval, as many as brute force finds; at its end the states are equal."""
    live = record(Springs())
    other = Transient()
    bad = []
    for tick in range(1, TICKS + 1):
        other.step(None)
        bad += [tick] * (other.state.hash() != live[tick].hash())
    report = measure_drift("a.tape", Transient)

    assert bad[0] == 60
    assert bad[-1] < 75
    assert (report.intervals[2].first_bad, report.intervals[2].bad_ticks) == (60, len(bad))
    assert report.intervals[2].compared
    assert report.intervals[2].fields == []
    assert not report.exact


@pytest.mark.parametrize(("factory", "inputs"), [(Springs, None), (Walkers, None), (Herd, None), (Saved, 3)])
@pytest.mark.seldom(0.15)
def test_a_deterministic_simulation_does_not_drift(factory: Any, inputs: Any, capsys: Any, monkeypatch: Any) -> None:
    """Exit code 0 and no interval with a finding, in both forms of a simulation."""
    import small_worlds

    monkeypatch.setattr(small_worlds, "Sound", factory, raising=False)
    record(factory(), inputs=inputs)
    assert run(replayer.commands.main.main, "drift a.tape --sim small_worlds:Sound") == 0
    assert f"bit-exact: {TICKS} ticks replayed" in capsys.readouterr().out
    assert measure_drift("a.tape", factory).exact


@pytest.mark.seldom(0.15)
def test_the_command_is_never_silent_about_drift(capsys: Any, monkeypatch: Any) -> None:
    """Exit code 1, the worst field and interval by name; --json holds every interval."""
    import small_worlds

    monkeypatch.setattr(small_worlds, "Nudged", Nudged, raising=False)
    record(Springs())
    assert run(replayer.commands.main.main, "drift a.tape --sim small_worlds:Nudged") == 1
    printed = capsys.readouterr().out
    assert "NOT EXACT: 110 of 110 ticks differ, in 5 of 5 intervals" in printed
    assert "ticks 25 to 50: first at tick 26, 25 in all" in printed
    assert "worst: heat at tick" in printed
    assert "relative 1.08e-07" in printed
    assert "1 ULP" in printed
    assert "no keyframe at its end" in printed

    assert run(replayer.commands.main.main, "drift a.tape --sim small_worlds:Nudged --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert not facts["exact"]
    assert len(facts["intervals"]) == 5
    assert {found["field"] for found in facts["worst"]} == {"x", "v", "heat"}
    assert all(found["growth"] > 0 for found in facts["worst"])


def test_a_simulation_that_raises_on_the_way_is_not_exact() -> None:
    """A diverged state may make the step raise: the interval reports it, the others are measured."""

    class Brittle(Springs):
        def step(self, inputs: Any) -> None:
            if self.state["tick"] == 40:
                raise ValueError("too far")
            super().step(inputs)

    record(Springs())
    report = measure_drift("a.tape", Brittle)

    assert [bool(found.failed) for found in report.intervals] == [False, True, False, False, False]
    assert "the step raised ValueError: too far" in (report.intervals[1].failed or "")
    assert not report.exact


def snapshot(entry: Any, value: Any) -> Any:
    """A state of one field."""
    state = State(Schema(entry))
    state[entry.name][...] = value
    return state.snapshot()


@pytest.mark.parametrize(
    ("entry", "recorded", "replayed", "expected"),
    [
        (Field("a", "i8"), -(1 << 63), (1 << 63) - 1, {"max_abs": (1 << 64) - 1, "max_rel": 2.0, "max_ulp": None}),
        (Field("a", "u8"), 0, (1 << 64) - 1, {"max_abs": (1 << 64) - 1, "max_rel": 1.0, "max_ulp": None}),
        (Field("a", "i1"), -128, 127, {"max_abs": 255, "max_ulp": None}),
        (Field("a", "?"), False, True, {"max_abs": 1, "max_ulp": None}),
        (Field("a", "f8"), -0.0, 0.0, {"max_abs": 0.0, "max_rel": 0.0, "max_ulp": 1, "row_count": 1}),
        (Field("a", "f8"), -5e-324, 5e-324, {"max_abs": 1e-323, "max_ulp": 3}),
        (Field("a", "f8"), 1.0, 1.0 + 2**-52, {"max_abs": 2**-52, "max_ulp": 1}),
        (Field("a", "f8"), -1.7e308, 1.7e308, {"max_abs": np.finfo("f8").max.item()}),
        (Field("a", "f4"), 1.0, -1.0, {"max_abs": 2.0, "max_rel": 2.0, "max_ulp": 2 * 0x3F800000 + 1}),
        (Field("a", "f2"), 1.0, 1.0 + 2**-10, {"max_ulp": 1}),
        (Field("a", "f8", (3,)), [1, math.nan, 2], [1, 5, 2.5], {"not_finite": 1, "max_abs": 0.5, "row_count": 2}),
        (Field("a", "f8"), math.inf, -math.inf, {"not_finite": 1, "max_abs": 0.0, "row_count": 1}),
        (Field("a", "c16"), 1 + 2j, 1 + 2.5j, {"max_abs": 0.5, "row_count": 1}),
        (Field("a", "f8", (4, 3), row_axes=1), 0.0, [[0, 0, 0], [1, 2, 4], [0, 0, 0], [0, 8, 0]],
         {"row_count": 2, "max_abs": 8.0, "median_abs": 3.0, "max_rel": 1.0}),
    ],
)  # fmt: skip
def test_edges_of_the_figures(entry: Any, recorded: Any, replayed: Any, expected: dict[str, Any]) -> None:
    """Extremes of each dtype: no overflow, no warning, the expected figure."""
    [found] = compare_values(snapshot(entry, recorded), snapshot(entry, replayed))

    assert {name: getattr(found, name) for name in expected} == expected
    json.dumps(found.max_abs, allow_nan=False)


def test_tables_of_different_sizes_are_reported() -> None:
    """A field that cannot be compared element by element is worse than any figure."""
    states = [State(Schema(Table("t", Field("a", "i8")), Field("x", "f8"))) for _ in range(2)]
    for state, rows in zip(states, (3, 5), strict=True):
        state.add_rows("t", rows)
        state["x"][()] = rows
    found = compare_values(states[0].snapshot(), states[1].snapshot())

    assert [(drift.field, drift.note) for drift in found] == [
        ("t.a", "(3,) int64 recorded, (5,) int64 replayed"),
        ("x", None),
    ]


def test_a_damaged_tape_is_measured_where_it_can_be(monkeypatch: Any) -> None:
    """A tape without its last blocks is exact as far as it can be read, and reported as incomplete."""
    import small_worlds

    monkeypatch.setattr(small_worlds, "Springs", Springs, raising=False)
    record(Springs())
    Path("a.tape").write_bytes(Path("a.tape").read_bytes()[:-300])
    assert run(replayer.commands.main.main, "drift a.tape --sim small_worlds:Springs") in (3, 4)


class Counting:
    """Counts in an attribute, which keyframes do not hold."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8")))
        self.count = 0

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.count += 1
        self.state["x"][()] += self.count


def test_hidden_state_is_not_an_exact_replay(tmp_path: Path) -> None:
    """Each interval begins with a fresh simulation, as in verify and seek: the first tick after a keyframe differs."""
    path = tmp_path / "run.tape"
    with Recorder(path, Counting(), keyframe_interval_ticks=20) as tape:
        for _ in range(60):
            tape.step()
    report = measure_drift(path, Counting)
    assert [interval.first_bad for interval in report.intervals] == [None, 21, 41]


calls = 0  # Of CountingOutside.step.


class CountingOutside(Counting):
    """Counts in a global of its module."""

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        global calls  # noqa: PLW0603 - the defect
        calls += 1
        self.state["x"][()] += calls


def test_state_in_a_module_global_is_not_an_exact_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each interval has its own process: nothing is carried into the next one, or into a second measurement."""
    monkeypatch.setitem(globals(), "calls", 0)
    with Recorder("run.tape", CountingOutside(), keyframe_interval_ticks=20) as tape:
        for _ in range(60):
            tape.step()
    monkeypatch.setitem(globals(), "calls", 0)
    for _ in range(2):
        assert [one.first_bad for one in measure_drift("run.tape", CountingOutside).intervals] == [None, 21, 41]


class Roomy(Springs):
    """Springs with a table that gets a row every ten ticks."""

    def __init__(self) -> None:
        super().__init__()
        self.state = State(Schema(Field("tick", "i8"), Table("t", Field("a", "i8"), capacity=4)))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        self.grow(int(self.state["tick"]))

    def grow(self, tick: int) -> None:
        """Add the row of a step to the table."""
        if tick % 10 == 0:
            self.state.add_rows("t", 1)


class Roomier(Roomy):
    """Had five more rows for a moment, and has a larger capacity until the other table has grown as well."""

    def grow(self, tick: int) -> None:
        super().grow(tick)
        if tick == 20:
            self.state.add_rows("t", 5)
            self.state.truncate_rows("t", 2)


def test_a_different_capacity_is_neither_a_difference_in_values_nor_equality(capsys: Any, monkeypatch: Any) -> None:
    """All hashes differ up to the end of the interval, no field does, and both are reported."""
    import small_worlds

    monkeypatch.setattr(small_worlds, "Roomier", Roomier, raising=False)
    record(Roomy())
    first = measure_drift("a.tape", Roomier).intervals[0]
    assert (first.first_bad, first.bad_ticks, first.fields, first.bad_at_end) == (20, 6, [], True)
    assert run(replayer.commands.main.main, "drift a.tape --sim small_worlds:Roomier") == 1
    printed = capsys.readouterr().out
    assert "no value differs at its end: only the capacities of tables or blobs differ" in printed
    assert "equal again" not in printed


def test_values_that_are_not_finite_have_no_error_of_zero(capsys: Any, monkeypatch: Any) -> None:
    """Infinity against its opposite is not 0 ULP apart."""
    import small_worlds

    class Endless(Springs):
        sign = 1

        def step(self, inputs: Any) -> None:  # noqa: ARG002
            self.state["tick"][()] += 1
            self.state["x"][:2] = self.sign * np.inf

    class Opposite(Endless):
        sign = -1

    monkeypatch.setattr(small_worlds, "Opposite", Opposite, raising=False)
    record(Endless())
    assert run(replayer.commands.main.main, "drift a.tape --sim small_worlds:Opposite") == 1
    printed = capsys.readouterr().out
    assert "x: 2 rows, 2 elements are NaN or infinite in one state or both: no error can be computed" in printed
    assert "0 ULP" not in printed
