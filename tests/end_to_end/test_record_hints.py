"""The output of ``record``: hints that can be typed as they are, and one line for each invalid command line."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder.commands.main
import replayer.commands.main
from recorder import Recorder
from recorder.storage.file_names import segment_numbers, segment_path
from replayer import Tape
from replayer.timeline.verify import verify_tape

from oracle.command_lines import TINY, assert_one_line, files, run
from project_paths import SUPPORT
from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)

RECORD = [sys.executable, "-c", "import recorder.commands.main; recorder.commands.main.main()"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in a folder that holds the tiny scenario and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def hints(out: str) -> list[list[str]]:
    """Return the commands of the last line, as a shell splits them."""
    last = out.splitlines()[-1]
    assert last.startswith("next: ")
    return [shlex.split(command) for command in last.removeprefix("next: ").split("    or: ")]


def follow(words: list[str]) -> int:
    """Type a hint."""
    return run(
        {"record": recorder.commands.main.main, "replay": replayer.commands.main.main}[words[0]], shlex.join(words[1:])
    )


@pytest.mark.parametrize(
    ("options", "tick"), [("", 45), ("--keep 20", 80), ("--ticks 1", 0), ("--split 2kB", 45)], ids=str
)
@pytest.mark.seldom(0.15)
def test_hints_can_be_typed_in(capsys: pytest.CaptureFixture[str], options: str, tick: int) -> None:
    """Names with blanks are quoted, the tick is on the tape, and all commands work."""
    assert run(recorder.commands.main.main, f"run tiny.toml -o 'my $tape' --keyframe-interval 5 {options}") == 0

    commands = hints(capsys.readouterr().out)
    assert [words[:2] for words in commands] == [["replay", "seek"], ["replay", "verify"]]
    with Tape(Path("my $tape")) as tape:
        assert tape.first_tick <= int(commands[0][-1]) <= tape.last_tick
        assert int(commands[0][-1]) == (tape.first_tick + tape.last_tick) // 2
    assert abs(int(commands[0][-1]) - tick) <= 4
    assert [follow(words) for words in commands] == [0, 0]


@pytest.mark.seldom(0.18)
def test_the_size_of_a_ring_is_what_is_on_the_disk(capsys: pytest.CaptureFixture[str]) -> None:
    """Dropped ticks are neither counted nor spread over the remaining ones."""
    assert (
        run(recorder.commands.main.main, "run tiny.toml -o ring.tape --ticks 400 --keep 40 --keyframe-interval 5") == 0
    )
    out = capsys.readouterr().out
    size_bytes = sum(segment_path("ring.tape", number).stat().st_size for number in segment_numbers("ring.tape"))
    with Tape(Path("ring.tape")) as tape:
        first_tick = tape.first_tick
    assert 300 < first_tick <= 360
    assert f"{size_bytes / 1000:.1f} kB on the disk ({size_bytes / (400 - first_tick):,.0f} bytes a tick)" in out
    assert f"\n  kept: ticks {first_tick} to 400\n" in out


def test_one_of_a_kind_is_singular(capsys: pytest.CaptureFixture[str]) -> None:
    """Not 1 ticks."""
    assert run(recorder.commands.main.main, "run tiny.toml -o a.tape --ticks 1") == 0
    out = capsys.readouterr().out
    assert ", 1 tick → a.tape\n1 tick in " in out
    assert not re.search(r"\b1 ticks(?! a second)", out)


def test_quiet_prints_only_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    """The name of a tape that was not named."""
    assert run(recorder.commands.main.main, "run tiny.toml -q --ticks 3") == 0
    assert capsys.readouterr().out == "recordings/tiny-1.tape\n"
    assert run(recorder.commands.main.main, "run tiny.toml -q --ticks 3 -o a.tape") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_prints_how_to_resume(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The first hint resumes."""
    step = Recorder.step

    def step_and_stop(self: Recorder, inputs: Any = None) -> Any:
        if self.tick == 33:
            os.kill(os.getpid(), number)
        return step(self, inputs)

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "step", step_and_stop)
        assert run(recorder.commands.main.main, "run tiny.toml -o 'a b.tape'") == 128 + number
    commands = hints(capsys.readouterr().out)
    assert commands[0] == ["record", "resume", "a b.tape"]
    assert [follow(words) for words in commands] == [0, 0, 0]
    with Tape(Path("a b.tape")) as tape:
        assert (tape.status, tape.last_tick) == ("not checked", 90)


# --- sealing


