"""Tested causes match the planted ones; the runs that test them do not influence each other."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from recorder import Recorder
from replayer.desync.causes.seen_between import between_steps
from replayer.desync.finding import HIDDEN_STATE, NOT_DETERMINISTIC, STACK_DEPTH, Finding, other_count
from replayer.desync.isolated_rerun import Reruns
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State

calls = 0  # Of Calls.step, and kept where no keyframe looks.


class Calls:
    """Counts its steps in a global of its module, and reads it at tick 90."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8", (3,))))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        global calls  # noqa: PLW0603 - the defect
        calls += 1
        self.state["tick"][()] += 1
        if self.state["tick"] == 90:
            self.state["x"][1] = calls


class Draws(Calls):
    """Draws from NumPy's global generator, which is never seeded."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["tick"] == 90:
            self.state["x"][1] = np.random.randint(1 << 40)  # noqa: NPY002 - the defect


class Words(Calls):
    """Iterates over a set of texts."""

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        if self.state["tick"] == 90:
            for word in {"oak", "elm", "birch", "lime", "ash", "fir", "yew"}:  # noqa: PLC0208 - the defect
                self.state["x"][1] = self.state["x"][1] * 7 + ord(word[1])


class Edited(Calls):
    """A different version of the code."""

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        self.state["x"][1] += self.state["tick"] == 90


class Late(Calls):
    """Reads at tick 140 what it keeps in an attribute since tick 10, which two keyframes after that lack."""

    stage = 1

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        tick = int(self.state["tick"]) + 1
        self.state["tick"][()] = tick
        self.stage = 2 if tick == 10 else self.stage
        if tick == 140:
            self.state["x"][1] = self.stage


class Numbered(Calls):
    """Has a number, by which it steps at tick 90: its class counts the instances of a process."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Numbered.made += 1
        self.number = Numbered.made

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        if self.state["tick"] == 90:
            self.state["x"][1] = self.number


cards = iter(())  # Dealt once in a process, and kept where no keyframe looks.


def dealt() -> Iterator[int]:
    """The eighth card is not the third one; the seventh is the second one, and neither the third nor the fourth."""
    return iter([0, 1, 2, 3, 4, 5, 1, 7, *range(100, 200)])


class Player(Calls):
    """Takes a card when it is made, and at every tenth tick."""

    def __init__(self) -> None:
        super().__init__()
        self.state["x"][1] = next(cards)

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        if self.state["tick"] % 10 == 0:
            self.state["x"][1] = next(cards)


class Deep(Calls):
    """Goes down at tick 90 until the stack is full: how far it gets depends on how deep the stack is already."""

    def fall(self) -> int:
        try:
            return 1 + self.fall()
        except RecursionError:
            return 0

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        if self.state["tick"] == 90:
            self.state["x"][1] = self.fall()


class Reloaded(Calls):
    """A load leaves something behind that the steps read."""

    is_loaded = False

    def after_restore(self) -> None:
        self.is_loaded = True

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        if self.state["tick"] == 90:
            self.state["x"][1] = self.is_loaded


class Begun(Edited):
    """Begins elsewhere than the simulation that was recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.state["x"][0] = 7


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and the state of a fresh process without a hash seed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "calls", 0)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)


def tape_of(world: Any) -> None:
    """Record run.tape with keyframes every 50 ticks; reset the module's global as in a fresh process."""
    global calls  # noqa: PLW0603 - the defect's
    Path("run.tape").unlink(missing_ok=True)
    with Recorder("run.tape", world(), keyframe_interval_ticks=50) as tape:
        for _ in range(160):
            tape.step()
    calls = 0


def found(world: Any, tick: int = 90) -> tuple[Finding, dict[str, Any]]:
    """The finding at the tick, and the tested causes by their first three words."""
    (finding,) = verify_tape("run.tape", world).findings
    assert finding.tick == tick
    return finding, {" ".join(one.cause.split()[:3]): one for one in finding.tested}


@pytest.mark.seldom(0.15)
def test_a_global_of_a_module_is_hidden_state() -> None:
    """The step is deterministic and the global is hidden state; a second verification gives the same result."""
    tape_of(Calls)
    for _ in range(2):
        finding, tested = found(Calls)
        assert tested["a non-deterministic step"].suspicious is False
        assert tested["hidden state, which"].suspicious is True
        assert "re-simulated from the keyframe at tick 0, the tick has the recorded hash; from" in str(finding.note)
        assert tested["hidden state, which"].cause == HIDDEN_STATE
        assert finding.hints_at_hidden_state


