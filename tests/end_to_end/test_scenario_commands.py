"""Scenarios on the command line: violations and their files, results, comparison, batches and sweeps."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import recorder.commands.main
import replayer.commands.main
from recorder import Recorder
from replayer import Tape
from sim.scenario.scenario_file import load_scenario

from oracle.command_lines import TINY, assert_one_line, files, run

PROVOKED = (
    TINY.replace("ticks = 90", "ticks = 20")
    + """
[[players]]
species = "snail"
[scenario]
[scenario.network]
loss = 0.5
[[scenario.adversaries]]
id = "fog"
kind = "withholding"
budget = { total = 3 }
[[scenario.adversaries]]
id = "idle"
kind = "crash"
role = "snail"
budget = { total = 1 }
trigger = { at_tick = 20 }
[[scenario.properties]]
name = "young"
kind = "always"
when = "tick < 7"
"""
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a scenario in it."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(PROVOKED)
    return tmp_path


def test_a_violation_and_what_it_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    """The tape of the run, exit code 1, a smaller scenario with the same violation, and the command to view it."""
    assert run(recorder.commands.main.main, "run tiny.toml --player snail=random -o a.tape") == 1
    captured = capsys.readouterr()
    assert "violated at tick 7: young: tick < 7 does not hold: it is 7" in captured.err
    assert "made smaller in" in captured.err
    assert captured.out.splitlines()[-1] == "next: replay seek a.tape --tick 7"
    smaller = Path("a.smaller.toml").read_text()
    assert smaller.startswith(
        "# Made smaller: violates young at tick 7.\n# Recorded with: record run a.smaller.toml --player snail=random\n"
    )
    left = tomllib.loads(smaller)["scenario"]
    assert (left.get("adversaries"), left["steps"], "network" in left) == ([], 8, False)

    assert run(recorder.commands.main.main, "run a.smaller.toml -o b.tape") == 1
    assert "nothing in the scenario can be left out" in capsys.readouterr().err
    assert not Path("b.smaller.toml").exists()
    assert run(replayer.commands.main.main, "verify a.tape") == 0
    assert run(replayer.commands.main.main, "seek a.tape --tick 7") == 0


def test_nothing_violated(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, and no file next to the tape."""
    Path("good.toml").write_text(PROVOKED.replace("tick < 7", "tick < 21"))
    before = set(files(Path.cwd()))
    assert run(recorder.commands.main.main, "run good.toml -o good.tape") == 0
    assert set(files(Path.cwd())) - before == {"good.tape"}
    assert capsys.readouterr().err == ""
    assert run(replayer.commands.main.main, "results good.tape") == 0
    assert "no property was violated" in capsys.readouterr().out


def test_results(capsys: pytest.CaptureFixture[str]) -> None:
    """From the tape alone, for people and as JSON; the canonical run is the same."""
    run(recorder.commands.main.main, "run tiny.toml --player snail=random -o a.tape -q")
    capsys.readouterr()
    assert run(replayer.commands.main.main, "results a.tape --canonical") == 1
    text = capsys.readouterr().out
    assert "a.tape: scenario tiny, seed 3, canonical exact, 20 ticks, final state " in text
    assert "violated at tick 7: young" in text
    assert "budgets: fog: 3 used, 0 left" in text
    assert "in doubt: budget_exhaustion (fog), fairness (fog)" in text
    assert "recorded and canonical: the same: every event, in the same order" in text
    assert text.splitlines()[-1].endswith(", the same")

    assert run(replayer.commands.main.main, "results a.tape --json") == 1
    result = json.loads(capsys.readouterr().out)["result"]
    assert (result["final_tick"], result["regime"], result["error"]) == (20, "canonical_exact", None)
    assert result["violations"] == [{"name": "young", "tick": 7, "details": "tick < 7 does not hold: it is 7"}]
    assert [one["step"] for one in result["trace"]["samples"]] == list(range(21))
    assert [one["kind"] for one in result["effects"]].count("withheld") == 3

    Path("plain.toml").write_text(TINY)
    run(recorder.commands.main.main, "run plain.toml -o plain.tape --ticks 3 -q")
    capsys.readouterr()
    assert run(replayer.commands.main.main, "results plain.tape") == 2
    assert_one_line(capsys.readouterr(), "plain.tape was recorded without a scenario")