def record_and_die(line: str, ticks: int) -> None:
    """Record in a process that is killed after this number of ticks, before it could seal the tape."""
    program = (
        "import os, recorder.commands.main, recorder.session.recorder\n"
        "step = recorder.session.recorder.Recorder.step\n"
        "def step_and_die(self, inputs=None):\n"
        "    result = step(self, inputs)\n"
        f"    if self.tick == {ticks}:\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return result\n"
        "recorder.session.recorder.Recorder.step = step_and_die\n"
        "recorder.commands.main.main()\n"
    )
    finished = subprocess.run([sys.executable, "-c", program, *shlex.split(line)], capture_output=True, check=False)
    assert finished.returncode == -9


@pytest.mark.parametrize("option", ["", "--ticks 90"])
@pytest.mark.seldom(0.18)
def test_a_run_that_was_over_is_sealed(capsys: pytest.CaptureFixture[str], option: str) -> None:
    """After a crash at the last tick nothing is left to record, and the tape is sealed."""
    record_and_die("run tiny.toml -o a.tape", 90)
    with Tape(Path("a.tape")) as tape:
        assert (tape.status, tape.last_tick) == ("incomplete", 90)

    assert run(recorder.commands.main.main, f"resume a.tape {option}") == 0

    out = capsys.readouterr().out
    assert "\nsealed: all ticks up to 90 had been recorded, only the seal was missing\n" in out
    assert verify_tape(Path("a.tape")).status == "intact"
    with Tape(Path("a.tape")) as tape:
        # What was changed in the session that died is not known: that is what the end tells of the process.
        settings = {"first_tick": 90, "last_tick": 90, "changes": []}
        assert tape.outcome == {
            "reason": "Z1",
            "ticks": 90,
            "text": "the last tick, as asked",
            "outside": {"settings": settings},
        }
    assert run(recorder.commands.main.main, f"resume a.tape {option}") == 2
    assert_one_line(capsys.readouterr(), "a.tape is already at tick 90: name a later tick with --ticks")


@pytest.mark.seldom(0.18)
def test_a_tick_before_the_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It has its own message."""
    assert run(recorder.commands.main.main, "run tiny.toml -q -o a.tape --ticks 1200") == 0
    assert run(recorder.commands.main.main, "resume a.tape --ticks 100") == 2
    assert_one_line(capsys.readouterr(), "--ticks 100 is before tick 1,200, the last one in a.tape")


def test_a_later_file_is_not_resumed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and every byte stays; the first file alone lacks the next one."""
    assert run(recorder.commands.main.main, "run tiny.toml -q -o sp.tape --split 2kB --keyframe-interval 10") == 0
    (folder / "new.tape").write_bytes((folder / "sp.tape").read_bytes())
    before = files(folder)
    for option in ("", "--ticks 200"):
        assert run(recorder.commands.main.main, f"resume sp.tape.1 {option}") == 2
        assert_one_line(capsys.readouterr(), "sp.tape.1: this is file 1 of sp.tape; name that one")
        assert run(recorder.commands.main.main, f"resume new.tape {option}") == 4
        assert_one_line(capsys.readouterr(), "segment 1 is missing")
    assert files(folder) == before


# --- the user's own simulation


