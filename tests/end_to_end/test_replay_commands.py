"""The output of ``replay info``, ``tail``, ``repair`` and ``verify`` for tapes in every state."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import recorder.commands.main
import replayer.commands.main
from recorder import Recorder
from recorder.storage.file_names import segment_path
from replayer.timeline.verify import verify_tape

from oracle.command_lines import TINY, assert_one_line, files, run
from oracle.second_reader import DELTA, FRAMES, FULL, META, Reader
from project_paths import GOLDEN
from small_worlds import Walkers

REPLAY = [sys.executable, "-c", "import replayer.commands.main; replayer.commands.main.main()"]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recording of the tiny scenario: ninety ticks, a block of frames for each twenty."""
    folder = tmp_path_factory.mktemp("recording")
    (folder / "tiny.toml").write_text(TINY)
    line = f"run {folder}/tiny.toml -q -o {folder}/a.tape --keyframe-interval 20 --full-every 3 --deterministic"
    assert run(recorder.commands.main.main, line) == 0
    return (folder / "a.tape").read_bytes()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: bytes) -> Path:
    """Each test works in a folder with that recording as a.tape."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "a.tape").write_bytes(recording)
    return tmp_path


def block_of(kind: int, number: int = 0) -> Any:
    """A block of a.tape."""
    return [block for block in Reader(Path("a.tape").read_bytes()).blocks if block.kind == kind][number]


def spoil(place: int, name: str = "a.tape") -> None:
    """Change one byte of a file."""
    data = bytearray(Path(name).read_bytes())
    data[place] ^= 0x10
    Path(name).write_bytes(data)


def die(path: str, ticks: int, **settings: Any) -> None:
    """Record walkers in a process that is killed."""
    child = os.fork()
    if child == 0:
        tape = Recorder(path, Walkers(), keyframe_interval_ticks=10, **settings)
        for tick in range(1, ticks + 1):
            tape.step([[tick % 20, tick]])
            if tick == ticks - 4:
                tape.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def info(capsys: pytest.CaptureFixture[str], name: str, *, options: str = "") -> tuple[int, dict[str, Any], str]:
    """The exit code, the JSON and the text of replay info; both forms have the same exit code."""
    code = run(replayer.commands.main.main, f"info {name} --json {options}")
    facts = json.loads(capsys.readouterr().out)
    assert run(replayer.commands.main.main, f"info {name} {options}") == code
    return code, facts, capsys.readouterr().out


# --- info


def test_info_of_an_intact_tape(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 and no hint: nothing has to be done."""
    code, facts, text = info(capsys, "a.tape")

    assert (code, facts["status"], facts["sealed"], facts["checked"]) == (0, "intact", True, True)
    assert (facts["first_tick"], facts["last_tick"], facts["durability"]) == (0, 90, "tick")
    assert (facts["damages"], facts["damaged_blocks"], facts["missing_ticks"], facts["dropped_ticks"]) == ([],) * 4
    assert text.startswith("a.tape: intact, sealed\n")
    assert "next:" not in text
    del facts["damaged_blocks"]
    assert info(capsys, "a.tape", options="--fast")[:2] == (
        0,
        facts | {"checked": False, "status": "not checked"},
    )


def test_info_of_a_tape_that_is_being_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    """It is incomplete, as expected: no hint."""
    with Recorder("live.tape", Walkers(), keyframe_interval_ticks=10) as tape:
        for tick in range(1, 26):
            tape.step([[tick % 20, tick]])
        tape.flush()
        tape.step()
        code, facts, text = info(capsys, "live.tape")

    assert (code, facts["status"], facts["being_written"], facts["last_tick"]) == (3, "incomplete", True, 26)
    assert text.startswith("live.tape: incomplete, not sealed: it is being recorded\n")
    assert "next:" not in text


def test_info_of_a_tape_whose_writer_was_killed(capsys: pytest.CaptureFixture[str]) -> None:
    """The report has the number of ticks in the journal, and how to resume: in Python for your own simulation."""
    die("mine.tape", 33)
    code, facts, text = info(capsys, "mine.tape")

    assert (code, facts["status"], facts["being_written"], facts["last_tick"]) == (3, "incomplete", False, 33)
    assert 0 < facts["journal_ticks"] <= 4
    assert "not sealed: the recording did not end properly\n" in text
    assert f"  ticks: 0 to 33, the last {facts['journal_ticks']} in the journal\n" in text
    assert text.endswith("next: recorder.resume('mine.tape', simulation)  # continues where it stopped\n")


