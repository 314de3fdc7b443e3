"""What ``replay ls`` prints: runs as a table, statistics as lines; and both for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from recorder.corpus.run import PlayerResult, Run
from recorder.corpus.run_statistics import Standing, Statistics, ticks_of
from recorder.text import bytes_text, counted

UNKNOWN = "?"
COLUMNS = ("tape", "run", "scenario", "seed", "ticks", "players", "ended by", "quality", "size", "status")
RIGHT = {"seed", "ticks", "size"}
RUN_ID_SHOWN = 8


def run_lines(runs: Sequence[Run]) -> list[str]:
    """A summary, and a table with a line for each run."""
    if not runs:
        return ["no runs"]
    size = bytes_text(sum(run.size_bytes for run in runs))
    rows = [COLUMNS, *(_row(run) for run in runs)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    table = ["  ".join(_cells(row, widths)).rstrip() for row in rows]
    errors = [f"  {run.tape}: {run.error}" for run in runs if run.error is not None]
    return [f"{counted(len(runs), 'run')}, {counted(sum(map(ticks_of, runs)), 'tick')}, {size}", *table, *errors]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.rjust(width) if name in RIGHT else cell.ljust(width)
        for name, cell, width in zip(COLUMNS, row, widths, strict=True)
    ]


def _row(run: Run) -> tuple[str, ...]:
    return (
        run.tape,
        run.run_id[:RUN_ID_SHOWN] or UNKNOWN,
        run.scenario or run.world or UNKNOWN,
        str(run.seed) if run.seed is not None else UNKNOWN,
        f"{run.ticks:,}" if run.ticks is not None else UNKNOWN,
        ", ".join(map(_player_text, run.players)) or "-",
        run.reason or "-",
        run.quality.tier if run.quality is not None else UNKNOWN,
        bytes_text(run.size_bytes),
        run.status,
    )


def _player_text(one: PlayerResult) -> str:
    policy = f"={one.policy}" if one.policy is not None else ""
    score = f" {one.score:,.10g}" if one.score is not None else ""
    return f"{one.player}{policy}{f' {one.outcome}' if one.outcome is not None else ''}{score}"


def run_facts(run: Run) -> dict[str, Any]:
    """For programs."""
    facts = attrs.asdict(run, filter=attrs.filters.exclude("folder", "changed_ns"))
    return {"path": str(run.path), **facts}


def statistics_lines(found: Statistics) -> list[str]:
    """For people."""
    lines = [f"{counted(found.runs, 'run')}, {counted(found.ticks, 'tick')}, {bytes_text(found.size_bytes)}"]
    for title, counts in (
        ("scenarios", found.scenarios),
        ("status", found.statuses),
        ("ended by", found.ends),
        ("quality", found.tiers),
    ):
        lines += [f"  {title}: {_counts_text(counts)}"] if counts else []
    if found.lengths:
        quantiles = ", ".join(f"{share:.0%} {ticks:,.0f}" for share, ticks in found.lengths.items())
        lines.append(f"  length in ticks: {quantiles}")
    if found.inputs_per_tick is not None:
        share = found.ticks_with_inputs / found.examined_ticks
        lines.append(f"  inputs: {found.inputs_per_tick:,.2f} a tick; {share:.1%} of the ticks have some")
    return lines + [f"  {_standing_text(one)}" for one in found.standings]


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name or UNKNOWN} {count:,}" for name, count in counts.items())


def _standing_text(one: Standing) -> str:
    text = f"{one.player}{f'={one.policy}' if one.policy is not None else ''}: {counted(one.runs, 'run')}"
    if one.decided:
        text += f", won {one.won:,} ({one.won / one.decided:.0%}), drew {one.drawn:,}, lost {one.lost:,}"
    return text + (f", mean score {one.score_mean:,.1f}" if one.score_mean is not None else "")


def statistics_facts(found: Statistics) -> dict[str, Any]:
    """For programs."""
    facts = attrs.asdict(found) | {"inputs_per_tick": found.inputs_per_tick}
    facts["lengths"] = {f"{share:g}": ticks for share, ticks in found.lengths.items()}
    return {"statistics": facts}
