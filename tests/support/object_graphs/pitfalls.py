"""The machinery of literal cases: an object with one attribute, ``held``, and the changes that its steps make to it."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import attrs

from sim.adapters.find_adapter import adapt
from sim.adapters.plain_object.adapter import fields
from sim.kernel.simulation import restore

from object_graphs.walk import canonical, difference

Change = Callable[[Any], Any]
WHAT_TO_DO = re.compile(
    r"ignore=|trust=True|\.save\(\)|make |give |keep |use |replace |call |record a new", re.IGNORECASE
)

MESSAGE_CHARACTERS_MAX = 1500  # A path of 10,000 attributes is no help.


@attrs.frozen(eq=False)
class Case:
    """held: makes the attribute's first value. changes: one for each step, of the subject. seen: a further view of it.

    kind: in the name of the class that a refusal must name. named: in the path. walks: the graph is fit for a walk.
    """

    held: Callable[[], Any]
    changes: tuple[Change, ...] = ()
    seen: Callable[[Any], Any] = lambda _: None
    kind: str = ""
    named: str = "held"
    walks: bool = True


def sharing(one: Any, make: Callable[[Any], Any]) -> Any:
    """A graph that holds one object in several places."""
    return make(one)


class Subject:
    """The recorded object."""

    case: ClassVar[Case]

    def __init__(self) -> None:
        self.t = 0
        self.result: Any = None
        self.held = self.case.held()

    def step(self, _: Any) -> None:
        """The change of this step."""
        self.t += 1
        if self.t <= len(self.case.changes):
            self.case.changes[self.t - 1](self)


def look(case: Case, subject: Any) -> Any:
    """The walk and the further view."""
    return (canonical(subject) if case.walks else None), copy.deepcopy(case.seen(subject))


def compare(actual: Any, expected: Any, name: str) -> None:
    """Fail unless two looks are equal."""
    found = difference(actual[0], expected[0]) if expected[0] is not None else None
    assert found is None, f"{name}: {found}"
    assert actual[1] == expected[1], f"{name}: seen {actual[1]!r}, expected {expected[1]!r}"


def run(case: Case) -> TypeError | None:
    """Record a case in memory; restore each tick, the last one first, into a fresh and into a used object.

    The truth comes from a second object that is never captured. Returns the refusal, if a step or the start was
    refused (NotCapturedError is a TypeError); ticks before it must be right even then.
    """
    Subject.case = case
    control = Subject()
    try:
        live = adapt(Subject(), fields())
    except TypeError as error:
        return error
    truth, states = [look(case, control)], [live.state.snapshot()]
    whole = {0}  # The ticks at which a recorder may take a keyframe.
    refusal = None
    for tick in range(1, len(case.changes) + 3):
        try:
            live.step(None)
        except TypeError as error:
            refusal = error
            break
        control.step(None)
        truth.append(look(case, control))
        states.append(live.state.snapshot())
        whole |= set() if live.keyframe_deferred() else {tick}
        assert live.subject.t == tick
    used = adapt(Subject(), fields())
    for tick in sorted(whole, reverse=True):
        for simulation in (used, adapt(Subject(), fields())):
            restore(simulation, states[tick])
            compare(look(case, simulation.subject), truth[tick], f"restored at tick {tick}")
            for later in range(tick + 1, len(states)):
                simulation.step(None)
                assert simulation.state.hash() == states[later].hash(), f"from tick {tick}: other bytes at tick {later}"
                compare(look(case, simulation.subject), truth[later], f"from tick {tick} continued to tick {later}")
    if refusal is None:
        compare(look(case, live.subject), truth[-1], "the recorded object itself")
    return refusal


def assert_exact(case: Case) -> None:
    """It is saved, and right; without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refusal = run(case)
    assert refusal is None, f"refused: {refusal}"


def assert_exact_or_said(case: Case) -> None:
    """It is right, or refused by a message with path, class and what to do, or warned of by the attribute's name."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            refusal = run(case)
        except AssertionError:
            if any(case.named in str(one.message) for one in warned):
                return
            raise
    if refusal is not None:
        check_refusal(case, str(refusal))


def assert_refused(case: Case) -> None:
    """It cannot be right: it is refused by a message with path, class and what to do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refusal = run(case)
    assert refusal is not None, "expected a refusal"
    check_refusal(case, str(refusal))


def check_refusal(case: Case, message: str) -> None:
    """Fail unless a message names the attribute, the class of its value, and what to do."""
    assert case.named in message, message
    assert case.kind in message, message
    assert WHAT_TO_DO.search(message), message
    assert len(message) < MESSAGE_CHARACTERS_MAX, message[:MESSAGE_CHARACTERS_MAX]
