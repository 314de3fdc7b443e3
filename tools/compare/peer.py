"""The interface of a compared format: write a run, read it back, locate the end of a tick in the file."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import attrs
from history import Frame, Row, Saved


@attrs.define
class Reading:
    """The data that a reader returned, up to where it stopped.

    Attributes:
        opened: the file was opened without an error.
        rows: ticks as they were read.
        states: states as they were read, each with its tick.
        reports: problems that the library reported, other than by an exception.
        error: the exception that ended the reading, as text; None if there was none.
    """

    opened: bool = False
    rows: list[Row] = attrs.Factory(list)
    states: list[Saved] = attrs.Factory(list)
    reports: list[str] = attrs.Factory(list)
    error: str | None = None

    @property
    def is_silent(self) -> bool:
        """True if nothing was raised and nothing reported: the caller takes the data as correct."""
        return self.error is None and not self.reports


class Sink(Protocol):
    """A file that is being written."""

    def put(self, frame: Frame) -> None:
        """Record one tick, and before it the state, if the frame has one."""

    def close(self) -> None:
        """Finish the file as the library requires."""


class Peer(ABC):
    """A format, with one way of using its library.

    Attributes:
        library: its distribution, whose version is reported.
        strength: its strengths, for people.
        rescue_how: the alternative in its documentation if the plain way of opening fails after a crash; "" for none.
        takes_damage: it takes part in cuts and flips.
        takes_kills: it takes part in kills.
        thoroughness: the number of cuts and flips: "all", "some" or, if reading takes long, "few".
    """

    library: ClassVar[str]
    strength: ClassVar[str]
    rescue_how: ClassVar[str] = ""
    takes_damage: bool = True
    takes_kills: bool = True
    thoroughness: str = "some"

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def create(self, folder: Path, state_every: int) -> Sink:
        """Begin a new file in folder. state_every: ticks between two states."""

    @abstractmethod
    def find_file(self, folder: Path) -> Path:
        """The file in folder that holds the data."""

    @abstractmethod
    def read(self, folder: Path, reading: Reading, state_ticks: Sequence[int]) -> None:
        """Read all ticks into reading, and the states if state_ticks is not empty.

        Raises any exception of the library.
        """

    def rescue(self, folder: Path, reading: Reading) -> None:
        """Read ticks in the way that rescue_how names. Raises any exception of the library."""
        raise NotImplementedError

    def find_row_ends(self, data: bytes, frames: Sequence[Frame]) -> dict[int, int]:
        """For each tick, the number of bytes of the file without which it is incomplete.

        This default is for formats that store a tick's inputs unchanged: the end of their last copy.
        """
        ends = {frame.tick: data.rfind(frame.inputs) + len(frame.inputs) for frame in frames}
        assert min(ends.values()) >= len(frames[0].inputs), (
            f"{self.name}: expected all inputs in the file, some are missing"
        )
        return ends


def observe(peer: Peer, folder: Path, state_ticks: Sequence[int], *, rescue: bool = False) -> Reading:
    """Read a file of a peer, and collect its exception and its warnings.

    Warnings count as reports, except those about code.
    """
    reading = Reading()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            if rescue:
                peer.rescue(folder, reading)
            else:
                peer.read(folder, reading, state_ticks)
        except Exception as error:  # noqa: BLE001 - the boundary: a reader of damaged data may raise anything
            reading.error = f"{type(error).__name__}: {error}".replace(f"{folder}/", "")[:200]
    reading.reports += [str(warning.message)[:200] for warning in caught]
    return reading
