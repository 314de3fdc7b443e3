"""Draw the statistics of a corpus: outcomes, lengths, inputs and quality."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure  # Not pyplot, which keeps figures and may want a display.
from matplotlib.ticker import MaxNLocator

from recorder.corpus.run import TIERS, Run
from recorder.corpus.run_statistics import Standing, Statistics, ticks_of
from replayer.export.plot import save

__all__ = ["draw_corpus", "save"]

BINS = 30
OUTCOMES = (("won", "tab:green"), ("drawn", "tab:gray"), ("lost", "tab:red"))
TITLE_CHARS_MAX = 60


def draw_corpus(runs: Sequence[Run], statistics: Statistics, name: str) -> Figure:
    """Draw four panels: outcomes by player and policy, lengths by the reason of the end, inputs per tick, quality."""
    figure = Figure(figsize=(10.0, 7.5), layout="constrained")
    figure.suptitle(
        f"{name[-TITLE_CHARS_MAX:]}: {statistics.runs:,} runs, {statistics.ticks:,} ticks", parse_math=False
    )
    panels = figure.subplots(2, 2)
    _draw_outcomes(panels[0, 0], [standing for standing in statistics.standings if standing.decided])
    _draw_lengths(panels[0, 1], runs, list(statistics.ends))
    _draw_inputs(panels[1, 0], runs)
    _draw_counts(panels[1, 1], statistics)
    return figure


def _draw_outcomes(axes: Axes, standings: Sequence[Standing]) -> None:
    axes.set_title("Outcomes by player and policy", loc="left", fontsize="small")
    if not standings:
        _show_text(axes, "no run has scores of two players")
        return
    positions = range(len(standings))
    left = [0.0] * len(standings)
    for outcome, colour in OUTCOMES:
        shares = [getattr(standing, outcome) / standing.decided for standing in standings]
        axes.barh(positions, shares, left=left, label=outcome, color=colour)
        left = [start + share for start, share in zip(left, shares, strict=True)]
    labels = [
        f"{standing.player}{f'={standing.policy}' if standing.policy else ''} ({standing.decided})"
        for standing in standings
    ]
    axes.set_yticks(positions, labels, fontsize="x-small", parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("share of the runs")
    axes.legend(fontsize="x-small", ncols=len(OUTCOMES), loc="lower right", bbox_to_anchor=(1.0, 1.0))


def _draw_lengths(axes: Axes, runs: Sequence[Run], reasons: Sequence[str]) -> None:
    axes.set_title("Lengths by the reason of the end", loc="left", fontsize="small")
    groups = {
        reason: [run.ticks for run in runs if run.reason == reason and run.ticks is not None] for reason in reasons
    }
    groups["none"] = [run.ticks for run in runs if run.reason is None and run.ticks is not None]
    groups = {reason: lengths for reason, lengths in groups.items() if lengths}
    if not groups:
        _show_text(axes, "no run has ticks")
        return
    labels = [reason.replace("$", r"\$") for reason in groups]
    axes.hist(list(groups.values()), bins=BINS, stacked=True, label=labels)
    axes.set_xlabel("ticks")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("runs")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize="x-small")


def _draw_inputs(axes: Axes, runs: Sequence[Run]) -> None:
    axes.set_title("Inputs per tick, of each run", loc="left", fontsize="small")
    means = [run.quality.inputs / ticks_of(run) for run in runs if run.quality is not None and ticks_of(run)]
    if not means:
        _show_text(axes, "no inputs are known")
        return
    axes.hist(means, bins=BINS)
    axes.set_xlabel("inputs per tick")
    axes.set_ylabel("runs")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_counts(axes: Axes, statistics: Statistics) -> None:
    axes.set_title("Quality", loc="left", fontsize="small")
    if not statistics.tiers:
        _show_text(axes, "no inputs are known")
        return
    axes.bar(TIERS, [statistics.tiers.get(tier, 0) for tier in TIERS])
    axes.set_ylabel("runs")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _show_text(axes: Axes, text: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
