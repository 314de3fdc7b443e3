"""From two tapes alone: the tick, the phase and the fields at which runs diverge, and the trend of the difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer.commands.main
from recorder import Recorder
from recorder.storage.file_names import segment_numbers
from replayer.diagnose.compare.spread import measure_spread, trend_of_counts
from replayer.diagnose.compare.tape_diff import diff_tapes
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import make_simulation
from replayer.tape.tape import Tape
from sim import Field, Schema, State
from sim.kernel.hooks import Phase
from sim.kernel.simulation import run_phases

from oracle.command_lines import run
from small_worlds import Herd, Walkers

pytestmark = pytest.mark.share(0.18)

FIELD_COUNT = 12


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in its own folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Drifting:
    """Twelve fields that all change at each tick, and one element of one of them that a fault changes once."""

    def __init__(self, fault: tuple[int, int, int] | None = None) -> None:
        self.state = State(
            Schema(Field("tick", "i8"), *(Field(f"f{i}", "i8", (40,), hot=i % 2 == 0) for i in range(FIELD_COUNT)))
        )
        self.fault = fault

    def step(self, _: Any) -> None:
        tick = int(self.state["tick"]) + 1
        self.state["tick"][...] = tick
        for i in range(FIELD_COUNT):
            self.state[f"f{i}"][:] += np.arange(40) * tick + i
        if self.fault is not None and self.fault[0] == tick:
            self.state[f"f{self.fault[1]}"][self.fault[2]] ^= 1


def record(path: str, simulation: Any, ticks: int = 20, inputs: Any = None, **settings: Any) -> Path:
    """Record a tape of that many ticks."""
    with Recorder(path, simulation, **settings) as tape:
        for tick in range(1, ticks + 1):
            tape.step(inputs(tick) if inputs else None)
    return Path(path)


@pytest.mark.parametrize("faults", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_many_faults_are_located_by_the_tapes_alone(faults: int) -> None:
    """One element of one field at one tick: the tick is always right, the field in 999 of 1,000 cases."""
    random = np.random.default_rng(5)
    sound = record("sound.tape", Drifting(), 6, durability="none")
    right = 0
    with Tape(sound) as tape:
        for number in range(faults):
            fault = int(random.integers(1, 7)), int(random.integers(FIELD_COUNT)), int(random.integers(40))
            path = record("bad.tape", Drifting(fault), 6, durability="none")
            with Tape(path) as other:
                found = diff_tapes(tape, other)
            path.unlink()
            assert found.first_bad == fault[0], f"fault {number}: {fault}"
            right += found.ticks[0].fields == (f"f{fault[1]}",)
    assert right >= faults * 0.999


class Phased:
    """Three phases that all write x; a fault in one of them."""

    def __init__(self, fault: int | None = None, at: int = 7) -> None:
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8", (8,))))
        self.phases = tuple(Phase(f"phase{i}", self._phase(i, at if fault == i else None)) for i in range(3))

    def _phase(self, number: int, wrong_tick: int | None) -> Any:
        def run_phase(_: Any) -> None:
            self.state["tick"][...] += number == 0
            self.state["x"][:] = self.state["x"] * 3 + number
            if self.state["tick"] == wrong_tick:
                self.state["x"][2] += 1

        return run_phase

    def step(self, inputs: Any) -> None:
        run_phases(self.phases, inputs)


@pytest.mark.parametrize("fault", [0, 1, 2])
def test_the_phase_is_named(fault: int, capsys: pytest.CaptureFixture[str]) -> None:
    """If frames have hashes of phases, diff and verify name the phase."""
    record("a.tape", Phased(), blame="phases")
    record("b.tape", Phased(fault), blame="phases")
    with Tape("a.tape") as one, Tape("b.tape") as other:
        assert (found := diff_tapes(one, other)).phase == f"phase{fault}"
        assert (found.first_bad, found.ticks[0].fields) == (7, ("x",))
    assert run(replayer.commands.main.main, f"verify a.tape --sim {__name__}:Faulty{fault}") == 1
    out = capsys.readouterr().out
    assert f"  phase: phase{fault}\n  fields that differ at tick 7: x\n" in out


class Faulty0(Phased):
    """With a fault in the first phase."""

    def __init__(self) -> None:
        super().__init__(0)


class Faulty1(Phased):
    """With a fault in the second phase."""

    def __init__(self) -> None:
        super().__init__(1)


class Faulty2(Phased):
    """With a fault in the third phase."""

    def __init__(self) -> None:
        super().__init__(2)


class OneWriter(Phased):
    """The second phase alone writes y, wrongly at tick 5."""

    def __init__(self, wrong_tick: int = 5) -> None:
        super().__init__()
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8", (8,)), Field("y", "i8", (8,))))
        first, second, third = self.phases

        def write(inputs: Any) -> None:
            second.run(inputs)
            self.state["y"][:] += self.state["tick"] + int(self.state["tick"] == wrong_tick)

        self.phases = first, Phase("middle", write), third


@pytest.mark.seldom(0.15)
def test_the_only_phase_that_writes_a_field_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Also without hashes of phases; if several phases write it, all are named."""
    record("a.tape", OneWriter(0))
    assert run(replayer.commands.main.main, f"verify a.tape --sim {__name__}:OneWriter") == 1
    assert "phase: middle, the only one that writes a differing field" in capsys.readouterr().out
    record("b.tape", Phased())
    assert run(replayer.commands.main.main, f"verify b.tape --sim {__name__}:Faulty1") == 1
    assert "phase: one of phase0, phase1, phase2; a tape recorded with" in capsys.readouterr().out


