"""Self-contained HTML for notebooks, without scripts, and the view of a recorder.

Invariant: every text goes through escape(). Texts of a tape or a simulation are untrusted.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from recorder.statistics import RecorderStatistics
from recorder.text import bytes_text, counted
from sim.kernel.schema import COUNTS_FIELD, Blob, Layout

DROPS_SHOWN = 5
FIELDS_MAX = 200  # Rows of a table; more are not read.
TEXT_CHARS_MAX = 300  # Characters of one value.
STRIP_WIDTH, STRIP_HEIGHT = 640, 30

GREEN, AMBER, RED = "#2e7d32", "#b26a00", "#c62828"

_CELL = "padding:0 9px 0 0;text-align:left;border:0"


def escape(text: object) -> str:
    """Escape text for HTML and for attributes in quotes; shorten it and blank out unprintable characters."""
    shown = str(text)
    if len(shown) > TEXT_CHARS_MAX:
        shown = f"{shown[:TEXT_CHARS_MAX]}…"
    return html.escape("".join(letter if letter.isprintable() else " " for letter in shown))


@attrs.frozen
class Badge:
    """A coloured label.

    Attributes:
        text: the label's text. colour: GREEN, AMBER or RED.
    """

    text: str
    colour: str

    def html(self) -> str:
        """Return the label as HTML."""
        look = f"background:{self.colour};color:#fff;border-radius:3px;padding:0 6px;margin-left:6px"
        return f'<span style="{look}">{escape(self.text)}</span>'


def card(title: str, badge: Badge | None, *parts: str) -> str:
    """Return a heading with a badge, and parts of HTML below it."""
    head = f"<div><b>{escape(title)}</b>{badge.html() if badge else ''}</div>"
    return f'<div style="font-size:13px;line-height:1.5">{head}{"".join(parts)}</div>'


def facts_table(rows: Iterable[tuple[str, object]]) -> str:
    """Return a table of names and values, one pair per row."""
    return _table(
        f'<tr><td style="{_CELL};opacity:.65">{escape(name)}</td><td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in rows
    )


def wide_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with a head; of many rows the first FIELDS_MAX, and the number of the others."""
    shown = rows[:FIELDS_MAX]
    lines = ["".join(f'<th style="{_CELL}">{escape(head)}</th>' for head in heads)]
    lines += ["".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in row) for row in shown]
    if len(rows) > len(shown):
        lines.append(f'<td style="{_CELL}" colspan="{len(heads)}">and {len(rows) - len(shown):,} more</td>')
    return _table(f"<tr>{line}</tr>" for line in lines)


def folded(summary: str, content: str) -> str:
    """Return content that is shown when its summary is clicked."""
    return f'<details style="margin-top:2px"><summary>{escape(summary)}</summary>{content}</details>'


def _table(lines: Iterable[str]) -> str:
    return f'<table style="border:0;border-collapse:collapse;margin:2px 0"><tbody>{"".join(lines)}</tbody></table>'


_OBJECT_PREFIX = "graph."  # Of the columns that hold captured objects.
_OBJECT_MARK = f"{_OBJECT_PREFIX}groups"
_OBJECT_COLUMNS = frozenset(("steps", "kinds", "structure", "constants"))  # Of the same states.
_OBJECTS_OF_CLASS = re.compile(r"graph\.\d+\.(.+)\.node")


def fields_part(layout: Layout) -> str:
    """Return the fields of a state, folded up. The columns of captured objects are one row with their classes."""
    blobs = {entry.name for entry in layout.schema.entries if isinstance(entry, Blob)}
    columns = _OBJECT_COLUMNS if _OBJECT_MARK in layout.slots else frozenset()
    classes = {match[1]: None for name in layout.slots if columns and (match := _OBJECTS_OF_CLASS.fullmatch(name))}
    rows = [("objects", "", "", ", ".join(classes))] if columns else []
    for name, slot in layout.slots.items():
        if name == COUNTS_FIELD or name in columns or (columns and name.startswith(_OBJECT_PREFIX)):
            continue
        shape = slot.shape if slot.owner is None else slot.shape[1:]
        kind = "opaque bytes" if name in blobs else f"column of {slot.owner}" if slot.owner is not None else ""
        rows.append((name, slot.dtype.name, " × ".join(map(str, shape)) or "one", kind))
    size = bytes_text(layout.size_bytes)
    return folded(
        f"{counted(len(rows), 'attribute' if columns else 'field')}, {size}",
        wide_table(("name", "dtype", "shape", ""), rows),
    )


