"""Which kinds of events are a scenario's own; what a world tells under one of these names is kept apart by another name.

On a tape, too, an event of one of these kinds is the scenario's, and one whose kind begins with ``world.`` the world's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sim.kernel.messages import Event

WORLD_PREFIX = "world."

BUDGET_KINDS = frozenset({"activated", "consumed", "exhausted"})
EFFECT_KINDS = frozenset(
    {
        "withheld",
        "delayed",
        "corrupted",
        "repeated",
        "crashed",
        "recovered",
        "split_off",
        "cut",
        "lost",
        "under_way",
        "retried",
        "undeliverable",
        "suppressed",
        "superseded",
        "invalid",
    }
)
ENVIRONMENT_KINDS = frozenset(
    {"moved", "fell_asleep", "woke", "incapable", "unreachable", "refused", "contended", "collided"}
)
OWN_KINDS = (
    BUDGET_KINDS | EFFECT_KINDS | ENVIRONMENT_KINDS | {"sample", "violation", "diagnostic", "reconfigured"}
)  # Of every scenario.
MESSAGE_KINDS = frozenset({"sent", "received"})  # The scenario's, too, where the world has no messages of its own.

_BUDGET_KEYS = frozenset({"by", "consumed", "remaining"})
_KEYS: Mapping[str, frozenset[str]] = {  # What those must have that are looked into when a result is put together.
    **dict.fromkeys(BUDGET_KINDS, _BUDGET_KEYS),
    "sample": frozenset({"step", "role", "values"}),
    "violation": frozenset({"property", "details"}),
    "diagnostic": frozenset({"diagnostic", "by"}),
    "reconfigured": frozenset({"by"}),
}


def told_by_world(events: Iterable[Any], reserved: Collection[str]) -> list[Any]:
    """What a world tells, with those kinds renamed that are reserved. Raises TypeError for what is no event."""
    told: list[Any] = []
    for event in events:
        if not isinstance(event, Mapping) or not isinstance(event.get("kind"), str):
            raise TypeError(f'events(): a table with a text under "kind" was expected, found {str(event)[:80]}')
        kind = event["kind"]
        told.append({**event, "kind": WORLD_PREFIX + kind} if kind in reserved else event)
    return told


def is_whole(event: Event) -> bool:
    """Whether an event has what those of its kind have; tapes from before may hold a world's own of the same kind."""
    return _KEYS.get(event["kind"], frozenset()) <= event.keys()
