"""The process of one variant of ``replay explain``, with its own environment or version of the code.

It reads a job (plain data in a file), makes the simulation, does the job and writes the result (plain data as well).
The jobs: "verify" finds the first bad tick, "state" makes the state at a tick, "trace" runs one traced step, "give" runs it with
values of another instance, "order" goes through a set in fixed orders, "resume" resumes generators; OF_PROGRAM has further ones.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import msgpack

from recorder.ambient.outside.outside_read import OutsideRead
from recorder.ambient.outside.own_code import OwnCode
from recorder.errors import RecordingError
from recorder.exception_text import comparable_error
from recorder.factory_spec import Factory, load_factory
from recorder.processes.fork_call import in_a_copy
from recorder.processes.fork_hazard import NewThreads, fork_hazard
from recorder.processes.interpreter import begin_as_python, module_program
from replayer.desync.location import PhaseStep, watched_advance
from replayer.desync.ordered_threads import going_on
from replayer.desync.stand_ins import GIVEN_TIME, use_stand_ins
from replayer.diagnose.explain.data_files.exchanged_files import exchange_files
from replayer.diagnose.explain.given.give import give_from_the_other
from replayer.diagnose.explain.given.resumed import give_by_resuming
from replayer.diagnose.explain.outside.first_seeds import first_seeds
from replayer.diagnose.explain.outside.import_reads import noting_reads
from replayer.diagnose.explain.outside.told_counts import replace_reads
from replayer.diagnose.explain.trace_step import OTHER_THREADS, Result, TracedStep, trace_step, trace_step_in
from replayer.diagnose.explain.values.given_values import GivenValues
from replayer.diagnose.explain.values.joined import join_names, separate_names
from replayer.diagnose.explain.values.layouts import ORDERS, put_in_order
from replayer.diagnose.explain.values.loaded_lines import loaded_values
from replayer.diagnose.explain.values.process_settings import set_process_settings
from replayer.diagnose.explain.values.reloaded import not_given_back
from replayer.diagnose.explain.versions.mixed_source import load_mixed
from replayer.diagnose.explain.versions.step_with_functions import steps_with
from replayer.diagnose.explain.walked.walk_order import ordered_runs
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import import_adapters, make_simulation
from replayer.playback.work_tree import import_from_work_tree, is_module_of, is_used, use_common_name
from replayer.tape.plain_state import snapshot_from_plain, snapshot_to_plain
from replayer.tape.tape import Tape
from replayer.timeline.interval_processes import verify_each
from replayer.timeline.intervals import list_intervals
from sim.kernel.hooks import HasPhases, hook
from sim.kernel.registry import ConfigError, UnknownWorldError
from sim.kernel.simulation import Simulation
from sim.kernel.state import Snapshot

_imported: list[OutsideRead] = []  # What the user's modules read on import: variables, arguments.
Load = Callable[[], Factory | None]  # Imports the module of the factory, unless that was done.

_MODULE = "replayer.diagnose.explain.variant_process"
RUN_UP_S_MAX = 30.0  # The longest run of a used instance up to the tick.
NEVER_RESTORED_S_MAX = 10.0  # Of one that runs from tick 0, if others that run from keyframes can follow.


def main() -> None:
    """Do the job in the file that is named on stdin; the result is written to that name with .result appended."""
    begin_as_python()
    is_apart = len(sys.argv) > 1
    job_path = sys.argv[1] if is_apart else sys.stdin.readline().rstrip("\n")
    if not job_path:
        return  # The parent process has no job.
    answers = os.dup(1)
    os.dup2(2, 1)  # The prints of the simulation go to stderr.
    job = msgpack.unpackb(Path(job_path).read_bytes(), strict_map_key=False) | {"apart": is_apart}
    sys.argv[1:] = job.get("arguments", ())  # A step that reads it sees the same in each process of a variant.
    threads = NewThreads()

    def load() -> Factory | None:
        with noting_reads() as reads:
            factory = load_factory(job["sim"]) if job["sim"] is not None else None
        _imported.extend(reads)
        return factory

    try:
        if job.get("tree") is not None:
            checkout, tree, folders = job["tree"]
            import_from_work_tree(Path(checkout), Path(tree), folders)
            use_common_name(Path(tree))
        else:
            _use_code(job["code"])
        load_mixed(job["sources"])
        exchange_files([(path, other) for path, other in job["files"]])
        if not is_apart:
            load()
            if job["what"] == "trace" and (threads.hazard() or fork_hazard()) is not None:
                # The module itself started threads: copies of a process that has not imported it can import it.
                os.execv(sys.executable, [sys.executable, *module_program(_MODULE, [job_path])])  # noqa: S606
        result = _do(job, answers, load)
    except (RecordingError, ConfigError, UnknownWorldError, RuntimeError, ValueError, MismatchError, OSError) as error:
        result = {"error": " ".join(str(error).split()) or type(error).__name__}
    Path(f"{job_path}.result").write_bytes(msgpack.packb(result))


def _do(job: dict[str, Any], answers: int, load: Load) -> dict[str, Any]:
    with Tape(job["tape"]) as tape:
        import_adapters(tape)
        if job["code"] is not None:
            _ensure_used(job["code"], tape, load, is_tree=job.get("tree") is not None)
        match job["what"]:
            case "verify":
                result = _verify(tape, load(), answers)
            case "state":
                cursor = Cursor(tape, make_simulation(tape, load()))
                cursor.seek(job["tick"])
                result = {"state": snapshot_to_plain(cursor.state.snapshot())}
            case "give":
                result = _given(tape, job, load).to_plain()
            case "order":
                result = ordered_runs(*_before_step(tape, job, load))
            case "resume":
                result = give_by_resuming(load(), *_before_step(tape, job, load), job["words"]).to_plain()
            case "trace":
                result = _trace(tape, job, load)
            case what:  # Their import takes a sixth of the time in which such a process begins, and most of them trace.
                from replayer.diagnose.explain.other_values.program_jobs import OF_PROGRAM  # noqa: PLC0415

                _load_adapter(tape)
                result = OF_PROGRAM[what](tape, job, lambda: make_simulation(tape, load()))
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


def _ensure_used(code: str, tape: Tape, load: Load, *, is_tree: bool) -> None:
    """Raise ValueError if no module comes from the other version of the code: the present code would run instead."""

    def check() -> dict[str, Any]:  # In a copy: this process must make its simulations as other variants do.
        make_simulation(tape, load())
        if is_tree:
            return {"used": is_used(Path(code))}
        folder = os.path.realpath(code)
        modules = list(sys.modules.items())
        return {"used": any(is_module_of(folder, name, getattr(module, "__file__", None)) for name, module in modules)}

    if not in_a_copy(check)["used"]:
        raise ValueError("expected a module of the simulation in this folder, got none: the present code would run")


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


def _trace(tape: Tape, job: dict[str, Any], load: Load) -> dict[str, Any]:
    """Run the step on instances that start at these ticks (None: a fresh one), each in a copy of this process."""
    recorded_hash, steps = tape.state_hash(job["tick"]), []
    _load_adapter(tape)
    for start in job["starts"]:
        result: dict[str, Any] = (
            {"threads": True} if job["apart"] else in_a_copy(partial(_trace_one, tape, load, job, start))
        )
        if "threads" in result:
            result = _trace_apart(tape, load, job, start)
        if "each" in result:
            steps += [[start, one] for one in result["each"]]
            continue
        steps.append([start, result])
        if "step" in result:
            job["known"].append([result["hash"], comparable_error(result["step"]["raised"])])
        hashes = [step["hash"] for _, step in steps if "step" in step]
        if recorded_hash in hashes and len(set(hashes)) > 1:
            break  # One gives the recorded state and one does not: that is enough.
    return {"steps": steps, "imported": [read.to_plain() for read in _imported]}


def _given(tape: Tape, job: dict[str, Any], load: Load) -> GivenValues:
    """Put values of an instance into another one, and run the step there."""
    try:
        return give_from_the_other(load(), *_before_step(tape, job, load), job["words"])
    except (_NotReachedError, RuntimeError) as error:
        return GivenValues(why_not=str(error))


def _before_step(tape: Tape, job: dict[str, Any], load: Load) -> tuple[Any, list[int | None], Any]:
    """A function that makes an instance in the state before the step, of which copies can run it; the starts, and the inputs."""
    _load_adapter(tape)
    threads = NewThreads()

    def prepare(start: int | None) -> Simulation:
        simulation = _prepared(tape, load, job, start).simulation
        if (hazard := threads.hazard() or fork_hazard()) is not None:
            raise _NotReachedError(f"copies of the process would hang: {hazard} has been used in it")
        return simulation

    return prepare, job["starts"], tape.frame(job["tick"]).inputs


def _load_adapter(tape: Tape) -> None:
    """Load the modules that make the simulation of a recorded object once, and not in each copy of this process."""
    if tape.meta.get("adapter"):
        from sim.adapters.as_recorded import adapter_of_tape  # noqa: PLC0415 - other tapes do not need it
        from sim.adapters.interface.adapter_registry import NoAdapterError  # noqa: PLC0415

        with contextlib.suppress(NoAdapterError, TypeError):  # Raised again where the simulation is made.
            adapter_of_tape(tape.meta)


class _NotReachedError(Exception):
    """An instance does not reach the state before the step; the text gives the reason."""


def _trace_one(tape: Tape, load: Load, job: dict[str, Any], start: int | None) -> dict[str, Any]:
    """Trace the step in copies of this process, which makes the simulation; {"threads": …} if that started threads."""
    threads = NewThreads()
    try:
        cursor = _prepared(tape, load, job, start)
    except _NotReachedError as error:
        return {"gave_up": str(error)}
    if (hazard := threads.hazard() or fork_hazard()) is not None:
        return {"threads": hazard}
    if job["taken"]:
        here = partial(_with_simulation, cursor.simulation)
        made_with = partial(_with_new_simulation, tape, load, job, start)
        return {"each": steps_with(job["taken"], here, made_with, tape.frame(job["tick"]).inputs, job["known"])}
    before = snapshot_from_plain(job["before"])
    step = trace_step(cursor.simulation, tape.frame(job["tick"]).inputs, _known(job))
    if not step.is_traced:
        return _plain_of(step)
    lost = not_given_back(cursor.simulation, before) if start is None else []
    loaded = loaded_values(lambda: make_simulation(tape, load()), before) if start is None else []
    seeds = first_seeds(step, partial(_with_simulation, cursor.simulation), tape.frame(job["tick"]).inputs)
    phases = _phases(cursor, before, step)
    return _plain_of(attrs.evolve(step, phases=phases, not_given_back=lost, loaded=loaded, first_seeds=seeds))


def _with_simulation(simulation: Simulation, work: Callable[[Simulation], dict[str, Any]]) -> dict[str, Any]:
    return in_a_copy(partial(work, simulation))


def _with_new_simulation(
    tape: Tape,
    load: Load,
    job: dict[str, Any],
    start: int | None,
    change: Callable[[], bool],
    work: Callable[[Simulation], dict[str, Any]],
) -> dict[str, Any]:
    """See step_with_functions.RunMadeWith."""

    def whole() -> dict[str, Any]:
        try:
            return work(_prepared(tape, load, job, start).simulation) if change() else {}
        except _NotReachedError:
            return {}

    return in_a_copy(whole)


def _trace_apart(tape: Tape, load: Load, job: dict[str, Any], start: int | None) -> dict[str, Any]:
    """Trace the step in copies of this process that make the simulation, and so its threads, each for themselves."""
    threads = dict[str, None]()

    def run(work: Callable[[Simulation], dict[str, Any]]) -> dict[str, Any]:
        def whole() -> dict[str, Any]:
            try:
                cursor = _prepared(tape, load, job, start)
            except _NotReachedError as error:
                return {"gave_up": str(error)}
            return work(cursor.simulation) | {"going_on": going_on(OwnCode(cursor.simulation))}

        result = in_a_copy(whole)
        threads.update(dict.fromkeys(result.pop("going_on", ())))
        if "gave_up" in result:
            raise _NotReachedError(result["gave_up"])
        return result

    try:
        if job["taken"]:
            made_with = partial(_with_new_simulation, tape, load, job, start)
            return {"each": steps_with(job["taken"], run, made_with, tape.frame(job["tick"]).inputs, job["known"])}
        step = trace_step_in(run, tape.frame(job["tick"]).inputs, _known(job))
        step = attrs.evolve(step, first_seeds=first_seeds(step, run, tape.frame(job["tick"]).inputs))
    except _NotReachedError as error:
        return {"gave_up": str(error)}
    return _plain_of(attrs.evolve(step, note=step.note or OTHER_THREADS, going_on=list(threads)))


class _Everything(set[Result]):
    """Every result, for a variant of which no trace is needed."""

    def __contains__(self, _: object) -> bool:
        return True


def _known(job: dict[str, Any]) -> set[Result]:
    """The results of variants that were traced."""
    if job.get("stands_in") and job["number"] != GIVEN_TIME:
        return _Everything()
    return {(state_hash, raised) for state_hash, raised in job["known"]}


def _prepared(tape: Tape, load: Load, job: dict[str, Any], start: int | None) -> Cursor:
    """A simulation in the state before the step. Raises _NotReachedError."""
    before, tick = snapshot_from_plain(job["before"]), job["tick"]
    cursor = Cursor(tape, make_simulation(tape, load()))
    try:
        if start is None:
            cursor.put(tick - 1, before)
        else:
            # Those of an earlier keyframe can follow, and take less time.
            others = any(one is not None and one >= 0 for one in job["starts"])
            run_up_s = RUN_UP_S_MAX if start >= 0 or not others else NEVER_RESTORED_S_MAX
            end_s = time.monotonic() + run_up_s
            if start < 0:
                cursor.begin()
            else:
                cursor.put(start, tape.snapshot(next(place for place in tape.keyframes if place.tick == start)))
            while cursor.tick != tick - 1:
                cursor.advance()
                if time.monotonic() > end_s:
                    raise _NotReachedError(f"running up to tick {tick:,} takes longer than {run_up_s:.0f} s")
    except MismatchError as error:
        raise _NotReachedError("a new instance does not begin in the recorded state") from error
    except RecordingError as error:
        raise _NotReachedError(" ".join(str(error).split())) from error
    if cursor.state.hash() != before.hash():
        raise _NotReachedError(f"its state at tick {tick - 1:,} is not the recorded one")
    _change(cursor.simulation, job)
    return cursor


def _change(simulation: Simulation, job: dict[str, Any]) -> None:
    """Make the changes of the variant that is tested, before the step."""
    set_process_settings(job["settings"])
    if any(name in ORDERS for name in job["settings"]):
        put_in_order(simulation, job["settings"])
    if job["joined"]:
        join_names(simulation, [(first, second) for first, second in job["joined"]])
    if job["separated"]:
        separate_names(simulation, [(first, second) for first, second in job["separated"]])
    if "replaced" in job:
        replace_reads(job["replaced"], is_own := OwnCode(simulation))
        use_stand_ins(job["stands_in"], is_own, job["number"])


def _plain_of(step: TracedStep) -> dict[str, Any]:
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
