"""An undeclared write of a phase is reported with tick, phase, field and source line."""

from __future__ import annotations

import ctypes
import json
import re
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import recorder.commands.main
import replayer.commands.main
from recorder import Recorder
from recorder.factory_spec import load_factory
from replayer.diagnose.write_contracts.guarded_replay import check_contracts
from replayer.diagnose.write_contracts.write_guard import UndeclaredWriteError, WriteContractError, guarded
from sim import Field, Phase, Schema, State, Table, run_phases
from sim.kernel.registry import find_world
from sim.scenario.scenario_file import load_scenario

from oracle.command_lines import TINY, assert_one_line, run
from project_paths import SOURCES
from small_worlds import Saved, Walkers

pytestmark = pytest.mark.share(0.18)

GUILTY_TICK = 23

WORLD = '''
import contextlib
import ctypes

import numpy as np

from sim import Blob, Field, Phase, Schema, State, Table, run_phases


class World:
    """Phase grow writes x and its table, phase guard writes seen only; in tick 23 it makes an undeclared write."""

    def __init__(self):
        self.state = State(Schema(
            Field("tick", "i8"), Field("seen", "i8"), Field("spare", "i8"), Field("x", "i8", (12,)), Field("grid", "f8", (3, 4)),
            Table("rows", Field("a", "i8"), Field("b", "f4", (2,)), capacity=4), Table("other", Field("c", "i4")),
            Blob("diary", capacity=8)))
        self.state.add_rows("rows", 3)
        self.state.add_rows("other", 2)
        self.state.set_blob("diary", b"day one")
        self.state["x"][:] = np.arange(12)
        self.phases = (
            Phase("grow", self.grow, {"tick", "x", "rows", "spare"}),
            Phase("guard", self.guard, {"seen"}),
        )

    def step(self, inputs):
        run_phases(self.phases, inputs)

    def grow(self, inputs):
        self.state["tick"][()] += 1
        self.state["x"][:] += 1
        if self.state["tick"] % 5 == 0:
            self.state.add_rows("rows", 2)
        self.state["rows.a"][:] += 1
        self.kept = self.state["x"][2:5]

    def guard(self, inputs):
        state = self.state
        state["seen"][()] = state["x"].sum()
        if state["tick"] == 23:
            self.misbehave(state)

    def misbehave(self, state):
        x, grid = state["x"], state["grid"]
        LINE
'''

PLANTED: dict[str, tuple[str, str]] = {
    "a slice": ("x[3:5] = 7", "x"),
    "one element": ("x[0] = 7", "x"),
    "a mask": ("x[x > 4] = 0", "x"),
    "rows by number": ("grid[[0, 2]] = 1.5", "grid"),
    "in place": ("grid += 0.5", "grid"),
    "out": ("np.add(x, 1, out=x)", "x"),
    "a ufunc with where": ("np.negative(grid, out=grid, where=grid == 0)", "grid"),
    "a view of a view": ("x[::-1][2:9].reshape(7)[1] = 4", "x"),
    "other dtype": ("x.view('u1')[8] = 250", "x"),
    "np.add.at": ("np.add.at(x, [1, 1, 3], 2)", "x"),
    "np.put": ("np.put(x, [2], [99])", "x"),
    "np.copyto": ("np.copyto(grid, 3.0)", "grid"),
    "fill": ("grid.fill(2)", "grid"),
    "sort": ("x[::-1].sort()", "x"),
    "shuffle": ("np.random.Generator(np.random.PCG64(1)).shuffle(x)", "x"),
    "flat": ("grid.flat[5] = 1", "grid"),
    "state.set": ("state.set('grid', 0, 9.0)", "grid"),
    "a mark only": ("state.mark('grid', [1])", "grid"),
    "an equal value": ("x[:] = x", "x"),
    "a column": ("state['rows.b'][1] = 2.5", "rows.b"),
    "more rows": ("state.add_rows('rows', 1)", "rows"),
    "so many rows that the table grows": ("state.add_rows('other', 500)", "other"),
    "fewer rows": ("state.truncate_rows('rows', 1)", "rows"),
    "a blob": ("state.set_blob('diary', b'another day')", "diary"),
    "the arena": ("state.arena[:] = 0", ""),
    "a slice that was kept": ("self.kept[1] = 7", "x"),
    "memory by address": ("ctypes.memset(x.ctypes.data, 5, 3)", "x"),
    "in a function": ("(lambda one: one.__setitem__(2, 8))(grid[0])", "grid"),
    "hidden by the simulation": ("with contextlib.suppress(ValueError): x[1] = 5", "x"),
}
LINE = WORLD[: WORLD.index("LINE")].count("\n") + 1


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in its own folder, from which modules are imported again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("planted", None)
    return tmp_path


