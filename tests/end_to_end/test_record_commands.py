"""The command ``record``: make, stop and resume a recording; every mistake is one line."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

import recorder
import recorder.commands.main
import replayer.commands.main
from recorder import Recorder
from recorder.storage.file_names import journal_path, segment_numbers
from recorder.storage.tape_files import TapeFile
from replayer import Tape
from replayer.timeline.verify import verify_tape

from oracle.command_lines import TINY, assert_one_line, files, run
from oracle.second_reader import DELTA, FULL, Reader
from project_paths import GOLDEN
from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)

GOLDEN_0_1 = GOLDEN / "0.1"
RECORD = [sys.executable, "-c", "import recorder.commands.main; recorder.commands.main.main()"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in a folder that holds the tiny scenario and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recording of the tiny scenario, ninety ticks."""
    folder = tmp_path_factory.mktemp("recording")
    (folder / "tiny.toml").write_text(TINY)
    assert run(recorder.commands.main.main, f"run {folder}/tiny.toml -q -o {folder}/a.tape --keyframe-interval 20") == 0
    return (folder / "a.tape").read_bytes()


def hash_at(path: Path, tick: int) -> int:
    """Return the recorded hash of a tick."""
    with Tape(path) as tape:
        return tape.state_hash(tick)


GOOD: dict[str, dict[str, Any]] = {
    "--durability tick": {"durability": "tick", "sync_interval_s": 1.0},
    "--durability block": {"durability": "block", "sync_interval_s": 1.0},
    "--durability none": {"durability": "none", "sync_interval_s": None},
    "--sync 0.2s": {"sync_interval_s": 0.2, "sync_each_block": False},
    "--sync block": {"sync_each_block": True},
    "--sync never": {"sync_interval_s": None},
    "--on-error raise": {"on_error": "raise"},
    "--on-error continue": {"on_error": "continue"},
    "--keep 20": {"keep_ticks": 20, "keep_s": None},
    "--keep 60s": {"keep_ticks": None, "keep_s": 60.0},
    "--keep 1.5min": {"keep_s": 90.0},
    "--keep 2h": {"keep_s": 7200.0},
    "--split 2000": {"split_bytes": 2000},
    "--split 2.5kB": {"split_bytes": 2500},
    "--split '500 MB'": {"split_bytes": 500_000_000},
    "--deterministic": {"deterministic": True},
    "--hashes auto": {"hashes": "states"},
    "--hashes states --mode changes": {"hashes": "states"},
    "--hashes changes --mode changes": {"hashes": "changes"},
}


@pytest.mark.parametrize("option", GOOD)
def test_each_setting_reaches_the_tape(option: str) -> None:
    """META has the settings; the run is the same with every setting."""
    assert (
        run(recorder.commands.main.main, f"run tiny.toml -q -o a.tape --ticks 45 --keyframe-interval 5 {option}") == 0
    )

    with Tape(Path("a.tape")) as tape:
        settings = {"hashes": "states"} | tape.meta["settings"]  # Entries that were added later may be missing.
        assert {key: settings[key] for key in GOOD[option]} == GOOD[option]
        assert tape.meta["notes"] == {"ticks": 45}
        assert (tape.last_tick, tape.status, tape.outcome) == (
            45,
            "not checked",
            {"reason": "Z1", "ticks": 45, "text": "the last tick, as asked"},
        )
        assert tape.check_blocks() == []
        first_tick = tape.first_tick
    assert (first_tick > 0) is (option == "--keep 20")
    assert (len(segment_numbers("a.tape")) > 1) is ("keep" in option or option in {"--split 2000", "--split 2.5kB"})


