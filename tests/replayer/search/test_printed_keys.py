"""Keys of dicts that are no texts: each command takes their paths as they are printed, beside a plain loop."""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.exit_codes import UsageError
from replayer.report.object_lines import ShownState
from replayer.search.search_errors import ExpressionError


class Good(enum.Enum):
    """What is traded."""

    SILK = "silk"
    TEA = "tea"


class Rank(enum.IntEnum):
    """Numbers with names."""

    LOW = 1


class Tint(enum.StrEnum):
    """Texts with names."""

    RED = "red"


KEYS: dict[str, Any] = {
    "[Good.SILK]": Good.SILK,
    "[Rank.LOW]": Rank.LOW,
    "[Tint.RED]": Tint.RED,
    "[(0, 1)]": (0, 1),
    "[(0, Good.TEA)]": (0, Good.TEA),
    "[(3,)]": (3,),
    "[None]": None,
    "[1.5]": 1.5,
    "[-1e-07]": -1e-07,
    "[(1+2j)]": 1 + 2j,
    "[False]": False,
    "[7]": 7,
    "[-2]": -2,
    "[b'ab']": b"ab",
    "['1.5']": "1.5",
    "[frozenset({1})]": frozenset({1}),
}


class Isle:
    """Prices by keys of many types."""

    def __init__(self) -> None:
        """Each price is another one."""
        self.price = {key: number for number, key in enumerate(KEYS.values())}


class Sea:
    """A step raises one price of the first isle."""

    def __init__(self) -> None:
        """Make two isles, and an array."""
        self.isles, self.turn = [Isle(), Isle()], 0

    def step(self) -> None:
        """Raise the next price by 100."""
        key = list(KEYS.values())[self.turn % len(KEYS)]
        self.isles[0].price[key] += 100
        self.turn += 1


@pytest.fixture(scope="module")
def sea(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape in which the price of the key of each number changes in the step after it, once."""
    path = tmp_path_factory.mktemp("sea") / "sea.tape"
    with recorder.record(Sea(), path, quiet=True, trial_ms=0) as game:
        for _ in KEYS:
            game.step()
    return path


def test_each_printed_path_is_taken_as_it_is(sea: Path) -> None:
    with replayer.Timeline(sea, Sea) as run:
        start = run.tape.snapshot(run.tape.keyframes[0])
        shown = "\n".join(ShownState(0, start, ["isles[0].price"]).requested_lines(whole=True)) + "\n"
        for number, step in enumerate(KEYS):
            path = f"isles[0].price{step}"
            assert f"{path} = {number}\n" in shown
            assert run.first(f"{path} > 99") == number + 1
            assert run.last(f"{path} == {number}") == number
            found = run.last_write(path)
            assert (found.tick, found.before, found.after) == (number + 1, number, number + 100), path
            assert found.line is not None or step == "[frozenset({1})]", (path, found)
            assert run.last_write(f"isles[-1].price{step}").tick is None
        assert run.first("(isles[:].price[Good.SILK] > 99).any()") == 1
        assert run.first("isles[0].price[(0,1)] > 99") == run.first("isles[0].price[ (0, 1) ] > 99")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("['Good.SILK']", "[Good.SILK]"),
        ("['SILK']", "[Good.SILK]"),
        ("[Good.SLIK]", "[Good.SILK]"),
        ("['False']", "[False]"),
        ("['none']", "[None]"),
    ],
)
def test_the_path_that_was_meant_can_be_typed(sea: Path, typed: str, meant: str) -> None:
    hint = f"did you mean isles[0].price{meant}?"
    with replayer.Timeline(sea, Sea) as run:
        for ask in (run.last_write, lambda path: run.first(f"{path} > 3")):
            with pytest.raises(ExpressionError, match=re.escape(hint)):
                ask(f"isles[0].price{typed}")
        with pytest.raises(UsageError, match=re.escape(hint)):
            ShownState(0, run.tape.snapshot(run.tape.keyframes[0]), [f"isles[0].price{typed}"])
        assert run.last_write(hint[len("did you mean ") : -1]).tick is not None


def test_a_key_is_no_index_of_an_array_or_a_list(sea: Path) -> None:
    with replayer.Timeline(sea, Sea) as run:
        for path in ("isles[Good.SILK]", "isles[0].price[Good.SILK][None]", "isles[0].price[turn > 3]"):
            with pytest.raises(ExpressionError):
                run.last_write(path)
