"""Fields of the states on a tape: those that exist and those shown by default. Also the tape's registered world."""

from __future__ import annotations

from recorder.exit_codes import UsageError
from replayer.tape.tape import Tape
from sim.kernel.registry import UnknownWorldError, World, find_world
from sim.kernel.schema import Blob, Layout, Slot
from sim.kernel.simulation import SCENARIO_PREFIX
from sim.kernel.state import Snapshot
from sim.near_names import did_you_mean

SIDE_CELLS_MIN = 2  # Of both sides of a map: less is a list of numbers.
# That few columns of so many rows are places or a list, in either order of axes.
LIST_COLUMNS_MAX, LIST_ROWS_MIN = 3, 16
GRAPH_PREFIX, GRAPH_MARK = "graph.", "graph.groups"  # As sim.adapters.capture.graph names its tables and its blob.
CAPTURE_FIELDS = frozenset(
    {"steps", "kinds"}
)  # What the capture itself keeps beside the attributes, see sim.adapters.capture.pack.


def world_of(tape: Tape) -> World | None:
    """The registered world that the tape was recorded from; None if there is none or it is not installed."""
    match tape.meta.get("world"):
        case {"name": str(name)}:
            try:
                return find_world(name)
            except UnknownWorldError:
                return None
    return None


def ensure_fields(snapshot: Snapshot, names: list[str]) -> None:
    """Raise UsageError for an unknown field; the message lists the fields to choose from."""
    for name in names:
        if name in list(snapshot):
            continue
        columns = [field for field in snapshot if field.startswith(f"{name}.")]
        if columns:
            raise UsageError(f"{name!r} is a table: did you mean {', '.join(columns)}?")
        raise UsageError(f"no field {name!r}; the fields are {', '.join(snapshot)}{did_you_mean(name, snapshot)}")


def shown_slots(layout: Layout) -> list[Slot]:
    """The fields used if none is named: all but blobs, those of a scenario and those without values.

    The tables that hold the objects inside captured containers are left out as well: they come and go with the objects,
    and their numbers refer to each other. So are the fields that the capture keeps for itself.
    """
    is_captured = GRAPH_MARK in layout.slots
    internal = (SCENARIO_PREFIX, GRAPH_PREFIX) if is_captured else (SCENARIO_PREFIX,)
    own = CAPTURE_FIELDS if is_captured else frozenset()
    blobs = {entry.name for entry in layout.schema.entries if isinstance(entry, Blob)}
    return [
        slot
        for name, slot in layout.slots.items()
        if not name.startswith(("#", *internal))
        and name not in own
        and name not in blobs
        and slot.size_bytes // max(slot.dtype.itemsize, 1)
    ]


def has_sides_of_map(shape: tuple[int, ...]) -> bool:
    """Return True if the last two axes of an array are the sides of a map; (200, 2) are places, or a list."""
    less, more = sorted(shape[-2:])
    return less >= SIDE_CELLS_MIN and not (less <= LIST_COLUMNS_MAX and more >= LIST_ROWS_MIN)
