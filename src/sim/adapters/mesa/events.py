"""The scheduled events of a Mesa model, whose numbers are shared by all models of a process."""

from __future__ import annotations

from typing import Any


def is_event(obj: Any) -> bool:
    """Return True for an event of a simulator."""
    return type(obj).__name__ == "SimulationEvent" and type(obj).__module__.startswith("mesa.")


def events_of(model: Any) -> list[Any]:
    """The events of the model's simulator; empty if it has none."""
    listed = getattr(getattr(vars(model).get("simulator"), "event_list", None), "_events", None)
    return listed if isinstance(listed, list) else []


def event_ranks(model: Any) -> dict[int, int]:
    """The rank of each event, by its id, in order of creation: event numbers serve only for this order."""
    ordered = sorted(events_of(model), key=lambda event: event.unique_id)
    return {id(event): rank for rank, event in enumerate(ordered)}
