"""Every command detects a file of a split tape that lost its seal, its neighbours or its position (P16)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import google_crc32c
import pytest

import recorder
import replayer.commands.main
from recorder import CorruptError, RecordingError
from recorder.format.blocks.block import HEADER_BYTES, decode_header, encode_header
from recorder.storage.file_names import following_segments, segment_path
from replayer.tape.tape import Tape
from replayer.timeline.verify import verify_tape

from oracle.command_lines import assert_one_line, run
from oracle.second_reader import END, Reader
from small_worlds import Walkers

INFO, FAST, FULL = "info s.tape", "verify s.tape --fast", "verify s.tape --sim small_worlds:Walkers"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in a folder with a tape of some files."""
    monkeypatch.chdir(tmp_path)
    record("s.tape")
    assert len(following_segments("s.tape")) > 2
    return tmp_path


def record(path: str, push: int = 1, **settings: Any) -> None:
    """Forty ticks in several files, sealed."""
    usual: dict[str, Any] = {
        "keyframe_interval_ticks": 5,
        "split": 600,
        "deterministic": True,
        "blame": "none",
        "run_id": bytes(16),
    }
    with recorder.Recorder(path, Walkers(), **usual | settings) as tape:
        for tick in range(1, 41):
            tape.step([[tick % 20, push]])


def lose_seal(path: Path) -> None:
    """Replace END and trailer by an optional block with right checksums."""
    data = path.read_bytes()
    end = next(block for block in Reader(data).blocks if block.kind == END)
    header = decode_header(data[end.offset :][:HEADER_BYTES], end.offset)
    rest = bytes(len(data) - end.offset - HEADER_BYTES)
    forged = attrs.evolve(
        header, kind=0xFF, stored_bytes=len(rest), raw_bytes=len(rest), codec=0, payload_crc=google_crc32c.value(rest)
    )
    path.write_bytes(data[: end.offset] + encode_header(forged) + rest)


@pytest.mark.parametrize("number", [0, 1])
def test_a_seal_that_is_gone_although_the_next_file_names_it(capsys: pytest.CaptureFixture[str], number: int) -> None:
    """Every command prints corrupt, exit code 4."""
    lose_seal(segment_path("s.tape", number))
    for line in (INFO, INFO + " --fast", FAST, FULL):
        assert run(replayer.commands.main.main, line) == 4
        assert f"the seal is missing: segment {number + 1} was begun after a sealed one" in capsys.readouterr().out


@pytest.mark.parametrize("number", [1, 2])
def test_a_file_of_a_different_run_is_found_by_info_and_verify(folder: Path, number: int) -> None:
    """The file is sealed and intact, but the next one's END names a different digest."""
    (folder / "other").mkdir()
    record("other/s.tape", push=2)
    segment_path("s.tape", number).write_bytes(segment_path("other/s.tape", number).read_bytes())

    assert [run(replayer.commands.main.main, line) for line in (INFO, INFO + " --fast", FAST)] == [4] * 3
    report = verify_tape("s.tape", Walkers)
    assert report.status == "corrupt"
    assert any("is not the one that was recorded" in str(problem) for problem in report.problems)


def test_the_first_file_alone_with_a_different_name() -> None:
    """Its seal states that the tape continues: the second file is missing, and a resume would begin a different run."""
    Path("s.tape").rename("t.tape")
    with Tape("t.tape") as tape:
        assert (tape.status, tape.missing_segments) == ("corrupt", [1])
    assert run(replayer.commands.main.main, "info t.tape") == 4
    with pytest.raises(CorruptError, match="segment 1 is missing"):
        recorder.resume("t.tape", Walkers())


@pytest.mark.parametrize("settings", [{"durability": "block"}, {}])
def test_a_writer_killed_before_it_could_begin_the_second_file(settings: dict[str, Any]) -> None:
    """That is incomplete: its journal exists, or it never had one, and the loss cannot be detected."""
    record("k.tape", **settings)
    for number in following_segments("k.tape"):
        segment_path("k.tape", number).unlink()
    if not settings:
        Path("k.tape.journal").write_bytes(bytes(100))
    with Tape("k.tape") as tape:
        assert (tape.status, tape.missing_segments) == ("incomplete", [])


def test_a_first_file_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """The others are read, the tape is corrupt, and a repair makes an intact one of it."""
    with Tape("s.tape") as tape:
        last, first = tape.last_tick, next(k.tick for k in tape.keyframes if k.segment == 1)
    Path("s.tape").unlink()

    assert run(replayer.commands.main.main, INFO) == 4
    assert "  missing: the file of segment 0\n" in capsys.readouterr().out
    assert [run(replayer.commands.main.main, line) for line in (FAST, FULL)] == [4, 4]
    assert verify_tape("s.tape", Walkers).verified_ticks == last - first + 1
    capsys.readouterr()
    assert run(replayer.commands.main.main, f"seek s.tape --tick {last} --sim small_worlds:Walkers") == 0
    assert run(replayer.commands.main.main, "repair s.tape -o r.tape --sim small_worlds:Walkers") == 3
    assert "lost: ticks 0 to 9: the first file is missing" in capsys.readouterr().out
    assert verify_tape("r.tape", Walkers).ok
    with pytest.raises(CorruptError, match="segment 0 is missing"):
        Tape("s.tape", "strict")
    with Tape("s.tape", "prefix") as nothing:
        assert (nothing.segments, nothing.outcome) == ([], None)


def test_files_that_are_no_tape_are_not_taken_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A rotated log file does not make a missing name a tape."""
    Path("log.1").write_text("hello")
    assert run(replayer.commands.main.main, "info log") == 2
    assert_one_line(capsys.readouterr(), "log: No such file")
    assert run(replayer.commands.main.main, "info nowhere/log") == 2
    assert_one_line(capsys.readouterr(), "nowhere/log: No such file")


def test_a_later_file_is_not_the_tape(capsys: pytest.CaptureFixture[str]) -> None:
    """Next to the first one it is refused by name; alone it is read, and earlier ticks are missing."""
    assert run(replayer.commands.main.main, "info s.tape.2") == 2
    assert_one_line(capsys.readouterr(), "s.tape.2: this is file 2 of s.tape; name that one")
    with pytest.raises(RecordingError, match="this is file 1 of"):
        Tape("s.tape.1")
    Path("s.tape").unlink()
    with Tape("s.tape.2") as tape:
        assert (tape.status, tape.missing_segments) == ("corrupt", [0, 1])
        assert tape.snapshot(tape.keyframes[0])
    assert run(replayer.commands.main.main, "info s.tape.2") == 4


def test_no_intact_block_in_the_first_file_in_mode_prefix() -> None:
    """Nothing is left of the tape in mode prefix, and nothing raises IndexError."""
    size = Path("s.tape").stat().st_size
    Path("s.tape").write_bytes(b"\x01" * size)
    with Tape("s.tape", "prefix") as tape:
        assert tape.outcome is None
        assert tape.keyframes == []
