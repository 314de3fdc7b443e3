"""Summarise a batch or sweep as text and a picture: errors, violations, survival of species."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder.scenarios.batch import RunRecord
from recorder.storage.atomic_file import write_file
from recorder.text import counted

ROWS_SHOWN = 20


@attrs.frozen
class Survival:
    """The survival of a species in the runs of a group.

    Attributes:
        runs: number of runs in which it ever lived.
        extinct: number of these runs in which it died out.
        curve: [tick, share of the runs in which it is alive after the tick], where the share changes, from tick 0 on.
    """

    species: str
    runs: int
    extinct: int
    curve: tuple[tuple[int, float], ...]

    @property
    def extinction_probability(self) -> float:
        """The share of the runs in which it died out."""
        return self.extinct / self.runs


def survival_of(records: Sequence[RunRecord]) -> list[Survival]:
    """Return the survival of each species over all runs without an error; a survivor counts as alive to the end."""
    completed = [record for record in records if record.error is None]
    names = dict.fromkeys(name for record in completed for name in record.extinctions)
    survivals = []
    for name in names:
        ticks = [record.extinctions[name] for record in completed if name in record.extinctions]
        extinct = sorted(tick for tick in ticks if tick is not None)
        curve = [(0, 1.0)] if not extinct or extinct[0] > 0 else []
        curve += [
            (tick, 1 - (index + 1) / len(ticks))
            for index, tick in enumerate(extinct)
            if tick not in extinct[index + 1 :]
        ]
        survivals.append(Survival(name, len(ticks), len(extinct), tuple(curve)))
    return survivals


def groups_of(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Group the runs by their bindings except seeds; one group if there are no other bindings."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(_group_name(record.bindings), []).append(record)
    return groups


def _group_name(bindings: Mapping[str, Any]) -> str:
    return ", ".join(f"{path}={value}" for path, value in bindings.items() if path.rpartition(".")[2] != "seed")


def summary_lines(records: Sequence[RunRecord]) -> list[str]:
    """Return lines of text: number of runs, errors, violated properties, extinct species."""
    failed = [record for record in records if record.error is not None]
    lines = [f"{counted(len(records), 'run')}, {len(failed)} with errors"]
    lines += [f"  run {record.index}: {record.error}" for record in failed[:ROWS_SHOWN]]
    violated = Counter(violation[0] for record in records for violation in record.violations)
    for name, count in violated.most_common(ROWS_SHOWN):
        first = next(record for record in records if any(violation[0] == name for violation in record.violations))
        tick = next(violation[1] for violation in first.violations if violation[0] == name)
        lines.append(
            f"  property {name}: violated in {counted(count, 'run')}, first run {first.index} at tick {tick:,}"
        )
    groups = groups_of(records)
    for name, group in list(groups.items())[:ROWS_SHOWN]:
        prefix = f"{name}: " if name else ""
        lines += [
            f"  {prefix}{survival.species}: extinct in {survival.extinct} of {counted(survival.runs, 'run')} "
            f"({survival.extinction_probability:.0%})"
            for survival in survival_of(group)
        ]
    if len(groups) > ROWS_SHOWN:
        lines.append(f"  and {len(groups) - ROWS_SHOWN} more combinations: see the manifest")
    return lines


def draw_survival(records: Sequence[RunRecord], target: Path) -> bool:
    """Draw survival curves, one panel per species, one line per combination; False if there is nothing to draw.

    Raises ImportError without matplotlib, OSError.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, and slow to import.

    curves = {name: survival_of(group) for name, group in groups_of(records).items()}
    species = list(dict.fromkeys(survival.species for survivals in curves.values() for survival in survivals))
    if not species:
        return False
    last_tick = max(record.final_tick for record in records)
    figure = Figure(figsize=(8, 2 + 1.8 * len(species)), layout="constrained")
    panels = figure.subplots(len(species), 1, sharex=True, squeeze=False)[:, 0]
    for panel, name in zip(panels, species, strict=True):
        for group, survivals in curves.items():
            curve = next((survival.curve for survival in survivals if survival.species == name), None)
            if curve is not None:
                ticks, shares = [*(t for t, _ in curve), last_tick], [*(s for _, s in curve), curve[-1][1]]
                panel.step(ticks, shares, where="post", label=group or "all runs")
        panel.set(ylim=(-0.05, 1.05), ylabel="share alive", title=name)
    panels[-1].set_xlabel("tick")
    if len(curves) > 1 and len(curves) <= ROWS_SHOWN:
        panels[0].legend(fontsize="small")
    picture = io.BytesIO()
    figure.savefig(picture, format=target.suffix.removeprefix("."))
    write_file(target, picture.getvalue(), existing="replace")
    return True
