"""A set whose members look alike: whether the order in which a line goes through it decides is tested with fixed orders."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import run

pytestmark = pytest.mark.share(0.3)

POST = """
import io

WORDS = "sun rain snow hail fog wind cloud storm mist dew ice frost".split()


class Folded:  # Python shows it with its address.
    def __init__(self, paper):
        self.paper = paper


def moved():
    papers = [MADE for word in WORDS]
    while papers:
        papers.pop(0)  # The next ones get the places of these, the last one first.


class Post:
    def __init__(self):
        self.day, self.read = 0, ""

    def step(self, inputs):
        self.day += 1
        if self.day < 5:
            moved()
            return
        words = {MADE: word for word in WORDS}
        letters = set(words)
        for letter in letters:  # LOOP
            TURN
"""
LOOP = next(number for number, text in enumerate(POST.splitlines(), 1) if "# LOOP" in text)


def _explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], made: str, turn: str
) -> dict[str, Any]:
    """The explanation of the first day on which the letters are read."""
    (tmp_path / "post_office.py").write_text(POST.replace("MADE", made).replace("TURN", turn))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("post_office", None)
    made_here = importlib.import_module("post_office").Post()
    recorded = recorder.record(made_here, "run.tape", step="step", trial_ms=0)
    for _ in range(6):
        recorded.step(None)
    recorded.close()
    assert run(replayer.commands.main.main, "explain run.tape --tick 5 --json --sim post_office:Post") == 1
    explained: dict[str, Any] = json.loads(capsys.readouterr().out)
    return explained


def test_the_order_of_members_that_look_alike_is_proved_to_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each fixed order, all runs of the step give one state, of both instances."""
    explained = _explained(tmp_path, monkeypatch, capsys, "io.StringIO(word)", "self.read += letter.read()")
    cause = explained["cause"]
    assert (cause["kind"], cause["line"]) == ("order", LOOP)
    (walked,) = explained["walked"]
    assert walked["suspicious"] is True
    assert "8 of 8" in walked["found"]
    assert "hashed by their memory addresses (StringIO)" in walked["found"]


@pytest.mark.parametrize(
    ("made", "turn", "found"),
    [
        ("io.StringIO(word)", "self.read += str(Folded(letter))", "something else differs, too"),
        ("object()", "self.read += words[letter]", "in which order its members were made"),
    ],
    ids=["another cause in the loop", "members in no known order"],
)
def test_an_order_that_is_not_shown_to_decide_is_no_cause(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    made: str,
    turn: str,
    found: str,
) -> None:
    explained = _explained(tmp_path, monkeypatch, capsys, made, turn)
    assert explained["cause"]["kind"] != "order"
    (walked,) = explained["walked"]
    assert walked["suspicious"] is None
    assert found in walked["found"]
    assert f"post_office.py:{LOOP}" in walked["cause"]
