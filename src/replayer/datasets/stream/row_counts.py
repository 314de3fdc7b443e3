"""The number of rows of parts, where the facts about the tapes decide it and nothing has to be simulated."""

from __future__ import annotations

from collections.abc import Sequence

from replayer.datasets.plan import DatasetPart, TapeInput, open_source
from replayer.datasets.task import Task
from replayer.datasets.transitions.transition_rows import TRANSITIONS


def rows_of_parts(task: Task, parts: Sequence[DatasetPart]) -> int | None:
    """Return the number of rows; None if it is unknown.

    It is unknown if a tape is damaged or lacks ticks, if the inputs decide which agents have pairs, and of the
    transitions of several agents or environments.
    """
    if not all(_is_complete(task.sources[number]) for number in sorted({part.source for part in parts})):
        return None
    counts = [_rows_of_part(task, part) for part in parts]
    return None if None in counts else sum(count for count in counts if count is not None)


def _is_complete(source: TapeInput) -> bool:
    if source.status == "corrupt":
        return False
    with open_source(source) as tape:
        return not tape.missing_ticks()


def _rows_of_part(task: Task, part: DatasetPart) -> int | None:
    if task.tables == ("states",):
        return len(part.ticks)
    if task.tables == (TRANSITIONS,):
        return _transitions(task, part)
    if task.request.mode == "inputs":
        return None
    samples = len(part.ticks) + (part.then is not None)
    return (samples - 1) * len(task.agents[part.source])


def _transitions(task: Task, part: DatasetPart) -> int | None:
    facts = task.environments[part.source]
    if facts.kind != "single" or facts.lost:
        return None
    begins = [episode.first_tick for episode in facts.episodes]
    if not begins:
        return 0
    steps = range(max(part.ticks.start, begins[0]) + 1, part.last + 1)
    return len(steps) - len({tick for tick in (*begins, *facts.raised) if tick in steps})
