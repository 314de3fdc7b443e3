"""The methods of a simulation that only read its present state, and a test that they do."""

from __future__ import annotations

from collections.abc import Sequence

from sim.kernel.hooks import CanEnd, EmitsEvents, HasTelemetry, hook, member_name
from sim.kernel.simulation import Simulation, emits_unrequested_events, inner_of


def reader_names(simulation: Simulation) -> list[str]:
    """The methods of a simulation that only read its present state."""
    inner = inner_of(simulation)
    kinds = (HasTelemetry, EmitsEvents, CanEnd) if emits_unrequested_events(simulation) else (HasTelemetry, CanEnd)
    names = [member_name(kind) for kind in kinds if hook(inner, kind) is not None]
    return [*names, *(["save"] if callable(getattr(inner, "save", None)) else [])]


def changed_by_reading(copy: Simulation, readers: Sequence[str] | None) -> str | None:
    """Read everything that can be read, and name the call that changed the state."""
    before = copy.state.hash()
    for name in copy.state:
        copy.state.field_hash(name)
    copy.state.snapshot()
    for name in reader_names(copy) if readers is None else readers:
        getattr(inner_of(copy), name)()
        if copy.state.hash() != before:
            return f"{name}()"
    return None
