"""The method of a timeline that shows it in a cell of a notebook."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Protocol, cast

from recorder.location.tape_location import tape_location
from replayer.playback.make_simulation import Factory
from replayer.tape.tape import Tape

if TYPE_CHECKING:
    from types import ModuleType

_PACKAGES = ("starlette", "uvicorn", "websockets")  # Of the extra.


class ServedPage(Protocol):
    """The page in a cell, as a notebook shows it. url: its address for a browser of this machine."""

    url: str

    def close(self) -> None:
        """End the server of the page."""

    def _repr_html_(self) -> str: ...


class ShownAsPage:
    """Base of Timeline."""

    tape: Tape
    _world: Factory | None

    def view(
        self,
        other: str | os.PathLike[str] | None = None,
        *,
        sim: str | None = None,
        height_px: int = 680,
        cache_mb: int = 128,
        show: str = "",
    ) -> ServedPage:
        """The page of `replay view` in a cell of a notebook: the last line of a cell shows it.

        It is served at this machine only, by a process of its own, until ``close()`` of what is returned or the end of this
        process. ``url`` is its address for a browser.

        other: a second tape, shown side by side. sim: module:factory of the simulation, where it is not the ``world`` of
        this timeline. height_px: of the frame. cache_mb: megabytes of pictures that are made ahead, for each tape. show:
        the tick to open at, such as ``"400"``, or tick and view as the part after # of a page's address.

        Raises ImportError without the packages of the extra ``view``, ValueError for a ``show`` that no page can read, or if the simulation was defined in a cell
        (another process cannot import it: put it into a module), RuntimeError if the server does not start.
        """
        other_path = None if other is None else tape_location(other)
        page = _module().open_page(
            self.tape.path, self._world, other_path, sim, height_px=height_px, cache_mb=cache_mb, show=show
        )
        return cast(ServedPage, page)


def _module() -> ModuleType:
    """What serves, which needs the packages of an extra, and is above this package."""
    try:
        return importlib.import_module("replayer.view.cell.notebook_page")
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _PACKAGES:
            raise
        from sim.extras import missing_package  # noqa: PLC0415 - rarely needed

        raise ImportError(missing_package("run.view()", package, "view")) from None
