"""The files of a tape stay in the folder in which it was begun, and files of others are left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import recorder.writer.journal
from recorder import Recorder
from recorder.storage.tape_files import TapeFiles
from replayer import Tape
from replayer.follow.tail import Tail
from replayer.timeline.verify import verify_tape

from small_worlds import Walkers


def step_to(tape: Recorder, tick: int) -> None:
    """Record up to a tick, with all of it in the file."""
    while tape.tick < tick:
        tape.step([[tape.tick % 20, 1]])
        if tape.tick % 5 == 0:
            tape.flush()


def test_a_change_of_folder_leaves_the_tape_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments, the growing journal, and files that are read or written later are all in the first folder."""
    monkeypatch.setattr(recorder.writer.journal, "AREA_BYTES", 300)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    with Recorder("run.tape", Walkers(), split=2000, keyframe_interval_ticks=10) as tape:
        step_to(tape, 11)
        with Tape("run.tape") as read, Tail("run.tape") as tail:
            monkeypatch.chdir(there)
            step_to(tape, 60)
            tape.step([[1, 1]] * 300)
            assert (here / "run.tape.journal").stat().st_size > 2000
            tape.write_out("out.tape")
            tape.flush()
            assert read.last_tick == 11
            assert tail.poll()[-1].tick == 61
    assert [path.name for path in there.iterdir()] == ["out.tape"]
    with Tape(here / "run.tape") as read, Tape("out.tape") as out:
        assert (read.status, read.last_tick, out.last_tick) == ("not checked", 61, 61)
        assert len(read.segments) > 2
    assert not (here / "run.tape.journal").exists()


def test_checks_of_the_lock_do_not_keep_a_writer_out(tmp_path: Path) -> None:
    """Other processes may check at any time if the tape is being recorded; it can still be opened for writing."""
    path = tmp_path / "run.tape"
    path.write_bytes(b"")
    program = "import sys; from recorder.storage.open_tape import is_locked\nprint(flush=True)\nwhile True: is_locked(sys.argv[1])"
    with subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        asking.stdout.readline()
        try:
            for _ in range(2000):
                files = TapeFiles(path)
                files.open(0)
                files.release()
        finally:
            asking.kill()
    files = TapeFiles(path)
    files.open(0)
    with pytest.raises(BlockingIOError, match="another process is recording"):
        TapeFiles(path).open(0)
    files.release()


def test_a_copy_of_the_tape_next_to_it_is_not_overwritten(tmp_path: Path) -> None:
    """It has the name that the next segment needs: resuming refuses at once, and names the file."""
    path, copy = tmp_path / "run.tape", tmp_path / "run.tape.1"
    with Recorder(path, Walkers(), split=600, keyframe_interval_ticks=5) as tape:
        step_to(tape, 4)
    whole = path.read_bytes()
    copy.write_bytes(whole)
    with pytest.raises(FileExistsError, match=r"not part of the recording.*run\.tape\.1'"):
        recorder.resume(path, Walkers())
    assert path.read_bytes() == copy.read_bytes() == whole
    copy.rename(tmp_path / "copy.tape")
    with recorder.resume(path, Walkers()) as tape:
        step_to(tape, 30)
    assert verify_tape(path, Walkers).ok
    assert copy.exists()


def test_a_file_that_gets_in_the_way_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording continues in memory until the file is moved away, and the warning names it."""
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))
    path, other = tmp_path / "run.tape", tmp_path / "run.tape.1"
    tape = Recorder(path, Walkers(), split=300, keyframe_interval_ticks=5)
    other.write_bytes(b"mine")
    step_to(tape, 4)
    tape.step([])
    with pytest.raises(recorder.WriterFailedError, match=r"run\.tape\.1'"):
        tape.flush()
    with pytest.warns(recorder.RecordingWarning, match=r"not part of the recording.*run\.tape\.1'"):
        tape.step([])
    assert other.read_bytes() == b"mine"
    other.unlink()
    tape.flush()
    with pytest.warns(recorder.RecordingWarning, match="accepts the recording again"):
        tape.close()
    report = verify_tape(path, Walkers)
    assert (report.ok, report.status, report.tick_count) == (True, "intact", 7)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.tape", "run.tape.1"]


def test_a_name_that_cannot_be_recorded_to_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing tape, a missing folder, a tilde that only a shell expands."""
    monkeypatch.chdir(tmp_path)
    with Recorder("run.tape", Walkers()):
        pass
    with pytest.raises(
        FileExistsError, match=r"exists already: choose a different name.*recorder\.resume: '.*run\.tape'"
    ):
        Recorder("run.tape", Walkers())
    with pytest.raises(FileNotFoundError, match=r"No such file or directory; make this folder first: 'nowhere'$"):
        Recorder("nowhere/run.tape", Walkers())
    with pytest.raises(FileNotFoundError, match=r"No such file or directory .*expanduser.*: '~'$"):
        Recorder("~/run.tape", Walkers())
    assert [file.name for file in tmp_path.iterdir()] == ["run.tape"]


def test_the_journal_of_a_lost_tape_is_kept(tmp_path: Path) -> None:
    """It may contain the tape's last ticks; an empty one is removed."""
    path, journal = tmp_path / "run.tape", tmp_path / "run.tape.journal"
    with Recorder(path, Walkers()) as tape:
        empty = journal.read_bytes()
        tape.step([[1, 1]])
        left = journal.read_bytes()
    for data, number in ((empty, 0), (bytes(100), 0), (left, 1), (b"my diary", 2)):
        path.unlink()
        journal.write_bytes(data)
        with Recorder(path, Walkers()) as tape:
            aside = tmp_path / f"run.tape.torn-{number}"
            if number:
                with pytest.warns(recorder.RecordingWarning, match=rf"run\.tape\.journal was left .*torn-{number}"):
                    tape.step([])
                assert aside.read_bytes() == data
            else:
                tape.step([])
        assert not journal.exists()
    assert len(list(tmp_path.iterdir())) == 3
