"""The variants that replay explain compares, and its output where they agree: seeds, damage, the code that is run."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder
from recorder.format.blocks.block import HEADER_BYTES, BlockKind
from replayer.diagnose.explain.answer.explanation import DecidingVariables, Explanation
from replayer.diagnose.explain.outside.deciding_variables import with_deciding_variables
from replayer.diagnose.explain.variant_choice import choose_pair
from replayer.diagnose.explain.variants import Variant, VariantOutcome
from replayer.tape.tape import Tape
from replayer.timeline.verify import verify_tape

from oracle.command_lines import assert_one_line, run
from project_paths import SOURCES

pytestmark = pytest.mark.share(0.18)

BAD_TICK = 15
MODULE = '''
from sim import Field, Phase, Schema, State, run_phases


class Sets:
    """The order of a set decides about one number at one tick."""

    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("x", "f8", (4,))))

    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] == 15:
            for word in {"oak", "elm", "birch", "lime", "ash"}:  # Sets
                self.state["x"][2] = self.state["x"][2] * 0.7 + len(word)


class Shelves:
    """The hash of a text decides where a number is put at one tick."""

    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8", (64,))))

    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] == 15:
            self.state["x"][hash("oak") % 64] += 1  # Shelves


class Plain:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8", (4,))))

    def step(self, inputs):
        self.state["x"][:] += 1


class LateEdit(Plain):
    def step(self, inputs):
        self.state["x"][:] += 2 if self.state["x"][0] == 27 else 1  # LateEdit


class Phased:
    """The second phase's field spreads to the first phase's fields in the next tick."""

    def __init__(self):
        eight = [Field(f"a{number}", "i8", (3,)) for number in range(8)]
        self.state = State(Schema(Field("tick", "i8"), Field("b", "i8", (3,)), *eight))
        self.phases = (Phase("grow", self.grow), Phase("sum", self.sum), Phase("idle", self.idle))
        self.kept = 0

    def step(self, inputs):
        run_phases(self.phases, inputs)

    def grow(self, inputs):
        self.state["tick"][()] += 1
        for number in range(8):
            self.state[f"a{number}"][:] += 1 + self.state["b"] % 2

    def sum(self, inputs):
        self.state["b"][:] += 2

    def idle(self, inputs):
        pass


class PhasedEdit(Phased):
    def sum(self, inputs):
        super().sum(inputs)
        self.state["b"][1] += self.state["tick"] == 25


class PhasedKept(Phased):
    def sum(self, inputs):
        self.kept += 1
        self.state["b"][:] += self.kept  # PhasedKept
'''
RECORD = """
import os, sys, recorder, some_variants
if "--unset" in sys.argv:
    del os.environ["PYTHONHASHSEED"]  # As if Python had drawn it.
with recorder.Recorder(sys.argv[2], getattr(some_variants, sys.argv[1])(), keyframe_interval_ticks=10) as tape:
    for tick in range(30):
        tape.step()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module; no hash seed is set."""
    (tmp_path / "some_variants.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    yield tmp_path
    sys.modules.pop("some_variants", None)


def record(name: str, tape: str, *options: str, **environment: str) -> None:
    """Record thirty ticks in a separate process."""
    paths = os.pathsep.join([str(Path.cwd()), str(SOURCES)])
    command = [sys.executable, "-c", RECORD, name, tape, *options]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths, **environment}, check=True)


def line_of(name: str) -> int:
    """The number of the line that is marked with a name."""
    return MODULE[: MODULE.index(f"  # {name}")].count("\n") + 1


@pytest.mark.seldom(0.4)
@pytest.mark.parametrize(
    ("present", "arguments"),
    [
        (None, ""),
        pytest.param(None, f" --tick {BAD_TICK}", marks=pytest.mark.long),
        ("random", f" --tick {BAD_TICK}"),
    ],
)
def test_a_tape_with_hash_seed_0_is_tried_with_other_seeds(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, present: str | None, arguments: str
) -> None:
    """A default seed equal to the recorded one does not hide the difference; the variant's label states the seed."""
    record("Sets", "sets.tape", PYTHONHASHSEED="0")
    if present is not None:
        monkeypatch.setenv("PYTHONHASHSEED", present)

    assert run(replayer.commands.main.main, f"explain sets.tape --sim some_variants:Sets --json{arguments}") == 1
    facts = json.loads(capsys.readouterr().out)
    sides = {side["compared_as"]: side for side in facts["sides"]}
    assert (facts["tick"], facts["cause"]["line"]) == (BAD_TICK, line_of("Sets"))
    assert (sides["A"]["as_recorded"], sides["B"]["as_recorded"]) == (True, False)
    assert "PYTHONHASHSEED=1" in sides["B"]["label"]
    assert sides["B"]["environment"] == {"PYTHONHASHSEED": "1"}


