"""Try a simulation before it is recorded: restore it and run it again, in copies of this process, and compare.

Each trajectory begins at the present state. It is run live; run again after a restore in the same instance; and run on
after a restore in one that has not run, with modules as they are now. States and what the steps return are compared. A
difference counts only if two runs without a restore do not have it.

Invariant: this process and everything outside of it stay as they are; see isolated_fork.py.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs

from recorder.processes.isolated_fork import (
    ForkedRun,
    NotIsolatedError,
    Send,
    denied,
    ensure_can_isolate,
    run_isolated,
)
from recorder.text import counted
from recorder.trial.causes import find_causes
from recorder.trial.lost_values import LostValue, find_lost_value
from recorder.trial.outside_changes import find_changes_outside
from recorder.trial.set_order import find_iterated_sets
from recorder.trial.trajectory import (
    RunDifference,
    Trajectory,
    differing_fields,
    restore_and_follow,
    run_again,
    run_live,
    several,
)
from sim.kernel.exactness import Level, level_of
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import ArenaOfSaved, Simulation, as_simulation, inner_of

STEPS = 40
TRAJECTORIES_MAX = 8  # With few, a save that omits something rare passes.
TRAJECTORIES_MIN = 3  # Before these the trial may take half as long again.
LIVE_SHARE = 0.2  # Of the time left, for the first run of a trajectory, which is repeated once or twice.
WAYS_SHARE = 0.4  # Of the budget; the ways that need only one trajectory are tried then.
OVERTIME_S = 0.15  # A trial that takes twice its budget and this is ended.
REPORT_S = 0.1  # The first copy has this time to report that one of its own copies was ended.
WAITING_SHARE = 0.1  # A copy that used less of its time than this was not slow: it waited.
CAUSES_S = 10.0  # The time limit of the search for the causes of a difference that was found.

AGAIN, REWOUND, RESTORED, TWIN, SAVED, ORDER = "again", "rewound", "restored", "twin", "saved", "order"
VALUES = "values"
ELSEWHERE = "elsewhere"
HAPPENED = {
    AGAIN: "two runs from the present state with the same inputs differ",
    REWOUND: "restored in the instance that has run, it does not run again as before",
    RESTORED: "restored in another process, it does not run on as before",
    TWIN: "restored into another instance, it does not run on as before",
    SAVED: "it runs differently if it is saved at each step",
    ELSEWHERE: "restored in a new interpreter with another PYTHONHASHSEED, it does not run on as before",
}

Player = Callable[[Any, int], Callable[[], Any]]  # From the simulation and a seed to a source of inputs.


@attrs.frozen
class TrialFinding:
    """A difference between a run and its repetition.

    Attributes:
        kind: AGAIN, REWOUND, RESTORED, TWIN, SAVED, ORDER, VALUES or ELSEWHERE.
        text: the difference in a sentence.
        causes: the values that a step reads and that a restore does not bring back, each shown by a test.
    """

    kind: str
    text: str
    causes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind in (ORDER, VALUES):
            return self.text
        if self.causes:
            return f"a step reads {', '.join(self.causes)}, which a restore does not bring back: {self.text}"
        why = {
            AGAIN: "a clock, unseeded randomness, threads or memory addresses; replay check can say more",
            SAVED: "its save changes it: declare level='canonical'",
            ELSEWHERE: "the order of a set, a clock, or how it is built",
        }
        return f"{self.text}; {why.get(self.kind, 'the cause is not known; replay check can say more')}"


@attrs.frozen
class TrialReport:
    """The result of a trial.

    Attributes:
        trajectories: the number that were tried.
        steps: of the longest.
        seconds: the time it took.
        findings: the differences; empty if there were none.
        unstable: parts of what steps return that differ in two equal runs; they were not compared.
        outside: what steps change outside the simulation's objects, such as class attributes; it is not saved.
        not_tried: the reason why nothing was tried; None if something was.
        run: the first trajectory.
        is_elsewhere: True if it was also run in another interpreter.
    """

    trajectories: int = 0
    steps: int = 0
    seconds: float = 0.0
    findings: tuple[TrialFinding, ...] = ()
    unstable: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    not_tried: str | None = None
    run: Trajectory | None = attrs.field(default=None, repr=False)
    is_elsewhere: bool = False

    def line(self) -> str:
        """The report in one line."""
        if self.not_tried is not None:
            return f"not tried: {self.not_tried}"
        tried = f"tried {_plural(self.trajectories, 'trajectory', 'trajectories')} of {counted(self.steps, 'step')}"
        took = f"{self.seconds:.1f} s" if self.seconds >= 0.1 else f"{self.seconds:.2f} s"
        same = "restored and run again with the same states and results"
        same += ", in a new interpreter too" if self.is_elsewhere else ""
        result = "; ".join(map(str, self.findings)) or same
        # Shown by the repeated run, which began with the changed values and went as before.
        outside = f"; steps change {several(self.outside)}, not saved: no step tried depends on it"
        result += outside if self.outside and not self.findings else ""
        left_out = f" (not compared, since two equal runs differ in it: {', '.join(self.unstable[:3])})"
        return f"{tried} in {took}: {result}{left_out if self.unstable else ''}"


@attrs.frozen(eq=False)
class _Tried:
    """One trajectory that was tried, with its finding; or the reason why it was not."""

    run: Trajectory | None = None
    ticks: int = 0
    kind: str = ""
    different: RunDifference | None = None
    sets: tuple[str, ...] = ()
    lost: LostValue | None = None
    outside: tuple[str, ...] = ()
    not_tried: str | None = None

    @property
    def is_end(self) -> bool:
        """True if there is nothing more to try."""
        return bool(self.is_finding or self.not_tried is not None)

    @property
    def is_finding(self) -> bool:
        """True if something was found."""
        return bool(self.different is not None or self.sets or self.lost is not None)


@attrs.frozen(eq=False)
class _Subject:
    simulation: Simulation
    player: Player | None
    make_twin: Callable[[], Any] | None
    names: Sequence[str]
    end_s: float  # The time, by time.monotonic(), at which all copies are killed.
    limit_s: float  # From the start to that.

    def left_s(self) -> float:
        """The time that a copy may take."""
        return self.end_s - time.monotonic()


def try_simulation(
    simulation: Simulation,
    budget_ms: float,
    *,
    player: Player | None = None,
    make_twin: Callable[[], Any] | None = None,
    names: Sequence[str] = (),
) -> TrialReport:
    """Try the simulation from its present state, which stays as it is.

    player: a source of inputs; by default they are None. make_twin: makes another instance that can take the state, or
    returns None. names: of the items that a step returns. Never raises for what the simulation does.
    """
    begun_s = time.monotonic()
    budget_s = budget_ms / 1000
    limit_s = 2 * budget_s + OVERTIME_S
    subject = _Subject(simulation, player, make_twin, names, begun_s + limit_s, limit_s)
    try:
        ensure_can_isolate()
        ended = run_isolated(partial(_try_trajectories, subject, begun_s, begun_s + budget_s), limit_s + REPORT_S)
    except (NotIsolatedError, OSError) as error:
        return TrialReport(not_tried=str(error))
    tried = [one for one in ended.messages if one.not_tried is None]
    if not tried:
        refused = next((one.not_tried for one in ended.messages), None)
        return TrialReport(not_tried=refused or _ended_text(ended, limit_s))
    findings = tuple(_finding(subject, one) for one in tried if one.is_finding)
    return TrialReport(
        trajectories=sum(one.ticks > 0 for one in tried),
        steps=max(one.ticks for one in tried),
        seconds=time.monotonic() - begun_s,
        findings=findings,
        run=tried[0].run,
        outside=tuple(name for one in tried for name in one.outside),
        unstable=tuple(
            dict.fromkeys(path for one in tried if one.run is not None for path in sorted(one.run.unstable))
        ),
    )


def _finding(subject: _Subject, tried: _Tried) -> TrialFinding:
    if tried.sets:
        several = ", ".join(tried.sets)
        text = (
            f"a step depends on the order of {several}, a set of texts: it differs from process to process, unless "
            "PYTHONHASHSEED is set"
        )
        return TrialFinding(ORDER, text, tried.sets)
    if tried.lost is not None:
        return TrialFinding(VALUES, str(tried.lost), (tried.lost.path,))
    different, run = tried.different, tried.run
    assert different is not None
    start = f" (restored at step {different.from_tick})" if different.from_tick else ""
    text = f"{HAPPENED[tried.kind]}: {different}{start}"
    if run is None or tried.kind not in (REWOUND, RESTORED):
        return TrialFinding(tried.kind, text)

    def search(send: Send) -> None:
        send([str(cause) for cause in find_causes(subject.simulation, run, different.from_tick, subject.names)])

    messages = run_isolated(search, CAUSES_S).messages
    return TrialFinding(tried.kind, text, tuple(messages[0]) if messages else ())


def _ended_text(ended: ForkedRun, limit_s: float) -> str:
    if ended.exit_code is None:
        if ended.cpu_s is not None and ended.cpu_s < WAITING_SHARE * limit_s:
            return (
                f"a copy of the process waited for {limit_s:.2g} s, as for a thread or a device, which only the "
                "process itself has"
            )
        return f"its first steps take more than {limit_s:.2g} s; a larger trial_ms gives them more time"
    if ended.error is not None:
        return f"it raised {ended.error}"
    return f"a copy of the process died with exit code {ended.exit_code}"


def _plural(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


# --- in the copy


def _try_trajectories(subject: _Subject, begun_s: float, deadline_s: float, send: Send) -> None:
    has_tried_all_ways = False
    for seed in range(TRAJECTORIES_MAX):
        seed_s = time.monotonic()
        tried = _try_one(subject, seed, deadline_s)
        send(tried)
        if tried.is_end:
            return
        now_s = time.monotonic()
        is_last = seed + 1 == TRAJECTORIES_MAX or now_s + (now_s - seed_s) > deadline_s
        if not has_tried_all_ways and (is_last or now_s - begun_s > WAYS_SHARE * (deadline_s - begun_s)):
            has_tried_all_ways = True
            assert tried.run is not None
            found = _try_other_ways(subject, tried.run)
            if found is not None:
                send(found)
                return
            outside = find_changes_outside(subject.simulation, tried.run, subject.left_s())
            send(_Tried(outside=tuple(outside)))
        grace_s = (deadline_s - begun_s) / 2 if seed + 1 < TRAJECTORIES_MIN else 0.0
        if time.monotonic() + (now_s - seed_s) > deadline_s + grace_s:
            return


def _try_one(subject: _Subject, seed: int, deadline_s: float) -> _Tried:
    live_s = time.monotonic() + max(0.0, deadline_s - time.monotonic()) * LIVE_SHARE
    lived = run_isolated(partial(_live_and_rewound, subject, seed, live_s), subject.left_s())
    if not lived.messages:
        return _Tried(not_tried=_ended_text(lived, subject.limit_s))
    run, refused = lived.messages[0]
    if not run.ticks:
        return _Tried(not_tried=_reason(run, refused))
    kind, different = REWOUND, lived.messages[1] if len(lived.messages) > 1 else None
    if different is None:
        kind, different = RESTORED, _first(run_isolated(partial(_restored, subject, run), subject.left_s()))
    return _Tried(run, run.ticks) if different is None else _with_control(subject, run, kind)


def _with_control(subject: _Subject, run: Trajectory, kind: str) -> _Tried:
    """A difference after a restore counts only if two runs without any restore do not have it."""
    control = run_isolated(partial(_again, subject, run), subject.left_s()).messages
    if not control:
        return _Tried(run, run.ticks)
    again, run = control[0]
    if again is not None:
        return _Tried(run, run.ticks, AGAIN, again)
    # Compare once more, without what differs anyway, and with states that name the fields.
    way = {REWOUND: _rewound, RESTORED: _restored, TWIN: _twin, SAVED: _unsaved}[kind]
    found = _first(run_isolated(partial(way, subject, run), subject.left_s()))
    return _Tried(run, run.ticks) if found is None else _Tried(run, run.ticks, kind, found)


def _try_other_ways(subject: _Subject, run: Trajectory) -> _Tried | None:
    """Ways that are tried with one trajectory only."""
    ways: list[tuple[str, Callable[[Send], None]]] = [(ORDER, partial(_ordered, subject, run))]
    if isinstance(subject.simulation, ArenaOfSaved) and level_of(subject.simulation) is Level.EXACT:
        ways.append((SAVED, partial(_unsaved, subject, run)))
    if subject.make_twin is not None:
        ways.append((TWIN, partial(_twin, subject, run)))
    for kind, way in ways:
        found = _first(run_isolated(way, subject.left_s()))  # A way without an answer tells nothing.
        if found and kind == ORDER:
            return _Tried(None, 0, kind, None, tuple(found))
        if found:
            return _with_control(subject, run, kind)
    lost = find_lost_value(subject.simulation, run, _middle(run), subject.left_s)
    return None if lost is None else _Tried(run, run.ticks, VALUES, lost=lost)


def _first(ended: ForkedRun) -> Any:
    return ended.messages[0] if ended.messages else None


def _reason(run: Trajectory, refused: str | None) -> str:
    if refused is not None:
        return f"the step {refused}, which a trial must not do"
    return str(run.error)


def _live_and_rewound(subject: _Subject, seed: int, deadline_s: float, send: Send) -> None:
    """Run it live, then restore the first state in the instance that has run."""
    play = subject.player(subject.simulation, seed) if subject.player is not None else lambda: None
    run = run_live(subject.simulation, play, seed, STEPS, deadline_s, subject.names)
    send((run, denied()))
    if run.ticks:
        send(restore_and_follow(subject.simulation, run, 0, subject.names))


def _rewound(subject: _Subject, run: Trajectory, send: Send) -> None:
    run_again(subject.simulation, run, subject.names)
    send(restore_and_follow(subject.simulation, run, 0, subject.names))


def _again(subject: _Subject, run: Trajectory, send: Send) -> None:
    send(run_again(subject.simulation, run, subject.names))


def _middle(run: Trajectory) -> int:
    """A tick whose state is kept, neither the first nor the last where there are others."""
    kept = [tick for tick in run.states if 0 < tick < run.ticks]
    return random.Random(run.seed).choice(kept) if kept else 0  # noqa: S311 - the same tick for the same seed


def _restored(subject: _Subject, run: Trajectory, send: Send) -> None:
    send(restore_and_follow(subject.simulation, run, _middle(run), subject.names))


def _twin(subject: _Subject, run: Trajectory, send: Send) -> None:
    assert subject.make_twin is not None
    twin = subject.make_twin()
    send(None if twin is None else restore_and_follow(twin, run, _middle(run), subject.names))


def _unsaved(subject: _Subject, run: Trajectory, send: Send) -> None:
    """Run it without the saves after each step, up to its last step."""
    inner = inner_of(subject.simulation)
    for inputs in run.inputs:
        inner.step(decode_plain(inputs))
    last = as_simulation(inner)
    if last.state.hash() == run.hashes[-1]:
        send(None)
        return
    kept = run.states.get(run.ticks)
    fields = differing_fields(kept, last.state.snapshot()) if kept is not None else ()
    send(RunDifference(run.ticks, 0, fields, is_state=True))


def _ordered(subject: _Subject, run: Trajectory, send: Send) -> None:
    send(find_iterated_sets(subject.simulation, run, _middle(run)))
