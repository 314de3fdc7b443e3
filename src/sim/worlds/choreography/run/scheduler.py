"""The scheduler: it picks the roles that advance in a round, and their order.

- cooperative: the role that advanced last continues until it cannot; then the next one that can.
- round_robin: one after the other, able or not.
- priority_aging: the highest sum of priority and rounds waited first.
- priority_token_weighted: in each round, a role gets as many tokens as its priority. The roles with the most tokens
  advance and pay the tokens of the round in equal parts.
- progress_aware: roles that can advance first, and among them the one that waited longest.

Ties go to the role that is named first. Roles that are stopped or paused are skipped. The cursor, the rounds waited and
the tokens are state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sim.kernel.state import State
from sim.worlds.choreography.config import Scheduler


def pick(
    state: State, scheduler: Scheduler, live: Sequence[int], able: Callable[[int], bool], priorities: Sequence[int]
) -> list[int]:
    """Pick the roles of this round from the live ones, by the scheduler's policy. Picked roles pay their tokens.

    priorities: of each role; empty if all are 1.
    """
    count = min(scheduler.concurrency, len(live))
    if not count:
        return []
    match scheduler.policy:
        case "cooperative" | "round_robin":
            cursor = int(state["scheduler.cursor"])
            rotated = sorted(live, key=lambda role: (role < cursor, role))
            if scheduler.policy == "cooperative":
                rotated.sort(key=lambda role: not able(role))
            return rotated[:count]
        case "priority_aging":
            waited = state["scheduler.waited"]
            return sorted(live, key=lambda role: (-_priority(priorities, role) - int(waited[role]), role))[:count]
        case "priority_token_weighted":
            return _pick_by_tokens(state, priorities, live, count)
    waited = state["scheduler.waited"]
    return sorted(live, key=lambda role: (not able(role), -int(waited[role]), role))[:count]


def note_round(state: State, scheduler: Scheduler, live: Sequence[int], advanced: Sequence[int]) -> None:
    """Note the roles that advanced in this round, by the policy's choice or by an input."""
    if advanced:
        stays = scheduler.policy == "cooperative"  # The same role continues; otherwise the one after the last is next.
        state["scheduler.cursor"][...] = advanced[0] if stays else (advanced[-1] + 1) % len(state["roles.status"])
    waited = state["scheduler.waited"]
    waited[np.array(live, dtype=np.int64)] += 1
    waited[np.array(advanced, dtype=np.int64)] = 0


def _priority(priorities: Sequence[int], role: int) -> int:
    return priorities[role] if priorities else 1


def _pick_by_tokens(state: State, priorities: Sequence[int], live: Sequence[int], count: int) -> list[int]:
    tokens = state["scheduler.tokens"]
    issued = 0
    for role in live:
        tokens[role] += _priority(priorities, role)
        issued += _priority(priorities, role)
    picked = sorted(live, key=lambda role: (-int(tokens[role]), role))[:count]
    for role in picked:
        tokens[role] -= issued // count
    return picked