@pytest.mark.seldom(0.4)
def test_a_seed_that_was_tried_is_not_said_to_be_the_recorded_one(capsys: Any) -> None:
    """The tape states no seed: that one of those tried gives the recorded state does not tell which it had."""
    record("Shelves", "shelves.tape", "--unset", PYTHONHASHSEED="1")

    assert run(replayer.commands.main.main, "explain shelves.tape --sim some_variants:Shelves") == 1
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("cause: ")]
    assert (
        "with PYTHONHASHSEED=1 the step gives the recorded state, with 0 another one (in 3 of 3 processes each)" in line
    )
    assert "; which seed the recording had is not known" in line
    assert f"some_variants.py:{line_of('Shelves')} in" in out


def test_a_seed_whose_state_another_process_does_not_repeat_is_not_named() -> None:
    """It gave the recorded state once, by chance."""
    here, there = Variant("now"), Variant("PYTHONHASHSEED=1", {"PYTHONHASHSEED": "1"})
    pair = outcome(there, 7), outcome(here, 8)
    explained = Explanation(15, 7, list(pair), pair, [], None, [], None, [], [])

    named = with_deciding_variables(
        explained, {}, lambda some: [outcome(one, 7 if one.environment else 8) for one in some]
    )
    assert (named.variables, named.notes) == (DecidingVariables({"PYTHONHASHSEED": ("1", "0")}, 3, False, False), [])
    varying = with_deciding_variables(explained, {}, lambda some: [outcome(one, 8) for one in some])
    assert varying.variables is None
    assert varying.notes == ["PYTHONHASHSEED=1: the same step, run again in another process, gives another state"]
    failed = with_deciding_variables(explained, {}, lambda some: [VariantOutcome(one, None, "it died") for one in some])
    assert (failed.variables, failed.notes) == (None, [])


