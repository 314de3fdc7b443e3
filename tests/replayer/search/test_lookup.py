"""Questions with a lookup file: the answers of a plain loop, in fewer steps; and a file that cannot be believed."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked_worlds import Garden, garden_run
from varied_worlds import Rare

import recorder
import replayer
from recorder.exit_codes import DIFFERS, SAME, USAGE
from replayer.commands.main import main
from replayer.search.lookup.lookup import LookupWarning
from replayer.search.lookup.lookup_file import lookup_path, read_lookup, stored, write_lookup
from replayer.search.lookup.make_lookup import Measured, measured_intervals
from replayer.search.search_errors import ExpressionError
from replayer.search.watched_value import ABSENT, are_same
from sim import Field, Schema, State, Table

TICKS, INTERVAL = 240, 20


def index(path: Path, factory: Any) -> None:
    """Write the lookup file of a tape."""
    with replayer.open(path, factory) as run:
        intervals = [stored(one) for one in measured_intervals(run.tape, run.counted_cursor(), Measured())]
        write_lookup(run.tape, lookup_path(path), intervals)


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]], int]:
    """A tape with a lookup file, the plain run's states, and the seed."""
    seed = random.randrange(1 << 20)
    path = tmp_path_factory.mktemp("rare") / "rare.tape"
    with recorder.Recorder(path, Rare(seed), keyframe_interval_ticks=INTERVAL) as tape:
        for _ in range(TICKS):
            tape.step(None)
    index(path, Rare)
    plain = Rare(seed)
    states = [{name: plain.state[name].copy() for name in plain.state}]
    for _ in range(TICKS):
        plain.step(None)
        states.append({name: plain.state[name].copy() for name in plain.state})
    return path, states, seed


def last_change(values: list[Any], at: int) -> int | None:
    """The last tick up to at whose value is not that of the tick before."""
    changed = [tick for tick in range(1, at + 1) if not are_same(values[tick - 1], values[tick])]
    return changed[-1] if changed else None


def element(state: dict[str, Any], field: str, row: tuple[int, ...]) -> Any:
    """One element; ABSENT where there is none."""
    try:
        return state[field][row].item()
    except IndexError:
        return ABSENT


def test_the_last_write_is_that_of_a_plain_loop(rare: tuple[Path, list[dict[str, Any]], int]) -> None:
    """Of cells, of rows of a table that grows and shrinks, of whole fields; and intervals are skipped."""
    path, states, seed = rare
    chance, skipped = random.Random(seed), 0
    with replayer.open(path, Rare) as run:
        for _ in range(40):
            at = chance.randrange(1, TICKS + 1)
            field, row = chance.choice(
                [
                    ("cells", (chance.randrange(4), chance.randrange(5))),
                    ("cells", (chance.randrange(-4, 4),)),
                    ("units.hp", (chance.randrange(5),)),
                    ("units.id", (0,)),
                    ("units.hp", (-1,)),
                ]
            )
            values = [
                state[field][row].tobytes() if len(row) < state[field].ndim else element(state, field, row)
                for state in states
            ]
            found = run.last_write(field, row, at=at, line=False)
            assert found.tick == last_change(values, at), (seed, field, row, at)
            assert found.intervals <= TICKS // INTERVAL
            skipped += found.skipped_intervals
    assert skipped > 0, seed


def test_the_last_write_of_an_entity_is_that_of_a_plain_loop(rare: tuple[Path, list[dict[str, Any]], int]) -> None:
    """Wherever its row is, and before it is born."""
    path, states, seed = rare
    numbers = sorted({int(number) for state in states for number in state["units.id"]})
    with replayer.open(path, Rare) as run:
        for entity in numbers:
            values = []
            for state in states:
                rows = np.flatnonzero(state["units.id"] == entity)
                values.append(state["units.hp"][rows[0]].item() if rows.size else ABSENT)
            found = run.last_write("units.hp", entity=entity, line=False)
            assert found.tick == last_change(values, TICKS), (seed, entity)


