"""The map that ``replay seek --picture`` draws with letters."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import RecordingError
from recorder.exit_codes import UsageError
from recorder.factory_spec import Factory
from recorder.text import counted
from replayer.desync.object_diff import objects_in
from replayer.export.viewers.object_values import values_of
from replayer.tape.fields import world_of
from replayer.timeline.timeline import Timeline
from replayer.value_text import picture, plain_text
from replayer.view.states.shown_layers import ShownLayers
from sim.kernel.state import Snapshot

Array = npt.NDArray[Any]


@attrs.frozen(eq=False)
class DrawnMap:
    """A map as lines of letters.

    Attributes:
        name: of the --field that is drawn; None if no field was named.
        lines: the picture; without a named field, its title first.
    """

    name: str | None
    lines: list[str]


def draw_named(snapshot: Snapshot, names: Sequence[str]) -> DrawnMap:
    """The first named field, or value in recorded objects, that has two dimensions. Raises UsageError if none has."""
    arrays = {name: _array(snapshot, name) for name in names}
    for name, array in arrays.items():
        if array is not None and array.ndim == 2 and array.size:
            return DrawnMap(name, picture(array, _width()))
    shapes = ", ".join(
        f"{name} is not such a field" if array is None else f"{name} has {counted(array.ndim, 'dimension')}"
        for name, array in arrays.items()
    )
    raise UsageError(f"--picture needs a field of two dimensions: {plain_text(shapes)}")


def _array(snapshot: Snapshot, name: str) -> Array | None:
    """A field, or the array at a path in recorded objects; None for anything else."""
    if name in list(snapshot):
        return snapshot[name]
    tree = objects_in(snapshot)
    found = tree.find(name) if tree is not None else None
    value = dict(values_of(tree, [name])).get(found[0]) if tree is not None and found is not None else None
    return value if isinstance(value, np.ndarray) else None


def draw_layer(run: Timeline, factory: Factory | None, tick: int, snapshot: Snapshot) -> DrawnMap:
    """The first map that the page shows: the world's, of the simulation's layers(), or of the state's own fields.

    Raises UsageError if there is none.
    """
    world = world_of(run.tape)
    if factory is None and world is not None and world.picture is not None:
        return DrawnMap(None, picture(world.picture(snapshot), _width()))
    try:
        shown = ShownLayers(run, factory, {tick: snapshot}, can_simulate=True)
    except (RecordingError, LookupError, ValueError):  # There is no simulation here whose layers() could be asked.
        shown = ShownLayers(run, factory, {tick: snapshot}, can_simulate=False)
    for name, layer in shown.layers(tick, snapshot).items():
        return DrawnMap(None, [f"  layer {plain_text(name)}:", *picture(np.asarray(layer), _width())])
    raise UsageError(
        "--picture needs a field of two dimensions, and this state has none that is a map: name one with --field"
    )


def _width() -> int:
    return shutil.get_terminal_size().columns
