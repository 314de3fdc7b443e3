"""A state that is not the one the last step left is named at once, on the tape, by verify and by explain."""

from __future__ import annotations

import importlib
import itertools
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import recorder
import replayer.commands.main
from recorder import Recorder, RecordingWarning
from recorder.session import between_steps
from replayer import Tape
from replayer.desync.causes.seen_between import between_steps as between_steps_of
from replayer.timeline.verify import verify_tape
from sim.adapters import CapturedWarning

from oracle.command_lines import run
from small_worlds import Walkers

KEY = "between_steps"


class Unit:
    """A unit of a game."""

    def __init__(self) -> None:
        self.hp = 50.0


class Camp:
    """A game of plain objects, with a method of its user interface that changes it by mistake."""

    hidden = 0

    def __init__(self) -> None:
        self.units = [Unit() for _ in range(20)]
        self.speed, self.turn = 1.0, 0
        self.bag: dict[str, int] = {"a": 1, "b": 2}
        self.noise = 0

    def step(self) -> None:
        """Hit a unit."""
        self.turn += 1
        self.units[self.turn % 20].hp -= self.speed
        self.noise = type(self).hidden

    def render(self) -> None:
        """Draw the game, and spoil it."""
        self.units[14].hp = 69.5


class Saved:
    """A simulation with save and load."""

    def __init__(self) -> None:
        self.x, self.name = np.zeros(3), b"n"

    def step(self, inputs: Any) -> None:
        """Count."""
        del inputs
        self.x += 1

    def save(self) -> dict[str, Any]:
        return {"x": self.x.copy(), "name": self.name}

    def load(self, saved: dict[str, Any]) -> None:
        self.x, self.name = saved["x"].copy(), saved["name"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Camp, "hidden", 0)


def record(*, between_steps: bool = True) -> Any:
    return recorder.record(
        Camp(), "run.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=10, between_steps=between_steps
    )


CHANGED = (
    "run.tape: Camp.units[14].hp was changed between tick 12 and 13, outside of the step: a replay does not know of it. "
    "Change it in the step, or, of an object that record() returned, assign the attribute itself, which becomes an input"
)


@pytest.fixture
def _spoiled() -> None:
    """A tape of 30 ticks, with a change between the ticks 12 and 13."""
    with record() as game, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for tick in range(30):
            if tick == 12:
                game.render()
            if tick == 13:
                assert len(caught) == 1
            game.step()
    assert [str(one.message) for one in caught if one.category is RecordingWarning] == [CHANGED]


def between(path: str, world: Any) -> Any:
    """What verify says about changes between two steps."""
    report = verify_tape(path, world)
    (finding,) = report.findings
    return next((tested for tested in finding.tested if tested.cause == "a change between two steps"), None)


@pytest.mark.usefixtures("_spoiled")
def test_it_is_said_at_once_and_on_the_tape() -> None:
    """With the path and both ticks; once for a path."""
    with Tape("run.tape") as tape:
        assert tape.meta["settings"][KEY] is True
        assert tape.outcome["reason"] == "closed"
        assert tape.outcome[KEY] == {"first_tick": 1, "count": 1, "changes": [[13, "Camp.units[14].hp"]]}


@pytest.mark.usefixtures("_spoiled")
def test_verify_and_info_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    """As a tested cause, and as the end of the tape."""
    line = "changed between tick 12 and 13, outside of the step: Camp.units[14].hp, as the recorder saw live"
    found = between("run.tape", Camp)
    assert found is not None
    assert (found.found, found.suspicious) == (line, True)
    assert run(replayer.commands.main.main, "info run.tape") == 0
    assert "  ended: closed; changed 1 time between two steps\n" in capsys.readouterr().out


def test_info_says_at_least_where_only_the_first_steps_were_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """With the range that was compared: a loop beside it knows of more changes."""
    changes = 0
    with recorder.record(Camp(), "run.tape", quiet=True, trial_ms=0) as game:
        for _ in range(between_steps.FIRST_STEPS_MAX + 100):
            game.units[14].hp += 1.0  # Not through the recorded object.
            changes += 1
            game.step()
    with Tape("run.tape") as tape:
        told = tape.outcome[KEY]
    assert told["count"] <= told["last_tick"] < changes
    assert run(replayer.commands.main.main, "info run.tape") == 0
    assert (
        f"  ended: closed; changed at least {told['count']} times between two steps by other code (compared only before the "
        f"steps to ticks 1 to {told['last_tick']}); if the next step reads what was changed, a replay differs: replay "
        "verify tells\n"
    ) in capsys.readouterr().out


