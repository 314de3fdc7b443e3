"""Runs that have met again but for a field: which fields, since when, and if a later step depends on them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import recorder
from replayer.diagnose.compare.meeting import Meeting, ReadTrial, declared_counters, find_meeting, try_reads
from replayer.diagnose.compare.spread import DifferenceSpread, measure_spread
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import make_simulation
from replayer.report.difference_text import MeetingReport
from replayer.tape.tape import Tape
from sim import Field, Schema, State


class Clock:
    """Fields that one step reads, that none reads, and that one takes for an index."""

    def __init__(self) -> None:
        self.state = State(
            Schema(
                Field("tick", "i8"),
                Field("waves", "i8", (4,)),
                Field("stones", "i8", counter=True),
                Field("lever", "i8"),
                Field("door", "?"),
                Field("share", "f8", (3,)),
            )
        )

    def step(self, inputs: str | None) -> None:
        """An input sets one of the fields; at tick 25 the lever moves the waves."""
        state = self.state
        state["tick"][...] += 1
        state["waves"][:] //= 2
        if int(state["tick"]) == 25:
            state["waves"][0] += min(int(state["lever"]), 1000)
        if int(state["tick"]) == 28:
            state["waves"][int(state["door"])] += 0
        match inputs:
            case "stone":
                state["waves"][:] += 100
                state["stones"][...] += 1
            case "lever" | "door" | "share":
                state["waves"][:] += 100
                state[inputs][...] = 1


def record_two(folder: Path, order: str, last: int, kind: type[Clock] = Clock) -> tuple[Tape, Tape]:
    """The same run without an input, and with one at tick 10."""
    for name in ("plain", "other"):
        with recorder.Recorder(folder / f"{name}.tape", kind(), trial_ms=0, keyframe_interval_ticks=7) as tape:
            for tick in range(1, last + 1):
                tape.step(order if name == "other" and tick == 10 else None)
    return Tape(folder / "plain.tape"), Tape(folder / "other.tape")


def meet(folder: Path, order: str, last: int) -> tuple[Meeting | None, list[ReadTrial]]:
    """Find the meeting of two runs, and try its fields."""
    one, other = record_two(folder, order, last)
    with one, other:
        made = [make_simulation(tape, Clock) for tape in (one, other)]
        counters = declared_counters(made[0])
        assert counters == {"stones"}
        pair = Cursor(one, made[0]), Cursor(other, made[1])
        meeting = find_meeting(measure_spread(*pair, 10, last), counters)
        return meeting, try_reads(meeting, pair, lambda: make_simulation(other, Clock)) if meeting else []


def test_a_counter_that_nothing_reads(tmp_path: Path) -> None:
    """100 halved seven times is 0: the runs meet at tick 17 but for the counter."""
    meeting, trials = meet(tmp_path, "stone", 30)
    assert meeting == Meeting(17, 30, {"stones": 1}, ("stones",))
    assert trials == [ReadTrial("stones", 18, 30, 3)]


@pytest.mark.parametrize(("last", "read_at"), [(24, None), (25, 25), (40, 25)])
def test_a_field_that_the_step_to_tick_25_reads(tmp_path: Path, last: int, read_at: int | None) -> None:
    """Up to tick 24 nothing depends on it; from 25 on the waves do. The two runs themselves show no difference."""
    one, other = record_two(tmp_path, "lever", last)
    with one, other:
        pair = Cursor(one, make_simulation(one, Clock)), Cursor(other, make_simulation(other, Clock))
        spread = measure_spread(*pair, 10, min(last, 24))
        meeting = find_meeting(spread, ())
        assert meeting == Meeting(17, min(last, 24), {"lever": 1}, ())
        meeting = Meeting(17, last, {"lever": 1}, ())
        (trial,) = try_reads(meeting, pair, lambda: make_simulation(other, Clock))
    assert (trial.read_at, trial.sign) == (read_at, "waves" if read_at else None)
    assert trial.tried == (1 if read_at else 3)


@pytest.mark.parametrize(("order", "tried"), [("door", 1), ("share", 3)])
def test_other_kinds_of_values(tmp_path: Path, order: str, tried: int) -> None:
    """A truth value has one other value; three fractions are changed at once."""
    meeting, trials = meet(tmp_path, order, 27)
    assert meeting is not None
    assert meeting.rows == {order: 3 if order == "share" else 1}
    assert trials == [ReadTrial(order, 18, 27, tried)]


def test_a_step_that_raises_with_another_value_has_read_it(tmp_path: Path) -> None:
    """An index that is out of range is a sign of reading, too."""

    class Strict(Clock):
        def step(self, inputs: str | None) -> None:
            super().step(inputs)
            if int(self.state["tick"]) == 22:
                [0, 0][int(self.state["lever"])]

    one, other = record_two(tmp_path, "lever", 24)
    with one, other:
        pair = Cursor(one, make_simulation(one, Strict)), Cursor(other, make_simulation(other, Strict))
        meeting = find_meeting(measure_spread(*pair, 10, 24), ())
        assert meeting is not None
        (trial,) = try_reads(meeting, pair, lambda: make_simulation(other, Strict))
    assert trial.read_at == 22
    assert trial.sign is not None
    assert "IndexError" in trial.sign


class Fixed(Clock):
    """A load sets the lever."""

    def after_restore(self) -> None:
        """Whatever the state says."""
        self.state["lever"][...] = 1


class Choosy(Clock):
    """A load refuses all levers but one."""

    def after_restore(self) -> None:
        """No step reads it."""
        if int(self.state["lever"]) != 1:
            raise ValueError("no such lever")


class Derived(Clock):
    """A load counts something out of the lever."""

    def after_restore(self) -> None:
        """As some programs fill a cache."""
        self.state["share"][0] = self.state["lever"] - 1


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Fixed, "a load of the state sets it again"),
        (Choosy, "a state with another value cannot be loaded: after_restore raised ValueError: no such lever"),
        (Derived, "a load of the state with another value changes share"),
    ],
)
def test_what_a_load_does_with_a_value_is_not_said_of_the_steps(tmp_path: Path, kind: type[Clock], why: str) -> None:
    """No step ran with another value then, so nothing is known of them."""
    one, other = record_two(tmp_path, "lever", 24)
    with one, other:
        pair = Cursor(one, make_simulation(one, Clock)), Cursor(other, make_simulation(other, Clock))
        (trial,) = try_reads(Meeting(17, 24, {"lever": 1}, ()), pair, lambda: make_simulation(other, kind))
    assert (trial.tried, trial.read_at) == (0, None)
    assert trial.not_tried is not None
    assert trial.not_tried.startswith(why)
    report = MeetingReport(Meeting(17, 24, {"lever": 1}, ()), [trial])
    assert report.lines(may_prove=False)[-1].startswith(f"  lever: not known if a later step reads it: {why}")


def test_a_value_that_a_step_writes_over_is_said_to_be_as_recorded_since(tmp_path: Path) -> None:
    """The steps after it ran with no other value: the one to tick 25 would have read it."""

    class Setting(Clock):
        def step(self, inputs: str | None) -> None:
            super().step(inputs)
            if int(self.state["tick"]) == 22:
                self.state["lever"][...] = 1

    one, other = record_two(tmp_path, "lever", 30, Setting)
    meeting = Meeting(17, 30, {"lever": 1}, ())
    with one, other:
        pair = Cursor(one, make_simulation(one, Setting)), Cursor(other, make_simulation(other, Setting))
        (trial,) = try_reads(meeting, pair, lambda: make_simulation(other, Setting))
    assert trial == ReadTrial("lever", 18, 30, 3, as_recorded_from=22)
    last = MeetingReport(meeting, [trial]).lines(may_prove=False)[-1]
    assert last.endswith("run with 3 other values, all else equal; from tick 22 on it is as recorded again")


@pytest.mark.parametrize("is_read", [False, True])
def test_nan_is_run_with_numbers(tmp_path: Path, *, is_read: bool) -> None:
    """NaN plus one is no other value; and where both runs have NaN, they do not differ."""

    class Lost(Clock):
        def __init__(self) -> None:
            super().__init__()
            self.state["share"][1] = np.nan

        def step(self, inputs: str | None) -> None:
            super().step(inputs)
            if inputs == "share":
                self.state["share"][:] = (np.nan, np.nan, 0)
            if is_read and int(self.state["tick"]) == 20 and self.state["share"][0] > 0:
                self.state["waves"][0] = 7

    one, other = record_two(tmp_path, "share", 24, Lost)
    with one, other:
        pair = Cursor(one, make_simulation(one, Lost)), Cursor(other, make_simulation(other, Lost))
        (trial,) = try_reads(Meeting(17, 24, {"share": 1}, ()), pair, lambda: make_simulation(other, Lost))
    if is_read:
        assert (trial.tried, trial.read_at, trial.sign) == (1, 20, "waves")
    else:
        assert trial == ReadTrial("share", 18, 24, 3)


def test_nothing_is_said_of_a_simulation_that_does_not_repeat(tmp_path: Path) -> None:
    """A restored copy gives other waves even without another value: that is not the field's doing."""
    one, other = record_two(tmp_path, "stone", 20)
    with one, other:
        pair = Cursor(one, make_simulation(one, Clock)), Cursor(other, make_simulation(other, Clock))
        meeting = find_meeting(measure_spread(*pair, 10, 20), ())
        assert meeting is not None
        drifting = iter(range(1, 9))

        class Drifting(Clock):
            def step(self, inputs: str | None) -> None:
                super().step(inputs)
                self.state["waves"][2] = next(drifting)

        (trial,) = try_reads(meeting, pair, lambda: make_simulation(other, Drifting))
    assert trial.not_tried == "a simulation that is restored there does not repeat the steps"
    assert (trial.tried, trial.read_at) == (0, None)


