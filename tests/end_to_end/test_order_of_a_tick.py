"""What is recorded of a tick, and when: the row of telemetry, the frame, and only then the end of the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import recorder.commands.main
from recorder import Recorder
from replayer import Tape
from sim.worlds.meadow import Meadow

from oracle.command_lines import run
from sim_strategies import idle_flora, small_meadow
from small_worlds import Walkers

WATCHED = """
from recorder.errors import RecordingError
from replayer import Tape
from sim import Field, Schema, State

SEEN = []


def on_the_tape():
    try:
        with Tape("a.tape") as tape:
            return tape.last_tick
    except (OSError, RecordingError):
        return None  # Nothing is on the disk yet.


class Watched:
    def __init__(self):
        self.state = State(Schema(Field("tick", "i8")))

    def step(self, inputs):
        self.state["tick"][()] += 1

    def telemetry(self):
        SEEN.append(("row", int(self.state["tick"]), on_the_tape()))
        return {"figure": int(self.state["tick"])}

    def ended(self):
        tick = int(self.state["tick"])
        SEEN.append(("end?", tick, on_the_tape()))
        return ("enough", "it is enough") if tick == 3 else None
"""


def test_telemetry_row_then_frame_then_termination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the row of a tick its frame is not on the tape; when the end is asked for, it is, also that of the last tick."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("watched.py").write_text(WATCHED)
    Path("watched.toml").write_text("[scenario]\nsteps = 10\n")
    assert run(recorder.commands.main.main, "run watched.toml --sim watched:Watched -o a.tape") == 0
    seen = sys.modules["watched"].SEEN
    first = {
        kind: [next(one for one in seen if one[:2] == (kind, tick)) for tick in (1, 2, 3)] for kind in ("row", "end?")
    }
    assert first == {
        "row": [("row", 1, 0), ("row", 2, 1), ("row", 3, 2)],
        "end?": [("end?", 1, 1), ("end?", 2, 2), ("end?", 3, 3)],
    }
    assert max(tick for _, tick, _ in seen) == 3
    assert "  ended by enough at tick 3: it is enough\n" in capsys.readouterr().out
    with Tape("a.tape") as tape:
        assert (tape.last_tick, tape.outcome["reason"]) == (3, "enough")
        assert tape.telemetry()["figure"].tolist() == [0, 1, 2, 3]


def test_each_step_adds_one_frame(tmp_path: Path) -> None:
    """The tape that is being recorded has as many frames as steps were made; what is in the file stays as it is."""
    content = b""
    with Recorder(tmp_path / "a.tape", Walkers(), keyframe_interval_ticks=3, sync="block") as recording:
        for count in range(1, 30):
            recording.step([[count % 20, 1]])
            before, content = content, (tmp_path / "a.tape").read_bytes()
            assert content.startswith(before)
            with Tape(tmp_path / "a.tape") as tape:
                assert [tape.frame(tick).inputs for tick in range(1, tape.last_tick + 1)] == [
                    [[tick % 20, 1]] for tick in range(1, count + 1)
                ]
    assert len(content) > 1_000
    assert (tmp_path / "a.tape").read_bytes().startswith(content)


def test_the_meadow_s_state_has_every_layer_of_the_biotope() -> None:
    """Energy of plants, signals, toxins, the flow field and both parts of the wind, a number for each cell."""
    meadow = Meadow(small_meadow(flora=[idle_flora("moss")], plants=[{"species": "moss", "x": 1, "y": 1}]))
    cells = (meadow.config.grid.height, meadow.config.grid.width)
    shapes = {
        name: meadow.state[f"biotope.{name}"].shape for name in ("energy", "total", "flow", "signals", "toxins", "wind")
    }
    assert {name: shape[-2:] for name, shape in shapes.items()} == dict.fromkeys(shapes, cells)
    assert shapes["wind"] == (2, *cells)  # East and south.
    assert shapes["energy"] == (2, 1, *cells)  # Two buffers, one species.


def test_a_simulation_is_made_and_stepped_without_any_code_that_records() -> None:
    """Recording is no concern of the simulation: its packages load neither the recorder nor the replayer."""
    code = (
        "import sys; from sim.scenario.scenario_file import load_scenario; simulation = load_scenario('swarm').make(); "
        "[simulation.step(None) for _ in range(3)]; "
        "sys.exit(any(name.partition('.')[0] in ('recorder', 'replayer') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
