"""record batch and record sweep: a mistake gets one line before anything is written; a stop loses nothing."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

import recorder.commands.batch
import recorder.commands.main
import replayer.commands.main
from recorder.scenarios import sweep
from recorder.scenarios.batch import Job, RunRecord, run_job
from replayer import Tape
from sim.extras import missing_package

from oracle.command_lines import TINY, assert_one_line, files, run

pytestmark = pytest.mark.share(0.18)

PROVOKED = TINY.replace("ticks = 90", "ticks = 12") + '[[players]]\nspecies = "snail"\n[scenario]\n'
FOREIGN = "[scenario]\nsteps = 3\n"
BATCH = "batch tiny.toml --seeds 0..2 -o runs -j 1"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with scenarios in it."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(PROVOKED)
    Path("foreign.toml").write_text(FOREIGN)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("batch foreign.toml", "foreign: runs in processes need a registered world"),
        ("batch tiny.toml foreign.toml --seeds 1,2", "foreign: runs in processes need a registered world"),
        ("sweep foreign.toml --axis seed=1,2", "foreign: runs in processes need a registered world"),
        (
            "batch tiny.toml --seeds 0,abc",
            "seed: expected an integer from 0 to 9223372036854775807, got 'abc'",
        ),
        ("batch tiny.toml --seeds 0,-1", "seed: expected an integer from 0"),
        ("batch tiny.toml --seeds 0,", "seed: expected an integer from 0"),
        ("batch tiny.toml --seeds 1,1", "seed: expected each value once, got 1 twice"),
        ("batch tiny.toml tiny.toml", "tiny.toml is named twice"),
        (
            "batch tiny.toml --ticks 900000000000000000",
            "expected --ticks of at most 1,000,000,000,000,000, got 900,000,000,000,000,000",
        ),
        ("sweep tiny.toml --axis world=choreography", "world: a sweep is of one world"),
        ("sweep tiny.toml --axis ticks=5,-1", "ticks: expected an integer from 1"),
        ("sweep tiny.toml --axis scenario.steps=1,5", "scenario.steps: expected at least 2"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], line: str, text: str) -> None:
    """One line, and nothing is written."""
    before = files(Path())
    assert run(recorder.commands.main.main, f"{line} -o runs -j 1") == 2
    assert_one_line(capsys.readouterr(), text)
    assert files(Path()) == before


def test_a_folder_of_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    """The user's tapes are not touched."""
    Path("runs").mkdir()
    assert run(recorder.commands.main.main, "run tiny.toml -q -o runs/run-00000.tape") == 0
    Path("runs/run-00000.tape.notes").write_text("mine")
    before = files(Path())
    capsys.readouterr()
    assert run(recorder.commands.main.main, BATCH) == 2
    assert_one_line(capsys.readouterr(), "runs/run-00000.tape exists already, and no batch made it")
    assert files(Path()) == before


@pytest.mark.parametrize(
    ("first", "then", "text"),
    [
        ("", "--player snail=greedy", "its run 0 has different players"),
        ("--player snail=greedy", "--player snail=random", "its run 0 has different players"),
        ("--no-tapes", "", "or none where one was"),
        ("", "--no-tapes", "a tape that was not requested"),
    ],
)
@pytest.mark.seldom(0.18)
def test_other_settings_make_a_different_batch(
    capsys: pytest.CaptureFixture[str], first: str, then: str, text: str
) -> None:
    """Runs with other settings are not reported as done."""
    assert run(recorder.commands.main.main, f"{BATCH} {first}") == 0
    before = files(Path())
    capsys.readouterr()
    assert run(recorder.commands.main.main, f"{BATCH} {then}") == 2
    assert_one_line(capsys.readouterr(), text)
    assert files(Path()) == before
    assert run(recorder.commands.main.main, f"{BATCH} {first}") == 0


def test_players_are_on_the_tapes() -> None:
    """A tape of a batch, or a checkpoint, can therefore be continued like one of record run."""
    assert run(recorder.commands.main.main, f"{BATCH} --player snail=random") == 0
    with Tape(Path("runs/run-00002.tape")) as tape:
        assert tape.meta["notes"] == {"ticks": 12, "players": {"snail": "random"}}


def working(monkeypatch: pytest.MonkeyPatch, work: Callable[[Job], RunRecord]) -> None:
    """Let the commands' workers do this."""

    def run_batch(*given: Any, **more: Any) -> list[RunRecord]:
        return sweep.run_batch(*given, **more, work=work)

    monkeypatch.setattr(recorder.commands.batch, "run_batch", run_batch)


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "hung up"),
    ],
)
def test_a_signal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: int,
    word: str,
) -> None:
    """Finished runs are reported and kept; the same command continues with the rest, with the same result."""
    assert run(recorder.commands.main.main, BATCH.replace("-o runs", "-o whole")) == 0
    expected = capsys.readouterr().out.replace("whole", "runs")

    def work(job: Job) -> RunRecord:
        if job.index == 2:
            assert job.tape is not None
            job.tape.write_bytes(b"begun")
            os.kill(os.getpid(), number)
        return run_job(job)

    with monkeypatch.context() as patched:
        working(patched, work)
        assert run(recorder.commands.main.main, BATCH) == code
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        "2 of 3 runs have finished; to continue, run the same command with -o runs",
        f"error: {word}",
    ]
    assert "2 runs, 0 with errors\n  moss: extinct" in told.out
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

    assert run(recorder.commands.main.main, BATCH) == 0
    assert capsys.readouterr().out == expected
    assert run(replayer.commands.main.main, "compare runs whole") == 0


