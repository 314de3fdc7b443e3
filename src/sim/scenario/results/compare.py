"""Compare two runs by their events: the same, the same but for the order of sessions, or different; while they stream.

Raw, two runs are the same if all their events are, in the same order and at the same ticks. Normalised, events of
different sessions may be interleaved in another way: each session's events are numbered by themselves, messages too,
and ticks do not count; neither does the number of a reconfiguration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Literal

import attrs

from sim.kernel.messages import Event
from sim.kernel.plain_data import encode_plain
from sim.scenario.results.result import TickEvent

Verdict = Literal["exact_raw_match", "equivalent_under_normalization", "safety_visible_divergence"]

IGNORED = {"sample"}  # A round's figures depend on which session was in it.
UNORDERED_KEYS = {"reconfigured": {"operation"}}


@attrs.frozen
class Divergence:
    """The first event that differs.

    Attributes:
        session: in which; None where events are of no session.
        index: of the event: in the run if the runs differ raw, in its session if they differ normalised.
        one, other: (tick, event); None where that run has no more events.
    """

    session: Any
    index: int
    one: TickEvent | None
    other: TickEvent | None


@attrs.frozen
class RunComparison:
    """How two runs compare.

    Attributes:
        verdict: the strongest that holds, and that the runs' regimes allow.
        raw: the first event that differs raw; None if none does.
        normalised: the first that differs normalised; None if none does, or if it was not looked for.
        event_counts: of the two runs.
        capped: the events are the same, but a run of this regime may not claim it.
    """

    verdict: Verdict
    raw: Divergence | None
    normalised: Divergence | None
    event_counts: tuple[int, int]
    capped: bool = False


def compare_runs(one: Iterable[TickEvent], other: Iterable[TickEvent], *, exact: bool = True) -> RunComparison:
    """Compare two streams of events. exact: whether both runs are of a regime in which events have a fixed order.

    Memory is in proportion to how far the runs are interleaved differently, not to their length.
    """
    sessions = (_Sessions(), _Sessions())
    waiting: dict[Hashable, tuple[deque[_Numbered], deque[_Numbered]]] = {}
    raw: Divergence | None = None
    normalised: Divergence | None = None
    counts = [0, 0]
    for index, pair in enumerate(_pairs(one, other)):
        for side, found in enumerate(pair):
            counts[side] += found is not None
        if raw is None and not _are_equal(pair):
            raw = Divergence(_session_of((pair[0] or pair[1] or (0, {}))[1]), index, *pair)
        if normalised is None:
            normalised = _match(pair, sessions, waiting)
    if normalised is None:
        normalised = _left_over(waiting)
    if raw is None:
        verdict: Verdict = "exact_raw_match" if exact else "equivalent_under_normalization"
        return RunComparison(verdict, None, None, (counts[0], counts[1]), capped=not exact)
    if normalised is None:
        return RunComparison("equivalent_under_normalization", raw, None, (counts[0], counts[1]))
    return RunComparison("safety_visible_divergence", raw, normalised, (counts[0], counts[1]))


@attrs.frozen
class _Numbered:
    """An event of a session in normal form, with what it was."""

    index: int
    normal: bytes
    found: TickEvent


class _Sessions:
    """Numbers the events of each session of one run, and its messages."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}
        self._messages: dict[Hashable, dict[int, int]] = {}

    def number(self, found: TickEvent) -> tuple[Hashable, _Numbered]:
        """The event's session, and its normal form."""
        _, event = found
        session = _session_of(event)
        index = self._counts[session] = self._counts.get(session, -1) + 1
        return session, _Numbered(index, encode_plain(self._normal(session, event)), found)

    def _normal(self, session: Hashable, event: Event) -> list[Any]:
        left_out = UNORDERED_KEYS.get(event["kind"], set())
        normal = {key: value for key, value in event.items() if key not in left_out}
        if type(normal.get("message")) is int:
            numbers = self._messages.setdefault(session, {})
            normal["message"] = numbers.setdefault(normal["message"], len(numbers))
        return sorted(normal.items())


def _session_of(event: Event) -> int | str | None:
    """In which session an event was; worlds may say anything there."""
    session = event.get("session")
    return session if isinstance(session, int | str) else None


def _pairs(one: Iterable[TickEvent], other: Iterable[TickEvent]) -> Iterator[tuple[TickEvent | None, TickEvent | None]]:
    left, right = iter(one), iter(other)
    while True:
        pair = next(left, None), next(right, None)
        if pair == (None, None):
            return
        yield pair


def _are_equal(pair: tuple[TickEvent | None, TickEvent | None]) -> bool:
    """Whether two events are the same as bytes: arrays do not compare, NaN differs from itself, and 0.0 is not -0.0."""
    one, other = pair
    if one is None or other is None:
        return False
    return one[0] == other[0] and encode_plain(one[1]) == encode_plain(other[1])


def _match(
    pair: tuple[TickEvent | None, TickEvent | None],
    sessions: tuple[_Sessions, _Sessions],
    waiting: dict[Hashable, tuple[deque[_Numbered], deque[_Numbered]]],
) -> Divergence | None:
    """Set events of a session against each other as soon as both runs have them."""
    for side, found in enumerate(pair):
        if found is None or found[1]["kind"] in IGNORED:
            continue
        session, numbered = sessions[side].number(found)
        queues = waiting.setdefault(session, (deque(), deque()))
        queues[side].append(numbered)
        while queues[0] and queues[1]:
            left, right = queues[0].popleft(), queues[1].popleft()
            if left.normal != right.normal:
                return Divergence(session, left.index, left.found, right.found)
    return None


def _left_over(waiting: dict[Hashable, tuple[deque[_Numbered], deque[_Numbered]]]) -> Divergence | None:
    """The first event that only one of the runs has."""
    rest = [
        (numbered[0].found[0], session, side, numbered[0])
        for session, queues in waiting.items()
        for side, numbered in enumerate(queues)
        if numbered
    ]
    if not rest:
        return None
    _, session, side, first = min(rest, key=lambda entry: entry[0])
    return Divergence(session, first.index, *((first.found, None) if side == 0 else (None, first.found)))