def test_variables_that_have_the_same_values_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One variant sets what the process has already; that the two differ has another cause."""
    monkeypatch.setenv("TZ", "UTC")
    pair = outcome(Variant("TZ=UTC", {"TZ": "UTC"}), 7), outcome(Variant("now"), 8)
    explained = Explanation(15, 7, list(pair), pair, [], None, [], None, [], [])
    named = with_deciding_variables(
        explained, {}, lambda some: [outcome(one, 7 if one.environment else 8) for one in some]
    )
    assert named.variables is None


def outcome(variant: Variant, state_hash: int) -> VariantOutcome:
    """The outcome of a variant with the hash of a state."""
    return VariantOutcome(variant, SimpleNamespace(result=(state_hash, None)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("different", "start"),
    [
        (Variant("now"), -1),  # What an instance without a restore keeps is what the recorded run kept.
        (Variant("PYTHONHASHSEED=1", {"PYTHONHASHSEED": "1"}), None),
        (Variant("with settings", settings={"sys.argv": []}), None),
    ],
)
def test_two_variants_that_are_compared_differ_in_one_thing(different: Variant, start: int | None) -> None:
    """Of several that give the recorded state, a fresh one is compared with a fresh one of another environment."""
    fresh, untouched = outcome(Variant("now"), 7), outcome(Variant("untouched", start=-1), 7)
    other = outcome(different, 8)
    pair = choose_pair([fresh, untouched, other], 7)
    assert pair is not None
    assert (pair[0].variant.start, pair[1]) == (start, other)


@pytest.mark.seldom(0.15)
def test_requested_variants_have_one_seed(capsys: Any) -> None:
    """A variable without effect makes no difference, with any seed of the recording."""
    record("Sets", "sets.tape", PYTHONHASHSEED="0")

    assert (
        run(
            replayer.commands.main.main,
            f"explain sets.tape --sim some_variants:Sets --tick {BAD_TICK} --json --env FOO=1",
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["agrees"]


def record_blocks() -> Path:
    """Record thirty ticks of Plain in blocks of five, in this process; the tape is sealed."""
    path = Path("plain.tape")
    simulation = importlib.import_module("some_variants").Plain()
    with Recorder(path, simulation, keyframe_interval_ticks=10, sync="never", durability="block") as tape:
        for tick in range(1, 31):
            tape.step()
            if tick % 5 == 0:
                tape.flush()
    return path


def damage(path: Path, tick: int) -> None:
    """Change a byte of the block with the frame of a tick."""
    with Tape(path) as tape:
        tape.distrust_index()
        (entry,) = [
            entry
            for entry in tape.segments[0].contents.entries
            if entry.kind == BlockKind.FRAMES and entry.first_tick <= tick <= entry.final_tick
        ]
    data = bytearray(path.read_bytes())
    data[entry.offset + HEADER_BYTES + 3] ^= 1
    path.write_bytes(data)


@pytest.mark.long
def test_damage_is_reported_where_no_bad_tick_is_found(capsys: Any) -> None:
    """Ticks 16 to 20 cannot be read: exit code 4, the number of verified ticks, and the others, as in verify."""
    path = record_blocks()
    damage(path, 18)
    report = verify_tape(path, importlib.import_module("some_variants").Plain)
    assert [(one.first_tick, one.last_tick) for one in report.unreached] == [(16, 20)]

    assert run(replayer.commands.main.main, "explain plain.tape --sim some_variants:Plain") == 4
    output = capsys.readouterr().out
    assert output.startswith("plain.tape: corrupt; every variant verifies 26 of 31 ticks")
    assert "not reached: ticks 16 to 20" in output
    assert run(replayer.commands.main.main, "explain plain.tape --sim some_variants:Plain --json") == 4
    proved = json.loads(capsys.readouterr().out)["proved"]
    assert (proved["status"], proved["verified_ticks"]) == (report.status, report.verified_ticks)
    assert proved["problems"] == [str(problem) for problem in report.problems]


@pytest.mark.long
def test_a_bad_tick_after_damage_is_explained(capsys: Any) -> None:
    """It is the first bad tick that can be reached; a note reports the ticks before it that could not be verified."""
    damage(record_blocks(), 18)

    assert run(replayer.commands.main.main, "explain plain.tape --sim some_variants:LateEdit --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["tick"] == 28
    assert any("some ticks before this one could not be verified" in note for note in facts["notes"])


@pytest.mark.long
def test_a_tape_without_a_seal_is_reported(capsys: Any) -> None:
    """All its ticks are verified: exit code 3, as in verify."""
    path = record_blocks()
    with Tape(path) as tape:
        end = next(entry for entry in tape.segments[0].contents.entries if entry.kind == BlockKind.END)
    path.write_bytes(path.read_bytes()[: end.offset])

    assert run(replayer.commands.main.main, "explain plain.tape --sim some_variants:Plain") == 3
    assert "nothing to explain; the tape is not sealed" in capsys.readouterr().out


def record_phased(name: str, ticks: int, blame: str) -> None:
    """Record a simulation with phases, in this process."""
    simulation = getattr(importlib.import_module("some_variants"), name)()
    with Recorder("phased.tape", simulation, keyframe_interval_ticks=10, blame=blame) as tape:
        for _ in range(ticks):
            tape.step()


@pytest.mark.long
def test_a_difference_on_all_variants_is_reported_for_the_tick_itself(capsys: Any) -> None:
    """One field of one phase differs there, nine at the keyframe after it: the tape's own hashes show which."""
    record_phased("Phased", 40, "fields")

    assert run(replayer.commands.main.main, "explain phased.tape --sim some_variants:PhasedEdit --tick 25") == 1
    output = capsys.readouterr().out
    assert "  fields that differ at tick 25: b\n  phase: sum, the only one that writes a differing field\n" in output
    written = output[output.index("lines that wrote the fields that differ at tick 25:") :].partition("\n\n")[0]
    assert all(" b: self.state" in line for line in written.splitlines()[1:])
    assert "\n    and 3 more fields\n" in output


