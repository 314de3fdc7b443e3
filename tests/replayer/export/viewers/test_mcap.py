"""An MCAP file has the data of the live run, bit for bit, and its schemas describe them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily

import recorder
from recorder import Recorder
from recorder.format.blocks.block import BlockKind
from replayer import Tape
from replayer.commands.main import main
from sim import find_world
from sim.extras import missing_package

import oracle.shown_world
from oracle.command_lines import TINY, assert_one_line, run
from oracle.live_runs import Live, record_live
from oracle.shown_world import Shapes

mcap_reader = lazily("mcap.reader")

pytestmark = pytest.mark.share(0.18)

TICKS = 40
SIM = "--sim oracle.shown_world:Shapes"

Read = tuple[dict[str, dict[int, list[Any]]], dict[str, Any], Any]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: Any) -> tuple[Path, Live]:
    path = tmp_path_factory.mktemp("shapes") / "shapes.tape"
    inputs = [tick % 3 or None for tick in range(TICKS)]
    return path, record_live(path, Shapes(), inputs, keyframe_interval_ticks=7, full_every=3, notes={"who": "<b>"})


def read(path: Path) -> Read:
    """Contents by topic and log time, the schemas by topic, and the reader's summary; every checksum is compared."""
    messages: dict[str, dict[int, list[Any]]] = {}
    schemas = {}
    with path.open("rb") as file:
        reader = mcap_reader.make_reader(file, validate_crcs=True)
        last = 0
        for schema, channel, message in reader.iter_messages(log_time_order=False):
            assert (schema.encoding, channel.message_encoding) == ("jsonschema", "json")
            assert message.log_time >= last  # In the order of their ticks as they stand in the file, too.
            last = message.log_time
            schemas[channel.topic] = json.loads(schema.data)
            assert schemas[channel.topic]["title"] == schema.name
            content = json.loads(message.data, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
            assert set(schemas[channel.topic]["required"]) <= set(content)
            messages.setdefault(channel.topic, {}).setdefault(message.log_time, []).append(content)
        about = {one.name: one.metadata for one in reader.iter_metadata()}
        about |= {one.name: json.loads(one.data) for one in reader.iter_attachments()}
        return messages, schemas, (reader.get_summary(), about)


def array(content: dict[str, Any]) -> np.ndarray:
    """Decode a tape.Array as docs/viewers.md describes."""
    return np.frombuffer(base64.b64decode(content["data"]), content["dtype"]).reshape(content["shape"])


def test_states_are_those_of_the_live_run(shapes: tuple[Path, Live], tmp_path: Path) -> None:
    """Every field at every tick has the live run's bits; its log time is its tick in seconds."""
    path, live = shapes

    assert run(main, f"export {path} {SIM} -o {tmp_path}/a.mcap --every 1") == 0

    messages, schemas, (summary, _) = read(tmp_path / "a.mcap")
    names = [name for name in live[0][2] if name != "diary"]
    assert {topic for topic in messages if topic.startswith("/state/")} == {f"/state/{name}" for name in names}
    for tick, (state_hash, _, fields) in live.items():
        at = tick * 10**9
        assert messages["/states"][at] == [{"tick": tick, "state_hash": f"{state_hash:016x}"}]
        for name in names:
            (content,), stored = messages[f"/state/{name}"][at], fields[name]
            found = array(content)
            assert content["tick"] == tick
            assert (found.dtype, found.shape, found.tobytes()) == (stored.dtype, stored.shape, stored.tobytes())
        assert messages["/state/tick"][at][0]["value"] == tick
        assert messages["/state/rng"][at][0]["values"] == fields["rng"].tolist()
        part = float(fields["pair"][1])
        assert messages["/state/pair"][at][0]["values"][1] == ("NaN" if math.isnan(part) else part)
        (grid,) = messages["/layers/map"][at]
        shown = np.frombuffer(base64.b64decode(grid["data"]), "<f8").reshape(-1, grid["column_count"])
        np.testing.assert_array_equal(shown, fields["map"].astype(np.float64))
        assert grid["timestamp"] == {"sec": tick, "nsec": 0}
    assert schemas["/layers/map"]["title"] == "foxglove.Grid"
    assert {chunk.compression for chunk in summary.chunk_indexes} == {"zstd"}


def test_what_happened_and_what_it_is(shapes: tuple[Path, Live], tmp_path: Path) -> None:
    """Figures, events, inputs, hashes and keyframes of all ticks; metadata and attachments name run and range."""
    path, live = shapes

    assert run(main, f"export {path} {SIM} -o {tmp_path}/a.mcap --every 20 --tick-seconds 0.025 --from 3") == 0

    messages, _, (_, about) = read(tmp_path / "a.mcap")
    tick_ns, ticks = 25_000_000, range(3, TICKS + 1)
    for tick in ticks:
        (figures,) = messages["/telemetry"][tick * tick_ns]
        part = {} if tick % 3 else {"part": tick / 7}
        total = int(live[tick][2]["map"].sum())
        assert figures == {"tick": tick, "sum": total, "far/<b>": "Infinity"} | part
        (frame,) = messages["/frames"][tick * tick_ns]
        assert (frame["tick"], frame["state_hash"]) == (tick, f"{live[tick][0]:016x}")
    with Tape(path) as tape:
        assert messages["/frames"][9 * tick_ns][0]["field_hashes"] == tape.frame(9).field_hashes.hex()
        run_id = tape.run_id
    events = {
        tick * tick_ns: [{"tick": tick, "kind": "<script>", "share": "NaN", "who": "00ff", "at": tick}]
        for tick in ticks
        if tick % 4 == 0
    }
    assert messages["/events"] == events
    fed = {tick * tick_ns: [{"tick": tick, "inputs": (tick - 1) % 3}] for tick in ticks if (tick - 1) % 3}
    assert messages["/inputs"] == fed
    assert list(messages["/keyframes"]) == [tick * tick_ns for tick in range(7, TICKS + 1, 7)]
    assert list(messages["/state/map"]) == [3 * tick_ns, 23 * tick_ns]
    told = about["tape"]
    assert (told["run_id"], told["first_tick"], told["last_tick"], told["every"]) == (run_id, "3", "40", "20")
    assert (told["tick_ns"], told["status"], about["losses"]) == ("25000000", "not checked", {})
    content = path.read_bytes()
    digest = hashlib.sha256(f"file 0 of {len(content)} bytes\n".encode() + content)
    assert told["sha256"] == digest.hexdigest()
    assert about["meta.json"]["notes"] == {"who": "<b>"}


def test_a_meadow_with_phases(tmp_path: Path) -> None:
    """Hashes after each phase have the phases' names; layers and points are those of the world."""
    path, config, world = tmp_path / "meadow.tape", tomllib.loads(TINY), find_world("meadow")
    with Recorder(path, world.make(config), blame="phases") as tape:
        for _ in range(12):
            tape.step([])
        last = tape.simulation.state.snapshot()

    assert run(main, f"export {path} -o {tmp_path}/a.mcap") == 0

    messages, schemas, (_, about) = read(tmp_path / "a.mcap")
    phases = [phase.name for phase in tape.simulation.phases]
    with Tape(path) as opened:
        hashes = opened.frame(12).phase_hashes
    (frame,) = messages["/frames"][12 * 10**9]
    assert frame["phase_hashes"] == {
        name: hashes[2 * number : 2 * number + 2].hex() for number, name in enumerate(phases)
    }
    layers = {topic.removeprefix("/layers/") for topic in messages if topic.startswith("/layers/")}
    assert layers == set(world.layers(config, last))
    for name, layer in world.layers(config, last).items():
        (grid,) = messages[f"/layers/{name}"][12 * 10**9]
        assert base64.b64decode(grid["data"]) == np.ascontiguousarray(layer).tobytes()
        assert (grid["column_count"], grid["row_stride"], grid["cell_stride"]) == (
            layer.shape[1],
            layer.shape[1] * 8,
            8,
        )
    (cloud,) = messages["/points/swarms of snail"][12 * 10**9]
    places = world.points(config, last)["swarms of snail"][:, :2]
    assert base64.b64decode(cloud["data"]) == places.tobytes()
    assert [field["type"] for field in cloud["fields"]] == [8, 8]
    assert schemas["/points/swarms of snail"]["title"] == "foxglove.PointCloud"
    assert about["config.json"] == json.loads(json.dumps(config))


def test_events_are_rebuilt_on_request(tmp_path: Path) -> None:
    """With --events, a meadow's events that are not on its tape equal those of a tape that has them."""
    config, world = tomllib.loads(TINY), find_world("meadow")
    for name in ("with", "without"):
        with Recorder(tmp_path / f"{name}.tape", world.make(config), events=name == "with") as tape:
            for _ in range(60):
                tape.step([])
    found = []
    for words in ("with.tape", "without.tape", "without.tape --events"):
        assert run(main, f"export {tmp_path}/{words} -o {tmp_path}/a.mcap --every 60") == 0
        found.append(read(tmp_path / "a.mcap")[0].get("/events"))

    assert found[0] == found[2]
    assert found[0]
    assert found[1] is None


FALSY: list[Any] = [0, 1, 0.0, False, True, "", [], {}, None, 5]


def test_inputs_that_are_falsy_are_exported_too(tmp_path: Path) -> None:
    """All inputs but None are in the file, with their types."""
    record_live(tmp_path / "a.tape", Shapes(), FALSY, keyframe_interval_ticks=7)

    assert run(main, f"export {tmp_path}/a.tape {SIM} -o {tmp_path}/a.mcap") == 0

    found = [content for contents in read(tmp_path / "a.mcap")[0]["/inputs"].values() for content in contents]
    shown = [(tick, value) for tick, value in enumerate(FALSY, 1) if value is not None]
    assert repr([(content["tick"], content["inputs"]) for content in found]) == repr(shown)


class Anthill:
    """A plain object with its own maps and points, whose methods spoil it; layers() fails at tick 2."""

    def __init__(self) -> None:
        self.trail = [0] * 12

    def step(self) -> None:
        self.trail[5] += 1

    def layers(self) -> dict[str, Any]:
        if self.trail[5] == 2:
            raise ValueError("no trail")
        shown, self.trail = np.array(self.trail).reshape(3, 4), []
        return {"trail": shown}

    def points(self) -> dict[str, Any]:
        at, self.trail = self.trail[5], []
        return {"ant": [[at + 0.5, 1.5, 9.0]]}


ONE_HILL: list[Anthill] = []


def one_anthill() -> Anthill:
    """The same object each time."""
    if not ONE_HILL:
        ONE_HILL.append(Anthill())
    return ONE_HILL[0]


def anthill(folder: Path) -> Path:
    """A tape of four steps."""
    with recorder.record(Anthill(), folder / "hill.tape", trial_ms=0) as hill:
        for _ in range(4):
            hill.step()
    return folder / "hill.tape"


def test_the_users_own_maps_and_points_are_exported(tmp_path: Path, capsys: Any) -> None:
    """As a plain loop returns them; the run stays as recorded; a method that raises is a line, and the rest is written."""
    assert run(main, f"export {anthill(tmp_path)} --sim {__name__}:Anthill -o {tmp_path}/a.mcap --every 1") == 0

    messages, _, (_, about) = read(tmp_path / "a.mcap")
    grids, points = messages["/layers/trail"], messages["/points/ant"]
    assert sorted(grids) == [tick * 10**9 for tick in (0, 1, 3, 4)]
    for time_ns, (grid,) in grids.items():
        truth = [0.0] * 12
        truth[5] = time_ns / 10**9
        assert np.frombuffer(base64.b64decode(grid["data"])).tolist() == truth
    for tick in range(5):
        (content,) = points[tick * 10**9]
        assert np.frombuffer(base64.b64decode(content["data"])).tolist() == [tick + 0.5, 1.5]
    (line,) = about["losses"].values()
    assert line.startswith("at tick 2 and perhaps others, not in the file: layers() raised ValueError: no trail")
    assert line in capsys.readouterr().err


def test_a_factory_that_returns_one_object_is_left_alone(tmp_path: Path, capsys: Any) -> None:
    """Its methods would move the run: a line says that they are not in the file."""
    tape = anthill(tmp_path)
    assert run(main, f"export {tape} --sim {__name__}:one_anthill -o {tmp_path}/a.mcap --every 1") == 0
    assert "/layers/trail" not in read(tmp_path / "a.mcap")[0]
    assert "layers() and points() return is not in the file: the factory returns one object" in capsys.readouterr().err


class Other(Shapes):
    """Shapes with a different step from tick 25 on."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["tick"] == 25:
            self.state["map"][0, 0] += 1


def test_a_desync_ends_the_states_until_the_next_keyframe(
    shapes: tuple[Path, Live], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """No state that differs from the run is exported: from the first one to the next keyframe all are left out."""
    path, live = shapes
    monkeypatch.setattr(oracle.shown_world, "Shapes", Other)

    assert run(main, f"export {path} {SIM} -o {tmp_path}/a.mcap --every 1 --json") == 1

    messages, _, (_, about) = read(tmp_path / "a.mcap")
    states = {content["tick"]: content["state_hash"] for (content,) in messages["/states"].values()}
    assert states == {tick: f"{live[tick][0]:016x}" for tick in range(TICKS + 1) if not 25 <= tick < 28}
    facts = json.loads(capsys.readouterr().out)
    assert facts["states"] == len(states)
    assert any("ticks 25 to 27" in line and "desync" in line for line in facts["missing"])
    assert list(about["losses"].values()) == facts["missing"]
    assert len(messages["/frames"]) == TICKS


def test_the_intact_part_of_a_damaged_tape_is_exported(shapes: tuple[Path, Live], tmp_path: Path, capsys: Any) -> None:
    """With a block of any kind damaged, exported data is right, something is missing, and that is reported."""
    path, live = shapes
    whole = path.read_bytes()
    with Tape(path) as tape:
        entries = [entry for segment in tape.segments for part in segment.parts for entry in part.load().entries()]
    lost = {}
    for entry in {entry.kind: entry for entry in entries if entry.first_tick < 30}.values():
        damaged, at = tmp_path / "damaged.tape", entry.offset + 80
        damaged.write_bytes(whole[:at] + bytes(byte ^ 0x55 for byte in whole[at : at + 4]) + whole[at + 4 :])

        code = run(main, f"export {damaged} {SIM} -o {tmp_path}/a.mcap --every 1 --json")

        facts = json.loads(capsys.readouterr().out)
        assert (code, bool(facts["missing"])) == (4, True)
        messages = read(tmp_path / "a.mcap")[0]
        for (content,) in messages["/states"].values():
            assert content["state_hash"] == f"{live[content['tick']][0]:016x}"
        for (content,) in messages["/state/map"].values():
            assert array(content).tobytes() == live[content["tick"]][2]["map"].tobytes()
        assert len(messages["/state/map"]) == len(messages["/states"]) == facts["states"]
        lost[entry.kind] = TICKS + 1 - facts["states"]
    assert lost[BlockKind.FRAMES] > 0
    assert lost[BlockKind.FULL] == lost[BlockKind.DELTA] == lost[BlockKind.TELEMETRY] == lost[BlockKind.EVENTS] == 0, (
        lost
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tick-seconds 1e9", "the time of tick 40 is too large for MCAP"),
        ("--tick-seconds 1e-10", "1 nanosecond"),
        ("--tick-seconds 0", "0"),
        ("--tick-seconds nan", "nan"),
        ("--tick-seconds inf", "1 nanosecond"),
    ],
)
def test_times_that_cannot_be(shapes: tuple[Path, Live], tmp_path: Path, capsys: Any, words: str, said: str) -> None:
    """A tick too short or too long for the clock of the format is refused in one line, before anything is written."""
    assert run(main, f"export {shapes[0]} {SIM} -o {tmp_path}/a.mcap {words}") == 2
    assert_one_line(capsys.readouterr(), said)
    assert not list(tmp_path.iterdir())


def test_without_the_package_it_is_named(
    shapes: tuple[Path, Live], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Without the package mcap, one line names the package to install."""
    monkeypatch.delitem(sys.modules, "replayer.export.viewers.mcap", raising=False)
    monkeypatch.setitem(sys.modules, "mcap.writer", None)

    assert run(main, f"export {shapes[0]} {SIM} -o {tmp_path}/a.mcap") == 2
    assert_one_line(capsys.readouterr(), missing_package("writing MCAP files", "mcap", "mcap"))
