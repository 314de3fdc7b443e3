"""replay explain runs a step with two seeds of the process's generators, which a module that is imported gives one seed each time."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer.commands.main
from recorder.ambient.outside.outside_read import GENERATOR, OutsideRead
from recorder.processes.seeds.process_generators import all_states, put_states
from replayer import verify_tape
from replayer.diagnose.explain.foreign.unseen_draws import generator_of
from replayer.diagnose.explain.other_values.seeded_generators import draws
from replayer.playback.make_simulation import make_simulation
from replayer.tape.plain_state import snapshot_to_plain
from replayer.tape.tape import Tape

from oracle.command_lines import run

DICE = """
import random

import numpy as np

random.seed(4)
np.random.seed(4)


class Dice:
    def __init__(self):
        self.sum, self.day = 0.0, 0

    def step(self):
        self.day += 1
        {before}
        self.sum += {draw}


"""


@pytest.fixture(autouse=True)
def _program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    states = all_states()
    yield
    put_states(states)
    sys.modules.pop("dice", None)


def recorded(draw: str, before: str = "pass") -> Any:
    """The class, of a tape before which three numbers were drawn."""
    Path("dice.py").write_text(DICE.format(draw=draw, before=before))
    module = importlib.import_module("dice")
    _ = [random.random() for _ in range(3)], np.random.random(3)  # noqa: NPY002
    with recorder.record(module.Dice(), "run.tape", quiet=True, trial_ms=0) as live:
        for _ in range(5):
            live.step()
    random.seed(4)
    np.random.seed(4)  # noqa: NPY002
    return module.Dice


def found(factory: Any) -> list[list[Any]]:
    """What is found for the first wrong tick."""
    finding = verify_tape("run.tape", factory).findings[0]
    assert finding.before is not None
    with Tape("run.tape") as tape:
        plain = {
            "tick": finding.tick,
            "before": snapshot_to_plain(finding.before),
            "generators": ["random", "np.random"],
        }
        answer: list[list[Any]] = draws(tape, plain, lambda: make_simulation(tape, factory))["found"]
    return answer


@pytest.mark.parametrize(
    ("draw", "name"), [("random.random()", "random"), ("np.random.random()", "np.random")], ids=["random", "numpy"]
)
def test_a_generator_that_the_tape_does_not_hold_is_named_and_drawn_from_up_to_the_recorded_state(
    draw: str, name: str
) -> None:
    assert found(recorded(draw)) == [[name, 3]]


def test_of_a_generator_that_does_not_give_the_recorded_state_the_dependence_alone_is_told() -> None:
    factory = recorded("random.random()")
    sys.modules["dice"].Dice.step = lambda self: setattr(self, "sum", self.sum + random.random() / 3)  # type: ignore[attr-defined]
    assert found(factory) == [["random", None]]


def test_a_generator_that_a_step_seeds_is_not_named() -> None:
    factory = recorded("random.random()", "random.seed(self.day)")
    wrong = 'setattr(self, "sum", 1.0 if random.seed(self.day) is None and random.random() else 2.0)'
    sys.modules["dice"].Dice.step = eval(f"lambda self: {wrong}")  # type: ignore[attr-defined]
    assert found(factory) == []


def test_a_read_tells_its_generator() -> None:
    names = {"random.random": "random", "np.random.rand": "np.random", "use of PyTorch's default generator": None}
    names["use of the generator of np.random"] = "np.random"
    names["use of numba's np.random (named in compiled code at game.py:3)"] = "numba's np.random"
    for name, expected in names.items():
        read = OutsideRead(GENERATOR, name, "game.py", 3, None)
        assert generator_of(read) == (expected or "PyTorch's default generator")


@pytest.mark.seldom(0.2)
def test_explain_names_the_generator_and_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    recorded("random.random()")
    sys.modules.pop("dice")
    assert run(replayer.commands.main.main, "explain run.tape --sim dice:Dice") == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("cause: ")]
    assert line == (
        "cause: the generator of the module random, whose state the tape does not hold (read at dice.py:17): with two seeds of it, "
        "the step gives two states (each the same in 3 of 3 copies of a process); as 3 further runs of the step leave it, the step "
        "gives the recorded state"
    )
