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

from recorder.ambient.outside.outside_note import NotedReads
from recorder.ambient.roots import is_our_own
from recorder.exception_text import raised_text
from recorder.processes.isolated_fork import (
    ForkedRun,
    NotIsolatedError,
    Send,
    ensure_can_isolate,
    run_isolated,
)
from recorder.processes.isolation.refused_calls import denied
from recorder.trial.causes import find_causes
from recorder.trial.lost_values import LostValue, find_lost_value
from recorder.trial.not_tried import ended_text, slow_text
from recorder.trial.outside_changes import find_changes_outside
from recorder.trial.outside_reads import note_reads
from recorder.trial.processor_share import slower
from recorder.trial.set_order import SetOrders, UnorderedSet, find_set_orders
from recorder.trial.trajectory import (
    RunDifference,
    Trajectory,
    follow,
    inputs_text,
    restore_and_follow,
    run_again,
    run_live,
    several,
    state_difference,
)
from recorder.trial.trial_report import (
    AGAIN,
    HAPPENED,
    ORDER,
    RECORDED,
    RESTORED,
    REWOUND,
    SAVED,
    TWIN,
    VALUES,
    TrialFinding,
    TrialReport,
)
from sim.kernel.exactness import Level, level_of
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import ArenaOfSaved, Simulation, as_simulation, inner_of, restore
from sim.kernel.state import Snapshot

STEPS = 40
TRAJECTORIES_MAX = 8  # With few, a save that omits something rare passes.
TRAJECTORIES_MIN = 3  # Before these the trial may take half as long again.
LIVE_SHARE = 0.2  # Of the time left, for the first run of a trajectory, which is repeated once or twice.
SLOW_SHARE = 0.25  # Of the time until the end: a slower run has fewer steps, so that its repetition is complete.
WAYS_SHARE = 0.4  # Of the budget; the ways that need only one trajectory are tried then.
OVERTIME_S = 0.15  # A trial that takes twice its budget and this is ended.
REPORT_S = 0.1  # The first copy has this time to report that one of its own copies was ended.
CAUSES_S = 10.0  # The time limit of the search for the causes of a difference that was found.

NameFields = Callable[[Snapshot, Snapshot, Sequence[str]], tuple[str, ...]]  # As differing_paths of recorder.adapted.
Player = Callable[[Any, int], Callable[[], Any]]  # From the simulation and a seed to a source of inputs.


@attrs.frozen(eq=False)
class _Tried:
    """One trajectory that was tried, with its finding; or the reason why it was not."""

    run: Trajectory | None = None
    ticks: int = 0
    kind: str = ""
    different: RunDifference | None = None
    orders: SetOrders = attrs.field(factory=SetOrders)
    lost: LostValue | None = None
    outside: tuple[str, ...] = ()
    reads: NotedReads | None = None
    not_tried: str | None = None
    is_late: bool = False  # Not tried since there was no time.

    @property
    def is_end(self) -> bool:
        """True if there is nothing more to try."""
        return bool(self.is_finding or self.not_tried is not None)

    @property
    def is_finding(self) -> bool:
        """True if something was found."""
        return bool(self.different is not None or self.orders.used or self.lost is not None)


