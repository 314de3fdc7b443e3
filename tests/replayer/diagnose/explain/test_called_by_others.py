"""A line that passes objects to a function of Python, which calls the user's code with them, is the line that uses them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

import replayer.commands.main
from recorder import Recorder

from oracle.command_lines import run

CALLS = """
import heapq
import json

import numpy as np


class Call:
    def __init__(self, time, number):
        self.time, self.number = time, number

    def __lt__(self, other):
        return self.time < other.time


class Desk:
    def __init__(self):
        self.queue, self.served = [Call(2, 1), Call(3, 2), Call(2, 3), Call(2, 4)], 0
        heapq.heapify(self.queue)

    def step(self, inputs):
        self.served = self.served * 7 % 101 + heapq.heappop(self.queue).number  # HERE
        heapq.heappush(self.queue, Call(4, self.served))

    def save(self):
        calls = sorted(((call.time, -call.number) for call in self.queue))
        return {"queue": json.dumps(calls).encode(), "served": np.int64(self.served)}

    def load(self, saved):
        self.queue = [Call(time, -number) for time, number in json.loads(saved["queue"])]
        self.served = int(saved["served"])
"""


def test_a_comparison_inside_a_heap_is_not_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """load() gives the heap back in another order; the line that takes from it is named, and not __lt__."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("heap_desk.py").write_text(CALLS)
    with Recorder("run.tape", importlib.import_module("heap_desk").Desk(), trial_ms=0) as tape:
        for _ in range(4):
            tape.step()

    assert run(replayer.commands.main.main, "explain run.tape --json --sim heap_desk:Desk") == 1
    cause = json.loads(capsys.readouterr().out)["cause"]
    assert cause["line"] == next(number for number, text in enumerate(CALLS.splitlines(), 1) if "HERE" in text)
