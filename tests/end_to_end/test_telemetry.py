"""Telemetry from the simulation to the table: recorded, through kills, rings and repairs; exported and drawn."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import recorder
import recorder.commands.main
import replayer.commands.main
from recorder import Recorder
from recorder.format.blocks.block import BlockKind
from recorder.format.segments.block_location import optional_blocks
from replayer import Tape
from replayer.export import plot
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State

from oracle.command_lines import assert_one_line, run

pytestmark = pytest.mark.share(0.18)


class Counter:
    """Counts, with telemetry; one figure appears late."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("n", "i8")))

    def step(self, inputs: int) -> None:
        self.state["n"][()] += inputs

    def telemetry(self) -> dict[str, Any]:
        n = int(self.state["n"])
        return {"n": n, "half": n / 2} | ({"late": 1} if n > 50 else {})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in its own folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def record(path: str, ticks: int = 30, **settings: Any) -> None:
    """Record a counter that counts by threes."""
    with Recorder(path, Counter(), keyframe_interval_ticks=7, full_every=3, **settings) as tape:
        for _ in range(ticks):
            tape.step(3)


@pytest.mark.parametrize("figures", [1, 2, 7, 60])
def test_rows_of_one_block_of_frames_in_several(monkeypatch: pytest.MonkeyPatch, figures: int) -> None:
    """Frames are short, rows may be long: together they would exceed a block."""
    monkeypatch.setattr("recorder.writer.pending_ticks.TELEMETRY_FIGURES", figures)
    with Recorder("a.tape", Counter(), keyframe_interval_ticks=1000, deterministic=True) as tape:
        for _ in range(30):
            tape.step(3)
    with Tape("a.tape") as tape:
        blocks = sum(one.entry.kind == BlockKind.TELEMETRY for one in optional_blocks(tape.segments))
        columns = tape.telemetry()
        assert (tape.check_blocks(), tape.status) == ([], "intact")
    assert columns["n"].tolist() == [3 * tick for tick in range(31)]
    assert columns["tick"].tolist() == list(range(31))
    per_block = {False: -(-figures // 2), True: -(-figures // 3)}  # Rows; one more figure from tick 17 on.
    assert blocks == -(-17 // per_block[False]) + -(-14 // per_block[True])


@pytest.mark.parametrize("settings", [{}, {"split": 500}, {"deterministic": True}, {"durability": "none"}], ids=str)
def test_each_tick_has_its_row(settings: dict[str, Any]) -> None:
    """Including tick 0; integers stay integers, and a figure that appeared late is NaN before."""
    record("a.tape", **settings)
    with Tape("a.tape") as tape:
        columns = tape.telemetry()
        assert (tape.check_blocks(), tape.status) == ([], "intact")
    assert list(columns) == ["tick", "n", "half", "late"]
    assert columns["tick"].tolist() == list(range(31))
    assert (columns["n"].dtype, columns["n"].tolist()) == (np.int64, [3 * tick for tick in range(31)])
    assert columns["half"].tolist() == [1.5 * tick for tick in range(31)]
    assert np.array_equal(columns["late"], [np.nan if tick <= 16 else 1 for tick in range(31)], equal_nan=True)
    assert verify_tape("a.tape", Counter).ok


def test_a_ring_keeps_the_rows_of_its_ticks() -> None:
    """As it keeps the frames."""
    record("a.tape", ticks=100, keep=20)
    with Tape("a.tape") as tape:
        ticks = tape.telemetry()["tick"]
        assert ticks.tolist() == list(range(int(ticks[0]), 101))
        assert tape.first_tick <= int(ticks[0]) + 1 <= tape.first_tick + 2


def test_a_repair_takes_the_rows_over() -> None:
    """Their kind of block may be skipped by readers."""
    record("a.tape")
    assert run(replayer.commands.main.main, "repair a.tape -o b.tape") == 0
    with Tape("a.tape") as one, Tape("b.tape") as two:
        assert {name: values.tolist() for name, values in one.telemetry().items() if name != "late"} == {
            name: values.tolist() for name, values in two.telemetry().items() if name != "late"
        }


def test_a_figure_that_is_not_a_number_ends_the_recording() -> None:
    """As an exception of the step does; the tape ends at the tick before."""

    class Wrong(Counter):
        def telemetry(self) -> dict[str, Any]:
            return {"n": "many"} if self.state["n"] > 8 else {"n": 1}

    def count() -> None:
        with Recorder("a.tape", Wrong()) as tape:
            for _ in range(10):
                tape.step(3)

    with pytest.raises(TypeError, match="telemetry\\(\\) figure n is str"):
        count()
    with Tape("a.tape") as found:
        assert (found.last_tick, found.sealed) == (2, True)
        assert found.telemetry()["tick"].tolist() == [0, 1, 2]


def test_tables_of_every_form_agree(capsys: pytest.CaptureFixture[str]) -> None:
    """CSV, NDJSON and Parquet of one tape; missing values are empty, left out or NaN; no further file is left."""
    record("a.tape")
    for name in ("t.csv", "t.ndjson", "t.parquet"):
        assert run(replayer.commands.main.main, f"export a.tape --telemetry -o {name}") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"t.{form}: 31 rows of 3 figures" for form in ("csv", "ndjson", "parquet")
    ]
    with Tape("a.tape") as tape:
        columns = tape.telemetry()
    with Path("t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["tick"], row["half"], row["late"]) for row in (rows[1], rows[30])] == [
        ("1", "1.5", ""),
        ("30", "45.0", "1.0"),
    ]
    lines = [json.loads(line) for line in Path("t.ndjson").read_text().splitlines()]
    assert lines[3] == {"tick": 3, "n": 9, "half": 4.5}
    assert lines[20] == {"tick": 20, "n": 60, "half": 30.0, "late": 1.0}
    table = pq.read_table("t.parquet")
    assert {name: table[name].to_numpy().tobytes() for name in table.column_names} == {
        name: values.tobytes() for name, values in columns.items()
    }
    assert sorted(path.name for path in Path().iterdir()) == ["a.tape", "t.csv", "t.ndjson", "t.parquet"]
    assert run(replayer.commands.main.main, "export a.tape --telemetry -o t.csv --json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "path": "t.csv",
        "rows": 31,
        "columns": ["tick", "n", "half", "late"],
    }


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("export a.tape -o t.csv", "expected --telemetry, --events or --aux"),
        (
            "export a.tape --telemetry -o t.xls",
            "t.xls: expected a name that ends in .csv, .ndjson, .jsonl, .parquet, .rrd, .mcap",
        ),
        ("export silent.tape --telemetry -o t.csv", "silent.tape has no telemetry"),
        ("export a.tape --telemetry -o no/t.csv", "no/t.csv: No such file or directory"),
        ("plot a.tape -o t.gif", "t.gif: expected a name that ends in .png, .svg, .pdf"),
        ("plot a.tape --what deaths --tick 5", "give one of the two"),
        ("plot a.tape --what deaths", "a.tape: the telemetry has no columns for deaths"),
        (
            "plot silent.tape",
            "telemetry= records it, and of a Simulation its method telemetry() does; curves of numbers in",
        ),
    ],
)
def test_mistakes_get_one_line(capsys: pytest.CaptureFixture[str], line: str, text: str) -> None:
    """Exit code 2, and no file."""

    class Silent(Counter):
        telemetry = None  # type: ignore[assignment]

    record("a.tape", ticks=3)
    with Recorder("silent.tape", Silent()) as tape:
        tape.step(1)
    assert run(replayer.commands.main.main, line) == 2
    assert_one_line(capsys.readouterr(), text)
    assert not list(Path().glob("t.*"))


