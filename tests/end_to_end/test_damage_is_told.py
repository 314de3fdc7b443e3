"""What Tape and the commands say of damaged and cut tapes, compared with what a plain reader of the bytes finds."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
import replayer.commands.main
from recorder.corpus import glance
from recorder.format.blocks.block import HEADER_BYTES
from replayer import IncompleteTapeWarning, Tape

from oracle.command_lines import run
from oracle.second_reader import DELTA, END, FRAMES, FULL, INDEX, META, Reader, ticks_of
from small_worlds import Walkers

TICKS, INTERVAL = 20, 5
SEEK = "seek a.tape --tick -1 --sim small_worlds:Walkers"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "a.tape"
    with recorder.Recorder(path, Walkers(), keyframe_interval_ticks=INTERVAL, deterministic=True) as tape:
        for tick in range(TICKS):
            tape.step([[tick % 3, 1]])
    return path.read_bytes()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def info(capsys: pytest.CaptureFixture[str], options: str = "") -> tuple[int, dict[str, Any]]:
    """The exit code of replay info, and its JSON."""
    capsys.readouterr()
    code = run(replayer.commands.main.main, f"info a.tape --json {options}")
    return code, json.loads(capsys.readouterr().out)


def ranges(ticks: list[int]) -> list[tuple[int, int]]:
    """Consecutive ticks as a first and a last one."""
    found: list[tuple[int, int]] = []
    for tick in sorted(ticks):
        found[-1:] = [(found[-1][0], tick)] if found and found[-1][1] == tick - 1 else [*found[-1:], (tick, tick)]
    return found


def test_a_whole_tape_is_intact_once_it_was_read(whole: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Before, it is "not checked"; nothing warns."""
    Path("a.tape").write_bytes(whole)
    with Tape("a.tape") as tape:
        assert (tape.status, tape.checked) == ("not checked", False)
        assert tape.check_blocks() == []
        assert (tape.status, tape.checked) == ("intact", True)
        tape.refresh()
        assert (tape.status, tape.checked) == ("not checked", False)
    assert [info(capsys)[1]["status"], info(capsys, "--fast")[1]["status"]] == ["intact", "not checked"]
    assert glance(Path("a.tape")).status == "not checked"
    replayer.open("a.tape", Walkers).close()  # Warnings are errors in tests.
    assert run(replayer.commands.main.main, SEEK) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("how", ["all", "payload"])
def test_every_block_that_is_overwritten_is_told(whole: bytes, capsys: pytest.CaptureFixture[str], how: str) -> None:
    """Nothing calls the tape intact, before or after all was read, and all name the same ticks as the bytes do."""
    blocks = Reader(whole).blocks
    assert {block.kind for block in blocks} >= {META, FRAMES, FULL, DELTA, END}
    for block in blocks:
        if block.kind in {INDEX, END}:  # A cache, and a seal whose loss is that of a cut tape: see below.
            continue
        start = block.offset + (HEADER_BYTES if how == "payload" else 0)
        end = block.offset + HEADER_BYTES + block.stored
        Path("a.tape").write_bytes(whole[:start] + b"\xaa" * (end - start) + whole[end:])
        lost = ranges(list(ticks_of(block)) if block.kind == FRAMES else [])
        with Tape("a.tape") as tape:
            first_status, before = tape.status, tape.last_tick
            assert first_status in {"not checked", "corrupt"}
            assert tape.check_blocks()
            assert tape.status == "corrupt"
            if block.kind == FULL:
                continue  # No state is left.
            assert (before, tape.last_tick, tape.missing_ticks()) == (TICKS, TICKS, lost)
        code, facts = info(capsys)
        assert (code, facts["status"], facts["last_tick"]) == (4, "corrupt", TICKS)
        assert facts["missing_ticks"] == [list(both) for both in lost]
        code, facts = info(capsys, "--fast")
        assert facts["status"] in {"not checked", "corrupt"}
        assert glance(Path("a.tape")).status != "intact"


def test_every_cut_is_told_once(whole: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """At each end of a block, a byte before and after it: one warning with the ticks that the whole blocks have."""
    blocks = Reader(whole).blocks
    ends = [block.offset + HEADER_BYTES + -(-block.stored // 8) * 8 for block in blocks]
    for size in sorted({end + more for end in ends for more in (-1, 0, 1)} - {len(whole)}):
        Path("a.tape").write_bytes(whole[:size])
        kept = [block for block, end in zip(blocks, ends, strict=True) if end <= size]
        ticks = [tick for block in kept if block.kind == FRAMES for tick in ticks_of(block)]
        has_state = any(block.kind == FULL for block in kept)
        last = max([*ticks, *(block.first_tick for block in kept if block.kind in {FULL, DELTA})], default=0)
        named = f"It has ticks 0 to {last}; " if has_state else "It has no tick; "
        with pytest.warns(IncompleteTapeWarning, match="a.tape is not complete: it was not closed") as caught:
            replayer.open("a.tape", Walkers).close()
        assert len(caught) == 1
        assert caught[0].filename == __file__  # The line of the caller.
        assert named in str(caught[0].message)
        code, facts = info(capsys)
        assert (code, facts["status"], facts["last_tick"]) == (3, "incomplete", last if has_state else None)
        with Tape("a.tape") as tape:
            assert tape.status == "incomplete"
        capsys.readouterr()
        assert run(replayer.commands.main.main, SEEK) == (0 if has_state else 3)
        shown = capsys.readouterr()
        if has_state:
            assert shown.out.startswith(f"tick {last} of a.tape")
            assert shown.err.count("\n") == 1
            assert shown.err.startswith("warning: a.tape is not complete: ")
            assert named in shown.err


@pytest.mark.parametrize(
    "line",
    [
        "cut a.tape --ticks 1..-1 -o b.tape",
        "rekey a.tape --every 5 -o b.tape --sim small_worlds:Walkers",
        "extract a.tape -o out --table states --sim small_worlds:Walkers -j 1",
    ],
)
def test_what_is_made_of_a_cut_tape_says_so(line: str, whole: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """A part, other keyframes and a data set, in one line each."""
    Path("a.tape").write_bytes(whole[:-1000])
    code = run(replayer.commands.main.main, line)
    shown = capsys.readouterr().err
    assert code == (3 if "extract" in line else 0), shown
    assert shown.count("a.tape is not complete: ") == 1


def test_a_tape_that_is_being_recorded_gives_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """It is as complete as it can be."""
    with recorder.Recorder("a.tape", Walkers()) as tape:
        tape.step([[1, 1]])
        tape.flush()
        replayer.open("a.tape", Walkers).close()
        assert run(replayer.commands.main.main, SEEK) == 0
        assert capsys.readouterr().err == ""


def test_an_error_for_a_cut_tape_closes_it(whole: bytes) -> None:
    """Where warnings are errors, no file stays open."""
    Path("a.tape").write_bytes(whole[:-1000])
    before = len(list(Path("/proc/self/fd").iterdir()))
    with warnings.catch_warnings(action="error"), pytest.raises(IncompleteTapeWarning):
        replayer.open("a.tape", Walkers)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
