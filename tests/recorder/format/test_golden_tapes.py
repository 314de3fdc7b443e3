"""Tapes of every version of the format stay readable: status, frames, states, seeks, second reader."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import replayer
from recorder.errors import CorruptError, MissingTickError, RecordingError
from recorder.format.blocks.file_header import MAJOR, MINOR

from oracle.second_checks import CheckedTape
from project_paths import GOLDEN, ROOT
from small_worlds import Herd, Saved, Walkers

TRUTHS = {
    (folder.name, name): truth
    for folder in sorted(GOLDEN.iterdir())
    for name, truth in json.loads((folder / "truth.json").read_text(encoding="utf-8")).items()
}
WORLDS = {f"small_worlds.{world.__name__}": world for world in (Herd, Saved, Walkers)}

each_tape = pytest.mark.parametrize(("version", "name"), TRUTHS, ids=str)


class Golden:
    """A golden tape and the truth about it; its attributes are those of its entry in truth.json."""

    def __init__(self, version: str, name: str) -> None:
        truth = TRUTHS[version, name]
        self.path = GOLDEN / version / f"{name}.tape"
        self.status: str = truth["status"]
        self.inputs: list[Any] = truth["inputs"]
        self.states: dict[str, str] = truth["states"]
        self.first_tick: int = truth.get("first_tick", 0)  # Tapes of 0.1 begin at 0
        self.last_tick = len(self.inputs)
        first_lost, last_lost = truth.get("lost") or (1, 0)  # and dropped nothing.
        self.lost = range(first_lost, last_lost + 1)
        self.framed = [tick for tick in range(self.first_tick + 1, self.last_tick + 1) if tick not in self.lost]
        # After the dropped frames there is a keyframe of their last tick.
        self.reachable = [tick for tick in range(self.first_tick, self.last_tick + 1) if tick not in self.lost[:-1]]


def digest(arena: bytes) -> str:
    """The digest as in truth.json."""
    return hashlib.blake2b(arena, digest_size=16).hexdigest()


@each_tape
def test_frames_and_keyframes(version: str, name: str) -> None:
    """Status, the inputs of every frame and the arena of every keyframe are as when the tape was made."""
    golden = Golden(version, name)
    with replayer.Tape(golden.path) as tape:
        assert tape.status == ("not checked" if golden.status == "intact" else golden.status)
        tape.check_blocks()
        assert (tape.status, tape.first_tick, tape.last_tick) == (golden.status, golden.first_tick, golden.last_tick)
        for tick in range(golden.first_tick + 1, golden.last_tick + 1):
            if tick in golden.lost:
                with pytest.raises((MissingTickError, CorruptError)):
                    tape.frame(tick)
            else:
                assert tape.frame(tick).inputs == golden.inputs[tick - 1]
        assert len(tape.keyframes) > 1
        for place in tape.keyframes:
            assert digest(tape.snapshot(place).arena.tobytes()) == golden.states[str(place.tick)]


@each_tape
def test_seeks(version: str, name: str) -> None:
    """Every reachable tick is reached, in a random order; the others are refused."""
    golden = Golden(version, name)
    with replayer.Tape(golden.path) as tape:
        world = WORLDS[tape.meta["simulation"]]
    with replayer.Timeline(golden.path, world=world) as run:
        for tick in sorted(golden.reachable, key=lambda tick: tick * 7 % 11):
            run.seek(tick)
            assert digest(run.state.arena.tobytes()) == golden.states[str(tick)]
        for tick in golden.lost[:-1]:
            with pytest.raises(RecordingError):
                run.seek(tick)


@each_tape
def test_the_second_reader_agrees(version: str, name: str, tmp_path: Path) -> None:
    """It finds the same frames and states; for a torn tape, in the longest beginning that is a tape."""
    golden = Golden(version, name)
    if name == "flipped":
        with pytest.raises(AssertionError):
            CheckedTape(golden.path)
        return
    found = read_whole_part(golden.path, tmp_path)

    assert [(tick, inputs) for tick, _, inputs in found.frames()] == [(t, golden.inputs[t - 1]) for t in golden.framed]
    for keyframe in found.keyframes():
        assert digest(keyframe.arena) == golden.states[str(keyframe.tick)]
    with replayer.Tape(golden.path) as tape:
        assert [place.tick for place in tape.keyframes] == [keyframe.tick for keyframe in found.keyframes()]
        assert [tape.state_hash(tick) for tick in golden.framed] == [state_hash for _, state_hash, _ in found.frames()]
        assert (tape.meta, tape.run_id) == (found.meta, found.run_id.hex())
    is_whole = found.seal is not None and found.seal.get("final", True) and not len(golden.lost)
    assert is_whole is (golden.status == "intact")


def read_whole_part(path: Path, folder: Path) -> CheckedTape:
    """The content of a tape by the second reader, which refuses torn tapes."""
    data, part = path.read_bytes(), folder / path.name
    for end in range(len(data), 0, -1):
        try:
            return CheckedTape(path if end == len(data) else part)
        except AssertionError:
            part.write_bytes(data[: end - 1])
    raise AssertionError(path)


@pytest.mark.seldom(0.15)
def test_there_are_golden_tapes_of_this_version(tmp_path: Path) -> None:
    """The current version has golden tapes; the tool that makes them never changes an existing folder."""
    folder = GOLDEN / f"{MAJOR}.{MINOR}"
    before = {path: path.read_bytes() for path in folder.iterdir()}
    maker = [sys.executable, str(ROOT / "tools" / "make_golden_tapes.py")]
    refused = subprocess.run([*maker, str(folder)], capture_output=True, text=True, check=False)
    subprocess.run([*maker, str(tmp_path / "new")], capture_output=True, check=True)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert before == {path: path.read_bytes() for path in folder.iterdir()}
    truth, made = (
        json.loads((made_in / "truth.json").read_text(encoding="utf-8")) for made_in in (folder, tmp_path / "new")
    )
    assert truth == made  # The runs; bytes may differ with the version of LZ4.
