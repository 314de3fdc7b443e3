"""What the runs of a corpus are, taken together: ends, lengths, inputs, quality, and how each policy fared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from recorder.corpus.run import DREW, LOST, STATUSES, TIERS, WON, Run

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@attrs.frozen
class Standing:
    """How one player fared with one policy; policy is None where the tapes note none.

    Attributes:
        runs: in which it took part.
        won, drawn, lost: of those that were decided.
        score_mean: over the runs with a score; None if there is none.
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
        """The runs whose outcome is known."""
        return self.won + self.drawn + self.lost


@attrs.frozen
class Statistics:
    """Of a corpus.

    Attributes:
        runs, ticks, size_bytes: in all.
        scenarios, statuses, ends, tiers: how many runs of each; ends: by the reason on the tape, tiers: of those whose
            inputs were looked at.
        lengths: quantiles of the last ticks, by share.
        inputs, examined_ticks, ticks_with_inputs: over the runs whose inputs were looked at.
        standings: by player and policy.
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
        """Mean; None without ticks."""
        return self.inputs / self.examined_ticks if self.examined_ticks else None


def ticks_of(run: Run) -> int:
    """How many steps are on the tape."""
    return run.ticks - run.first_tick if run.ticks is not None and run.first_tick is not None else 0


def statistics_of(runs: Sequence[Run]) -> Statistics:
    """Statistics of some runs, damaged ones included as far as they are known."""
    examined = [run for run in runs if run.quality is not None]
    lengths = [run.ticks for run in runs if run.ticks is not None]
    quantiles = np.quantile(lengths, QUANTILES).tolist() if lengths else []
    return Statistics(
        runs=len(runs),
        ticks=sum(map(ticks_of, runs)),
        size_bytes=sum(run.size_bytes for run in runs),
        scenarios=_counts(run.scenario or "" for run in runs),
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
    """How often each value comes, in this order, or the alphabet's."""
    counter = Counter(values)
    return {value: counter[value] for value in (order or sorted(counter)) if counter[value]}


def standings_of(runs: Iterable[Run]) -> list[Standing]:
    """How each player fared with each policy, by name."""
    results = [one for run in runs for one in run.players]
    found = []
    for player, policy in sorted(
        {(one.player, one.policy) for one in results}, key=lambda pair: (pair[0], pair[1] or "")
    ):
        own = [one for one in results if (one.player, one.policy) == (player, policy)]
        outcomes = Counter(one.outcome for one in own)
        scores = [one.score for one in own if one.score is not None]
        mean = sum(scores) / len(scores) if scores else None
        found.append(Standing(player, policy, len(own), outcomes[WON], outcomes[DREW], outcomes[LOST], mean))
    return found