BAD = {
    "--keep 0": "keep='0': expected a number of ticks, at least 1, or a time such as \"60s\"",
    "--keep soon": "keep='soon'",
    "--keep -5": "keep='-5'",
    "--keep 0s": "keep='0s'",
    "--split 0": "split='0': expected a size such as \"500MB\"",
    "--split small": "split='small'",
    "--split 5parsecs": "split='5parsecs'",
    "--durability sometimes": "durability",
    "--on-error ignore": "on-error",
    "--sync often": "sync='often': expected a time such as",
    "--durability none --sync 1s": "sync='1s' with durability=\"none\", which never syncs",
    "--deterministic --keep 60s": "keep='60s' with deterministic, which uses no clock: give a number of ticks instead",
    "--keyframe-interval 0": "keyframe-interval",
    "--changes some": "changes",
    "--hashes some": "hashes",
    "--hashes changes": 'hashes="changes" with mode="events", which records no changes: give mode="changes"',
}


@pytest.mark.parametrize("option", BAD)
def test_an_invalid_setting_gets_one_line(folder: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    """Exit code 2, and no file or folder is made."""
    assert run(recorder.commands.main.main, f"run tiny.toml {option}") == 2

    assert_one_line(capsys.readouterr(), BAD[option])
    assert list(files(folder)) == ["tiny.toml"]
    assert not (folder / "recordings").exists()


@pytest.mark.parametrize(
    ("main", "command", "texts"),
    [
        (recorder.commands.main.main, "", ["record resume my.tape", "run", "resume", "scenarios"]),
        (
            recorder.commands.main.main,
            "run",
            ["--keep", "--split", "--durability", "--on-error", "as a flight"],
        ),
        (
            recorder.commands.main.main,
            "resume",
            ["Example: record resume meadow.tape", "--ticks", "checked by its hash"],
        ),
        (replayer.commands.main.main, "", ["tail", "repair", "follow a recording while it runs"]),
        (replayer.commands.main.main, "info", ["--fast", "Exit code: 0 intact, 3 incomplete", "4 corrupt"]),
        (replayer.commands.main.main, "tail", ["--last", "--no-follow", "--json", "Ctrl-C"]),
        (
            replayer.commands.main.main,
            "repair",
            ["--output", "--sim", "Exit code: 0 nothing is lost", "The original is not changed"],
        ),
    ],
)
def test_help_says_what_there_is(capsys: pytest.CaptureFixture[str], main: Any, command: str, texts: list[str]) -> None:
    """Options, an example, the exit codes; exit code 0."""
    assert run(main, f"{command} --help") == 0

    captured = capsys.readouterr()
    shown = " ".join(captured.out.split())
    assert all(text in shown for text in texts), shown
    assert captured.err == ""


def test_a_disk_that_refuses_for_a_while_is_one_line_and_no_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user gets one line, without a source location; the run continues, and the tape is complete."""
    append, calls = TapeFile.append, []

    def refuse_some(self: TapeFile, data: bytes) -> None:
        calls.append(len(data))
        if len(calls) in {4, 5}:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, data)

    monkeypatch.setattr(TapeFile, "append", refuse_some)
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))
    assert run(recorder.commands.main.main, "run tiny.toml -q -o a.tape --keyframe-interval 5") == 0

    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("warning: a.tape: ")
    assert "No space left on device; the recording continues in memory and retries" in lines[0]
    assert lines[1:] == ["warning: a.tape: the disk accepts the recording again"]
    with Tape(Path("a.tape")) as tape:
        assert (tape.status, tape.last_tick) == ("not checked", 90)


# --- resuming


@pytest.mark.seldom(0.18)
def test_resume_continues_to_the_requested_tick(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finished recording continues in the same file, as a run that was never interrupted."""
    assert run(recorder.commands.main.main, "run tiny.toml -q -o whole.tape --ticks 140") == 0
    assert run(recorder.commands.main.main, "run tiny.toml -q -o a.tape --keyframe-interval 20") == 0
    before = Path("a.tape").read_bytes()
    capsys.readouterr()

    assert run(recorder.commands.main.main, "resume a.tape --ticks 140") == 0

    out = capsys.readouterr().out
    assert out.startswith("a.tape: at tick 90, restored from the keyframe at tick 80\n50 ticks in ")
    assert f"state hash: {hash_at(Path('whole.tape'), 140):016x}" in out
    assert "next: replay seek a.tape --tick 70" in out
    assert Path("a.tape").read_bytes().startswith(before)
    assert verify_tape(Path("a.tape")).status == "intact"
    assert {tick: hash_at(Path("a.tape"), tick) for tick in (1, 90, 91, 140)} == {
        tick: hash_at(Path("whole.tape"), tick) for tick in (1, 90, 91, 140)
    }
    assert not journal_path("a.tape").exists()
    assert sorted(files(folder)) == ["a.tape", "tiny.toml", "whole.tape"]


def test_resume_continues_to_the_planned_end(capsys: pytest.CaptureFixture[str], whole: bytes) -> None:
    """Without --ticks, a cut tape continues to the scenario's last tick; the torn bytes are kept and named."""
    last = [block for block in Reader(whole).blocks if block.kind == DELTA][-1]
    Path("a.tape").write_bytes(whole[: last.offset + 100])

    assert run(recorder.commands.main.main, "resume a.tape") == 0

    out = capsys.readouterr().out
    assert out.splitlines()[0] == (
        "a.tape: at tick 80, restored from the keyframe at tick 60, half-written bytes kept in a.tape.torn-1"
    )
    assert Path("a.tape.torn-1").read_bytes() == whole[last.offset : last.offset + 100]
    with Tape(Path("a.tape")) as tape:
        assert (tape.last_tick, tape.status) == (90, "not checked")
    assert run(recorder.commands.main.main, "resume -q a.tape --ticks 95") == 0
    assert capsys.readouterr().out == ""


def spoil_file(path: Path, place: int) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("done.tape", 2, "done.tape is already at tick 90: name a later tick with --ticks"),
        ("done.tape --ticks 90", 2, "done.tape is already at tick 90"),
        ("done.tape --ticks 0", 2, "--ticks"),
        ("nothing.tape", 2, "nothing.tape: No such file or directory"),
        (".", 2, ".: Is a directory"),
        ("tiny.toml --ticks 99", 5, "tiny.toml: this is not a tape"),
        (
            "mine.tape --ticks 99",
            2,
            "mine.tape names no registered world: name its simulation by --sim small_worlds:Walkers, or continue in Python",
        ),
        ("corrupt.tape --ticks 99", 4, "repair the tape first (replay repair)"),
        ("begun.tape --ticks 99", 2, "the tape has no keyframe that can be read"),
        ("old.tape --ticks 99", 2, "old.tape names no registered world"),
        ("atlantis.tape --ticks 99", 2, "no world named 'atlant' is installed; installed: choreography, meadow"),
        ("", 2, "TAPE"),
    ],
)
def test_a_tape_that_cannot_be_resumed_gets_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], whole: bytes, line: str, code: int, text: str
) -> None:
    """The right exit code, nothing on stdout, no byte changed."""
    Path("done.tape").write_bytes(whole)
    blocks = Reader(whole).blocks
    shutil.copy("done.tape", "corrupt.tape")
    spoil_file(Path("corrupt.tape"), next(block.offset for block in blocks if block.kind == DELTA) + 20)
    Path("begun.tape").write_bytes(whole[: next(block.offset for block in blocks if block.kind == FULL)])
    with Recorder("mine.tape", Walkers()) as tape:
        tape.step()
    shutil.copy(GOLDEN_0_1 / "walkers-unsealed.tape", "old.tape")
    with pytest.MonkeyPatch.context() as patch:
        with Tape(Path("done.tape")) as done:
            meta = {**done.meta, "world": {**done.meta["world"], "name": "atlant"}}
        patch.setattr("recorder.session.recorder.describe", lambda *_, **__: meta)
        with Recorder("atlantis.tape", Walkers()) as tape:
            tape.step()
    before = files(folder)

    assert run(recorder.commands.main.main, f"resume {line}") == code

    assert_one_line(capsys.readouterr(), text)
    assert files(folder) == before


