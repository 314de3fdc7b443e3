"""What a state shows: maps, points over them, a picture. Chosen by what the state holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from recorder.exception_text import raised_text
from replayer.desync.object_diff import MALFORMED, objects_in
from replayer.export.viewers.object_values import values_of
from replayer.playback.make_simulation import Factory
from replayer.tape.fields import shown_slots, world_of
from replayer.timeline.timeline import Timeline
from sim.kernel.state import Snapshot

Array = npt.NDArray[Any]

SIDE_CELLS_MIN = 2  # Of both sides of a map: less is a list of numbers.
PLANES_MAX = 8  # Of an array with more than two dimensions.
LAYERS_MAX = 64
PICTURE = "picture"  # The layer of an environment's render().


class ShownLayers:
    """The maps and points of the states of one tape.

    Attributes:
        names: of the layers, in order; a frame names a layer by its number here.
        point_kinds: names of the kinds of points.
        has_picture: True if the environment draws itself; the layer PICTURE then comes first.
        picture_problem: what its render() raised last; None if it did not.
    """

    def __init__(self, run: Timeline, factory: Factory | None, first: Snapshot, *, can_simulate: bool) -> None:
        """first: the state at the first tick. can_simulate: False if only the states of keyframes are available."""
        # A world draws maps of its own states only: of a simulation that was made from the tape's META.
        self.world = world_of(run.tape) if factory is None and can_simulate else None
        self.config: Mapping[str, Any] = run.tape.meta["world"]["config"] if self.world is not None else {}
        self._object_paths = [] if self.world is not None else _map_paths(first)
        self.picture_problem: str | None = None
        self.has_picture = can_simulate and self.world is None and _renders(run)
        self.names = [*([PICTURE] if self.has_picture else []), *self.layers(first)][:LAYERS_MAX]
        self.point_kinds = list(self.points(first)) if self.names else []

    def layers(self, snapshot: Snapshot) -> Mapping[str, Array]:
        """The maps of a state by name, each (height, width)."""
        if self.world is not None and self.world.layers is not None:
            return self.world.layers(self.config, snapshot)
        found: dict[str, Array] = {}
        for slot in shown_slots(snapshot.layout):
            if slot.owner is None and len(slot.shape) >= 2:
                found |= _planes(slot.name, snapshot[slot.name])
        if self._object_paths and (tree := objects_in(snapshot)) is not None:
            try:
                values = dict(values_of(tree, self._object_paths))
            except MALFORMED:
                return found  # objects_in reads the same values, and notes what is malformed.
            for path in self._object_paths:
                value = values.get(path)
                if isinstance(value, np.ndarray):
                    found |= _planes(path, value)
        return found

    def points(self, snapshot: Snapshot) -> Mapping[str, Array]:
        """The positions of things on the maps, (count, 2), by kind."""
        if self.world is not None:
            return self.world.points(self.config, snapshot) if self.world.points is not None else {}
        names = set(snapshot)
        tables = [name.removesuffix(".x") for name in snapshot if name.endswith(".x")]
        found = {}
        for table in tables:
            if f"{table}.y" in names and snapshot.layout.slots[f"{table}.x"].owner == table:
                columns = snapshot[f"{table}.x"], snapshot[f"{table}.y"]
                if all(column.ndim == 1 and column.dtype.kind in "biuf" for column in columns):
                    is_cell = columns[0].dtype.kind != "f"
                    found[table] = np.stack(columns, 1).astype(np.float64) + (0.5 if is_cell else 0.0)
        return found

    def picture(self, run: Timeline) -> Array | None:
        """The environment's own picture at the timeline's tick, (height, width, 3) uint8; None if it draws none there.

        What it raises is kept in picture_problem: many environments draw nothing before their first reset.
        """
        self.picture_problem = None
        try:
            drawn = run.subject.render()
        except Exception as error:  # noqa: BLE001 - the environment is the user's
            self.picture_problem = raised_text("render", error)
            return None
        is_picture = isinstance(drawn, np.ndarray) and drawn.ndim == 3 and drawn.shape[2] == 3
        return drawn if is_picture and drawn.dtype == np.uint8 else None


def _planes(name: str, array: Array) -> dict[str, Array]:
    """The last two axes of an array as maps; several if it has more axes."""
    if array.ndim < 2 or array.dtype.kind not in "biuf" or min(array.shape[-2:]) < SIDE_CELLS_MIN or not array.size:
        return {}
    planes = array.reshape(-1, *array.shape[-2:])
    if len(planes) == 1:
        return {name: planes[0]}
    return {f"{name}[{index}]": plane for index, plane in enumerate(planes[:PLANES_MAX])}


def _map_paths(snapshot: Snapshot) -> list[str]:
    """The paths of arrays of two dimensions inside recorded objects, except those that are fields themselves."""
    tree = objects_in(snapshot)
    if tree is None:
        return []
    shown = {slot.name for slot in shown_slots(snapshot.layout)}
    own = {name.removeprefix(tree.prefix) for name in tree.fields if name in shown}
    try:
        return [path for path, value in values_of(tree, []) if path not in own and _is_map(value)][:LAYERS_MAX]
    except MALFORMED:
        return []


def _is_map(value: object) -> bool:
    return isinstance(value, np.ndarray) and bool(_planes("", value))


def _renders(run: Timeline) -> bool:
    """Return True for an environment that was made to draw pictures."""
    match run.tape.meta.get("adapter"):
        case {"name": "gymnasium" | "pettingzoo"}:
            return getattr(run.subject, "render_mode", None) == "rgb_array"
    return False
