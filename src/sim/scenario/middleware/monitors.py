"""The properties of a scenario, checked after each round; each is reported once, at its first violation.

The memory of a property between rounds (open windows, depths) is state: a resumed run reports the same violations as an
uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from sim.kernel.messages import Event
from sim.scenario.config.scenario import Property

Q32_ONE = 1 << 32
SIMPLEX_TOLERANCE = 43  # 1e-8 in Q32.32, rounded up: the largest error of a distribution's sum.


@attrs.frozen
class Look:
    """The data of a round that properties check.

    Attributes:
        tick: the tick at the end of the round.
        figures: by name, see predicates.py.
        samples: the figures of each role, Q32.32 as integers.
        events: of the round, including the scenario's.
        buffered: the number of messages in buffers by session; a single session is 0.
        depths: the steps left by session; empty if the world does not report them.
        state: of the simulation, read-only: for the user's functions.
    """

    tick: int
    figures: Mapping[str, int | float]
    samples: Mapping[str, Sequence[int]]
    events: Sequence[Event]
    buffered: Mapping[int, int]
    depths: Mapping[int, int]
    state: Any


PropertyFunction = Callable[[Look], str | None]  # Returns the problem as text; None if there is none.


class Monitors:
    """All properties of a run. The entire state is ``plain``, plain data.

    plain: "violated" holds True for each property that was reported; "memory" holds the memory of each property.
    """

    def __init__(self, properties: Sequence[Property], functions: Mapping[str, PropertyFunction]) -> None:
        """functions: of the properties of kind function, by the property's name. Raises LookupError if one is missing."""
        self._properties = properties
        self._functions = functions
        missing = [
            checked.name for checked in properties if checked.kind == "function" and checked.name not in functions
        ]
        if missing:
            raise LookupError(
                f"the function of property {missing[0]} is missing: give the simulation the member "
                f"properties = {{{missing[0]!r}: function}}, or set it in the function that makes the simulation"
            )
        self.plain: dict[str, Any] = {"violated": [False] * len(properties), "memory": [[] for _ in properties]}

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the properties that were reported."""
        return reported(self._properties, self.plain)

    def end_round(self, look: Look, events: list[Event]) -> None:
        """Check all properties against a round and append the violations to events."""
        for index, checked in enumerate(self._properties):
            if self.plain["violated"][index]:
                continue
            problem = self._check(checked, look, self.plain["memory"][index])
            if problem is not None:
                self.plain["violated"][index] = True
                self.plain["memory"][index] = []
                events.append({"kind": "violation", "property": checked.name, "details": problem})

    def _check(self, checked: Property, look: Look, memory: list[Any]) -> str | None:
        match checked.kind:
            case "no_faults":
                return _fault(look)
            case "simplex":
                return _off_simplex(look)
            case "send_recv_liveness":
                return _unreceived(look, checked, memory)
            case "type_monotonicity":
                return _grown(look, checked, memory)
            case "buffer_bound":
                return _overfull(look, checked)
            case "liveness":
                return _overdue(look, checked, memory)
            case "always":
                assert checked.when is not None
                if not checked.when.holds(look.figures):
                    return f"{checked.when} does not hold: it is {look.figures[checked.when.figure]}"
                return None
            case "function":
                return self._functions[checked.name](look)


def reported(properties: Sequence[Property], plain: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the properties that were reported, according to the state of the monitors."""
    return tuple(checked.name for checked, is_over in zip(properties, plain["violated"], strict=True) if is_over)


def _fault(look: Look) -> str | None:
    fault = next((event for event in look.events if event["kind"] == "faulted"), None)
    return None if fault is None else f"{fault.get('role', 'a role')} faulted: {fault.get('reason', 'no reason given')}"


def _off_simplex(look: Look) -> str | None:
    for role, values in look.samples.items():
        if values and min(values) < 0:
            return f"{role} has a negative figure, {min(values) / Q32_ONE:.9g}"
        if values and abs(sum(values) - Q32_ONE) > SIMPLEX_TOLERANCE:
            return f"the figures of {role} add up to {sum(values) / Q32_ONE:.9g}, not to 1"
    return None


