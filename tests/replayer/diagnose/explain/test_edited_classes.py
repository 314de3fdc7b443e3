"""An edited statement of a class body, of which values are made as modules are loaded: B loads the module with that of A."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import recorder
import replayer.commands.main
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.versions.mixed_source import mixed_source, statement_at

from oracle.command_lines import run

pytestmark = pytest.mark.share(0.3)

CARGO = """import enum
from dataclasses import dataclass


class Cargo(enum.IntEnum):
    SALT = enum.auto()
    WOOL = enum.auto()
    WINE = enum.auto()


@dataclass
class Crate:
    size: int
    toll: int = 3


DUTY = {Cargo.SALT: 2, Cargo.WOOL: 5, Cargo.WINE: 9}
"""
QUAY = """
from quay_cargo import DUTY, Cargo, Crate


class Quay:
    def __init__(self):
        self.paid, self.day = 0, 0

    def step(self, inputs):
        self.day += 1
        if self.day > 2:
            self.paid += {}
"""
TEA = "    TEA = enum.auto()\n    WOOL = enum.auto()"


@pytest.mark.parametrize(
    ("edits", "used", "line", "tested"),
    [
        (
            (("    WOOL = enum.auto()", TEA), ("Cargo.WOOL: 5", "Cargo.TEA: 7, Cargo.WOOL: 5")),
            "DUTY[Cargo(2)]",
            "TEA = enum.auto()",
            "with DUTY of A and without Cargo.TEA together, and with none of them alone, B gives the state of A",
        ),
        (
            (("    SALT = enum.auto()\n", ""), ("Cargo.SALT: 2, ", "")),
            "DUTY[Cargo(2)]",
            "SALT = enum.auto()",
            "with Cargo.SALT of A alone, B gives the state of A",
        ),
        (
            (("    WINE = enum.auto()", "    WINE = enum.auto()\n    TEA = 12"),),
            "len(Cargo)",
            "TEA = 12",
            "without Cargo.TEA alone, B gives the state of A",
        ),
        (
            (("toll: int = 3", "toll: int = 4"),),
            "Crate(1).toll",
            "toll: int = 3",
            "with Crate.toll of A alone, B gives",
        ),
    ],
    ids=["a member before others", "a member gone", "the number of members", "a default of a dataclass"],
)
def test_an_edited_statement_of_a_class_is_tested(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    edits: tuple[tuple[str, str], ...],
    used: str,
    line: str,
    tested: str,
) -> None:
    """No object of one version gets into the other: what is made of the statement is made in the process of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("other").mkdir()
    edited = CARGO
    for old, new in edits:
        edited = edited.replace(old, new, 1)
    for folder, made in ((Path(), CARGO), (Path("other"), edited)):
        (folder / "quay_cargo.py").write_text(made)
        (folder / "quay_yard.py").write_text(QUAY.format(used))
    for name in ("quay_cargo", "quay_yard"):
        sys.modules.pop(name, None)
    yard = recorder.record(importlib.import_module("quay_yard").Quay(), "run.tape", step="step", trial_ms=0)
    for _ in range(4):
        yard.step(None)
    yard.close()

    assert run(replayer.commands.main.main, "explain run.tape --sim quay_yard:Quay --code other") == 1
    printed = capsys.readouterr().out
    assert f"\n      {line}\n" in printed.partition("cause: ")[2]
    assert f"  tested: {tested}" in printed


TALLY = """import enum
from functools import lru_cache


class Card(enum.IntEnum):
    OAK = 1
    ELM = 2


class Even:
    def worth(self):
        return super().worth() // 2


class Plus:
    def worth(self):
        return super().worth() + 5


class Base:
    def worth(self):
        return 8


class Both(Even, Plus, Base):
    kept = 1


def doubled(function):
    def inner():
        return 2 * function()
    return inner


def toll():
    return 7


ROAD = {"west": toll}
"""
TABLE = """
from card_tally import ROAD, Both, Card


class Table:
    def __init__(self):
        self.sum, self.day = 0, 0

    def step(self, inputs):
        self.day += 1
        if self.day > 2:
            self.sum += __USED__
            self.name(Card(2))

    def name(self, card):
        if card == Card.OAK:
            self.sum += 1
__MORE__"""
ASH = "        elif card == Card.ASH:\n            self.sum += 2\n"