@pytest.fixture(scope="module")
def arms_race(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape of a hundred ticks of arms-race."""
    path = tmp_path_factory.mktemp("meadow") / "a.tape"
    assert run(recorder.commands.main.main, f"run arms-race -q --ticks 100 -o {path}") == 0
    return path


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("what", "form"),
    [
        pytest.param(what, form, marks=() if is_ordinary else pytest.mark.long)
        for number, what in enumerate(["", "--what populations --what deaths", "--tick 60", "--tick -1"])
        for form, is_ordinary in (("png", number % 3 == 0), ("svg", number == 2))
    ],
)
def test_pictures_are_drawn(arms_race: Path, capsys: pytest.CaptureFixture[str], what: str, form: str) -> None:
    """In the format that the file name asks for."""
    assert run(replayer.commands.main.main, f"plot {arms_race} {what} -o p.{form}") == 0
    assert capsys.readouterr().out == f"p.{form}\n"
    data = Path(f"p.{form}").read_bytes()
    assert data.startswith(b"\x89PNG") if form == "png" else b"<svg" in data[:1000]
    assert len(data) > 10_000


@pytest.mark.parametrize(
    ("count", "drawn", "said"), [(16, 16, ""), (19, 16, "  not drawn, 3 figures: f16, f17, f18\n")]
)
def test_every_figure_is_drawn_or_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, count: int, drawn: int, said: str
) -> None:
    """By default; a panel for each, up to a number."""
    monkeypatch.setattr(plot, "PANELS_MAX", 16)  # 60 panels take a quarter of a minute.

    class Many(Counter):
        def telemetry(self) -> dict[str, Any]:
            return {f"f{number}": number for number in range(count)}

    with Recorder("many.tape", Many()) as tape:
        tape.step(1)
    assert run(replayer.commands.main.main, "plot many.tape -o p.svg") == 0
    assert capsys.readouterr().out == f"p.svg\n{said}"
    text = Path("p.svg").read_text()
    assert sum(f"<!-- f{number} -->" in text for number in range(count)) == drawn


# --- inputs and end of a command's run


INPUT_KINDS = "plant, release, wind, gust, drought, cull, set, steer, split, spawn"
TINY = """
world = "meadow"
name = "tiny"
ticks = 60
[grid]
width = 6
height = 6
[[flora]]
name = "moss"
base_energy = 4
max_energy = 9
growth_percent = 1
survival_threshold = 1
reproduction_interval = 1000
seed_cost = 2
[[plants]]
species = "moss"
x = 1
y = 1
[termination]
flora_energy_max = 4.5
"""


def test_a_run_ends_where_the_scenario_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The tick that fulfils the condition is the last one on the tape; summary and info print the reason."""
    Path("tiny.toml").write_text(TINY)
    assert run(recorder.commands.main.main, "run tiny.toml -o a.tape") == 0
    assert "  ended by Z6 at tick 13: the plants have more energy than 4.5: 4.5" in capsys.readouterr().out.splitlines()
    with Tape("a.tape") as tape:
        assert (tape.last_tick, tape.outcome["reason"], tape.outcome["ticks"]) == (13, "Z6", 13)
        assert tape.telemetry()["tick"].tolist() == list(range(14))
    assert run(replayer.commands.main.main, "info a.tape") == 0
    assert (
        "  ended: at tick 13 by Z6: the plants have more energy than 4.5: 4.5" in capsys.readouterr().out.splitlines()
    )


@pytest.mark.parametrize("ticks", [12, 13])
def test_the_last_tick_is_condition_z1(capsys: pytest.CaptureFixture[str], ticks: int) -> None:
    """The requested number of ticks ends a run by Z1, before a condition that holds at the same tick."""
    Path("tiny.toml").write_text(TINY)
    assert run(recorder.commands.main.main, f"run tiny.toml -o a.tape --ticks {ticks}") == 0
    assert f"  ended by Z1 at tick {ticks}: the last tick, as asked" in capsys.readouterr().out.splitlines()
    with Tape("a.tape") as tape:
        assert tape.outcome == {"reason": "Z1", "ticks": ticks, "text": "the last tick, as asked"}
        assert tape.telemetry()["tick"].tolist() == list(range(ticks + 1))


def test_a_seek_to_the_last_tick_says_why_the_run_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """No other tick does, nor does the last one of a recording that was not sealed."""
    Path("tiny.toml").write_text(TINY)
    assert run(recorder.commands.main.main, "run tiny.toml -o a.tape --ticks 5 -q") == 0
    capsys.readouterr()
    assert run(replayer.commands.main.main, "seek a.tape --tick -1") == 0
    assert "  ended: at tick 5 by Z1: the last tick, as asked\n" in capsys.readouterr().out
    assert run(replayer.commands.main.main, "seek a.tape --tick 5 --json") == 0
    assert json.loads(capsys.readouterr().out)["ended"]["reason"] == "Z1"
    for line in ("seek a.tape --tick 4 --json", "seek a.tape --tick 0 --json"):
        assert run(replayer.commands.main.main, line) == 0
        assert "ended" not in json.loads(capsys.readouterr().out)


def test_inputs_from_a_file_and_players_are_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    """They come after the scenario's own inputs; a resume needs the file again, and knows the players."""
    sent = {"kind": "wind", "east": 7, "south": 9}
    Path("moves.ndjson").write_text(f'{{"tick": 3, "inputs": [{json.dumps(sent)}]}}\n\n{{"tick": 9, "inputs": []}}\n')
    line = "--player caterpillar=random --inputs moves.ndjson -q"
    assert run(recorder.commands.main.main, f"run arms-race --ticks 8 -o a.tape {line}") == 0
    with Tape("a.tape") as tape:
        assert sent in tape.frame(3).inputs
        assert {one["kind"] for tick in range(1, 9) for one in tape.frame(tick).inputs} >= {"steer", "wind"}
        assert tape.meta["notes"]["players"] == {"caterpillar": "random"}
    assert run(recorder.commands.main.main, "resume a.tape --ticks 12") == 2
    assert_one_line(
        capsys.readouterr(), "a.tape: some of its inputs came from moves.ndjson: name that file with --inputs"
    )
    assert run(recorder.commands.main.main, "resume a.tape --ticks 12 --inputs moves.ndjson -q") == 0
    assert run(recorder.commands.main.main, f"run arms-race --ticks 12 -o b.tape {line}") == 0
    with Tape("a.tape") as one, Tape("b.tape") as two:
        assert one.frame(12).state_hash == two.frame(12).state_hash


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--player caterpillar", "--player caterpillar: expected PLAYER=POLICY, such as caterpillar=greedy"),
        ("--player oak=greedy", "oak has no player in this scenario; players: caterpillar, beetle"),
        ("--player beetle=clever", "expected one of idle, random, greedy, got 'clever'"),
        ("--player beetle=idle --player beetle=idle", "beetle has a policy already"),
        ("--inputs nothing.ndjson", "nothing.ndjson: No such file or directory"),
        ("--inputs bad.ndjson", 'bad.ndjson, line 2: expected {"tick": 5, "inputs": [...]}'),
        (
            "--inputs hail.ndjson",
            f"hail.ndjson: the inputs of tick 2 are refused: expected an input of kind {INPUT_KINDS}, got {{'kind': 'hail'}}",
        ),
        ("--realtime 0", "--realtime"),
    ],
)
def test_what_cannot_be_fed_gets_one_line(capsys: pytest.CaptureFixture[str], line: str, text: str) -> None:
    """Exit code 2."""
    Path("bad.ndjson").write_text('{"tick": 1, "inputs": []}\n{"tick": 0, "inputs": []}\n')
    Path("hail.ndjson").write_text('{"tick": 2, "inputs": [{"kind": "hail"}]}\n')
    assert run(recorder.commands.main.main, f"run arms-race -q --ticks 4 -o a.tape {line}") == 2
    assert_one_line(capsys.readouterr(), text)


def test_real_time_keeps_to_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tick starts before its time; a delay is not made up for."""
    clock, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    from recorder.commands.run_loop import _Pace

    monkeypatch.setattr("recorder.commands.run_loop.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("recorder.commands.run_loop.time.sleep", sleep)
    pace = _Pace(10)
    for worked in (0.03, 0.0, 0.5, 0.02):
        clock[0] += worked
        pace.wait()
    assert slept == pytest.approx([0.07, 0.1, 0.0, 0.08])
