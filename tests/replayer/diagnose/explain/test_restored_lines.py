"""explain names the line that reads what a restore lost, and what it read: a position, an order, two names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.cause import Cause
from replayer.diagnose.explain.find_cause import find_cause
from replayer.diagnose.explain.trace_step import TracedStep, trace_step
from replayer.diagnose.explain.values.identities import JOINED, SPLIT, DifferingIdentity, differing_identities
from sim.kernel.simulation import Simulation, as_simulation, inner_of, restore
from sim.kernel.state import Snapshot

from oracle.command_lines import run
from restoring_programs import DEFECTS, FOLDER, SOUND, Defect, marked_line, program

TICKS_MAX = 20
IDENTITIES = [defect for defect in DEFECTS if defect.kind == "alias"]
VALUES = [defect for defect in DEFECTS if defect.kind != "alias"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the programs on the path of modules; tapes in another one."""
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER), prepend=":")
    monkeypatch.chdir(tmp_path)


def first_difference(name: str) -> tuple[TracedStep, TracedStep] | None:
    """The first step in which a fresh instance in the state before it differs from the live one; None without one."""
    live = as_simulation(program(name)())

    def restored(before: Snapshot) -> Simulation:
        copy = as_simulation(program(name)())  # As in a fresh process: its modules are loaded again.
        restore(copy, before)
        return copy

    def hash_after(simulation: Simulation) -> dict[str, Any]:
        simulation.step(None)
        return {"hash": simulation.state.hash()}

    for _ in range(TICKS_MAX):
        before = live.state.snapshot()
        if in_a_copy(lambda: hash_after(restored(before))) != in_a_copy(lambda: hash_after(live)):  # noqa: B023
            plain = in_a_copy(lambda: trace_step(restored(before), None).to_plain())  # noqa: B023
            return trace_step(live, None), TracedStep.from_plain(plain)
        live.step(None)
    return None


def found(name: str) -> tuple[Cause, list[DifferingIdentity]]:
    """The cause of the first difference, and the names whose objects differ before it."""
    traced = first_difference(name)
    assert traced is not None
    lived, restored = (step.trace for step in traced)
    cause = find_cause(Alignment(lived, restored))
    assert cause is not None
    return cause, list(differing_identities(lived.identities, restored.identities))


@pytest.mark.share(0.22)
@pytest.mark.parametrize("defect", VALUES, ids=lambda defect: defect.program)
def test_the_line_reads_what_was_lost(defect: Defect) -> None:
    """Hidden state, by its name."""
    cause, identities = found(defect.program)

    assert cause.place.name == marked_line(defect.program)
    assert (cause.kind, {value.name for value in cause.outside}) == ("outside", {defect.outside})
    assert identities == []


@pytest.mark.share(0.22)
@pytest.mark.parametrize("defect", IDENTITIES, ids=lambda defect: defect.program)
def test_the_line_changes_an_object_with_two_names(defect: Defect) -> None:
    """In one of the two only."""
    cause, identities = found(defect.program)

    kind = defect.program.partition(":")[2]
    names = tuple(f"{kind}.{name}" for name in defect.outside.split(", "))
    assert cause.place.name == marked_line(defect.program)
    assert identities == [DifferingIdentity(names, JOINED if kind == "SharedDepot" else SPLIT)]
    assert identities[0].is_cause(cause)


@pytest.mark.share(0.1)
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_program_has_no_difference_to_explain(name: str) -> None:
    """The fresh instance runs as the live one."""
    assert first_difference(name) is None


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("iterator_positions:RestartedCycle", ("continues with 5, 8, 3", "continues with 3, 5, 8")),
        ("class_counts:ClassIds", ("continues with 2, 3, 4", "continues with 1, 2, 3")),
    ],
)
def test_a_position_is_shown_by_what_comes_next(name: str, position: tuple[str, str]) -> None:
    """Of the live run and of the restored instance."""
    cause, _ = found(name)
    [value] = cause.outside
    assert (value.first.partition("that ")[2], value.second.partition("that ")[2]) == position


@pytest.mark.seldom(1 / 4)
def test_an_instance_that_was_never_restored_shows_what_each_restore_loses(capsys: Any) -> None:
    """Also at tick 1, which no restored instance gives as recorded."""
    kind = program("split_aliases:SplitLeader")
    with Recorder("leader.tape", kind(), keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(15):
            tape.step()

    line = "explain leader.tape --sim split_aliases:SplitLeader --tick 1"
    assert run(replayer.commands.main.main, f"{line} --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["tick"], facts["cause"]["kind"]) == (1, "split")
    assert Path(facts["cause"]["file"]).name == "split_aliases.py"
    assert facts["cause"]["text"].startswith("self.leader =")  # In load().
    assert facts["identities"] == [{"names": ["SplitLeader.leader", "SplitLeader.units[2]"], "how": SPLIT}]
    assert run(replayer.commands.main.main, line) == 1
    printed = capsys.readouterr().out
    assert "cause: load() makes two objects of one" in printed
    assert "  before the step:\n    SplitLeader.leader and SplitLeader.units[2]: one object in A, two in B\n" in printed
    assert "an instance that ran from tick 0 as it was made, never restored: hash " in printed


@pytest.mark.seldom(1 / 4)
def test_a_new_instance_in_another_state_is_not_compared(capsys: Any) -> None:
    """It begins elsewhere than the recorded run."""
    kind = program("split_aliases:SplitLeader")
    other = as_simulation(kind())
    inner_of(other).units[0].hp = 7
    with Recorder("other.tape", inner_of(other), trial_ms=0) as tape:
        tape.step()

    assert run(replayer.commands.main.main, "explain other.tape --sim split_aliases:SplitLeader --tick 1") == 1
    assert "a new instance does not begin in the recorded state" in capsys.readouterr().out
