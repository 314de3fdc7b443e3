"""Output of ``replay repair``, as text and as JSON."""

from __future__ import annotations

import shlex
from typing import Any

from recorder.location.tape_location import Location
from recorder.visible_text import print_visible
from replayer.repair.repair_report import RepairReport
from replayer.value_text import plain_text, tick_range


def repair_facts(report: RepairReport) -> dict[str, Any]:
    """The JSON object of ``replay repair --json``."""
    return {
        "tape": str(report.path),
        "first_tick": report.first_tick,
        "last_tick": report.last_tick,
        "copied_keyframes": report.copied_keyframes,
        "rebuilt_ticks": report.rebuilt_ticks,
        "lost_keyframes": [{"tick": tick, "why": why} for tick, why in report.lost_keyframe_ticks],
        "lost_ticks": [{"first_tick": first, "last_tick": last, "why": why} for first, last, why in report.lost_ticks],
        "lost_optional": [{"kind": kind, "why": why} for kind, why in report.lost_optional],
    }


def print_repair(source: Location, report: RepairReport, sim: str | None = None) -> None:
    """Print the result of ``replay repair``. sim: the value of --sim, for the next command."""
    hint = f" --sim {shlex.quote(sim)}" if sim is not None else ""
    print_visible(f"{source} → {report.path}: ticks {report.first_tick:,} to {report.last_tick:,}")
    print_visible(
        f"  keyframes: {report.copied_keyframes:,} copied, {len(report.rebuilt_ticks):,} rebuilt and verified by hash"
    )
    for tick in report.rebuilt_ticks:
        print_visible(f"  rebuilt: the keyframe of tick {tick:,}")
    for tick, why in report.lost_keyframe_ticks:
        print_visible(f"  lost: the keyframe of tick {tick:,}: {plain_text(why)}")
    for first, last, why in report.lost_ticks:
        print_visible(f"  lost: {tick_range(first, last)}: {plain_text(why)}")
    for kind, why in report.lost_optional:
        print_visible(f"  lost: an optional block ({kind}): {plain_text(why)}")
    if report.complete:
        print_visible("  nothing is lost")
    print_visible(f"next: replay verify {shlex.quote(str(report.path))}{hint}")