# --- the trend


class Three:
    """Cells that read their neighbours (spreading), one that does not (bounded), one that forgets (transient)."""

    def __init__(self, kind: str = "") -> None:
        self.state = State(Schema(Field("tick", "i8"), Field("cells", "i8", (200,)), Field("own", "i8", (2,))))
        self.kind = kind

    def step(self, _: Any) -> None:
        state = self.state
        tick = int(state["tick"]) + 1
        state["tick"][...] = tick
        cells, own = state["cells"], state["own"]
        cells[:] = np.maximum(cells, np.maximum(np.roll(cells, 1), np.roll(cells, -1)))
        own[1] //= 2
        if tick == 10 and self.kind:
            place = {"spreading": cells[100:101], "bounded": own[:1], "transient": own[1:]}[self.kind]
            place[0] += 60


@pytest.mark.parametrize("kind", ["spreading", "bounded", "transient"])
@pytest.mark.parametrize("cadence", [7, 40])
def test_the_trend_of_a_difference(kind: str, cadence: int) -> None:
    """Three planted cases, by rows from re-simulation; every count is that of the live runs."""
    record("a.tape", Three(), 60)
    record("b.tape", Three(kind), 60, keyframe_interval_ticks=cadence)
    live = Three(), Three(kind)
    counts = []
    for tick in range(1, 61):
        for one in live:
            one.step(None)
        if tick >= 10:
            counts.append(sum(int((live[0].state[n] != live[1].state[n]).sum()) for n in ("cells", "own")))
    with Tape("a.tape") as one, Tape("b.tape") as other:
        found = diff_tapes(one, other)
        assert found.first_bad == 10
        cursors = [Cursor(one, make_simulation(one, Three)), Cursor(other, make_simulation(other, lambda: Three(kind)))]
        spread = measure_spread(cursors[0], cursors[1], 10, 60)
    assert spread.counts.sum(axis=0).tolist() == counts
    assert spread.trend == kind
    assert spread.stopped is None
    assert found.trend == ("bounded" if kind == "spreading" else kind)  # Tapes alone count fields, and this is in one.


