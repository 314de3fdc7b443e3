"""A generator that is made without a seed asks the system for one: it is found where no code of the user's makes it, too."""

from __future__ import annotations

import copy
import importlib
import json
import pickle  # noqa: TID251 - what a step may do
import random
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from recorder.ambient.outside.own_code import OwnCode
from recorder.ambient.outside.read_watch import ReadWatch
from recorder.processes.fork_call import in_a_copy

from oracle.command_lines import run

MODULE = """
import copy
import random

import attrs


@attrs.define
class Ant:
    number: int
    dice: random.Random = attrs.field(factory=random.Random)


class Hill:
    def __init__(self):
        self.ants, self.hours = [Ant(0, random.Random(3))], 0

    def step(self, inputs):
        self.hours += 1
        if self.hours == 3:
            copy.deepcopy(self.ants[0].dice)  # It is made without a seed, and given the state.
            self.ants.append(Ant(self.hours))  # MADE
"""


def test_a_generator_of_a_generated_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the line that makes the object; with the same seeds, the step gives one state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("ant_hill.py").write_text(MODULE)
    hill = recorder.record(importlib.import_module("ant_hill").Hill(), "run.tape", step="step", trial_ms=0)
    for _ in range(4):
        hill.step(None)
    hill.close()

    assert run(replayer.commands.main.main, "explain run.tape --json --sim ant_hill:Hill") == 1
    line = next(number for number, text in enumerate(MODULE.splitlines(), 1) if "# MADE" in text)
    told = f"the system's random numbers, by random.Random() without a seed (read at ant_hill.py:{line})"
    assert json.loads(capsys.readouterr().out)["differs_by"] == told

    assert run(replayer.commands.main.main, "check ant_hill:Hill --inputs run.tape") == 1
    printed = capsys.readouterr().out
    assert (
        "random.Random() without a seed (entropy): read 1 time in" in printed
    )  # The copy of a generator counts as none.
    assert f"at ant_hill.py:{line}; proved" in printed


class _Dice:
    def __init__(self, how: str) -> None:
        self.how, self.dice = how, random.Random(5)

    def step(self) -> None:
        match self.how:
            case "made":
                self.dice = random.Random()
            case "seeded again":
                random.seed()
            case "copied":
                self.dice = copy.deepcopy(self.dice)
            case "loaded":
                self.dice = pickle.loads(pickle.dumps(self.dice))
            case "the system's":
                random.SystemRandom().randint(1, 6)
            case "seeded later":
                self.dice = random.Random()
                self.dice.seed(4)
            case "seeded":
                self.dice = random.Random(9)
                random.seed(4)


@pytest.mark.parametrize(
    ("how", "names"),
    [
        ("made", ["random.Random() without a seed"]),
        ("seeded again", ["random.seed() without a seed"]),
        ("the system's", ["random.SystemRandom().randint"]),
        *((how, []) for how in ("copied", "loaded", "seeded", "seeded later")),
    ],
)
def test_only_what_the_system_seeds_is_noted(how: str, names: list[str]) -> None:
    """A copy and one that is loaded get a state at once. Nothing stays replaced."""

    def watched() -> dict[str, Any]:
        dice: Any = _Dice(how)
        watch = ReadWatch(OwnCode(dice))
        seed, setstate = random.Random.seed, random.Random.setstate
        with watch.watching():
            dice.step()
        assert (random.Random.seed, random.Random.setstate) == (seed, setstate)
        return {"names": [read.name for read in watch.reads]}

    assert in_a_copy(watched)["names"] == names


POND = """
import random

_DICE = []


def dice():
    if not _DICE:
        _DICE.append(random.Random())  # MADE
    return _DICE[0]


class Pond:
    def __init__(self):
        self.fish, self.own = 100, None

    def step(self, inputs):
        if self.fish > 102:
            OTHER
            self.fish += dice().randrange(1, 1_000_000)
        self.fish += 1


class Own(Pond):
    def step(self, inputs):
        self.fish += 1
        if self.fish == 103:
            self.own = random.Random()  # OWN
            self.fish += self.own.randrange(1, 1_000_000)
"""


@pytest.mark.parametrize(
    ("name", "other", "is_first_seed"),
    [
        ("Pond", "pass", True),
        ("Pond", "self.fish += random.Random().randrange(99)", False),  # That one depends on the system in each run.
        ("Own", "pass", False),  # A keyframe has it, or that it is not there: the recorded step made it, too.
    ],
)
def test_a_generator_that_no_keyframe_has(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    other: str,
    is_first_seed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The caller seeded it in the recorded run, which asked the system for nothing."""
    module = f"pond_{name.lower()}_{int(is_first_seed)}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    text = POND.replace("OTHER", other)
    Path(f"{module}.py").write_text(text)
    loaded = importlib.import_module(module)
    pond = recorder.record(getattr(loaded, name)(), "run.tape", step="step", trial_ms=0)
    loaded.dice().seed(3)
    for _ in range(5):
        pond.step(None)
    pond.close()
    loaded._DICE.clear()

    assert run(replayer.commands.main.main, f"explain run.tape --json --sim {module}:{name}") == 1
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "# MADE" in one)
    told = json.loads(capsys.readouterr().out)["differs_by"]
    if is_first_seed:
        assert told.startswith("the random generator ")
        assert "_DICE[0], which no keyframe has: in a replay the system seeds it at the first use" in told
        assert f"(at {module}.py:{line})" in told
    else:
        assert told.startswith("the system's random numbers, by ")
