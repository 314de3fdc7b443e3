"""Run the parts of an extraction in processes, several short ones in each.

Invariant: a part that is run after others in the same process gives what it gives in a process of its own. Each of its
states is proved by a hash; one that is not as recorded there is run once more, alone. Parts whose rows functions of the
user make, of which nothing is known, each have a process of their own. Which parts share one changes no byte of a file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from recorder.processes.pool import Pool, results_in_order
from replayer.datasets.parts.worker import PartRecord, do_parts
from replayer.datasets.plan import ENVIRONMENT_TAPES, TAPES_TOGETHER, DatasetPart
from replayer.datasets.task import Task

ENVIRONMENT_PARTS = 10  # Of environments together: to start a process takes as long as thousands of their steps.
LONGER_S = 10.0  # Of batches of environments, if there is one process: this much is lost if it is killed.
ROUNDS = 4  # Of batches for each process, where there is work for that: so all of them end at about the same time.

EnsureColumns = Callable[[str, Mapping[str, Mapping[str, Any]]], None]


def run_parts(
    task: Task,
    parts: Sequence[DatasetPart],
    done: dict[int, PartRecord],
    keep: Callable[[PartRecord], None],
    pool: Pool,
    jobs: int | None,
    progress: Callable[[int, int], None] | None,
    ensure_columns: EnsureColumns | None,
) -> list[PartRecord]:
    """Run the parts that are not done; return the records of all.

    done: records by number, to which the others are added. keep: called with each of these. jobs: the processes of the
    pool; None if they are not known. progress: called with the ticks done and all ticks. ensure_columns: called with each table and its columns, to refuse them.
    """
    waiting = [part for part in parts if part.number not in done]
    total = _ticks(parts)
    finished = total - _ticks(waiting)

    def report_progress(ahead: int) -> None:
        if progress is not None:
            progress(min(total, finished + ahead), total)

    def run(batches: Sequence[Sequence[DatasetPart]]) -> Iterator[list[PartRecord]]:
        return results_in_order(
            pool, partial(do_parts, task), batches, name=partial(_name, task), size=_ticks, on_progress=report_progress
        )

    def take(batches: Sequence[Sequence[DatasetPart]]) -> None:
        nonlocal finished
        for batch, records in zip(batches, run(batches), strict=True):
            for number, (part, first) in enumerate(zip(batch, records, strict=True)):
                record = first
                if number and any(missing.is_desync for missing in first.missing):
                    (record,) = next(run([[part]]))
                for table, columns in record.columns.items():
                    if ensure_columns is not None:
                        ensure_columns(table, columns)
                keep(record)
                done[record.number] = record
            finished += _ticks(batch)
            report_progress(0)

    batches = part_batches(task, waiting, jobs)
    if jobs == 1 and len(batches) > 2 and len(batches[0]) > 1:
        start_s = time.monotonic()
        take(batches[:1])
        times = max(1.0, LONGER_S / max(time.monotonic() - start_s, 1e-9))
        batches = part_batches(task, [part for batch in batches[1:] for part in batch], jobs, times)
    take(batches)
    return [done[part.number] for part in parts]


def _ticks(parts: Sequence[DatasetPart]) -> int:
    return sum(part.last - part.first + 1 for part in parts)


def _name(task: Task, parts: Sequence[DatasetPart]) -> str:
    first, last = parts[0], parts[-1]
    if first.source == last.source:
        return f"extracted ticks {first.first} to {last.last} of {task.sources[first.source].name}"
    return f"extracted {task.sources[first.source].name} to {task.sources[last.source].name}"


def part_batches(
    task: Task, parts: Sequence[DatasetPart], jobs: int | None, times: float = 1.0
) -> list[list[DatasetPart]]:
    """The parts that are run by one process, one after the other: as much work as a full part, but work for all processes.

    Of environments as much as several full parts. jobs: the number of processes, if it is known. times: so many times as much work.
    """
    request = task.request
    kinds = {facts.kind for facts in task.environments}
    has_functions = any(":" in str(one) for one in [*request.observations, *request.rewards, *task.encodings])
    if has_functions or request.agent_functions or request.info or "agents" in kinds or task.has_agent_actions:
        return [[part] for part in parts]
    is_of_environments = bool(kinds) and task.tables == task.settled_tables
    parts_max = times * (ENVIRONMENT_TAPES if is_of_environments else TAPES_TOGETHER)
    share_max = times * (ENVIRONMENT_PARTS if is_of_environments else 1)
    if jobs is not None and jobs > 1:
        total = sum(part.share for part in parts)
        share_max = min(share_max, max(total / (jobs * ROUNDS), min(1.0, total / jobs)))
    batches: list[list[DatasetPart]] = []
    share = 0.0
    for part in parts:
        if not batches or len(batches[-1]) >= parts_max or share + part.share / 2 > share_max:  # To the nearest part.
            batches.append([])
            share = 0.0
        batches[-1].append(part)
        share += part.share
    return batches
