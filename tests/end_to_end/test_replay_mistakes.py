"""Mistakes outside a tape, or with an almost empty tape, get one line, the right exit code, and leave no files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import recorder.commands.main
import recorder.console.progress
import replayer.commands.main
import replayer.tape.npz
from recorder import Recorder
from recorder.format.blocks.block import BlockKind
from recorder.storage.tape_copy import TapeCopy
from replayer.follow.idle_wait import Waiting
from replayer.value_text import field_lines

from oracle.command_lines import TINY, assert_one_line, files, run
from oracle.hostile_tapes import Still, frames, full, write_tape
from oracle.second_reader import FRAMES, Reader
from project_paths import SOURCES, SUPPORT

pytestmark = pytest.mark.share(0.18)

REPLAY = [sys.executable, "-c", "import replayer.commands.main; replayer.commands.main.main()"]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recording of the tiny scenario."""
    folder = tmp_path_factory.mktemp("recording")
    (folder / "tiny.toml").write_text(TINY)
    line = f"run {folder}/tiny.toml -q -o {folder}/a.tape --keyframe-interval 20 --full-every 3 --deterministic"
    assert run(recorder.commands.main.main, line) == 0
    return (folder / "a.tape").read_bytes()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: bytes) -> Path:
    """Each test works in a folder with that recording as a.tape."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tape").write_bytes(recording)
    return tmp_path


def cut(size: int, name: str = "cut.tape") -> None:
    """Write only the first bytes of the tape."""
    Path(name).write_bytes(Path("a.tape").read_bytes()[:size])


# --- tapes with next to nothing in them


@pytest.mark.parametrize(("size", "code"), [(0, 5), (40, 5), (64, 3), (70, 3), (500, 3)])
@pytest.mark.parametrize("line", ["info", "repair", "seek --tick 500", "verify", "tail --no-follow"])
def test_a_tape_without_any_state(capsys: pytest.CaptureFixture[str], size: int, code: int, line: str) -> None:
    """All commands agree on the exit code: 5 if it is not a tape, 3 if it stopped before its first keyframe."""
    cut(size)
    command, _, rest = line.partition(" ")
    assert run(replayer.commands.main.main, f"{command} cut.tape {rest}") == code
    captured = capsys.readouterr()
    assert "tick 0" not in captured.out + captured.err
    assert "all 0 ticks" not in captured.out
    if code == 5:
        why = "this is not a tape" if size else "this is not a tape: the file is empty"
        assert captured.err == f"error: cut.tape: {why}\n"
    elif command in {"repair", "seek"}:
        assert_one_line(captured, "cut.tape: the recording stopped before its first keyframe was written: there is no")


def test_a_file_that_is_not_a_tape_shows_none_of_its_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """A file given by mistake may be secret."""
    Path("secret.txt").write_text("root:x:0:0\n" * 20)
    assert run(replayer.commands.main.main, "info secret.txt") == 5
    assert capsys.readouterr().err == "error: secret.txt: this is not a tape\n"


# --- the system says no


def start(line: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run replay as a process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), str(SUPPORT)])}
    return subprocess.run(
        [*REPLAY, *line.split()], stderr=subprocess.PIPE, text=True, env=environment, check=False, **options
    )


@pytest.mark.sample(2)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("line", ["info a.tape", "tail a.tape --last 80", "info a.tape --json"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_of_the_output_is_named(monkeypatch: pytest.MonkeyPatch, line: str, unbuffered: str) -> None:
    """Python itself would print a message at its end, and exit with code 120."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path("/dev/full").open("w") as full_disk:
        finished = start(line, stdout=full_disk)
    assert finished.stderr == "error: standard output: No space left on device\n"
    assert finished.returncode == 2


def refuse(*_: Any, **__: Any) -> None:
    """Raise the error of a full disk, which has no file name when os.write raises it."""
    raise OSError(28, "No space left on device")