def test_a_tape_that_is_being_recorded_cannot_be_resumed(capsys: pytest.CaptureFixture[str], whole: bytes) -> None:
    """The message gives the reason."""
    Path("a.tape").write_bytes(whole)
    with recorder.resume("a.tape") as tape:
        tape.step([])
        assert run(recorder.commands.main.main, "resume a.tape --ticks 99") == 2
        assert_one_line(capsys.readouterr(), "a.tape: another process is recording into this tape")
        tape.step([])


def test_a_version_of_the_world_that_steps_differently_is_a_desync(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, whole: bytes
) -> None:
    """The installed version did not record the tape: exit code 1, nothing is written."""
    from sim.worlds.meadow import Meadow

    Path("a.tape").write_bytes(whole)
    before, step = files(folder), Meadow.step

    def edited(self: Meadow, inputs: Any) -> None:
        step(self, inputs)
        self.state["plants.energy"][0] += 1

    monkeypatch.setattr(Meadow, "step", edited)
    assert run(recorder.commands.main.main, "resume a.tape --ticks 99") == 1
    assert_one_line(capsys.readouterr(), "desync at tick 81: recorded hash ")
    assert files(folder) == before


# --- stopping


def start_and_wait(*arguments: str) -> subprocess.Popen[str]:
    """Start a ``record`` process and wait until it has recorded something."""
    process = subprocess.Popen([*RECORD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def has_recorded() -> bool:
        assert process.poll() is None, process.communicate()
        try:
            with Tape(Path("a.tape")) as tape:
                return tape.last_tick > 20
        except (OSError, recorder.RecordingError):
            return False  # It has only begun.

    wait_until(has_recorded)
    return process


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGHUP, 129, "hung up"),
    ],
)
@pytest.mark.seldom(0.18)
def test_a_run_that_gets_a_signal_seals_its_tape(number: int, code: int, reason: str) -> None:
    """SIGTERM, Ctrl-C and a closed terminal: the signal's exit code, a summary, no traceback, and a tape that can be resumed."""
    process = start_and_wait("run", "quiet-meadow", "-o", "a.tape", "--ticks", "10000000")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, err) == (code, "")
    assert f"\n{reason} after " in out
    assert "state hash" not in out  # An interrupted step leaves a state that belongs to no tick.
    with Tape(Path("a.tape")) as tape:
        assert (tape.status, tape.outcome) == ("not checked", {"reason": reason})
        last_tick = tape.last_tick
    assert not journal_path("a.tape").exists()

    finished = subprocess.run([*RECORD, "resume", "-q", "a.tape", "--ticks", str(last_tick + 5)], check=False)
    assert finished.returncode == 0
    with Tape(Path("a.tape")) as tape:
        assert (tape.status, tape.last_tick, tape.outcome["reason"]) == ("not checked", last_tick + 5, "Z1")


