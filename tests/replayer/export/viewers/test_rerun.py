"""A Rerun file has the data of the live run at the requested ticks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily

from recorder import Recorder
from replayer import Tape
from replayer.commands.main import main
from replayer.export.viewers import tick_range as source
from sim import find_world
from sim.extras import missing_package

from oracle.command_lines import TINY, assert_one_line, run
from oracle.live_runs import Live, look_at, record_live
from oracle.rerun_files import Found, read_rrd
from oracle.second_checks import CheckedTape
from oracle.shown_world import Shapes

rr = lazily("rerun")

pytestmark = pytest.mark.share(0.18)

TICKS = 40
SIM = "--sim oracle.shown_world:Shapes"


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: Any) -> tuple[Path, Live]:
    path = tmp_path_factory.mktemp("shapes") / "shapes.tape"
    inputs = [tick % 3 or None for tick in range(TICKS)]
    return path, record_live(path, Shapes(), inputs, keyframe_interval_ticks=7, full_every=3)


@pytest.fixture(scope="module")
def meadow(tmp_path_factory: Any) -> tuple[Path, dict[int, Any], Any]:
    """A tape of a meadow, the live states, and its simulation."""
    path = tmp_path_factory.mktemp("meadow") / "meadow.tape"
    simulation = find_world("meadow").make(tomllib.loads(TINY))
    with Recorder(path, simulation, keyframe_interval_ticks=20) as tape:
        live = {0: simulation.state.snapshot()}
        for tick in range(1, TICKS + 1):
            tape.step([])
            live[tick] = simulation.state.snapshot()
    return path, live, simulation


def image(found: Found, entity: str, tick: int) -> np.ndarray:
    """A depth image as an array."""
    components = found[entity]
    ((form,),), ((buffer,),) = components["format"][tick], components["buffer"][tick]
    dtype = rr.ChannelDatatype(form["channel_datatype"]).to_np_dtype()
    return np.frombuffer(bytes(buffer), dtype).reshape(form["height"], form["width"])


def test_states_are_those_of_the_live_run(shapes: tuple[Path, Live], tmp_path: Path, capsys: Any) -> None:
    """At each requested tick and no other, every field has the live run's values, bit for bit except for curves."""
    path, live = shapes
    output = tmp_path / "shapes.rrd"

    assert run(main, f"export {path} {SIM} -o {output} --every 3 --from 5 --to -3") == 0

    found, ticks = read_rrd(output), list(range(5, TICKS - 1, 3))
    assert f"{output}: ticks 5 to 38, {len(ticks)} states every 3 ticks" in capsys.readouterr().out
    hashes = found["/tape/state_hash"]["text"]
    assert hashes == {tick: [[f"{live[tick][0]:016x}"]] for tick in ticks}
    for tick in ticks:
        fields = live[tick][2]
        for name in ("tick", "flag", "pair", "rng"):
            (curve,) = found[f"/state/{name}"]["scalars"][tick]
            np.testing.assert_array_equal(curve, fields[name].astype(np.float64).reshape(-1))
        for name in ("map", "mask", "half"):
            shown = image(found, f"/state/{name}", tick)
            stored = fields[name].view(np.uint8) if name == "mask" else fields[name]
            assert (shown.dtype, shown.tobytes()) == (stored.dtype, stored.tobytes())
        parts = np.stack([fields["wave"].real, fields["wave"].imag], axis=1)
        assert found["/state/wave"]["data"][tick][0].tobytes() == parts.tobytes()  # Rows of two numbers, and no map.
        for name, component in [("long", "values"), ("cube", "data"), ("ants/age", "values"), ("ants/place", "data")]:
            (array,) = found[f"/state/{name}"][component][tick]
            stored = fields[name.replace("/", ".")]
            assert (array.dtype, array.shape, array.tobytes()) == (stored.dtype, stored.shape, stored.tobytes())
        (count,) = found["/state/ants"]["scalars"][tick]
        assert count == [len(fields["ants.age"])]
    assert "/state/diary" not in found
    assert {entity for entity, components in found.items() for rows in components.values() if 4 in rows} == set()