CAMP = """
class Camp:
    def __init__(self):
        self.fires = [{"heat": 3.0}, {"heat": 4.0}]

    def step(self):
        self.fires[0]["heat"] -= 0.5
"""


@pytest.mark.seldom(0.15)
def test_explain_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In place of a cause that is not known; without the comparison, the option is named that makes it."""
    (tmp_path / "between_camp.py").write_text(CAMP)
    monkeypatch.syspath_prepend(tmp_path)
    camp = importlib.import_module("between_camp").Camp
    monkeypatch.setitem(sys.modules, "between_camp", sys.modules["between_camp"])
    printed = []
    for on in (True, False):
        with (
            warnings.catch_warnings(),
            recorder.record(camp(), f"{on}.tape", quiet=True, trial_ms=0, between_steps=on) as game,
        ):
            warnings.simplefilter("ignore")
            for tick in range(4):
                if tick == 2:
                    game.fires[1]["heat"] = 9.0
                game.step()
        assert run(replayer.commands.main.main, f"explain {on}.tape --tick 3 --sim between_camp:Camp") == 1
        printed.append(capsys.readouterr().out)
    assert (
        "  changed between tick 2 and 3, outside of the step: Camp.fires[1]['heat'], as the recorder saw live\n"
    ) in printed[0]
    assert "the cause is not known" not in printed[0]
    assert "the cause is not known" in printed[1]
    assert "recording with between_steps=True names one" in printed[1]


def test_a_step_is_not_made_if_the_warning_is_an_error() -> None:
    """Nothing has happened then, and the next call makes the step."""
    with record() as game:
        game.step()
        game.render()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RecordingWarning, match=r"units\[14\]\.hp was changed between tick 1 and 2"):
                game.step()
        assert (game.turn, recorder.tape_of(game).tick) == (1, 1)
        game.step()
        assert (game.turn, recorder.tape_of(game).tick) == (2, 2)


def test_a_call_whose_inputs_are_refused_counts_no_change_again() -> None:
    """Nothing has happened then: it is the same change that the next call meets."""
    with record() as game:
        game.step()
        game.render()
        tape = recorder.tape_of(game)
        with pytest.warns(RecordingWarning, match="changed between tick 1 and 2"), pytest.raises(TypeError):
            tape.step(object())
        with pytest.raises(TypeError):
            tape.step(object())
        game.step()
        assert tape.outside.count == 1


def test_what_is_recorded_as_an_input_is_no_such_change() -> None:
    """Assignments to the recorded object, before the first step and later, also next to a change that is one."""
    with record() as game:
        game.speed = 3.0
        game.step()
        game.bag = {"c": 1}
        game.step()
        game.step()
    assert verify_tape("run.tape", Camp).ok
    Path("run.tape").unlink()
    with record() as game:
        game.step()
        game.render()
        game.speed = 2.0
        with pytest.warns(RecordingWarning, match=r"units\[14\]\.hp was changed between tick 1 and 2"):
            game.step()


@pytest.mark.seldom(0.15)
def test_another_cause_is_not_taken_for_one() -> None:
    """A hidden counter: the comparison was made, and found nothing; without it none is claimed."""
    for on in (True, False):
        Camp.hidden = 0
        with record(between_steps=on) as game:
            for tick in range(30):
                Camp.hidden = int(tick == 17)
                game.step()
        Camp.hidden = 0
        found = between("run.tape", Camp)
        if on:
            assert found is not None
            assert found.suspicious is False
            assert found.found.startswith("no value changed between tick 17 and 18, outside of the step: the recorder")
        else:
            assert found is not None
            assert found.suspicious is None
        Path("run.tape").unlink()


def test_fields_of_a_simulation_with_a_state() -> None:
    """All those that changed, by their names."""
    walkers = Walkers()
    with Recorder("own.tape", walkers, keyframe_interval_ticks=10, between_steps=True) as tape:
        for tick in range(20):
            if tick == 7:
                walkers.state["x"][3] += 1
                with pytest.warns(RecordingWarning, match=r"^own\.tape: x was changed between tick 7 and 8, outside"):
                    tape.step([])
                continue
            tape.step([])
    found = between("own.tape", Walkers)
    assert found is not None
    assert found.found.startswith("changed between tick 7 and 8, outside of the step: x")


@pytest.mark.parametrize("name", ["x", "name"])
def test_what_save_returns(name: str) -> None:
    """The first name whose value differs."""
    simulation = Saved()
    with Recorder("saved.tape", simulation, trial_ms=0, between_steps=True) as tape:
        tape.step()
        tape.step()
        setattr(simulation, name, np.ones(3) if name == "x" else b"m")
        with pytest.warns(RecordingWarning, match=rf"^saved\.tape: {name} was changed between tick 2 and 3, outside"):
            tape.step()
        tape.step()
    with Tape("saved.tape") as recording:
        assert recording.outcome[KEY]["changes"] == [[3, name]]


def test_a_resumed_recording_continues_to_compare() -> None:
    """From the tick at which it was resumed."""
    with record() as game:
        for _ in range(5):
            game.step()
    with recorder.resume("run.tape", Camp()) as tape:
        game = recorder.object_of(tape)
        game.step()
        game.units[2].hp = 1.0
        with pytest.warns(RecordingWarning, match=r"units\[2\]\.hp was changed between tick 6 and 7"):
            game.step()
    with Tape("run.tape") as recording:
        assert recording.outcome[KEY] == {"first_tick": 6, "count": 1, "changes": [[7, "Camp.units[2].hp"]]}


def spoiled_camp(path: str, ticks: int, changed_at: int, **options: Any) -> list[str]:
    """Record a camp whose render() changes it before one step; return the warnings."""
    with (
        warnings.catch_warnings(record=True) as caught,
        recorder.record(Camp(), path, quiet=True, trial_ms=0, keyframe_interval_ticks=10, **options) as game,
    ):
        warnings.simplefilter("always")
        for tick in range(ticks):
            if tick == changed_at:
                game.render()
            game.step()
    return [str(one.message) for one in caught if one.category is RecordingWarning]


def test_the_first_steps_are_compared_by_default_and_nothing_is_said_live() -> None:
    """The end of the tape has the change, for the tick that differs; a tape without a change has no note of it."""
    assert spoiled_camp("run.tape", 30, 2) == []
    with Tape("run.tape") as tape:
        found = tape.outcome[KEY]
        assert KEY not in tape.meta["settings"]
    assert (found["count"], found["changes"]) == (1, [[3, "Camp.units[14].hp"]])
    assert 3 <= found["last_tick"] <= 30
    tested = between("run.tape", Camp)
    assert tested is not None
    assert (
        tested.found == "changed between tick 2 and 3, outside of the step: Camp.units[14].hp, as the recorder saw live"
    )
    assert spoiled_camp("sound.tape", 30, 99) == []
    with Tape("sound.tape") as tape:
        assert KEY not in tape.outcome


def test_a_change_in_each_tick_is_told_of_late_ones_too() -> None:
    """The tape names the first ones, and of the others the ticks and which of the first ones they are like."""
    with recorder.record(Camp(), "run.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=100) as game:
        for tick in range(40):
            game.units[3 + tick % 2].hp = 10.0 + tick
            game.step()
    with Tape("run.tape") as tape:
        found = tape.outcome[KEY]
        assert found["changes"][-1] == [16, "Camp.units[4].hp"]
        assert found["later"][:2] == [[17, 0], [18, 1]]
        told = between_steps_of(tape, 18), between_steps_of(tape, 40)
    assert [one and one.found for one in told] == [
        f"changed between tick {tick - 1} and {tick}, outside of the step: Camp.units[4].hp, as the recorder saw live"
        for tick in (18, 40)
    ]


@pytest.mark.parametrize("later", [7, [5], [[18, "x"]], [["18", 0]], [[18, 0, 0]], None])
def test_another_list_of_late_changes_is_no_list(later: Any) -> None:
    """Of a tape that other software wrote: such entries tell nothing."""
    noted = {"first_tick": 1, "count": 2, "changes": [[3, "Camp.units"]], "later": later}
    found = between_steps_of(cast("Tape", SimpleNamespace(outcome={KEY: noted})), 18)
    assert found is not None
    assert found.suspicious is None


def test_what_comes_after_the_first_steps_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that something was changed there, nor that nothing was."""
    monkeypatch.setattr(between_steps, "FIRST_STEPS_NS", 1)
    spoiled_camp("run.tape", 30, 12)
    with Tape("run.tape") as tape:
        assert KEY not in tape.outcome
    found = between("run.tape", Camp)
    assert found.suspicious is None
    assert found.found.startswith("the tape tells of no comparison before the step to tick 13: ")
    assert "record the run with between_steps=True" in found.found


