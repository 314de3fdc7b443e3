"""The kinds of events that a scenario emits, and the renaming of a world's events that use one of these kinds.

On a tape, an event of one of these kinds is the scenario's. One whose kind begins with ``world.`` is the world's.
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
MESSAGE_KINDS = frozenset({"sent", "received"})  # The scenario's, around a world without messages of its own.
ABSENT = "absent"  # A role without an entry in the inputs; the scenario's where it leaves such roles out.

_BUDGET_KEYS = frozenset({"by", "consumed", "remaining"})
_KEYS: Mapping[str, frozenset[str]] = {  # The keys that the result of a run reads, by kind of event.
    **dict.fromkeys(BUDGET_KINDS, _BUDGET_KEYS),
    "sample": frozenset({"step", "role", "values"}),
    "violation": frozenset({"property", "details"}),
    "diagnostic": frozenset({"diagnostic", "by"}),
    "reconfigured": frozenset({"by"}),
}


def rename_reserved(events: Iterable[Any], reserved: Collection[str]) -> list[Any]:
    """A world's events, with reserved kinds prefixed by ``world.``. Raises TypeError for anything that is not an event."""
    renamed: list[Any] = []
    for event in events:
        if not isinstance(event, Mapping) or not isinstance(event.get("kind"), str):
            raise TypeError(f'events(): expected a table with a text under "kind", got {str(event)[:80]}')
        kind = event["kind"]
        renamed.append({**event, "kind": WORLD_PREFIX + kind} if kind in reserved else event)
    return renamed


def has_required_keys(event: Event) -> bool:
    """Return True if an event has the keys of its kind; on older tapes, a world's event may have a reserved kind."""
    return _KEYS.get(event["kind"], frozenset()) <= event.keys()