def test_comparing_tapes(capsys: pytest.CaptureFixture[str]) -> None:
    """Equal, or the first event that differs."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(recorder.commands.main.main, f"run tiny.toml --seed {seed} --player snail=random -o {name}.tape -q")
    capsys.readouterr()
    assert run(replayer.commands.main.main, "compare a.tape b.tape") == 0
    assert capsys.readouterr().out == "a.tape and b.tape: the same: every event, in the same order\n"
    assert run(replayer.commands.main.main, "compare a.tape c.tape") == 1
    text = capsys.readouterr().out
    assert text.startswith("a.tape and c.tape: different: the events or their causal order differ\n")
    assert "\n  first difference: event " in text
    assert "\n  normalised: events keep their order within each role of a session" in text
    assert run(replayer.commands.main.main, "compare a.tape c.tape --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["verdict"] == "safety_visible_divergence"
    assert facts["normalised"]["one"] != facts["normalised"]["other"]

    Path("plain.toml").write_text(TINY)
    run(recorder.commands.main.main, "run plain.toml -o plain.tape --ticks 3 -q")
    capsys.readouterr()
    assert run(replayer.commands.main.main, "compare a.tape plain.tape") == 2
    assert_one_line(capsys.readouterr(), "plain.tape has no events")


@pytest.mark.seldom(0.15)
def test_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    """All combinations with a tape each, extinctions, a picture; again, it does nothing; a new sweep, a new folder."""
    sweep = "sweep tiny.toml --axis scenario.network.loss=0,0.9 --axis seed=0..2 --ticks 5 -j 1"
    assert run(recorder.commands.main.main, f"{sweep} -o one") == 0
    out = capsys.readouterr().out
    assert "6 runs on 1 worker → one" in out
    assert "6 runs, 0 with errors" in out
    assert "scenario.network.loss=0.9: snail: extinct in 0 of 3 runs (0%)" in out
    assert sorted(path.name for path in Path("one").iterdir()) == [
        "manifest.json",
        "manifest.ndjson",
        *(f"run-0000{n}.tape" for n in range(6)),
        "survival.png",
    ]
    manifest = json.loads(Path("one/manifest.json").read_text())
    assert [list(entry["bindings"].values()) for entry in manifest["runs"]] == [
        [a, b] for a in (0, 0.9) for b in (0, 1, 2)
    ]
    before = files(Path("one"))
    assert run(recorder.commands.main.main, f"{sweep} -o one") == 0
    again = files(Path("one"))
    assert {name for name in before if before[name] != again[name]} <= {"survival.png"}

    other = sweep.replace("--ticks 5", "--ticks 8")
    capsys.readouterr()
    assert run(recorder.commands.main.main, f"{other} -o one") == 2
    assert "error: one holds a different batch: its run 0 has different ticks" in capsys.readouterr().err
    assert run(recorder.commands.main.main, f"{other} -o two --json --no-tapes") == 1
    facts = json.loads(capsys.readouterr().out)
    assert [run_facts["violations"][0][:2] for run_facts in facts["runs"]] == [["young", 7]] * 6
    assert run(replayer.commands.main.main, "compare one two") == 1
    assert "6 runs and 6 runs: 6 differ" in capsys.readouterr().out
    assert run(replayer.commands.main.main, "compare one one") == 0


@pytest.mark.seldom(0.18)
def test_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    """Several scenarios with seeds; a violated property is counted, and the next command opens its tape there."""
    Path("good.toml").write_text(PROVOKED.replace("tick < 7", "tick < 21"))
    assert run(recorder.commands.main.main, "batch tiny.toml good.toml --seeds 4,5 -o runs -j 1") == 1
    out = capsys.readouterr().out
    assert "property young: violated in 2 runs, first run 0 at tick 7" in out
    assert out.splitlines()[-1] == "next: replay seek runs/run-00000.tape --tick 7"
    assert run(recorder.commands.main.main, "batch good.toml -j 1") == 0
    assert Path("batches/batch-1/run-00000.tape").exists()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("batch", "name at least one scenario"),
        ("batch nothing", "nothing is neither a scenario file nor a shipped scenario"),
        ("batch tiny.toml --seeds x", "expected an integer from 0"),
        ("batch tiny.toml -o runs --player snail=no", "expected one of idle, random, greedy"),
        ("sweep tiny.toml", "axis"),
        ("sweep tiny.toml --axis seed", "expected PATH=VALUES"),
        ("sweep tiny.toml --axis seed=1 --axis seed=2", "--axis seed: there is already an axis with this path"),
        (
            "sweep tiny.toml --axis scenario.network.loss=2",
            "scenario.network.loss: expected a decimal number from 0 to 1",
        ),
        ("sweep tiny.toml --axis scenario.adversaries[7].id=a", "there is no scenario.adversaries[7] in the scenario"),
        ("sweep tiny.toml --axis flora[0].colour=1", "flora[0].colour: unknown key"),
    ],
)
def test_mistakes(line: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line names the mistake; exit code 2, nothing is written."""
    before = files(folder)
    assert run(recorder.commands.main.main, line) == 2
    captured: Any = capsys.readouterr()
    assert_one_line(captured, text)
    assert files(folder) == before


