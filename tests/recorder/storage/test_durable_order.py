"""What must be on the disk before what: each test found a loss that a power cut could cause."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import replayer
from recorder import Recorder, resume
from recorder.format.recording.assembly import SegmentInput, assemble
from recorder.storage.atomic_file import make_folder
from recorder.storage.open_tape import OpenTape
from recorder.storage.tape_copy import copy_run
from replayer import Tape
from replayer.repair.repair import repair_tape

from disk.cut_programs import RECORDINGS, TAPE, Recording, inputs_at, recorded
from disk.file_calls import Calls
from disk.folder_cuts import record_plain
from oracle.power_cuts import Adder


def names(calls: Calls, kinds: set[str]) -> list[str]:
    """The calls of these kinds, and marks, as words."""
    return [call.mark[0] if call.kind == "mark" else f"{call.kind} {call.name}".strip() for call in calls.calls if call.kind in kinds]  # fmt: skip


def test_the_first_journal_is_durable_before_a_step(tmp_path: Path) -> None:
    """A reader takes a missing journal next to a file that another follows as the sign of a lost file."""
    calls = recorded(RECORDINGS["split"], tmp_path / "live")
    order = names(calls, {"rename", "sync", "sync_folder", "mark", "link"})
    named = order.index("rename run.tape.journal")
    assert order[named - 1] == "sync", order
    assert order[named + 1 : named + 3] == ["sync_folder", "stepped"], order


def test_an_empty_journal_shows_that_no_file_was_lost(tmp_path: Path) -> None:
    """The size of a larger journal may not be on the disk, when its name is. It is there, so the writer died."""
    path = tmp_path / TAPE
    with Recorder(path, Adder(), split=600, keyframe_interval_ticks=3, trial_ms=0.0) as tape:
        for tick in range(1, 9):
            tape.step(inputs_at(tick, 0))
    data = path.read_bytes()
    first = SegmentInput(0, lambda offset, size: data[offset : offset + size], len(data))
    assert assemble([first], b"").status == "incomplete"
    assert assemble([first], None).status == "corrupt"


@pytest.mark.parametrize("content", [b"", bytes(1088), b"garbage" * 100])
def test_what_was_sealed_stays_sealed_when_the_removed_journal_comes_back(tmp_path: Path, content: bytes) -> None:
    """With any content: the tape is intact, and can be resumed."""
    record_plain(tmp_path / TAPE, 5)
    (tmp_path / f"{TAPE}.journal").write_bytes(content)
    with Tape(tmp_path / TAPE) as tape:
        assert (tape.check_blocks(), tape.status, tape.last_tick) == ([], "intact", 5)
    with resume(tmp_path / TAPE, Adder()) as again:
        again.step(1)
    with replayer.open(tmp_path / TAPE, world=Adder) as timeline:
        assert timeline.verify().ok


def test_ticks_of_a_journal_cannot_come_back_after_others(tmp_path: Path) -> None:
    """A resume puts them into the tape and removes the journal; that is durable before the run goes on differently."""
    recorded(Recording({"sync": "1000s"}, closes=False), tmp_path / "live")
    calls = recorded(Recording({"sync": "1000s"}, timeline=1), tmp_path / "live")
    order = names(calls, {"unlink", "sync_folder", "mark"})
    gone = order.index("unlink run.tape.journal")
    assert order[gone : gone + 2] == ["unlink run.tape.journal", "sync_folder"], order
    assert gone < order.index("resumed")


def test_a_ring_removes_a_file_only_after_the_next_is_durable(tmp_path: Path) -> None:
    """Otherwise a power cut leaves no state at all, although earlier ticks were durable."""
    program = RECORDINGS["ring in one file"]
    calls = recorded(program, tmp_path / "live")
    dirty: set[int] = set()
    file_of: dict[str, int] = {}
    removed = 0
    for call in calls.calls:
        if call.kind in {"create", "link", "rename"}:
            file_of[call.name] = call.file
        if call.kind == "write":
            dirty.add(call.file)
        if call.kind == "sync":
            dirty.discard(call.file)
        if call.kind == "unlink" and call.name.removeprefix(f"{TAPE}.").isdigit():
            later = max(
                (int(name.removeprefix(f"{TAPE}.")), file) for name, file in file_of.items() if name[-1].isdigit()
            )
            assert later[1] not in dirty, f"{call.name} was removed before {later[0]} was synced"
            removed += 1
    assert removed


def test_a_repair_reads_a_journal_without_any_keyframe(tmp_path: Path) -> None:
    """The power failed before the first sync: the keyframe is lost, the journal happens to be there."""
    recorded(Recording({"sync": "1000s"}, ticks=6, flush_every=100, closes=False), tmp_path / "live")
    with OpenTape(tmp_path / "live" / TAPE) as opened:
        first = opened.assemble().recording.keyframes[0].entry.offset
    with (tmp_path / "live" / TAPE).open("r+b") as file:
        file.truncate(first)
    repair_tape(tmp_path / "live" / TAPE, tmp_path / "repaired.tape", Adder)
    with replayer.open(tmp_path / "repaired.tape", world=Adder) as timeline:
        assert (timeline.first_tick, timeline.last_tick) == (0, 6)
        assert timeline.verify().ok


def test_zeros_in_place_of_a_begun_copy_are_abandoned(tmp_path: Path) -> None:
    """The size of the file was on the disk, its content was not. A file of others with that name stays."""
    record_plain(tmp_path / TAPE, 5)
    part = tmp_path / "copy.tape.part"
    part.write_bytes(bytes(9000))
    copy_run(tmp_path / TAPE, tmp_path / "copy.tape", None)
    assert not part.exists()
    (tmp_path / "copy.tape").unlink()
    part.write_bytes(bytes(100) + b"mine")
    with pytest.raises(FileExistsError, match="not an abandoned copy"):
        copy_run(tmp_path / TAPE, tmp_path / "copy.tape", None)
    assert part.read_bytes() == bytes(100) + b"mine"


def test_each_new_folder_is_durable(tmp_path: Path) -> None:
    """A power cut may remove a folder with all that was synced in it, unless the folder around it is synced."""
    calls = recorded(lambda folder, _: make_folder(folder / "a" / "b"), tmp_path / "live")
    made = {call.file: call.folder for call in calls.calls if call.kind == "mkdir"}
    last = max(number for number, call in enumerate(calls.calls) if call.kind == "mkdir")
    assert len(made) == 2
    assert {call.file for call in calls.calls[last:] if call.kind == "sync_folder"} == set(made.values())
    make_folder(tmp_path / "live" / "a")


@pytest.mark.parametrize("left", ["done", "plan", "finished"])
def test_an_extraction_goes_on_from_any_beginning(tmp_path: Path, left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill before there is a plan, while it is written, and while what only the extraction needed is removed."""
    record_plain(tmp_path / TAPE)

    def extract() -> None:
        replayer.extract(tmp_path / TAPE, tmp_path / "set", world=Adder, tables=("states",), fields=("sum",))

    if left == "finished":
        rmtree = shutil.rmtree
        with monkeypatch.context() as patch:
            patch.setattr("replayer.datasets.build.shutil.rmtree", lambda path: (rmtree(path), _interrupt()))
            with pytest.raises(KeyboardInterrupt):
                extract()
    else:
        (tmp_path / "set.unfinished" / "done").mkdir(parents=True)
        if left == "plan":
            (tmp_path / "set.unfinished" / "plan.json.0123456789abcdef.part").write_bytes(b"")
    extract()
    assert json.loads((tmp_path / "set" / "manifest.json").read_text())["tables"]["states"]["rows"] == 13


def _interrupt() -> None:
    raise KeyboardInterrupt
