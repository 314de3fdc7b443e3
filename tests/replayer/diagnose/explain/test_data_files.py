"""A file that is no Python code, of which two versions of the code have different ones: B finds that of A in its place."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import recorder
import replayer.commands.main
from replayer.diagnose.explain.data_files.differing_files import Hunk, beside_the_code, hunks_of, lines_of, with_hunk

from oracle.command_lines import run

pytestmark = pytest.mark.share(0.4)

RULES = """import json
import pkgutil
from pathlib import Path

HERE = Path(__file__).parent
TOLLS = json.loads((HERE / "data" / "tolls.json").read_text())


def tide():
    return (HERE / "data" / "tide.bin").read_bytes()[1]


def is_fair():
    return (HERE / "fair.txt").exists()


def name():
    return len(pkgutil.get_data("ferry_rules", "name.txt"))
"""
FERRY = """
from ferry_rules import TOLLS, is_fair, name, tide


class Ferry:
    def __init__(self):
        self.paid, self.day = 0, 0

    def step(self, inputs):
        self.day += 1
        if self.day > 2:
            self.paid += __USED__
"""
TOLLS = '{\n  "cow": 3,\n  "cart": 5,\n  "sheep": 1\n}\n'
DATA = {"data/tolls.json": TOLLS.encode(), "data/tide.bin": b"\0\1\2\xff", "name.txt": b"Ida", "notes.txt": b"old"}


@pytest.mark.parametrize(
    ("file", "content", "used", "told"),
    [
        (
            "data/tolls.json",
            TOLLS.replace("3", "4").replace("1", "2").encode(),
            "TOLLS['sheep']",
            [
                "cause: the two versions of the code differ in this line of a file that is not Python",
                "  then/data/tolls.json:4 (A)",
                '      "sheep": 1',
                '      "sheep": 2',
                "  the step first reads something that differs in",
                "  tested: with data/tolls.json:4 of A alone, B gives the state of A",
            ],
        ),
        (
            "data/tolls.json",
            TOLLS.replace("3", "4").replace("1", "2").encode(),
            "TOLLS['sheep'] + 2 * TOLLS['cow']",
            [
                "cause: the two versions of the code differ in this file, which is not Python, in this line first",
                '      "cow": 3,',
                "  tested: with data/tolls.json of A alone, B gives the state of A",
            ],
        ),
        (
            "data/tide.bin",
            b"\0\3\2\xff",
            "tide()",
            [
                "cause: the two versions of the code differ in this file, which is not Python",
                "  then/data/tide.bin (A)",
                "  tested: with data/tide.bin of A alone, B gives the state of A",
            ],
        ),
        (
            "fair.txt",
            b"today",
            "is_fair()",
            [
                "cause: only one version of the code, B, has this file, which is not Python",
                "  fair.txt (B)",
                "  tested: without fair.txt alone, B gives the state of A",
            ],
        ),
        (
            "name.txt",
            b"Berta",
            "name()",
            ["  name.txt:1 (B)", "  tested: with name.txt of A alone, B gives the state of A"],
        ),
    ],
    ids=["a line", "two lines", "no text", "a new file", "data of a package"],
)
def test_a_file_beside_the_code_is_exchanged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    content: bytes,
    used: str,
    told: list[str],
) -> None:
    """Read as modules are loaded, or in the step; another file that differs is not named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for folder in ("", "then"):
        for name, text in {"ferry_rules.py": RULES, "ferry_yard.py": FERRY.replace("__USED__", used), **DATA}.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for name in ("ferry_rules", "ferry_yard"):
        sys.modules.pop(name, None)
    ferry = recorder.record(importlib.import_module("ferry_yard").Ferry(), "run.tape", step="step", trial_ms=0)
    for _ in range(4):
        ferry.step(None)
    ferry.close()
    for name in ("ferry_rules", "ferry_yard"):
        del sys.modules[name]
    Path(file).write_bytes(content)
    Path("a-note.txt").write_text("new")
    Path("notes.txt").write_text("new")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file() and path.suffix != ".pyc"}

    assert run(replayer.commands.main.main, "explain run.tape --sim ferry_yard:Ferry --code then") == 1
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert [one for one in told if one not in lines] == []
    assert "notes.txt" not in printed, printed
    assert "a-note.txt" not in printed
    after = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file() and path.suffix != ".pyc"}
    assert after == before


def test_files_at_one_place_are_compared(tmp_path: Path) -> None:
    """Those of the other version that lie in this one's folder, code and recordings are left out."""
    for name, text in (
        *(("old/game/rules.txt", "1"), ("old/game/code.py", "a"), ("old/same.txt", "s"), ("old/gone.txt", "g")),
        *(("game/rules.txt", "2"), ("game/code.py", "b"), ("same.txt", "s"), ("run.tape", "t"), ("new.txt", "n")),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    modules = {"game.code": (str(tmp_path / "old" / "game" / "code.py"), str(tmp_path / "game" / "code.py"))}
    found = beside_the_code(str(tmp_path / "old"), modules)
    names = [str(Path(second).relative_to(tmp_path)) for _, second in found]
    assert names == ["gone.txt", "game/rules.txt", "new.txt"]
    assert all(Path(first).is_relative_to(tmp_path / "old") for first, _ in found)


def test_each_place_of_a_text_can_be_put_back(tmp_path: Path) -> None:
    """Lines of as many are taken one by one; others together."""
    first, second = "a\nb\nc\nd\n", "a\nB\nC\nd\ne\nf\n"
    for name, text in (("first", first), ("second", second)):
        (tmp_path / name).write_text(text)
    own, other = (lines_of(str(tmp_path / name)) or [] for name in ("first", "second"))
    hunks = hunks_of(own, other)
    assert hunks == [Hunk((1, 2), (1, 2)), Hunk((2, 3), (2, 3)), Hunk((4, 4), (4, 6))]
    mixed = [with_hunk(own, other, one) for one in hunks]
    assert mixed == ["a\nb\nC\nd\ne\nf\n", "a\nB\nc\nd\ne\nf\n", "a\nB\nC\nd\n"]
    (tmp_path / "first").write_bytes(b"\0\1")
    assert lines_of(str(tmp_path / "first")) is None
