"""What a batch or sweep came to, as tables and a picture: violations, and who survived for how long."""

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
    """How a species fared in the runs of a group.

    Attributes:
        runs: in which it was.
        extinct: in how many of them it died out.
        curve: [tick, share of the runs in which it was alive behind it], where the share changes, from tick 0 on.
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
    """Of each species, over all runs without an error; a run counts as alive up to its end."""
    sound = [record for record in records if record.error is None]
    names = dict.fromkeys(name for record in sound for name in record.extinctions)
    found = []
    for name in names:
        ticks = [record.extinctions[name] for record in sound if name in record.extinctions]
        gone = sorted(tick for tick in ticks if tick is not None)
        curve = [(0, 1.0)] if not gone or gone[0] > 0 else []
        curve += [
            (tick, 1 - (index + 1) / len(ticks)) for index, tick in enumerate(gone) if tick not in gone[index + 1 :]
        ]
        found.append(Survival(name, len(ticks), len(gone), tuple(curve)))
    return found


def groups_of(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """The runs by what they were bound to but for seeds; one group if that is nothing."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(_group_name(record.bindings), []).append(record)
    return groups


def _group_name(bindings: Mapping[str, Any]) -> str:
    return ", ".join(f"{path}={value}" for path, value in bindings.items() if path.rpartition(".")[2] != "seed")


def summary_lines(records: Sequence[RunRecord]) -> list[str]:
    """A few lines for people: what ran, what failed, what was violated, who died out."""
    failed = [record for record in records if record.error is not None]
    lines = [f"{counted(len(records), 'run')}, {len(failed)} with errors"]
    lines += [f"  run {record.index}: {record.error}" for record in failed[:ROWS_SHOWN]]
    violated = Counter(one[0] for record in records for one in record.violations)
    for name, count in violated.most_common(ROWS_SHOWN):
        first = next(record for record in records if any(one[0] == name for one in record.violations))
        one = next(one for one in first.violations if one[0] == name)
        lines.append(
            f"  property {name}: violated in {counted(count, 'run')}, first run {first.index} at tick {one[1]:,}"
        )
    groups = groups_of(records)
    for name, group in list(groups.items())[:ROWS_SHOWN]:
        of = f"{name}: " if name else ""
        lines += [
            f"  {of}{fate.species}: extinct in {fate.extinct} of {counted(fate.runs, 'run')} "
            f"({fate.extinction_probability:.0%})"
            for fate in survival_of(group)
        ]
    if len(groups) > ROWS_SHOWN:
        lines.append(f"  and {len(groups) - ROWS_SHOWN} more combinations: see the manifest")
    return lines


def draw_survival(records: Sequence[RunRecord], target: Path) -> bool:
    """Draw survival curves, one panel a species, one line a combination; False if there is nothing to draw.

    Raises ImportError without matplotlib, OSError.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, and slow to import.

    curves = {name: survival_of(group) for name, group in groups_of(records).items()}
    species = list(dict.fromkeys(one.species for found in curves.values() for one in found))
    if not species:
        return False
    last_tick = max(record.final_tick for record in records)
    figure = Figure(figsize=(8, 2 + 1.8 * len(species)), layout="constrained")
    panels = figure.subplots(len(species), 1, sharex=True, squeeze=False)[:, 0]
    for panel, name in zip(panels, species, strict=True):
        for group, found in curves.items():
            one = next((one for one in found if one.species == name), None)
            if one is not None:
                ticks, shares = [*(t for t, _ in one.curve), last_tick], [*(s for _, s in one.curve), one.curve[-1][1]]
                panel.step(ticks, shares, where="post", label=group or "all runs")
        panel.set(ylim=(-0.05, 1.05), ylabel="share alive", title=name)
    panels[-1].set_xlabel("tick")
    if len(curves) > 1 and len(curves) <= ROWS_SHOWN:
        panels[0].legend(fontsize="small")
    picture = io.BytesIO()
    figure.savefig(picture, format=target.suffix.removeprefix("."))
    write_file(target, picture.getvalue(), existing="replace")
    return True
