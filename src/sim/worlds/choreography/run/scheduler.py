"""Which roles are advanced in a round, in which order.

- cooperative: the role that went on last goes on until it cannot; then the next one that can.
- round_robin: one after the other, able or not.
- priority_aging: the highest sum of priority and rounds waited first.
- priority_token_weighted: in each round a role gets as many tokens as its priority is; those with the most go on, and
  the tokens of the round are taken from them in equal parts.
- progress_aware: who can go on first, and of those who waited longest.

Ties go to the role named first. Who has stopped or is paused is passed over. The cursor, the rounds waited and the
tokens are state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sim.kernel.state import State
from sim.worlds.choreography.config import Scheduler


def pick(state: State, scheduler: Scheduler, live: Sequence[int], able: Callable[[int], bool]) -> list[int]:
    """The roles that the policy advances in this round, of those that are live; the tokens are paid."""
    count = min(scheduler.concurrency, len(live))
    if not count:
        return []
    match scheduler.policy:
        case "cooperative" | "round_robin":
            cursor = int(state["scheduler.cursor"])
            turned = sorted(live, key=lambda role: (role < cursor, role))
            if scheduler.policy == "cooperative":
                turned.sort(key=lambda role: not able(role))
            return turned[:count]
        case "priority_aging":
            waited = state["scheduler.waited"]
            return sorted(live, key=lambda role: (-_priority(scheduler, role) - int(waited[role]), role))[:count]
        case "priority_token_weighted":
            return _pick_by_tokens(state, scheduler, live, count)
    waited = state["scheduler.waited"]
    return sorted(live, key=lambda role: (not able(role), -int(waited[role]), role))[:count]


def note_round(state: State, scheduler: Scheduler, live: Sequence[int], advanced: Sequence[int]) -> None:
    """Remember who was advanced, however they were picked."""
    if advanced:
        first = scheduler.policy == "cooperative"  # It is to go on; else the one behind the last is next.
        state["scheduler.cursor"][...] = advanced[0] if first else (advanced[-1] + 1) % len(state["roles.status"])
    waited = state["scheduler.waited"]
    waited[np.array(live, dtype=np.int64)] += 1
    waited[np.array(advanced, dtype=np.int64)] = 0


def _priority(scheduler: Scheduler, role: int) -> int:
    priorities = scheduler.priorities
    return priorities[role % len(priorities)] if priorities else 1


def _pick_by_tokens(state: State, scheduler: Scheduler, live: Sequence[int], count: int) -> list[int]:
    tokens = state["scheduler.tokens"]
    given = 0
    for role in live:
        tokens[role] += _priority(scheduler, role)
        given += _priority(scheduler, role)
    picked = sorted(live, key=lambda role: (-int(tokens[role]), role))[:count]
    for role in picked:
        tokens[role] -= given // count
    return picked
