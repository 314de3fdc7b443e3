"""Partial tapes: results and comparisons name what is missing; continued runs are complete in themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest
from staging import Tally

import recorder.commands.main
import replayer.commands.main
from recorder.format.blocks.block import BlockKind
from recorder.scenarios import discover_checkpoints, run_with_scenario
from recorder.scenarios import run as run_scenario
from recorder.scenarios.checkpoints import read_checkpoint
from replayer.tape.tape import Tape
from replayer.timeline.scenario_results import compare_tapes, scenario_result

from oracle.command_lines import TINY, assert_one_line, files, run

pytestmark = pytest.mark.share(0.18)

PROVOKED = (
    TINY.replace("ticks = 90", "ticks = 60")
    + """
[[players]]
species = "snail"
[scenario]
checkpoint_interval = 20
[scenario.network]
loss = 0.2
[[scenario.properties]]
name = "young"
kind = "always"
when = "tick < 7"
[[scenario.properties]]
name = "old"
kind = "always"
when = "tick < 50"
"""
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with scenarios in it: one violates two properties, one none."""
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text(PROVOKED)
    Path("good.toml").write_text(PROVOKED.replace("tick < 7", "tick < 99").replace("tick < 50", "tick < 99"))
    return tmp_path


def output(capsys: pytest.CaptureFixture[str], main: Any, line: str, code: int) -> str:
    """Run a command that must end with this exit code; return its output."""
    capsys.readouterr()
    assert run(main, line) == code
    return capsys.readouterr().out


def record(line: str, code: int = 0) -> None:
    """Record quietly."""
    assert run(recorder.commands.main.main, f"run {line} -q") == code


def result_of(tape: str) -> dict[str, Any]:
    """Return the result of a tape, without the entries that a run does not report of itself."""
    with Tape(tape) as opened:
        return attrs.asdict(scenario_result(opened))


# --- damaged and truncated tapes


def flip(path: Path, kind: BlockKind) -> None:
    """Damage the last block of a kind."""
    with Tape(path) as tape:
        entries = [entry for part in tape.segments[0].parts for entry in part.load().entries() if entry.kind == kind]
    content = bytearray(path.read_bytes())
    content[entries[-1].offset + 60] ^= 0xFF
    path.write_bytes(content)


def cut(source: str, target: str, share: float) -> None:
    """Cut a tape to its beginning."""
    content = Path(source).read_bytes()
    Path(target).write_bytes(content[: int(len(content) * share)])


@pytest.mark.seldom(0.18)
def test_a_damaged_tape(capsys: pytest.CaptureFixture[str]) -> None:
    """The rest may hold all events; it is still reported as damaged, with exit code 4."""
    record("good.toml --player snail=random -o a.tape")
    for kind in (BlockKind.EVENTS, BlockKind.TELEMETRY):
        Path("b.tape").write_bytes(Path("a.tape").read_bytes())
        flip(Path("b.tape"), kind)
        assert run(replayer.commands.main.main, "verify b.tape") == 4
        text = output(capsys, replayer.commands.main.main, "results b.tape", 4)
        assert "  damaged: " in text
        assert ("were rebuilt for ticks" in text) == (kind == BlockKind.EVENTS)
        facts = json.loads(output(capsys, replayer.commands.main.main, "results b.tape --json", 4))
        assert facts["missing"][0].startswith("damaged: ")
        for pair in ("a.tape b.tape", "b.tape a.tape"):
            text = output(capsys, replayer.commands.main.main, f"compare {pair}", 4)
            assert "the same: every event" in text.splitlines()[0]
            assert "  b.tape: damaged: " in text
        assert json.loads(output(capsys, replayer.commands.main.main, "compare a.tape b.tape --json", 4))["notes"]
    assert output(capsys, replayer.commands.main.main, "compare a.tape a.tape", 0).count("\n") == 1
    assert json.loads(output(capsys, replayer.commands.main.main, "results a.tape --json", 0))["missing"] == []


