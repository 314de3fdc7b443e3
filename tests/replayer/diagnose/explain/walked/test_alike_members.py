"""A set whose members look alike: whether the order in which a line goes through it decides is tested with fixed orders."""

from __future__ import annotations

import gc
import importlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.walked import walk_order
from replayer.diagnose.explain.walked.walk_order import FIXED, REVERSED

from oracle.command_lines import run

pytestmark = pytest.mark.share(0.3)

POST = """
import contextlib
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
        with contextlib.suppress(RuntimeError):
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
        (
            "io.StringIO(word)",
            "self.read += letter.read(); len(self.read) < 20 or letters.discard(letter)",
            "than with the set",
        ),
    ],
    ids=["another cause in the loop", "members in no known order", "a loop that changes the set"],
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
    assert (explained["cause"] or {}).get("kind") != "order"
    (walked,) = explained["walked"]
    assert walked["suspicious"] is None
    assert found in walked["found"]
    assert f"post_office.py:{LOOP}" in walked["cause"]


class _Parcel:
    def __init__(self, weight: int) -> None:
        self.weight, self.label = weight, [weight]


class _Van:
    def __init__(self, parcels: set[_Parcel]) -> None:
        self.parcels = parcels


def _packed(count: int) -> _Van:
    """A van that is newer than its parcels: a garbage collection lists these in the order in which their set has them."""
    return _Van({_Parcel(number) for number in range(count)})


def test_a_garbage_collection_does_not_change_the_order_of_members_that_were_made_before_the_step() -> None:
    vans = [_packed(30) for _ in range(2)]
    gc.collect()

    def work() -> dict[str, Any]:
        orders = [[one.weight for one in walk_order.in_order(van.parcels)] for van in vans]
        return {"hash": orders, "raised": None}

    ran, back = (in_a_copy(partial(walk_order._in_order, order, work)) for order in (FIXED, REVERSED))
    assert ran["problems"] == back["problems"] == []
    assert ran["hash"][0] == ran["hash"][1] == back["hash"][0][::-1]
    assert [is_made for _, _, is_made, _ in ran["walked"]] == [False, False]


def test_members_that_the_step_made_are_in_the_order_of_that_unless_a_garbage_collection_listed_them_anew() -> None:
    def work(*, collects: bool) -> dict[str, Any]:
        # What they hold does not tell them apart.
        made = [_Parcel(1) for _ in range(30)]
        numbers = {id(one): number for number, one in enumerate(made)}
        van = _Van(set(made))
        if collects:
            gc.collect()
        return {"hash": [numbers[id(one)] for one in walk_order.in_order(van.parcels)], "raised": None}

    ran, collected = (
        in_a_copy(partial(walk_order._in_order, FIXED, partial(work, collects=collects))) for collects in (False, True)
    )
    assert ran["hash"] == list(range(30))
    assert [is_made for _, _, is_made, _ in ran["walked"]] == [True]
    assert collected["walked"] == []
    assert "look alike" in collected["problems"][0]
