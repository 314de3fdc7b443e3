"""States are compared by the rows in use, with any capacity, and reports claim no more than that."""

from __future__ import annotations

import ast
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer.commands.main
from recorder import Recorder
from replayer.desync.dump.differences_csv import LINES_MAX, write_differences
from replayer.desync.dump.dump import difference_lines
from replayer.desync.state_diff import compare_states, row_lines
from replayer.diagnose.compare.spread import measure_spread
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.verify import verify_tape
from sim import Blob, Field, Schema, State, Table
from sim.kernel.simulation import as_simulation

import small_worlds
from oracle.command_lines import run


class Garden:
    """A table, a blob, and fields of no and one axis; a row more every ten ticks."""

    def __init__(self) -> None:
        table = Table("t", Field("a", "i4"), Field("at", "f8", (2,)), capacity=4)
        self.state = State(Schema(Field("tick", "i8"), Field("heat", "f8", (10,)), table, Blob("log", capacity=4)))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        state = self.state
        state["tick"][()] += 1
        tick = int(state["tick"])
        state["heat"][:] += 1
        if tick % 10 == 0:
            new = state.add_rows("t", 1)
            state["t.a"][new] = tick
            state["t.at"][new] = tick / 7
            state.set_blob("log", state.blob("log") + b"x")
        self.edit(tick)

    def edit(self, tick: int) -> None:
        """The additional step of a different version of the code."""


class Room(Garden):
    """Had more rows for a moment, and keeps the larger capacity."""

    def edit(self, tick: int) -> None:
        if tick == 25:
            self.state.add_rows("t", 9)
            self.state.truncate_rows("t", 2)


class RoomAndHeat(Room):
    """Has a larger capacity, and a number that differs."""

    def edit(self, tick: int) -> None:
        super().edit(tick)
        if tick == 25:
            self.state["heat"][3] += 0.5


class More(Garden):
    """Has three rows and two bytes too many, and so a larger capacity as well."""

    def edit(self, tick: int) -> None:
        if tick == 25:
            new = self.state.add_rows("t", 3)
            self.state["t.a"][new] = 7
            self.state.set_blob("log", self.state.blob("log") + b"yz")


class Fails(Garden):
    """Raises a while after it went wrong."""

    def edit(self, tick: int) -> None:
        if tick == 25:
            self.state["heat"][3] += 0.5
        if tick == 31 and self.state["heat"][3] == 31.5:
            raise RuntimeError("too hot")


class Passing(Garden):
    """Wrong for three ticks."""

    def edit(self, tick: int) -> None:
        if tick in (25, 28):
            self.state["heat"][3] += 0.5 if tick == 25 else -0.5


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder with garden.tape, with keyframes at ticks 20, 40 and 60."""
    monkeypatch.chdir(tmp_path)
    for world in (Garden, Room, RoomAndHeat, More, Fails, Passing):
        monkeypatch.setattr(small_worlds, world.__name__, world, raising=False)
    record("garden.tape", Garden())


def record(path: str, world: Any) -> list[Any]:
    """Record a tape of 60 ticks; return its states by tick."""
    with Recorder(path, world, keyframe_interval_ticks=20, blame="fields") as tape:
        states = [tape.simulation.state.snapshot()]
        for _ in range(60):
            tape.step()
            states.append(tape.simulation.state.snapshot())
    return states


def brute_force(one: Any, other: Any) -> dict[str, int]:
    """Rows that differ, by loops over live rows; those that one state lacks differ."""
    row_counts = {}
    for name in one:
        rows = [state[name] if state[name].ndim else state[name].reshape(1) for state in (one, other)]
        common = min(map(len, rows))
        count = sum(rows[0][i].tobytes() != rows[1][i].tobytes() for i in range(common))
        row_counts[name] = count + max(map(len, rows)) - common
    counts = sum(one.count(name) != other.count(name) for name in ("t", "log"))
    return {name: count for name, count in {"#counts": counts, **row_counts}.items() if count}


def verify(world: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The output of the command, and the report in its dump."""
    assert run(replayer.commands.main.main, f"verify garden.tape --sim small_worlds:{world}") == 1
    return capsys.readouterr().out, Path("garden.desync-25/report.md").read_text()


