"""Check that two tapes are recordings of one simulation."""

from __future__ import annotations

from collections.abc import Mapping

from replayer.tape.tape import Tape


class NotComparableError(ValueError):
    """The two tapes are no recordings of one run; the text says why."""


def ensure_one_kind(one: Tape, other: Tape) -> None:
    """Raise NotComparableError if the tapes name different worlds, or have no field in common."""
    worlds = [tape.meta.get("world") for tape in (one, other)]
    names = [world.get("name") if isinstance(world, Mapping) else None for world in worlds]
    fields = [next((set(tape.snapshot(place)) for place in tape.keyframes), set()) for tape in (one, other)]
    if names[0] != names[1] or not {name for name in fields[0] & fields[1] if not name.startswith("#")}:
        shown = [
            name or f"{tape.meta.get('simulation', 'a simulation')} with the fields {', '.join(sorted(own)[:4])}"
            for name, tape, own in zip(names, (one, other), fields, strict=True)
        ]
        raise NotComparableError(f"expected two recordings of one simulation, got {shown[0]} and {shown[1]}")
