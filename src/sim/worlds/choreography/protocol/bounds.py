"""How much a protocol has still to do, and how much room its messages need.

W is twice the depth of what the roles have still to do, and the messages that wait: each message sent takes 1 from it,
each taken 3, so that a protocol without endless loops must end. A protocol with one has no depth: "unsupported".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from sim.worlds.choreography.protocol.projection import Choose, Program, Receive, Send, next_places

WORK_MAX = 200_000  # Steps looked at, each with the messages under way, before the capacity is given up.

Course = tuple[tuple[int, ...], tuple[tuple[tuple[int, int], tuple[str, ...]], ...]]  # Places; labels under way.


def find_depths(program: Program) -> tuple[int, ...] | None:
    """For each place of a program the most steps from there to its end; None if it has an endless loop."""
    depths: dict[int, int] = {}
    open_places: set[int] = set()
    stack = [0]
    while stack:
        place = stack[-1]
        if place in depths:
            stack.pop()
            continue
        nexts = next_places(program[place])
        missing = [after for after in nexts if after not in depths]
        if not missing:
            depths[place] = 1 + max(depths[after] for after in nexts) if nexts else 0
            open_places.discard(place)
            stack.pop()
        elif place in open_places or any(after in open_places for after in missing):
            return None
        else:
            open_places.add(place)
            stack.extend(missing)
    return tuple(depths[place] for place in range(len(program)))


def find_critical_capacity(programs: Sequence[Program]) -> int | None:
    """The smallest capacity with which no role ever waits for room, whichever branches are taken.

    For each channel, the sender and all others run as far as they can before the receiver does its next step: no other
    order of steps has more messages waiting. None if a role has an endless loop, or there are too many courses.
    """
    if any(find_depths(program) is None for program in programs):
        return None
    pairs = {
        (role, node.to) for role, program in enumerate(programs) for node in program if isinstance(node, Send | Choose)
    }
    work, most = WORK_MAX, 0
    for channel in sorted(pairs):
        seen: set[Course] = set()
        open_courses: list[Course] = [((0,) * len(programs), ())]
        while open_courses:
            course = open_courses.pop()
            if course in seen:
                continue
            seen.add(course)
            places, queues = course
            work -= 1 + sum(len(labels) for _, labels in queues)
            if work < 0:
                return None
            most = max(most, len(dict(queues).get(channel, ())))
            open_courses.extend(_next_courses(programs, places, dict(queues), lazy=channel[1]))
    return most


def _next_courses(
    programs: Sequence[Program], places: tuple[int, ...], queues: dict[tuple[int, int], tuple[str, ...]], lazy: int
) -> list[Course]:
    """What the first role that can do a step makes of a course; the lazy one comes last."""
    for role in sorted(range(len(programs)), key=lambda role: (role == lazy, role)):
        node = programs[role][places[role]]
        if isinstance(node, Send | Choose):
            ways = [(node.label, node.next)] if isinstance(node, Send) else [(way[0], way[2]) for way in node.branches]
            channel = (role, node.to)
            return [
                _course(places, role, after, {**queues, channel: (*queues.get(channel, ()), label)})
                for label, after in ways
            ]
        if isinstance(node, Receive) and queues.get((node.sender, role)):
            label, *rest = queues[node.sender, role]
            after = node.branches[label][1]
            return [_course(places, role, after, {**queues, (node.sender, role): tuple(rest)})]
    return []


def _course(
    places: tuple[int, ...], role: int, after: int, queues: Mapping[tuple[int, int], tuple[str, ...]]
) -> Course:
    return (*places[:role], after, *places[role + 1 :]), tuple(sorted(item for item in queues.items() if item[1]))


@attrs.frozen
class Measures:
    """What is known of a protocol before its first step.

    Attributes:
        depths: for each role of the protocol and place, the steps to the end; None with an endless loop.
        critical_capacity: see find_critical_capacity.
    """

    depths: tuple[tuple[int, ...], ...] | None
    critical_capacity: int | None

    @staticmethod
    def of(programs: Sequence[Program]) -> Measures:
        """Of the programs of all roles."""
        depths = [found for program in programs if (found := find_depths(program)) is not None]
        whole = tuple(depths) if len(depths) == len(programs) else None
        return Measures(whole, find_critical_capacity(programs))


def report(
    measures: Measures, *, places: Sequence[int], sessions: int, buffered: int, productive: int, capacity: int
) -> dict[str, Any]:
    """The measures of the present tick as plain data.

    places: of all roles, session by session. capacity: what the buffers have. What is not known is None; ``phase`` is
    the capacity against the critical one: below, at, above, or unsupported.
    """
    made: dict[str, Any] = dict.fromkeys(("initial_w", "depth_budget", "remaining_w", "consumed"))
    if measures.depths is not None:
        size = len(measures.depths)
        budget = sessions * sum(depths[0] for depths in measures.depths)
        left = sum(measures.depths[role % size][place] for role, place in enumerate(places))
        made = {"initial_w": 2 * budget, "depth_budget": budget, "remaining_w": 2 * left + buffered}
        made["consumed"] = made["initial_w"] - made["remaining_w"]
    critical = measures.critical_capacity
    phase = "unsupported"
    if critical is not None:
        phase = "below" if capacity < critical else "at" if capacity == critical else "above"
    return {**made, "productive_steps": productive, "critical_capacity": critical, "phase": phase}