def test_info_of_a_torn_tape(capsys: pytest.CaptureFixture[str]) -> None:
    """The report has the torn bytes, and the command that resumes."""
    last = block_of(FRAMES, -1)
    os.truncate("a.tape", last.offset + 100)
    code, facts, text = info(capsys, "a.tape")

    assert (code, facts["status"], facts["sealed"], facts["last_tick"]) == (3, "incomplete", False, 80)
    assert [damage["torn"] for damage in facts["damages"]] == [True]
    assert f"  torn: bytes {last.offset:,} to {last.offset + 100:,}: the file ends inside a block\n" in text
    assert text.endswith("next: record resume a.tape  # continues where it stopped\n")


@pytest.mark.parametrize("kind", [META, FULL, DELTA, FRAMES])
@pytest.mark.parametrize("place", [20, 80], ids=["header", "payload"])
def test_info_of_a_damaged_tape(capsys: pytest.CaptureFixture[str], kind: int, place: int) -> None:
    """Exit code 4, with the damaged bytes, the lost ticks and the fix, even if an index hides the damage."""
    block = block_of(kind)
    spoil(block.offset + place)
    code, facts, text = info(capsys, "a.tape")

    assert (code, facts["status"]) == (4, "corrupt")
    lost = [[block.first_tick, block.first_tick + block.tick_count - 1]] if block.tick_count else []
    assert facts["missing_ticks"] == lost
    assert f"{block.offset:,}" in text or f"{block.offset}" in text
    assert all(f"  missing: ticks {first} to {last}\n" in text for first, last in lost)
    assert text.endswith("next: replay repair a.tape\n")
    assert info(capsys, "a.tape", options="--fast")[0] == 0  # --fast trusts the index.


