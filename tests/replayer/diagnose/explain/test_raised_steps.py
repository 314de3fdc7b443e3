"""A step that raises in the replay alone: because of what a load lost, or because the simulation does not fit the tape."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import replayer.commands.main
from recorder import Recorder

from oracle.command_lines import run

VOTES = """
import collections
import json


class Votes:
    def __init__(self):
        self.counts, self.turn = collections.defaultdict(int), 0

    def step(self, inputs):
        self.turn += 1
        self.counts[str(self.turn * 5 % 7)] += 1  # HERE

    def save(self):
        return json.dumps([self.turn, self.counts]).encode()

    def load(self, saved):
        self.turn, counts = json.loads(saved)
        self.counts = dict(counts)


class Failing(Votes):
    def step(self, inputs):
        raise ValueError("boom")
"""


@pytest.fixture
def tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tape of an election whose load loses the default of a dict."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("votes_lost.py").write_text(VOTES)
    module = importlib.import_module("votes_lost")
    with Recorder("run.tape", module.Votes(), trial_ms=0) as recording:
        for _ in range(5):
            recording.step()
    return Path("run.tape")


@pytest.mark.usefixtures("tape")
def test_a_first_step_that_raises_after_a_restore_alone_is_a_desync(capsys: pytest.CaptureFixture[str]) -> None:
    """Verify says what was run, and explain names the line, the object that lost its kind, and the line of load()."""
    assert run(replayer.commands.main.main, "verify run.tape --sim votes_lost:Votes") == 1
    printed = capsys.readouterr().out
    assert printed.startswith("run.tape: DESYNC at tick 1; ")
    assert "KeyError" in printed
    assert "with nothing restored, it does not raise" in printed

    assert run(replayer.commands.main.main, "explain run.tape --sim votes_lost:Votes") == 1
    printed = capsys.readouterr().out
    line = next(number for number, text in enumerate(VOTES.splitlines(), 1) if "HERE" in text)
    assert f"votes_lost.py:{line} in Votes.step" in printed.partition("cause:")[2]
    assert "a defaultdict" in printed
    assert "self.counts = dict(counts)" in printed


@pytest.mark.usefixtures("tape")
@pytest.mark.seldom(0.18)
def test_a_first_step_that_always_raises_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, without a cause."""
    for command in ("verify", "explain"):
        assert run(replayer.commands.main.main, f"{command} run.tape --sim votes_lost:Failing") == 2
        told = capsys.readouterr()
        assert told.out == ("run.tape: tick 1\n" if command == "explain" else "")  # Told before the step was run again.
        assert told.err.startswith("error: tick 1: the step raised ValueError: boom (votes_lost.py:")
        assert told.err.count("\n") == 1