@pytest.mark.parametrize(
    ("counts", "trend"),
    [
        ([1], "bounded"),
        ([3] * 40, "bounded"),
        ([1, 2, 4, 8], "spreading"),
        ([4, 2, 1, 1], "bounded"),
        ([1, 1, 1, 2], "spreading"),
    ],
)
def test_trends(counts: list[int], trend: str) -> None:
    """The end is compared with the beginning."""
    assert trend_of_counts(counts) == trend


# --- the command


def test_equal_runs_are_the_same_with_any_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """Keyframe interval, journal, split, blame and length do not matter; the ticks that both have are compared."""
    record("a.tape", Herd(), 60, keyframe_interval_ticks=7, blame="none")
    record("b.tape", Herd(), 50, keyframe_interval_ticks=4, split=900, deterministic=True)
    assert len(segment_numbers(Path("b.tape"))) > 1
    assert run(replayer.commands.main.main, "diff a.tape b.tape") == 0
    assert capsys.readouterr().out == "a.tape and b.tape: 51 ticks from 0 to 50, the same\n"


class Coin:
    def __init__(self, worth: int) -> None:
        self.worth, self.next = worth, self


class Purse:
    def __init__(self) -> None:
        self.coins: list[Coin] = []

    def step(self, inputs: Any) -> None:
        self.coins.append(Coin(len(inputs)))


def test_inputs_that_differ_in_the_order_of_keys_alone_are_said_to(capsys: pytest.CaptureFixture[str]) -> None:
    """At any depth; a value of another type is a difference of its own."""
    inputs = {"a": {"one": 1, "two": [{"x": 1, "y": 2}]}, "b": 2}
    others = {
        "order": {"b": 2, "a": {"two": [{"y": 2, "x": 1}], "one": 1}},
        "type": {"b": 2.0, "a": {"two": [{"y": 2, "x": 1}], "one": 1}},
        "value": {**inputs, "b": 3},
    }
    for name, given in {"same": inputs, **others}.items():
        with recorder.record(Purse(), f"{name}.tape", quiet=True, trial_ms=0) as purse:
            purse.step(given)
    for name in others:
        assert run(replayer.commands.main.main, f"diff same.tape {name}.tape") == 1
        printed = capsys.readouterr().out
        assert "  inputs: differ first at tick 1" in printed
        assert ("  inputs: differ first at tick 1 in the order of the keys of a dict alone\n" in printed) is (
            name == "order"
        )


