"""The map that ``replay seek --picture`` draws with letters."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
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
from replayer.value_text import colour_picture, picture, plain_text
from replayer.view.states.shown_layers import ShownLayers, is_picture
from sim.kernel.state import Snapshot

Array = npt.NDArray[Any]


@attrs.frozen(eq=False)
class DrawnMap:
    """A map as lines of letters.

    Attributes:
        name: of the --field that is drawn; None if no field was named.
        title: lines before the picture.
        lines: the picture, made here of numbers only: its escapes for colours are to reach the terminal.
    """

    name: str | None
    title: list[str]
    lines: list[str]


def draw_named(snapshot: Snapshot, names: Sequence[str]) -> DrawnMap:
    """The first named field, or value in recorded objects, that is a map or a picture. Raises UsageError if none is."""
    arrays = {name: _array(snapshot, name) for name in names}
    for name, array in arrays.items():
        if array is not None and array.size and (is_picture(array) or _is_numbers(array)):
            return _drawn(name, [], array)
    shapes = ", ".join(
        f"{name} is not such a field"
        if array is None
        else f"{name} has {counted(array.ndim, 'dimension')}"
        + (f" of {array.dtype}, shape {array.shape}" if array.ndim > 1 else "")
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
        return _drawn(None, [], world.picture(snapshot))
    for name, layer in shown_layers(run, factory, tick, snapshot)[0].items():
        return _drawn(None, [f"  layer {plain_text(name)}:"], np.asarray(layer))
    raise UsageError(
        "--picture needs a field of two dimensions, and this state has none that is a map: name one with --field"
    )


def shown_layers(
    run: Timeline, factory: Factory | None, tick: int, snapshot: Snapshot
) -> tuple[Mapping[str, Array], list[str]]:
    """The maps of a state that the page shows, by name; and why the simulation's layers() gave none, if it failed."""
    try:
        shown = ShownLayers(run, factory, {tick: snapshot}, can_simulate=True)
    except (RecordingError, LookupError, ValueError):  # There is no simulation here whose layers() could be asked.
        shown = ShownLayers(run, factory, {tick: snapshot}, can_simulate=False)
    layers = shown.layers(tick, snapshot)
    return layers, [why for name, (_, why) in shown.problems.items() if name == "layers"]


def _is_numbers(array: Array) -> bool:
    return array.ndim == 2 and array.dtype.kind in "biuf"


def _drawn(name: str | None, title: list[str], array: Array) -> DrawnMap:
    """Draw a map by letters. A picture has its colours on a terminal, and elsewhere its brightness, which is said."""
    if not is_picture(array):
        return DrawnMap(name, title, picture(array, _width()))
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        return DrawnMap(name, title, colour_picture(array, _width()))
    note = "  colours, drawn by their brightness; a terminal shows them, and so does replay view:"
    return DrawnMap(name, [*title, note], picture(array, _width()))


def _width() -> int:
    return shutil.get_terminal_size().columns
