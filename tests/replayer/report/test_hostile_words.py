"""Tapes with values of unexpected types, sizes and depths: an answer or a RecordingError, never another exception."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

import replayer.commands.main
from recorder.errors import CorruptError
from recorder.format.blocks.frame import decode_frame
from recorder.format.limits import INPUT_BYTES_MAX, META_BYTES_MAX
from recorder.format.segments.segment_encoder import make_piece
from replayer import Tape
from replayer.repair.repair import repair_tape
from replayer.value_text import to_json

from oracle.command_lines import run
from oracle.hostile_tapes import SETTINGS, STILL_HASH, Still, frames, full, meta, write_tape


def raw_frame(state_hash: bytes, inputs: bytes = b"\x01") -> bytes:
    """A frame of tick 1."""
    return b"\x93\xcf" + struct.pack(">Q", 1) + state_hash + inputs


GOOD_HASH = b"\xcf" + struct.pack(">Q", STILL_HASH)
TOO_LONG = b"\xc6" + struct.pack(">I", INPUT_BYTES_MAX + 100) + bytes(INPUT_BYTES_MAX + 100)


@pytest.mark.parametrize(
    "frame",
    [raw_frame(b"\xff"), raw_frame(b"\xc3"), raw_frame(GOOD_HASH, TOO_LONG)],
    ids=["negative", "true", "long inputs"],
)
def test_frames_that_no_recorder_writes_are_corrupt(tmp_path: Path, frame: bytes) -> None:
    """A hash that is not an unsigned number, inputs above the limit: a repair loses the tick and continues."""
    with pytest.raises(CorruptError):
        decode_frame(frame, 0)
    path = tmp_path / "run.tape"
    write_tape(path, [*full(0), make_piece(2, frame, 1, tick_count=1), frames(2, 3)])
    with Tape(path) as tape, pytest.raises(CorruptError):
        tape.frame(1)
    report = repair_tape(path, tmp_path / "new.tape", Still)
    assert [lost[:2] for lost in report.lost_ticks] == [(1, 1)]


def nested(levels: int) -> bytes:
    """Lists in lists, as MessagePack."""
    return b"\x91" * levels + b"\xc0"


DEEP = msgpack.packb({"world": None, "simulation": "s", "settings": SETTINGS, "notes": {"a": 0}})[:-1] + nested(900)
METAS: dict[str, bytes] = {
    "settings": meta(settings="x"),
    "notes": meta(notes=[1]),
    "environment": meta(environment=[1]),
    "outside": meta(outside=[1]),
    "reads": meta(
        outside={"process": {1: 2}, "steps": 3, "reads": [["file", "\x1b[2Jx\n" * 999, "\n", None], 7, [b"x"] * 4]}
    ),
    "no steps": meta(outside={"process": 3, "steps": -1, "reads": [["file", "x", "y:1", None]]}),
    "created": meta(created=b"x"),
    "simulation": meta(simulation=b"x"),
    "mode": meta(mode=[b"x"]),
    "interval": meta(settings={**SETTINGS, "keyframe_interval_ticks": b"x", "durability": np.arange(2)}),
    "config": meta(world={"name": "meadow", "version": 1, "config": {"seed": np.int64(3), "name": np.arange(3)}}),
    "no settings": msgpack.packb({"world": None, "simulation": "s"}),
    "deep": DEEP,
    "less deep": meta(notes={"a": msgpack.unpackb(nested(400))}),
    "large": meta(notes={"a": b"x" * (2 * META_BYTES_MAX)}),
    "longdouble": meta(notes={"a": np.longdouble(3), "b": np.clongdouble(3), "c": np.zeros(2, np.longdouble)}),
}


@pytest.mark.parametrize("name", METAS)
@pytest.mark.share(0.22)
def test_any_meta_is_read_and_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Info prints text and JSON; a repair copies frames and states."""
    monkeypatch.chdir(tmp_path)
    write_tape(Path("a.tape"), [*full(0), frames(1, 3)], METAS[name])
    assert run(replayer.commands.main.main, "info a.tape") == 0
    assert run(replayer.commands.main.main, "info a.tape --json") == 0
    json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert run(replayer.commands.main.main, "repair a.tape --sim oracle.hostile_tapes:Still") == 0
    with Tape("a-repaired.tape") as tape:
        assert (tape.status, tape.last_tick) == ("not checked", 3)
        assert tape.meta["repaired"]["from"] == "a.tape"


@pytest.mark.parametrize("outcome", [msgpack.unpackb(nested(480)), {"reason": "x" * (2 << 20)}, np.longdouble(1)])
def test_any_outcome_is_read_and_repaired(tmp_path: Path, capsys: pytest.CaptureFixture[str], outcome: Any) -> None:
    """An outcome that cannot be encoded is left out."""
    path = tmp_path / "a.tape"
    write_tape(path, [*full(0), frames(1, 3)], outcome=outcome)
    assert run(replayer.commands.main.main, f"info {path}") == 0
    assert run(replayer.commands.main.main, f"repair {path}") == 0
    capsys.readouterr()


def test_words_of_a_tape_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences are printed as text."""
    path = tmp_path / "a.tape"
    write_tape(path, [*full(0), frames(1, 3)], meta(simulation="\x1b[2Jgone\n"))
    assert run(replayer.commands.main.main, f"info {path}") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2Jgone" in out


def test_what_lies_deep_is_left_out_of_json() -> None:
    """The json module would raise RecursionError."""
    deep = to_json([{"a": msgpack.unpackb(nested(1000))}])
    assert json.dumps(deep).count("[") < 100
    assert "\\u2026" in json.dumps(deep)
    assert to_json([[[1]]]) == [[[1]]]
