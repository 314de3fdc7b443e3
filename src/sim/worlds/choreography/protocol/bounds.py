"""Bounds of a protocol: the steps that are left, and the buffer capacity that its messages need.

W is twice the number of steps that the roles have left, plus the number of waiting messages. Sending a message lowers W
by 1, receiving one by 3: a protocol without endless loops must end. With an endless loop there is no bound:
"unsupported".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from sim.worlds.choreography.protocol.projection import Choose, Program, Receive, Send, next_places

WORK_MAX = 200_000  # Explored steps, plus the messages in flight at each; beyond it, the capacity stays unknown.

Configuration = tuple[tuple[int, ...], tuple[tuple[tuple[int, int], tuple[str, ...]], ...]]  # Places; labels in flight.


def find_depths(program: Program) -> tuple[int, ...] | None:
    """For each place of a program, the most steps from there to its end; None if it has an endless loop."""
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


def find_buffer_capacity(programs: Sequence[Program]) -> int | None:
    """The smallest capacity with which no role ever waits for room, on any combination of branches.

    For each channel, all roles but the receiver run as far as they can before the receiver takes its next step: no other
    order of steps has more messages waiting. None if a role has an endless loop, or for too many configurations.
    """
    if any(find_depths(program) is None for program in programs):
        return None
    pairs = {
        (role, node.to) for role, program in enumerate(programs) for node in program if isinstance(node, Send | Choose)
    }
    work_left, capacity = WORK_MAX, 0
    for channel in sorted(pairs):
        seen: set[Configuration] = set()
        unexplored: list[Configuration] = [((0,) * len(programs), ())]
        while unexplored:
            configuration = unexplored.pop()
            if configuration in seen:
                continue
            seen.add(configuration)
            places, queues = configuration
            work_left -= 1 + sum(len(labels) for _, labels in queues)
            if work_left < 0:
                return None
            capacity = max(capacity, len(dict(queues).get(channel, ())))
            unexplored.extend(_next_configurations(programs, places, dict(queues), lazy=channel[1]))
    return capacity


def _next_configurations(
    programs: Sequence[Program], places: tuple[int, ...], queues: dict[tuple[int, int], tuple[str, ...]], lazy: int
) -> list[Configuration]:
    """The configurations after a step of the first role that can take one; the lazy role is tried last."""
    for role in sorted(range(len(programs)), key=lambda role: (role == lazy, role)):
        node = programs[role][places[role]]
        if isinstance(node, Send | Choose):
            if isinstance(node, Send):
                branches = [(node.label, node.next)]
            else:
                branches = [(label, after) for label, _, after in node.branches]
            channel = (role, node.to)
            return [
                _configuration(places, role, after, {**queues, channel: (*queues.get(channel, ()), label)})
                for label, after in branches
            ]
        if isinstance(node, Receive) and queues.get((node.sender, role)):
            label, *rest = queues[node.sender, role]
            after = node.branches[label][1]
            return [_configuration(places, role, after, {**queues, (node.sender, role): tuple(rest)})]
    return []


def _configuration(
    places: tuple[int, ...], role: int, after: int, queues: Mapping[tuple[int, int], tuple[str, ...]]
) -> Configuration:
    return (*places[:role], after, *places[role + 1 :]), tuple(sorted(item for item in queues.items() if item[1]))


@attrs.frozen
class Measures:
    """The bounds of a protocol before its first step.

    Attributes:
        depths: by role and place, the most steps to the end; None if there is an endless loop.
        buffer_capacity: see find_buffer_capacity.
    """

    depths: tuple[tuple[int, ...], ...] | None
    buffer_capacity: int | None

    @staticmethod
    def of(programs: Sequence[Program]) -> Measures:
        """Compute the measures from the programs of all roles."""
        depths = [role_depths for program in programs if (role_depths := find_depths(program)) is not None]
        complete = tuple(depths) if len(depths) == len(programs) else None
        return Measures(complete, find_buffer_capacity(programs))


def report(
    measures: Measures, *, places: Sequence[int], sessions: int, buffered: int, productive: int, capacity: int
) -> dict[str, Any]:
    """The measures of the current tick as plain data; an unknown measure is None.

    places: of all roles, session by session. capacity: of the buffers.

    ``critical_capacity_phase`` compares the productive steps with the initial depth budget, and ``buffer_phase`` the
    capacity of the buffers with the needed one, ``buffer_capacity``: below, at, above, or unsupported.
    """
    figures: dict[str, Any] = dict.fromkeys(("initial_w", "depth_budget", "remaining_w", "consumed"))
    if measures.depths is not None:
        size = len(measures.depths)
        budget = sessions * sum(depths[0] for depths in measures.depths)
        left = sum(measures.depths[role % size][place] for role, place in enumerate(places))
        figures = {"initial_w": 2 * budget, "depth_budget": budget, "remaining_w": 2 * left + buffered}
        figures["consumed"] = figures["initial_w"] - figures["remaining_w"]
    needed = measures.buffer_capacity
    return {
        **figures,
        "productive_steps": productive,
        "critical_capacity_phase": _phase(productive, figures["depth_budget"]),
        "buffer_capacity": needed,
        "buffer_phase": _phase(capacity, needed),
    }


def total(reports: Sequence[Mapping[str, Any]], capacity: int) -> dict[str, Any]:
    """The measures of several choreographies in one machine; a sum is None if one of them is unknown.

    capacity: of the buffers.
    """
    sums: dict[str, Any] = {}
    for key in ("initial_w", "depth_budget", "remaining_w", "consumed", "productive_steps"):
        values = [one[key] for one in reports]
        sums[key] = None if None in values else sum(values)
    needs = [one["buffer_capacity"] for one in reports]
    needed = None if None in needs else max(needs)
    return {
        **sums,
        "critical_capacity_phase": _phase(sums["productive_steps"], sums["depth_budget"]),
        "buffer_capacity": needed,
        "buffer_phase": _phase(capacity, needed),
    }


def _phase(number: int, limit: int | None) -> str:
    if limit is None:
        return "unsupported"
    return "below" if number < limit else "at" if number == limit else "above"
