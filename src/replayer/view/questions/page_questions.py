"""The questions that a page may ask about a whole tape, as it sends them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from recorder.runs.input_source import parse_plain_inputs

TEXT_MAX = 1000  # Characters of a condition or a name.
ROW_MAX = 8  # Axes.

Way = Literal["next", "before", "all"]


@attrs.frozen
class FindQuestion:
    """At which ticks from first to last does a condition hold: all of them, the next one after tick, the one before?"""

    condition: str
    way: Way
    tick: int
    first: int
    last: int


@attrs.frozen
class WhoQuestion:
    """Which step up to a tick changed a value last? row, entity: see watched_value."""

    value: str
    row: tuple[int, ...]
    entity: int | None
    tick: int


@attrs.frozen
class BranchQuestion:
    """Record another way from a tick on, up to the tick until. inputs: by tick, in place of the recorded ones."""

    at: int
    until: int
    inputs: Mapping[int, Any]
    target: Path


Question = FindQuestion | WhoQuestion | BranchQuestion


def parse_question(message: Mapping[str, Any], first: int, last: int, target: Path | None) -> Question:
    """The question of a page. first, last: the ticks that it may know of. target: of a branch; None if none may be written.

    Raises ValueError, in one line, if it is none.
    """
    match message:
        case {"what": "find", "condition": str(condition), "way": "next" | "before" | "all" as way, "tick": int(tick)}:
            return FindQuestion(_text(condition), way, _tick(tick, first, last), first, last)
        case {"what": "who", "value": str(value), "row": [*row], "entity": entity, "tick": int(tick)} if _are_whole(
            row
        ) and (entity is None or _are_whole([entity])):
            return WhoQuestion(_text(value), tuple(row[:ROW_MAX]), entity, _tick(tick, first, last))
        case {"what": "branch", "at": int(at), "until": int(until), "inputs": str(inputs)}:
            if target is None:
                raise ValueError("no branch can be recorded from this page: use the command replay branch")
            return BranchQuestion(
                _tick(at, first, last), _tick(until, first, last), parse_plain_inputs(inputs, "inputs"), target
            )
    raise ValueError("this is no question that can be answered")


def _text(text: str) -> str:
    if not text.strip() or len(text) > TEXT_MAX:
        raise ValueError(f"expected 1 to {TEXT_MAX:,} characters")
    return text.strip()


def _tick(tick: int, first: int, last: int) -> int:
    if isinstance(tick, bool) or not first <= tick <= last:
        raise ValueError(f"there is no tick {tick:,}: the tape has ticks {first:,} to {last:,}")
    return tick


def _are_whole(numbers: list[Any]) -> bool:
    return all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
