"""One process of a party: make its simulation, run the step to one tick, and report what it was made from.

``python -P -m replayer.diagnose.parties.party_process`` reads one job (plain data) from stdin and writes one answer.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import attrs
import msgpack

from recorder.ambient.outside.outside_read import OutsideRead
from recorder.ambient.outside.own_code import is_users_file
from recorder.ambient.outside.read_watch import ReadWatch
from recorder.errors import RecordingError
from recorder.exception_text import raised_text
from recorder.factory_spec import Factory, load_factory
from recorder.processes.fork_call import in_a_copy
from recorder.processes.fork_hazard import NewThreads
from recorder.processes.interpreter import answer_alone_on_stdout, begin_as_python
from recorder.text import shown_path
from replayer.diagnose.parties.constructor import ConstructorWatch, replace_arguments
from replayer.diagnose.parties.given_files import GivenFiles, read_files
from replayer.diagnose.parties.given_modules import origin_of, use_modules
from replayer.diagnose.parties.party import Made
from replayer.diagnose.parties.set_values.module_values import module_values, put_values
from replayer.diagnose.parties.set_values.set_lines import SetLines
from replayer.diagnose.parties.set_values.set_settings import generators_here, put_settings, settings_here
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import import_adapters, make_simulation
from replayer.playback.work_tree import OUR_PACKAGES, import_from_work_tree
from replayer.tape.plain_state import snapshot_from_plain, snapshot_to_plain
from replayer.tape.tape import Tape
from sim.kernel.registry import ConfigError, UnknownWorldError, find_world
from sim.kernel.simulation import Simulation, subject_of
from sim.kernel.state import Snapshot

RUN_UP_S_MAX = 30.0  # The longest run of an instance up to the tick.
EXPECTED = (RecordingError, ConfigError, UnknownWorldError, ValueError, OSError)
_MAIN = ("__main__", "__mp_main__")  # The second name is that of a process of multiprocessing.
_EARLY = sorted({name.partition(".")[0] for name in sys.modules})


def main() -> None:
    """Do the job; the exit code is 0 if an answer was written."""
    begin_as_python()
    job = msgpack.unpackb(sys.stdin.buffer.read(), strict_map_key=False)
    answer = answer_alone_on_stdout()
    try:
        result = _done(job)
    except (*EXPECTED, RuntimeError) as error:  # RuntimeError: a copy of the process died.
        result = {"error": _text(error)}
    with answer:
        answer.write(msgpack.packb(result))


def _done(job: dict[str, Any]) -> dict[str, Any]:
    _use_modules(job)
    files, imports = GivenFiles(job["files"]), ReadWatch(is_users_file)
    files.use()  # Before the import: modules read files, too.
    factory: Factory | None = None
    setting = SetLines(*job["watched"])
    if job["sim"] is not None:
        with imports.watching(functions=False), setting:
            factory = load_factory(job["sim"])
    with Tape(job["tape"]) as tape, Tape(job["frames"]) as frames:
        import_adapters(tape)
        if factory is None and job["config"]:
            factory = _configured(tape, job["config"])
        if job["arguments"]:
            replace_arguments(job["class_name"], job["arguments"])
        given = job["settings"], job["values"], job["traces"]
        side = _Side(tape, frames, factory, job["tick"], NewThreads(), files, imports.reads, setting, *given)
        if job["tick"] == tape.first_tick:
            return {"runs": [side.beginning()]}
        before = snapshot_from_plain(job["before"]) if job["before"] is not None else side.state_before()
        runs = [side.run(before, start) for start in job["starts"]]
        answer: dict[str, Any] = {"before": snapshot_to_plain(before), "runs": runs}
        if job["traces"]:
            expected = frames.state_hash(job["tick"])
            right = [run["start"] for run in runs if run.get("hash") == expected]
            answer["trace"] = side.trace(before, right[0] if right else None)
        return answer


def _use_modules(job: dict[str, Any]) -> None:
    """Arrange the module path: the party's folders, then the current one, in which --sim is searched."""
    here, front = str(Path.cwd()), len(job["links"]) + len(job["paths"])
    if job["work_tree"] is not None:
        checkout, tree, folders = job["work_tree"]
        import_from_work_tree(Path(checkout), Path(tree), folders)
    elif here not in sys.path:
        sys.path.insert(front, here)
    use_modules(job["modules"], job["lent"], job["hidden"])


