"""A path that no value has: the message names what is next to it, in find, who, influence and seek."""

from __future__ import annotations

from pathlib import Path

import pytest

import recorder
import replayer
from recorder.exit_codes import UsageError
from replayer.report.object_lines import ShownState
from replayer.search.search_errors import ExpressionError


class Unit:
    """A thing in a list."""

    def __init__(self, number: int) -> None:
        """number: of the unit."""
        self.number, self.health = number, 10


class Yard:
    """Units in a list, gold in a dict, one number."""

    def __init__(self) -> None:
        """Make three units."""
        self.units = [Unit(number) for number in range(3)]
        self.gold, self.turn, self.empty = {"red": 1, "blue": 2}, 0, list[int]()

    def step(self) -> None:
        """Hurt the second unit."""
        self.turn += 1
        self.units[1].health -= 1


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape of four steps."""
    path = tmp_path_factory.mktemp("yard") / "yard.tape"
    with recorder.record(Yard(), path, quiet=True, trial_ms=0) as game:
        for _ in range(4):
            game.step()
    return path


HINTS = [
    ("units[1].helth", "; did you mean units[1].health?"),
    ("units[:].helth", "; did you mean units[:].health?"),
    ("units[-1].helth", "; did you mean units[-1].health?"),
    ("unts[1].health", "; did you mean units[1].health?"),
    ("units[1].weapon", "; units[1] has number, health"),
    ("units[7].health", "; units has 3 items at tick 0"),
    ("units[7].helth", "; did you mean units[7].health?"),
    ("gold['rd']", "; did you mean gold['red']?"),
    ("gold['green']", "; gold has ['red'], ['blue']"),
    ("turn.number", "; turn has no parts"),
    ("empty[0].number", "; empty has no items at tick 0"),
    ("price", "; there are empty, gold, turn, units"),
]


@pytest.mark.parametrize(("path", "hint"), HINTS)
def test_a_condition_names_what_is_near(yard: Path, path: str, hint: str) -> None:
    """What the deepest part of the path holds that exists."""
    text = f"({path}).min() > 3" if "[:]" in path else f"{path} > 3"
    with replayer.open(yard, Yard) as run, pytest.raises(ExpressionError) as refused:
        run.find(text)
    assert str(refused.value).partition("; ")[2].rpartition(" (")[0] == hint.removeprefix("; "), str(refused.value)


@pytest.mark.parametrize(("path", "hint"), [hint for hint in HINTS if "[:]" not in hint[0]])
def test_a_seek_names_what_is_near(yard: Path, path: str, hint: str) -> None:
    """At its own tick."""
    with replayer.open(yard, Yard) as run:
        run.seek(4)
        state = run.state.snapshot()
    with pytest.raises(UsageError) as refused:
        ShownState(4, state, [path])
    wanted = hint.replace("tick 0", "tick 4").replace("there are", "the attributes are")
    assert str(refused.value) == f"no attribute or field {path!r}{wanted}"


def test_a_question_about_a_value_names_what_is_near(yard: Path) -> None:
    """By the same words."""
    match = r"^there is no 'units\[1\]\.helth'; did you mean units\[1\]\.health\?"
    with replayer.open(yard, Yard) as run, pytest.raises(ExpressionError, match=match):
        run.last_write("units[1].helth")