def test_a_long_run_of_short_steps_is_soon_compared_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is changed before the last of the first steps is noted, and nothing after it."""
    monkeypatch.setattr(between_steps, "FIRST_STEPS_MAX", 10)
    for name, change, noted in (("last.tape", 9, True), ("after.tape", 10, False)):
        spoiled_camp(name, 30, change)
        with Tape(name) as tape:
            assert (KEY in tape.outcome) is noted


def test_deterministic_tapes_do_not_depend_on_the_clock() -> None:
    """How many steps are compared does: none are, and two runs have the same bytes."""
    for name in ("one.tape", "two.tape"):
        spoiled_camp(name, 20, 2, deterministic=True)
    with Tape("one.tape") as tape:
        assert KEY not in tape.outcome
    assert Path("one.tape").read_bytes() == Path("two.tape").read_bytes()


def test_an_error_of_the_comparison_ends_it_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user did not ask for it."""
    monkeypatch.setattr(between_steps.BetweenSteps, "_difference", lambda _: 1 // 0)
    assert spoiled_camp("run.tape", 20, 2) == []
    with Tape("run.tape") as tape:
        assert (tape.last_tick, KEY in tape.outcome) == (20, False)


def test_a_step_whose_comparison_failed_is_not_said_to_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """That before the step to tick 6 does: of this step nothing is known."""
    compare, count = between_steps.BetweenSteps._difference, itertools.count(1)
    monkeypatch.setattr(
        between_steps.BetweenSteps, "_difference", lambda self: compare(self) if next(count) < 6 else 1 // 0
    )
    spoiled_camp("run.tape", 20, 2)
    with Tape("run.tape") as tape:
        assert (tape.outcome[KEY]["count"], tape.outcome[KEY]["last_tick"]) == (1, 5)
        told = between_steps_of(tape, 6)
    assert told is not None
    assert told.suspicious is None


class Shop:
    """Keeps counts, which an input cannot be."""

    def __init__(self) -> None:
        self.tickets, self.orders = itertools.count(), itertools.count()

    def step(self) -> None:
        """Draw."""
        next(self.tickets)
        next(self.orders)


@pytest.mark.parametrize("on", [None, False, True])
def test_an_assignment_that_cannot_be_an_input_is_noted_and_told(on: bool | None) -> None:  # noqa: FBT001 - a parameter
    """At each tick before whose step it was made, also where no states are compared; with two of them, both are named."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with recorder.record(Shop(), "shop.tape", quiet=True, keyframe_interval_ticks=5, between_steps=on) as shop:
            for tick in range(12):
                if tick in (6, 9):
                    shop.tickets = itertools.count(50)
                if tick == 9:
                    shop.orders = itertools.count(70)
                shop.step()
    told_live = [str(one.message).partition(" was assigned")[0] for one in caught if one.category is CapturedWarning]
    assert told_live == ["Shop.tickets", "Shop.orders"]
    with Tape("shop.tape") as tape:
        found = tape.outcome[KEY]
        assert (found["count"], found["changes"]) == (
            3,
            [[7, "Shop.tickets"], [10, "Shop.tickets"], [10, "Shop.orders"]],
        )
        assert ("first_tick" in found) is (on is not False)
        told = [between_steps_of(tape, tick) for tick in (6, 7, 10)]
    assert told[0] is None or not told[0].suspicious
    assert [one and one.found.partition(": ")[2] for one in told[1:]] == [
        "Shop.tickets, as the recorder saw live",
        "Shop.tickets, Shop.orders, as the recorder saw live",
    ]
    tested = between("shop.tape", Shop)
    assert (tested.suspicious, tested.found) == (
        True,
        "changed between tick 6 and 7, outside of the step: Shop.tickets, as the recorder saw live",
    )
