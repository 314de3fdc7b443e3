"""Show the measurements: tables for the terminal, a Markdown page, JSON."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import textwrap
from typing import Any

import attrs
import h5py
from damage import CutCounts, FlipCounts
from history import INPUT_BYTES, STATE_BYTES
from kills import KillCounts
from peer import Peer
from rich.console import Console
from rich.table import Table

PACKAGES = ("numpy", "mcap", "zstandard", "h5py", "gsd", "minari", "gymnasium", "jax", "pillow")
LINE_WIDTH = 119

CUTS_TEXT = """A small file of each format is cut before every byte, or before every k-th. "Complete" counts cuts with at
least one complete tick before them (if a format compresses blocks: its complete block), after which all such ticks were
read. "Ticks read" is the mean share of all ticks over all cuts. "Raised" is any exception, on opening or later; data read
before it counts as read. "In silence" means no exception and no report. Such a small file is one chunk of MCAP and a few
pages of SQLite. SQLite reads a last page that is cut short as one that ends in zeros. In large files a cut costs MCAP's
streaming reader a smaller share, and SQLite misses a cut less often."""
FLIPS_TEXT = """One bit at a time is flipped in an otherwise intact file. "Detected" means an exception or a report.
"Harmless": all data is read as it was written, and nothing is reported. "Wrong in silence": data differs from what was
written, or is incomplete ("only missing"), with no exception and no report. "Ticks left" is the mean share of ticks that
were still read after a detected flip."""
KILLS_TEXT = """A process records at full speed and is killed with SIGKILL. A tick is acknowledged when the library's
call for it has returned. An acknowledged tick is lost if it cannot be read afterwards, neither by the plain way of opening
nor, if that fails, by the alternative that the documentation offers. Only the process dies, so nothing depends on
fsync. Power cuts are not measured here."""


@attrs.define
class Measured:
    """The measurements of one peer; None if it takes no part."""

    peer: Peer
    cuts: CutCounts | None = None
    flips: FlipCounts | None = None
    kills: KillCounts | None = None


@attrs.frozen
class Sheet:
    """A table. The first column is text, the others are figures."""

    title: str
    text: str
    columns: list[str]
    rows: list[list[str]]


def list_versions() -> dict[str, str]:
    """The versions of all libraries."""
    versions = {"ours": importlib.metadata.version("simulation-flight-recorder")}
    versions |= {name: importlib.metadata.version(name) for name in PACKAGES}
    return versions | {"HDF5": h5py.version.hdf5_version, "SQLite": sqlite3.sqlite_version}


def describe_machine() -> dict[str, Any]:
    """The machine of the measurements."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }


def make_sheets(measured: list[Measured]) -> list[Sheet]:
    """The three tables."""
    cut_rows = [
        [
            one.peer.name,
            f"{cuts.file_bytes:,}",
            f"{cuts.cuts:,}",
            f"{cuts.opened:,}",
            f"{cuts.complete:,} of {cuts.with_ticks:,}",
            f"{cuts.row_percent:.0f} %",
            f"{cuts.raised:,}",
            f"{cuts.short_in_silence:,}",
            f"{cuts.wrong_in_silence:,}",
            f"{cuts.casualties:,}",
        ]
        for one in measured
        if (cuts := one.cuts) is not None
    ]
    flip_rows = [
        [
            one.peer.name,
            f"{flips.file_bits:,}",
            f"{flips.flips:,}",
            f"{flips.detected:,}",
            f"{flips.harmless:,}",
            f"{flips.wrong_in_silence:,} ({100 * flips.wrong_in_silence / flips.flips:.1f} %)",
            f"{flips.missing_in_silence:,}",
            f"{flips.crashed:,}",
            f"{flips.hung:,}",
            f"{flips.row_percent:.0f} %",
        ]
        for one in measured
        if (flips := one.flips) is not None
    ]
    kill_rows = [
        [
            one.peer.name,
            str(len(kills.kills)),
            str(kills.opened),
            f"{kills.rescued} ({kills.rescue_how})" if kills.opened < len(kills.kills) and kills.rescue_how else "–",
            f"{kills.acknowledged_median:,.0f}",
            f"{kills.lost_min:,}",
            f"{kills.lost_median:,.0f}",
            f"{kills.lost_max:,}",
            str(kills.wrong),
        ]
        for one in measured
        if (kills := one.kills) is not None
    ]
    cut_columns = ["file bytes", "cuts", "opened", "complete", "ticks read", "raised", "short in silence"]
    flip_columns = ["bits", "flips", "detected", "harmless", "wrong in silence", "only missing", "crash", "hang"]
    kill_columns = ["kills", "open", "open another way", "acknowledged, median"]
    return [
        Sheet("Cut short", CUTS_TEXT, ["format", *cut_columns, "wrong in silence", "crash or hang"], cut_rows),
        Sheet("One bit flipped", FLIPS_TEXT, ["format", *flip_columns, "ticks left"], flip_rows),
        Sheet(
            "Killed while recording",
            KILLS_TEXT,
            ["format", *kill_columns, "lost, min", "median", "max", "files with wrong data"],
            kill_rows,
        ),
    ]


