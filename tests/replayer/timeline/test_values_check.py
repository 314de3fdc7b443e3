"""Verification by values alone: what it compares, what it finds, and where it is refused."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

import recorder
import replayer.commands.main
from recorder import Recorder
from recorder.format.blocks.block import HEADER_BYTES, BlockKind
from replayer.tape.tape import Tape
from replayer.timeline.values_check import NoValuesError, SpeedOfValues, check_values, measure_values_alone
from sim.adapters import adapt, fields

from oracle.command_lines import run as run_line
from small_worlds import Walkers, record

TICKS, INTERVAL = 100, 10
VERIFY = "verify run.tape --sim test_values_check:"


class Unit:
    """An object with fields of its own, which a step replaces."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.place = np.zeros(2)
        self.near: Unit | None = None


class Game:
    """Objects, an array, a set and a generator; a new leader now and then."""

    drifts_at = -1  # The tick at which a subclass goes another way.

    def __init__(self) -> None:
        self.t = 0
        self.leader = Unit(0)
        self.units = [self.leader, *map(Unit, range(1, 9))]
        self.taken: set[int] = set()
        self.random = random.Random(7)
        self.score = 0.0

    def step(self, _: Any = None) -> float:
        """Move a unit."""
        self.t += 1
        unit = self.random.choice(self.units)
        unit.place += self.random.random()
        unit.near = self.random.choice(self.units)
        self.taken ^= {unit.number * 8}
        if self.t % 13 == 0:
            self.leader = Unit(self.t)
            self.units[self.t % 9] = self.leader
        self.score = float(self.leader.place[0]) + self.t
        if self.t == self.drifts_at:
            unit.place[1] += 1.0
        return self.score


# At tick 55, one number of one unit is another: a later version of the game.
Drifting = type("Game", (Game,), {"drifts_at": 55})


class Counting(Game):
    """A count of the class takes part in its step: a load does not restore it."""

    steps: ClassVar[list[int]] = [0]

    def __init__(self) -> None:
        super().__init__()
        self.steps[0] = 0

    def step(self, _: Any = None) -> float:
        """Use the count."""
        self.steps[0] += 1
        if self.steps[0] == 55:
            self.units[3].place[0] = 9.0
        return super().step()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line: its exit code, and what it prints."""

    def run_one(line: str) -> tuple[int, str, str]:
        code = run_line(replayer.commands.main.main, line)
        return (code, *capsys.readouterr())

    return run_one


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # For --sim.
    return Path("run.tape")


@pytest.fixture(autouse=True)
def all_keyframes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps cost so little here that most keyframes would be skipped."""
    monkeypatch.setattr("replayer.timeline.values_check.DIGESTS_SHARE", math.inf)


def record_game(path: Path, game: Any, ticks: int = TICKS) -> None:
    """Record with keyframes in a fixed distance."""
    with Recorder(path, adapt(game, fields()), keyframe_interval_ticks=INTERVAL, trial_ms=0) as tape:
        for _ in range(ticks):
            tape.step(None)


@pytest.mark.parametrize("ticks", [0, 1, INTERVAL - 1, INTERVAL, INTERVAL + 1, TICKS])
def test_the_values_at_all_keyframes_are_compared(path: Path, ticks: int) -> None:
    record_game(path, Game(), ticks)
    done: list[tuple[int, int]] = []
    report = check_values(path, Game, progress=lambda *both: done.append(both))

    assert (report.status, report.differing, report.problems) == ("intact", None, [])
    assert report.tick_count == ticks + 1
    assert report.compared == ticks // INTERVAL + 1
    assert report.last_compared == ticks // INTERVAL * INTERVAL
    assert done[-1:] == ([(ticks + 1, ticks + 1)] if ticks else [])


