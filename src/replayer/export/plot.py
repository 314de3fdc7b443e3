"""Plot a recording with matplotlib as PNG, SVG or PDF: curves of its telemetry, maps of a tick."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure  # Not pyplot, which keeps figures and may want a display.
from matplotlib.ticker import MaxNLocator

from recorder.storage.atomic_file import write_file
from replayer.desync.object_diff import shown_fields
from replayer.diagnose.compare.spread import DifferenceSpread

Columns = Mapping[str, npt.NDArray[Any]]

CURVES = {  # Plots by name: a title, and the panels: label of the y axis and prefixes of the columns.
    "populations": ("Populations", (("plants", ("plants.",)), ("heads", ("heads.",)))),
    "energies": ("Energy", (("plants", ("plants_energy.",)), ("swarms", ("swarms_energy.",)))),
    "deaths": ("Deaths by cause", (("plants per tick", ("deaths.",)), ("heads per tick", ("heads_lost.",)))),
    "defences": ("Defences", (("active", ("active.",)), ("energy per tick", ("defence_cost.",)))),
}
SUMS = ("deaths.", "heads_lost.", "births.", "heads_born.", "defence_cost.")  # Counted since tick 0.
PANELS_MAX = 60  # Of columns that no plot is known for. A page of more takes long, and no PNG has more than 227.
POINTS_MAX = 2000  # More than a picture has columns of pixels.
RATE_BINS = 200  # Rates are means over this many parts of the run.


def draw_curves(columns: Columns, what: Sequence[str] | None, title: str) -> Figure:
    """Curves over ticks. columns: as Tape.telemetry returns them. what: names from CURVES; None for all that there are.

    Columns of other simulations than the meadow have a panel for each name, up to its first dot: of the first PANELS_MAX;
    figures_left_out has the others.
    Raises LookupError if no column belongs to these curves.
    """
    panels = _known_panels(columns, what)
    if not panels and what is None:
        panels = [(group, "", (group, f"{group}.")) for group in _figures(columns)[:PANELS_MAX]]
    if not panels:
        raise LookupError(f"the telemetry has no columns for {', '.join(what or CURVES)}")
    figure = Figure(figsize=(9.0, 2.4 * len(panels) + 0.6), layout="constrained")
    figure.suptitle(title)
    shared: Axes | None = None
    for place, (heading, label, prefixes) in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, place + 1, sharex=shared)
        shared = shared or axes
        axes.set_ylabel(label)
        axes.set_title(heading, loc="left", fontsize="small")
        _draw_panel(axes, columns, prefixes, label)
    if shared is not None:
        figure.axes[-1].set_xlabel("tick")
    return figure


def figures_left_out(columns: Columns, what: Sequence[str] | None) -> list[str]:
    """The figures for which draw_curves has no panel left, by their names up to the first dot. Arguments as there."""
    return [] if what is not None or _known_panels(columns, None) else _figures(columns)[PANELS_MAX:]


def _known_panels(columns: Columns, what: Sequence[str] | None) -> list[tuple[str, str, tuple[str, ...]]]:
    panels = [
        (heading, label, prefixes)
        for name in what or CURVES
        for heading, parts in [CURVES[name]]
        for label, prefixes in parts
    ]
    return [panel for panel in panels if _names(columns, panel[2])]


def _figures(columns: Columns) -> list[str]:
    return list(dict.fromkeys(name.partition(".")[0] for name in columns if name != "tick"))


def _names(columns: Columns, prefixes: Sequence[str]) -> list[str]:
    dotted = tuple(prefix for prefix in prefixes if prefix.endswith("."))
    return [name for name in columns if name.startswith(dotted) or name in prefixes]


def _draw_panel(axes: Axes, columns: Columns, prefixes: Sequence[str], label: str) -> None:
    ticks = np.asarray(columns["tick"])
    for name in _names(columns, prefixes):
        values = np.asarray(columns[name], dtype=np.float64)
        curve = (name.partition(".")[2] or name).replace(".", ", ")
        if name.startswith(SUMS):
            x, y = _rates(ticks, values)
            axes.set_ylabel(f"{label}{_mean_text(ticks)}")
            if not y.any():
                continue  # A cause without deaths would only fill the legend.
        else:
            stride = max(1, len(ticks) // POINTS_MAX)
            x, y = ticks[::stride], values[::stride]
        axes.plot(x, y, label=curve, linewidth=1.0)
    if not any((np.asarray(line.get_ydata()) < 0).any() for line in axes.lines):
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="x-small")  # Next to the curves, not on them.
    else:
        axes.text(0.5, 0.5, "none in this run", transform=axes.transAxes, ha="center", va="center", color="grey")
        axes.update_datalim([(ticks[0], 0), (ticks[-1], 0)])
        axes.autoscale_view(scaley=False)
        axes.set_yticks([])


def _rates(ticks: npt.NDArray[Any], sums: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Mean rates per tick between evenly spaced rows of a running sum."""
    rows = _rate_rows(ticks)
    x, total = ticks[rows], sums[rows]
    if len(x) < 2:
        return x, np.zeros(len(x))
    return (x[1:] + x[:-1]) / 2, np.diff(total) / np.diff(x)