@attrs.frozen(eq=False)
class _Subject:
    simulation: Simulation
    player: Player | None
    make_twin: Callable[[], Any] | None
    names: Sequence[str]
    name_fields: NameFields | None
    recorded: Trajectory | None  # The recorded run, to whose first state everything is restored first.
    end_s: float  # The time, by time.monotonic(), at which all copies are killed.
    limit_s: float  # From the start to that.

    def begin(self) -> None:
        """Restore the first state of the recorded run, if there is one."""
        if self.recorded is not None:
            restore(self.simulation, self.recorded.states[0])

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
    name_fields: NameFields | None = None,
    recorded: Trajectory | None = None,
) -> TrialReport:
    """Try the simulation from its present state, which stays as it is.

    player: a source of inputs; by default they are None. make_twin: makes another instance that can take the state, or
    returns None. names: of the items that a step returns. name_fields: names what differs between two states. recorded: a run up to the present state, whose inputs are used,
    from its first state on; the simulation must also run again as it did. Never raises for what the simulation does.
    """
    begun_s = time.monotonic()
    factor = slower()  # On a busy machine, a trial gets as much of a processor, not less of it in the same time.
    budget_s = budget_ms / 1000 * factor
    limit_s = 2 * budget_s + OVERTIME_S * factor
    if recorded is not None:
        player = _player_of(recorded)
    subject = _Subject(simulation, player, make_twin, names, name_fields, recorded, begun_s + limit_s, limit_s)
    try:
        ensure_can_isolate()
        ended = run_isolated(partial(_try_trajectories, subject, begun_s, begun_s + budget_s), limit_s + REPORT_S)
    except (NotIsolatedError, OSError) as error:
        return TrialReport(not_tried=str(error))
    tried = [one for one in ended.messages if one.not_tried is None]
    runs = [one.run for one in tried if one.run is not None]
    if not tried:
        refused = next((one.not_tried for one in ended.messages), None)
        is_late = ended.exit_code is None or any(one.is_late for one in ended.messages)
        return TrialReport(not_tried=refused or ended_text(ended, limit_s), is_late=is_late)
    findings = tuple(_finding(subject, one) for one in tried if one.is_finding)
    return TrialReport(
        trajectories=sum(one.ticks > 0 for one in tried),
        steps=max(one.ticks for one in tried),
        seconds=time.monotonic() - begun_s,
        findings=findings,
        run=next((one.run for one in tried if one.run is not None), None),
        outside=tuple(name for one in tried for name in one.outside),
        orders=tuple(text for one in tried for text in one.orders.texts),
        reads=next((one.reads for one in tried if one.reads is not None), None),
        unstable=tuple(dict.fromkeys(path for run in runs for path in sorted(run.unstable))),
        inputs=frozenset(inputs for run in runs for inputs in run.inputs),
    )


def _finding(subject: _Subject, tried: _Tried) -> TrialFinding:
    if tried.orders.used:
        return _of_sets(tried.orders.used)
    if tried.lost is not None:
        return TrialFinding(VALUES, str(tried.lost), (tried.lost.path,))
    different, run = tried.different, tried.run
    assert different is not None
    if subject.name_fields is not None and different.states is not None:
        different = attrs.evolve(different, fields=subject.name_fields(*different.states, different.fields))
    start = f" (restored at step {different.from_tick})" if different.from_tick else ""
    text = (
        f"{HAPPENED[tried.kind]}: {different}{start}{inputs_text(run, different.tick) if tried.kind == AGAIN else ''}"
    )
    if run is None or tried.kind not in (REWOUND, RESTORED):
        return TrialFinding(tried.kind, text)

    def search(send: Send) -> None:
        subject.begin()
        send([str(cause) for cause in find_causes(subject.simulation, run, different.from_tick, subject.names)])

    messages = run_isolated(search, CAUSES_S).messages
    causes = tuple(messages[0]) if messages else ()
    if not causes:
        orders = _first(run_isolated(partial(_ordered, subject, run, different.from_tick), CAUSES_S))
        if orders is not None and orders.used:
            return _of_sets(orders.used)
    return TrialFinding(tried.kind, text, causes)


def _of_sets(sets: Sequence[UnorderedSet]) -> TrialFinding:
    """The finding that a step depends on the order of these sets; of texts first, of one kind at a time."""
    first = min(sets, key=lambda one: bool(one.classes))
    names = tuple(one.name for one in sets if one.why == first.why)
    return TrialFinding(ORDER, f"a step depends on the order of {several(names)}, {first.why}", names)


# --- in the copy


def _try_trajectories(subject: _Subject, begun_s: float, deadline_s: float, send: Send) -> None:
    if subject.recorded is not None:
        _try_recorded(subject, subject.recorded, deadline_s, send)
        return
    has_tried_all_ways = False
    for seed in range(TRAJECTORIES_MAX):
        seed_s = time.monotonic()
        tried = _try_one(subject, seed, deadline_s)
        now_s = time.monotonic()
        send(tried)
        if not seed and tried.run is not None and tried.run.ticks:
            send(_Tried(reads=note_reads(subject.simulation, tried.run, subject.left_s())))
            deadline_s += time.monotonic() - now_s  # What is tried loses no time by that.
        if tried.is_end:
            return
        is_last = seed + 1 == TRAJECTORIES_MAX or now_s + (now_s - seed_s) > deadline_s
        if not has_tried_all_ways and (is_last or now_s - begun_s > WAYS_SHARE * (deadline_s - begun_s)):
            has_tried_all_ways = True
            assert tried.run is not None
            found = _try_other_ways(subject, tried.run, send)
            if found is not None:
                send(found)
                return
            outside = find_changes_outside(subject.simulation, tried.run, subject.left_s())
            send(_Tried(outside=tuple(outside)))
        grace_s = (deadline_s - begun_s) / 2 if seed + 1 < TRAJECTORIES_MIN else 0.0
        if time.monotonic() + (now_s - seed_s) > deadline_s + grace_s:
            return


