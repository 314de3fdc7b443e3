"""Files of a tape that are removed, moved, replaced or truncated by another program while it is recorded."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder import Recorder
from recorder.storage.file_names import journal_path, segment_path
from replayer import Tape

from project_paths import SUPPORT
from small_worlds import Walkers


def step(tape: Recorder, count: int, hashes: dict[int, int]) -> None:
    """Make steps, and keep the hash of each state, as the simulation itself has it."""
    for _ in range(count):
        tick = tape.tick + 1
        tape.step([[tick % 20, tick]])
        hashes[tick] = tape.simulation.state.hash()


def step_into_files(tape: Recorder, hashes: dict[int, int]) -> None:
    """Make steps until the tape has several files: a new one begins where the writer has written enough."""
    for _ in range(10):
        step(tape, 10, hashes)
        tape.flush()
    assert segment_path(tape.path, 1).exists()


def assert_whole(path: Path, hashes: dict[int, int]) -> None:
    """The tape is sealed, has every tick, and leads to the live state at each."""
    with Tape(path) as tape:
        assert (tape.status, tape.last_tick) == ("not checked", max(hashes))
    run = replayer.Timeline(path, world=Walkers)
    assert {tick: state_at(run, tick) for tick in hashes} == hashes
    assert run.verify().ok


@contextlib.contextmanager
def warned(pattern: str) -> Iterator[None]:
    """In the block a warning of the recording matches."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(warning.message) for warning in caught if warning.category is recorder.RecordingWarning]
    assert any(re.search(pattern, message) for message in messages), messages


def state_at(run: Any, tick: int) -> int:
    """The hash of the state that a seek leads to."""
    run.seek(tick)
    return int(run.simulation.state.hash())


def remove(path: Path) -> None:
    path.unlink()


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("at", ["before a flush", "before the end"])
@pytest.mark.parametrize(("displace", "word"), [(remove, "was removed"), (remove_folder, "was removed")])
def test_a_tape_whose_name_went_has_it_again(
    tmp_path: Path, displace: Callable[[Path], None], word: str, at: str
) -> None:
    path, hashes = tmp_path / "runs" / "a.tape", dict[int, int]()
    path.parent.mkdir()
    with (
        warned(rf"a\.tape {word}.*all of the tape is in .*a\.tape$"),
        Recorder(path, Walkers(), keyframe_interval_ticks=7) as tape,
    ):
        step(tape, 20, hashes)
        displace(path)
        step(tape, 5, hashes)
        if at == "before a flush":
            tape.flush()
            with Tape(path) as read:
                assert read.last_tick == 25  # At once, for readers and for a process that is killed.
            step(tape, 20, hashes)
    assert_whole(path, hashes)
    assert [other.name for other in path.parent.iterdir()] == ["a.tape"]


@pytest.mark.parametrize("folder", ["", "other"])
def test_a_tape_that_was_moved_is_followed_with_its_journal(tmp_path: Path, folder: str) -> None:
    path, hashes = tmp_path / "a.tape", dict[int, int]()
    moved = tmp_path / folder / "b.tape"
    moved.parent.mkdir(exist_ok=True)
    with (
        warned(r"a\.tape was moved while it is recorded: it continues as .*b\.tape$"),
        Recorder(path, Walkers()) as tape,
    ):
        step(tape, 20, hashes)
        path.rename(moved)
        step(tape, 5, hashes)
        tape.flush()
        assert journal_path(moved).exists()
        assert not journal_path(path).exists()
        step(tape, 20, hashes)
    assert_whole(moved, hashes)
    assert [other.name for other in moved.parent.iterdir() if other.is_file()] == ["b.tape"]