def _configured(tape: Tape, changes: dict[str, Any]) -> Factory:
    match tape.meta.get("world"):
        case {"name": str(name), "config": dict(config)}:
            return partial(find_world(name).make, {**config, **changes})
    raise ValueError("the tape has no configuration of a registered world")


@attrs.frozen(eq=False)
class _Side:
    """The tape that the simulation is made for, the tape with the inputs, and the tick to explain."""

    tape: Tape
    frames: Tape
    factory: Factory | None
    tick: int
    threads: NewThreads
    files: GivenFiles
    read_at_import: list[OutsideRead]
    setting: SetLines
    settings: dict[str, Any]
    values: dict[str, str]
    notes_values: bool

    def state_before(self) -> Snapshot:
        """The state at the tick before, with the recorded hash. Raises as Cursor.seek."""
        place = self.tape.keyframe_at(self.tick - 1)
        if place is not None:
            return self.tape.snapshot(place)

        def seek() -> dict[str, Any]:
            cursor = Cursor(self.tape, make_simulation(self.tape, self.factory))
            try:
                cursor.seek(self.tick - 1)
            except MismatchError:
                return {"error": f"it does not give the recorded state of tick {self.tick - 1:,}"}
            return {"state": snapshot_to_plain(cursor.state.snapshot())}

        return snapshot_from_plain(_copied(seek)["state"])

    def beginning(self) -> dict[str, Any]:
        """The state of the simulation as it is made."""

        def make() -> dict[str, Any]:
            simulation, made = self._made()
            self._ensure_opened()
            return {"start": None, "hash": simulation.state.hash(), "made": attrs.asdict(made), "raised": None}

        return _copied(make)

    def run(self, before: Snapshot, start: int | None) -> dict[str, Any]:
        """Run the step, untraced, on an instance that ran from the tick start; None: one that is put before it."""

        def step() -> dict[str, Any]:
            reads = ReadWatch(is_users_file)
            with reads.watching(functions=False):
                cursor, made, why = self._placed(before, start)
                if cursor is None:
                    return {"start": start, "gave_up": why}
                raised = None
                try:
                    cursor.simulation.step(self.frames.frame(self.tick).inputs)
                except Exception as error:  # noqa: BLE001 - the error of a step is part of its result
                    raised = raised_text("the step", error)
            self._ensure_opened()
            drawn = [name for name, state in generators_here().items() if made.settings.get(name, state) != state]
            made = attrs.evolve(made, drawn=drawn)
            made = made.with_files(read_files(reads.reads), "step").with_variables(reads.reads, "step")
            state_hash = cursor.state.hash() if raised is None else None
            made = attrs.evolve(made, modules=_modules(), versions=_versions(_modules()))  # Steps import, too.
            return {"start": start, "hash": state_hash, "raised": raised, "made": attrs.asdict(made)}

        return _copied(step)

    def trace(self, before: Snapshot, start: int | None) -> dict[str, Any]:
        """The traced step, as plain data, with the start of its instance."""

        def step() -> dict[str, Any]:
            cursor, _, why = self._placed(before, start)
            if cursor is None:
                return {"why": why}
            if (hazard := self.threads.hazard()) is not None:
                return {"why": f"a step is traced in a copy of its process, and {hazard} cannot be copied"}
            from replayer.diagnose.explain.trace_step import trace_step  # noqa: PLC0415 - most processes trace nothing

            return {"step": trace_step(cursor.simulation, self.frames.frame(self.tick).inputs).to_plain()}

        return _copied(step) | {"start": start}

    def _placed(self, before: Snapshot, start: int | None) -> tuple[Cursor | None, Made, str]:
        """A fresh simulation in the state before the tick; without a cursor, why it could not be brought there."""
        simulation, made = self._made()
        cursor = Cursor(self.frames, simulation)
        try:
            if start is None:
                cursor.put(self.tick - 1, before)
            else:
                end_s = time.monotonic() + RUN_UP_S_MAX
                cursor.place_before(start)
                while cursor.tick != self.tick - 1:
                    cursor.advance()
                    if time.monotonic() > end_s:
                        return None, made, f"running up to tick {self.tick:,} takes longer than {RUN_UP_S_MAX:.0f} s"
        except RecordingError as error:
            return None, made, " ".join(str(error).split())
        if cursor.state.hash() != before.hash():
            return None, made, f"its state at tick {self.tick - 1:,} is not the one on which both tapes agree"
        made = attrs.evolve(made, set_at=self.setting.places())
        put_settings(self.settings)
        put_values(self.values)
        if self.notes_values:
            made = attrs.evolve(made, settings=settings_here(), values=module_values(made.modules))
        return cursor, made, ""

    def _made(self) -> tuple[Simulation, Made]:
        reads, watch, factory = ReadWatch(is_users_file), ConstructorWatch(), self.factory

        def watched() -> Any:  # Not what adapts its result: a profile function makes that ten times slower.
            assert factory is not None
            with watch, self.setting:
                return factory()

        with reads.watching(functions=False):
            if callable(factory):
                simulation = make_simulation(self.tape, watched)
            else:
                with watch:
                    simulation = make_simulation(self.tape, factory)
        subject = subject_of(simulation)
        kind = type(subject)
        modules = _modules()
        made = Made(
            f"{kind.__module__}:{kind.__qualname__}",
            watch.arguments_of(subject),
            modules,
            _versions(modules),
            _EARLY,
            platform.python_version(),
        )
        for stage, own in (("import", self.read_at_import), ("construction", reads.reads)):
            made = made.with_files(read_files(own), stage).with_variables(own, stage)
        return simulation, attrs.evolve(made, given_at=watch.places_of(subject))

    def _ensure_opened(self) -> None:
        """Raise ValueError if a file was given in place of another that was not opened."""
        if unopened := self.files.unopened():
            raise ValueError(
                f"{shown_path(unopened[0])} was not opened by Python code, so that no other one can be given"
            )


