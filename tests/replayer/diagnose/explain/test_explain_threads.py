"""replay explain traces simulations that start threads, which a copy of their process would lack."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder
from replayer.diagnose.explain.trace_step import OTHER_THREADS

from oracle.command_lines import run

pytestmark = pytest.mark.share(0.5)

BAD_TICK = 11  # The first tick after a keyframe, which does not hold hidden state.
# A step of each waits for its thread: in a copy that lacks the thread it would wait forever.
HEAD = """
import queue
import threading
from sim import Field, Schema, State


class Worker:
    def __init__(self):
        self.asked, self.answers = queue.Queue(), queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            self.answers.put(self.asked.get() + 1)

    def answer(self, number):
        self.asked.put(number)
        return self.answers.get(timeout=20)


class Sim:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8", (3,))))
        self.count = 0
        self.worker = {worker}

    def step(self, inputs):
        self.count += 1
        self.state["x"][:] += self.count  # HERE
        self.state["x"][0] += self.worker.answer(1)
"""
SOURCES = {"when_made": HEAD.replace("{worker}", "Worker()"), "when_imported": HEAD.replace("{worker}", "POOL")}
SOURCES["when_imported"] += "\n\nPOOL = Worker()\n"
SOURCES["in_the_step"] = """
import threading
from sim import Field, Schema, State


class Sim:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8", (3,))))
        self.count = 0

    def step(self, inputs):
        self.count += 1
        thread = threading.Thread(target=self.work)
        thread.start()
        thread.join()

    def work(self):
        self.state["x"][:] += self.count
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the modules."""
    for name, source in SOURCES.items():
        (tmp_path / f"threads_{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in SOURCES:
        sys.modules.pop(f"threads_{name}", None)


@pytest.mark.seldom(0.15)
def test_a_note_says_that_lines_of_threads_which_the_step_starts_are_not_traced(capsys: Any) -> None:
    """The line that starts the thread is then the last one that is known."""
    with Recorder("run.tape", importlib.import_module("threads_in_the_step").Sim(), trial_ms=0) as tape:
        for _ in range(2):
            tape.step()

    assert run(replayer.commands.main.main, "explain run.tape --sim threads_in_the_step:Sim --tick 2 --json") == 1
    assert OTHER_THREADS in json.loads(capsys.readouterr().out)["notes"]


@pytest.mark.parametrize("name", ["when_made", "when_imported"])
def test_a_simulation_with_threads_is_explained(name: str, capsys: Any) -> None:
    """Its hidden state is named at its line; a note says what is not traced."""
    module = f"threads_{name}"
    with Recorder("run.tape", importlib.import_module(module).Sim(), keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(20):
            tape.step()

    assert run(replayer.commands.main.main, f"explain run.tape --sim {module}:Sim --tick {BAD_TICK} --json") == 1
    facts = json.loads(capsys.readouterr().out)
    line = HEAD[: HEAD.index("  # HERE")].count("\n") + 1
    assert (facts["cause"]["kind"], facts["cause"]["line"]) == ("outside", line)
    assert [value["name"] for value in facts["cause"]["outside"]] == ["self.count"]
    assert OTHER_THREADS in facts["notes"]
