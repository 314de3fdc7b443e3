"""replay explain with two tapes of recorded objects: the line where the two parties' steps diverge, and what it reads."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from replayer.diagnose.parties.differences.factors import find_factors
from replayer.diagnose.parties.party import Made, Party
from replayer.tape.tape import Tape

from oracle.command_lines import run

MODULE = """
import json
from typing import NamedTuple


class Seat:
    def __init__(self):
        self.coins, self.log = 90, list(range(80))


class Table:
    def __init__(self):
        self.seats = {name: Seat() for name in ("one", "two", "six")}
        self.turn, self.said = 0, ""

    def play(self, offers):
        self.turn += 1
        best, taker = 0, None
        for offer in offers:
            seat = self.seats[offer[0]]
            if offer[1] > best:
                best, taker = offer[1], seat
        if taker is not None:
            taker.coins -= best
            taker.log.append(self.turn)
            self.pay()

    def pay(self):
        for seat in self.seats.values():
            seat.coins += 1

    def say(self, words):
        self.said = "".join(str(word) for word in words)


class Rule(NamedTuple):
    far: int
    near: int
    tone: str


class Track:
    def __init__(self, rule):
        self.rule, self.place, self.laps = rule, 0, [0, 0]

    def step(self, push):
        self.place += push
        if self.place > self.rule.far:
            self.laps[1] += 1

    def save(self):
        return json.dumps([self.place, self.laps]).encode()

    def load(self, saved):
        self.place, self.laps = json.loads(saved)


def short():
    return Track(Rule(9, 1, "low"))


def long():
    return Track(Rule(12, 0, "high"))
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A folder with the module."""
    (tmp_path / "two_seats.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("two_seats")
    sys.modules.pop("two_seats", None)


def explained(capsys: pytest.CaptureFixture[str], words: str) -> dict[str, Any]:
    assert run(replayer.commands.main.main, f"explain a.tape b.tape {words} --json") == 1
    cause: dict[str, Any] = json.loads(capsys.readouterr().out)["line"]
    return cause


@pytest.mark.parametrize(
    ("method", "first", "second", "text"),
    [
        ("play", [["one", 5], ["six", 2], ["two", 5]], [["two", 5], ["one", 5], ["six", 2]], "for offer in offers:"),
        ("say", [1, 2], [1.0, 2.0], 'self.said = "".join(str(word) for word in words)'),
    ],
    ids=["a large container that is read again only later", "an expression with a frame of its own"],
)
def test_the_first_line_that_reads_other_inputs_is_named(
    capsys: pytest.CaptureFixture[str], module: Any, method: str, first: list[Any], second: list[Any], text: str
) -> None:
    """What differs is an argument that was passed: not one that the caller did not pass."""
    for name, inputs in (("a.tape", first), ("b.tape", second)):
        table = recorder.record(module.Table(), name, step=method, trial_ms=0)
        for tick in range(4):
            getattr(table, method)(inputs if tick == 2 else [])
        table.close()
    cause = explained(capsys, "--sim two_seats:Table")
    assert cause["text"] == text
    (value,) = cause["outside"]
    name = {"play": "offers", "say": "words"}[method]
    assert value["name"] == f"{name}, an argument of the step"
    assert all(part["path"].startswith(f"{name}[") for part in value["parts"])


def test_the_line_that_reads_the_rule_is_named_and_not_the_one_that_saves(
    capsys: pytest.CaptureFixture[str], module: Any
) -> None:
    """A number in the rule differs like the number of laps does: the line of save() does not read the rule."""
    for name, make in (("a.tape", module.short), ("b.tape", module.long)):
        with recorder.Recorder(name, make(), trial_ms=0) as tape:
            for _ in range(4):
                tape.step(4)
    cause = explained(capsys, "--sim two_seats:short --other-sim two_seats:long")
    assert cause["text"] == "if self.place > self.rule.far:"
    assert [value["name"] for value in cause["outside"]] == ["self.rule"]


def test_differing_calls_are_shown_with_their_arguments(module: Any) -> None:
    """A tape holds arguments that are objects as bytes."""
    for name, word in (("a.tape", "ford"), ("b.tape", "weir")):
        table = recorder.record(module.Table(), name, step=("play", "say"), trial_ms=0)
        table.play([])
        table.say([module.Rule(9, 1, word), 3])
        table.close()
    parties = [Party(name, Path(name), Path(name)) for name in ("a.tape", "b.tape")]
    made = Made(None, {}, {}, {}, [], "3")
    with Tape("a.tape") as one, Tape("b.tape") as other:
        [factor] = find_factors((parties[0], parties[1]), (one, other), (made, made), range(1, 3))
    assert factor.kind == "inputs"
    assert all(f"Rule(9, 1, '{word}')" in text for word, text in zip(("ford", "weir"), factor.texts, strict=True))
    assert not any("\\x" in text for text in factor.texts)