def test_rows_of_objects_are_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """They are cells of the saved form: the values that differ are named by their paths."""
    for name, count in ("a", 1), ("b", 2):
        with recorder.record(Purse(), f"{name}.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=2) as purse:
            for _ in range(3):
                purse.step([0] * count)
    module = Purse.__module__
    assert run(replayer.commands.main.main, "diff a.tape b.tape") == 1
    assert "trend: 3 ticks of 3 differ, up to the last" in capsys.readouterr().out  # And not "bounded" or "spreading".
    assert run(replayer.commands.main.main, "diff a.tape b.tape --json") == 1
    assert json.loads(capsys.readouterr().out)["course"] is None
    assert run(replayer.commands.main.main, f"diff a.tape b.tape --sim {module}:Purse") == 1
    printed = capsys.readouterr().out
    assert "rows that differ" not in printed
    assert "coins[0].worth: first 1, second 2" in printed


def test_the_screen_of_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """Tick, fields, inputs, trend, values at the next keyframe that both have; a picture."""
    record("a.tape", Walkers(), 40, lambda tick: [[3, 5]] if tick == 12 else None, keyframe_interval_ticks=10)
    record("b.tape", Walkers(), 40, keyframe_interval_ticks=5)
    assert run(replayer.commands.main.main, "diff a.tape b.tape --sim small_worlds:Walkers -o d.svg") == 1
    rows = "rows that differ: 1 at first, 1 after 29 ticks"
    assert capsys.readouterr().out.splitlines() == [
        "a.tape and b.tape: the same to tick 11, first different at tick 12 of 0 to 40",
        "  fields: x",
        "  inputs: differ first at tick 12",
        f"  trend: bounded, 29 ticks of 29 differ; {rows}; at tick 20, the next keyframe of both:",
        "    x: 1 row",
        f"        [3] first {walker_at('a.tape', 20)}, second {walker_at('b.tape', 20)}",
        "  picture: d.svg",
    ]
    assert "<svg" in Path("d.svg").read_text()
    assert run(replayer.commands.main.main, "diff a.tape b.tape --sim small_worlds:Walkers --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["first_bad"], facts["fields"], facts["inputs_tick"], facts["rows"]) == (
        12,
        ["x"],
        12,
        {"x": [1] * 29},
    )


def walker_at(tape: str, tick: int) -> int:
    """The position of walker 3 at a tick."""
    with replayer.open(tape, Walkers) as run_:
        return int(run_[tick]["x"][3])


def test_with_different_code_the_tapes_alone_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """The failed re-simulation is reported, and tick and fields are still named."""
    record("a.tape", Three(), 30)
    record("b.tape", Three("spreading"), 30)
    assert run(replayer.commands.main.main, f"diff a.tape b.tape --sim {__name__}:Three") == 1
    out = capsys.readouterr().out
    assert "first different at tick 10" in out
    assert "fields: cells\n" in out
    assert "the simulation that was named does not give the recorded state of b.tape at tick 10" in out
    assert run(replayer.commands.main.main, "diff a.tape b.tape -o d.png") == 2
    assert "d.png is not drawn: the rows that differ are not counted: the tape names no reg" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("diff a.tape none.tape", 2, "none.tape: no such file"),
        ("diff a.tape a.tape -o x.txt", 2, "expected a name that ends in .png"),
        ("diff a.tape late.tape", 2, "expected tapes with common ticks, got 0 to 5 and 280 to 300"),
        ("diff a.tape", 2, "other"),
    ],
)
def test_mistakes_get_one_line(capsys: pytest.CaptureFixture[str], line: str, code: int, message: str) -> None:
    """Mistakes also get the usual exit codes."""
    record("a.tape", Walkers(), 5)
    record("late.tape", Walkers(), 300, keep=20, keyframe_interval_ticks=5)
    assert run(replayer.commands.main.main, line) == code
    assert message in capsys.readouterr().err.lower()


def test_a_tape_with_a_hole_is_compared_where_it_can_be() -> None:
    """Ticks that one tape lacks are counted, and do not count as the same."""
    record("a.tape", Drifting(), 60, keyframe_interval_ticks=10)
    record("b.tape", Drifting(), 60, keyframe_interval_ticks=10)
    with Tape("b.tape") as other:
        (segment,) = other.segments
        entry = next(e for e in segment.contents.entries if e.kind == 2 and e.first_tick <= 25 <= e.final_tick)
    data = bytearray(Path("b.tape").read_bytes())
    data[entry.offset + 80] ^= 1
    Path("b.tape").write_bytes(data)
    with Tape("a.tape") as one, Tape("b.tape") as other:
        found = diff_tapes(one, other)
    assert not found.same
    assert not found.ticks
    assert found.unreadable_ticks == entry.final_tick - entry.first_tick + 1
    assert found.compared_ticks == 61 - found.unreadable_ticks


def test_runs_that_differ_from_the_start() -> None:
    """With a different seed, tick 0 differs: it has no frame, and its keyframe is compared."""
    record("a.tape", Walkers(1), 5)
    record("b.tape", Walkers(2), 5)
    with Tape("a.tape") as one, Tape("b.tape") as other:
        found = diff_tapes(one, other)
    assert (found.first_bad, found.ticks[0].fields) == (0, ("rng",))