def _try_recorded(subject: _Subject, recorded: Trajectory, deadline_s: float, send: Send) -> None:
    """Try the recorded run from its first state on, then compare that with the recorded states."""
    try:
        subject.begin()
    except Exception as error:  # noqa: BLE001 - of the user's load
        send(_Tried(recorded, recorded.ticks, RECORDED, RunDifference(0, 0, error=raised_text("the restore", error))))
        return
    tried = _try_one(subject, 0, deadline_s)
    found = _try_other_ways(subject, tried.run, send) if tried.run is not None and not tried.is_end else None
    if found is None and tried.different is None:
        different = _first(run_isolated(partial(_as_recorded, subject, recorded), subject.left_s()))
        if different is not None:
            found = _Tried(recorded, 0 if tried.ticks else recorded.ticks, RECORDED, different)
    if found is None or (tried.different is None and tried.not_tried is None):
        send(tried)
    if found is not None:
        send(found)
    send(_Tried(reads=note_reads(subject.simulation, recorded, subject.left_s())))


def _as_recorded(subject: _Subject, recorded: Trajectory, send: Send) -> None:
    """Compare with the recorded states alone: what the steps returned is compared by the repetition.

    A step that was refused something, such as to write a file, tells nothing: it is the trial that made it differ.
    """
    different = follow(subject.simulation, recorded, 0, subject.names)
    send(different if denied() is None else None)


def _player_of(recorded: Trajectory) -> Player:
    def player(_: Any, __: int) -> Callable[[], Any]:
        rest = iter(recorded.inputs)
        return lambda: decode_plain(next(rest))

    return player


def _try_one(subject: _Subject, seed: int, deadline_s: float) -> _Tried:
    live_s = time.monotonic() + max(0.0, deadline_s - time.monotonic()) * LIVE_SHARE
    lived = run_isolated(partial(_live_and_rewound, subject, seed, live_s), subject.left_s())
    if not lived.messages:
        return _Tried(not_tried=ended_text(lived, subject.limit_s), is_late=lived.exit_code is None)
    run, refused = lived.messages[0]
    if not run.ticks:
        return _Tried(not_tried=_reason(run, refused))
    if len(lived.messages) == 1:  # Nothing was compared.
        is_slow = lived.exit_code is None and run.seconds > SLOW_SHARE * subject.limit_s
        why = slow_text(run) if is_slow else ended_text(lived, subject.limit_s)
        return _Tried(not_tried=why, is_late=lived.exit_code is None)
    kind, different = REWOUND, lived.messages[1]
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


def _try_other_ways(subject: _Subject, run: Trajectory, send: Send) -> _Tried | None:
    """Ways that are tried with one trajectory only; a way without an answer tells nothing. Sends the sets that are not saved."""
    orders = _first(run_isolated(partial(_ordered, subject, run, _middle(run)), subject.left_s()))
    if orders is not None and orders.used:
        return _Tried(None, 0, ORDER, orders=orders)
    if orders is not None:
        # What a save of the user's own keeps of an order is not known here.
        is_own = is_our_own(type(inner_of(subject.simulation)))
        send(_Tried(orders=orders if is_own else SetOrders()))
    ways: list[tuple[str, Callable[[Send], None]]] = []
    if isinstance(subject.simulation, ArenaOfSaved) and level_of(subject.simulation) is Level.EXACT:
        ways.append((SAVED, partial(_unsaved, subject, run)))
    if subject.make_twin is not None:
        ways.append((TWIN, partial(_twin, subject, run)))
    for kind, way in ways:
        if _first(run_isolated(way, subject.left_s())):
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
    steps = STEPS if subject.recorded is None else subject.recorded.ticks
    slow_s = time.monotonic() + subject.left_s() * SLOW_SHARE
    run = run_live(subject.simulation, play, seed, steps, (deadline_s, slow_s), subject.names)
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
    send(state_difference(last, run, run.ticks, 0))


def _ordered(subject: _Subject, run: Trajectory, tick: int, send: Send) -> None:
    subject.begin()
    send(find_set_orders(subject.simulation, run, tick))