def print_sheets(console: Console, sheets: list[Sheet]) -> None:
    """Print the tables on the terminal."""
    for sheet in sheets:
        if not sheet.rows:
            continue
        table = Table(title=sheet.title, title_justify="left")
        for number, column in enumerate(sheet.columns):
            table.add_column(column, justify="right" if number else "left")
        for row in sheet.rows:
            table.add_row(*row)
        console.print(table)


def make_markdown(sheets: list[Sheet], measured: list[Measured], facts: dict[str, Any]) -> str:
    """Return the page. facts: as in the JSON."""
    lines = [
        "# Damage and crashes: this recorder compared with other formats",
        "",
        *wrap(
            f"Made by `python tools/compare --seed {facts['seed']}{' --quick' if facts['quick'] else ''}` in "
            f"{facts['seconds']:,.0f} s. All formats store the same data: for each tick its number, an 8-byte hash and "
            f"{INPUT_BYTES} bytes of inputs, and every {facts['state_every']} ticks an array of {STATE_BYTES} bytes. Cuts "
            f"and flips use {facts['ticks']} ticks. The seed decides the data, the sample and the times of kills. "
            "Identifiers and dates that the libraries write into their files differ from run to run, and so do a few "
            "counts. A warning counts as a report. For Minari only the data file is damaged, not its metadata.json."
        ),
    ]
    for sheet in sheets:
        if not sheet.rows:
            continue
        lines += ["", f"## {sheet.title}", "", *wrap(sheet.text), ""]
        lines += [
            "| " + " | ".join(sheet.columns) + " |",
            "|" + "|".join(["---", *["--:"] * (len(sheet.columns) - 1)]) + "|",
        ]
        lines += ["| " + " | ".join(row) + " |" for row in sheet.rows]
    lines += ["", "## Strengths of each", ""]
    strengths = {one.peer.library: (one.peer.name, one.peer.strength) for one in reversed(measured)}
    for name, strength in reversed(strengths.values()):
        lines += wrap(f"- **{name}**: {strength}", indent="  ")
    machine = ", ".join(f"{name} {value}" for name, value in facts["machine"].items())
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return "\n".join([*lines, "", "## Machine and versions", "", *wrap(f"{machine}."), "", *wrap(f"{versions}."), ""])


def wrap(text: str, *, indent: str = "") -> list[str]:
    """The lines of a paragraph. indent: that of all lines but the first."""
    return textwrap.wrap(" ".join(text.split()), LINE_WIDTH, subsequent_indent=indent)


def make_plain(measured: list[Measured]) -> list[dict[str, Any]]:
    """The figures for JSON."""
    return [
        {
            "name": one.peer.name,
            "library": one.peer.library,
            "cuts": attrs.asdict(one.cuts) if one.cuts else None,
            "flips": attrs.asdict(one.flips) if one.flips else None,
            "kills": attrs.asdict(one.kills) if one.kills else None,
        }
        for one in measured
    ]