def test_figures_events_inputs_and_keyframes(shapes: tuple[Path, Live], tmp_path: Path) -> None:
    """Every figure, event, input and keyframe of the range is exported, also without a state; hostile text is text."""
    path, live = shapes
    output = tmp_path / "shapes.rrd"

    assert run(main, f"export {path} {SIM} -o {output} --every 40") == 0

    found = read_rrd(output)
    sums = {tick: [[float(fields["map"].sum())]] for tick, (_, _, fields) in live.items()}
    assert found["/telemetry/sum"]["scalars"] == sums
    assert list(found["/telemetry/part"]["scalars"]) == list(range(0, TICKS + 1, 3))
    assert found["/telemetry/far\\/\\<b\\>"]["scalars"][7] == [[np.inf]]
    assert list(found["/inputs"]["text"]) == [tick for tick in range(1, TICKS + 1) if (tick - 1) % 3]
    assert found["/events"]["text"][8] == [['<script> {"share": NaN, "who": "00ff", "at": 8}']]
    assert list(found["/events"]["text"]) == list(range(0, TICKS + 1, 4))
    keyframes = {one.tick: [["full" if one.is_full else "delta"]] for one in CheckedTape(path).keyframes()}
    assert found["/tape/keyframes"]["text"] == keyframes
    assert {text for ((text,),) in keyframes.values()} == {"full", "delta"}
    (document,) = found["/tape"]["text"][None]
    assert json.loads(document[0])["last_tick"] == TICKS


def test_inputs_that_are_falsy_are_exported_too(tmp_path: Path) -> None:
    """All inputs but None have a line."""
    inputs = [0, 1, 0.0, False, True, "", [], {}, None, 5]
    record_live(tmp_path / "a.tape", Shapes(), inputs, keyframe_interval_ticks=7)

    assert run(main, f"export {tmp_path}/a.tape {SIM} -o {tmp_path}/a.rrd") == 0

    found = read_rrd(tmp_path / "a.rrd")["/inputs"]["text"]
    assert found == {tick: [[json.dumps(value)]] for tick, value in enumerate(inputs, 1) if value is not None}


def test_what_a_world_shows(meadow: tuple[Path, dict[int, Any], Any], tmp_path: Path) -> None:
    """The world's layers are depth images, and the positions of its swarms are points on them."""
    path, live, _ = meadow
    output = tmp_path / "meadow.rrd"

    assert run(main, f"export {path} -o {output} --every 10") == 0

    found, world = read_rrd(output), find_world("meadow")
    config = tomllib.loads(TINY)
    for tick in range(0, TICKS + 1, 10):
        layers = world.layers(config, live[tick])
        assert set(layers) == {"plant energy", "flow", "energy of moss", "heads of snail"}
        for name, layer in layers.items():
            shown = image(found, "/layers/" + name.replace(" ", "\\ "), tick)
            assert shown.tobytes() == np.ascontiguousarray(layer).tobytes()
        heads, places = layers["heads of snail"], world.points(config, live[tick])["swarms of snail"][:, :2]
        (points,) = found["/points/swarms\\ of\\ snail"]["positions"][tick]
        np.testing.assert_array_equal(np.array(points).reshape(-1, 2), places)
        assert {tuple(place) for place in places} == {(x + 0.5, y + 0.5) for y, x in np.argwhere(heads)}
    assert len(places)