@pytest.mark.parametrize("ticks", [0, 1, INTERVAL, TICKS, TICKS + 1])
def test_without_time_for_digests_the_first_and_the_last_are_compared(path: Path, ticks: int) -> None:
    """What is skipped is said."""
    record_game(path, Game(), ticks)
    report = check_values(path, Game, digests_share=0)
    keyframes = ticks // INTERVAL + 1
    assert (report.compared, report.skipped) == (min(keyframes, 2), max(keyframes - 2, 0))
    assert (report.last_compared, report.differing) == (ticks // INTERVAL * INTERVAL, None)


def test_the_line_says_how_many_were_compared(path: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replayer.timeline.values_check.DIGESTS_SHARE", 0)
    record_game(path, Game(), 5 * INTERVAL)
    code, out, _ = run(VERIFY + "Game --values")
    last = f"{5 * INTERVAL:,}"
    assert code == 0
    assert out.splitlines()[0] == (
        f"run.tape: intact; the values at 2 of 6 keyframes are as recorded, the last one at tick {last}"
    )


def test_a_difference_shows_at_the_last_keyframe_if_those_before_are_skipped(path: Path) -> None:
    """One that is gone by then is missed."""
    record_game(path, Game(), 7 * INTERVAL - 1)
    report = check_values(path, Drifting, digests_share=0)
    assert report.differing == 6 * INTERVAL
    assert (report.compared, report.skipped) == (1, 5)
    assert ".place" in report.path


def test_steps_that_take_long_leave_time_for_each_digest(path: Path) -> None:
    """Digests may take as long as 1,000 times the steps: no keyframe is skipped."""
    record_game(path, Game())
    report = check_values(path, Game, digests_share=1000)
    assert (report.compared, report.skipped) == (TICKS // INTERVAL + 1, 0)


@pytest.mark.parametrize("share", [-0.1, -math.inf, math.nan])
def test_a_share_below_0_is_refused(path: Path, share: float) -> None:
    record_game(path, Game(), 1)
    with pytest.raises(ValueError, match="digests_share: expected at least 0"):
        check_values(path, Game, digests_share=share)


def test_no_state_is_taken_on_the_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what it is for."""
    record_game(path, Game())
    taken: list[int] = []
    monkeypatch.setattr("sim.adapters.capture.captured_state.CapturedState.pack", lambda _: taken.append(1))
    assert check_values(path, Game).compared == TICKS // INTERVAL + 1
    assert taken == []


def test_an_environment(path: Path) -> None:
    """Episodes with resets, and a generator that a reset replaces."""
    env = recorder.record(gymnasium.make("CartPole-v1"), path, keyframe_interval_ticks=20, quiet=True, trial_ms=0)
    env.action_space.seed(3)
    env.reset(seed=5)
    for _ in range(200):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    env.close()
    report = check_values(path)
    assert (report.differing, report.problems) == (None, [])
    assert report.compared > 10


@pytest.mark.seldom(0.18)
def test_a_difference_is_found_and_then_its_tick(path: Path, run: Any) -> None:
    """The keyframe after it, the path of a value, and the complete verification, which names the tick."""
    record_game(path, Game())
    report = check_values(path, Drifting)
    assert report.differing == 60
    assert report.compared == 6
    assert ".place" in report.path

    code, out, err = run(VERIFY + "Drifting --values")
    assert code == 1, err
    assert "run.tape: at the keyframe of tick 60 the values differ from the recorded ones: Game." in out
    assert "run.tape: DESYNC at tick 55; all ticks before it match the recording" in out


@pytest.mark.seldom(0.18)
def test_what_no_keyframe_holds_is_noticed_by_a_run_from_the_start(path: Path, run: Any) -> None:
    """Both ways differ, at ticks of their own: hidden state."""
    record_game(path, Counting())
    assert check_values(path, Counting).differing is None
    code, out, _ = run(VERIFY + "Counting --values")
    assert (code, "DESYNC" in out) == (0, False)
    code, out, _ = run(VERIFY + "Counting")
    assert code == 1


def test_the_lines_of_the_command(path: Path, run: Any) -> None:
    record_game(path, Game(), 25)
    code, out, _ = run(VERIFY + "Game --values")
    assert code == 0
    assert out.splitlines() == [
        "run.tape: intact; the values at 3 keyframes are as recorded, the last one at tick 20",
        "  compared at keyframes alone: replay verify without --values compares each tick",
    ]
    code, out, _ = run(VERIFY + "Game --values --json")
    assert code == 0
    facts = json.loads(out)
    assert (facts["compared"], facts["last_compared"], facts["differing"], facts["problems"]) == (3, 20, None, [])
    code, out, _ = run(VERIFY + "Drifting --values --json")
    assert (code, json.loads(out)["compared"]) == (0, 3)  # It drifts after the last tick.


class WorkList:
    """Texts come and go within each step; the set begins again while its state is taken, and orders the numbers."""

    def __init__(self) -> None:
        self.t = self.x = 0
        self.todo: set[Any] = set()

    def step(self, _: Any = None) -> None:
        """Pop a number at each third tick."""
        self.t += 1
        if self.t % 3 == 0:
            self.todo.update([1, 2, 3, 4, 5, 6])
            self.x = self.x * 7 % 1_000_003 + self.todo.pop()
            self.todo.clear()
        else:
            self.todo.update(str(self.t * 31 + number) for number in range(4))
            while self.todo:
                self.todo.pop()


def test_a_recording_that_is_right_is_not_accused(path: Path, run: Any) -> None:
    """Where only the run without states differs, the complete verification decides."""
    record_game(path, WorkList(), 60)
    report = check_values(path, WorkList)
    assert report.differing is not None  # Or this test shows nothing.
    code, out, _ = run(VERIFY + "WorkList --values")
    assert code == 0
    assert "all 61 ticks match the recording" in out
    assert "only the run in one go, without states, differs" in out
    code, out, _ = run(VERIFY + "WorkList --values --json")
    facts = json.loads(out)
    assert (code, facts["ok"], facts["values"]) == (0, True, {"differing": report.differing, "path": report.path})


def test_it_continues_behind_lost_frames(path: Path) -> None:
    """From the next keyframe; the loss is a problem, and what lies behind it is compared."""
    record_game(path, Game(), 3 * TICKS)
    with Tape(path) as tape:
        block = next(
            entry for segment in tape.segments for entry in segment.contents.entries if entry.kind == BlockKind.FRAMES
        )
    content = bytearray(path.read_bytes())
    content[block.offset + HEADER_BYTES + 3] ^= 0x40
    path.write_bytes(content)
    report = check_values(path, Game, digests_share=0)
    assert report.status == "corrupt"
    assert report.skipped == 0  # The last keyframe before the gap counts, too.
    assert report.problems
    assert report.differing is None
    assert report.last_compared == 3 * TICKS


def test_a_world_of_states_is_refused(path: Path, run: Any) -> None:
    """Its states are compared at little cost."""
    record(path, Walkers(), [None] * 20)
    with pytest.raises(NoValuesError, match="no captured object"):
        check_values(path, Walkers)
    code, _, err = run("verify run.tape --values --sim small_worlds:Walkers")
    assert code == 2
    assert err.startswith("error: --values: Walkers is no captured object")


def test_a_tape_without_digests_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older recorder made it: nothing was compared, and nothing is called right."""
    with monkeypatch.context() as patched:
        patched.setattr("recorder.session.recorder.digest_maker", lambda _: None)
        record_game(path, Game())
    with pytest.raises(NoValuesError, match="a digest of values"):
        check_values(path, Game)


@pytest.mark.parametrize(
    ("cpu_s", "speed", "said"),
    [
        (12.25, SpeedOfValues(50, 0.5), "1/12 of that, measured on 50 ticks"),  # 101 ticks: 121 and 10 ms a tick.
        (12.25, SpeedOfValues(1, 0.05), "1/2 of that, measured on 1 tick"),
        (12.25, SpeedOfValues(50, 5.0), ""),  # 121 and 100 ms.
        (4.9, SpeedOfValues(50, 0.001), ""),  # The whole takes too little.
        (12.25, None, ""),
    ],
)
@pytest.mark.share(0.22)
def test_a_long_verification_ends_with_what_values_alone_take(
    path: Path, run: Any, monkeypatch: pytest.MonkeyPatch, cpu_s: float, speed: SpeedOfValues | None, said: str
) -> None:
    record_game(path, Game())
    times = iter([100.0, 100.0 + cpu_s])
    monkeypatch.setattr("replayer.commands.verify._cpu_s", lambda: next(times))
    monkeypatch.setattr("replayer.commands.verify.measure_values_alone", lambda *_: speed)
    code, out, _ = run(VERIFY + "Game")
    assert code == 0
    [first, *more] = out.splitlines()
    assert first.startswith("run.tape: all 101 ticks match the recording")
    if not said:
        assert more == []
        return
    assert more == [
        f"  took {cpu_s:,.1f} s of processor time. replay verify --values compares keyframes only: its steps took {said}"
    ]


@pytest.mark.parametrize("options", ["Drifting", "Game --values", "Game --json"])
@pytest.mark.seldom(0.15)
def test_nothing_is_measured_after_a_desync_with_values_or_as_json(
    path: Path, run: Any, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    record_game(path, Game())
    monkeypatch.setattr("replayer.commands.verify.SLOW_CPU_S", 0)
    monkeypatch.setattr("replayer.commands.verify.measure_values_alone", lambda *_: pytest.fail("it was measured"))
    code, out, _ = run(VERIFY + options)
    assert code == (1 if options == "Drifting" else 0)
    assert "processor time" not in out


def test_steps_without_states_are_measured(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the end of the tape if the time is enough, and at least one."""
    record_game(path, Game())
    taken: list[int] = []
    monkeypatch.setattr("sim.adapters.capture.captured_state.CapturedState.pack", lambda _: taken.append(1))
    whole = measure_values_alone(path, Game, budget_s=math.inf)
    assert whole is not None
    assert whole.ticks == TICKS
    assert whole.cpu_s > 0
    one = measure_values_alone(path, Game, budget_s=1e-12)
    assert one is not None
    assert one.ticks == 1
    assert taken == []


@pytest.mark.parametrize("kind", ["no object", "no tick", "raises"])
def test_where_values_cannot_be_compared_nothing_is_measured(path: Path, kind: str) -> None:
    if kind == "no object":
        record(path, Walkers(), [None] * 20)
        assert measure_values_alone(path, Walkers) is None
        return
    record_game(path, Game(), 0 if kind == "no tick" else TICKS)

    def raising(_self: Any, _: Any = None) -> float:
        raise RuntimeError

    world = type("Game", (Game,), {"step": raising})
    assert measure_values_alone(path, world) is None