def test_a_tape_of_several_files_whose_first_was_moved_is_whole_under_its_name(tmp_path: Path) -> None:
    path, hashes = tmp_path / "a.tape", dict[int, int]()
    with (
        warned(r"a\.tape was moved.*all of the tape is in .*a\.tape$"),
        Recorder(path, Walkers(), keyframe_interval_ticks=5, split="2kB") as tape,
    ):
        step_into_files(tape, hashes)
        path.rename(tmp_path / "elsewhere.tape")
        step(tape, 5, hashes)
    assert_whole(path, hashes)


@pytest.mark.seldom(0.15)
def test_a_file_that_took_the_name_is_left_alone(tmp_path: Path) -> None:
    """The tape, its journal and its further files get another name; they are locked there."""
    path, hashes = tmp_path / "a.tape", dict[int, int]()
    rescued = tmp_path / "a.rescued-2.tape"
    (tmp_path / "a.rescued.tape").write_bytes(b"of another day")
    with (
        warned(r"was replaced by another file.*a\.rescued-2\.tape$"),
        Recorder(path, Walkers(), keyframe_interval_ticks=5, split="2kB") as tape,
    ):
        step_into_files(tape, hashes)
        (tmp_path / "b").write_bytes(b"foreign")
        (tmp_path / "b").replace(path)
        step(tape, 1, hashes)
        tape.flush()
        assert journal_path(rescued).exists()
        with pytest.raises(BlockingIOError):
            recorder.resume(rescued, Walkers())
        step(tape, 40, hashes)
        assert tape.write_out(tmp_path / "copy.tape") == (0, 141)
    assert path.read_bytes() == b"foreign"
    assert_whole(rescued, hashes)
    assert_whole(tmp_path / "copy.tape", hashes)
    names = {other.name for other in tmp_path.iterdir()}
    assert not {name for name in names if name.startswith("a.tape.")}, names
    assert segment_path(rescued, 1).exists(), names


def test_a_later_file_that_was_removed_is_written_again(tmp_path: Path) -> None:
    path, hashes = tmp_path / "a.tape", dict[int, int]()
    with warned(r"a\.tape\.\d+ was removed"), Recorder(path, Walkers(), keyframe_interval_ticks=5, split="2kB") as tape:
        step_into_files(tape, hashes)
        number = 1
        while segment_path(path, number + 1).exists():
            number += 1
        segment_path(path, number).unlink()
        step(tape, 3, hashes)
    assert_whole(path, hashes)


@pytest.mark.parametrize("size", [0, 100, -1, None], ids=["to nothing", "to a part", "by a byte", "longer"])
def test_after_a_change_of_its_size_nothing_that_follows_is_lost(tmp_path: Path, size: int | None) -> None:
    """What was cut off is named as missing; what is recorded from then on is read, and is right."""
    path, hashes = tmp_path / "a.tape", dict[int, int]()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with Recorder(path, Walkers(), keyframe_interval_ticks=10) as tape:
            step(tape, 35, hashes)
            tape.flush()
            if size is None:
                with path.open("ab") as file:
                    file.write(b"a line of a log\n")
            else:
                os.truncate(path, size if size >= 0 else path.stat().st_size + size)
            step(tape, 5, hashes)
            tape.flush()
            step(tape, 40, hashes)
    assert "another program changed the size of the tape" in str(warned[0].message)
    run = replayer.Timeline(path, world=Walkers)
    reached = {}
    for tick in hashes:
        with contextlib.suppress(recorder.MissingTickError):
            reached[tick] = state_at(run, tick)
    assert reached == {tick: hashes[tick] for tick in reached}
    assert set(range(50, 81)) <= set(reached)


