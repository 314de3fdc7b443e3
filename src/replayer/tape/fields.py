"""Fields of the states on a tape: which exist, which are shown without being named; and the registered world they belong to."""

from __future__ import annotations

from recorder.exit_codes import UsageError
from replayer.tape.tape import Tape
from sim.kernel.registry import UnknownWorldError, World, find_world
from sim.kernel.schema import Blob, Layout, Slot
from sim.kernel.simulation import SCENARIO_PREFIX
from sim.kernel.state import Snapshot


def world_of(tape: Tape) -> World | None:
    """The registered world that the tape was recorded from, if it is installed."""
    match tape.meta.get("world"):
        case {"name": str(name)}:
            try:
                return find_world(name)
            except UnknownWorldError:
                return None
    return None


def ensure_fields(snapshot: Snapshot, names: list[str]) -> None:
    """Raise UsageError for a field that there is not, with those that may be meant."""
    for name in names:
        if name in list(snapshot):
            continue
        columns = [field for field in snapshot if field.startswith(f"{name}.")]
        if columns:
            raise UsageError(f"{name!r} is a table: did you mean {', '.join(columns)}?")
        raise UsageError(f"no field {name!r}; the fields are {', '.join(snapshot)}")


def shown_slots(layout: Layout) -> list[Slot]:
    """All fields but blobs, a scenario's own and those without values: what is used if no field is named."""
    blobs = {entry.name for entry in layout.schema.entries if isinstance(entry, Blob)}
    return [
        slot
        for name, slot in layout.slots.items()
        if not name.startswith(("#", SCENARIO_PREFIX))
        and name not in blobs
        and slot.size_bytes // max(slot.dtype.itemsize, 1)
    ]