LAMP = """
from sim import Field, Schema, State

class Lamp:
    def __init__(self):
        self.state = State(Schema(Field("lit", "i8")))

    def step(self, inputs):
        if inputs is not None:
            self.state["lit"][()] = inputs

    def telemetry(self):
        return {"lit": int(self.state["lit"])}
"""


def test_around_a_simulation_of_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    """A file without a world wraps the simulation of --sim, fed from a file; every printed command works."""
    Path("lamp.py").write_text(LAMP)
    Path("lamp.toml").write_text(
        "[scenario]\nsteps = 13\nnetwork = { latency_ms = 2 }\n"
        'properties = [{ name = "light", kind = "always", when = "lit < 2" }]\n'
    )
    Path("in.ndjson").write_text("".join(f'{{"tick": {tick}, "inputs": {tick % 3}}}\n' for tick in range(1, 13)))

    assert run(recorder.commands.main.main, "run lamp.toml --sim lamp:Lamp --inputs in.ndjson -o lamp.tape") == 1
    captured = capsys.readouterr()
    assert "recording lamp (your simulation, seed 0), 12 ticks → lamp.tape" in captured.out
    assert "violated at tick 4: light: lit < 2 does not hold: it is 2" in captured.err
    assert captured.out.splitlines()[-1] == "next: replay seek lamp.tape --sim lamp:Lamp --tick 4"
    assert run(replayer.commands.main.main, "seek lamp.tape --sim lamp:Lamp --tick 4") == 0
    assert run(replayer.commands.main.main, "verify lamp.tape --sim lamp:Lamp") == 0
    smaller = Path("lamp.smaller.toml").read_text()
    assert "# Recorded with: record run lamp.smaller.toml --sim lamp:Lamp --inputs in.ndjson\n" in smaller
    assert "network" not in smaller
    assert (
        run(recorder.commands.main.main, "run lamp.smaller.toml --sim lamp:Lamp --inputs in.ndjson -q -o b.tape") == 1
    )
    assert (
        run(recorder.commands.main.main, "resume lamp.tape --sim lamp:Lamp --inputs in.ndjson --ticks 15 -q") == 1
    )  # As before.
    assert run(replayer.commands.main.main, "verify lamp.tape --sim lamp:Lamp") == 0
    capsys.readouterr()
    for line, text in (
        ("run lamp.toml", "world: expected the name of a world"),
        ("run tiny.toml --sim lamp:Lamp", "--sim lamp:Lamp: the scenario tiny names the world meadow"),
        ("run lamp.toml --sim lamp:Torch", "--sim lamp:Torch"),
    ):
        assert run(recorder.commands.main.main, line) == 2
        assert_one_line(capsys.readouterr(), text)


