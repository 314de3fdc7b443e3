"""replay explain after a program wrote into what a step returned, which the state holds, too."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recorder import record
from replayer.diagnose.explain.before_step.program_code import functions_of_program
from replayer.diagnose.explain.lines_run.run_lines import SharedResult
from replayer.diagnose.explain.statements.returned_writers import writers_of
from replayer.diagnose.explain.statements.shared_result import shared_result
from replayer.playback.make_simulation import make_simulation
from replayer.tape.tape import Tape

TICKS, AT = 30, 12
POND = """
import numpy as np


class Pond:
    def __init__(self):
        self.waves, self.frogs, self.day = np.arange(6.0), [3, 1, 2], 0
        self.copied = np.arange(6.0)

    def advance(self):
        self.day += 1
        self.waves += self.frogs[0] * np.linspace(0, 1, 6)
        self.copied = self.waves.copy()

    def step(self):
        self.advance()
        return self.waves[1:4], {"frogs": self.frogs, "copied": self.copied.copy()}
"""
FISHER = """
import numpy as np


class Fisher:
    def __init__(self):
        self.seen = None
        self.scale = 0.5

    def look(self, view):
        view *= 2.0

    def look_again(self, view):
        near = np.asarray(view)
        near[0] = near.max() + 1

    def count(self, facts):
        facts["frogs"].sort()

    def keep(self, view):
        self.seen = view

    def smooth(self):
        self.seen += 0.25
        self.seen *= 3.0

    def weigh(self, view):
        view += self.scale

    def copy(self, view):
        own = view * 1.0
        own += 1.0


def play(live, fisher, at, what, ticks):
    for day in range(ticks):
        view, facts = live.step()
        if day + 1 == at:
            if what == "smooth":
                fisher.keep(view)
                fisher.smooth()
            elif what == "count":
                fisher.count(facts)
            elif what == "look":
                fisher.look(view)
            elif what == "look again":
                fisher.look_again(view=view)
            else:
                fisher.weigh(view)
                fisher.copy(view)
