"""Compare two runs by their streams of events: equal, equal in causal order, or different.

Raw: all events are equal, in the same order and at the same ticks. Normalised: what causes what is equal, see
NORMALISATION. An event comes before another one if both are of one role in one session, of one message, of one
adversary, of one property, or of one session without a role. The interleaving of everything else does not count.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Literal

import attrs

from sim.kernel.messages import Event
from sim.kernel.plain_data import encode_plain
from sim.scenario.event_kinds import EFFECT_KINDS, ENVIRONMENT_KINDS
from sim.scenario.results.result import TickEvent

Verdict = Literal["exact_raw_match", "equivalent_under_normalization", "safety_visible_divergence"]

IGNORED = {"sample"}  # The figures of a round depend on the roles that advanced in it.
# A reconfiguration is compared by its footprint: what it changed, for whom, at what cost; not when, and as which of all.
UNORDERED_KEYS = {"reconfigured": {"operation", "step"}}
STOPS = {"halted", "faulted"}
NORMALISATION = (
    "events keep their order within each role of a session, message, adversary and property, and no other",
    "events of a session without a role keep their order, and a session closes after the same stops",
    "messages are numbered by session, sender and receiver",
    "reconfigurations are compared by what they change, and at what cost; their numbers and steps do not count",
    "ticks and samples do not count",
)

Chain = tuple[Any, str, Hashable]  # Session, kind of chain, and the role, message or part that it is of.


@attrs.frozen
class Divergence:
    """The first event that differs.

    Attributes:
        session: of the event; None if events have no session.
        index: of the event: in the run if the comparison is raw, among those of ``of`` if it is normalised.
        one, other: (tick, event) of each run; None if that run has no more events.
        of: the role, message or part whose events are compared, such as "role Alice"; empty if the comparison is raw
            or the event has no role.
    """

    session: Any
    index: int
    one: TickEvent | None
    other: TickEvent | None
    of: str = ""


@attrs.frozen
class RunComparison:
    """The result of comparing two runs.

    Attributes:
        verdict: the strongest verdict that is true and that the regimes of the runs allow.
        raw: the first event that differs raw; None if no event differs.
        normalised: the first event that differs normalised; None if no event differs, or if the raw events are equal.
        event_counts: of the two runs.
        capped: True if the events are equal but the regime does not allow the verdict "exact_raw_match".
        only_length: True if the runs differ only in where they were cut: no event differs, but one has further events.
        normalisation: what the normalised comparison keeps and leaves out, sentence by sentence.
    """

    verdict: Verdict
    raw: Divergence | None
    normalised: Divergence | None
    event_counts: tuple[int, int]
    capped: bool = False
    only_length: bool = False
    normalisation: tuple[str, ...] = NORMALISATION


def compare_runs(one: Iterable[TickEvent], other: Iterable[TickEvent], *, exact: bool = True) -> RunComparison:
    """Compare two streams of events. exact: True if the regimes of both runs fix the order of events.

    Memory grows with the difference in interleaving, not with the length of the runs.
    """
    chains = (_Chains(), _Chains())
    waiting: dict[Chain, tuple[deque[_Numbered], deque[_Numbered]]] = {}
    raw: Divergence | None = None
    normalised: Divergence | None = None
    counts = [0, 0]
    for index, pair in enumerate(_pairs(one, other)):
        for run, entry in enumerate(pair):
            counts[run] += entry is not None
        if raw is None and not _are_equal(pair):
            raw = Divergence(_session_of((pair[0] or pair[1] or (0, {}))[1]), index, *pair)
        if normalised is None:
            normalised = _match(pair, chains, waiting)
    only_length = normalised is None
    if normalised is None:
        normalised = _left_over(waiting)
    if raw is None:
        verdict: Verdict = "exact_raw_match" if exact else "equivalent_under_normalization"
        return RunComparison(verdict, None, None, (counts[0], counts[1]), capped=not exact)
    if normalised is None:
        return RunComparison("equivalent_under_normalization", raw, None, (counts[0], counts[1]))
    both = counts[0], counts[1]
    return RunComparison("safety_visible_divergence", raw, normalised, both, only_length=only_length)


@attrs.frozen
class _Numbered:
    """An event of a chain: its index, its normal form, and the original."""

    index: int
    normal: bytes
    original: TickEvent


@attrs.define
class _Session:
    """What the events of a session so far say: its messages, its stops."""

    messages: dict[int, tuple[Any, Any, int]] = attrs.field(factory=dict)  # Sender, receiver, number between the two.
    sent: Counter[tuple[Any, Any]] = attrs.field(factory=Counter)
    seen: Counter[tuple[Any, Any, int]] = attrs.field(factory=Counter)  # The world's events of each message.
    stops: int = 0
    stopped_last: Any = None


class _Chains:
    """Numbers the events of each chain of one run, and the messages of each session."""

    def __init__(self) -> None:
        self._counts: dict[Chain, int] = {}
        self._sessions: dict[Hashable, _Session] = {}

    def number(self, original: TickEvent) -> tuple[Chain, _Numbered]:
        """The chain of an event, and the event in normal form."""
        _, event = original
        key = _session_of(event)
        session = self._sessions.setdefault(key, _Session())
        chain, normal = self._normal(key, session, event)
        index = self._counts[chain] = self._counts.get(chain, -1) + 1
        return chain, _Numbered(index, encode_plain(sorted(normal.items())), original)

    @staticmethod
    def _normal(key: Hashable, session: _Session, event: Event) -> tuple[Chain, Event]:
        kind, role = event["kind"], event.get("role")
        left_out = UNORDERED_KEYS.get(kind, set())
        normal = {name: value for name, value in event.items() if name not in left_out}
        # A scenario's effects are recorded after the world's events of their round, even if a message was received in it.
        is_effect = kind in EFFECT_KINDS or kind in ENVIRONMENT_KINDS
        message = _message_of(session, event)
        if message is not None:
            normal["message"] = list(message)
            if is_effect:
                return (key, "message", message), normal
            normal["message"] += [session.seen[message]]
            session.seen[message] += 1
        if kind in STOPS:
            session.stops, session.stopped_last = session.stops + 1, role
        elif kind == "closed" and key is not None and role is not None and role == session.stopped_last:
            # A session closes with the last role that stops, whichever that is.
            del normal["role"]
            return (key, "session", None), {**normal, "stops": session.stops}
        return (key, *_part_of(event)), normal


def _message_of(session: _Session, event: Event) -> tuple[Any, Any, int] | None:
    """Sender, receiver and number of an event's message, in the order in which the session's events name it."""
    number = event.get("message")
    if type(number) is not int:
        return None
    if number not in session.messages:
        ends = [event.get("from", event.get("role")), event.get("to", event.get("role"))]
        sender, receiver = (end if isinstance(end, str) else None for end in ends)
        session.messages[number] = (sender, receiver, session.sent[sender, receiver])
        session.sent[sender, receiver] += 1
    return session.messages[number]


def _part_of(event: Event) -> tuple[str, Hashable]:
    """The kind and the name of the chain of an event: of its role, adversary or property, or of its session."""
    for kind, key in (("role", "role"), ("part", "by"), ("property", "property")):
        if isinstance(event.get(key), str):
            return kind, event[key]
    return "session", None


def _shown(chain: Chain) -> str:
    _, kind, name = chain
    if isinstance(name, tuple):
        sender, receiver, number = name
        return f"message {number} from {sender} to {receiver}"
    return f"{kind} {name}" if name is not None else ""


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
    chains: tuple[_Chains, _Chains],
    waiting: dict[Chain, tuple[deque[_Numbered], deque[_Numbered]]],
) -> Divergence | None:
    """Compare the events of a chain as soon as both runs have them."""
    for run, entry in enumerate(pair):
        if entry is None or entry[1]["kind"] in IGNORED:
            continue
        chain, numbered = chains[run].number(entry)
        queues = waiting.setdefault(chain, (deque(), deque()))
        queues[run].append(numbered)
        while queues[0] and queues[1]:
            left, right = queues[0].popleft(), queues[1].popleft()
            if left.normal != right.normal:
                return Divergence(chain[0], left.index, left.original, right.original, _shown(chain))
    return None


def _left_over(waiting: dict[Chain, tuple[deque[_Numbered], deque[_Numbered]]]) -> Divergence | None:
    """The first event that only one of the runs has."""
    rest = [
        (numbered[0].original[0], chain, run, numbered[0])
        for chain, queues in waiting.items()
        for run, numbered in enumerate(queues)
        if numbered
    ]
    if not rest:
        return None
    _, chain, run, first = min(rest, key=lambda entry: entry[0])
    one, other = (first.original, None) if run == 0 else (None, first.original)
    return Divergence(chain[0], first.index, one, other, _shown(chain))
