"""Show a recorder in a notebook; the HTML modules are imported on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recorder.statistics import RecorderStatistics


class NotebookMixin:
    """The notebook view of a Recorder; the attributes below are the Recorder's."""

    path: Any
    simulation: Any
    meta: Mapping[str, Any]
    statistics: Callable[[], RecorderStatistics]
    _closed: bool

    def _repr_html_(self) -> str:
        from recorder.notebook.html import recorder_html  # noqa: PLC0415 - only notebooks need it

        return recorder_html(self.path, self.meta, self.statistics(), self.simulation.state.layout, closed=self._closed)
