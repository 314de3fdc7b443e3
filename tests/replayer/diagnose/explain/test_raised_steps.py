"""A step that raises in the replay alone: because of what a load lost, or because the simulation does not fit the tape."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import replayer.commands.main
from recorder import Recorder
from recorder.exception_text import comparable_error

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


class Full(Votes):
    def step(self, inputs):
        self.turn += 1
        if self.turn > LIMIT:
            raise ValueError(f"no place for {object()} nor {hex(id(self))}")


LIMIT = 10
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
        # Explain tells the tick before it runs the step again.
        assert told.out == ("run.tape: tick 1: the search ended early\n" if command == "explain" else "")
        assert told.err.startswith("error: tick 1: the step raised ValueError: boom (votes_lost.py:")
        assert told.err.count("\n") == 1


@pytest.mark.seldom(0.1)
def test_an_address_in_an_error_does_not_make_a_step_non_deterministic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An edited constant lets the step raise: its text is another one in each process, and the error is the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("votes_full.py").write_text(VOTES)
    module = importlib.import_module("votes_full")
    with Recorder("run.tape", module.Full(), trial_ms=0) as recording:
        for _ in range(5):
            recording.step()
    Path("votes_full.py").write_text(VOTES.replace("LIMIT = 10", "LIMIT = 3"))
    importlib.reload(module)

    run(replayer.commands.main.main, "explain run.tape --sim votes_full:Full --tick 4")
    told = capsys.readouterr()
    assert "no place for <object object at 0x" in told.out  # The text itself is shown as it is.
    assert "deterministic" not in told.out
    assert "all variants raise the same error" in told.out
    assert "LIMIT" in told.out


def test_errors_are_compared_without_addresses() -> None:
    """The rest of a text counts, other numbers in hexadecimal too."""
    one, other = (f"the step raised ValueError: {object()!r} is lost (game.py:{line})" for line in (4, 5))
    assert comparable_error(one) != comparable_error(other)
    assert comparable_error(one) == comparable_error(one.replace("at 0x7", "at 0x6"))
    assert comparable_error("raised KeyError: 0xff0000") != comparable_error("raised KeyError: 0x00ff00")
    assert comparable_error("raised KeyError: 0x7f3a41b8d2c0") == comparable_error("raised KeyError: 0x7f9a41b8d2c0")
    assert comparable_error(None) is None