@pytest.mark.parametrize(
    ("edit", "used", "more", "line", "tested"),
    [
        (
            ("    OAK = 1", "    OAK = 1\n    ASH = 5"),
            "sum(kind * place for place, kind in enumerate(Card))",
            ASH,
            "ASH = 5",
            "with Table.name of A and without Card.ASH together, and with none of them alone, B gives the state of A",
        ),
        (
            ("class Both(Even, Plus, Base):", "class Both(Plus, Even, Base):"),
            "Both().worth()",
            "",
            "class Both(Even, Plus, Base):",
            "with the bases of Both of A alone, B gives the state of A",
        ),
        (
            ("def toll():", "@doubled\ndef toll():"),
            "ROAD['west']()",
            "",
            "@doubled",
            "with the decorators of toll of A alone, B gives the state of A",
        ),
        (
            ("class Both(Even, Plus, Base):\n    kept = 1", "class Both(Plus, Even, Base): kept = 1"),
            "Both().worth()",
            "",
            "class Both(Even, Plus, Base):",
            "with the bases of Both of A alone, B gives the state of A",
        ),
    ],
    ids=["a member that a function of B names", "the order of bases", "a decorator", "bases, in one line"],
)
def test_what_stands_before_a_body_is_tested(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    edit: tuple[str, str],
    used: str,
    more: str,
    line: str,
    tested: str,
) -> None:
    """No line of the step reads the bases of a class; and a function of B may need a member that A does not have."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Both versions may have one time and size.
    Path("now").mkdir()
    for folder, made, further in ((Path(), TALLY, ""), (Path("now"), TALLY.replace(*edit, 1), more)):
        (folder / "card_tally.py").write_text(made)
        (folder / "card_table.py").write_text(TABLE.replace("__USED__", used).replace("__MORE__", further))
    for name in ("card_tally", "card_table"):
        sys.modules.pop(name, None)
    table = recorder.record(importlib.import_module("card_table").Table(), "run.tape", step="step", trial_ms=0)
    for _ in range(4):
        table.step(None)
    table.close()
    Path("then").mkdir()
    for name in ("card_tally.py", "card_table.py"):
        Path(name).rename(Path("then") / name)
        (Path("now") / name).rename(name)
        sys.modules.pop(name.removesuffix(".py"))

    assert run(replayer.commands.main.main, "explain run.tape --sim card_table:Table --code then") == 1
    printed = capsys.readouterr().out
    assert f"\n      {line}\n" in printed.partition("cause: ")[2].partition("tested:")[0]
    assert f"  tested: {tested}" in printed


@pytest.mark.parametrize("is_new", [True, False], ids=["of the new version", "of the recorded version"])
def test_a_decorator_that_keeps_results_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_new: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """From the state before the step both versions give one state: one of them has kept an old result where it ran up to there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    text = "import functools\nWIND = [1]\n\n\ndef drift(side):\n    return side + WIND[0]\n\n\nclass Boat:\n"
    text += "    def __init__(self):\n        self.day, self.place, self.wind = 0, 0, 1\n\n    def step(self):\n"
    text += "        self.day += 1\n        self.wind += self.day == 4\n        WIND[0] = self.wind\n"
    text += "        self.place += drift(3) if self.day in (2, 6) else 0\n"
    kept = text.replace("def drift", "@functools.cache\ndef drift")
    recorded, new = (text, kept) if is_new else (kept, text)
    Path("then").mkdir()
    for path in ("boat_drift.py", "then/boat_drift.py"):
        Path(path).write_text(recorded)
    sys.modules.pop("boat_drift", None)
    boat = recorder.record(importlib.import_module("boat_drift").Boat(), "run.tape", step="step", trial_ms=0)
    for _ in range(8):
        boat.step()
    boat.close()
    del sys.modules["boat_drift"]
    Path("boat_drift.py").write_text(new)

    assert run(replayer.commands.main.main, "explain run.tape --sim boat_drift:Boat --code then") == 1
    printed = capsys.readouterr().out
    lines = ["def drift(side):", "@functools.cache"] if is_new else ["@functools.cache", "def drift(side):"]
    assert (
        f"cause: the two versions of the code differ in this line\n  then/boat_drift.py:5 (A)\n      {lines[0]}\n"
        in printed
    )
    assert f"  boat_drift.py:5 (B)\n      {lines[1]}\n" in printed
    assert "  tested: with the decorators of drift of A alone, B gives the state of A" in printed
    assert "  A  the code in " in printed
    assert "\n  B  an instance that ran from tick 0 as it was made, never restored: hash " in printed


def test_a_statement_of_one_version_alone_is_left_out_or_put_in(tmp_path: Path) -> None:
    """At its place, on as many lines as it has; a name that is given two values has no statement."""
    texts = (
        "class Kind:\n    A = 1\n    B = (\n        2,\n    )\n    C = 3\n",
        "class Kind:\n    A = 1\n    C = 3\nx = 1\nx = 2\n",
    )
    sources = []
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.py"
        path.write_text(text)
        sources.append(SourceFile(str(path)))
    first, second = sources
    own = statement_at("kinds", first, second, 4, is_first=True)
    other = statement_at("kinds", second, first, 4, is_first=False)

    assert own is not None
    assert other is not None
    assert mixed_source(first, second, [own]) == texts[0] + "x = 1\nx = 2\n"
    assert (mixed_source(second, first, [other]) or "").split() == texts[0].replace(
        "B = (\n        2,\n    )", "pass"
    ).split()
    assert statement_at("kinds", first, second, 5, is_first=False) is None


def test_a_statement_that_shares_its_line_is_not_taken(tmp_path: Path) -> None:
    """The other one would come with it, and the test would be of both."""
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    text = "class Kind:\n    A = 1; B = 2\n    C = 3\n\n\nRATE = 3; LIMIT = 5\nSPEED = (\n    4\n)\n"
    first.write_text(text)
    second.write_text(text.replace("3", "4").replace("1", "2").replace("4\n)", "5\n)"))
    sources = SourceFile(first), SourceFile(second)
    found = [statement_at("kinds", *sources, line, is_first=True) for line in (2, 3, 6, 8)]
    assert [one if one is None else one.name for one in found] == [None, "Kind.C", None, "SPEED"]
