"""The messages between the server and the process of a tape. Both run the same code, on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from replayer.view.states.frame_encoding import EncodedTick


@attrs.frozen
class ViewSelection:
    """What is looked at, at any tick.

    Attributes:
        layers: names of the layers.
        exact: keep the exact values of these layers, too, for differences.
        curves: fields, or paths of values in recorded objects, whose figure is taken at each tick on the way.
    """

    layers: tuple[str, ...] = ()
    exact: bool = False
    curves: tuple[str, ...] = ()


# --- to the process


@attrs.frozen
class SeekJob:
    """Go to a tick; replaces the page's earlier wishes. is_drag: show the keyframe before it at once."""

    page: str
    tick: int
    look: ViewSelection
    is_drag: bool = False


@attrs.frozen
class BlockJob:
    """Show these ticks, too: they are played."""

    page: str
    ticks: tuple[int, ...]
    look: ViewSelection


@attrs.frozen
class DetailJob:
    """Describe a tick. ticket: the number of the question. query: see tick_details."""

    page: str
    ticket: int
    tick: int
    query: Mapping[str, Any]


@attrs.frozen
class FillJob:
    """Fill the cache around a tick, with at most so many bytes. last: the last tick of the tape, as the server knows it."""

    tick: int
    look: ViewSelection
    budget_bytes: int
    last: int


# --- from the process


@attrs.frozen
class Opened:
    """The facts of the tape, as plain data."""

    facts: dict[str, Any]


@attrs.frozen
class Refused:
    """The tape cannot be shown."""

    why: str


@attrs.frozen
class ShownTick:
    """A tick is there. page: only for that page, a picture on the way; None: for all."""

    tick: int
    encoded: EncodedTick
    look: ViewSelection
    figures: Mapping[str, float]
    page: str | None = None


@attrs.frozen
class Filled:
    """Nothing is left to fill."""


@attrs.frozen
class Described:
    """The answer to a DetailJob; None if a newer question came."""

    ticket: int
    facts: dict[str, Any] | None


@attrs.frozen
class Trouble:
    """A tick cannot be shown. tick: where it went wrong, if that is known."""

    page: str | None
    tick: int | None
    text: str


@attrs.frozen
class HooksFailed:
    """The user's own methods that could not be shown: by name the first tick, and the reason."""

    problems: Mapping[str, tuple[int, str]]


@attrs.frozen
class Indexed:
    """What was read of the tape as a whole, in part: see tape_marks."""

    facts: dict[str, Any]