def test_a_trigger_after_the_ticks_of_the_call_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where only --ticks names the length; exit code 2, nothing is written. With a length, the file runs in parts."""
    Path("lamp.py").write_text(LAMP)
    late = 'id = "x"\nkind = "withholding"\nbudget = { total = 1 }\ntrigger = { at_tick = 15 }\n'
    Path("lamp.toml").write_text("[[scenario.adversaries]]\n" + late)
    meadow = TINY.replace("ticks = 90", "") + '[[players]]\nspecies = "snail"\n[[scenario.adversaries]]\n' + late
    Path("meadow.toml").write_text(meadow)
    before = files(folder)
    for line in (
        "run lamp.toml --sim lamp:Lamp --ticks 10 -o a.tape",
        "run meadow.toml --ticks 10 -o a.tape",
        "sweep meadow.toml --axis seed=1,2 --ticks 10 -o a -j 1",
        "batch meadow.toml --ticks 10 -o a -j 1",
        "generate meadow.toml --ticks 10 -o a -j 1",
    ):
        assert run(recorder.commands.main.main, line) == 2, line
        text = "scenario.adversaries[0].trigger.at_tick: expected at most 10, the last tick of the run, got 15; "
        assert_one_line(capsys.readouterr(), text + "to run a part of a longer scenario, give it steps = 16 or more")
        assert [path for path in files(folder) if "__pycache__" not in str(path)] == list(before), line
    assert run(recorder.commands.main.main, "run lamp.toml --sim lamp:Lamp --ticks 15 -q -o a.tape") == 0
    Path("lamp.toml").write_text("[scenario]\nsteps = 16\n[[scenario.adversaries]]\n" + late)
    assert run(recorder.commands.main.main, "run lamp.toml --sim lamp:Lamp --ticks 10 -q -o b.tape") == 0
    assert run(recorder.commands.main.main, "resume b.tape --sim lamp:Lamp --ticks 15 -q") == 0
    capsys.readouterr()
    assert run(replayer.commands.main.main, "compare a.tape b.tape") == 0


def test_checkpoints_and_continuing_from_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A checkpoint at an interval; a tape continued from it ends in the same state; a wrong scenario is refused."""
    Path("saved.toml").write_text(
        PROVOKED.replace("[scenario]\n", "[scenario]\ncheckpoint_interval = 6\n").replace("< 7", "< 21")
    )
    assert run(recorder.commands.main.main, "run saved.toml --player snail=random -o a.tape") == 0
    whole = capsys.readouterr()
    assert whole.err == "3 checkpoints in artifacts/saved\n"
    line = "run saved.toml --player snail=random --from artifacts/saved/checkpoint_12.tape"
    assert run(recorder.commands.main.main, f"{line} -o b.tape") == 0
    rest = capsys.readouterr()
    hashes = [line for text in (whole.out, rest.out) for line in text.splitlines() if "state hash" in line]
    assert len(set(hashes)) == 1
    assert "next: replay seek b.tape --tick 16" in rest.out
    assert sorted(path.name for path in Path("artifacts/saved").iterdir()) == [
        f"checkpoint_{tick}.tape" for tick in (12, 18, 6)
    ]
    assert run(replayer.commands.main.main, "verify b.tape") == 0
    assert run(replayer.commands.main.main, "results b.tape --json") == 0
    capsys.readouterr()
    before = files(Path.cwd())
    assert run(recorder.commands.main.main, f"{line} --seed 8 -o c.tape") == 2
    assert_one_line(capsys.readouterr(), "checkpoint_12.tape belongs to a different scenario: expected the hash ")
    Path("plain.toml").write_text(TINY)
    assert (
        run(
            recorder.commands.main.main, "run plain.toml --ticks 99 --from artifacts/saved/checkpoint_12.tape -o c.tape"
        )
        == 2
    )
    assert_one_line(capsys.readouterr(), "--player snail=random: players: snail has no player in this scenario")
    assert run(recorder.commands.main.main, "run saved.toml --from nowhere.tape -o c.tape") == 2
    assert files(Path.cwd()) == before | {"plain.toml": TINY.encode()}


