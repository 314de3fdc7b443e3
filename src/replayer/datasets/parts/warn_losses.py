"""Warn of rows that are missing: a program that reads a data set may never ask what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recorder.text import counted
from replayer.datasets.request import ExtractionWarning
from replayer.playback.sampled_states import Missing
from replayer.value_text import tick_range
from sim.user_warning import warn_user


def warn_of_manifest(manifest: Mapping[str, Any]) -> None:
    """Warn once for each tape of which samples are missing, with the first reason, and for each problem."""
    by_tape: dict[str, list[Mapping[str, Any]]] = {}
    for loss in manifest["missing"]:
        by_tape.setdefault(loss["tape"], []).append(loss)
    for tape, losses in by_tape.items():
        first = losses[0]
        more = f" (and {counted(len(losses) - 1, 'more range')}: manifest['missing'] lists them)" if losses[1:] else ""
        warn_user(
            f"missing: {tape}, {tick_range(first['first_tick'], first['last_tick'])}: {first['why']}{more}",
            ExtractionWarning,
        )
    for problem in manifest["problems"]:
        warn_user(problem, ExtractionWarning)


def warn_of_samples(tape: str, missing: Missing, before: Sequence[tuple[str, Missing]]) -> None:
    """Warn of the first missing sample of a tape. before: those of the iteration so far, with the names of their tapes."""
    if all(name != tape for name, _ in before):
        ticks = tick_range(missing.first_tick, missing.last_tick)
        warn_user(f"missing: {tape}, {ticks}: {missing.why} (rows.missing lists all)", ExtractionWarning)
