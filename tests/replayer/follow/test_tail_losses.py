"""Following a tape with losses: items for dropped and damaged ticks, and for a ring that drops files."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

import recorder
from recorder import Recorder, UnreadableError
from recorder.format.blocks.frame import Frame
from recorder.format.segments.segment_contents import Damage
from recorder.storage.file_names import segment_numbers, segment_path
from recorder.storage.tape_files import TapeFile
from replayer import Tape
from replayer.follow.tail import Ended, KeyframeSeen, Missed, Seen, Tail

from oracle.second_reader import Reader
from oracle.tail_runs import record_walk, truth_of, walk_on
from small_worlds import Walkers


@pytest.mark.filterwarnings("ignore::recorder.RecordingWarning")
def test_dropped_ticks_are_missed_until_a_resumed_recording_has_them_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ticks lost by a full disk are one Missed with the reason; those dropped at the end follow after the resume."""
    path, refuses = tmp_path / "run.tape", [False]
    append = TapeFile.append

    def append_or_refuse(self: TapeFile, data: bytes) -> None:
        if refuses[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, data)

    monkeypatch.setattr(TapeFile, "append", append_or_refuse)
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))
    monkeypatch.setattr("recorder.writer.writer.BACKLOG_BYTES_MAX", 0)
    tape = Recorder(path, Walkers(), keyframe_interval_ticks=5, durability="block")
    for tick in range(1, 31):
        refuses[0] = 11 <= tick <= 14 or tick > 24
        tape.step([[tick % 20, tick]])
        with contextlib.suppress(recorder.WriterFailedError):
            tape.flush()
    refuses[0] = False
    tape.close()
    with Tape(path) as finished:
        middle, end = [(drop.first_tick, drop.last_tick) for drop in finished.drops]
        assert 11 <= middle[0] <= middle[1] <= 16, middle
        assert 25 <= end[0] <= end[1] == 30, end
    with Tail(path) as tail:
        seen = tail.poll()
        missed = [one for one in seen if isinstance(one, Missed)]
        assert [(one.first_tick, one.last_tick) for one in missed] == [middle, end]
        assert all("No space left" in one.why for one in missed)
        assert isinstance(seen[-1], Ended)
        walk_on(recorder.resume(path, Walkers()), 40)
        seen += tail.poll()

    lost = set(range(middle[0], middle[1] + 1))
    assert [one.tick for one in seen if isinstance(one, Frame)] == [t for t in range(1, 41) if t not in lost]
    assert sum(isinstance(one, Ended) for one in seen) == 2


def test_damage_in_the_middle_is_named_and_costs_its_block(tmp_path: Path) -> None:
    """Each block destroyed in turn, header or payload: one Damage with its bytes, its ticks missed, others in order."""
    path = tmp_path / "run.tape"
    record_walk(path, ticks=40)
    data, truth = path.read_bytes(), truth_of(path)
    blocks = Reader(data).blocks
    assert len(blocks) > 15
    for number, block in enumerate(blocks[:-1]):
        following = blocks[number + 1].offset
        for place in (block.offset + 20, block.offset + 72):
            path.write_bytes(data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :])
            with Tail(path) as tail:
                seen = tail.poll()
            (damage,) = [one for one in seen if isinstance(one, Damage)]
            assert (damage.offset, damage.end_offset, damage.torn) == (block.offset, following, False)
            ticks = range(block.first_tick, block.first_tick + block.tick_count)
            assert [one for one in seen if isinstance(one, Frame)] == [one for one in truth if one.tick not in ticks]
            missed = [(one.first_tick, one.last_tick) for one in seen if isinstance(one, Missed)]
            first_seen = next(one.tick for one in seen if isinstance(one, Frame | KeyframeSeen))
            assert missed == ([(ticks[0], ticks[-1])] if ticks and ticks[0] > first_seen else [])
            assert isinstance(seen[-1], Ended)