def record(path: str, simulation: Any, ticks: int = 40, **settings: Any) -> None:
    """Record a run without inputs."""
    with Recorder(path, simulation, keyframe_interval_ticks=16, **settings) as tape:
        for _ in range(ticks):
            tape.step()


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_write_is_named_at_its_line(name: str) -> None:
    """Tick, phase, field, file and line are right, and it is the only finding."""
    line, field = PLANTED[name]
    Path("planted.py").write_text(WORLD.replace("LINE", line))
    factory = load_factory("planted:World")
    record("a.tape", factory())
    report = check_contracts("a.tape", factory)
    [found] = report.violations[:1]

    assert (found.tick, found.phase) == (GUILTY_TICK, "guard")
    assert found.place == f"planted.py:{LINE}"
    if field:
        assert [violation.field for violation in report.violations] == [field]
    assert not report.ok
    assert (report.checked_ticks, report.first_bad, report.unreached) == (40, None, 0)


def test_more_than_twenty_ways_are_planted() -> None:
    """As many as promised, each of a different kind."""
    assert len({line for line, _ in PLANTED.values()}) >= 20


def test_the_command_prints_the_message_of_numpy(capsys: Any) -> None:
    """One line with tick, file, line and NumPy's message; exit code 1, and 0 for the correct one."""
    Path("planted.py").write_text(WORLD.replace("LINE", "x[3:5] = 7"))
    record("a.tape", load_factory("planted:World")())
    assert run(replayer.commands.main.main, "contracts a.tape --sim planted:World") == 1
    printed = capsys.readouterr().out

    assert "1 undeclared write; 40 ticks under 2 contracts (grow, guard)" in printed
    assert (
        f"  tick 23 planted.py:{LINE} assignment destination is read-only "
        "(phase guard, field x in World.misbehave)" in printed
    )

    sys.modules.pop("planted", None)
    Path("planted.py").write_text(WORLD.replace("LINE", "return"))
    record("b.tape", load_factory("planted:World")())
    assert run(replayer.commands.main.main, "contracts b.tape --sim planted:World --json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["ok"]
    assert facts["violations"] == []
    assert facts["unused"] == {"grow": ["spare"], "guard": []}
    assert facts["unrun"] == []


class Grazing:
    """Has no phases; declares the writes of its step, and writes y as well from tick 9 on."""

    writes = ("x", "herd.age")

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8", (4,)), Field("y", "i8"), Table("herd", Field("age", "i8"))))
        self.state.add_rows("herd", 3)

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["x"][:] += 1
        self.state["herd.age"][:] += 1
        if self.state["x"][0] >= 9:
            self.state["y"][()] += 1
        if self.state["x"][0] == 12:
            self.state.add_rows("herd", 1)


def test_a_simulation_without_phases_has_one_contract() -> None:
    """Its step is the phase; each field is named once, at its first tick, and a size counts separately."""
    record("a.tape", Grazing())
    report = check_contracts("a.tape", Grazing)

    assert [(found.tick, found.phase, found.field) for found in report.violations] == [
        (9, "step", "y"),
        (12, "step", "herd"),
    ]
    assert report.contracts == {"step": ["herd.age", "x"]}


class Half:
    """Two phases, one without a declaration; two undeclared writes in one line, and one outside the phases."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8"), Field("y", "i8"), Field("z", "i8")))
        self.phases = (Phase("first", self.first, {"z"}), Phase("free", self.free))

    def step(self, inputs: Any) -> None:
        self.state["y"][()] += 1
        run_phases(self.phases, inputs)

    def first(self, inputs: Any) -> None:  # noqa: ARG002
        for name in ("y", "z", "x"):
            self.state[name][()] += 1

    def free(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["x"][()] += 1


def test_a_phase_without_declaration_is_free_and_every_field_of_a_line_is_found() -> None:
    """Only phases with a declaration are guarded; one line that writes two fields gives two findings."""
    record("a.tape", Half())
    report = check_contracts("a.tape", Half)

    assert sorted((found.tick, found.phase, found.field or "") for found in report.violations) == [
        (1, "first", "x"),
        (1, "first", "y"),
    ]
    assert len({found.place for found in report.violations}) == 1
    assert report.contracts == {"step": None, "first": ["z"], "free": None}


class Aloof(Half):
    """Declares phases, and runs others."""

    def step(self, inputs: Any) -> None:
        self.first(inputs)


def test_declared_phases_that_never_run_are_reported() -> None:
    """A contract of a phase that never ran proves nothing."""
    record("a.tape", Aloof())
    report = check_contracts("a.tape", Aloof)

    assert report.unrun == ["first"]
    assert report.violations == []


def test_in_a_test_the_writing_line_raises() -> None:
    """guarded() raises where it happens, and leaves the simulation as it was."""
    simulation = Grazing()
    with guarded(simulation) as held:
        for _ in range(8):
            held.step(None)
        with pytest.raises(ValueError, match="read-only") as caught:
            held.step(None)
    assert caught.traceback[-1].frame.code.name == "step"
    simulation.step(None)
    simulation.state["y"][()] = 5
    simulation.state.add_rows("herd", 900)
    assert type(simulation.state) is State

    half = Half()
    before = half.phases
    with guarded(half) as held, pytest.raises(ValueError, match="read-only"):
        held.step(None)
    assert half.phases is before


def test_bytes_that_changed_despite_a_lock_raise_after_the_phase() -> None:
    """A write that no lock can catch is reported with phase and field."""

    class Keeps(Grazing):
        def __init__(self) -> None:
            super().__init__()
            self.address = self.state["y"].ctypes.data

        def step(self, inputs: Any) -> None:  # noqa: ARG002
            ctypes.memset(self.address, 3, 1)

    with guarded(Keeps()) as held, pytest.raises(UndeclaredWriteError, match="changed the bytes of y, which it"):
        held.step(None)


def test_invalid_contracts_are_refused(capsys: Any) -> None:
    """No declaration, an unknown field, a text in place of a set, a save/load simulation: one line each."""
    record("a.tape", Walkers())
    assert run(replayer.commands.main.main, "contracts a.tape --sim small_worlds:Walkers") == 2
    assert_one_line(capsys.readouterr(), "it declares nothing: add writes={...} to its phases")
    with pytest.raises(WriteContractError, match="keeps its state elsewhere"), Recorder("b.tape", Saved()) as tape:
        guarded(tape.simulation).__enter__()
    simulation = Grazing()
    simulation.writes = ("x", "herds")
    with pytest.raises(
        WriteContractError, match=r"step declares that it writes 'herds'; the fields are .* the tables herd"
    ):
        guarded(simulation).__enter__()
    with pytest.raises(TypeError, match="writes: expected a set of names"):
        Phase("a", print, "herd")
    twins = Half()
    twins.phases = (twins.phases[0], twins.phases[0])
    with pytest.raises(WriteContractError, match="expected phases with different names"):
        guarded(twins).__enter__()


def test_a_tape_that_differs_without_the_guard_ends_the_check() -> None:
    """Not every difference is an undeclared write: a tick that differs without the guard is reported as such."""

    class Other(Grazing):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            if self.state["x"][0] == 6:
                self.state["x"][1] = -1

    record("a.tape", Grazing())
    report = check_contracts("a.tape", Other)

    assert (report.first_bad, report.checked_ticks, report.violations) == (6, 5, [])


# --- meadow


@pytest.mark.parametrize(("scenario", "ticks"), [("arms-race", 80), ("boom-and-crash", 60), ("quiet-meadow", 160)])
def test_the_meadow_writes_what_it_declares(scenario: str, ticks: int) -> None:
    """Hundreds of ticks of the shipped scenarios under guard, with every phase, give no finding."""
    assert run(recorder.commands.main.main, f"run {scenario} --ticks {ticks} -q -o a.tape") == 0
    report = check_contracts("a.tape")

    assert report.ok
    assert report.checked_ticks == ticks
    declared = [name for name, fields in report.contracts.items() if fields is not None]
    assert len(declared) == 5 + (scenario == "arms-race")  # Only it has players, hence the phase sight.
    assert report.unrun == []


@pytest.mark.seldom(0.15)
def test_each_declaration_of_the_meadow_is_needed() -> None:
    """Remove any field that a phase changes from its declaration: that phase and field are named."""
    Path("tiny.toml").write_text(TINY)
    assert run(recorder.commands.main.main, "run tiny.toml --ticks 16 -q -o a.tape") == 0
    whole = check_contracts("a.tape")
    world = find_world("meadow")
    config = load_scenario("tiny.toml").config
    tried = 0
    for phase, fields in whole.contracts.items():
        for field in sorted(set(fields or ()) - set(whole.unused.get(phase, ()))):

            def lacking(phase: str = phase, field: str = field, fields: Any = fields) -> Any:
                made: Any = world.make(config)
                made.phases = tuple(
                    attrs.evolve(one, writes=set(fields) - {field} | {"plants", "swarms"} - {field.partition(".")[0]})
                    if one.name == phase
                    else one
                    for one in made.phases
                )
                return made

            found = {(violation.phase, violation.field) for violation in check_contracts("a.tape", lacking).violations}
            assert (phase, field) in found
            tried += 1

    assert tried >= 15


def test_a_recording_never_runs_the_guard() -> None:
    """No module of the recorder or the kernel imports the guard, and recording calls a phase's run itself."""
    root = SOURCES
    for path in [*(root / "recorder").rglob("*.py"), *(root / "sim" / "kernel").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        guard = r"(?m)^\s*(?:from|import) replayer\b|\.make_writeable\(|(?<!settings)(?<!job)\.writes\b"
        assert not re.search(guard, text), path  # Settings and jobs have writes of another kind: rows that were marked.
    assert np.all(State(Schema(Field("x", "i8"))).arena.flags.writeable)
