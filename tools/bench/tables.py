"""Tables for the terminal and for pages, facts of the machine, and pictures, for all benches."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

OURS, OTHERS, FAINT = "#c8501e", "#41618a", "#9aa5b1"  # Colours of the pictures.

Row = dict[str, Any]
LOAD = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")  # Before this program adds to it.


def facts() -> dict[str, Any]:
    """Facts about the machine."""
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "load_before": LOAD,
    }


def facts_line() -> str:
    """The facts about the machine in words."""
    known = facts()
    load = f"load average before the run {LOAD:.1f}"
    return f"{known['machine']}, {known['cores']} cores ({load}), Python {known['python']}, NumPy {known['numpy']}"


def shown(value: Any) -> str:
    """Format a figure for a table: three significant digits, a dash for unknown."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3g}"


def print_table(title: str, rows: list[Row]) -> None:
    """Print a table on the terminal. Rows have the same keys."""
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(rows[0]):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*map(shown, row.values()))
    Console(width=150).print(table)


def markdown_table(rows: list[Row]) -> str:
    """Return a table for a page."""
    lines = [
        list(rows[0]),
        ["---", *["--:"] * (len(rows[0]) - 1)],
        *([shown(one) for one in row.values()] for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def hand_out(title: str, rows: list[Row], options: Any) -> None:
    """Print the rows on the terminal, and write the requested files: JSON, and the section of the page."""
    print_table(title, rows)
    if options.json:
        write_json(options.json, rows)
    if options.markdown:
        options.markdown.write_text(f"{facts_line()}\n\n{markdown_table(rows)}", encoding="utf-8")


def write_json(path: Path, figures: Any) -> None:
    """Write figures with the facts about the machine."""
    path.write_text(json.dumps({**facts(), "figures": figures}, indent=1, default=float) + "\n", encoding="utf-8")


def pyplot() -> Any:
    """Return matplotlib, with settings by which the same figures give the same file."""
    import matplotlib as mpl  # noqa: PLC0415 - takes long, and only pictures need it

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    plt.rcParams.update(
        {
            "svg.hashsalt": "bench",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
        }
    )
    return plt


def save_picture(figure: Any, folder: Path, name: str) -> None:
    """Save a picture as SVG, without a date."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