def test_meetings_equal_a_plain_loop() -> None:
    """Random series of differing fields, searched from the end by hand."""
    random_numbers = random.Random(5)
    met = 0
    for _ in range(400):
        fields = [f"f{number}" for number in range(random_numbers.randrange(1, 7))]
        ticks, chance = random_numbers.randrange(1, 9), random_numbers.choice((0.1, 0.4, 0.8))
        counts = np.array([[int(random_numbers.random() < chance) for _ in range(ticks)] for _ in fields], np.int64)
        counters = {name for name in fields if random_numbers.random() < 0.3}
        kept = [number for number in range(len(fields)) if counts[number].any()]
        spread = DifferenceSpread(100, [fields[k] for k in kept], counts[kept], "bounded", None)
        found = find_meeting(spread, counters)
        last = {name for name, row in zip(fields, counts, strict=True) if row[-1]}
        since = ticks - 1
        while since > 0 and {name for name, row in zip(fields, counts, strict=True) if row[since - 1]} <= last:
            since -= 1
        few = last and len(last - counters) <= 3 and (last <= counters or len(last) < len(kept))
        assert (found is not None) == bool(few)
        if found is not None:
            met += 1
            assert (found.since, found.last_tick, set(found.rows)) == (100 + since, 100 + ticks - 1, last)
    assert met > 50
