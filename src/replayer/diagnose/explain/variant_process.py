"""The process of one variant of ``replay explain``, with its own environment or version of the code.

It reads a job (plain data in a file), makes the simulation, does the job and writes the result (plain data as well).
The jobs: "verify" finds the first bad tick, "state" makes the state at a tick, "trace" runs one traced step.
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
from recorder.processes.fork_hazard import NewThreads
from recorder.processes.interpreter import begin_as_python
from replayer.desync.location import PhaseStep, watched_advance
from replayer.diagnose.explain.step_trace import snapshot_from_plain, snapshot_to_plain
from replayer.diagnose.explain.trace_step import TracedStep, trace_step
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.interval_processes import verify_each
from replayer.timeline.intervals import list_intervals
from sim.kernel.hooks import HasPhases, hook
from sim.kernel.registry import ConfigError, UnknownWorldError
from sim.kernel.state import Snapshot

RUN_UP_S_MAX = 30.0  # The longest run of a used instance up to the tick.


def main() -> None:
    """Do the job in the file that is named on stdin; the result is written to that name with .result appended."""
    begin_as_python()
    job_path = sys.stdin.readline().rstrip("\n")
    if not job_path:
        return  # The parent process has no job.
    answers = os.dup(1)
    os.dup2(2, 1)  # The prints of the simulation go to stderr.
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
    """Put the other version of the code in front, also of the shipped worlds, if it has them."""
    if code is None:
        return
    sys.path[:0] = [code, str(Path.cwd())]  # --sim is searched in the present folder as well, which comes second.
    worlds = Path(code) / "sim" / "worlds"
    if worlds.is_dir():
        import sim.worlds  # noqa: PLC0415 - only here: it must not be loaded before

        sim.worlds.__path__.insert(0, str(worlds))


def _ensure_used(code: str, tape: Tape, factory: Factory | None) -> None:
    """Raise ValueError if no module comes from the other version of the code: the present code would run instead."""

    def check() -> dict[str, Any]:  # In a copy: this process must make its simulations as other variants do.
        make_simulation(tape, factory)
        modules = list(sys.modules.items())
        return {"used": any(_is_from(Path(code), name, getattr(module, "__file__", None)) for name, module in modules)}

    if not in_a_copy(check)["used"]:
        raise ValueError("expected a module of the simulation in this folder, got none: the present code would run")


def _is_from(folder: Path, name: str, file: Any) -> bool:
    """Return True if a module was found through a folder in sys.path, not deeper below it."""
    if not isinstance(file, str):
        return False
    path = Path(file)
    place = path.parent if path.stem == "__init__" else path.with_name(path.name.partition(".")[0])
    return place.resolve() == folder.resolve().joinpath(*name.split("."))


def _verify(tape: Tape, factory: Factory | None, answers: int) -> dict[str, Any]:
    intervals = list_intervals(tape)
    done, total = 0, max(1, tape.last_tick - tape.first_tick)

    def on_progress(ahead: int) -> None:
        os.write(answers, f"{min(1.0, (done + ahead) / total)}\n".encode())

    problems: list[str] = []
    for result in verify_each(tape, factory, intervals, on_progress):
        problems += [str(problem) for problem in (result.keyframe_problem, result.problem) if problem is not None]
        if result.bad_tick is not None:
            return {"first_bad": result.bad_tick, "problems": problems}
        done += result.interval.final_tick - result.interval.place.tick
    return {"first_bad": None, "problems": problems}


def _trace(tape: Tape, factory: Factory | None, job: dict[str, Any]) -> dict[str, Any]:
    """Run the step on instances that start at these ticks (None: a fresh one), each in a copy of this process."""
    recorded_hash, steps = tape.state_hash(job["tick"]), []
    for start in job["starts"]:
        result = in_a_copy(partial(_trace_one, tape, factory, job, start))
        if "untraceable" in result:
            raise ValueError(result["untraceable"])
        steps.append([start, result])
        hashes = [step["hash"] for _, step in steps if "step" in step]
        if recorded_hash in hashes and len(set(hashes)) > 1:
            break  # One gives the recorded state and one does not: that is enough.
    return {"steps": steps}


def _trace_one(tape: Tape, factory: Factory | None, job: dict[str, Any], start: int | None) -> dict[str, Any]:
    before, tick, threads = snapshot_from_plain(job["before"]), job["tick"], NewThreads()
    cursor = Cursor(tape, make_simulation(tape, factory))
    try:
        if start is None:
            cursor.put(tick - 1, before)
        else:
            end_s = time.monotonic() + RUN_UP_S_MAX
            if start < 0:
                cursor.begin()
            else:
                cursor.put(start, tape.snapshot(next(place for place in tape.keyframes if place.tick == start)))
            while cursor.tick != tick - 1:
                cursor.advance()
                if time.monotonic() > end_s:
                    return {"gave_up": f"running up to tick {tick:,} takes longer than {RUN_UP_S_MAX:.0f} s"}
    except MismatchError:
        return {"gave_up": "a new instance does not begin in the recorded state"}
    except RecordingError as error:
        return {"gave_up": " ".join(str(error).split())}
    if cursor.state.hash() != before.hash():
        return {"gave_up": f"its state at tick {tick - 1:,} is not the recorded one"}
    if (hazard := threads.hazard()) is not None:
        return {"untraceable": f"a step is traced in a copy of its process, and {hazard} cannot be copied"}
    step = trace_step(cursor.simulation, tape.frame(tick).inputs)
    step = attrs.evolve(step, phases=_phases(cursor, before, step))
    return {"step": step.to_plain(), "hash": step.state.hash() if step.state is not None else None}


def _phases(cursor: Cursor, before: Snapshot, step: TracedStep) -> list[PhaseStep]:
    """The effects of the step's phases, in a copy of this process; none if watching them changes the result."""
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