@attrs.frozen
class Strip:
    """The ticks of a tape as a line, with marks.

    Attributes:
        first, last: tick.
        fulls, deltas: ticks of keyframes.
        missing: ranges of ticks.
        here: the current tick; None if there is none.
    """

    first: int
    last: int
    fulls: Sequence[int] = ()
    deltas: Sequence[int] = ()
    missing: Sequence[tuple[int, int]] = ()
    here: int | None = None

    def svg(self) -> str:
        """Return a small picture. Each of its columns has at most one mark, for any number of keyframes."""
        middle = STRIP_HEIGHT - 12
        parts = [f'<rect x="0" y="4" width="{STRIP_WIDTH}" height="{middle - 4}" fill="{GREEN}" fill-opacity=".18"/>']
        fulls = {self._x(tick) for tick in self.fulls}
        for columns, top, name in (({self._x(tick) for tick in self.deltas} - fulls, 10, "delta"), (fulls, 4, "full")):
            path = "".join(f"M{x}.5 {top}V{middle}" for x in sorted(columns))
            if columns:
                parts.append(f'<path d="{path}" stroke="{GREEN}" fill="none"><title>{name} keyframes</title></path>')
        gaps = sorted({(self._x(first), max(1, self._x(last) - self._x(first))) for first, last in self.missing})
        parts += [f'<rect x="{x}" y="4" width="{width}" height="{middle - 4}" fill="{RED}"/>' for x, width in gaps]
        if self.here is not None:
            x = self._x(self.here)
            parts.append(f'<path d="M{x} {middle}l-4 7h8z" fill="currentColor"><title>here</title></path>')
        text = 'font-size="10" fill="currentColor" opacity=".7"'
        parts.append(f'<text x="0" y="{STRIP_HEIGHT}" {text}>{self.first:,}</text>')
        parts.append(f'<text x="{STRIP_WIDTH}" y="{STRIP_HEIGHT}" text-anchor="end" {text}>{self.last:,}</text>')
        size = f'width="{STRIP_WIDTH}" height="{STRIP_HEIGHT + 2}" viewBox="0 0 {STRIP_WIDTH} {STRIP_HEIGHT + 2}"'
        return f'<svg {size} style="display:block;max-width:100%" role="img">{"".join(parts)}</svg>'

    def _x(self, tick: int) -> int:
        """Return the column of a tick."""
        return (
            (min(max(tick, self.first), self.last) - self.first) * (STRIP_WIDTH - 1) // max(1, self.last - self.first)
        )


def recorder_html(
    path: object, meta: Mapping[str, Any], done: RecorderStatistics, layout: Layout, *, closed: bool
) -> str:
    """Return the view of a recorder, while it records and afterwards; nothing is read from the disk."""
    settings, world, writer = meta.get("settings") or {}, meta.get("world"), done.writer
    interval = settings.get("keyframe_interval_ticks")
    named = f"{world['name']} version {world['version']}" if world else meta.get("simulation")
    rows = [
        ("world" if world else "simulation", named),
        ("tick", f"{done.tick:,}"),
        ("keyframes", f"{writer.full_count:,} full, {writer.delta_count:,} delta, every {interval} ticks"),
        ("written", bytes_text(writer.written_bytes)),
        ("durability", settings.get("durability")),
        *(("not kept", f"ticks {first:,} to {last:,}") for first, last in writer.dropped[:DROPS_SHOWN]),
        *([("captured values repaired", f"{done.capture_faults:,}")] if done.capture_faults else []),
        *([("disk error", writer.failure)] if writer.failure else []),
    ]
    badge = Badge("closed", GREEN) if closed else Badge("recording", AMBER)
    failed = Badge("disk error", RED) if writer.failure else None
    return card(str(path), failed or badge, facts_table(rows), fields_part(layout))