def test_a_damaged_file_header_costs_nothing(tmp_path: Path) -> None:
    """The blocks identify their tape, in the first file and in further ones."""
    path = tmp_path / "run.tape"
    record_walk(path, split=1200)
    truth = truth_of(path)
    for number in segment_numbers(path)[:2]:
        file = segment_path(path, number)
        data = bytearray(file.read_bytes())
        data[20] ^= 1
        file.write_bytes(data)
    with Tail(path) as tail:
        seen = tail.poll()

    assert [(one.segment, one.offset, one.end_offset) for one in seen if isinstance(one, Damage)] == [
        (0, 0, 64),
        (1, 0, 64),
    ]
    assert [one for one in seen if isinstance(one, Frame)] == truth
    assert isinstance(seen[-1], Ended)


def test_what_is_no_tape(tmp_path: Path) -> None:
    """A missing file or one with other content is an error; a file of a few bytes may become a tape."""
    path = tmp_path / "run.tape"
    with pytest.raises(FileNotFoundError):
        Tail(path)
    path.write_bytes(b"")
    with Tail(path) as tail:
        assert tail.poll() == []
        path.write_bytes(b"\x89TAP\r\n")
        assert tail.poll() == []
        path.write_bytes(b"Dear diary, today nothing was recorded, as on all of the days before this one.")
        with pytest.raises(UnreadableError, match="this is not a tape"):
            tail.poll()


def test_files_dropped_by_a_ring_are_reported(tmp_path: Path) -> None:
    """A reader that is too slow for a ring gets the ticks that the ring still has, and the range that it missed."""
    path = tmp_path / "run.tape"
    tape = Recorder(path, Walkers(), keyframe_interval_ticks=5, keep=20)
    with Tail(path) as tail, tape:
        seen: list[Seen] = []
        for goal in (12, 100, 103, 200):
            while tape.tick < goal:
                tape.step()
                tape.flush()
            seen += tail.poll()
        tape.close()
        seen += tail.poll()
    frames = [one.tick for one in seen if isinstance(one, Frame)]
    missed = [one for one in seen if isinstance(one, Missed)]

    assert frames == sorted(set(frames))
    assert {*range(1, 13), *range(81, 104), *range(181, 201)} <= set(frames)
    assert [tick for one in missed for tick in range(one.first_tick, one.last_tick + 1)] == [
        tick for tick in range(1, 201) if tick not in frames
    ]
    assert all("a ring has dropped it" in one.why for one in missed)
    assert len(missed) == 2


def test_a_seal_with_a_file_behind_it_is_no_end(tmp_path: Path) -> None:
    """A run that was closed and resumed goes on in a further file if the disk refuses the one with the seal."""
    (tmp_path / "parts").mkdir()
    options = {"keyframe_interval_ticks": 5, "run_id": bytes(range(16)), "trial_ms": 0}
    for path, ticks, split in ((tmp_path / "run.tape", 10, None), (tmp_path / "parts" / "run.tape", 200, 1200)):
        with Recorder(path, Walkers(), split=split, **options) as tape:
            for tick in range(ticks):
                tape.step(None)
                if tick % 20 == 0:
                    tape.flush()  # The writer begins a file at a keyframe that it sees by itself.
    later = [number for number in segment_numbers(tmp_path / "parts" / "run.tape") if number]
    assert len(later) > 1
    with Tail(tmp_path / "run.tape") as tail:
        for number in later[:-1]:
            content = segment_path(tmp_path / "parts" / "run.tape", number).read_bytes()
            segment_path(tmp_path / "run.tape", number).write_bytes(content)
        items = tail.poll()
        assert not [item for item in items if isinstance(item, Ended)]
        content = segment_path(tmp_path / "parts" / "run.tape", later[-1]).read_bytes()
        segment_path(tmp_path / "run.tape", later[-1]).write_bytes(content)
        items += tail.poll()

    assert isinstance(items[-1], Ended)
    assert [item.tick for item in items if isinstance(item, Frame)][-1] == 200
