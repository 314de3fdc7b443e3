"""One process of ``replay certify``: verify a tape in the environment of this process and print the result.

``python -P -m replayer.diagnose.certify.cell_process TAPE SIM [TICK]``, where SIM is module:factory or empty. TAPE is a path,
or "-" if a pickled TapeUrl is on standard input. One JSON
object is written to standard output. Without TICK, the complete tape is verified. With TICK, the process seeks that
tick and prints the hash of each field.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import RecordingError, SimulationFailedError
from recorder.exception_text import comparable_error
from recorder.factory_spec import load_factory
from recorder.location.tape_location import Location
from recorder.processes.fork_hazard import NewThreads
from recorder.processes.interpreter import answer_alone_on_stdout, begin_as_python, take_arguments
from replayer.desync.object_diff import named_fields
from replayer.diagnose.certify.arithmetic import describe_arithmetic
from replayer.diagnose.certify.matrix import FROM_STDIN
from replayer.playback.make_simulation import Factory
from replayer.tape.tape import Tape
from replayer.timeline.interval_processes import verify_each
from replayer.timeline.intervals import list_intervals
from replayer.timeline.timeline import Timeline
from replayer.timeline.verify import verify_tape
from sim.kernel.hashing import hash_field
from sim.kernel.registry import ConfigError, UnknownWorldError
from sim.kernel.state import Snapshot


def main(arguments: Sequence[str]) -> int:
    """Run the process; the exit code is 0 if a result was printed."""
    begin_as_python()
    threads = NewThreads()
    path, sim, *tick = arguments
    answer = answer_alone_on_stdout()
    location: Location = Path(path) if path != FROM_STDIN else ForkingPickler.loads(sys.stdin.buffer.read())
    facts = _facts(location, sim, int(tick[0]) if tick else None, threads)
    with answer:
        answer.write(json.dumps(facts).encode())
    return 0


def _facts(path: Location, sim: str, tick: int | None, threads: NewThreads) -> dict[str, Any]:
    try:
        factory = load_factory(sim) if sim else None
        facts = _verified(path, factory, threads) if tick is None else {"field_hashes": _hashes_at(path, factory, tick)}
    except SimulationFailedError as error:
        facts = {"failed": str(error), "first_bad": error.tick, "outcome": _outcome(path, factory, threads)}
    except (RecordingError, ConfigError, UnknownWorldError, ValueError, OSError) as error:
        facts = {"unfit": str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)}
    return facts | {"arithmetic": attrs.asdict(describe_arithmetic())}


def _verified(path: Location, factory: Factory | None, threads: NewThreads) -> dict[str, Any]:
    report = verify_tape(path, factory)
    finding = report.findings[0] if report.findings else None
    return {
        "status": report.status,
        "verified_ticks": report.verified_ticks,
        "tick_count": report.tick_count,
        "first_bad": report.first_bad,
        "problems": [str(problem) for problem in (*report.problems, *report.wrong_keyframes)],
        "unreached_ticks": [[range_.first_tick, range_.last_tick] for range_ in report.unreached],
        "bad_fields": finding.place.fields if finding else None,
        "phase": finding.place.phase if finding else None,
        "compared_tick": finding.compared_tick if finding else None,
        "compared_fields": named_fields(
            finding.compared_states, [difference.field for difference in finding.differences]
        )
        if finding
        else [],
        "field_hashes": field_hashes(finding.replayed) if finding else {},
        "note": finding.note if finding else None,
        "outcome": _outcome(path, factory, threads) if finding else f"{report.verified_ticks} ticks are the same",
    }


def field_hashes(snapshot: Snapshot) -> dict[str, str]:
    """The hash of each field in hexadecimal; row counts are included."""
    return {name: f"{hash_field(snapshot.arena, slot):016x}" for name, slot in snapshot.layout.slots.items()}


def _hashes_at(path: Location, factory: Factory | None, tick: int) -> dict[str, str]:
    with Timeline(path, factory) as run:
        run.seek(tick)
        return field_hashes(run.state.snapshot())


def _outcome(path: Location, factory: Factory | None, threads: NewThreads) -> str:
    """A digest of how each interval diverges from the tape; environments that compute alike give equal ones.

    threads: since the start of this process, which has made a simulation.
    """
    hazard = threads.hazard()
    results: list[Any] = []
    with Tape(path) as tape:
        intervals = list_intervals(tape)
        while len(results) < len(intervals):
            try:
                for result in verify_each(tape, factory, intervals[len(results) :], lambda _: None, hazard):
                    results.append((result.interval.place.tick, result.bad_tick, result.actual_hash))  # noqa: PERF401 - kept if the next one raises
            except SimulationFailedError as error:
                results.append((intervals[len(results)].place.tick, error.tick, comparable_error(error.why)))
    return hashlib.sha256(repr(results).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(take_arguments()))