@pytest.mark.parametrize("world", [RoomAndHeat, More, Passing, Room])
def test_rows_are_counted_as_brute_force_counts_them(world: Any) -> None:
    """At every tick, on tapes whose tables have different capacities; these count only if no value differs."""
    ours, theirs = record("ours.tape", Garden()), record("theirs.tape", world())
    with Tape("ours.tape") as one, Tape("theirs.tape") as other:
        cursors = Cursor(one, make_simulation(one, Garden)), Cursor(other, make_simulation(other, world))
        spread = measure_spread(*cursors, 25, 60)
    assert spread.stopped is None
    for tick in range(25, 61):
        expected = brute_force(ours[tick], theirs[tick])
        room = {"t": 1} if ours[tick].layout.capacities != theirs[tick].layout.capacities and not expected else {}
        counted = {name: int(n) for name, n in zip(spread.fields, spread.counts[:, tick - 25], strict=True) if n}
        assert counted == (expected or room), tick
        shown = {one.field: one.row_count for one in compare_states(ours[tick], theirs[tick]) if not one.only_room}
        assert shown == expected


@pytest.mark.seldom(0.18)
def test_a_table_with_more_room_hides_and_makes_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """Another field shows its row and values; a difference in capacity alone is reported, also at the tick itself."""
    printed, report = verify("RoomAndHeat", capsys)
    assert (
        "  fields that differ at tick 25: heat\n  not by values, only by the capacity for rows: t.a, t.at\n" in printed
    )
    assert "    heat: 1 row\n        [3] recorded 40.0, replayed 40.5\n" in printed
    assert "- heat: 1 row\n  - `[3] recorded 40.0, replayed 40.5`\n" in report
    printed = verify("Room", capsys)[0]
    assert "  no value differs at tick 25, only the capacity for rows: t.a, t.at\n" in printed
    assert "    t: no value differs, only the capacity: 4 recorded, 16 replayed\n" in printed
    assert printed.count("capacity") == 2


def test_no_value_is_shown_of_a_missing_row(capsys: pytest.CaptureFixture[str]) -> None:
    """In either state; counts name their table or blob."""
    printed, _ = verify("More", capsys)
    assert "#counts" not in printed
    assert (
        "    sizes of tables and blobs: 2 rows\n        rows of t: recorded 4, replayed 7\n        bytes of log:"
        in printed
    )
    states = [record(f"{name}.tape", world())[26] for name, world in (("one", Garden), ("two", More))]
    lines = {difference.field: row_lines(difference) for difference in compare_states(*states)}
    assert lines["t.a"] == [f"[{i}] recorded no such row, replayed 7" for i in (2, 3, 4)]
    assert lines["log"] == ["[2] recorded no such row, replayed 121", "[3] recorded no such row, replayed 122"]
    back = {one.field: row_lines(one) for one in compare_states(states[1], states[0], ("first", "second"))}
    assert back["t.at"][0] == "[2] recorded [0.0, 0.0], replayed no such row"


class Letter:
    """Saves itself as text of some length."""

    def __init__(self) -> None:
        self.words: list[int] = []

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.words.append(len(self.words))

    def save(self) -> bytes:
        return repr(self.words).encode()

    def load(self, saved: bytes) -> None:
        self.words = ast.literal_eval(saved.decode())


def test_the_bytes_of_a_save_without_names_are_told_as_the_state() -> None:
    """They were "bytes of saved", in "tables and blobs", of which the user has none."""
    states, letter = [], as_simulation(Letter())
    for _ in range(2):
        states.append(letter.state.snapshot())
        letter.step(None)
    lines = [line for one in compare_states(*states) for line in difference_lines(one)]
    assert lines[:3] == [
        "size of the state: 1 row",
        "    in bytes: recorded 2, replayed 3",
        "saved (the bytes of the state): 2 rows",
    ]


