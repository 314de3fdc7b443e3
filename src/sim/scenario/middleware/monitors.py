"""The properties of a scenario, looked at behind each round; each is reported once, when it is violated first.

What a property has to remember from round to round (open windows, depths) is state, so that a run that was resumed
reports what an uninterrupted one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from sim.kernel.messages import Event
from sim.scenario.config.scenario import Property

Q32_ONE = 1 << 32
SIMPLEX_TOLERANCE = 43  # 1e-8 in Q32.32, rounded up: what the sum of a distribution may be off by.


@attrs.frozen
class Look:
    """What properties see of a round.

    Attributes:
        tick: that the round led to.
        figures: by name, see predicates.py.
        samples: the figures of each role, Q32.32 as integers.
        events: of the round, those of the scenario included.
        buffered: messages in buffers by session; a single session is 0.
        depths: how much is left to be done, by session; empty if the world does not say.
        state: of the simulation; for functions of the user's, which may read it and write nothing.
    """

    tick: int
    figures: Mapping[str, int | float]
    samples: Mapping[str, Sequence[int]]
    events: Sequence[Event]
    buffered: Mapping[int, int]
    depths: Mapping[int, int]
    state: Any


PropertyFunction = Callable[[Look], str | None]  # What is wrong; None if nothing is.


class Monitors:
    """All properties of a run. Its whole state is ``plain``, plain data.

    plain: "violated" says of each property whether it was reported; "memory" holds what it remembers.
    """

    def __init__(self, properties: Sequence[Property], functions: Mapping[str, PropertyFunction]) -> None:
        """functions: of the properties of kind function, by the property's name. Raises LookupError if one is missing."""
        self._properties = properties
        self._functions = functions
        missing = [one.name for one in properties if one.kind == "function" and one.name not in functions]
        if missing:
            raise LookupError(
                f"the property {missing[0]} is a function of yours, which was not given: let the simulation have "
                f"properties = {{{missing[0]!r}: function}}, or what makes it set them"
            )
        self.plain: dict[str, Any] = {"violated": [False] * len(properties), "memory": [[] for _ in properties]}

    @property
    def violated(self) -> tuple[str, ...]:
        """The properties that were reported, by name."""
        return reported(self._properties, self.plain)

    def end_round(self, look: Look, events: list[Event]) -> None:
        """Look at the round; violations become events."""
        for index, one in enumerate(self._properties):
            if self.plain["violated"][index]:
                continue
            wrong = self._look(one, look, self.plain["memory"][index])
            if wrong is not None:
                self.plain["violated"][index] = True
                self.plain["memory"][index] = []
                events.append({"kind": "violation", "property": one.name, "details": wrong})

    def _look(self, one: Property, look: Look, memory: list[Any]) -> str | None:
        match one.kind:
            case "no_faults":
                return _fault(look)
            case "simplex":
                return _off_simplex(look)
            case "send_recv_liveness":
                return _unreceived(look, one, memory)
            case "type_monotonicity":
                return _grown(look, one, memory)
            case "buffer_bound":
                return _overfull(look, one)
            case "liveness":
                return _overdue(look, one, memory)
            case "always":
                assert one.when is not None
                if not one.when.holds(look.figures):
                    return f"{one.when} does not hold: it is {look.figures[one.when.figure]}"
                return None
            case "function":
                return self._functions[one.name](look)


def reported(properties: Sequence[Property], plain: Mapping[str, Any]) -> tuple[str, ...]:
    """Of properties with this state, the names of those that were reported."""
    return tuple(one.name for one, is_over in zip(properties, plain["violated"], strict=True) if is_over)


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