def _unreceived(look: Look, checked: Property, memory: list[Any]) -> str | None:
    """Check that messages are received in time. All copies of a message count as one.

    memory: the number sent so far, the number received so far, the rounds with messages that are not received yet (see
    _note_sent), and [message, True if one of its copies was received] for each message that an adversary repeated.
    """
    if not memory:
        memory += [0, 0, [], []]
    repeated = dict.fromkeys(event["message"] for event in look.events if event["kind"] == "repeated")
    memory[3] += [[number, False] for number in repeated]  # Each is new: it was sent in this round.
    entries = {entry[0]: entry for entry in memory[3]}
    events = [e for e in look.events if checked.session is None or e.get("session", 0) == checked.session]
    sent = sum(event["kind"] == "sent" for event in events)
    memory[0] += sent
    memory[1] += sum(event["kind"] == "received" and _is_first(event, entries) for event in events)
    if sent:
        _note_sent(memory[2], look.tick + (checked.bound or 0), memory[0], sent)
    _forget_received(memory[2], memory[1])
    if not memory[2] or look.tick < memory[2][0][0]:
        return None
    return f"{memory[2][0][1]} messages were sent {checked.bound} ticks ago or before, {memory[1]} were received"


def _note_sent(runs: list[list[int]], deadline: int, total: int, sent: int) -> None:
    """Add a round to runs of consecutive rounds with equal numbers of sent messages.

    A run is [deadline of its first round, total sent up to that round, rounds, sent in each round]. A steady stream of
    messages takes constant space, even if messages are lost.
    """
    if runs and runs[-1][3] == sent and runs[-1][0] + runs[-1][2] == deadline:
        runs[-1][2] += 1
    else:
        runs.append([deadline, total, 1, sent])


def _forget_received(runs: list[list[int]], received: int) -> None:
    """Drop the rounds up to which no more messages were sent than have been received by now."""
    while runs and received >= runs[0][1]:
        deadline, total, rounds, sent = runs[0]
        over = (received - total) // sent + 1
        if over >= rounds:
            del runs[0]
        else:
            runs[0] = [deadline + over, total + over * sent, rounds - over, sent]


def _is_first(event: Event, repeated: Mapping[int, list[Any]]) -> bool:
    """Return True if an event receives the first copy of a message, and note it in repeated, the memory by message."""
    entry = repeated.get(event.get("message", -1))
    if entry is None:
        return True
    is_first = not entry[1]
    entry[1] = True
    return is_first


def _grown(look: Look, checked: Property, memory: list[Any]) -> str | None:
    """Check that no session moves away from its end. memory: [session, steps left] of each session."""
    before = dict(memory)
    depths = {s: depth for s, depth in look.depths.items() if checked.session in {None, s}}
    memory[:] = [[session, depth] for session, depth in sorted(depths.items())]
    grown = next((s for s in sorted(depths) if depths[s] > before.get(s, depths[s])), None)
    if grown is None:
        return None
    return f"session {grown} went back: {before[grown]} steps were left of it, now {depths[grown]}"


def _overfull(look: Look, checked: Property) -> str | None:
    counts = {s: count for s, count in look.buffered.items() if checked.session in {None, s}}
    full = next((s for s in sorted(counts) if counts[s] > (checked.max or 0)), None)
    if full is None:
        return None
    return f"session {full} has {counts[full]} messages in its buffers, {checked.max} are allowed"


def _overdue(look: Look, checked: Property, memory: list[Any]) -> str | None:
    """Check that the goal follows its precondition in time. memory: the goal's deadline; empty if none is open."""
    assert checked.precondition is not None
    assert checked.goal is not None
    if checked.goal.holds(look.figures):
        memory.clear()
    elif memory and look.tick >= memory[0]:
        return f"{checked.goal} did not hold within {checked.bound} ticks of {checked.precondition}"
    elif not memory and checked.precondition.holds(look.figures):
        memory.append(look.tick + (checked.bound or 0))
    return None


def distance_to_equilibrium(samples: Mapping[str, Sequence[int]]) -> float:
    """The largest Euclidean distance of a role's figures from the uniform distribution; 0 without figures."""
    distances = [0.0]
    for values in samples.values():
        if values:
            # Squares and roots of integers are exact on every machine; 32 extra binary places are kept.
            squares = sum((len(values) * value - Q32_ONE) ** 2 for value in values)
            distances.append(math.isqrt(squares << 64) / (len(values) * Q32_ONE << 32))
    return max(distances)