def test_a_repair_onto_a_full_disk_names_the_new_tape(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names it, and no file is left."""
    before = files(folder)
    monkeypatch.setattr(TapeCopy, "frames", refuse)
    assert run(replayer.commands.main.main, "repair a.tape -o b.tape") == 2
    assert_one_line(capsys.readouterr(), "error: b.tape: No space left on device")
    assert files(folder) == before


def test_a_state_is_written_completely_or_not_at_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An existing file stays as it was."""
    Path("s.npz").write_bytes(b"an older one")
    before = files(folder)

    def write_half(path: Path, _: Any) -> None:
        path.write_bytes(b"half")
        refuse()

    monkeypatch.setattr(replayer.tape.npz, "write_state", write_half)
    assert run(replayer.commands.main.main, "seek a.tape --tick 5 -o s.npz") == 2
    assert_one_line(capsys.readouterr(), "error: s.npz: No space left on device")
    assert files(folder) == before


@pytest.mark.parametrize("line", ["info", "seek --tick 5", "verify", "verify --fast", "tail", "repair"])
def test_a_tape_that_may_not_be_read_is_a_mistake_of_its_user(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    """Exit code 2: what the file holds is unknown."""
    real = os.open

    def denied(path: Any, *more: Any, **options: Any) -> int:
        if str(path).endswith("a.tape"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *more, **options)

    monkeypatch.setattr(os, "open", denied)
    command, _, rest = line.partition(" ")
    assert run(replayer.commands.main.main, f"{command} a.tape {rest}") == 2
    assert_one_line(capsys.readouterr(), "error: a.tape: Permission denied")


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (replayer.commands.main.main, "tree shut"),
        (replayer.commands.main.main, "extract shut -o data"),
        (recorder.commands.main.main, "checkpoints shut"),
    ],
)
def test_a_folder_that_may_not_be_read_is_not_taken_for_an_empty_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], main: Any, line: str
) -> None:
    real = os.scandir

    def denied(path: Any = ".") -> Any:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    Path("shut").mkdir()
    monkeypatch.setattr(os, "scandir", denied)
    assert run(main, line) == 2
    assert_one_line(capsys.readouterr(), "error: shut: Permission denied")


# --- JSON


@pytest.mark.parametrize(
    ("line", "code"),
    [("info nothing.tape", 2), ("seek a.tape --tick 500", 2), ("verify a.tape --jobs no", 2), ("info tiny.txt", 5)],
)
def test_mistakes_as_json(capsys: pytest.CaptureFixture[str], line: str, code: int) -> None:
    """The JSON on stdout has the line of stderr and the exit code."""
    Path("tiny.txt").write_text("no tape")
    assert run(replayer.commands.main.main, f"{line} --json") == code
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"error": captured.err.removeprefix("error: ").rstrip("\n"), "exit_code": code}


class Drifting(Still):
    """Changes at each step."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        self.state["x"][:] += 1


def drifting() -> Drifting:
    """A factory for --sim."""
    return Drifting()


def test_a_desync_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON has the tick, the fields and the dump."""
    monkeypatch.setattr("oracle.hostile_tapes.Still", Drifting)
    write_tape(Path("s.tape"), [*full(0), frames(1, 3), *full(3), frames(4, 3)])
    assert run(replayer.commands.main.main, "seek s.tape --tick 2 --json --sim oracle.hostile_tapes:Still") == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["exit_code"], facts["first_bad"], facts["fields"]) == (1, 1, ["x"])
    assert Path(facts["dump"]).is_dir()


def test_a_picture_and_json_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """The picture would be dropped silently."""
    assert run(replayer.commands.main.main, "seek a.tape --tick 5 --json --picture") == 2
    assert "--picture cannot be printed as JSON" in capsys.readouterr().err


# --- hints