def _copied(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what work returns in a copy of this process. Raises ValueError with the text of an error."""

    def guarded() -> dict[str, Any]:
        try:
            return work()
        except EXPECTED as error:
            return {"error": _text(error)}

    result = in_a_copy(guarded)
    if "error" in result:
        raise ValueError(result["error"])
    return result


def _text(error: BaseException) -> str:
    why = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(why.split()) or type(error).__name__


def _modules() -> dict[str, str]:
    """The files of all imported modules but those of Python and of this library."""
    paths = sysconfig.get_paths()
    packages = tuple(f"{paths[name]}/" for name in ("purelib", "platlib"))
    pythons = tuple(f"{paths[name]}/" for name in ("stdlib", "platstdlib"))
    found = {}
    for name, module in list(sys.modules.items()):
        # A file that is given in place of another one has the other one's name.
        file = origin_of(module) or getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] in OUR_PACKAGES or name in _MAIN:
            continue
        if not file.startswith(pythons) or file.startswith(packages):
            found[name] = file
    return found


def _versions(modules: Mapping[str, str]) -> dict[str, str]:
    """The versions of outermost modules, as they or their metadata state them."""
    found = {}
    for name in {name.partition(".")[0] for name in modules}:
        stated = vars(sys.modules[name]).get("__version__") if name in sys.modules else None
        if not isinstance(stated, str):
            try:
                stated = version(name)
            except (PackageNotFoundError, ValueError):
                continue
        if isinstance(stated, str):
            found[name] = stated
    return found


if __name__ == "__main__":
    main()