@pytest.mark.parametrize("first_at", [33, None], ids=["told before", "told only then"])
def test_a_signal_while_the_tape_is_sealed_changes_nothing(
    capsys: pytest.CaptureFixture[str], first_at: int | None
) -> None:
    """A SIGTERM during the seal, the first or a second one, gives no traceback."""
    close, step, before = Recorder.close, Recorder.step, signal.getsignal(signal.SIGTERM)
    outcomes = []

    def close_and_be_told(self: Recorder, outcome: Any = None) -> None:
        outcomes.append(outcome)
        os.kill(os.getpid(), signal.SIGTERM)
        close(self, outcome)
        os.kill(os.getpid(), signal.SIGTERM)

    def step_and_be_told(self: Recorder, inputs: Any = None) -> Any:
        if self.tick == first_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "close", close_and_be_told)
        patch.setattr(Recorder, "step", step_and_be_told)
        code = run(recorder.commands.main.main, "run tiny.toml -o a.tape")

    assert code == (143 if first_at else 0)
    assert capsys.readouterr().err == ""
    assert signal.getsignal(signal.SIGTERM) is before
    with Tape(Path("a.tape")) as tape:
        assert (tape.status, tape.last_tick) == ("not checked", first_at or 90)
        assert tape.outcome == outcomes[0]
