"""The initial layout of the Rerun viewer for a tape: maps with their points, curves, logs."""

from __future__ import annotations

from collections.abc import Sequence

import rerun.blueprint as rrb

MAPS_MAX = 9  # Fits in one window; the others can be added in the viewer.


def make_blueprint(prefix: str, layers: Sequence[str]) -> rrb.Blueprint:
    """Make the layout. layers: the entities that are maps."""
    root = f"/{prefix.strip('/')}" if prefix.strip("/") else ""
    maps = [
        rrb.Spatial2DView(origin=f"/{layer}", contents=[f"/{layer}", f"{root}/points/**"], name=_name(layer))
        for layer in layers[:MAPS_MAX]
    ]
    logs = [
        rrb.TextLogView(origin=f"{root}/{name}", name=name.rpartition("/")[2]) for name in ("events", "inputs", "tape")
    ]
    curves = [
        rrb.TimeSeriesView(origin=f"{root}/telemetry", name="telemetry"),
        rrb.TimeSeriesView(origin=f"{root}/state", name="state"),
    ]
    left = [rrb.Grid(*maps, name="maps")] if maps else []
    views = rrb.Horizontal(*left, rrb.Vertical(rrb.Tabs(*curves), rrb.Tabs(*logs)))
    return rrb.Blueprint(views, rrb.TimePanel(timeline="tick"), collapse_panels=True)


def _name(layer: str) -> str:
    return layer.rpartition("/")[2].replace("\\", "")
