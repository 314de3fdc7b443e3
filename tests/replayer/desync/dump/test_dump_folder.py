"""A dump never overwrites files: notes in a folder stay, and the rest of a killed dump is removed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder
from recorder.storage.atomic_folder import write_folder
from replayer.desync.dump.dump import DUMP_FILES
from replayer.desync.dump.dump_tapes import STATE
from replayer.timeline.verify import verify_tape

import small_worlds
from oracle.command_lines import files, run
from small_worlds import Walkers


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder with a tape."""
    monkeypatch.chdir(tmp_path)
    # The report says how often a step was repeated: the same number of times, however busy the machine is.
    monkeypatch.setattr("replayer.desync.isolated_rerun.RERUNS_MAX", 2)
    monkeypatch.setattr("replayer.desync.isolated_rerun.RERUN_S", 60.0)
    with Recorder("run.tape", Walkers(), keyframe_interval_ticks=10) as tape:
        for tick in range(1, 41):
            tape.step([[tick % 20, 2]])


class Wrong(Walkers):
    """Walkers that are wrong at tick 29."""

    amount = 4

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["rng"][2] == 29 * 40:
            self.state["y"][7] ^= self.amount


class Other(Wrong):
    """Wrong at the same tick with different values."""

    amount = 8


def verify(world: Any = Wrong) -> Path:
    """Verify the tape, and return the path of the dump."""
    path = verify_tape("run.tape", world, dump_folder=Path()).dump_path
    assert path is not None
    return path


@pytest.mark.seldom(0.18)
def test_a_users_folder_of_the_same_name_stays_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with files, an empty one or a file: the dump takes the next free name, and the command prints it."""
    Path("run.desync-29").mkdir()
    Path("run.desync-29/NOTES.txt").write_text("mine")
    Path("run.desync-29-2").mkdir()
    Path("run.desync-29-3").write_text("a file")
    Path("run.desync-29.part").mkdir()
    Path("run.desync-29.part/report.md").write_text("mine, too")
    before = files(Path())
    monkeypatch.setattr(small_worlds, "Wrong", Wrong, raising=False)
    assert run(replayer.commands.main.main, "verify run.tape --sim small_worlds:Wrong") == 1
    assert "  dump: run.desync-29-4\n" in capsys.readouterr().out
    assert {name: files(Path())[name] for name in before} == before
    assert not list(Path("run.desync-29-2").iterdir())
    assert {path.name for path in Path("run.desync-29-4").iterdir()} == DUMP_FILES


@pytest.mark.seldom(0.18)
def test_the_same_dump_again_is_no_second_one() -> None:
    """The same finding reuses its dump, with or without notes in it; another finding of that tick gets a new name."""
    assert verify() == Path("run.desync-29")
    Path("run.desync-29/NOTES.txt").write_text("mine")
    nested = verify_tape("run.desync-29/reproduction.tape", Wrong, dump_folder=Path("run.desync-29")).dump_path
    before = files(Path())
    assert verify() == Path("run.desync-29")
    assert files(Path()) == before
    assert nested is not None
    assert nested.is_dir()
    assert verify(Other) == Path("run.desync-29-2")
    assert verify() == Path("run.desync-29")
    assert verify(Other) == Path("run.desync-29-2")
    assert {name: files(Path())[name] for name in before} == before


@pytest.mark.seldom(0.15)
def test_a_dump_that_was_killed_is_cleared_away_by_the_next() -> None:
    """Half a dump of a dead process is removed, except files that the process did not write."""
    ready, go = os.pipe()
    child = os.fork()
    if not child:  # It dies in the middle of its dump.

        def write(part: Path) -> None:
            (part / "report.md").write_text("half")
            (part / f"{STATE}.part").write_text("half")
            os.write(go, b"!")
            signal.pause()

        write_folder(Path("run.desync-29"), write, files=DUMP_FILES)
        os._exit(1)
    try:
        os.read(ready, 1)
        half = {path.name for path in Path("run.desync-29.part").iterdir()}
        beside = verify()  # Beside one that is still being written, which stays.
        stayed = Path("run.desync-29.part/report.md").exists()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert half == {"report.md", "state.tape.part", "unfinished"}
    assert (beside, stayed) == (Path("run.desync-29"), True)
    Path("run.desync-29.part/mine.md").write_text("mine")
    assert verify(Other) == Path("run.desync-29-2")
    assert files(Path("run.desync-29.part")) == {"mine.md": b"mine"}
    Path("run.desync-29.part/mine.md").unlink()
    Path("run.desync-29.part").rmdir()
    assert not list(Path().glob("*.part"))


def test_what_fails_leaves_nothing() -> None:
    """A full disk, or Ctrl-C, in the middle of a dump."""

    def write(part: Path) -> None:
        (part / "before.npz").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(Path("dumps/run.desync-29"), write, files=DUMP_FILES)
    assert files(Path("dumps")) == {}
    assert not list(Path("dumps").iterdir())


def save(part: Path, number: int) -> None:
    """A unique file."""
    (part / "before.npz").write_bytes(bytes([number] * 9))


def test_dumps_that_are_written_at_once_get_names_of_their_own() -> None:
    """Eight processes at the same time; each writes a complete dump."""
    start, found = threading.Barrier(8), []

    def keep(number: int) -> None:
        start.wait()
        found.append(write_folder(Path("d"), lambda part: save(part, number), files=DUMP_FILES))

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8
    assert {name for path in found for name in files(path)} == {"before.npz"}
