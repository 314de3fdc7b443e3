"""The end that a simulation reports is the outcome of its tape."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from recorder import Recorder, RecordingWarning
from replayer import Tape
from sim import Field, Schema, State

from small_worlds import Saved


class Fire:
    """Burns down from five."""

    def __init__(self, answer: Any = ("burnt down", "nothing is left")) -> None:
        self.state = State(Schema(Field("wood", "i8")))
        self.state["wood"][()] = 5
        self.answer = answer

    def step(self, _: Any) -> None:
        """Burn one piece."""
        self.state["wood"][...] -= 1
        if self.state["wood"] < 0:
            raise RuntimeError("no wood")

    def ended(self) -> Any:
        """The end, once all wood is burnt."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if self.state["wood"] <= 0 else None


class SavedFire(Saved):
    """Ends at tick 5, in the form with save and load."""

    def ended(self) -> Any:
        """The end."""
        return ("burnt down", "nothing is left") if self.total >= 5 else None


def outcome(path: Path) -> Any:
    with Tape(path) as tape:
        assert tape.status == "not checked"
        return tape.outcome


@pytest.mark.parametrize("make", [Fire, SavedFire])
def test_sealing_asks_the_simulation_for_its_end(tmp_path: Path, make: Any) -> None:
    """The simulation's own reason is on the tape if it reports one, otherwise "closed"."""
    for ticks, expected in (
        (4, {"reason": "closed"}),
        (5, {"reason": "burnt down", "text": "nothing is left", "ticks": 5}),
    ):
        path = tmp_path / f"{ticks}.tape"
        with Recorder(path, make()) as tape:
            for _ in range(ticks):
                tape.step(1)
        assert outcome(path) == expected


def test_an_outcome_that_is_given_is_kept(tmp_path: Path) -> None:
    """The caller's outcome has priority, and so has an exception of the program."""
    with Recorder(tmp_path / "given.tape", Fire()) as tape:
        for _ in range(5):
            tape.step()
        tape.close({"reason": "the goal"})
    assert outcome(tmp_path / "given.tape") == {"reason": "the goal"}
    tape = Recorder(tmp_path / "raised.tape", Fire())
    for _ in range(5):
        tape.step()
    with pytest.raises(KeyError), tape:
        raise KeyError("x")
    assert outcome(tmp_path / "raised.tape") == {"reason": "exception", "exception": "KeyError: 'x'"}


def test_after_a_failed_step_the_simulation_is_not_asked(tmp_path: Path) -> None:
    """Its state is that of an incomplete step."""
    tape = Recorder(tmp_path / "run.tape", Fire())
    for _ in range(5):
        tape.step()
    with pytest.raises(RuntimeError, match="no wood"):
        tape.step()
    tape.close()
    assert outcome(tmp_path / "run.tape") == {"reason": "closed"}


def test_a_copy_of_a_run_that_has_ended_ends_like_it(tmp_path: Path) -> None:
    """write_out asks as well; before the end the copy is only written out."""
    with Recorder(tmp_path / "run.tape", Fire()) as tape:
        for tick in range(1, 6):
            tape.step()
            tape.write_out(tmp_path / f"{tick}.tape")
    assert outcome(tmp_path / "4.tape") == {"reason": "written out"}
    assert outcome(tmp_path / "5.tape")["reason"] == "burnt down"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (True, r"TypeError: ended\(\): expected a short name and a sentence, or None, got True"),
        (("burnt down",), r"got \('burnt down',\)"),
        (RuntimeError("no matches"), "RuntimeError: no matches"),
        (("\udcff", "text"), "the simulation's end is unknown"),
    ],
    ids=["bool", "short", "raises", "surrogate"],
)
@pytest.mark.parametrize("action", ["always", "error"])
def test_a_wrong_answer_is_reported_and_the_tape_sealed(tmp_path: Path, answer: Any, text: str, action: Any) -> None:
    """The tape is sealed first, also where warnings are errors."""
    tape = Recorder(tmp_path / "run.tape", Fire(answer))
    for _ in range(5):
        tape.step()
    with warnings.catch_warnings(record=action == "always") as caught:
        warnings.simplefilter(action)
        if action == "error":
            with pytest.raises(RecordingWarning, match=text):
                tape.close()
        else:
            with pytest.warns(RecordingWarning, match=text):
                tape.close()
    assert not caught
    assert outcome(tmp_path / "run.tape") == {"reason": "closed"}
