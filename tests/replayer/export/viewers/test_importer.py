"""The Rerun viewer opens tapes with the importer, which ignores all other files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from optional_packages import lazily

import simulation_flight_recorder
from recorder import Recorder
from recorder.format.blocks import block, file_header
from sim import find_world
from sim.extras import missing_package
from sim.worlds.meadow import Meadow

from oracle.command_lines import TINY
from oracle.rerun_files import read_rrd
from oracle.shown_world import Shapes

rerun_chunk = lazily("rerun.chunk")

SOURCES = Path(simulation_flight_recorder.__file__).parent
NOT_OURS = 66
STARTED = "import simulation_flight_recorder; simulation_flight_recorder.rerun_importer()"


@pytest.fixture(scope="module")
def tape(tmp_path_factory: Any) -> Path:
    """A small meadow, whose world is registered: no option is needed."""
    folder = tmp_path_factory.mktemp("meadow")
    path = folder / "meadow.tape"
    with Recorder(path, find_world("meadow").make(tomllib.loads(TINY)), keyframe_interval_ticks=10) as recorder:
        for _ in range(25):
            recorder.step([])
    return path


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCES), *sys.path]), "RERUN_ANALYTICS": "0"} | more


def started(*words: object, before: str = "") -> subprocess.CompletedProcess[bytes]:
    """Start it as the viewer does."""
    line = [sys.executable, "-c", before + STARTED, *map(str, words)]
    return subprocess.run(line, capture_output=True, env=environment(), check=False, timeout=60)


@pytest.fixture
def importer(monkeypatch: Any, capfdbinary: Any, tmp_path: Path) -> Any:
    """Run it in this process: its exit code, the target of its stdout afterwards, and its messages."""

    def run(*words: object) -> tuple[Any, Path, str]:
        monkeypatch.setattr(sys, "argv", ["rerun-importer-tape", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            simulation_flight_recorder.rerun_importer()
        written, said = capfdbinary.readouterr()
        output = tmp_path / "output.rrd"
        output.write_bytes(written)
        return caught.value.code, output, said.decode()

    return run


@pytest.mark.seldom(0.15)
def test_the_viewer_opens_a_tape(tape: Path, tmp_path: Path) -> None:
    """Rerun finds the importer on the PATH by its name, loads its output, and has every state of the tape."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "rerun-importer-tape"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{STARTED}" "$@"\n')
    script.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    saved = tmp_path / "saved.rrd"
    line = [sys.executable, "-m", "rerun", "--port", str(port), "--save", str(saved), str(tape)]

    done = subprocess.run(
        line,
        capture_output=True,
        env=environment(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}"),
        check=False,
        timeout=110,
    )

    assert done.returncode == 0, done.stderr
    found = read_rrd(saved)
    assert list(found["/tape/state_hash"]["text"]) == list(range(26))
    assert "/layers/plant\\ energy" in found
    assert "/points/swarms\\ of\\ snail" in found


def test_what_the_viewer_passes_along_is_obeyed(tape: Path, importer: Any) -> None:
    """Ids and the prefix of entities are the requested ones; unknown options of a later viewer are ignored."""
    words = ["--application-id", "mine", "--recording-id", "abc", "--entity-path-prefix", "/here/x", "--static"]
    more = ["--time_sequence", "frame=3", "other=4", "--unheard-of", "--opened-recording-id", "z"]

    code, output, said = importer(tape, *words, *more)

    assert (code, said) == (0, "")
    (recording,) = rerun_chunk.RrdReader(output).recordings()
    assert (recording.application_id, recording.recording_id) == ("mine", "abc")
    assert {name.startswith("/here/x/") for name in read_rrd(output) if name != "/__properties"} == {True}


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    """Any other file, a folder or nothing: exits with Rerun's code for that, silently, without heavy imports."""
    (tmp_path / "a.tape").write_text("a tape of music")
    (tmp_path / "b.csv").write_bytes(b"x,y\n" + block.TAG)
    (tmp_path / "empty.tape").touch()
    told = "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    for path in (*tmp_path.iterdir(), tmp_path, tmp_path / "none.tape"):
        done = started(path, "--recording-id", "abc", before=told)
        assert (done.returncode, done.stdout) == (NOT_OURS, b""), path
        assert len(done.stderr.splitlines()) == 1
        heavy = {b"numpy", b"recorder", b"sim", b"replayer", b"rerun", b"rich", b"cyclopts"}
        assert not heavy & set(done.stderr.split())
    assert started().returncode == NOT_OURS


def test_it_knows_how_tapes_begin() -> None:
    """It checks for the magic bytes of the format, although it does not import the format."""
    ours = simulation_flight_recorder
    assert (ours.TAPE_STARTS, ours.BLOCK_STARTS, ours.NOT_OURS) == (file_header.MAGIC, block.TAG, NOT_OURS)


def test_a_tape_whose_header_is_lost_is_ours(tape: Path, tmp_path: Path, importer: Any) -> None:
    """The readable part of a damaged tape is shown, and its losses are in the recording."""
    content = bytearray(tape.read_bytes())
    content[:64] = bytes(64)
    (tmp_path / "lost.tape").write_bytes(content)

    code, output, _ = importer(tmp_path / "lost.tape", "--recording-id", "abc")

    assert code == 0
    found = read_rrd(output)
    assert len(found["/tape/state_hash"]["text"]) == 26
    assert found["/tape/losses"]["text"]


def test_a_simulation_that_is_not_registered_shows_its_keyframes(tmp_path: Path, importer: Any) -> None:
    """The viewer cannot name a simulation: only the keyframes' states are shown, and the recording has a note."""
    with Recorder(tmp_path / "a.tape", Shapes(), keyframe_interval_ticks=7) as recorder:
        for _ in range(20):
            recorder.step(None)

    code, output, said = importer(tmp_path / "a.tape")

    found = read_rrd(output)
    assert code == 0
    assert list(found["/tape/state_hash"]["text"]) == [0, 7, 14]
    assert list(found["/telemetry/sum"]["scalars"]) == list(range(21))
    assert any("keyframes" in text for rows in found["/tape/losses"]["text"].values() for (text,) in rows)
    assert said.startswith("note: only the states of keyframes are shown: the tape names no registered")


def test_what_is_printed_comes_between_nothing(tape: Path, importer: Any, monkeypatch: Any) -> None:
    """Output of a world while it steps, from Python or below it, goes to stderr."""
    step = Meadow.step

    def loud(self: Any, inputs: Any) -> None:
        print("step!", flush=True)
        os.write(1, b"low")
        step(self, inputs)

    monkeypatch.setattr(Meadow, "step", loud)

    code, output, said = importer(tape)

    assert (code, said.count("low"), said.count("step!")) == (0, 25, 25)
    assert len(read_rrd(output)["/tape/state_hash"]["text"]) == 26


def test_without_the_package_it_is_named(tape: Path) -> None:
    """If the importer's Python has no Rerun, one line names the package to install."""
    done = started(tape, before="import sys; sys.modules['rerun'] = None; ")

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"error: {missing_package('writing Rerun files', 'rerun-sdk', 'rerun')}\n"


def test_a_viewer_that_goes_away_is_no_failure(tape: Path) -> None:
    """When the reader closes the pipe, it exits silently."""
    line = [sys.executable, "-c", STARTED, str(tape)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0
