"""Recorded calls are shown without the classes of their arguments."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import enum
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pytest

import recorder
import replayer.commands.main
from replayer import Tape
from replayer.value_text import inputs_to_json
from sim.adapters.capture.values import encode_value
from sim.adapters.object_view.shown_calls import shown_inputs


class Kind(enum.Enum):
    """What a unit is."""

    FOOT = 1


class Place(NamedTuple):
    """A cell."""

    x: int
    y: Any


@dataclasses.dataclass(eq=False)
class Unit:
    """A unit that refers to others."""

    name: str
    target: Any = None


LAND = Unit("land")


class Game:
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.units = [Unit("a"), Unit("b")]
        self.ranks = {Unit("d"): 1}
        self.teams = {"red": [self.units[0]], ("blue", Kind.FOOT): Unit("c")}

    def play(self, *arguments: Any, **keywords: Any) -> None:
        """Do nothing: the calls are what counts."""


def circle() -> Unit:
    """A unit that leads to itself."""
    unit = Unit("round")
    unit.target = unit
    return unit


def calls(game: Any) -> list[tuple[tuple[Any, ...], dict[str, Any], Any]]:
    """Arguments, and how they are shown."""
    tuple_list = ([1, "x"],)
    return [
        ((1, "a"), {"key": None}, [[1, "a"], {"key": None}]),
        ((Kind.FOOT, decimal.Decimal("1.5")), {}, [["Kind.FOOT", "Decimal('1.5')"], {}]),
        ((game.units[1], game.teams["blue", Kind.FOOT]), {}, [["units[1]", "teams[['blue', 'Kind.FOOT']]"], {}]),
        ((game,), {"all": game.units}, [["the recorded object"], {"all": "units"}]),
        ((Unit("new", game.units[0]),), {}, [[{"Unit": {"name": "new", "target": "units[0]"}}], {}]),
        ((circle(),), {}, [[{"Unit": {"name": "round", "target": "the Unit above"}}], {}]),
        ((Place(1, [Kind.FOOT]), Place(1, 2)), {}, [[{"Place": [1, ["Kind.FOOT"]]}, "Place(1, 2)"], {}]),
        ((tuple_list, tuple_list[0]), {}, [[[[1, "x"]], "a list above"], {}]),
        ((collections.Counter("ab"), {(1, 2): {3}}), {}, [[{"a": 1, "b": 1}, {"[1, 2]": [3]}], {}]),
        ((np.zeros(2), (2**70,), np.int8(3)), {}, [[[0.0, 0.0], [2**70], 3], {}]),
        ((LAND, {8, 0}, frozenset([8, 0])), {}, [["LAND", [8, 0], [8, 0]], {}]),
        ((next(iter(game.ranks)), game.ranks), {}, [["ranks.keys()[0]", "ranks"], {}]),
        ((np.random.default_rng(1), bytearray(b"ab")), {}, [["a random generator", "6162"], {}]),
    ]


def test_what_calls_look_like(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments as lists and dicts; objects by their class and attributes; those of the game by the path to them."""
    with recorder.record(Game(), tmp_path / "run.tape", step="play", quiet=True, trial_ms=0) as game:
        told = calls(game.subject)
        for arguments, keywords, _ in told:
            game.play(*arguments, **keywords)
        game.units = [game.units[1]]
        game.play((1,))
    with Tape(tmp_path / "run.tape") as tape:
        for tick, (_, _, expected) in enumerate(told, 1):
            assert inputs_to_json(tape.frame(tick).inputs) == {"play()": expected}
        last = inputs_to_json(tape.frame(tape.last_tick).inputs)
    assert last == {"play()": [[[1]], {}], "set": [["set", "units", ["units[1]"]]]}
    with pytest.raises(SystemExit, match=r"^0$"):
        replayer.commands.main.main(["tail", str(tmp_path / "run.tape"), "--json"])
    assert '"Kind.FOOT"' in capsys.readouterr().out


@pytest.mark.parametrize(
    "content", [b"", b"\xc1", b"\x93\xa1l", msgpack.packb(["O", 1]), msgpack.packb(["G", b"\x91"]), b"\x91\x90"]
)
def test_bytes_that_are_no_call_stay_bytes(content: bytes) -> None:
    """Such as those of a user's own inputs."""
    assert shown_inputs({"play()": content, "other": content}) == {"play()": content, "other": content}


@pytest.mark.parametrize(
    "inputs", [{"set": b"A"}, {"set": b"\x92\xa1l\x05"}, {"fire()": b"\x05"}, {"fire()": b"\x92\x01\x02"}]
)
def test_bytes_of_a_users_own_inputs_stay_bytes_whatever_their_keys_are(inputs: dict[str, bytes]) -> None:
    """They may be numbers or lists to MessagePack by chance; assignments are told with a call alone."""
    assert shown_inputs(inputs) == inputs


def test_actions_of_several_agents_are_shown_as_they_were_passed() -> None:
    """They were the hexadecimal digits of their bytes."""
    action = {"red_0": np.int64(3), "blue_0": np.array([0.5, 1.0]), "text": ("a", 2)}
    shown = {"red_0": 3, "blue_0": [0.5, 1.0], "text": ["a", 2]}
    assert inputs_to_json({"action": encode_value(action)}) == {"action": shown}
    assert inputs_to_json({"reset": 4, "options": encode_value({"size": (2, 3)})}) == {
        "reset": 4,
        "options": {"size": [2, 3]},
    }
    for other in (b"", b"\x93\xa1d\x01", b"abc", encode_value(action) + b"1"):  # Of a simulation of another kind.
        assert inputs_to_json({"action": other}) == {"action": other.hex()}