def test_a_value_that_changed_long_ago_needs_the_steps_of_one_interval(tmp_path: Path) -> None:
    """Not those of all intervals since then."""
    path = tmp_path / "once.tape"

    class Once(Rare):
        def step(self, inputs: Any) -> None:
            self.state["steps"][...] += 1
            self.state["cells"][1, 1] += int(self.state["steps"]) == 31
            self.state["cells"][0, 0] += inputs

    with recorder.Recorder(path, Once(), keyframe_interval_ticks=INTERVAL) as tape:
        for _ in range(TICKS):
            tape.step(1)
    with replayer.open(path, Once) as run:
        assert run.last_write("cells", (1, 1), line=False).simulated > TICKS - 2 * INTERVAL
    index(path, Once)
    with replayer.open(path, Once) as run:
        found = run.last_write("cells", (1, 1), line=False)
        never = run.last_write("cells", (3, 3), line=False)
    assert (found.tick, found.skipped_intervals, found.intervals) == (31, TICKS // INTERVAL - 2, TICKS // INTERVAL - 1)
    assert found.simulated <= 2 * INTERVAL
    assert (never.tick, never.skipped_intervals, never.simulated) == (None, TICKS // INTERVAL, 0)


def test_found_ticks_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    """First, last, all and a range; conditions that never hold need no step."""
    seed = random.randrange(1 << 20)
    path = tmp_path / "garden.tape"
    states = garden_run(path, seed, TICKS, INTERVAL)
    index(path, Garden)
    chance, skipped = random.Random(seed), 0
    with replayer.open(path, Garden) as run:
        for _ in range(12):
            limit = int(states[chance.randrange(TICKS + 1)]["plants.energy"].sum())
            text = f"plants.energy.sum() == {limit} and not heat[1, 2] == 0.5"
            expected = [
                tick
                for tick, state in enumerate(states)
                if int(state["plants.energy"].sum()) == limit and state["heat"][1, 2] != 0.5
            ]
            found = run.find(text)
            skipped += found.skipped_intervals
            assert (found.ticks, found.intervals) == (expected, TICKS // INTERVAL + 1), (seed, text)
            assert run.first(text) == (expected[0] if expected else None), (seed, text)
            assert run.last(text) == (expected[-1] if expected else None), (seed, text)
            begin, end = sorted(chance.sample(range(TICKS + 1), 2))
            part = run.find(text, first_tick=begin, last_tick=end)
            assert part.ticks == [tick for tick in expected if begin <= tick <= end], (seed, text)
        never = run.find("plants.energy.max() > 1000000000")
    assert skipped > 0, seed
    assert (never.ticks, never.simulated, never.skipped_intervals) == ([], 0, never.intervals)


@pytest.mark.parametrize("condition", ["heat > 0.5", "plants.energy.sum() > 'a'", "nowhere > 3"])
def test_errors_are_errors_with_a_lookup_file_too(condition: str, rare: tuple[Path, list[dict[str, Any]], int]) -> None:
    """A condition that is none."""
    path, _, _ = rare
    with replayer.open(path, Rare) as run, pytest.raises(ExpressionError):
        run.find(condition.replace("heat", "cells").replace("plants.energy", "units.hp"))


def small_tape(path: Path, extra: int = 0) -> None:
    """A tape of a world that changes in each step."""
    with recorder.Recorder(path, Rare(), keyframe_interval_ticks=INTERVAL, run_id=b"0123456789abcdef") as tape:
        for _ in range(2 * INTERVAL + extra):
            tape.step(None)


def test_a_file_of_another_tape_is_not_believed(tmp_path: Path) -> None:
    """Of another run, or of the same run id with other bytes: a warning, and the right answer."""
    one, other = tmp_path / "one.tape", tmp_path / "other.tape"
    small_tape(one)
    small_tape(other, extra=3)
    index(one, Rare)
    shutil.copy(lookup_path(one), lookup_path(other))
    with replayer.open(other, Rare) as run, pytest.warns(LookupWarning, match="the files have changed"):
        assert run.first("cells[0, 0] == 42") == 42
    garden_run(tmp_path / "garden.tape", 0, 5, 5)
    shutil.copy(lookup_path(one), lookup_path(tmp_path / "garden.tape"))
    with replayer.open(tmp_path / "garden.tape", Garden) as run, pytest.warns(LookupWarning, match="another run"):
        assert run.first("tick == 2") == 2


def test_a_resumed_tape_has_outgrown_its_file(tmp_path: Path) -> None:
    """The ticks that were added are found."""
    path = tmp_path / "run.tape"
    small_tape(path)
    index(path, Rare)
    with recorder.resume(path, Rare()) as tape:
        for _ in range(5):
            tape.step(None)
    with replayer.open(path, Rare) as run, pytest.warns(LookupWarning, match="the files have changed"):
        assert run.first("cells[0, 0] == 43") == 43


def test_a_damaged_file_is_passed_over(tmp_path: Path) -> None:
    """Any flipped bit and any cut, with one warning each; the answers stay."""
    path = tmp_path / "run.tape"
    small_tape(path)
    index(path, Rare)
    good = lookup_path(path).read_bytes()
    chance = random.Random(seed := random.randrange(1 << 20))
    spoilt = [good[:cut] for cut in (0, 7, 20, len(good) // 2, len(good) - 1)]
    for _ in range(30):
        bit = chance.randrange(8 * len(good))
        spoilt.append(good[: bit // 8] + bytes([good[bit // 8] ^ 1 << bit % 8]) + good[bit // 8 + 1 :])
    with replayer.open(path, Rare) as run:
        for content in spoilt:
            lookup_path(path).write_bytes(content)
            run._lookup = None
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert run.first("cells[0, 0] == 33") == 33, seed
            assert [one.category for one in caught] == [LookupWarning], seed
        lookup_path(path).write_bytes(good)
        run._lookup = None
        assert len(run.lookup()) == 3


def test_ticks_that_damage_has_cost_are_known_by_the_file(tmp_path: Path) -> None:
    """It was made before; and a file of the damaged tape leaves those intervals to the steps."""
    path = tmp_path / "run.tape"
    small_tape(path)
    index(path, Rare)
    with replayer.open(path, Rare) as run:
        frames = next(entry for entry in run.tape.segments[0].contents.entries if entry.kind == 2)
        begin = frames.offset + 80
    data = bytearray(path.read_bytes())
    data[begin] ^= 255
    path.write_bytes(data)
    with replayer.open(path, Rare) as run:
        assert run.find("cells[0, 0] < 0").is_proved
    index(path, Rare)
    with replayer.open(path, Rare) as run:
        assert len(read_lookup(run.tape, lookup_path(path))) == 2
        assert not run.find("cells[0, 0] < 0").is_proved


def test_the_commands(rare: tuple[Path, list[dict[str, Any]], int], capsys: pytest.CaptureFixture[str]) -> None:
    """Index, find and who count intervals and steps; a stale file is named in one line."""
    path, _, _ = rare
    sim = ["--sim", "varied_worlds:Rare"]
    assert status(["index", str(path), "--json", *sim]) == SAME
    facts = json.loads(capsys.readouterr().out)
    assert (facts["intervals"], facts["indexed_intervals"], facts["simulated"]) == (13, 13, TICKS)
    assert facts["bytes"] == lookup_path(path).stat().st_size
    assert status(["find", "cells.max() > 100000", str(path), *sim]) == DIFFERS
    assert "0 states looked at, 0 steps simulated; 13 of 13 intervals skipped" in capsys.readouterr().out
    assert status(["who", str(path), "--field", "seed", "--json", *sim]) == DIFFERS
    (write,) = json.loads(capsys.readouterr().out)["writes"]
    assert (write["tick"], write["intervals"]) == (None, 12)
    assert write["skipped_intervals"] >= 10  # The table may have grown in the others.
    assert write["simulated"] == (12 - write["skipped_intervals"]) * INTERVAL
    kept = lookup_path(path).read_bytes()
    try:
        lookup_path(path).write_bytes(kept[:-1])
        assert status(["find", "cells.max() > 100000", str(path), *sim]) == DIFFERS
        out = capsys.readouterr()
        assert out.err.count("\n") == 1
        assert "it is damaged" in out.err
        assert f"{TICKS + 1} states looked at" in out.out
    finally:
        lookup_path(path).write_bytes(kept)
    assert status(["index", str(path.with_name("none.tape")), *sim]) == USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_a_tape_that_is_being_recorded_is_not_indexed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line; nothing is written."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, Rare()) as tape:
        tape.step(None)
        tape.flush()
        assert status(["index", str(path), "--sim", "varied_worlds:Rare"]) == USAGE
    assert "it is being recorded" in capsys.readouterr().err
    assert not lookup_path(path).exists()


def status(words: list[str]) -> int:
    """Run a command line and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def test_telemetry_is_not_the_field_of_that_name(tmp_path: Path) -> None:
    """telemetry.births is a recorded figure, also where a field and a column are called so."""

    class Clinic:
        def __init__(self) -> None:
            columns = Table("telemetry", Field("births", "i8"), capacity=2)
            self.state = State(Schema(Field("steps", "i8"), columns))

        def step(self, inputs: Any) -> None:  # noqa: ARG002 - there are none
            self.state["steps"][...] += 1

        def telemetry(self) -> dict[str, Any]:
            return {"births": int(self.state["steps"]) % 50}

    path = tmp_path / "run.tape"
    with recorder.Recorder(path, Clinic(), keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(60):
            tape.step(None)
    index(path, Clinic)
    with replayer.open(path, world=Clinic) as run:
        for condition in ("telemetry.births > 40 and steps > 0", "telemetry.births.max() > 40 and steps > 0"):
            assert run.find(condition).ticks == [*range(41, 50)], condition


def test_a_tape_at_a_url_has_no_lookup_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of this machine whose path reads like the URL is another's."""
    fsspec = pytest.importorskip("fsspec")
    path = tmp_path / "rare.tape"
    with recorder.Recorder(path, Rare(3), keyframe_interval_ticks=INTERVAL, trial_ms=0) as tape:
        for _ in range(40):
            tape.step(None)
    index(path, Rare)
    fsspec.filesystem("memory").pipe("/lookups/rare.tape", path.read_bytes())
    monkeypatch.chdir(tmp_path)
    beside = tmp_path / "memory:" / "lookups" / "rare.tape.lookup"
    beside.parent.mkdir(parents=True)
    shutil.copy(lookup_path(path), beside)
    for name, intervals in ((path, 3), ("memory://lookups/rare.tape", 0)):
        with replayer.open(name, world=Rare) as run:
            assert len(run.lookup()) == intervals, name