def _unreceived(look: Look, one: Property, memory: list[Any]) -> str | None:
    """Copies of a message count once.

    memory: sent so far, received so far, the rounds in which something was sent that is not made up for, see _note_sent,
    and [message, whether one of it was received] for each that an adversary has repeated.
    """
    if not memory:
        memory += [0, 0, [], []]
    repeated = dict.fromkeys(event["message"] for event in look.events if event["kind"] == "repeated")
    memory[3] += [[number, False] for number in repeated]  # None is there already: it was sent in this round.
    entries = {entry[0]: entry for entry in memory[3]}
    of = [e for e in look.events if one.session is None or e.get("session", 0) == one.session]
    sent = sum(event["kind"] == "sent" for event in of)
    memory[0] += sent
    memory[1] += sum(event["kind"] == "received" and _is_first(event, entries) for event in of)
    if sent:
        _note_sent(memory[2], look.tick + (one.bound or 0), memory[0], sent)
    _forget_made_up_for(memory[2], memory[1])
    if not memory[2] or look.tick < memory[2][0][0]:
        return None
    return f"{memory[2][0][1]} messages were sent {one.bound} ticks ago or before, {memory[1]} were received"


def _note_sent(runs: list[list[int]], deadline: int, total: int, sent: int) -> None:
    """Add a round to runs of rounds, one behind the other, in each of which as many messages were sent.

    A run is [deadline of its first round, sent by then in all, rounds, sent in each]: what is sent evenly takes no more
    room the longer it goes on, however much is lost.
    """
    if runs and runs[-1][3] == sent and runs[-1][0] + runs[-1][2] == deadline:
        runs[-1][2] += 1
    else:
        runs.append([deadline, total, 1, sent])


def _forget_made_up_for(runs: list[list[int]], received: int) -> None:
    """Leave out the rounds by which no more was sent than has been received by now."""
    while runs and received >= runs[0][1]:
        deadline, total, rounds, sent = runs[0]
        over = (received - total) // sent + 1
        if over >= rounds:
            del runs[0]
        else:
            runs[0] = [deadline + over, total + over * sent, rounds - over, sent]


def _is_first(event: Event, repeated: Mapping[int, list[Any]]) -> bool:
    """Whether what was received is no further copy of a message. repeated: memory by message; the receipt is noted."""
    entry = repeated.get(event.get("message", -1))
    if entry is None:
        return True
    is_first = not entry[1]
    entry[1] = True
    return is_first


def _grown(look: Look, one: Property, memory: list[Any]) -> str | None:
    """memory: [session, what was left of it] of each session."""
    before = dict(memory)
    depths = {s: depth for s, depth in look.depths.items() if one.session in {None, s}}
    memory[:] = [[session, depth] for session, depth in sorted(depths.items())]
    grown = next((s for s in sorted(depths) if depths[s] > before.get(s, depths[s])), None)
    if grown is None:
        return None
    return f"session {grown} went back: {before[grown]} steps were left of it, now {depths[grown]}"


def _overfull(look: Look, one: Property) -> str | None:
    counts = {s: count for s, count in look.buffered.items() if one.session in {None, s}}
    full = next((s for s in sorted(counts) if counts[s] > (one.max or 0)), None)
    return None if full is None else f"session {full} has {counts[full]} messages in its buffers, {one.max} are allowed"


def _overdue(look: Look, one: Property, memory: list[Any]) -> str | None:
    """memory: the tick by which the goal must have held; empty without an open window."""
    assert one.precondition is not None
    assert one.goal is not None
    if one.goal.holds(look.figures):
        memory.clear()
    elif memory and look.tick >= memory[0]:
        return f"{one.goal} did not hold within {one.bound} ticks of {one.precondition}"
    elif not memory and one.precondition.holds(look.figures):
        memory.append(look.tick + (one.bound or 0))
    return None


def distance_to_equilibrium(samples: Mapping[str, Sequence[int]]) -> float:
    """The largest Euclidean distance of a role's figures from the uniform distribution; 0 without figures."""
    distances = [0.0]
    for values in samples.values():
        if values:
            # Squares and roots of whole numbers are the same on every machine; 32 binary places more are kept of these.
            squares = sum((len(values) * value - Q32_ONE) ** 2 for value in values)
            distances.append(math.isqrt(squares << 64) / (len(values) * Q32_ONE << 32))
    return max(distances)