def test_a_full_disk(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """One line names the folder, next to the finished runs; the tape without room is removed."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def work(job: Job) -> RunRecord:
        if job.index == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
        try:
            return run_job(job)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with monkeypatch.context() as patched:
        working(patched, work)
        assert run(recorder.commands.main.main, BATCH) == 2
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        "1 of 3 runs have finished; to continue, run the same command with -o runs",
        "error: runs: File too large",
    ]
    assert "1 run, 0 with errors" in told.out
    assert [str(one.message) for one in recwarn] == []
    assert sorted(files(Path("runs"))) == ["manifest.ndjson", "run-00000.tape"]
    assert run(recorder.commands.main.main, BATCH) == 0


def test_a_disk_without_room_for_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    """The folder is named, too; half a line of the manifest costs that run alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        assert run(recorder.commands.main.main, f"{BATCH} --no-tapes") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        "0 of 3 runs have finished; to continue, run the same command with -o runs",
        "error: runs: File too large",
    ]
    assert Path("runs/manifest.ndjson").stat().st_size == 100
    assert run(recorder.commands.main.main, f"{BATCH} --no-tapes") == 0


def test_two_files_with_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    """They are distinguished by what was typed: in the summary, in the manifest and for smaller scenarios."""
    for place, when in (("a", "tick < 5"), ("b", "tick < 7")):
        Path(place).mkdir()
        rule = f'[[scenario.properties]]\nname = "young"\nkind = "always"\nwhen = "{when}"\n'
        Path(place, "tiny.toml").write_text(PROVOKED + rule)
    assert run(recorder.commands.main.main, "batch a/tiny.toml b/tiny.toml --seeds 1,2 -o runs -j 1") == 1
    out = capsys.readouterr().out
    assert "  scenario=a/tiny.toml: snail: extinct in 0 of 2 runs" in out
    assert "  scenario=b/tiny.toml: snail: extinct in 0 of 2 runs" in out
    assert [line.partition(", in ")[0] for line in out.splitlines() if " smaller: " in line] == [
        "  not smaller: run 0, property young: nothing in the scenario can be left out",
        "  not smaller: run 2, property young: nothing in the scenario can be left out",
    ]


@pytest.mark.parametrize("content", ["hello", "[1]", '{"runs": [{"index": "0", "name": "x", "bindings": {}}]}'])
def test_comparing_with_a_file_that_is_not_a_sweep(capsys: pytest.CaptureFixture[str], content: str) -> None:
    """One line names the file."""
    for name in ("one", "two"):
        Path(name).mkdir()
        Path(name, "manifest.json").write_text(content)
    assert run(replayer.commands.main.main, "compare one two") == 2
    assert_one_line(capsys.readouterr(), "one/manifest.json is not a manifest: ")
    Path("one/manifest.json").rename("one/manifest.ndjson")
    assert run(replayer.commands.main.main, "compare one two") == 2
    assert_one_line(capsys.readouterr(), "one holds an unfinished batch")
    assert run(recorder.commands.main.main, "batch tiny.toml -o two") == 2
    problem = "exists already" if content.startswith("{") else "is not a manifest: "
    assert_one_line(capsys.readouterr(), f"two/manifest.json {problem}")


def test_comparing_a_folder_with_what_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """A path that does not exist is named as such, in either place, and a file next to a folder as well."""
    Path("one").mkdir()
    Path("file.tape").write_bytes(b"")
    for line in ("compare one two", "compare two one", "compare two file.tape", "compare file.tape two"):
        assert run(replayer.commands.main.main, line) == 2
        assert_one_line(capsys.readouterr(), "error: two: No such file or directory")
    for line in ("compare one file.tape", "compare file.tape one"):
        assert run(replayer.commands.main.main, line) == 2
        text = "one is a folder and file.tape is not: expected two tapes, or two folders of runs"
        assert_one_line(capsys.readouterr(), text)


def test_without_their_packages_pictures_and_tables_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch finishes without its picture and prints why; a table or a picture asked for gives exit code 2."""
    for name in ("matplotlib", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("replayer.export.plot", "matplotlib.figure"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    assert run(recorder.commands.main.main, BATCH) == 0
    said = capsys.readouterr().out
    assert missing_package("  drawing survival curves", "matplotlib", "plot") in said.splitlines()
    assert "pip install 'matplotlib>=3.8'" in said
    tape = "runs/run-00000.tape"
    assert run(replayer.commands.main.main, f"export {tape} --events -o events.parquet") == 2
    assert_one_line(capsys.readouterr(), missing_package("writing Parquet", "pyarrow", "parquet"))
    assert run(replayer.commands.main.main, f"plot {tape} -o curves.png") == 2
    assert_one_line(capsys.readouterr(), missing_package("drawing", "matplotlib", "plot"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["batch", "sweep --axis seed=0..30", "generate --ticks 300"])
@pytest.mark.seldom(0.18)
def test_a_closed_terminal_ends_all_processes(tmp_path: Path, command: str) -> None:
    """Each of them gets SIGHUP, at any moment of its work."""
    seeds = [] if "sweep" in command else ["--seeds", "0..30"]
    process = subprocess.Popen(
        [sys.executable, "-m", "recorder", *command.split(), "quiet-meadow", *seeds, "-j", "2", "-o", "runs"],
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: any(tmp_path.rglob("*.tape")))
    os.killpg(process.pid, signal.SIGHUP)
    _, told = process.communicate()
    assert (process.returncode, told.splitlines()[-1]) == (129, "error: hung up")

    def all_have_ended() -> bool:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(all_have_ended)