def test_a_tape_that_was_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is claimed of the missing ticks, and the rest is compared."""
    record("good.toml --player snail=random -o a.tape --keyframe-interval 10")
    record("good.toml --player snail=greedy -o other.tape --keyframe-interval 10")
    cut("a.tape", "cut.tape", 0.6)
    with Tape("cut.tape") as tape:
        last = tape.last_tick
    assert 5 < last < 55
    text = output(capsys, replayer.commands.main.main, "results cut.tape", 3)
    assert f"  no property was violated up to tick {last}\n" in text
    assert f"  the recording was not closed: its last tick is {last} of 60\n" in text
    for pair in ("a.tape cut.tape", "cut.tape a.tape"):
        text = output(capsys, replayer.commands.main.main, f"compare {pair}", 3)
        assert "the same: every event" in text.splitlines()[0]
        assert f"  compared up to tick {last}, where a tape that was not closed ends\n" in text
        assert f"  cut.tape: the recording was not closed: its last tick is {last} of 60\n" in text
    assert "different" in output(capsys, replayer.commands.main.main, "compare other.tape cut.tape", 1)
    record("good.toml --player snail=random -o short.tape --ticks 30")
    assert "no such event" in output(
        capsys, replayer.commands.main.main, "compare a.tape short.tape", 1
    )  # It was closed.


# --- continued runs


@pytest.mark.seldom(0.18)
def test_a_tape_from_a_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    """It continues like the complete run, with its players and known violations, and is compared with it."""
    record("bad.toml --player snail=random -o a.tape", 1)
    start = "artifacts/bad/checkpoint_20.tape"
    capsys.readouterr()
    assert run(recorder.commands.main.main, f"run bad.toml --from {start} --keyframe-interval 5 -o b.tape") == 1
    captured = capsys.readouterr()
    assert f"from {start}, with --player snail=random\n" in captured.out
    assert "violated at tick 20 or before: young\n" in captured.err
    assert "violated at tick 50: old: " in captured.err
    whole, rest = result_of("a.tape"), result_of("b.tape")
    assert rest["final_hash"] == whole["final_hash"]
    assert [one["name"] for one in rest["violations"]] == ["old"]
    assert (rest["violated_before"], whole["violated_before"]) == (("young",), ())
    with Tape("b.tape") as tape:
        assert [place.tick for place in tape.keyframes if place.tick % 5 == 0][:4] == [20, 25, 30, 35]
        assert tape.meta["notes"] == {"ticks": 60, "players": {"snail": "random"}, "checkpoint": 20}

    text = output(capsys, replayer.commands.main.main, "results b.tape", 1)
    assert "  violated before the tape begins: young\n" in text
    for pair in ("a.tape b.tape", "b.tape a.tape"):
        text = output(capsys, replayer.commands.main.main, f"compare {pair}", 0)
        assert "the same: every event" in text.splitlines()[0]
        assert text.splitlines()[1:] == ["  b.tape begins at tick 20", "  compared from tick 21 on"]

    record(f"bad.toml --from {start} --no-events -o d.tape", 1)
    with Tape("d.tape") as tape:
        assert not tape.has_events
    assert result_of("d.tape") == rest
    record(f"bad.toml --from {start} --ticks 30 -o c.tape", 1)  # No new violation, but an old one.
    text = output(capsys, replayer.commands.main.main, "results c.tape", 1)
    assert "no property was violated" not in text


@pytest.mark.seldom(0.15)
def test_mistakes_of_a_run_from_a_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 2, and nothing is written."""
    Path("in.ndjson").write_text('{"tick": 30, "inputs": [{"kind": "drought", "ticks": 3, "percent": 60}]}\n')
    record("good.toml --player snail=random --inputs in.ndjson -o a.tape")
    start = Path("artifacts/good/checkpoint_40.tape")
    cuts = {f"cut{n}.tape": start.read_bytes()[:n] for n in (0, 40, 300, 2000, start.stat().st_size // 2)}
    for name, content in cuts.items():
        Path(name).write_bytes(content)
    before = files(Path.cwd())
    for options, text in {
        "--ticks 10": f"{start} is of tick 40: expected a later last tick, got 10",
        "--ticks 40": f"{start} is of tick 40: expected a later last tick, got 40",
        "--inputs in.ndjson --player snail=greedy": f"{start}: expected the players of its run, --player snail=random, got --player snail=greedy",
        "": f"{start}: its run had inputs from in.ndjson: name that file with --inputs",
        "--inputs in.ndjson --seed 77": "belongs to a different scenario",
    }.items():
        capsys.readouterr()
        assert run(recorder.commands.main.main, f"run good.toml --from {start} -o b.tape {options}") == 2
        assert_one_line(capsys.readouterr(), text)
    for name in cuts:
        capsys.readouterr()
        assert run(recorder.commands.main.main, f"run good.toml --from {name} -o b.tape") in {2, 5}
        assert_one_line(capsys.readouterr(), name)
    assert files(Path.cwd()) == before

    record(f"good.toml --from {start} --inputs in.ndjson --player snail=random -o b.tape")
    assert result_of("b.tape")["final_hash"] == result_of("a.tape")["final_hash"]
    record("good.toml -o idle.tape")
    idle = Path("artifacts/good/checkpoint_40-2.tape")
    assert read_checkpoint(idle)[1]["players"] == {}
    assert run(recorder.commands.main.main, f"run good.toml --from {idle} --player snail=random -o d.tape") == 2


@pytest.mark.seldom(0.18)
def test_a_resumed_run_that_violates(capsys: pytest.CaptureFixture[str]) -> None:
    """A smaller scenario and the command at the violation, as for a complete run."""
    code = (
        "import os, signal, sys, recorder.commands.main, recorder.commands.run_loop as attended\n"
        "from recorder.scenarios.violation_watch import ViolationWatch\n"
        "own = ViolationWatch.watch\n"
        "def watch(self, simulation, tick):\n"
        "    own(self, simulation, tick)\n"
        "    if tick == 30: os.kill(os.getpid(), signal.SIGKILL)\n"
        "ViolationWatch.watch = watch\n"
        "recorder.commands.main.main(sys.argv[1:])\n"
    )
    for name in ("a", "b"):
        text = PROVOKED if name == "a" else PROVOKED.replace("tick < 7", "tick < 99")
        Path(f"{name}.toml").write_text(text)
        line = [
            sys.executable,
            "-c",
            code,
            "run",
            f"{name}.toml",
            "--player",
            "snail=random",
            "-o",
            f"{name}.tape",
            "-q",
        ]
        done = subprocess.run(line, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False)
        assert done.returncode == -signal.SIGKILL
    assert run(recorder.commands.main.main, "resume b.tape") == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == "next: replay seek b.tape --tick 50"
    assert "violated at tick 50: old: " in captured.err
    smaller = Path("b.smaller.toml").read_text()
    assert "# Recorded with: record run b.smaller.toml --player snail=random\n" in smaller
    left = tomllib.loads(smaller)
    assert ([one["name"] for one in left["scenario"]["properties"]], left["world"]) == (["old"], "meadow")
    assert run(recorder.commands.main.main, "run b.smaller.toml --player snail=random -o again.tape -q") == 1
    assert "violated at tick 50: old: " in capsys.readouterr().err
    record("b.toml --player snail=random -o whole.tape", 1)
    assert result_of("whole.tape")["final_hash"] == result_of("b.tape")["final_hash"]

    assert run(recorder.commands.main.main, "resume a.tape --ticks 40") == 1  # Violations before the kill are known.
    assert "violated at tick 30 or before: young\n" in capsys.readouterr().err
    assert not Path("a.smaller.toml").exists()


def test_a_resumed_simulation_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    """The commands name it."""
    scenario = '[scenario]\nsteps = 41\n[[scenario.properties]]\nname = "old"\nkind = "always"\nwhen = "tick < 25"\n'
    Path("own.toml").write_text(scenario + "[scenario.network]\nloss = 0.5\n")
    Path("own_tally.py").write_text("from staging import Tally\n")
    record("own.toml --sim own_tally:Tally --ticks 10 -o own.tape")
    capsys.readouterr()
    assert run(recorder.commands.main.main, "resume own.tape --sim own_tally:Tally --ticks 40") == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "next: replay seek own.tape --sim own_tally:Tally --tick 25"
    smaller = tomllib.loads(Path("own.smaller.toml").read_text())
    assert "network" not in smaller["scenario"]
    out = output(capsys, replayer.commands.main.main, "results own.tape --sim own_tally:Tally", 1)
    assert out.splitlines()[-1] == "next: replay seek own.tape --sim own_tally:Tally --tick 25"
    assert run(replayer.commands.main.main, "seek own.tape --sim own_tally:Tally --tick 25") == 0


class Ending(Tally):
    """A simulation that ends at some tick."""

    def ended(self) -> tuple[str, str] | None:
        return ("done", "that is all") if self.steps > 12 else None


def test_a_run_from_a_checkpoint_that_ends_early() -> None:
    """Its tape has the fallback sample and all other entries of the live result."""
    plain = {"name": "e", "checkpoint_interval": 5, "properties": [{"name": "p", "kind": "always", "when": "tick < 3"}]}
    run_with_scenario(Ending(), plain, steps=41, artifacts=Path("art"))
    start = Path("art/e/checkpoint_5.tape")
    live = run_with_scenario(Ending(), plain, steps=41, start=start, tape=Path("e.tape"), artifacts=Path("art2"))
    assert [(one.step, one.is_fallback) for one in live.trace.samples][-2:] == [(13, False), (40, True)]
    with Tape("e.tape") as tape:
        taped = scenario_result(tape, Ending)
    assert taped == attrs.evolve(live, checkpoints=(), progress=None)
    assert live.violated_before == ("p",)


def test_checkpoints_of_two_scenarios_with_one_state() -> None:
    """Neither is used for the other scenario, nor a checkpoint with different players."""

    def plain(total: int) -> dict[str, Any]:
        late = {"id": "x", "kind": "withholding", "budget": {"total": total}, "trigger": {"at_tick": 9}}
        return {"name": "same", "adversaries": [late], "checkpoint_interval": 5}

    found = [
        run_with_scenario(Tally(), plain(total), inputs=lambda tick, _: tick, steps=21, artifacts=Path("art"))
        for total in (3, 4, 3)
    ]
    assert [Path(one.checkpoints[0]).name for one in found] == [
        "checkpoint_5.tape",
        "checkpoint_5-2.tape",
        "checkpoint_5.tape",
    ]
    for total, result in zip((3, 4), found, strict=False):
        for path in result.checkpoints:
            again = run_with_scenario(
                Tally(), plain(total), inputs=lambda tick, _: tick, steps=21, start=Path(path), artifacts=Path("b")
            )
            assert again.final_hash == result.final_hash
    assert len(discover_checkpoints(Path("art/same")).checkpoints) == 8


def test_a_program_notes_who_played() -> None:
    """recorder.scenarios.run notes them in its tape and checkpoints, so that commands can continue from them."""
    found = run_scenario("good.toml", players={"snail": "random"}, tape=Path("a.tape"))
    record(f"good.toml --from {found.checkpoints[0]} -o b.tape")
    assert result_of("b.tape")["final_hash"] == found.final_hash
    with Tape("a.tape") as a, Tape("b.tape") as b:
        assert a.meta["notes"] == {"ticks": 60, "players": {"snail": "random"}}
        assert compare_tapes(a, b).verdict == "exact_raw_match"