@pytest.mark.seldom(0.15)
def test_hidden_state_from_before_the_last_two_keyframes_is_found_from_the_first() -> None:
    """The keyframe before the interval lacks it as well: that it gives a wrong hash refutes nothing."""
    tape_of(Late)
    finding, tested = found(Late, 140)
    assert finding.keyframe_tick == 100
    assert tested["hidden state, which"].suspicious is True
    assert tested["hidden state, which"].found.startswith("re-simulated from the keyframe at tick 0, the tick has the")


@pytest.mark.seldom(0.15)
def test_a_restore_that_changes_the_run_is_told_apart_from_hidden_state() -> None:
    """No keyframe gives the recorded hash, and a simulation into which nothing is restored does."""
    tape_of(Reloaded)
    finding, tested = found(Reloaded)
    assert tested["a restore that"].suspicious is True
    assert "with nothing restored, the tick has the recorded hash; from the keyframe at tick 0 it has not" in str(
        finding.note
    )
    assert "hidden state, which" not in tested


@pytest.mark.seldom(0.15)
def test_hidden_state_is_not_decided_without_a_run_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the new simulation begins elsewhere, or the run from the first tick takes too long."""
    tape_of(Words)
    _, tested = found(Begun)
    assert tested["hidden state, which"].suspicious is None
    assert (
        "not decided: re-simulated from the keyframe at tick 0, the tick has a wrong hash, too; not run from the first "
        in (tested["hidden state, which"].found)
    )
    assert "does not begin in the first recorded state" in tested["hidden state, which"].found
    monkeypatch.setattr("replayer.desync.isolated_rerun.EARLIER_S", 0.0)
    _, tested = found(Edited)
    assert tested["hidden state, which"].suspicious is None
    assert "not tested: it takes more than 0 s" in tested["hidden state, which"].found


@pytest.mark.seldom(0.15)
def test_an_edit_is_neither() -> None:
    """Every run gives the same wrong hash, also from the beginning."""
    tape_of(Words)
    finding, tested = found(Edited)
    assert not finding.hints_at_hidden_state
    assert "run from tick 0 as it was made, with nothing restored" in tested["hidden state that"].found
    assert [tested[name].suspicious for name in ("a non-deterministic step", "hidden state that")] == [False, False]
    steady = tested["a non-deterministic step"]
    assert (
        "not tested by that: an order by memory addresses, the date, and what a class or a module keeps" in steady.found
    )
    assert "class" not in steady.cause, "copies of one process have the same classes"


SHIP = object()


class Addressed(Calls):
    """Reads the address of an object, which all copies of a process have in one place."""

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        if self.state["tick"] == 90:
            self.state["x"][1] = 1 + id(SHIP) % 2**40


def test_runs_with_one_layout_of_memory_do_not_rule_out_addresses() -> None:
    """They are copies of one process: the address of an object is the same in all of them."""
    tape_of(Edited)
    _, tested = found(Addressed)
    assert tested["a non-deterministic step"].suspicious is None
    assert "run again" in tested["a non-deterministic step"].found
    assert (
        "; not ruled out by that: the addresses of memory, which the step reads: id (read at test_tested_causes.py:"
        in (tested["a non-deterministic step"].found)
    )
    _, tested = found(Words)
    assert tested["a non-deterministic step"].suspicious is False
    assert "memory" not in tested["a non-deterministic step"].cause


@pytest.mark.seldom(0.15)
def test_draws_from_the_generator_of_the_process_are_no_steady_step() -> None:
    """A forked copy has the same generator and would draw the same numbers: it is reseeded."""
    tape_of(Draws)
    finding, tested = found(Draws)
    assert finding.note == NOT_DETERMINISTIC
    assert "hidden state takes part" not in finding.note, "chance is not shown to be state"
    assert "(possible: a clock, random numbers" in finding.note
    assert finding.hints_at_hidden_state
    assert tested["something besides the"].suspicious is True
    assert "a non-deterministic step" not in tested


@pytest.mark.seldom(0.15)
def test_a_number_that_a_class_counts_up_makes_no_step_non_deterministic() -> None:
    """Each instance of one process has the next number: it is told that the number of instances decides, and nothing of chance."""
    Numbered.made = 0
    tape_of(Numbered)
    finding, tested = found(Numbered)
    assert finding.note != NOT_DETERMINISTIC
    assert finding.hints_at_hidden_state
    assert tested["how many simulations"].suspicious is True
    assert re.search(
        "the same ones in each of [4-8] runs; without another one, the hashes above in each of [4-8]$",
        tested["how many simulations"].found,
    )
    assert tested["a non-deterministic step"].suspicious is False
    assert "something besides the" not in tested


@pytest.mark.seldom(0.5)
def test_the_first_bad_tick_is_that_of_a_process_that_made_one_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restored at tick 50, it takes the second card at tick 60, as the recorded seventh; after two others the first bad tick is 60."""
    monkeypatch.setattr(sys.modules[__name__], "cards", dealt())
    tape_of(Player)
    monkeypatch.setattr(sys.modules[__name__], "cards", dealt())
    finding, tested = found(Player, 70)
    assert finding.replayed["x"][1] == 2
    assert tested["hidden state, which"].suspicious is True
    assert str(finding.note).startswith("re-simulated from the keyframe at tick 0, the tick has the recorded hash")
    assert tested["how many simulations"].suspicious is True


