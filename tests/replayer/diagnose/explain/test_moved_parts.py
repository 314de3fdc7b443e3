"""Two versions of a module in which parts have moved, or are laid out in another way: the lines that are named correspond."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from replayer.diagnose.explain.line_pairs.edited_parts import lines_that_differ
from replayer.diagnose.explain.line_pairs.line_map import LineMap
from replayer.diagnose.explain.line_pairs.source_functions import functions_of
from replayer.diagnose.explain.source_lines import SourceFile

from oracle.command_lines import run

LOOM = """

class Loom:
    def __init__(self):
        self.cloth, self.hour = 0, 0

    def step(self, inputs):
        self.hour += 1
        if self.hour > 2:
            {weave}
"""


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def explained(capsys: pytest.CaptureFixture[str], old: dict[str, str], new: dict[str, str]) -> dict[str, Any]:
    """Record a Loom with the old modules, and explain the difference to the new ones."""
    Path("old").mkdir()
    for name, text in old.items():
        Path("old", f"{name}.py").write_text(text)
        Path(f"{name}.py").write_text(text)
    for name in old.keys() | new.keys():
        sys.modules.pop(name, None)
    loom = recorder.record(importlib.import_module("loom").Loom(), "run.tape", step="step", trial_ms=0)
    for _ in range(5):
        loom.step(None)
    loom.close()
    for name in old.keys() | new.keys():
        sys.modules.pop(name, None)
        Path(f"{name}.py").unlink(missing_ok=True)
    for name, text in new.items():
        Path(f"{name}.py").write_text(f"{text}# The new version has another size than the old one.\n")
    importlib.invalidate_caches()
    assert run(replayer.commands.main.main, "explain run.tape --json --sim loom:Loom --code old") == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def texts(cause: dict[str, Any]) -> tuple[str, str]:
    """Of both versions, the text of the line, which is checked to be in the file at that place."""
    for place in (cause, cause["other"]):
        assert Path(place["file"]).read_text().splitlines()[place["line"] - 1].strip() == place["text"]
    return cause["text"], cause["other"]["text"]


def test_a_default_of_a_function_that_stands_elsewhere_now(capsys: pytest.CaptureFixture[str]) -> None:
    """The head of the function is named in both, though its body was rewritten, too, and another one took its place."""
    old = (
        'def beat(rows, limit=9):\n    """Rows that are beaten."""\n    beaten = rows * 4\n    return min(limit, beaten)\n\n\n'
        "def warp(threads):\n    return threads\n\n\ndef trim(rows, size=2):\n    return rows // size\n"
    )
    new = (
        "def trim(rows, size=3):\n    return rows // size\n\n\ndef warp(threads):\n    return threads\n\n\n"
        'def beat(rows, limit=7):\n    """Rows that are beaten."""\n    return min(limit, rows * 4)\n'
    )
    loom = LOOM.format(weave="self.cloth += beat(3) + trim(4, size=2)")
    found = explained(capsys, {"loom": old + loom}, {"loom": new + loom})
    assert found["functions"]["names"] == ["beat"]
    assert found["cause"]["kind"] == "function"
    assert texts(found["cause"]) == ("def beat(rows, limit=9):", "def beat(rows, limit=7):")


def test_a_docstring_and_a_comment_are_no_lines_to_name() -> None:
    """The line that differs in what it does stands behind both."""
    for name, word, number in (("first.py", "Old", -1), ("second.py", "New", 0)):
        text = f'def beat(rows: int):\n    """{word} rows."""\n    # {word}.\n    return [rows, 4][{number}]\n'
        Path(name).write_text(text.replace("rows: int", "rows") if number else text)
    sources = SourceFile("first.py"), SourceFile("second.py")
    one, other = (functions_of(source.tree)["beat"] for source in sources)
    assert lines_that_differ(one, other, LineMap(*sources)) == (4, 4)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            'YARNS = {\n    "silk": 1,\n    "wool": 2,\n    "flax": 5,\n}\n',
            'DYES = 3\nYARNS = {\n    "flax": 5,\n    "wool": 4,\n    "silk": 1,\n}\n',
            ('"wool": 2,', '"wool": 4,'),
        ),
        (
            'YARNS = {"silk": 1, "wool": 2, "flax": 5}\n',
            'YARNS = {\n    "silk": 1,\n    "wool": 4,\n    "flax": 5,\n}\n',
            ('YARNS = {"silk": 1, "wool": 2, "flax": 5}', '"wool": 4,'),
        ),
        (
            'DYES = 3\nYARNS = {"silk": 1, "wool": 2}\n',
            'YARNS = {"silk": 1, "wool": 2.0}\nDYES = 3\n',
            ('YARNS = {"silk": 1, "wool": 2}', 'YARNS = {"silk": 1, "wool": 2.0}'),
        ),
        (
            'DYES = 3\nYARNS = {"silk": 1, "wool": 2}\n',
            'YARNS = {\n    "wool": 2,\n    "silk": 1,\n}\nDYES = 3\n',
            ('YARNS = {"silk": 1, "wool": 2}', "YARNS = {"),
        ),
    ],
    ids=["in another order", "in several lines", "of another type", "in no other way than the order"],
)
def test_the_entry_of_a_table_is_named_in_both_versions(
    capsys: pytest.CaptureFixture[str], old: str, new: str, expected: tuple[str, str]
) -> None:
    """Or the table, if no entry alone differs. Values are compared as they are written: 2 and 2.0 are equal."""
    weave = 'self.cloth = self.cloth * 2 + YARNS["wool"] + list(YARNS).index("wool") * 10'
    loom = LOOM.format(weave=weave)
    cause = explained(capsys, {"loom": old + loom}, {"loom": new + loom})["cause"]
    assert cause["kind"] == "edited"
    assert texts(cause) == expected
    assert cause["read_at"]["text"] == weave


@pytest.mark.parametrize(
    ("weave", "is_by_key"),
    [
        ('self.cloth += YARNS["wool"]["red"]', True),
        ('self.cloth += YARNS["wool"]["red"] + len(YARNS)', False),
        ('self.cloth += sum(YARNS["wool"].values())', False),
    ],
    ids=["by keys", "with its length", "all of an entry"],
)
def test_an_entry_that_one_version_alone_has_is_not_read_by_keys(
    capsys: pytest.CaptureFixture[str],
    weave: str,
    is_by_key: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The one that both have and that differs is named; the table, where the step may read the others in another way."""
    old = 'YARNS = {\n    "wool": {\n        "red": 1,\n    },\n}\n'
    new = 'YARNS = {\n    "wool": {\n        "red": 2,\n        "blue": 7,\n    },\n    "silk": {"red": 3},\n}\n'
    loom = LOOM.format(weave=weave)
    cause = explained(capsys, {"loom": old + loom}, {"loom": new + loom})["cause"]
    assert cause["kind"] == "edited"
    if is_by_key:
        assert texts(cause) == ('"red": 1,', '"red": 2,')
    else:
        assert texts(cause) in [("YARNS = {", "YARNS = {"), ('"wool": {', '"wool": {')]