@pytest.mark.sample(1)
@pytest.mark.parametrize(("blame", "phase"), [("phases", "sum"), pytest.param("none", None, marks=pytest.mark.long)])
def test_without_a_later_keyframe_the_tape_still_shows_the_fields(capsys: Any, blame: str, phase: str | None) -> None:
    """Ticks 20 to 29 have one keyframe: only a tape without blame leaves all lines that wrote a field."""
    record_phased("Phased", 29, blame)

    assert run(replayer.commands.main.main, "explain phased.tape --sim some_variants:PhasedEdit --tick 25 --json") == 1
    facts = json.loads(capsys.readouterr().out)
    written = {field for place in facts["writers"] for field in place["fields"]}
    assert (facts["known_fields"], facts["phase"]) == ([], phase)
    assert written == ({"b"} if phase else {"tick", "b", *(f"a{number}" for number in range(8))})


def test_the_phase_in_which_two_variants_diverge_is_named_without_hashes_of_phases(capsys: Any) -> None:
    """It is the one that reads hidden state."""
    record_phased("PhasedKept", 20, "none")

    assert run(replayer.commands.main.main, "explain phased.tape --sim some_variants:PhasedKept --tick 11") == 1
    output = capsys.readouterr().out
    assert "\n  phase: sum\n" in output
    assert f"some_variants.py:{line_of('PhasedKept')} in PhasedKept.sum" in output


@pytest.mark.seldom(0.18)
def test_a_folder_without_the_code_is_refused(capsys: Any) -> None:
    """No module of the simulation is imported from there, not even if the present code lies below it: exit code 2."""
    record_blocks()
    Path("elsewhere").mkdir()
    Path("elsewhere/other.py").write_text("import some_variants")

    for folder in ("elsewhere", ".."):
        arguments = f"--sim some_variants:LateEdit --tick 15 --code {folder}"
        assert run(replayer.commands.main.main, f"explain plain.tape {arguments}") == 2
        assert_one_line(capsys.readouterr(), "expected a module of the simulation in this folder, got none")


def test_a_folder_with_a_part_of_the_code_is_enough(capsys: Any) -> None:
    """It has one module that the simulation imports; the simulation itself is the present one."""
    Path("leaping.py").write_text(
        "import part_of_it, some_variants\n\nclass Leaping(some_variants.Plain):\n    def step(self, inputs):\n"
        "        self.state['x'][:] += part_of_it.LEAP\n"
    )
    Path("part_of_it.py").write_text("LEAP = 1\n")
    Path("other").mkdir()
    Path("other/part_of_it.py").write_text("LEAP = 2\n")
    record_blocks()

    arguments = "--sim leaping:Leaping --tick 15 --code other --json"
    assert run(replayer.commands.main.main, f"explain plain.tape {arguments}") == 1
    assert [field["field"] for field in json.loads(capsys.readouterr().out)["fields"]] == ["x"]