def test_a_recording_that_may_not_continue_says_so(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.tape", Walkers(), on_error="raise") as tape:
        step(tape, 5, {})
        tape.flush()
        os.truncate(tmp_path / "a.tape", 50)
        step(tape, 1, {})
        with pytest.raises(recorder.WriterFailedError, match="another program changed the size"):
            tape.flush()
        with pytest.raises(recorder.WriterFailedError):
            tape.close()


KILLED = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
from recorder import Recorder
from small_worlds import Walkers
tape = Recorder("a.tape", Walkers(), deterministic=True, keyframe_interval_ticks=1000)
tape.step([[1, 1]])
os.unlink("a.tape.journal")
tape.flush()
for tick in range(2, 12):
    tape.step([[tick, tick]])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_journal_that_was_removed_is_made_again(tmp_path: Path) -> None:
    """Otherwise a kill would lose its ticks, although each step has returned."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])}
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with Tape(tmp_path / "a.tape") as tape:
        assert tape.last_tick == 11


TRUNCATED = """
import os, warnings
from recorder import Recorder
from small_worlds import Walkers
tape = Recorder("a.tape", Walkers(), deterministic=True, keyframe_interval_ticks=1000)
for tick in range(1, 12):
    tape.step([[tick, tick]])
    if tick == 5:
        tape.flush()
os.truncate("a.tape.journal", 0)
tape.step([[12, 12]])
"""


def test_a_journal_that_is_truncated_ends_the_process_and_leaves_the_tape(tmp_path: Path) -> None:
    """As docs/durability.md says: the ticks that had not reached the tape are lost, the others are not."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])}
    killed = subprocess.run([sys.executable, "-c", TRUNCATED], cwd=tmp_path, env=environment, check=False, timeout=60)
    assert killed.returncode == -signal.SIGBUS
    run = replayer.Timeline(tmp_path / "a.tape", world=Walkers)
    assert run.tape.last_tick == 5
    assert run.verify().ok


@pytest.mark.parametrize("number", range(6))
@pytest.mark.share(0.5)
def test_whatever_happens_to_its_names_the_whole_tape_is_somewhere(tmp_path: Path, number: int) -> None:  # noqa: ARG001 - each draws its own
    """Random removals, moves and replacements, with splits and flushes between them; the last warning says where."""
    seed = random.randrange(1 << 32)
    numbers = random.Random(seed)
    (tmp_path / "runs").mkdir()
    path, hashes, foreign = tmp_path / "runs" / "a.tape", dict[int, int](), dict[Path, bytes]()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        split = numbers.choice([None, "1kB", "3kB"])
        with Recorder(path, Walkers(), keyframe_interval_ticks=numbers.randrange(3, 12), split=split) as tape:
            step(tape, 5, hashes)
            for move_number in range(numbers.randrange(1, 5)):
                tape.flush()  # A closed file of the tape that goes is gone: only the open ones can be written again.
                first = tape._files.path
                match numbers.randrange(4):
                    case 0:
                        first.unlink()
                    case 1:
                        first.rename(first.with_name(f"moved-{move_number}"))
                    case 2:
                        (tmp_path / "foreign").write_bytes(bytes([move_number]) * 9)
                        (tmp_path / "foreign").replace(first)
                        foreign[first] = bytes([move_number]) * 9
                    case 3:
                        journal_path(first).unlink(missing_ok=True)
                step(tape, numbers.randrange(1, 30), hashes)
                if numbers.random() < 0.5:
                    tape.flush()
        where = tape._files.path
    try:
        assert_whole(where, hashes)
        assert {path: path.read_bytes() for path in foreign} == foreign
    except AssertionError as error:
        error.add_note(f"seed {seed}; warnings: {[str(warning.message) for warning in warned]}")
        raise


def test_a_path_that_cannot_be_looked_at_is_no_sign_that_the_file_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a folder that this user may no longer enter, or on a disk that does not answer."""
    path, hashes = tmp_path / "a.tape", dict[int, int]()
    stat = Path.stat

    def refuse(self: Path, **options: Any) -> Any:
        if self.name.startswith("a.tape"):
            raise PermissionError(13, "Permission denied", str(self))
        return stat(self, **options)

    with Recorder(path, Walkers(), keyframe_interval_ticks=10, on_error="raise") as tape:
        step(tape, 20, hashes)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "stat", refuse)
            tape.flush()
            step(tape, 5, hashes)
            tape.flush()
    assert_whole(path, hashes)
