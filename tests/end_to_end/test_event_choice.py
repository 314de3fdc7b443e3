"""Recording events is a choice: off by default for a meadow, on for a scenario; any tape can rebuild them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from telling_worlds import Nursery, Silent, births

import recorder.commands.main
import replayer.commands.main
from recorder import Recorder
from recorder.reopen.resume import resume
from replayer import Tape
from replayer.playback.rebuild_events import rebuild_events
from replayer.timeline.scenario_results import scenario_result
from sim.scenario.scenario_file import load_scenario

from oracle.command_lines import assert_one_line, run

TICKS = 12
MEADOW = f"run arms-race --ticks {TICKS} --keyframe-interval 5 -q"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in its own folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(path: str) -> list[Any]:
    """Return the lines of an NDJSON file."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_meadow_records_events_only_on_request_and_any_tape_gives_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Both tapes give the same table, in each format; the one without events is smaller."""
    assert run(recorder.commands.main.main, f"{MEADOW} -o off.tape") == 0
    assert run(recorder.commands.main.main, f"{MEADOW} --events -o on.tape") == 0
    assert run(recorder.commands.main.main, f"{MEADOW} --no-events -o no.tape") == 0
    streams = {}
    for name in ("off", "on", "no"):
        with Tape(f"{name}.tape") as tape:
            streams[name] = (tape.meta["event_stream"], tape.has_events, tape.could_tell_events)
    assert streams == {"off": (False, False, True), "on": (True, True, True), "no": (False, False, True)}
    assert Path("off.tape").stat().st_size < Path("on.tape").stat().st_size
    capsys.readouterr()
    for suffix in ("ndjson", "csv", "parquet"):
        for name in ("off", "on"):
            assert run(replayer.commands.main.main, f"export {name}.tape --events -o {name}.{suffix}") == 0
        assert Path(f"off.{suffix}").read_bytes() == Path(f"on.{suffix}").read_bytes()
    said = capsys.readouterr().out.splitlines()
    count = len(lines("off.ndjson"))
    assert said[:2] == [
        f"off.ndjson: {count:,} events, rebuilt by re-simulating", f"on.ndjson: {count:,} events"
    ]  # fmt: skip
    assert run(replayer.commands.main.main, "export off.tape --events -o off.csv --json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["made_again"], facts["missing_event_ticks"]) == (count, True, [])
    assert sorted(path.name for path in Path().iterdir() if path.name.startswith("off")) == [
        "off.csv", "off.ndjson", "off.parquet", "off.tape",
    ]  # fmt: skip


def test_a_resume_keeps_the_choice() -> None:
    """The tape's choice counts, not the simulation's default."""
    for choice, expected in (("--events", True), ("", False)):
        name = f"{expected}.tape"
        assert run(recorder.commands.main.main, f"{MEADOW} {choice} -o {name}") == 0
        assert run(recorder.commands.main.main, f"resume {name} --ticks 20 -q") == 0
        with Tape(name) as tape:
            assert tape.meta["event_stream"] is expected
            assert bool(list(tape.events(TICKS + 1))) is expected
            assert list(tape.events()) == (list(rebuild_events(tape, stored=False)) if expected else [])
    with Recorder("silenced.tape", Nursery(), events=False) as recording:
        recording.step(births(1))
    with resume("silenced.tape", Nursery()) as recording:
        recording.step(births(2))
    with Tape("silenced.tape") as tape:
        assert (list(tape.events()), tape.missing_event_ticks()) == ([], [(0, 2)])
        assert list(rebuild_events(tape, Nursery))


def test_both_tapes_extract_to_the_same_table() -> None:
    """A data set of events is the same with recorded and rebuilt events."""
    for choice, name in (("--events", "on"), ("", "off")):
        assert run(recorder.commands.main.main, f"{MEADOW} {choice} -o {name}.tape") == 0
        assert run(replayer.commands.main.main, f"extract {name}.tape --table events -o {name}") == 0
    on, off = (pq.read_table(next(Path(f"{name}/events").rglob("*.parquet"))).to_pylist() for name in ("on", "off"))
    assert [{**row, "run": ""} for row in on] == [{**row, "run": ""} for row in off]
    assert {row["kind"] for row in on} >= {"fed", "plant_died", "linked", "substance_active"}


def test_a_scenario_keeps_its_own_events_and_nothing_of_the_meadow() -> None:
    """On by default; turned off, they are rebuilt, and so are the results."""
    Path("around.toml").write_text('base = "arms-race"\n[scenario]\nsteps = 10\n[scenario.network]\nloss = 0.5\n')
    for choice, name in (("", "on"), ("--events", "asked"), ("--no-events", "off")):
        code = run(
            recorder.commands.main.main, f"run around.toml {choice} -o {name}.tape -q --player caterpillar=greedy"
        )
        assert code == 0
    results, told = [], []
    for name in ("on", "asked", "off"):
        with Tape(f"{name}.tape") as tape:
            assert tape.has_events is (name != "off")
            results.append(scenario_result(tape))
            told.append(list(rebuild_events(tape)))
            assert list(tape.events()) == ([] if name == "off" else told[0])
    assert told[0] == told[1] == told[2]
    assert results[0].event_counts == results[1].event_counts == results[2].event_counts
    assert {event["kind"] for _, event in told[0]} & {"fed", "plant_born"} == set()
    assert {event["kind"] for _, event in told[0]} >= {"sample", "sent"}
    assert run(replayer.commands.main.main, "compare on.tape off.tape") == 0


def test_mistakes_get_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """One line if events are requested that cannot be recorded or rebuilt."""
    with pytest.raises(ValueError, match=r"events=True: Silent has no events\(\)"):
        Recorder("silent.tape", Silent(), events=True)
    with pytest.raises(TypeError, match="events='yes': expected True, False, None or a function"):
        Recorder("silent.tape", Silent(), events="yes")  # type: ignore[arg-type]
    assert not Path("silent.tape").exists()
    for name, make in (("silent", Silent), ("silenced", Nursery)):
        with Recorder(f"{name}.tape", make(), events=None if make is Silent else False) as tape:
            tape.step(births(1))
    for line, text in (
        ("export silent.tape --events -o t.csv", "give it to rebuild them: --sim telling_worlds:Silent"),
        ("export silent.tape --events -o t.csv --sim telling_worlds:Silent", "Silent has no events()"),
        ("export silent.tape --events -o t.csv --sim telling_worlds:Missing", "telling_worlds"),
    ):
        assert run(replayer.commands.main.main, line) == 2
        assert_one_line(capsys.readouterr(), text)
        assert not Path("t.csv").exists()
    assert (
        run(replayer.commands.main.main, "export silenced.tape --events -o t.ndjson --sim telling_worlds:Nursery") == 0
    )
    with Tape("silenced.tape") as tape:
        assert len(lines("t.ndjson")) == len(list(rebuild_events(tape, Nursery)))


def test_events_of_a_different_simulation_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Re-simulation must give the recorded states; otherwise nothing is written."""
    loaded = load_scenario("arms-race")
    with Recorder("bent.tape", loaded.make()) as tape:
        tape.step([])
        state = tape.simulation.state
        state.set("swarms.energy", 0, int(state["swarms.energy"][0]) + 1)
        tape.step([])
    assert run(replayer.commands.main.main, "export bent.tape --events -o t.csv") == 1
    assert "tick 2" in capsys.readouterr().err
    assert not Path("t.csv").exists()