@pytest.fixture
def own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules in the current folder."""
    (folder / "own_walks.py").write_text(
        "from small_worlds import Walkers\n"
        "class Needy(Walkers):\n    def __init__(self, n):\n        super().__init__(n=n)\n"
        "def larger():\n    return Walkers(n=21)\n"
    )
    monkeypatch.syspath_prepend(str(SUPPORT))


@pytest.mark.usefixtures("own")
def test_the_users_simulation_is_resumed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """--sim works as for replay, and the hints repeat it."""
    with Recorder("mine.tape", Walkers()) as tape:
        for _ in range(20):
            tape.step()
    assert run(recorder.commands.main.main, "resume mine.tape --sim own_walks:Walkers --ticks 50") == 0
    commands = hints(capsys.readouterr().out)
    assert commands[0] == ["replay", "seek", "mine.tape", "--sim", "own_walks:Walkers", "--tick", "25"]
    assert [follow(words) for words in commands] == [0, 0]
    live = Walkers()
    for _ in range(50):
        live.step(None)
    with Tape(Path("mine.tape")) as whole:
        assert (whole.last_tick, whole.status) == (50, "not checked")
        assert whole.state_hash(50) == live.state.hash()


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "fed.tape --sim own_walks:Walkers --ticks 9",
            "fed.tape: its inputs came from your program: continue there",
        ),
        (
            "mine.tape --sim own_walks:larger --ticks 9",
            "expected shape (20,), got shape (21,); make the simulation as it was made for the recording",
        ),
        ("mine.tape --sim own_walks:Needy --ticks 9", "mine.tape: Needy.__init__() missing 1 required positional"),
        ("mine.tape --sim own_walks:Nobody --ticks 9", "--sim own_walks:Nobody: module 'own_walks' has no attribute"),
        ("mine.tape --sim own_walks:Walkers", "mine.tape is already at tick 3: name a later tick with --ticks"),
        (
            "mine.tape --ticks 9",
            "mine.tape names no registered world: name its simulation by --sim small_worlds:Walkers, or",
        ),
    ],
)
def test_a_simulation_that_does_not_fit_gets_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, text: str
) -> None:
    """Exit code 2, nothing is written."""
    with Recorder("mine.tape", Walkers()) as mine, Recorder("fed.tape", Walkers()) as fed:
        for _ in range(3):
            mine.step()
            fed.step([[0, 1]])
    before = {name: data for name, data in files(folder).items() if "__pycache__" not in name}
    assert run(recorder.commands.main.main, f"resume {line}") == 2
    assert_one_line(capsys.readouterr(), text)
    assert {name: data for name, data in files(folder).items() if "__pycache__" not in name} == before


# --- command lines


NINES = "9" * 400


@pytest.mark.parametrize(
    ("main", "line", "text"),
    [
        (recorder.commands.main.main, "run", "SCENARIO is missing"),
        (recorder.commands.main.main, "resume", "TAPE is missing"),
        (recorder.commands.main.main, "run tiny.toml --ticks", "--ticks needs a value"),
        (recorder.commands.main.main, "run tiny.toml -o", "-o needs a value"),
        (recorder.commands.main.main, "run tiny.toml extra", "unknown argument: extra"),
        (recorder.commands.main.main, "scenarios 'a b' c", "unknown arguments: 'a b' c"),
        (replayer.commands.main.main, "seek", "expected --tick N, or --episode N with --step N"),
        (replayer.commands.main.main, "seek a.tape --tick", "--tick needs a value"),
        (replayer.commands.main.main, "verify a.tape b.tape", "unknown argument: b.tape"),
        (
            replayer.commands.main.main,
            f"seek a.tape --tick {NINES}",
            "--tick: expected an integer of at most 9,223,372,036,854,775,807",
        ),
        (
            recorder.commands.main.main,
            "run tiny.toml --ticks 99999999999999999999999",
            "--ticks: expected an integer of at most 9,223,372,036,854,775,807",
        ),
        (
            recorder.commands.main.main,
            f"run tiny.toml --ticks {'9' * 5000}",
            "--ticks: expected an integer of at most 9,223,372,036,854,775,807",
        ),
        (
            recorder.commands.main.main,
            f"run tiny.toml --ticks {10**16}",
            "expected --ticks of at most 1,000,000,000,000,000, got 10,000,000,000,000,000",
        ),
        (recorder.commands.main.main, "run tiny.toml --keep 99999999999999999999999", ": expected at most 1,"),
        (
            recorder.commands.main.main,
            f"run tiny.toml --keyframe-interval {NINES}",
            "--keyframe-interval: expected an integer of at most 9,223,",
        ),
        (recorder.commands.main.main, f"run tiny.toml --keyframe-interval {10**16}", "keyframe_interval_ticks=1"),
        (recorder.commands.main.main, f"run tiny.toml --full-every {10**16}", "full_every=1"),
        (recorder.commands.main.main, f"run tiny.toml --split {NINES}", "expected at most 1000TB"),
        (recorder.commands.main.main, "run tiny.toml --split 99999999999999999999999MB", "expected at most 1000TB"),
        (recorder.commands.main.main, "run tiny.toml --sync 0s", "sync='0s': expected a time above zero"),
    ],
)
def test_an_invalid_command_line_gets_a_clear_line(
    folder: Path, capsys: pytest.CaptureFixture[str], main: Any, line: str, text: str
) -> None:
    """Exit code 2, nothing is made; the line is short for any input."""
    assert run(main, line) == 2
    captured = capsys.readouterr()
    assert_one_line(captured, text)
    assert len(captured.err) < 250
    assert list(files(folder)) == ["tiny.toml"]


def test_help_says_what_options_cost_and_which_units_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    """For users who read nothing else."""
    assert run(recorder.commands.main.main, "run --help") == 0
    shown = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    for text in ("kB, MB, GB, TB (1000)", "KiB, MiB, GiB, TiB (1024)", "500ms, 60s, 5m or 1h", "costs a full keyframe"):
        assert text in shown
    assert "The run waits for a slow disk" in shown
    assert run(recorder.commands.main.main, "scenarios --help") == 0
    assert "Example: record scenarios" in capsys.readouterr().out
