"""Generating: the plan of the runs; finished runs are kept, in any order, even if a process dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import duel_world
import pytest
from corpora import change, duel_folder, generate, rows, start_generating, tapes  # noqa: F401 - a fixture
from waiting import wait_until

import recorder.commands.main
import replayer
from recorder.corpus import Corpus
from recorder.corpus.database import INDEX_NAME
from recorder.corpus.generate import locked_folder, plan_runs

from oracle.command_lines import assert_one_line, run

pytestmark = pytest.mark.usefixtures("duel_folder")
BOTH = "--player left=push,lazy --player right=random,idle"


def test_the_plan_is_a_product_in_a_fixed_order() -> None:
    """Scenarios, then seeds, then policies; the last player's policy varies fastest; each run has a different tape."""
    change("other")
    players = {"right": ["random", "idle"], "left": ["push", "lazy"]}
    plan = plan_runs(
        ["heaps.toml", "other.toml"], Path("runs"), seeds=[4, 1], players=players, keyframe_interval_ticks=9
    )

    facts = [(one.scenario, one.seed, *one.job.players.items()) for one in plan]
    assert facts == [
        (scenario, seed, ("right", right), ("left", left))
        for scenario in ("heaps", "other")
        for seed in (4, 1)
        for right in ("random", "idle")
        for left in ("push", "lazy")
    ]
    assert [one.job.index for one in plan] == list(range(16))
    assert len({one.job.tape for one in plan}) == 16
    assert all(one.job.config["seed"] == one.seed for one in plan)


def test_a_generated_run_is_the_one_that_record_run_makes(capsys: pytest.CaptureFixture[str]) -> None:
    """The tapes have the same frames and the same end with its scores; the notes state the players."""
    assert generate("heaps.toml --seeds 5 --player left=push --player right=random -j 1") == 0
    assert (
        run(recorder.commands.main.main, "run heaps.toml --seed 5 --player left=push --player right=random -o one.tape")
        == 0
    )
    capsys.readouterr()
    (made,) = Corpus.open("runs")
    with replayer.Timeline(made.path) as one, replayer.Timeline("one.tape") as other:
        assert one.last_tick == other.last_tick == 40
        for tick in range(1, 41):
            assert one.tape.frame(tick).encode() == other.tape.frame(tick).encode()
        assert one.tape.meta["world"] == other.tape.meta["world"]
        assert one.tape.meta["notes"]["players"] == {"left": "push", "right": "random"}
        heaps = one.at(-1)["heaps"].tolist()
        assert one.tape.outcome == other.tape.outcome
        assert one.tape.outcome["scores"] == {"left": heaps[0], "right": heaps[1]}