def test_the_first_common_tick_is_compared_where_one_tape_has_a_keyframe() -> None:
    """The other tape has the hash of that tick in a frame."""
    for name, seed, options in (("long", 1, {}), ("ring", 2, {"keep": 10, "keyframe_interval_ticks": 5, "split": 400})):
        with Recorder(f"{name}.tape", Walkers(seed=seed), deterministic=True, **options) as tape:
            for _ in range(60):
                tape.step()
    with Tape("long.tape") as one, Tape("ring.tape") as other:
        assert other.first_tick > 0
        assert one.keyframe_at(other.first_tick) is None
        for pair in ((one, other), (other, one)):
            result = diff_tapes(*pair)
            assert result.first_bad == other.first_tick
            assert (result.compared_ticks, len(result.ticks)) == (61 - other.first_tick, 61 - other.first_tick)


class Marking(Walkers):
    """Marks its writes; one number is wrong from a tick on."""

    marks_writes = True

    def __init__(self, wrong_tick: int = 0) -> None:
        super().__init__(n=300)
        self.wrong_tick, self.count = wrong_tick, 0

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        self.count += 1
        self.state["y"][5] += self.count == self.wrong_tick
        for name in self.state:
            self.state.mark(name)


@pytest.mark.parametrize(("interval", "hashes"), [(7, "changes"), (5, "changes"), (7, "states")])
def test_tapes_with_hashes_of_changes_are_compared_at_each_tick(interval: int, hashes: Any) -> None:
    """Also with keyframes at other ticks, or with hashes of states on the other tape."""
    linked: Any = {"mode": "changes", "hashes": "changes", "keyframe_interval_ticks": 7, "blame": "none"}
    for name, wrong, options in (
        ("linked", 0, linked),
        ("same", 0, {**linked, "keyframe_interval_ticks": interval, "hashes": hashes}),
        ("wrong", 9, {**linked, "keyframe_interval_ticks": interval, "hashes": hashes}),
    ):
        with Recorder(f"{name}.tape", Marking(wrong), **options) as tape:
            for _ in range(30):
                tape.step()
    with Tape("linked.tape") as linked_tape, Tape("same.tape") as same, Tape("wrong.tape") as wrong_tape:
        assert diff_tapes(linked_tape, same).same
        result = diff_tapes(linked_tape, wrong_tape)
        assert [one.tick for one in result.ticks] == list(range(9, 31))
        assert (result.compared_ticks, result.unreadable_ticks) == (31, 0)


class Later(Drifting):
    """A later version, with an additional field and a wider one."""

    def __init__(self) -> None:
        super().__init__()
        kept = [Field(f"f{i}", "i8", (40,), hot=i % 2 == 0) for i in range(FIELD_COUNT - 1)]
        self.state = State(
            Schema(Field("tick", "i8"), *kept, Field(f"f{FIELD_COUNT - 1}", "i8", (40, 1)), Field("new", "i8"))
        )

    def step(self, _: Any) -> None:
        tick = int(self.state["tick"]) + 1
        self.state["tick"][...] = tick
        for i in range(FIELD_COUNT):
            self.state[f"f{i}"].reshape(-1)[:] += np.arange(40) * tick + i + (i == 4 and tick == 3)


def test_versions_with_different_fields_are_compared_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields that one version lacks, and those that differ, are named; equal ones are not, although all hashes differ."""
    record("old.tape", Drifting(), 6, keyframe_interval_ticks=4)
    record("new.tape", Later(), 6, keyframe_interval_ticks=3)
    with Tape("old.tape") as one, Tape("new.tape") as other:
        found = diff_tapes(one, other)
    assert [one.fields for one in found.ticks] == [("f11", "new"), *[("new",)] * 2, *[("f4", "new")] * 4]
    assert run(replayer.commands.main.main, "diff old.tape new.tape") == 1
    assert "at tick 0:\n    f11: shape (40,) first, (40, 1) second" in capsys.readouterr().out
