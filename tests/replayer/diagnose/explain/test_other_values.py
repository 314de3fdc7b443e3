"""replay explain puts other values outside the state in before the step: those of the recording, as far as trying finds them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recorder
from replayer import verify_tape
from replayer.diagnose.explain.lines_run.found_values import ValuesPutIn
from replayer.diagnose.explain.other_values.tried_values import other_values
from replayer.playback.make_simulation import make_simulation
from replayer.tape.plain_state import snapshot_to_plain
from replayer.tape.tape import Tape

CRANE = """
import panel
from panel import Gear


class Crane:
    def __init__(self):
        self.height, self.turned, self.day, self.load = 0, 0, 0, panel.load

    def step(self):
        self.day += 1
        self.load.kilos += 1
        if self.day % 3 == 0:
            self.height += 2 if panel.HEAVY else 1
            if panel.lever("up"):
                self.height += 10
            if panel.lever("left") or panel.lever("right"):
                self.turned += 1
            if "boost" in panel.held:
                self.turned += 5
            self.turned += panel.wheel.notches + panel.gear.value + len(panel.WORD)
"""
PANEL = """
import enum
import sys


class Gear(enum.Enum):
    LOW = 100
    HIGH = 300


class Wheel:
    def __init__(self):
        self.notches = 0


class Load:
    def __init__(self):
        self.kilos = 0


HEAVY = "--heavy" in sys.argv
SILENT = "--silent" in sys.argv
WORD = "".join(sys.argv[999:])
levers = {"up": False, "left": False, "right": False}
held = set()
wheel = Wheel()
gear = Gear.LOW
load = Load()
never = False


def lever(name):
    return levers[name]


def pull(name):
    levers[name] = True


def hold(key):
    held.add(key)


def turn_wheel(by):
    wheel.notches = by
    wheel.notches = 4


def change_gear(to):
    global gear
    gear = to


def fill():
    load.kilos = 7


def words():
    return "ahoy", "aye"
"""
# A line before the recording, and one that gives the value back.
BEGAN = {
    "flag": ("panel.HEAVY = True", "panel.HEAVY = False", "panel.HEAVY", "True"),
    "text": ("panel.WORD = 'ahoy'", "panel.WORD = ''", "panel.WORD", "'ahoy'"),
    "number": ("panel.WORD = range(0); panel.HEAVY = 17", "panel.WORD = ''; panel.HEAVY = False", "panel.HEAVY", "17"),
}
# A line between two steps.
LATER = {
    "item": ("panel.pull('up')", "panel.levers['up']", "True", {"pull"}, {"lever", "Crane.step"}),
    "set": ("panel.hold('boost')", "panel.held", "'boost' in it", {"hold"}, {"Crane.step"}),
    "attribute": ("panel.wheel.notches = 4", "panel.wheel.notches", "4", {"turn_wheel"}, {"Crane.step"}),
    "member": ("panel.change_gear(panel.Gear.HIGH)", "panel.gear", "<Gear.HIGH: 300>", {"change_gear"}, {"Crane.step"}),
}


@pytest.fixture(autouse=True)
def _program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("crane.py").write_text(CRANE)
    Path("panel.py").write_text(PANEL)
    yield
    _forget()


def _forget() -> None:
    for name in ("crane", "panel"):
        sys.modules.pop(name, None)


def recorded(first: str = "pass", later: str = "pass") -> None:
    """A tape of 9 steps: a line runs before the first, another one after 4; then the modules are as new."""
    _forget()
    names: dict[str, Any] = {"panel": importlib.import_module("panel")}
    exec(first, names)
    with recorder.record(importlib.import_module("crane").Crane(), "run.tape", quiet=True, trial_ms=0) as live:
        for day in range(9):
            if day == 4:
                exec(later, names)
            live.step()
    _forget()


def found(*, noted: bool) -> ValuesPutIn | None:
    """What is found for the first wrong tick."""
    factory: Callable[[], Any] = importlib.import_module("crane").Crane
    finding = verify_tape("run.tape", factory).findings[0]
    assert finding.before is not None
    with Tape("run.tape") as tape:
        job = {"tick": finding.tick, "before": snapshot_to_plain(finding.before), "noted": noted}
        result = other_values(tape, job, lambda: make_simulation(tape, factory))["found"]
    return None if result is None else ValuesPutIn.from_plain(result)


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("first", "name", "then"), [(one[0], *one[2:]) for one in BEGAN.values()], ids=list(BEGAN))
def test_a_value_whose_digest_is_on_the_tape_is_found_by_it_and_by_the_recorded_hash(
    first: str, name: str, then: str
) -> None:
    recorded(f"{first}; panel.SILENT = True")
    values = found(noted=True)
    assert values is not None
    (one,) = values.found
    assert (one.name, one.then, one.is_noted) == (name, then, True)
    assert "sys.argv" in one.set_at[0].text
    assert [place.function for place in one.read_at] == ["Crane.step"]
    assert [(other.name, other.then) for other in values.unneeded] == [("panel.SILENT", "True")]


def test_a_value_of_then_that_has_no_effect_is_not_named() -> None:
    recorded("panel.SILENT = True", "panel.pull('up')")
    assert found(noted=True) is None
    values = found(noted=False)
    assert values is not None
    assert [one.name for one in values.found] == ["panel.levers['up']"]


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("later", "name", "then", "setters", "readers"), list(LATER.values()), ids=list(LATER))
def test_a_value_that_code_outside_of_the_step_gives_is_found_by_the_recorded_hash(
    later: str, name: str, then: str, setters: set[str], readers: set[str]
) -> None:
    recorded(later=later)
    values = found(noted=False)
    assert values is not None
    (one,) = values.found
    assert (one.name, one.then, one.is_noted, values.is_joint) == (name, then, False, False)
    assert {place.function for place in one.set_at} == setters
    assert {place.function for place in one.read_at} == readers


def test_all_values_that_give_the_recorded_state_are_told() -> None:
    recorded(later="panel.pull('left')")
    values = found(noted=False)
    assert values is not None
    assert {one.name for one in values.found} == {"panel.levers['left']", "panel.levers['right']"}


@pytest.mark.parametrize("later", ["panel.fill()", "panel.HEAVY = True"], ids=["in the state", "not changed by code"])
def test_what_is_in_the_state_or_is_changed_by_no_function_is_not_tried(later: str) -> None:
    recorded(later=later)
    assert found(noted=False) is None


@pytest.mark.seldom(0.2)
def test_explain_names_the_value_and_the_lines() -> None:
    recorded(later="panel.pull('up')")
    # A process of its own: this one finds the modules of other tests, which call compiled libraries.
    command = [str(Path(sys.executable).with_name("replay")), "explain", "run.tape", "--sim", "crane:Crane"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("cause: "))
    assert lines[place] == (
        "cause: a value outside the state, panel.levers['up'] (panel.py:24): with True the step gives the recorded state, with "
        "False, as it is now, another one"
    )
    assert [line.split()[0] for line in lines[place + 1 : place + 6]] == [
        "lines",
        "panel.py:37",
        "lines",
        "panel.py:33",
        "crane.py:15",
    ]
    assert not any("the cause is not known" in line for line in lines)