def test_a_provoked_scenario_is_generated_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The scenario wraps the world, as in record run; inputs are counted by role."""
    text = Path("heaps.toml").read_text()
    Path("rain.toml").write_text(
        text.replace("heaps", "rain")
        + '[scenario]\nroles = ["left", "right"]\ninputs = "list"\n[scenario.network]\nloss = 0.5\n'
    )
    assert generate("rain.toml --seeds 5,6 --player left=push --player right=random -j 1") == 0
    line = "run rain.toml --seed 6 --player left=push --player right=random -o one.tape"
    assert run(recorder.commands.main.main, line) == 0
    capsys.readouterr()
    made = Corpus.open("runs").runs[1]
    with replayer.Timeline(made.path) as one, replayer.Timeline("one.tape") as other:
        assert one.tape.state_hash(40) == other.tape.state_hash(40)
        sent = [one.tape.frame(tick).inputs for tick in range(1, 41)]
    assert made.quality is not None
    assert made.quality.inputs == sum(len(own) for table in sent for own in table.values())
    assert (made.scenario, made.seed) == ("rain", 6)


@pytest.mark.seldom(0.18)
def test_the_tapes_are_the_same_whatever_the_number_of_processes() -> None:
    """The tapes are equal byte by byte, and the index is equal except for the times of finishing."""
    assert generate(f"heaps.toml --seeds 0..1 {BOTH} -o some -j 2") == 0
    assert generate(f"heaps.toml --seeds 0..1 {BOTH} -o others -j 1") == 0
    assert len(tapes(Path("some"))) == 8
    assert tapes(Path("some")) == tapes(Path("others"))
    some, others = (rows(Path(name)) for name in ("some", "others"))
    for table in ("players", "outcomes", "quality"):
        assert some[table] == others[table]


@pytest.mark.seldom(0.18)
def test_only_what_is_missing_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    """If any tapes are deleted, exactly those are generated again; no other file is changed."""
    assert generate(f"heaps.toml --seeds 0..3 {BOTH} -j 1") == 0
    before = {path: path.stat().st_mtime_ns for path in Path("runs").glob("*.tape")}
    content, facts = tapes(Path("runs")), rows(Path("runs"))
    gone = sorted(before)[1::3]
    for path in gone:
        path.unlink()
    capsys.readouterr()

    assert generate(f"heaps.toml --seeds 0..3 {BOTH} -j 2 --json") == 0

    assert json.loads(capsys.readouterr().out)["ran"] == len(gone) == 5
    assert tapes(Path("runs")) == content
    after = {path: path.stat().st_mtime_ns for path in Path("runs").glob("*.tape")}
    assert {path for path in after if after[path] != before[path]} == set(gone)
    assert rows(Path("runs"))["players"] == facts["players"]

    assert generate(f"heaps.toml --seeds 2..5 {BOTH} -j 1 --json") == 0
    assert json.loads(capsys.readouterr().out)["ran"] == 8  # Of 16: the others existed.


@pytest.mark.seldom(0.15)
def test_a_kill_costs_only_the_runs_in_progress(capsys: pytest.CaptureFixture[str]) -> None:
    """After a kill of the process and its workers, only unfinished runs are generated, with the same result."""
    change("slow", stops_at=20)
    line = f"heaps.toml slow.toml --seeds 0..1 {BOTH}"
    process = start_generating(f"{line} -j 2")
    _wait_until_all_but_the_slow_have_run(process, 8)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _wait_until_workers_end(process.pid)
    finished = {path: path.stat().st_mtime_ns for path in Path("runs").glob("*.tape")}
    assert len(list(Path("runs").glob("*.part"))) == 2
    assert len(finished) == 8

    Path(duel_world.GO_ON).touch()
    assert generate(f"{line} -j 1 --json") == 0

    assert json.loads(capsys.readouterr().out)["ran"] == 16 - len(finished)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert not list(Path("runs").glob("*.part*"))
    assert generate(f"{line} -j 1 -o others") == 0
    assert tapes(Path("runs")) == tapes(Path("others"))
    assert rows(Path("runs"))["quality"] == rows(Path("others"))["quality"]


def _wait_until_all_but_the_slow_have_run(process: subprocess.Popen[bytes], count: int) -> None:
    """Wait until both workers are in a run that blocks halfway."""

    def have_run() -> bool:
        assert process.poll() is None
        return len(tapes(Path("runs"))) == count and len(list(Path("runs").glob("slow*.part"))) == 2

    wait_until(have_run)


def _wait_until_workers_end(session: int) -> None:
    """Wait until the workers of a killed process have ended without help."""
    wait_until(lambda: not _of_session(session), 20)


def _of_session(session: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(stat.parent.name)
    return found


@pytest.mark.seldom(0.15)
def test_an_interrupt_stops_all_and_leaves_nothing_half() -> None:
    """Ctrl-C reaches the workers, too; finished runs are kept."""
    change("slow", stops_at=20)
    process = start_generating(f"heaps.toml slow.toml --seeds 0..7 {BOTH} -j 2")
    # Both workers are at it; one that is interrupted while it starts takes the other one down, half a tape and all.
    _wait_until_all_but_the_slow_have_run(process, 32)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) == 130
    _wait_until_workers_end(process.pid)
    assert not list(Path("runs").glob("*.part*"))
    assert {run.status for run in Corpus.open("runs")} == {"not checked"}
    assert generate("heaps.toml --seeds 0 --player left=push --player right=random -j 1") == 0


def test_an_incomplete_tape_is_generated_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Truncated tapes, empty tapes and tapes of failed runs are generated again; complete tapes stay."""
    assert generate("heaps.toml --seeds 0..3 --player left=push -j 1") == 0
    complete = tapes(Path("runs"))
    names = sorted(complete)
    (Path("runs") / names[0]).write_bytes(complete[names[0]][:-700])
    (Path("runs") / names[1]).write_bytes(b"")
    (Path("runs") / f"{names[2]}.part").write_bytes(b"begun")
    (Path("runs") / names[2]).unlink()
    capsys.readouterr()
    assert generate("heaps.toml --seeds 0..3 --player left=push -j 1 --json") == 0
    assert json.loads(capsys.readouterr().out)["ran"] == 3
    assert tapes(Path("runs")) == complete
    assert not list(Path("runs").glob("*.part"))


def test_a_run_that_raises_does_not_end_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    """Its tape records the exception, the exit code is 1, and the next command tries it again."""
    change("bad", raise_at=7)
    for _ in range(2):
        assert generate("bad.toml heaps.toml --seeds 0,1 -j 1 --json") == 1
        found = json.loads(capsys.readouterr().out)
        assert [one["error"] for one in found["failed"]] == ["tick 7: RuntimeError: the heap fell over"] * 2
    assert found["ran"] == 2
    assert [(run.scenario, run.reason, run.error, run.ticks) for run in Corpus.open("runs")] == [
        ("bad", "exception", "RuntimeError: the heap fell over", 6),
        ("bad", "exception", "RuntimeError: the heap fell over", 6),
        ("heaps", "ticks", None, 40),
        ("heaps", "ticks", None, 40),
    ]


