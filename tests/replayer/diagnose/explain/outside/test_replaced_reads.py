"""What a step reads of the outside world is replaced, and named if that alone gives the recorded state."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from recorder.ambient.outside.outside_note import decode_note
from recorder.ambient.outside.outside_read import OutsideRead, content_fact
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.outside.import_reads import noting_reads
from replayer.diagnose.explain.outside.outside_variants import outside_variants
from replayer.diagnose.explain.outside.replaced_files import replace_files
from replayer.diagnose.explain.variants import Variant

from oracle.command_lines import run

pytestmark = pytest.mark.share(0.22)

PROGRAMS = """
import os
import random
from pathlib import Path

PACE = int(os.environ.get("PACE", "2"))


class Log:
    def __init__(self):
        self.days = 0

    def step(self, inputs):
        with open("days.log", "a") as file:
            file.write("day\\n")
        self.days = len(Path("days.log").read_text().splitlines())  # Log


class Flagged:
    def __init__(self):
        self.far = 0

    def step(self, inputs):
        self.far += 5 if os.path.exists("fast.on") else 1  # Flagged


class Tab:
    def __init__(self):
        self.total = 0

    def step(self, inputs):
        text = Path("tab.txt").read_text()  # Tab
        self.total += 1 + len(text)
        with open("tab.txt", "a") as file:
            file.write("x")


class Aged:
    def __init__(self):
        self.age = 0

    def step(self, inputs):
        self.age += int(os.stat("map.txt").st_mtime)  # Aged


class Paced:
    def __init__(self):
        self.far = 0

    def step(self, inputs):
        self.far += PACE  # Paced


