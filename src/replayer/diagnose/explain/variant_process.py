"""The other process of ``replay explain``: it has an environment, or a version of the code, of its own.

It reads a job, plain data in a file, makes the simulation, does the job and writes the result, plain data too. Jobs:
"verify" finds the first bad tick, "state" makes the state at a tick,
"trace" runs one traced step.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import msgpack

from recorder.errors import RecordingError
from recorder.factory_spec import Factory, load_factory
from recorder.processes.fork_call import in_a_copy
from recorder.processes.interpreter import begin_as_python
from replayer.desync.location import PhaseStep, watched_advance
from replayer.diagnose.explain.step_trace import snapshot_from_plain, snapshot_to_plain
from replayer.diagnose.explain.trace_step import TracedStep, trace_step
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.intervals import list_intervals, run_intervals
from sim.kernel.hooks import HasPhases, hook
from sim.kernel.registry import ConfigError, UnknownWorldError
from sim.kernel.state import Snapshot

RUN_UP_S_MAX = 30.0  # For a used instance: how long it may run up to the tick.


def main() -> None:
    """Do the job in the file that is named on stdin; the result goes beside it, with .result behind its name."""
    begin_as_python()
    job_path = sys.stdin.readline().rstrip("\n")
    if not job_path:
        return  # Whoever started this process has no job for it.
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
        if job["code"] is not None:
            _ensure_used(job["code"], tape, factory)
        match job["what"]:
            case "verify":
                result = _verify(tape, factory, answers)
            case "state":
                cursor = Cursor(tape, make_simulation(tape, factory))
                cursor.seek(job["tick"])
                result = {"state": snapshot_to_plain(cursor.state.snapshot())}
            case _:
                result = _trace(tape, factory, job)
    return result


def _use_code(code: str | None) -> None:
    """Put the other version of the code in front, also of the worlds that ship here, if it has them."""
    if code is None:
        return
    sys.path[:0] = [code, str(Path.cwd())]  # The present folder is where --sim is looked for else, and comes second.
    worlds = Path(code) / "sim" / "worlds"
    if worlds.is_dir():
        import sim.worlds  # noqa: PLC0415 - only here: it must not be loaded before

        sim.worlds.__path__.insert(0, str(worlds))


def _ensure_used(code: str, tape: Tape, factory: Factory | None) -> None:
    """Raise ValueError if no module comes from the other version of the code: the present one would be run for it."""

    def look() -> dict[str, Any]:  # In a copy: this process is to make its simulations as that of another variant does.
        make_simulation(tape, factory)
        modules = list(sys.modules.items())
        return {"used": any(_is_from(Path(code), name, getattr(module, "__file__", None)) for name, module in modules)}

    if not in_a_copy(look)["used"]:
        raise ValueError("no module of the simulation is there, so that the present code would be run")


def _is_from(folder: Path, name: str, file: Any) -> bool:
    """Whether a module was found because of a folder in sys.path, and not anywhere below it."""
    if not isinstance(file, str):
        return False
    path = Path(file)
    place = path.parent if path.stem == "__init__" else path.with_name(path.name.partition(".")[0])
    return place.resolve() == folder.resolve().joinpath(*name.split("."))


def _verify(tape: Tape, factory: Factory | None, answers: int) -> dict[str, Any]:
    intervals = list_intervals(tape)
    done, total = 0, max(1, tape.last_tick - tape.first_tick)

    def tell(ahead: int) -> None:
        os.write(answers, f"{min(1.0, (done + ahead) / total)}\n".encode())

    problems: list[str] = []
    for result in run_intervals(tape, factory, intervals, 1, tell):
        problems += [str(problem) for problem in (result.keyframe_problem, result.problem) if problem is not None]
        if result.bad_tick is not None:
            return {"first_bad": result.bad_tick, "problems": problems}
        done += result.interval.final_tick - result.interval.place.tick
    return {"first_bad": None, "problems": problems}


def _trace(tape: Tape, factory: Factory | None, job: dict[str, Any]) -> dict[str, Any]:
    """Run the step on instances that start at these ticks (None: a fresh one), each in a copy of this process."""
    recorded_hash, found = tape.state_hash(job["tick"]), []
    for start in job["starts"]:
        result = in_a_copy(partial(_trace_one, tape, factory, job, start))
        found.append([start, result])
        hashes = [one["hash"] for _, one in found if "step" in one]
        if recorded_hash in hashes and len(set(hashes)) > 1:
            break  # One is right and one is not: that is what they are run for.
    return {"steps": found}


def _trace_one(tape: Tape, factory: Factory | None, job: dict[str, Any], start: int | None) -> dict[str, Any]:
    before, tick = snapshot_from_plain(job["before"]), job["tick"]
    cursor = Cursor(tape, make_simulation(tape, factory))
    try:
        if start is None:
            cursor.put(tick - 1, before)
        else:
            end_s = time.monotonic() + RUN_UP_S_MAX
            cursor.put(start, tape.snapshot(next(place for place in tape.keyframes if place.tick == start)))
            while cursor.tick != tick - 1:
                cursor.advance()
                if time.monotonic() > end_s:
                    return {"gave_up": f"running up to tick {tick:,} takes longer than {RUN_UP_S_MAX:.0f} s"}
    except RecordingError as error:
        return {"gave_up": " ".join(str(error).split())}
    if cursor.state.hash() != before.hash():
        return {"gave_up": f"its state at tick {tick - 1:,} is not the recorded one"}
    step = trace_step(cursor.simulation, tape.frame(tick).inputs)
    step = attrs.evolve(step, phases=_phases(cursor, before, step))
    return {"step": step.to_plain(), "hash": step.state.hash() if step.state is not None else None}


def _phases(cursor: Cursor, before: Snapshot, step: TracedStep) -> list[PhaseStep]:
    """What the phases of the step do, in a copy of this process; nothing if watching them changes what it gives."""
    with_phases = hook(cursor.simulation, HasPhases)
    if step.state is None or with_phases is None or not with_phases.phases:
        return []

    def watch() -> dict[str, Any]:
        steps = watched_advance(cursor, before)
        return {"phases": [list(attrs.astuple(phase)) for phase in steps], "hash": cursor.state.hash()}

    watched = in_a_copy(watch)
    return [PhaseStep(*parts) for parts in watched["phases"]] if watched["hash"] == step.state.hash() else []


if __name__ == "__main__":
    main()