BEAT = "\n\ndef beat(draw, rows):\n    return sum(draw(row) for row in range(rows))\n"
BEAT_REWRITTEN = "\n\ndef beat(draw, rows):\n    total = 0\n    for row in range(rows):\n        total += draw(row)\n    return total\n"
WEAVE = "self.cloth += beat(self.draw, 3) + YARNS[self.yarn]\n\n    def draw(self, row):\n        return row"
BESIDE = LOOM.replace("0, 0\n", '0, 0\n        self.yarn = "wool"\n').format(weave=WEAVE)
TABLE = 'YARNS = {"silk": 1, "wool": 2}\n'
ENTRIES = 'YARNS = {}\nfor name, weight in (("silk", 1), ("wool", 2)):\n    YARNS[name] = weight\n'


def test_a_table_is_tested_behind_a_rewritten_function_without_effect(capsys: pytest.CaptureFixture[str]) -> None:
    """It is in a module of another name, too; which of the two is the cause is what the test shows."""
    old = {"tables": TABLE, "loom": f"from tables import YARNS{BEAT}{BESIDE}"}
    new = {
        "yarns": 'YARNS = {\n    "silk": 1,\n    "wool": 4,\n}\n',
        "loom": f"from yarns import YARNS{BEAT_REWRITTEN}{BESIDE}",
    }
    found = explained(capsys, old, new)
    assert found["functions"] == {"names": ["YARNS"], "removed": [], "has_effect": True, "brought": []}
    assert texts(found["cause"]) == (TABLE.strip(), '"wool": 4,')
    assert found["cause"]["read_at"]["text"].startswith("self.cloth += beat(")
    assert run(replayer.commands.main.main, "explain run.tape --sim loom:Loom --code old --tick 3") == 1
    printed = capsys.readouterr().out
    assert "cause: the two versions of the code differ in this line" in printed
    assert "tested: with YARNS of A alone, B gives the state of A" in printed