def test_states_are_thinned_out_to_what_a_viewer_takes(
    shapes: tuple[Path, Live], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Without --every, as many states as fit are exported; with it, the requested number."""
    path, live = shapes
    monkeypatch.setattr(source, "STATE_BYTES_MAX", 10 * sum(array.nbytes for array in live[0][2].values()))

    assert run(main, f"export {path} {SIM} -o {tmp_path}/a.rrd --json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["every"] == 5
    assert facts["states"] == 9
    assert run(main, f"export {path} {SIM} -o {tmp_path}/a.rrd --json --every 1") == 0
    assert json.loads(capsys.readouterr().out)["states"] == TICKS + 1


def test_keyframes_need_no_simulation(shapes: tuple[Path, Live], tmp_path: Path, capsys: Any) -> None:
    """Without its simulation, a tape is refused in one line with the remedy: export the states of its keyframes."""
    path, live = shapes

    assert run(main, f"export {path} -o {tmp_path}/a.rrd") == 2
    assert_one_line(capsys.readouterr(), "--keyframes")
    assert not list(tmp_path.iterdir())
    assert run(main, f"export {path} -o {tmp_path}/a.rrd --keyframes --field map") == 0
    found = read_rrd(tmp_path / "a.rrd")
    assert [entity for entity in found if entity.startswith("/state")] == ["/state/map"]
    assert list(found["/state/map"]["format"]) == list(range(0, TICKS + 1, 7))
    assert image(found, "/state/map", 35).tobytes() == live[35][2]["map"].tobytes()


def test_the_intact_part_of_a_damaged_tape_is_exported(shapes: tuple[Path, Live], tmp_path: Path, capsys: Any) -> None:
    """States that damage makes unreachable are left out, all others are exported and right; losses are reported."""
    path, live = shapes
    damaged, content = tmp_path / "damaged.tape", bytearray(path.read_bytes())
    with Tape(path) as tape:
        places = {place.tick: place.entry.offset for place in tape.keyframes}
    content[places[21] + 90 : places[21] + 100] = b"0123456789"
    damaged.write_bytes(content)

    assert run(main, f"export {damaged} {SIM} -o {tmp_path}/a.rrd --every 1 --json") == 4

    facts, found = json.loads(capsys.readouterr().out), read_rrd(tmp_path / "a.rrd")
    shown = found["/tape/state_hash"]["text"]
    assert shown == {tick: [[f"{live[tick][0]:016x}"]] for tick in shown}
    assert set(range(21)) <= set(shown)
    assert facts["states"] == len(shown)
    assert any("damaged" in line for line in facts["missing"])
    assert [text for rows in found["/tape/losses"]["text"].values() for (text,) in rows] == facts["missing"]


def test_of_a_torn_tape_all_before_the_end_goes_out(tmp_path: Path, capsys: Any) -> None:
    """A recording that was not closed is exported up to its last tick, with exit code 3."""
    path = tmp_path / "open.tape"
    tape = Recorder(path, Shapes(), keyframe_interval_ticks=7)
    live = {tick: look_at(tape.simulation.state) for tick in range(20) if not tape.step(None)}
    tape.flush()

    assert run(main, f"export {path} {SIM} -o {tmp_path}/a.rrd --every 1") == 3
    assert "the recording was not closed" in capsys.readouterr().err
    tape.close()
    shown = read_rrd(tmp_path / "a.rrd")["/tape/state_hash"]["text"]
    assert [shown[tick + 1] for tick in live] == [[[f"{state_hash:016x}"]] for state_hash, _, _ in live.values()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-o a.rrd --from 41", "ticks 0 to 40"),
        ("-o a.rrd --from 30 --to 20", "before it begins"),
        ("-o a.rrd --field mup", "no field 'mup'"),
        ("-o a.rrd --telemetry", "has it anyway"),
        ("-o a.rrd --tick-seconds 0.5", "--tick-seconds is for .mcap"),
        ("-o a.rrd --every 5 --keyframes", "give one of the two"),
        ("-o a.rrd --every 0", "1"),
        ("-o a.csv --telemetry --every 5", "--every is for files that end in .rrd or .mcap"),
        ("-o nowhere/a.rrd", "nowhere/a.rrd"),
    ],
)
def test_mistakes_are_answered_with_one_line(
    shapes: tuple[Path, Live], tmp_path: Path, monkeypatch: Any, capsys: Any, words: str, said: str
) -> None:
    """Impossible requests are refused, and leave no file."""
    monkeypatch.chdir(tmp_path)

    assert run(main, f"export {shapes[0]} {SIM} {words}") == 2
    assert_one_line(capsys.readouterr(), said)
    assert not list(tmp_path.iterdir())


def test_without_the_package_it_is_named(
    shapes: tuple[Path, Live], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Without Rerun, one line names the package to install."""
    monkeypatch.delitem(sys.modules, "replayer.export.viewers.rerun", raising=False)
    monkeypatch.setitem(sys.modules, "rerun", None)

    assert run(main, f"export {shapes[0]} {SIM} -o {tmp_path}/a.rrd") == 2
    assert_one_line(capsys.readouterr(), missing_package("writing Rerun files", "rerun-sdk", "rerun"))


@pytest.mark.seldom(0.15)
def test_a_full_disk_is_reported(shapes: tuple[Path, Live], tmp_path: Path) -> None:
    """If the file cannot grow to its end: one line and exit code 2, soon, and no file is left."""
    command = f"ulimit -f 40; exec {sys.executable} -c 'import replayer.commands.main; replayer.commands.main.main()' "
    words = f"export {shapes[0]} {SIM} -o {tmp_path}/a.rrd --every 1"
    path = os.pathsep.join(sys.path)

    done = subprocess.run(
        ["sh", "-c", command + words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "RERUN_ANALYTICS": "0"},
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {tmp_path}/a.rrd: File too large\n"
    assert not list(tmp_path.iterdir())