def test_every_element_is_in_the_table_or_the_report_names_those_that_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rows that one state lacks are in it, with an empty value; so are counts."""
    _, report = verify("More", capsys)
    with Path("garden.desync-25/differences.csv").open() as file:
        lines = list(csv.DictReader(file))
    with Tape("garden.tape") as tape, np.load("garden.desync-25/keyframe_replayed.npz") as replayed:
        recorded = tape.snapshot(tape.keyframe_at(40))  # type: ignore[arg-type]
        expected = {("#counts", "t"): ("4", "7"), ("#counts", "log"): ("4", "6")}
        for name in recorded:
            for index in np.ndindex(tuple(map(max, recorded[name].shape, replayed[name].shape))):
                sides = (recorded[name], replayed[name])
                texts = tuple(
                    repr(side[index].item()) if all(map(int.__lt__, index, side.shape)) else "" for side in sides
                )
                if texts[0] != texts[1]:
                    expected[name, " ".join(map(str, index))] = texts
    assert {(line["field"], line["index"]): (line["recorded"], line["replayed"]) for line in lines} == expected
    assert "`differences.csv`: each element that differs at the next keyframe, with" in report
    facts = json.loads(Path("garden.desync-25/finding.json").read_text())["differences"]
    assert facts == {"lines": len(lines), "elements": len(lines), "left_out": []}


def test_a_table_that_is_cut_off_says_so() -> None:
    """It states the number of elements, and the fields that cannot be in it."""
    states = [State(Schema(Field("n", "i8", (LINES_MAX + 5,)), Field("s", "f8", (side,)))) for side in (2, 3)]
    states[1]["n"][:] = 1
    table = write_differences(Path("d.csv"), states[0].snapshot(), states[1].snapshot())
    assert (table.lines, table.elements, table.left_out) == (LINES_MAX, LINES_MAX + 5, ["s"])
    assert table.text() == (
        "the first 10,000 of 10,005 elements that differ at the next keyframe, except s, which cannot be compared"
    )


def test_a_keyframe_that_was_not_reached_is_not_called_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """The diverged run raises; no difference is claimed, and only existing files are listed."""
    printed, report = verify("Fails", capsys)
    assert "the replay failed after the divergent tick, at tick 31: the step raised RuntimeError: too hot" in printed
    assert "nothing differs" not in printed + report
    assert "The next recorded keyframe, tick 40, was not reached by the replay." in report
    promised = {word.strip("`,:") for word in report.split("## Files")[1].split("##")[0].split() if word[0] == "`"}
    assert promised <= {path.name for path in Path("garden.desync-25").iterdir()}
    assert {"keyframe_recorded.npz", "before.npz", "report.md"} - promised == {"report.md"}


def test_a_difference_that_vanishes_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """The command and the report state it alike."""
    printed, report = verify("Passing", capsys)
    assert "  at the next recorded keyframe, tick 40, no field differs any more\n" in printed
    assert "No field differs at the next recorded keyframe, tick 40." in report


def test_sorts_of_nan_are_told_apart() -> None:
    """If the texts are equal and the bytes are not, the bits are shown."""
    one, two = (State(Schema(Field("x", "f8", (2,)), Field("y", "f4", (3,), row_axes=1))) for _ in range(2))
    one["x"][1] = one["y"][2] = np.nan
    two["x"][1] = two["y"][2] = -np.float64(np.nan)
    lines = [row_lines(difference) for difference in compare_states(one.snapshot(), two.snapshot())]
    assert lines == [
        ["[1] recorded nan (bits 7ff8000000000000), replayed nan (bits fff8000000000000)"],
        [
            "[0] recorded [0.0, 0.0, nan] (bits of number 2 7fc00000), replayed [0.0, 0.0, nan] (bits of number 2 ffc00000)",
        ],
    ]


def test_files_of_arrays_keep_their_shapes() -> None:
    """Those without an axis as well, in dumps and in the files of seek."""
    report = verify_tape("garden.tape", More, dump_folder=Path())
    assert run(replayer.commands.main.main, "seek garden.tape --tick 40 --sim small_worlds:Garden -o s.npz") == 0
    with np.load("s.npz") as arrays, np.load(f"{report.dump_path}/before.npz") as before:
        state = Garden()
        for tick in range(1, 41):
            state.step(None)
            if tick in (24, 40):
                there = before if tick == 24 else arrays
                assert {name: there[name].shape for name in there} == {
                    name: state.state[name].shape for name in state.state
                }
        assert arrays["tick"] == 40
