"""The check of an object names values by their paths, and no columns of the state that holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

import replayer.commands.main
from recorder.adapted.named_differences import differing_paths, named_differences
from replayer.diagnose.hidden_state.report import FRESH, SyncFinding, finding_lines
from sim.adapters import adapt
from sim.kernel.state import Snapshot

from oracle.command_lines import run

GAME = '''
COUNT = 0


class Hut:
    """A step that reads a counter of the module."""

    def __init__(self):
        self.rooms = [{"heat": 20.0}, {"heat": 21.0}]

    def step(self):
        global COUNT
        COUNT += 1
        self.rooms[1]["heat"] += COUNT
'''


class Hut:
    """A hut with rooms."""

    def __init__(self) -> None:
        self.rooms = [{"heat": 20.0}, {"heat": 21.0}]
        self.bag = {"a": 1, "b": 2}

    def step(self) -> None:
        """Heat a room."""
        self.rooms[1]["heat"] += 1
        self.bag["a"] = self.bag.pop("a")


@pytest.fixture
def states() -> tuple[Snapshot, Snapshot]:
    """Before and after a step."""
    simulation = adapt(Hut())
    before = simulation.state.snapshot()
    simulation.step(None)
    return before, simulation.state.snapshot()


def test_a_finding_lists_values(states: tuple[Snapshot, Snapshot]) -> None:
    """Of the sync test."""
    from replayer.desync.state_diff import compare_states

    finding = SyncFinding(3, 2, FRESH, 1, 2, compare_states(*states), [], states=states)

    lines = finding_lines(finding)
    assert "  order of bag: live a, b; restored b, a" in lines
    assert "  rooms[1]['heat']: live 21.0, restored 22.0" in lines
    assert not [line for line in lines if "graph." in line or "#counts" in line]


def test_a_violation_lists_values(states: tuple[Snapshot, Snapshot]) -> None:
    """Of the contract; a state of other fields keeps their names."""
    fields = ["graph.1.dict.cells.value", "own"]
    assert (
        named_differences(*states, fields)
        == "order of bag: live a, b; now b, a; rooms[1]['heat']: live 21.0, now 22.0; own"
    )
    assert named_differences(states[0], states[0], ["graph.groups"]) == "how its objects are saved"
    assert differing_paths(*states, fields) == ("order of bag", "rooms[1]['heat']", "own")
    assert differing_paths(states[0], states[0], ["graph.groups"]) == ("how its objects are saved",)


@pytest.mark.seldom(0.15)
def test_the_command_prints_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a hidden counter, in a module of its own."""
    (tmp_path / "hut_of_check.py").write_text(GAME)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    assert run(replayer.commands.main.main, "check hut_of_check:Hut --ticks 20") == 1
    printed = capsys.readouterr().out
    assert "rooms[1]['heat']: live " in printed
    assert "graph." not in printed
