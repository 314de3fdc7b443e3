"""The other process of ``replay explain``: it has an environment, or a version of the code, of its own.

It reads a job, plain data in a file, makes the simulation, does the job and writes the result, plain data too. Jobs:
"verify" finds the first bad tick, "state" makes the state at a tick, "trace" runs one traced step.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from recorder.environment import describe_environment
from recorder.errors import RecordingError
from recorder.factories import Factory, load_factory
from replayer.cursor import Cursor, MismatchError
from replayer.desync.ledger import snapshot_from_plain, snapshot_to_plain
from replayer.desync.tracing import trace_step
from replayer.intervals import list_intervals, run_intervals
from replayer.tape import Tape
from replayer.worlds import make_simulation
from sim.kernel.registry import ConfigError, UnknownWorldError

RUN_UP_S_MAX = 30.0  # For a used instance: how long it may run up to the tick.


def main(job_path: str) -> None:
    """Do the job of that file; the result goes beside it, with .result behind its name."""
    answers = os.dup(1)
    os.dup2(2, 1)  # What the simulation prints is no part of ours.
    job = msgpack.unpackb(Path(job_path).read_bytes(), strict_map_key=False)
    try:
        result = _do(job, answers)
    except (RecordingError, ConfigError, UnknownWorldError, ValueError, MismatchError, OSError) as error:
        result = {"error": " ".join(str(error).split()) or type(error).__name__}
    Path(f"{job_path}.result").write_bytes(msgpack.packb(result))


def _do(job: dict[str, Any], answers: int) -> dict[str, Any]:
    _use_code(job["code"])
    factory: Factory | None = load_factory(job["sim"]) if job["sim"] is not None else None
    with Tape(job["tape"]) as tape:
        match job["what"]:
            case "verify":
                result = _verify(tape, factory, answers)
            case "state":
                cursor = Cursor(tape, make_simulation(tape, factory))
                cursor.seek(job["tick"])
                result = {"state": snapshot_to_plain(cursor.state.snapshot())}
            case _:
                result = _trace(tape, factory, job)
    return result | {"environment": describe_environment(), "features": cpu_features()}


def _use_code(code: str | None) -> None:
    """Put the other version of the code in front, also of the worlds that ship here, if it has them."""
    if code is None:
        return
    sys.path[:0] = [code, str(Path.cwd())]  # The present folder is where --sim is looked for else, and comes second.
    worlds = Path(code) / "sim" / "worlds"
    if worlds.is_dir():
        import sim.worlds  # noqa: PLC0415 - only here: it must not be loaded before

        sim.worlds.__path__.insert(0, str(worlds))


def _verify(tape: Tape, factory: Factory | None, answers: int) -> dict[str, Any]:
    intervals = list_intervals(tape)
    done, total = 0, max(1, tape.last_tick - tape.first_tick)

    def tell(ahead: int) -> None:
        os.write(answers, f"{min(1.0, (done + ahead) / total)}\n".encode())

    for result in run_intervals(tape, factory, intervals, 1, tell):
        if result.bad_tick is not None:
            return {"first_bad": result.bad_tick}
        done += result.interval.final_tick - result.interval.place.tick
    return {"first_bad": None}


def _trace(tape: Tape, factory: Factory | None, job: dict[str, Any]) -> dict[str, Any]:
    before, tick = snapshot_from_plain(job["before"]), job["tick"]
    cursor = Cursor(tape, make_simulation(tape, factory))
    if job["start"] is None:
        cursor.put(tick - 1, before)
    else:
        end_s = time.monotonic() + RUN_UP_S_MAX
        start = cursor.place_before(job["start"])
        while cursor.tick != tick - 1:
            cursor.advance()
            if time.monotonic() > end_s:
                return {"gave_up": f"running from tick {start:,} takes longer than {RUN_UP_S_MAX:.0f} s"}
    if cursor.state.hash() != before.hash():
        return {"gave_up": f"its state at tick {tick - 1:,} is not the recorded one"}
    return {"step": trace_step(cursor.simulation, tape.frame(tick).inputs).to_plain()}


def cpu_features() -> list[str]:
    """The processor features beyond the baseline that NumPy uses."""
    core = getattr(np, "_core", None) or np.core
    known = core._multiarray_umath  # noqa: SLF001 - NumPy tells it nowhere else as data
    return [name for name in known.__cpu_dispatch__ if known.__cpu_features__.get(name)]
