"""What a state shows: maps, points over them, a picture. Chosen by what the state holds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from replayer.desync.object_diff import MALFORMED, objects_in
from replayer.export.viewers.object_values import values_of
from replayer.export.viewers.user_hooks import HookProblems, UserHooks
from replayer.playback.make_simulation import Factory
from replayer.tape.fields import SIDE_CELLS_MIN, has_sides_of_map, shown_slots, world_of
from replayer.timeline.timeline import Timeline
from sim.kernel.state import Snapshot

Array = npt.NDArray[Any]

PLANES_MAX = 8  # Of an array with more than two dimensions.
COLOURS = (3, 4)  # The last axis of a picture: red, green, blue, and how opaque it is.
LAYERS_MAX = 64
FEWER = 16  # A map with this many times fewer cells than the largest one is rather a small table.
PICTURE = "picture"  # The layer of render().
NO_MAP = "points(): points are shown over maps, and there is none: give layers(), too"


class ShownLayers:
    """The maps and points of the states of one tape.

    Attributes:
        names: of the layers, in order; a frame names a layer by its number here.
        point_kinds: names of the kinds of points.
        has_picture: True if the simulation draws itself; the layer PICTURE then comes first.
        own_methods: the user's own methods that the simulation has.
        problems: of these, see UserHooks.
    """

    def __init__(
        self, run: Timeline, factory: Factory | None, samples: Mapping[int, Snapshot], *, can_simulate: bool
    ) -> None:
        """samples: states of the first ticks, from which the names are taken: many a simulation begins at its first step.

        can_simulate: False if only the states of keyframes are available.
        """
        first = next(iter(samples.values()))
        # A world draws maps of its own states only: of a simulation that was made from the tape's META.
        self.world = world_of(run.tape) if factory is None and can_simulate else None
        self.config: Mapping[str, Any] = run.tape.meta["world"]["config"] if self.world is not None else {}
        self._object_paths = [] if self.world is not None else _map_paths(first)
        has_hooks = can_simulate and not self._draws_itself()
        self._hooks = UserHooks(run.another_simulation(), run.first_tick) if has_hooks else None
        self.own_methods: tuple[str, ...] = self._hooks.names if self._hooks is not None else ()
        self._own_layers: set[str] = set()
        self.has_picture = "render" in self.own_methods
        if self._hooks is not None:
            for tick, snapshot in samples.items():
                self._own_layers |= self._hooks.layers(tick, snapshot).keys()
        layers = self._ordered([self.layers(tick, snapshot) for tick, snapshot in samples.items()])
        self.names = [*([PICTURE] if self.has_picture else []), *layers][:LAYERS_MAX]
        kinds = dict.fromkeys(kind for tick, snapshot in samples.items() for kind in self.points(tick, snapshot))
        if kinds and not layers and self._hooks is not None and "points" in self.own_methods:
            self.problems.setdefault("points", (next(iter(samples)), NO_MAP))
        self.point_kinds = list(kinds) if layers else []

    def _ordered(self, shown: Sequence[Mapping[str, Array]]) -> list[str]:
        """The names of the maps of some ticks: arrays of the state that have few cells come last, the page opens with others.

        What the world or the user's layers() return keeps its order.
        """
        cells: dict[str, int] = {}
        for arrays in shown:
            for name, array in arrays.items():
                cells[name] = max(cells.get(name, 0), math.prod(array.shape[:2]))
        if self._draws_itself():
            return list(cells)
        largest = max(cells.values(), default=0)
        return sorted(cells, key=lambda name: name not in self._own_layers and cells[name] * FEWER < largest)

    @property
    def problems(self) -> HookProblems:
        """What could not be shown of the user's methods."""
        return self._hooks.problems if self._hooks is not None else {}

    @property
    def picture_problem(self) -> str | None:
        """The reason why the last picture could not be drawn; None if it was, or there is none."""
        return self._hooks.picture_problem if self._hooks is not None else None

    def _draws_itself(self) -> bool:
        return self.world is not None and self.world.layers is not None

    def layers(self, tick: int, snapshot: Snapshot, wanted: Collection[str] | None = None) -> Mapping[str, Array]:
        """The maps of a state by name, each (height, width), and pictures, (height, width, 3 or 4) uint8.

        wanted: only these; None for all.
        """
        world = self.world
        if world is not None and world.layers is not None:
            if world.layer is None or wanted is None:
                return world.layers(self.config, snapshot)
            return {name: world.layer(self.config, snapshot, name) for name in wanted if name in self.names}
        found: dict[str, Array] = {}
        if self._hooks is not None and (wanted is None or not self._own_layers.isdisjoint(wanted)):
            found |= self._hooks.layers(tick, snapshot)
        return {**found, **{name: plane for name, plane in self._stored(snapshot, wanted) if name not in found}}

    def _stored(self, snapshot: Snapshot, wanted: Collection[str] | None) -> Iterator[tuple[str, Array]]:
        """The arrays of the state that are maps."""
        for slot in shown_slots(snapshot.layout):
            if slot.owner is None and len(slot.shape) >= 2:
                yield from _planes(slot.name, snapshot[slot.name]).items()
        if not self._object_paths or (wanted is not None and not _are_among(self._object_paths, wanted)):
            return
        tree = objects_in(snapshot)
        try:
            values = dict(values_of(tree, self._object_paths)) if tree is not None else {}
        except MALFORMED:
            return  # objects_in reads the same values, and notes what is malformed.
        for path in self._object_paths:
            value = values.get(path)
            if isinstance(value, np.ndarray):
                yield from _planes(path, value).items()

    def points(self, tick: int, snapshot: Snapshot) -> Mapping[str, Array]:
        """The positions of things on the maps by kind, (count, 2), or (count, 3) with their sizes."""
        if self.world is not None and self.world.points is not None:
            return self.world.points(self.config, snapshot)
        found = dict(self._hooks.points(tick, snapshot)) if self._hooks is not None else {}
        names = set(snapshot)
        tables = [name.removesuffix(".x") for name in snapshot if name.endswith(".x")]
        for table in tables if not self._draws_itself() else ():
            if table in found:
                continue
            if f"{table}.y" in names and snapshot.layout.slots[f"{table}.x"].owner == table:
                columns = snapshot[f"{table}.x"], snapshot[f"{table}.y"]
                if all(column.ndim == 1 and column.dtype.kind in "biuf" for column in columns):
                    is_cell = columns[0].dtype.kind != "f"
                    found[table] = np.stack(columns, 1).astype(np.float64) + (0.5 if is_cell else 0.0)
        return found

    def picture(self, tick: int, snapshot: Snapshot) -> Array | None:
        """The simulation's own picture of a state, (height, width, 3) uint8; None if it draws none there."""
        return self._hooks.picture(tick, snapshot) if self._hooks is not None else None


def _are_among(paths: Collection[str], wanted: Collection[str]) -> bool:
    return any(name == path or name.startswith(f"{path}[") for name in wanted for path in paths)


def is_picture(array: Array) -> bool:
    """Return True for (height, width, 3 or 4) uint8: colours, as environments return what they draw."""
    return array.ndim == 3 and array.dtype == np.uint8 and array.shape[2] in COLOURS


def _planes(name: str, array: Array) -> dict[str, Array]:
    """The last two axes of an array as maps; several if it has more axes. A picture stays whole."""
    if is_picture(array):
        return {name: array} if min(array.shape[:2]) >= SIDE_CELLS_MIN else {}
    if array.ndim < 2 or array.dtype.kind not in "biuf" or not array.size or not has_sides_of_map(array.shape):
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