@pytest.mark.seldom(0.18)
def test_a_worker_that_dies_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The run that kills its process fails, the others do not, and its partial tape is not part of the corpus."""
    change("deadly", kill_at=9)
    assert generate("deadly.toml heaps.toml --seeds 0 -j 2") == 1
    assert "its worker died 2 times" in capsys.readouterr().err
    assert [run.scenario for run in Corpus.open("runs")] == ["heaps"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("heaps.toml --seeds 9 --ticks 12", "ticks 40, not 12"),
        ("heaps.toml --seeds 9 --keyframe-interval 5", "keyframes every 300, not 5"),
        ("gifts.toml --seeds 9", "a different scenario of that name"),
    ],
)
def test_other_settings_are_refused(line: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line names the settings, and nothing is run."""
    assert generate("heaps.toml --seeds 0,1 -j 1") == 0
    change("gifts", gift_every=3)
    Path("gifts.toml").write_text(Path("gifts.toml").read_text().replace('"gifts"', '"heaps"'))
    before = tapes(Path("runs"))
    capsys.readouterr()
    assert generate(f"{line} -j 1 --json") == 2
    assert_one_line(capsys.readouterr(), f"error: runs holds runs of heaps with different settings ({why}): use a")
    assert tapes(Path("runs")) == before


@pytest.mark.seldom(0.15)
def test_the_index_is_made_again_if_it_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    """The index is rebuilt from the tapes with the same rows, and nothing is run."""
    assert generate(f"heaps.toml --seeds 0..2 {BOTH} -j 1") == 0
    before = rows(Path("runs"))
    (Path("runs") / INDEX_NAME).unlink()
    capsys.readouterr()
    assert generate(f"heaps.toml --seeds 0..2 {BOTH} -j 1 --json") == 0
    assert json.loads(capsys.readouterr().out)["ran"] == 0
    assert rows(Path("runs")) == before


def test_one_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    """A second process that generates into the same folder is refused."""
    with locked_folder(Path("runs")):
        assert generate("heaps.toml -j 1 --json") == 2
    assert_one_line(capsys.readouterr(), "error: runs: another process is generating runs there")
    assert generate("heaps.toml -j 1 --json") == 0


def test_a_foreign_file_with_the_name_of_a_run_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not a tape, and a tape of a different run, are refused and stay."""
    Path("runs").mkdir()
    name = Path("runs/heaps-seed-3.tape")
    name.write_bytes(b"a diary")
    assert generate("heaps.toml -j 1 --json") == 2
    assert_one_line(
        capsys.readouterr(), f"error: {name} exists, but was not generated with these arguments: move it away"
    )
    assert name.read_bytes() == b"a diary"
    name.unlink()
    assert run(recorder.commands.main.main, f"run heaps.toml -q -o {name}") == 0
    assert generate("heaps.toml -j 1 --json") == 2


MISTAKES = {
    "": "name at least one scenario",
    "nowhere.toml": "nowhere.toml is neither a scenario file nor a shipped scenario",
    "heaps.toml --seeds 3..1": "seed: expected at least one value",
    "heaps.toml --seeds a,b": "expected seeds as a range such as 0..63, or integers with commas, got a,b",
    "heaps.toml --seeds 1,1": "seed: expected each value once, got 1 twice",
    "heaps.toml --seeds -1": "or integers with commas, got -1",
    "heaps.toml --player left": "--player left: expected PLAYER=POLICY",
    "heaps.toml --player left=push,push": "--player left=push,push: expected different policies",
    "heaps.toml --player left=push,": "--player left=push,: expected different policies",
    "heaps.toml --player left=push --player left=lazy": "left has a policy already",
    "heaps.toml --player left=push,fly": "--player left=fly: expected one of left, right with one of push",
    "heaps.toml --player middle=push": "--player middle=push: expected one of left, right",
    "heaps.toml --ticks 0": "--ticks",
    "heaps.toml --jobs 0": "--jobs",
    "heaps.toml heaps.toml": "two of the runs would have the same tape, runs/heaps-seed-3.tape",
    "heaps.toml -o heaps.toml": "heaps.toml: File exists",
    "odd.toml": "sesd: unknown key",
    "forever.toml": "ticks: expected a whole number from 1 to",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each mistake gives one line and exit code 2, and leaves no files."""
    change("odd", sesd=4)
    change("forever", ticks='"for ever"')
    before = sorted(Path().rglob("*"))
    assert generate(f"{line} --json") == 2
    captured = capsys.readouterr()
    assert MISTAKES[line] in captured.err
    assert len(captured.err.splitlines()) == 1
    assert "Traceback" not in captured.err
    assert sorted(Path().rglob("*")) == before


def test_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """The output states the number of runs, their length and the winners."""
    assert generate("heaps.toml --seeds 0..1 --player left=push --player right=idle -j 1") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "2 runs on 1 worker → runs"
    assert out[1].startswith("2 runs in ")
    assert out[2:] == [
        "  ends: ticks 2",
        "  left=push: won 2 of 2 runs, drew 0",
        "  right=idle: won 0 of 2 runs, drew 0",
        "next: replay ls runs --stats",
    ]
