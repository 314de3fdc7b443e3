"""Compare two runs by their streams of events: equal, equal except for the order of sessions, or different.

Raw: all events are equal, in the same order and at the same ticks. Normalised: events of different sessions may be
interleaved differently. Events and messages are then numbered within each session, and neither ticks nor the numbers of
reconfigurations count.
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

IGNORED = {"sample"}  # The figures of a round depend on the session that advanced in it.
UNORDERED_KEYS = {"reconfigured": {"operation"}}


@attrs.frozen
class Divergence:
    """The first event that differs.

    Attributes:
        session: of the event; None if events have no session.
        index: of the event: in the run if the comparison is raw, in its session if it is normalised.
        one, other: (tick, event) of each run; None if that run has no more events.
    """

    session: Any
    index: int
    one: TickEvent | None
    other: TickEvent | None


@attrs.frozen
class RunComparison:
    """The result of comparing two runs.

    Attributes:
        verdict: the strongest verdict that is true and that the regimes of the runs allow.
        raw: the first event that differs raw; None if no event differs.
        normalised: the first event that differs normalised; None if no event differs, or if the raw events are equal.
        event_counts: of the two runs.
        capped: True if the events are equal but the regime does not allow the verdict "exact_raw_match".
    """

    verdict: Verdict
    raw: Divergence | None
    normalised: Divergence | None
    event_counts: tuple[int, int]
    capped: bool = False


def compare_runs(one: Iterable[TickEvent], other: Iterable[TickEvent], *, exact: bool = True) -> RunComparison:
    """Compare two streams of events. exact: True if the regimes of both runs fix the order of events.

    Memory grows with the difference in interleaving, not with the length of the runs.
    """
    sessions = (_Sessions(), _Sessions())
    waiting: dict[Hashable, tuple[deque[_Numbered], deque[_Numbered]]] = {}
    raw: Divergence | None = None
    normalised: Divergence | None = None
    counts = [0, 0]
    for index, pair in enumerate(_pairs(one, other)):
        for run, entry in enumerate(pair):
            counts[run] += entry is not None
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
    """An event of a session: its index, its normal form, and the original."""

    index: int
    normal: bytes
    original: TickEvent


class _Sessions:
    """Numbers the events of each session of one run, and its messages."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}
        self._messages: dict[Hashable, dict[int, int]] = {}

    def number(self, original: TickEvent) -> tuple[Hashable, _Numbered]:
        """The session of an event, and the event in normal form."""
        _, event = original
        session = _session_of(event)
        index = self._counts[session] = self._counts.get(session, -1) + 1
        return session, _Numbered(index, encode_plain(self._normal(session, event)), original)

    def _normal(self, session: Hashable, event: Event) -> list[Any]:
        left_out = UNORDERED_KEYS.get(event["kind"], set())
        normal = {key: value for key, value in event.items() if key not in left_out}
        if type(normal.get("message")) is int:
            numbers = self._messages.setdefault(session, {})
            normal["message"] = numbers.setdefault(normal["message"], len(numbers))
        return sorted(normal.items())


def _session_of(event: Event) -> int | str | None:
    """The session of an event; None if the world stored anything but a number or a text there."""
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
    """Return True if two events have equal bytes: arrays do not compare, NaN differs from itself, and 0.0 is not -0.0."""
    one, other = pair
    if one is None or other is None:
        return False
    return one[0] == other[0] and encode_plain(one[1]) == encode_plain(other[1])


def _match(
    pair: tuple[TickEvent | None, TickEvent | None],
    sessions: tuple[_Sessions, _Sessions],
    waiting: dict[Hashable, tuple[deque[_Numbered], deque[_Numbered]]],
) -> Divergence | None:
    """Compare the events of a session as soon as both runs have them."""
    for run, entry in enumerate(pair):
        if entry is None or entry[1]["kind"] in IGNORED:
            continue
        session, numbered = sessions[run].number(entry)
        queues = waiting.setdefault(session, (deque(), deque()))
        queues[run].append(numbered)
        while queues[0] and queues[1]:
            left, right = queues[0].popleft(), queues[1].popleft()
            if left.normal != right.normal:
                return Divergence(session, left.index, left.original, right.original)
    return None


def _left_over(waiting: dict[Hashable, tuple[deque[_Numbered], deque[_Numbered]]]) -> Divergence | None:
    """The first event that only one of the runs has."""
    rest = [
        (numbered[0].original[0], session, run, numbered[0])
        for session, queues in waiting.items()
        for run, numbered in enumerate(queues)
        if numbered
    ]
    if not rest:
        return None
    _, session, run, first = min(rest, key=lambda entry: entry[0])
    return Divergence(session, first.index, *((first.original, None) if run == 0 else (None, first.original)))
