"""Statistics of the runs of a corpus: ends, lengths, inputs, quality, and the results of each policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from recorder.corpus.run import DREW, LOST, STATUSES, TIERS, WON, Run

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@attrs.frozen
class Standing:
    """The results of one player with one policy; policy is None where the tapes note none.

    Attributes:
        runs: number of runs with this player.
        won, drawn, lost: number of decided runs by outcome.
        score_mean: mean over the runs with a score; None if there is none.
    """

    player: str
    policy: str | None
    runs: int
    won: int
    drawn: int
    lost: int
    score_mean: float | None

    @property
    def decided(self) -> int:
        """The number of runs whose outcome is known."""
        return self.won + self.drawn + self.lost


@attrs.frozen
class Statistics:
    """Statistics of a corpus.

    Attributes:
        runs, ticks, size_bytes: totals.
        scenarios, statuses, ends, tiers: number of runs by scenario, by status, by the reason on the tape, and by
            quality, for runs whose inputs were read.
        lengths: quantiles of the last ticks, by share.
        inputs, examined_ticks, ticks_with_inputs: totals over the runs whose inputs were read.
        standings: results by player and policy.
    """

    runs: int
    ticks: int
    size_bytes: int
    scenarios: Mapping[str, int]
    statuses: Mapping[str, int]
    ends: Mapping[str, int]
    tiers: Mapping[str, int]
    lengths: Mapping[float, float]
    inputs: int
    examined_ticks: int
    ticks_with_inputs: int
    standings: Sequence[Standing]

    @property
    def inputs_per_tick(self) -> float | None:
        """The mean number of inputs per tick; None without ticks."""
        return self.inputs / self.examined_ticks if self.examined_ticks else None


def ticks_of(run: Run) -> int:
    """Return the number of steps on the tape."""
    return run.ticks - run.first_tick if run.ticks is not None and run.first_tick is not None else 0


def statistics_of(runs: Sequence[Run]) -> Statistics:
    """Compute statistics of runs; damaged runs count with the facts that could be read."""
    examined = [run for run in runs if run.quality is not None]
    lengths = [run.ticks for run in runs if run.ticks is not None]
    quantiles = np.quantile(lengths, QUANTILES).tolist() if lengths else []
    return Statistics(
        runs=len(runs),
        ticks=sum(map(ticks_of, runs)),
        size_bytes=sum(run.size_bytes for run in runs),
        scenarios=_counts(run.subject for run in runs),
        statuses=_counts((run.status for run in runs), STATUSES),
        ends=_counts(run.reason for run in runs if run.reason is not None),
        tiers=_counts((run.quality.tier for run in runs if run.quality is not None), TIERS),
        lengths=dict(zip(QUANTILES, quantiles, strict=False)),
        inputs=sum(run.quality.inputs for run in runs if run.quality is not None),
        examined_ticks=sum(map(ticks_of, examined)),
        ticks_with_inputs=sum(run.quality.ticks_with_inputs for run in runs if run.quality is not None),
        standings=standings_of(runs),
    )


def _counts(values: Iterable[str], order: Sequence[str] = ()) -> dict[str, int]:
    """Count each value, in this order, or sorted by value."""
    counter = Counter(values)
    return {value: counter[value] for value in (order or sorted(counter)) if counter[value]}


def standings_of(runs: Iterable[Run]) -> list[Standing]:
    """Return the results of each player with each policy, sorted by name."""
    all_results = [result for run in runs for result in run.players]
    standings = []
    for player, policy in sorted(
        {(result.player, result.policy) for result in all_results}, key=lambda pair: (pair[0], pair[1] or "")
    ):
        results = [result for result in all_results if (result.player, result.policy) == (player, policy)]
        outcomes = Counter(result.outcome for result in results)
        scores = [result.score for result in results if result.score is not None]
        mean = sum(scores) / len(scores) if scores else None
        standings.append(Standing(player, policy, len(results), outcomes[WON], outcomes[DREW], outcomes[LOST], mean))
    return standings