def test_a_value_that_an_edited_function_made_at_the_import(capsys: pytest.CaptureFixture[str]) -> None:
    """It is made again with the function as A has it: the function alone has no effect on what was made before."""
    old = "def spun(limit):\n    return [n for n in range(limit + 1)]\n\n\nYARNS = spun(5)\n"
    loom = "from spinning import YARNS\n" + LOOM.format(weave="self.cloth += YARNS[-1]")
    new = old.replace("limit + 1", "limit")
    found = explained(capsys, {"spinning": old, "loom": loom}, {"spinning": new, "loom": loom})
    assert (found["cause"]["kind"], found["functions"]["names"]) == ("function", ["spun"])
    assert texts(found["cause"])[0] == "return [n for n in range(limit + 1)]"
    assert run(replayer.commands.main.main, "explain run.tape --sim loom:Loom --code old --tick 3") == 1
    assert "the step reads what this changes first in" in capsys.readouterr().out


def test_a_value_without_an_effect_is_not_called_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """The line reads an edited constant, and a table that a loop fills, of which nothing is tested."""
    loom = LOOM.format(weave="self.cloth += YARNS['wool'] + min(TOP, 1)")
    new = (ENTRIES + "TOP = 7\n").replace('"wool", 2', '"wool", 4')
    found = explained(capsys, {"loom": f"{ENTRIES}TOP = 5\n{loom}"}, {"loom": new + loom})
    assert found["functions"] == {"names": [], "removed": [], "has_effect": False, "brought": []}
    assert run(replayer.commands.main.main, "explain run.tape --sim loom:Loom --code old --tick 3") == 1
    printed = capsys.readouterr().out
    assert "the cause is not known: the value as A has it, put into B alone, has no effect" in printed
    assert "cause: the two" not in printed


def test_what_was_not_tested_between_two_versions_is_not_called_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """No statement gives the table the value that differs."""
    loom = LOOM.format(weave="self.cloth += YARNS['wool']")
    new = ENTRIES.replace('"wool", 2', '"wool", 4')
    assert explained(capsys, {"loom": ENTRIES + loom}, {"loom": new + loom})["cause"]["kind"] == "version"
    assert run(replayer.commands.main.main, "explain run.tape --sim loom:Loom --code old --tick 3") == 1
    printed = capsys.readouterr().out
    assert "first difference: this line reads a value that is not in the state, and that differed before" in printed
    assert "not tested whether that makes the difference" in printed


def test_that_the_cause_is_not_known_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The rewritten function gives what it gave before: no value of it is said to differ."""
    old, new = f"{ENTRIES}{BEAT}{BESIDE}", f"{ENTRIES}{BEAT_REWRITTEN}{BESIDE}".replace('"wool", 2', '"wool", 4')
    explained(capsys, {"loom": old}, {"loom": new})
    assert run(replayer.commands.main.main, "explain run.tape --sim loom:Loom --code old --tick 3") == 1
    printed = capsys.readouterr().out
    assert printed.count("the cause is not known") <= 1
    assert "after this line a value differs" not in printed
