"""Verify many tapes: each short one by one worker, and the intervals of each long one by all workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import attrs

from recorder.location.tape_location import Location, tape_location
from recorder.processes.engines.engine import Engine, engine_pool
from recorder.processes.inline_pool import local_pool
from recorder.processes.pool import Outcome, Pool, Report
from replayer.playback.make_simulation import Factory
from replayer.tape.tape import Tape
from replayer.timeline.verify import VerificationReport, verify_tape

LONG_TICKS = 20_000  # Of a tape that is worth more than one worker: some seconds of most simulations.


@attrs.frozen(eq=False)
class VerifiedTape:
    """The verification of one of many tapes.

    Attributes:
        path: of the tape.
        report: None if there is an error.
        error: why the tape could not be verified, as verify_tape raises it; None if it was.
    """

    path: Location
    report: VerificationReport | None
    error: Exception | None

    @property
    def ok(self) -> bool:
        """True if every tick was re-simulated to its recorded hash, and nothing is damaged."""
        return self.report is not None and self.report.ok


def verify_tapes(
    paths: Iterable[str | os.PathLike[str]],
    world: Factory | None = None,
    *,
    jobs: int = 1,
    engine: str | Engine | None = None,
    pool: Pool | None = None,
    dump_folder: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[VerifiedTape]:
    """Verify tapes, at most jobs at a time; return the results in the order of the paths.

    engine, pool, dump_folder: see verify_tape. progress: called with the tapes done and all tapes.
    Raises ValueError if jobs is below 1, EngineError. What verify_tape raises for one tape is that tape's error.
    """
    if jobs < 1:
        raise ValueError(f"jobs: expected at least 1, got {jobs}")
    locations = [tape_location(path) for path in paths]
    work = partial(_verify_if_short, world, dump_folder.absolute() if dump_folder is not None else None)
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(locations))

    with engine_pool(engine, jobs if jobs > 1 else None, other=pool) as given:
        outcomes = _outcomes(given if given is not None else local_pool(jobs), work, locations, count)
        verified = []
        for index, path in enumerate(locations):
            report, error = outcomes[index].result, outcomes[index].error
            if report is None and error is None:
                try:
                    report = verify_tape(path, world, jobs=jobs, pool=given, dump_folder=dump_folder)
                except Exception as raised:  # noqa: BLE001 - it ends this tape, not the others
                    error = raised
                count()
            verified.append(VerifiedTape(path, report, error))
        return verified


def _outcomes(
    pool: Pool, work: partial[VerificationReport | None], paths: Sequence[Location], count: Callable[[], None]
) -> dict[int, Outcome[VerificationReport | None]]:
    """Of all tapes; a long one has neither a result nor an error. count: called for each of the others."""
    outcomes: dict[int, Outcome[VerificationReport | None]] = {}
    submission = pool.submit(work, [path.absolute() for path in paths], name=lambda path: f"verified {path}")
    try:
        for outcome in submission:
            outcomes[outcome.index] = outcome
            if outcome.result is not None or outcome.error is not None:
                count()
    finally:
        submission.cancel()
    return outcomes


def _verify_if_short(
    world: Factory | None, dump_folder: Path | None, path: Location, _: Report
) -> VerificationReport | None:
    """In a worker: verify a tape; None for a long one."""
    with Tape(path) as tape:
        if tape.keyframes and tape.last_tick - tape.first_tick > LONG_TICKS:
            return None
    return verify_tape(path, world, dump_folder=dump_folder)