"""


@pytest.fixture(autouse=True)
def _program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("pond.py").write_text(POND)
    Path("fisher.py").write_text(FISHER)
    yield
    for name in ("pond", "fisher"):
        sys.modules.pop(name, None)


def recorded(what: str, **options: Any) -> None:
    """A pond is recorded; a fisher does something to what the step to AT returned."""
    pond, fisher = importlib.import_module("pond"), importlib.import_module("fisher")
    with record(pond.Pond(), "run.tape", quiet=True, keyframe_interval_ticks=10, **options) as live:
        fisher.play(live, fisher.Fisher(), AT, what, TICKS)


def found(*names: str) -> SharedResult | None:
    """What the step to AT returned and attributes of these names have."""
    factory = importlib.import_module("pond").Pond
    with Tape("run.tape") as tape:
        job = {"tick": AT + 1, "names": names}
        result = shared_result(tape, job, lambda: make_simulation(tape, factory))["found"]
    return None if result is None else SharedResult.from_plain(result)


@pytest.mark.parametrize(
    ("what", "name", "part", "proved"),
    [
        ("look", "waves", "result[0] shares memory with Pond.waves", ["view *= 2.0"]),
        ("look again", "waves", "result[0] shares memory with Pond.waves", ["near[0] = near.max() + 1"]),
        ("smooth", "waves", "result[0] shares memory with Pond.waves", ["self.seen += 0.25", "self.seen *= 3.0"]),
        ("count", "frogs", "result[1]['frogs'] is Pond.frogs", ["facts['frogs'].sort()"]),
        # What the line adds is an attribute of an object that only the recorded run had.
        ("weigh", "waves", "result[0] shares memory with Pond.waves", []),
    ],
)
def test_a_line_that_writes_into_what_a_step_returned(what: str, name: str, part: str, proved: list[str]) -> None:
    recorded(what)
    shared = found(name)
    assert shared is not None
    assert (shared.tick, shared.parts) == (AT, (part,))
    assert shared.returned_at is not None
    assert (shared.returned_at.name, shared.returned_at.function) == ("pond.py:17", "Pond.step")
    assert [one.text for one in shared.proved] == proved


def test_a_line_of_a_function_that_no_file_calls_is_tried_as_well() -> None:
    recorded("look")
    Path("fisher.py").write_text(FISHER[: FISHER.index("def play")])
    shared = found()
    assert shared is not None
    assert [one.text for one in shared.proved] == ["view *= 2.0"]
    assert shared.writers == ()


def test_the_line_that_returned_is_that_of_the_step_and_not_of_a_method_that_it_asks() -> None:
    within = POND.replace("        self.advance()\n", "        self.advance()\n        self.near()\n")
    within = within.replace("    def step(", "    def near(self):\n        return self.frogs\n\n    def step(")
    Path("pond.py").write_text(within[: within.index("        return self.waves[1:4]")] + "        return self.frogs\n")
    Path("fisher.py").write_text("def tidy(frogs):\n    frogs.sort()\n")
    pond, fisher = importlib.import_module("pond"), importlib.import_module("fisher")
    with record(pond.Pond(), "run.tape", quiet=True, keyframe_interval_ticks=10) as live:
        for day in range(TICKS):
            frogs = live.step()
            if day + 1 == AT:
                fisher.tidy(frogs)
    shared = found("frogs")
    assert shared is not None
    assert shared.returned_at is not None
    assert shared.returned_at.function == "Pond.step"
    assert [one.text for one in shared.proved] == ["frogs.sort()"]


def test_a_line_is_the_only_one_if_all_others_were_run() -> None:
    recorded("look")
    first = found("waves")
    assert first is not None
    assert not first.is_only  # view += self.scale could not be run: what scale was is not known.
    Path("fisher.py").write_text(FISHER.replace("self.scale\n\n    def copy", "0.75\n\n    def copy"))
    second = found("waves")
    assert second is not None
    assert second.is_only


def test_what_a_step_returned_as_a_copy_is_not_shared() -> None:
    recorded("look")
    assert found("copied") is None
    assert found("day") is None
    Path("run.tape").unlink()
    recorded("weigh")
    assert found("waves") is not None
    assert found() is None  # Nothing shows that it was changed, and no line proves it.


def test_writers_are_followed_by_names() -> None:
    functions = functions_of_program(importlib.import_module("pond").Pond())
    texts = [one.place.text for one in writers_of(functions, "step", 0)]
    assert texts == [
        "view *= 2.0",
        "near[0] = near.max() + 1",
        "self.seen += 0.25",
        "self.seen *= 3.0",
        "view += self.scale",
    ]
    assert [one.place.text for one in writers_of(functions, "step", 1)] == ["facts['frogs'].sort()"]
    assert writers_of(functions, "advance", 0) == []


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("is_seen", [True, False], ids=["seen live", "not compared"])
@pytest.mark.filterwarnings("ignore::recorder.errors.RecordingWarning")
def test_explain_names_the_shared_array_and_the_line(*, is_seen: bool) -> None:
    # All lines that were found can be run.
    Path("fisher.py").write_text(FISHER.replace("view += self.scale", "view += 0.75"))
    recorded("look", between_steps=is_seen)
    # A process of its own: this one finds the modules of other tests, which call compiled libraries.
    command = [str(Path(sys.executable).with_name("replay")), "explain", "run.tape", "--sim", "pond:Pond"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert any(line.endswith(", as the recorder saw live") for line in lines) == is_seen
    assert not any("the cause is not known" in line for line in lines)
    place = next(number for number, line in enumerate(lines) if line.startswith("  what the step to tick 12 returned"))
    assert lines[place] == (
        "  what the step to tick 12 returned is in the state, too, tested by running it again: result[0] shares memory with Pond.waves"
    )
    assert lines[place + 2].split()[:2] == ["pond.py:17", "Pond.step():"]
    assert lines[place + 3] == (
        "  cause: with this line, run on what was returned, the step gives the recorded state, and without it another one:"
    )
    assert lines[place + 4].split() == ["fisher.py:11", "Fisher.look():", "view", "*=", "2.0"]