def test_hints_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a blank is quoted; the step after a repair repeats its --sim."""
    name = "neu name.tape"
    last = [block for block in Reader(Path("a.tape").read_bytes()).blocks if block.kind == FRAMES][-1]
    cut(last.offset, name)
    assert run(replayer.commands.main.main, f"info '{name}'") == 3
    assert capsys.readouterr().out.endswith("next: record resume 'neu name.tape'  # continues where it stopped\n")

    write_tape(Path("s.tape"), [*full(0), frames(1, 3)], sealed=False)
    sim = "--sim oracle.hostile_tapes:Still"
    assert run(replayer.commands.main.main, f"repair s.tape -o '{name}2' {sim}") == 0
    assert capsys.readouterr().out.endswith(f"next: replay verify '{name}2' {sim}\n")


def test_junk_after_a_sealed_tape_is_removed_by_a_repair(capsys: pytest.CaptureFixture[str]) -> None:
    """Such a tape cannot be resumed, but copied."""
    with Path("a.tape").open("ab") as file:
        file.write(b"junk")
    assert run(replayer.commands.main.main, "info a.tape") == 3
    assert capsys.readouterr().out.endswith("next: replay repair a.tape\n")
    assert run(replayer.commands.main.main, "repair a.tape") == 0
    assert run(replayer.commands.main.main, "info a-repaired.tape") == 0


def test_a_later_file_alone_is_not_to_be_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    """The recording would continue without its beginning."""
    with Recorder("s.tape", Still(), split=800, keyframe_interval_ticks=4) as tape:
        for tick in range(60):
            tape.step(tick)
            tape.flush()
    data = Path("s.tape.1").read_bytes()
    end = next(block for block in Reader(data, 1).blocks if block.kind == BlockKind.END)
    Path("alone.tape").write_bytes(data[: end.offset])
    assert run(replayer.commands.main.main, "info alone.tape") in {3, 4}
    assert "resume" not in capsys.readouterr().out


def test_each_damage_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A damage is not listed as an error again."""
    data = bytearray(Path("a.tape").read_bytes())
    data[10] ^= 1
    Path("a.tape").write_bytes(data)
    assert run(replayer.commands.main.main, "info a.tape") == 4
    assert capsys.readouterr().out.count("the checksum of the file header is wrong") == 1


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ({"reason": "exception", "exception": "ValueError: boom"}, "by ValueError: boom"),
        (
            {"reason": "exception", "exception": "ValueError: boom", "step": {"tick": 7, "inputs": [3]}},
            "by ValueError: boom, in the step to tick 7",
        ),
        ({"reason": "ticks", "ticks": 900}, "after 900 ticks, as requested"),
        ({"reason": "ticks", "ticks": 1}, "after 1 tick, as requested"),
        ({"reason": "written out"}, "written out of a recording that continued"),
        ({"reason": "tea", "cups": 2}, "tea, cups: 2"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_how_a_recording_ended_in_words(capsys: pytest.CaptureFixture[str], outcome: Any, text: str) -> None:
    """Outcomes are printed in words, not as dictionaries."""
    write_tape(Path("s.tape"), [*full(0), frames(1, 3)], outcome=outcome)
    assert run(replayer.commands.main.main, "info s.tape") == 0
    assert f"  ended: {text}\n" in capsys.readouterr().out


# --- fields, choosing, waiting


def test_the_name_of_a_table_suggests_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns of other tables are not suggested."""
    assert run(replayer.commands.main.main, "seek a.tape --tick 5 --field plants") == 2
    line = capsys.readouterr().err
    assert "did you mean plants." in line
    assert "climate" not in line


def test_a_field_that_cannot_be_drawn_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A different layer instead would mislead."""
    with Recorder("s.tape", Still(), keyframe_interval_ticks=4) as tape:
        tape.step(1)
    sim = "--sim oracle.hostile_tapes:Still"
    assert run(replayer.commands.main.main, f"seek s.tape --tick 1 --field x --picture {sim}") == 2
    assert_one_line(capsys.readouterr(), "--picture needs a field of two dimensions: x has 1 dimension")


def test_many_values_are_shortened_for_a_terminal() -> None:
    """The first and the last values and their number are shown; few values, or all on request, in full."""
    many = np.arange(400)
    assert field_lines(many, whole=False) == [
        "[  0   1   2 ... 397 398 399]",
        "(400 values; --all shows every one)",
    ]
    assert " 1000 1001 " in " ".join(" ".join(field_lines(np.arange(4000), whole=True)).split())
    assert field_lines(np.arange(4), whole=False) == ["[0 1 2 3]"]


def test_the_newest_file_that_is_a_tape_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """Folders and empty files are skipped."""
    Path("recordings/foo.tape").mkdir(parents=True)
    Path("a.tape").rename("recordings/a.tape")
    Path("recordings/zz.tape").touch()
    os.utime("recordings/a.tape", (1, 1))
    assert run(replayer.commands.main.main, "info") == 0
    assert capsys.readouterr().out.startswith("recordings/a.tape: intact")


def test_a_tail_without_a_recording_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The note is printed once, and not during a recording."""
    now = [0.0]
    waiting = Waiting(Path("live.tape"), sleep=lambda s: now.__setitem__(0, now[0] + s), clock=lambda: now[0])
    with Recorder("live.tape", Still()) as tape:
        tape.step(1)
        waiting(1.0)
        assert capsys.readouterr().err == ""
    for _ in range(20):
        waiting(1.0)
    assert capsys.readouterr().err == "note: no process is recording live.tape; waiting (Ctrl-C to stop)\n"


@pytest.mark.parametrize("width", [30, 80])
def test_numbers_of_a_progress_bar_are_whole_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    """The bar is shortened first."""
    monkeypatch.setattr(
        recorder.console.progress, "_terminal", lambda: Console(width=width, force_terminal=True, stderr=True)
    )
    with recorder.console.progress.progress_bar("verifying", 100_000, quiet=False) as show:
        show(12_345)
    assert "12345/100000" in capsys.readouterr().err
