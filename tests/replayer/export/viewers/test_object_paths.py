"""Viewer files of a recorded object have its values by their paths, and no columns that hold them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily

import recorder
from replayer.commands.main import main

import small_worlds
from oracle.command_lines import run
from oracle.rerun_files import read_rrd

mcap_reader = lazily("mcap.reader")
rr = lazily("rerun")

TICKS = 12


class Unit:
    """A unit of a game."""

    def __init__(self, name: str) -> None:
        self.name, self.hp, self.target = name, 60.5, None


class Skirmish:
    """A game of plain objects."""

    def __init__(self) -> None:
        self.turn, self.title = 0, "a game \ud800"  # Texts of files may hold what UTF-8 does not.
        self.units = [Unit("u0"), Unit("u1")]
        self.units[0].target = self.units[1]
        self.queue, self.bag = [1, 2, 3], {"a": 0.5}
        self.grid = np.zeros((2, 3))

    def step(self) -> None:
        """Make a turn: a unit joins, and the first one changes its target and its health."""
        self.turn += 1
        self.units[1].hp -= 0.25
        self.queue[0] += 1
        self.grid[1, 2] += 1
        if self.turn == 5:
            self.units.append(Unit("u2"))
            self.units[0].target = self.units[2]


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("skirmish") / "run.tape"
    with recorder.record(Skirmish(), path, quiet=True, trial_ms=0, keyframe_interval_ticks=4) as game:
        for _ in range(TICKS):
            game.step()
    return path


def contents(path: Path) -> dict[str, dict[int, dict[str, Any]]]:
    """The messages below /state/ by topic and tick."""
    messages: dict[str, dict[int, dict[str, Any]]] = {}
    with path.open("rb") as file:
        for schema, channel, message in mcap_reader.make_reader(file).iter_messages():
            if channel.topic.startswith("/state/"):
                assert schema.name == "tape.Value"
                messages.setdefault(channel.topic, {})[message.log_time // 10**9] = json.loads(message.data)
    return messages


def export(tape: Path, output: Path, options: str = "") -> None:
    """Export all states."""
    assert run(main, f"export {tape} -o {output} --sim small_worlds:Skirmish --every 1 {options}") == 0


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds the game in a module."""
    monkeypatch.setattr(small_worlds, "Skirmish", Skirmish, raising=False)


def test_mcap_has_a_channel_for_each_path(tape: Path, tmp_path: Path) -> None:
    """Numbers and arrays bit for bit, texts, and references as paths, at each tick."""
    export(tape, tmp_path / "run.mcap")

    found = contents(tmp_path / "run.mcap")
    assert set(found) == {
        *("/state/turn", "/state/title", "/state/queue", "/state/bag['a']", "/state/grid"),
        *(f"/state/units[{number}].{name}" for number in range(3) for name in ("name", "hp", "target")),
    }
    assert {tick: one["value"] for tick, one in found["/state/units[1].hp"].items()} == {
        tick: 60.5 - tick / 4 for tick in range(TICKS + 1)
    }
    assert [found["/state/units[0].target"][tick]["value"] for tick in (4, 5)] == ["units[1]", "units[2]"]
    assert min(found["/state/units[2].name"]) == 5
    assert found["/state/units[2].name"][TICKS]["value"] == "u2"
    assert found["/state/title"][0]["value"] == r"a game \ud800"
    grid = found["/state/grid"][TICKS]
    assert np.frombuffer(base64.b64decode(grid["data"]), grid["dtype"]).tolist() == [0, 0, 0, 0, 0, TICKS]
    assert found["/state/queue"][3]["values"] == [4, 2, 3]


def test_a_field_is_a_path(tape: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an object, all that it holds; of nothing at all, the attributes are listed."""
    export(tape, tmp_path / "run.mcap", "--field units[1] --field queue")

    assert set(contents(tmp_path / "run.mcap")) == {
        *("/state/units[1].name", "/state/units[1].hp", "/state/units[1].target", "/state/queue")
    }
    assert run(main, f"export {tape} -o {tmp_path}/a.mcap --keyframes --field units[9]") == 2
    assert "no attribute or field 'units[9]'; units has 2 items at tick 0" in capsys.readouterr().err


def test_rerun_has_an_entity_for_each_path(tape: Path, tmp_path: Path) -> None:
    """Numbers as curves at each tick, others in a log where they change."""
    assert rr
    export(tape, tmp_path / "run.rrd")

    found = read_rrd(tmp_path / "run.rrd")
    states = {entity for entity in found if entity.startswith("/state/")}
    assert r"/state/units/\[1\]/hp" in states
    assert not [entity for entity in states if "graph" in entity or "structure" in entity]
    scalars = found[r"/state/units/\[1\]/hp"]["scalars"]
    assert {tick: float(np.asarray(value).reshape(-1)[0]) for tick, value in scalars.items()} == {
        tick: 60.5 - tick / 4 for tick in range(TICKS + 1)
    }
    assert found["/state/title"]["text"] == {0: [[r"a game \ud800"]]}
    assert found[r"/state/units/\[0\]/target"]["text"] == {0: [["units[1]"]], 5: [["units[2]"]]}
