"""The output of ``replay ls``: runs as a table, statistics as lines, and both as JSON."""

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
    """Format a summary and a table with one line for each run."""
    if not runs:
        return ["no runs"]
    size = bytes_text(sum(run.size_bytes for run in runs))
    rows = [COLUMNS, *(_row(run) for run in runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    table = ["  ".join(_cells(row, widths)).rstrip() for row in rows]
    errors = [f"  {run.tape}: {run.error}" for run in runs if run.error is not None]
    first = f"{counted(len(runs), 'run')}, {counted(sum(map(ticks_of, runs)), 'tick')}, {size}"
    return [first, *table, *_reason_lines(runs), *errors]


def _reason_lines(runs: Sequence[Run]) -> list[str]:
    """What the reasons mean that a simulation gave as a code with a text; each once."""
    texts: dict[str, list[str]] = {}
    for run in runs:
        if run.reason and run.text and run.text not in texts.setdefault(run.reason, []):
            texts[run.reason].append(run.text)
    return [f"  ended by {reason}: {said[0]}" for reason, said in texts.items() if len(said) == 1]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.rjust(width) if name in RIGHT else cell.ljust(width)
        for name, cell, width in zip(COLUMNS, row, widths, strict=True)
    ]


def _row(run: Run) -> tuple[str, ...]:
    return (
        run.tape,
        run.run_id[:RUN_ID_SHOWN] or UNKNOWN,
        run.subject or UNKNOWN,
        str(run.seed) if run.seed is not None else UNKNOWN,
        _ticks_text(run),
        ", ".join(map(_player_text, run.players)) or "-",
        run.reason or "-",
        run.quality.tier if run.quality is not None else UNKNOWN,
        bytes_text(run.size_bytes),
        run.status,
    )


def _ticks_text(run: Run) -> str:
    """The last tick; where the tape does not begin at tick 0, the number of its own steps, and the range."""
    if run.ticks is None:
        return UNKNOWN
    return f"{ticks_of(run):,} ({run.first_tick:,} to {run.ticks:,})" if run.first_tick else f"{run.ticks:,}"


def _player_text(result: PlayerResult) -> str:
    policy = f"={result.policy}" if result.policy is not None else ""
    score = f" {result.score:,.10g}" if result.score is not None else ""
    return f"{result.player}{policy}{f' {result.outcome}' if result.outcome is not None else ''}{score}"


def run_facts(run: Run) -> dict[str, Any]:
    """Return a run as JSON shows it."""
    facts = attrs.asdict(run, filter=attrs.filters.exclude("folder", "changed_ns", "stamp"))
    return {"path": str(run.path), **facts}


def statistics_lines(statistics: Statistics) -> list[str]:
    """Format statistics as lines of text."""
    lines = [
        f"{counted(statistics.runs, 'run')}, {counted(statistics.ticks, 'tick')}, {bytes_text(statistics.size_bytes)}"
    ]
    for title, counts in (
        ("scenarios", statistics.scenarios),
        ("status", statistics.statuses),
        ("ended by", statistics.ends),
        ("quality", statistics.tiers),
    ):
        lines += [f"  {title}: {_counts_text(counts)}"] if counts else []
    if statistics.lengths:
        quantiles = ", ".join(f"{share:.0%} {ticks:,.0f}" for share, ticks in statistics.lengths.items())
        lines.append(f"  length in ticks: {quantiles}")
    if statistics.inputs_per_tick is not None:
        share = statistics.ticks_with_inputs / statistics.examined_ticks
        lines.append(f"  inputs: {statistics.inputs_per_tick:,.2f} per tick; {share:.1%} of the ticks have some")
    return lines + [f"  {_standing_text(standing)}" for standing in statistics.standings]


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name or UNKNOWN} {count:,}" for name, count in counts.items())


def _standing_text(standing: Standing) -> str:
    policy = f"={standing.policy}" if standing.policy is not None else ""
    text = f"{standing.player}{policy}: {counted(standing.runs, 'run')}"
    if standing.decided:
        share = standing.won / standing.decided
        text += f", won {standing.won:,} ({share:.0%}), drew {standing.drawn:,}, lost {standing.lost:,}"
    return text + (f", mean score {standing.score_mean:,.1f}" if standing.score_mean is not None else "")


def statistics_facts(statistics: Statistics) -> dict[str, Any]:
    """Return statistics as JSON shows them."""
    facts = attrs.asdict(statistics) | {"inputs_per_tick": statistics.inputs_per_tick}
    facts["lengths"] = {f"{share:g}": ticks for share, ticks in statistics.lengths.items()}
    return {"statistics": facts}