class Rooms:
    def __init__(self):
        self.tick, self.name = 0, ""

    def step(self, inputs):
        self.tick += 1
        if self.tick == 6:
            names = sorted(os.listdir("rooms"))  # Rooms
            self.name = Path("rooms", names[len(names) // 2]).read_text()


class Dicing:
    def __init__(self):
        self.far = 0.0

    def step(self, inputs):
        if os.path.exists("quiet.on"):
            os.environ.get("HOME")
        self.far += random.random()


class Shared:
    def __init__(self):
        self.total = 0

    def step(self, inputs):
        self.total += 100 // len(os.sched_getaffinity(0)) + (os.cpu_count() or 1)  # Shared
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of all programs, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("outside_programs.py").write_text(PROGRAMS)
    monkeypatch.delitem(sys.modules, "outside_programs", raising=False)
    return importlib.import_module("outside_programs")


def play(programs: Any, name: str, trial_ms: float = 0) -> None:
    """Record 8 steps of a program."""
    with recorder.record(getattr(programs, name)(), "run.tape", step="step", quiet=True, trial_ms=trial_ms) as game:
        for _ in range(8):
            game.step(None)


def explained(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The explanation of the first bad tick of a program."""
    capsys.readouterr()
    assert run(replayer.commands.main.main, f"explain run.tape --json --sim outside_programs:{name}") == 1
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def line_of(name: str) -> int:
    """The line of a program that reads."""
    return next(number for number, text in enumerate(PROGRAMS.splitlines(), 1) if text.endswith(f"# {name}"))


@pytest.mark.seldom(0.18)
def test_a_file_that_the_step_writes_and_reads_is_named(programs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is missing, as it was at first, the step gives the recorded state."""
    play(programs, "Log")
    facts = explained("Log", capsys)

    assert facts["tick"] == 1
    assert facts["replaced"]["what"] == f"days.log (read at outside_programs.py:{line_of('Log')})"
    assert facts["replaced"]["runs"] > 1
    assert facts["cause"]["line"] == line_of("Log")


@pytest.mark.long
def test_a_file_that_is_there_now_is_named(programs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """It was missing when the run was recorded."""
    play(programs, "Flagged")
    Path("fast.on").touch()
    facts = explained("Flagged", capsys)

    assert facts["replaced"]["missing"] == ["fast.on"]
    assert facts["cause"]["line"] == line_of("Flagged")


@pytest.mark.seldom(0.3)
def test_a_file_that_was_there_and_is_missing_now_is_named(programs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What was in it is not known; where an empty one is there, the step gives the recorded state."""
    Path("fast.on").touch()
    play(programs, "Flagged")
    Path("fast.on").unlink()
    facts = explained("Flagged", capsys)

    assert (facts["replaced"]["emptied"], facts["replaced"]["missing"]) == (["fast.on"], [])
    assert facts["replaced"]["how"] == "a file is there, an empty one"
    assert (facts["cause"]["line"], not Path("fast.on").exists()) == (line_of("Flagged"), True)


@pytest.mark.seldom(0.3)
def test_a_file_that_was_empty_when_the_recording_began_is_named(
    programs: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The steps have written to it since, also those of this replay. Where it is missing, they raise."""
    Path("tab.txt").touch()
    play(programs, "Tab")
    facts = explained("Tab", capsys)

    assert (facts["tick"], facts["replaced"]["emptied"]) == (1, ["tab.txt"])
    assert facts["replaced"]["how"] == "this file is empty"
    (read,) = [one for one in facts["outside"] if one["name"] == "tab.txt"]
    assert (read["result"], read["line"]) == ("changed later", line_of("Tab"))


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.seldom(0.3)
def test_entries_that_came_or_went_are_named(programs: Any, capsys: pytest.CaptureFixture[str], *, gone: bool) -> None:
    """And no file that the step opens: without that one, too, the step may give the recorded state, by another list.

    What is gone cannot be tried.
    """
    Path("rooms").mkdir()
    for name in ("attic", "cellar", "hall", "kitchen", "tower"):
        Path("rooms", name).write_text(name)
    play(programs, "Rooms", trial_ms=1)
    for name in ("attic~", "barn"):
        Path("rooms", name).write_text("attic")
    if gone:
        Path("rooms", "tower").unlink()
    facts = explained("Rooms", capsys)

    line = line_of("Rooms")
    (read,) = [one for one in facts["outside"] if one["name"] == "rooms"]
    assert facts["tick"] == 6
    assert (read["result"], read["line"]) == ("differs", line)
    assert read["found"].endswith(f": attic~, barn new{', tower gone' if gone else ''}")
    if gone:
        assert facts["replaced"] is None
    else:
        assert (
            facts["replaced"]["what"] == f"the entries of rooms (read at outside_programs.py:{line}; attic~, barn new)"
        )
        assert facts["cause"]["line"] == line


def test_a_file_that_was_there_is_not_tried_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor as empty, if it was not; nor one of a folder that the step lists: it would be the list that is tried."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rooms").mkdir()
    for name in ("map.txt", "rooms/hall"):
        (tmp_path / name).write_text("x")
    read = OutsideRead("file", "map.txt", str(tmp_path / "game.py"), 3, content_fact("map.txt"))
    inside = [
        OutsideRead(kind, name, "game.py", 4, None) for kind, name in (("folder", "rooms"), ("file", "rooms/hall"))
    ]

    def tried(reads: list[OutsideRead], fact: str | None) -> list[str]:
        note = decode_note({"named": [["file", "map.txt", fact]]} if fact is not None else None)
        return [one.label for one in outside_variants(Variant("now"), reads, [], note)]

    assert tried([read], None) == ["map.txt missing", "map.txt empty"]
    assert tried([read], "9 00ff") == []
    assert tried([read], "0 00ff") == ["map.txt missing", "map.txt empty"]
    assert tried([read], "absent") == ["map.txt missing", "map.txt empty"]
    assert tried(inside, None) == []
    assert tried(inside[1:], None) == ["rooms/hall missing"]


PLAY_AGED = """
import outside_programs, recorder
with recorder.record(outside_programs.Aged(), "run.tape", step="step", quiet=True) as game:
    for _ in range(8):
        game.step(None)
"""


@pytest.mark.long
@pytest.mark.usefixtures("programs")
def test_the_time_of_a_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The recording noted it; with that time the step gives the recorded state."""
    Path("map.txt").write_text("hills")
    subprocess.run([sys.executable, "-c", PLAY_AGED], check=True)
    os.utime("map.txt", (1_600_000_000, 1_600_000_000))
    facts = explained("Aged", capsys)

    assert facts["replaced"]["what"].startswith("the time at which map.txt was changed")
    assert facts["cause"]["line"] == line_of("Aged")


@pytest.mark.long
def test_a_variable_that_a_module_reads_on_import_is_named(
    programs: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is not set, the step gives the recorded state."""
    play(programs, "Paced")
    monkeypatch.setenv("PACE", "7")
    importlib.reload(programs)
    facts = explained("Paced", capsys)

    assert facts["replaced"]["what"].startswith("the environment variable PACE (read on import at outside_programs.py:")
    assert facts["cause"]["line"] == line_of("Paced")


@pytest.mark.seldom(0.3)
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tell them")
def test_a_recorded_number_of_processors_is_told_to_the_step(
    programs: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process here can have as many; the step gives the recorded state where it is told so."""
    many = {*range(len(os.sched_getaffinity(0)) + 3)}
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: many)
        play(programs, "Shared")
    facts = explained("Shared", capsys)

    assert facts["replaced"]["counts"] == {"os.sched_getaffinity": len(many)}
    assert facts["replaced"]["how"] == f"it is the recorded one, {len(many)}"
    assert facts["cause"]["line"] == line_of("Shared")


@pytest.mark.long
def test_what_makes_no_difference_is_not_named(programs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The step draws numbers without a seed; that it asks for a file and a variable does not matter."""
    play(programs, "Dicing")
    Path("quiet.on").touch()
    facts = explained("Dicing", capsys)

    assert facts["replaced"] is None
    assert "quiet.on" not in json.dumps(facts["cause"])


def test_a_missing_file_can_be_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is opened. What is raised has the path that was given, and the file does not change."""
    monkeypatch.chdir(tmp_path)
    Path("kept.txt").write_text("kept")
    Path("old.txt").write_text("old")
    empty = tmp_path / "empty"
    empty.mkdir()

    def replaced() -> dict[str, Any]:
        replace_files(["kept.txt"], {"old.txt": 5_000_000_000}, empty, lambda _: False)
        found: dict[str, Any] = {"there": [os.path.exists("kept.txt"), Path("kept.txt").is_file()]}  # noqa: PTH110
        try:
            open("kept.txt").close()  # noqa: PTH123 - each way of asking
        except FileNotFoundError as error:
            found["raised"] = error.filename
        with open("kept.txt", "a") as file:  # noqa: PTH123
            file.write("one")
        with Path("kept.txt").open("a") as file:
            file.write("two")
        Path("kept.txt").rename("other.txt")
        other = Path("other.txt").read_text()
        Path("other.txt").unlink()
        found["age"] = os.path.getmtime("old.txt")  # noqa: PTH204
        times = [Path("old.txt").stat().st_mtime_ns, Path("old.txt").stat().st_size]
        return found | {"other": other, "times": times}

    assert in_a_copy(replaced) == {
        "there": [False, False],
        "raised": "kept.txt",
        "other": "onetwo",
        "age": 5.0,
        "times": [5_000_000_000, 3],
    }
    assert Path("kept.txt").read_text() == "kept"


def test_a_path_that_cannot_be_inspected_is_no_file() -> None:
    """Such as one in a folder that the user may not read, or a name that is too long."""
    read = OutsideRead("file", "a" * 5000, "game.py", 3, None)
    note = decode_note(None)
    [variant] = outside_variants(Variant("now"), [read], [], note)
    assert variant.replaced is not None
    assert variant.replaced.how == "a file is there, an empty one"


def test_variables_read_on_import_are_noted_with_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each way of asking; what Python's own modules read is not."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("FIRST", "1")
    (tmp_path / "asks_on_import.py").write_text(
        "import os\nA = os.environ['FIRST']\nB = os.getenv('SECOND')\nC = os.environ.get('THIRD', 3)\nimport tempfile\n"
        "D = tempfile.gettempdir()\n"
    )
    with noting_reads() as reads:
        importlib.import_module("asks_on_import")

    assert [(read.name, read.line) for read in reads] == [("FIRST", 2), ("SECOND", 3), ("THIRD", 4)]


def test_an_empty_file_stands_for_one_that_is_there_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the step writes to it, or removes it; the files themselves do not change."""
    monkeypatch.chdir(tmp_path)
    Path("kept.txt").write_text("kept")

    def watched() -> dict[str, Any]:
        folder = tmp_path / "empty"
        folder.mkdir()
        replace_files([], {}, folder, lambda _: False, ["kept.txt", "none.txt"])
        found: list[Any] = [(Path(name).exists(), Path(name).read_text()) for name in ("kept.txt", "none.txt")]
        Path("kept.txt").write_text("new")
        os.remove("none.txt")  # noqa: PTH107
        return {"found": [*map(list, found), Path("kept.txt").read_text(), Path("none.txt").exists()]}

    assert in_a_copy(watched)["found"] == [[True, ""], [True, ""], "new", False]
    assert (Path("kept.txt").read_text(), Path("none.txt").exists()) == ("kept", False)


def test_lists_of_a_folder_leave_out_a_missing_file_until_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By os, glob or a path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shelf").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "shelf" / name).write_text(name)
    (tmp_path / "empty").mkdir()

    def listed() -> list[list[str]]:
        with os.scandir("shelf") as entries:
            scanned = sorted(entry.name for entry in entries)
        globbed = sorted(path.name for path in Path("shelf").glob("*.txt"))
        return [sorted(os.listdir("shelf")), scanned, globbed]  # noqa: PTH208 - each way of asking

    def replaced() -> dict[str, Any]:
        replace_files(["shelf/b.txt"], {}, tmp_path / "empty", lambda _: False)
        without = listed()
        Path("shelf/b.txt").write_text("new")
        return {"without": without, "with": listed()}

    found = in_a_copy(replaced)
    assert found == {"without": [["a.txt"]] * 3, "with": [["a.txt", "b.txt"]] * 3}
    assert (tmp_path / "shelf" / "b.txt").read_text() == "b.txt"