def test_a_save_game_is_loaded_by_record_run_from(capsys: pytest.CaptureFixture[str]) -> None:
    """One tick of a run, cut out: the new run has the states of the old one, and the sections of the save game."""
    Path("plain.toml").write_text(TINY)
    loaded = load_scenario("plain.toml")
    with Recorder("a.tape", loaded.make(20), aux=lambda world: {"camera": int(world.state.hash() % 100)}) as tape:
        for _ in range(20):
            tape.step([])
    for line in ("cut a.tape --tick 13 -o save.tape", "cut a.tape --ticks 13..-1 --exact -o rest.tape"):
        assert run(replayer.commands.main.main, line) == 0
    assert run(recorder.commands.main.main, "run plain.toml --from save.tape --ticks 20 -o b.tape") == 0
    capsys.readouterr()
    with Tape("a.tape") as whole, Tape("b.tape") as again:
        assert (again.first_tick, again.last_tick) == (13, 20)
        assert [again.state_hash(tick) for tick in range(13, 21)] == [whole.state_hash(tick) for tick in range(13, 21)]
        assert again.aux[13] == whole.aux[13]
    assert run(replayer.commands.main.main, "verify b.tape") == 0
    capsys.readouterr()
    before = files(Path.cwd())
    assert run(recorder.commands.main.main, "run plain.toml --seed 9 --from save.tape --ticks 20 -o c.tape") == 2
    assert_one_line(capsys.readouterr(), "save.tape belongs to a different world or configuration: expected the hash ")
    assert run(recorder.commands.main.main, "run plain.toml --from save.tape --ticks 13 -o c.tape") == 2
    assert_one_line(capsys.readouterr(), "save.tape is of tick 13: expected a later last tick, got 13")
    assert files(Path.cwd()) == before


def test_results_sum_up_the_reconfigurations(capsys: pytest.CaptureFixture[str]) -> None:
    """How many were made, how many were free, and the transition budget; no line without any."""
    change = (
        '[[scenario.reconfigurations]]\nid = "{}"\nkind = "mode_transition"\nroles = ["snail"]\nmode = "m"\ncost = {}\n'
    )
    changes = "".join(change.format(name, cost) for name, cost in (("free", 0), ("dear", 3), ("more", 2)))
    Path("changed.toml").write_text(PROVOKED.replace("tick < 7", "tick < 21") + changes)
    Path("good.toml").write_text(PROVOKED.replace("tick < 7", "tick < 21"))
    for name in ("changed", "good"):
        assert run(recorder.commands.main.main, f"run {name}.toml --ticks 5 -o {name}.tape -q") == 0
    capsys.readouterr()
    assert run(replayer.commands.main.main, "results changed.tape") == 0
    line = "  reconfigurations: applied 3, pure 1, transition 2, transition_budget 5"
    assert line in capsys.readouterr().out.splitlines()
    assert run(replayer.commands.main.main, "results changed.tape --json") == 0
    summary = json.loads(capsys.readouterr().out)["result"]["reconfiguration_summary"]
    assert summary == {"applied": 3, "pure": 1, "transition": 2, "transition_budget": 5}
    assert run(replayer.commands.main.main, "results good.tape") == 0
    assert "reconfigurations" not in capsys.readouterr().out