def _rate_rows(ticks: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.unique(np.linspace(0, len(ticks) - 1, min(len(ticks), RATE_BINS + 1)).astype(np.int64))


def _mean_text(ticks: npt.NDArray[Any]) -> str:
    """Over how many ticks each rate is a mean, as a second line of a label; "" if it is the figure of one tick."""
    spans = np.diff(ticks[_rate_rows(ticks)])
    if not spans.size or spans.max() == 1:
        return ""
    least, most = int(spans.min()), int(spans.max())
    return f"\n(means of {most:,} ticks)" if least == most else f"\n(means of {least:,} to {most:,} ticks)"


def draw_layers(layers: Mapping[str, npt.NDArray[Any]], title: str) -> Figure:
    """Maps, one per layer, each (height, width) with its own colour bar, or a picture, (height, width, 3 or 4) uint8.

    Raises LookupError if there are none.
    """
    if not layers:
        raise LookupError(
            "the state has no layers to draw as maps: a method layers() of the simulation returns some (docs/view.md)"
        )
    column_count = min(3, len(layers))
    row_count = -(-len(layers) // column_count)
    tall = min(3.2, 0.8 + 3.2 * max(layer.shape[0] / layer.shape[1] for layer in layers.values()))
    figure = Figure(figsize=(4.0 * column_count, tall * row_count + 0.5), layout="constrained")
    figure.suptitle(title)
    for place, (name, layer) in enumerate(layers.items()):
        axes = figure.add_subplot(row_count, column_count, place + 1)
        axes.set_title(name, fontsize="small")
        axes.tick_params(labelsize="x-small")
        _draw_map(axes, layer)
    return figure


def _draw_map(axes: Axes, layer: npt.NDArray[Any]) -> None:
    if layer.ndim == 3:
        axes.imshow(layer, interpolation="nearest")
        return
    lowest = float(np.min(layer))
    limit = float(np.abs(layer).max()) or 1.0
    signed = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    image = axes.imshow(layer, **(signed if lowest < 0 else {"cmap": "viridis"}), interpolation="nearest")
    beside = axes.inset_axes((1.04, 0.0, 0.05, 1.0))  # As high as the map, whatever its shape.
    is_whole = layer.dtype.kind in "biu" or bool((layer == np.rint(layer)).all())
    ticks = MaxNLocator(integer=True) if is_whole else None  # No cell has the colour of half a tree.
    axes.figure.colorbar(image, cax=beside, ticks=ticks)


def draw_difference(spread: DifferenceSpread, title: str) -> Figure:
    """Number of rows of each field that differ at each tick; fields in the order of their first difference."""
    fields, ticks = spread.counts.shape
    figure = Figure(figsize=(9.0, 1.6 + 0.28 * fields), layout="constrained")
    figure.suptitle(f"{title}: {spread.trend} from tick {spread.first_tick:,}")
    axes = figure.add_subplot()
    shown = np.ma.masked_equal(spread.counts, 0)
    extent = (spread.first_tick - 0.5, spread.first_tick + ticks - 0.5, fields - 0.5, -0.5)
    image = axes.imshow(
        shown,
        aspect="auto",
        interpolation="nearest",
        norm=LogNorm(1, max(10, int(spread.counts.max(initial=0)))),
        cmap="viridis",
        extent=extent,
    )
    axes.set_yticks(range(fields), [shown_fields([name])[0] for name in spread.fields], fontsize="x-small")
    axes.set_xlabel("tick")
    figure.colorbar(image, ax=axes, label="rows that differ")
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write the picture atomically, in the format of the path's suffix. An existing file is replaced.

    Raises ValueError for a suffix that is not a picture format, OSError.
    """
    picture = io.BytesIO()  # On a full disk, matplotlib itself would not raise an OSError.
    figure.savefig(picture, dpi=120, format=Path(path).suffix.removeprefix("."))
    write_file(path, picture.getvalue(), existing="replace")