@pytest.mark.seldom(0.15)
def test_a_step_that_depends_on_the_depth_of_the_stack_is_not_called_non_deterministic() -> None:
    """It gives the same whenever it is called from the same depth, and the depth is named."""
    tape_of(Deep)
    finding, tested = found(Deep)
    assert finding.note == STACK_DEPTH
    assert tested["how deep the"].suspicious is True
    assert "four times each: the same hashes from each depth" in tested["how deep the"].found
    assert "a non-deterministic step" not in tested
    assert tested["hidden state, which"].suspicious is None


@pytest.mark.seldom(0.15)
def test_the_order_of_sets_is_not_ruled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs of one process have one order: not tested. With the same fixed seed in both runs, the order is known."""
    tape_of(Edited)
    _, tested = found(Words)
    assert not any("order of sets" in one.cause for one in tested.values() if one.suspicious is False)
    assert tested["the iteration order"].suspicious is None
    assert "a process has one order" not in tested["the iteration order"].found, "not so of sets of objects"
    assert "certify --factor hash-seed" in tested["the iteration order"].found
    monkeypatch.setitem(os.environ, "PYTHONHASHSEED", "0")
    _, tested = found(Words)
    assert "the iteration order" not in tested
    assert tested["a different environment"].suspicious is None, "no run has the recorded seed"
    assert (
        "not tested whether it matters: PYTHONHASHSEED not set recorded, 0 now"
        in tested["a different environment"].found
    )
    tape_of(Edited)
    _, tested = found(Words)
    assert "the iteration order" not in tested
    assert tested["a different environment"].suspicious is False


@pytest.mark.tried
@pytest.mark.seldom(0.18)
def test_the_confidence_of_a_rerun_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the number of runs, which time may limit; nothing is ruled out where no run was possible."""
    tape_of(Words)
    monkeypatch.setattr("replayer.desync.isolated_rerun.RERUN_S", 60.0)
    finding, tested = found(Edited)
    assert finding.rerun_count == 9
    assert "run again 9 times, each on a fresh simulation" in tested["a non-deterministic step"].found
    assert "with 97%" in tested["a non-deterministic step"].found

    monkeypatch.setattr("replayer.desync.isolated_rerun.RERUN_S", 0.0)
    finding, tested = found(Edited)
    assert finding.rerun_count == 1
    assert "run again once on a fresh simulation" in tested["a non-deterministic step"].found
    assert "with 33%" in tested["a non-deterministic step"].found

    monkeypatch.setattr("replayer.desync.isolated_rerun.RERUNS_MAX", 0)
    finding, tested = found(Edited)
    assert finding.rerun_count == 0
    assert tested["a non-deterministic step"].suspicious is None


def test_a_change_that_was_seen_before_an_earlier_step_is_told_of_a_tick_before_which_none_was_searched() -> None:
    """It is not the cause that is known, but that code around the steps changes the state."""
    outcome = {"between_steps": {"first_tick": 1, "last_tick": 3, "count": 1, "changes": [[3, "Radar.pixels"]]}}
    tape: Any = SimpleNamespace(outcome=outcome)
    tested = between_steps(tape, 63)
    assert tested is not None
    assert tested.suspicious is None
    assert tested.found == (
        "not compared before the step to tick 63: the recorder compared before those to ticks 1 to 3 alone, and saw live that Radar.pixels "
        "was changed between tick 2 and 3, outside of the step; recording with between_steps=True tells of each change"
    )
    assert between_steps(tape, 3).suspicious  # type: ignore[union-attr]
    outcome["between_steps"]["changes"] = [[3, 4]]  # Of another version.
    assert between_steps(tape, 63) is None


def test_runs_after_another_simulation_are_counted_only_beside_the_hashes_of_runs_without_one() -> None:
    """The run that is told may itself have been made after another one, as that of a large state."""
    reruns = Reruns([[1, 2, 3]] * 4, [[7, 8, 9]] * 5, differs_by_count=True)
    assert [other_count(reruns, hashes) for hashes in ([1, 2], [7, 8], [1, 4])] == [5, 0, 0]