def test_info_of_a_tape_without_its_file_header(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else is lost."""
    spoil(10)
    code, facts, text = info(capsys, "a.tape")

    assert (code, facts["status"], facts["last_tick"], facts["world"]) == (4, "corrupt", 90, "meadow")
    assert "  damaged: bytes 0 to 64: " in text
    assert text.endswith("next: replay repair a.tape\n")


def test_info_of_a_split_tape_without_one_of_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    """The missing file is named by its number."""
    assert run(recorder.commands.main.main, "run tiny.toml -q -o s.tape --keyframe-interval 10 --split 3000") == 0
    segment_path("s.tape", 1).unlink()
    code, facts, text = info(capsys, "s.tape")

    assert (code, facts["status"], facts["missing_segments"]) == (4, "corrupt", [1])
    assert "  missing: the file of segment 1\n" in text
    assert text.endswith("next: replay repair s.tape\n")


def test_info_of_a_tape_that_dropped_ticks(capsys: pytest.CaptureFixture[str]) -> None:
    """The tape lists the ticks that the disk did not take; a sealed tape needs no hint."""
    shutil.copy(GOLDEN / "0.2" / "dropped.tape", "d.tape")
    code, facts, text = info(capsys, "d.tape")

    assert (code, facts["status"], facts["sealed"]) == (3, "incomplete", True)
    (drop,) = facts["dropped_ticks"]
    assert drop["why"] == "No space left on device"
    assert f"  dropped: ticks {drop['first_tick']} to {drop['last_tick']}: No space left on device\n" in text
    assert "next:" not in text


def test_info_and_verify_of_a_tape_that_was_only_begun(capsys: pytest.CaptureFixture[str]) -> None:
    """The tape has META and no state: nothing can be reached or resumed; exit code 3 for both."""
    os.truncate("a.tape", block_of(FULL).offset)
    code, facts, text = info(capsys, "a.tape")
    assert (code, facts["status"], facts["first_tick"], facts["world"]) == (3, "incomplete", None, "meadow")
    assert "  ticks: none available yet\n" in text
    assert "next:" not in text

    assert run(replayer.commands.main.main, "verify a.tape") == 3
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert run(replayer.commands.main.main, "verify a.tape --json") == 3
    assert json.loads(capsys.readouterr().out)["tick_count"] == 0


def test_info_of_an_unsealed_tape_of_format_01(capsys: pytest.CaptureFixture[str]) -> None:
    """It can be read and not resumed, so there is no hint."""
    shutil.copy(GOLDEN / "0.1" / "walkers-unsealed.tape", "old.tape")
    code, facts, text = info(capsys, "old.tape")

    assert (code, facts["status"], facts["can_be_resumed"]) == (3, "incomplete", False)
    assert "next:" not in text


# --- tail


def test_tail_shows_the_last_ticks(capsys: pytest.CaptureFixture[str]) -> None:
    """One line per tick, the number of ticks before, and the seal."""
    assert run(replayer.commands.main.main, "tail a.tape --last 3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "… 87 ticks before these"
    assert [line.split("  ")[0] for line in lines[1:4]] == ["tick 88", "tick 89", "tick 90"]
    assert lines[4:] == ['sealed: {"reason": "Z1", "ticks": 90, "text": "the last tick, as asked"}']

    assert run(replayer.commands.main.main, "tail a.tape --no-follow -n 0") == 0
    assert capsys.readouterr().out.splitlines() == ["… 90 ticks before these", lines[4]]
    assert run(replayer.commands.main.main, "tail a.tape -n 1000") == 0
    assert len(capsys.readouterr().out.splitlines()) == 91


def test_tail_in_json_has_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """The requested number of ticks and their keyframes, one object per line."""
    assert run(replayer.commands.main.main, "tail a.tape --json --last 12") == 0
    facts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [fact["tick"] for fact in facts if "tick" in fact] == list(range(79, 91))
    assert [fact for fact in facts if "keyframe" in fact] == [{"keyframe": 80, "full": False}]
    assert facts[-1] == {"ended": {"reason": "Z1", "ticks": 90, "text": "the last tick, as asked"}}
    with replayer.Timeline("a.tape") as tape:
        assert facts[0]["state_hash"] == f"{tape[79].hash():016x}"
        assert facts[0]["inputs"] == tape.tape.frame(79).inputs


def test_tail_of_an_unfinished_tape_stops_with_no_follow(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows the ticks that are there, reports no end, and has the exit code of info."""
    die("mine.tape", 33)
    assert run(replayer.commands.main.main, "tail mine.tape --no-follow --last 2") == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["… 31 ticks before these", "tick 32", "tick 33"]
    assert lines[-1].endswith("[[13, 33]]")  # From the journal.


def test_tail_names_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """Damaged bytes and their missing ticks are shown at their position."""
    block = block_of(FRAMES, 2)
    spoil(block.offset + 80)
    assert run(replayer.commands.main.main, "tail a.tape --last 31") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 31 + 2 + 1
    place = next(number for number, line in enumerate(lines) if line.startswith("damaged: "))
    assert lines[place].startswith(f"damaged: bytes {block.offset:,} to ")
    assert f"missing: ticks {block.first_tick} to {block.first_tick + block.tick_count - 1}: " in lines[place + 1]

    assert run(replayer.commands.main.main, "tail a.tape --last 31 --json") == 0
    facts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [fact["missed"] for fact in facts if "missed" in fact] == [[41, 60]]
    assert [fact["damaged"][0] for fact in facts if "damaged" in fact] == [block.offset]


def test_tail_follows_a_recording_until_it_is_sealed() -> None:
    """A tail in a second process ends with the recording of this one."""
    with Recorder("live.tape", Walkers(), keyframe_interval_ticks=10) as tape:
        tape.step()
        tape.flush()
        process = subprocess.Popen([*REPLAY, "tail", "live.tape"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("tick 1  ")
        for _ in range(14):
            tape.step()
        tape.flush()
        lines = [process.stdout.readline() for _ in range(15)]
        tape.close({"reason": "enough"})
        lines += process.stdout.readlines()
        process.stdout.close()
    assert process.wait(timeout=30) == 0
    shown = [line.split("  ")[0] for line in lines]
    keyframe = "delta keyframe of tick 10\n"  # It comes when it is on the tape, the ticks as soon as they are stepped.
    assert shown.index(keyframe) >= shown.index("tick 10")
    shown.remove(keyframe)
    assert shown == [*(f"tick {tick}" for tick in range(2, 16)), 'sealed: {"reason": "enough"}\n']


def test_ctrl_c_is_how_one_leaves_a_tail() -> None:
    """Exit code 0, no traceback."""
    with Recorder("live.tape", Walkers()) as tape:
        tape.step()
        tape.flush()
        process = subprocess.Popen(
            [*REPLAY, "tail", "live.tape"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline().startswith("tick 1  ")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == 0


# --- repair


def test_repair_of_a_damaged_keyframe_loses_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The new tape gets a new name; the old one stays; exit code 0."""
    spoil(block_of(DELTA).offset + 80)
    before = Path("a.tape").read_bytes()
    assert run(replayer.commands.main.main, "repair a.tape") == 0

    assert capsys.readouterr().out == (
        "a.tape → a-repaired.tape: ticks 0 to 90\n"
        "  keyframes: 4 copied, 1 rebuilt and verified by hash\n"
        "  rebuilt: the keyframe of tick 20\n"
        "  nothing is lost\n"
        "next: replay verify a-repaired.tape\n"
    )
    assert Path("a.tape").read_bytes() == before
    assert sorted(files(folder)) == ["a-repaired.tape", "a.tape", "tiny.toml"]
    assert run(replayer.commands.main.main, "verify a-repaired.tape") == 0


def test_repair_of_damaged_frames_says_what_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, in JSON, too; the new tape verifies as incomplete, not as corrupt."""
    spoil(block_of(FRAMES, 1).offset + 80)
    assert run(replayer.commands.main.main, "repair a.tape -o b.tape") == 3
    assert "  lost: ticks 21 to 40: the block that held its frame is damaged\n" in capsys.readouterr().out
    assert run(replayer.commands.main.main, "repair a.tape -o c.tape --json") == 3
    facts = json.loads(capsys.readouterr().out)
    why = facts["lost_ticks"][0].pop("why")
    assert facts == {
        "tape": "c.tape",
        "first_tick": 0,
        "last_tick": 90,
        "copied_keyframes": 5,
        "rebuilt_ticks": [],
        "lost_keyframes": [],
        "lost_ticks": [{"first_tick": 21, "last_tick": 40}],
        "lost_optional": [],
    }
    assert why == "the block that held its frame is damaged"
    assert run(replayer.commands.main.main, "verify b.tape") == 3
    assert "71 of 91 ticks match the recording; 20 were dropped, 0 between those" in capsys.readouterr().out
    assert verify_tape("b.tape").problems == []


def test_repair_makes_one_sealed_file_of_a_torn_tape(capsys: pytest.CaptureFixture[str]) -> None:
    """The new tape can be resumed like any other."""
    os.truncate("a.tape", block_of(FRAMES, -1).offset + 100)
    assert run(replayer.commands.main.main, "repair a.tape -o b.tape") == 0
    assert "a.tape → b.tape: ticks 0 to 80\n" in capsys.readouterr().out
    assert run(replayer.commands.main.main, "info b.tape") == 0
    assert "  ended: repaired\n" in capsys.readouterr().out
    assert run(recorder.commands.main.main, "resume -q b.tape") == 0
    assert verify_tape("b.tape").verified_ticks == 91


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("repair", 2, "TAPE"),
        ("repair nothing.tape", 2, "nothing.tape: No such file or directory"),
        ("repair .", 2, "Is a directory"),
        ("repair tiny.toml", 5, "tiny.toml: this is not a tape"),
        ("repair a.tape -o tiny.toml", 2, "tiny.toml: a file of this name exists already"),
        ("repair a.tape -o a.tape", 2, "a.tape: a file of this name exists already"),
        ("repair a.tape -o no/such/b.tape", 2, "No such file or directory"),
        ("repair a.tape --sim nowhere", 2, "--sim 'nowhere': expected module:factory"),
        ("repair a.tape --sim small_worlds:Walkers", 2, "the simulation has different fields than the tape"),
        ("repair begun.tape", 3, "there is nothing to repair"),
        ("repair bare.tape", 4, "there is nothing to repair"),
        ("tail nothing.tape", 2, "nothing.tape: No such file or directory"),
        ("tail tiny.toml", 5, "tiny.toml: this is not a tape"),
        ("tail a.tape --last -1", 2, "--last"),
        ("tail a.tape --last many", 2, "expected an integer, got 'many'"),
        ("tail", 2, "no tape was named, and there is none in recordings/; name one of this folder, such as a.tape"),
        ("info nothing.tape --fast", 2, "nothing.tape: No such file or directory"),
        ("info tiny.toml", 5, "tiny.toml: this is not a tape"),
    ],
)
def test_a_mistake_gets_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, code: int, text: str
) -> None:
    """The right exit code, nothing on stdout, nothing written."""
    whole, full = Path("a.tape").read_bytes(), block_of(FULL)
    Path("begun.tape").write_bytes(whole[: full.offset])
    with Recorder("bare.tape", Walkers()) as tape:
        tape.step()
    bare = next(block for block in Reader(Path("bare.tape").read_bytes()).blocks if block.kind == FULL)
    spoil(bare.offset + 80, "bare.tape")
    before = files(folder)

    assert run(replayer.commands.main.main, line) == code

    assert_one_line(capsys.readouterr(), text)
    assert files(folder) == before
