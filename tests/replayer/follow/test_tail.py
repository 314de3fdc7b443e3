"""Following a tape while it is written: the items that readers get after every slice of the writer (promise P9)."""

from __future__ import annotations

import errno
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

import recorder
from recorder import Recorder
from recorder.errors import UnreadableError
from recorder.format.blocks.frame import Frame
from recorder.format.segments.segment_contents import Damage
from recorder.settings import SplitSize
from recorder.storage.file_names import segment_numbers, segment_path
from recorder.storage.tape_files import TapeFile
from replayer import Tape
from replayer.follow.tail import Ended, KeyframeSeen, Missed, Seen, Tail

from oracle.second_reader import FRAMES, Reader
from oracle.tail_runs import record_walk, truth_of, walk_on
from project_paths import SUPPORT
from small_worlds import Herd, Walkers

Action = tuple[str, str, bytes | int]  # What a writer did: append to, truncate or remove the file of this name.


class Follower:
    """A reader of an intact tape: it must get a prefix of the truth, each tick once, and never any damage."""

    def __init__(self, path: Path, truth: list[Frame]) -> None:
        self.tail = Tail(path)
        self.truth = truth
        self.frames: list[Frame] = []
        self.keyframes: list[KeyframeSeen] = []
        self.ended: list[Any] = []

    def poll(self) -> None:
        """See what is new."""
        seen = self.tail.poll()
        assert not [one for one in seen if isinstance(one, Damage | Missed)]
        self.frames += [one for one in seen if isinstance(one, Frame)]
        self.keyframes += [one for one in seen if isinstance(one, KeyframeSeen)]
        self.ended += [one.outcome for one in seen if isinstance(one, Ended)]
        assert self.frames == self.truth[: len(self.frames)]


def writes_of(path: Path) -> list[Action]:
    """The history of a tape without truncation: one segment after the other."""
    files = [segment_path(path, number) for number in segment_numbers(path)]
    return [("append", file.name, file.read_bytes()) for file in files]


def act_in_slices(folder: Path, actions: Iterable[Action], chance: random.Random) -> Iterable[int]:
    """Repeat the writer's operations, appends in random slices; yield the number of steps after each."""
    count = 0
    for what, name, how in actions:
        with (folder / name).open("ab") as file:
            if what == "truncate":
                file.truncate(how)
            elif isinstance(how, bytes):
                rest = how
                while rest:
                    size = chance.choice([1, 7, 8, 71, 72, 73, chance.randrange(1, 400)])
                    file.write(rest[:size])
                    file.flush()
                    rest = rest[size:]
                    yield (count := count + 1)
        yield (count := count + 1)


def follow_in_slices(folder: Path, actions: list[Action], truth: list[Frame], seed: int) -> list[Follower]:
    """Write a tape again, in random slices, while some readers poll after each slice and others occasionally."""
    chance = random.Random(seed)
    (folder / actions[0][1]).touch()
    followers = [Follower(folder / actions[0][1], truth) for _ in range(3)]
    for _ in act_in_slices(folder, actions, chance):
        for number, follower in enumerate(followers):
            if number == 0 or chance.randrange(5 * number) == 0:
                follower.poll()
    late = Follower(folder / actions[0][1], truth)
    for follower in (*followers, late):
        follower.poll()
        follower.poll()
        follower.tail.close()
    return [*followers, late]


def frame_blocks(path: Path) -> list[range]:
    """The ticks of each frame block in each file, with blocks that do not count."""
    blocks = [block for n in segment_numbers(path) for block in Reader(segment_path(path, n).read_bytes()).blocks]
    return [range(block.first_tick, block.first_tick + block.tick_count) for block in blocks if block.kind == FRAMES]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder to record a tape in, and one to write it again in slices."""
    for name in ("recorded", "sliced"):
        (tmp_path / name).mkdir()
    return tmp_path / "recorded" / "run.tape", tmp_path / "sliced"


@pytest.mark.parametrize("settings", [{}, {"split": 1200}], ids=["one file", "several files"])
def test_readers_of_an_intact_tape_get_a_prefix_of_it_and_never_damage(
    folders: tuple[Path, Path], settings: dict[str, Any]
) -> None:
    """For any part of a header, payload or trailer: complete blocks, in order; finally all blocks, and Ended once."""
    path, sliced = folders
    record_walk(path, **settings)
    assert len(segment_numbers(path)) > 3 or not settings
    truth, seed = truth_of(path), random.randrange(1 << 30)
    print("seed", seed)

    for follower in follow_in_slices(sliced, writes_of(path), truth, seed):
        assert follower.frames == truth
        assert [end["reason"] for end in follower.ended] == ["closed"]
        with Tape(path) as tape:
            assert [(one.tick, one.is_full) for one in follower.keyframes] == [
                (place.tick, place.is_full) for place in tape.keyframes
            ]


def die_and_resume(path: Path, deaths: int, chance: random.Random, make: Callable[[], Any]) -> list[Action]:
    """Simulate deaths of the writer of the finished tape at path, at random offsets; return the writes and cuts."""
    actions: list[Action] = []
    good_end, data = 0, path.read_bytes()
    with Tape(path) as tape:
        least = tape.keyframes[1].entry.offset  # Before that there is nothing to resume from.
    for death in range(deaths):
        cut = chance.randrange(max(least, good_end), len(data)) if death else len(data) - 24 - chance.randrange(400)
        path.write_bytes(data[:cut])
        tape = recorder.resume(path, make())
        torn = Path(tape.resumed.torn_file).read_bytes() if tape.resumed.torn_file else b""
        walk_on(tape, 60 + 10 * death)
        actions += [("append", path.name, data[good_end:cut]), ("truncate", path.name, cut - len(torn))]
        assert data[:cut].endswith(torn)
        good_end, data = cut - len(torn), path.read_bytes()
    return [*actions, ("append", path.name, data[good_end:])]


@pytest.mark.parametrize("piece_bytes", [1 << 20, 128], ids=["whole keyframes", "keyframes in pieces"])
def test_readers_continue_after_the_writer_died_and_was_resumed(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    """Readers wait for incomplete blocks, and for keyframes without their last piece, which are then cut off."""
    monkeypatch.setattr("recorder.format.segments.segment_encoder.PIECE_RAW_BYTES", piece_bytes)
    path, sliced = folders
    record_walk(path)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    actions = die_and_resume(path, 5, random.Random(seed), Walkers)

    for follower in follow_in_slices(sliced, actions, truth_of(path), seed):
        assert follower.frames == follower.truth
        assert len(follower.truth) == 100
        assert [end["reason"] for end in follower.ended] == ["closed"]


def test_a_reader_after_a_power_cut_waits_at_a_block_that_only_seems_complete(
    folders: tuple[Path, Path],
) -> None:
    """The last keyframe has its length but not its bytes: it does not count; the one that a resume writes does."""
    path, _ = folders
    record_walk(path, sync="never")
    with Tape(path) as tape:
        last = tape.keyframes[-1].entry
        following = next(entry.offset for entry in tape.segments[0].contents.entries if entry.offset > last.offset)
    data = path.read_bytes()
    path.write_bytes(data[: last.offset + 72] + bytes(following - last.offset - 72))
    follower = Follower(path, [])
    follower.truth = truth_of(path)
    follower.poll()
    assert follower.keyframes[-1].tick < last.first_tick
    tape = recorder.resume(path, Walkers())
    assert tape.tick == last.first_tick
    walk_on(tape, 80)
    follower.truth = truth_of(path)
    follower.poll()
    follower.tail.close()

    assert len(follower.frames) == 80
    assert [end["reason"] for end in follower.ended] == ["closed"]


@pytest.mark.filterwarnings("ignore::recorder.RecordingWarning")
@pytest.mark.parametrize("call", [2, 6, 9])
def test_a_segment_that_was_given_up_is_repeated_without_repeating_a_tick(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """After a failed fsync the same blocks come again in the next file: readers see each tick and keyframe once."""
    count = 0

    def fdatasync(_: TapeFile) -> None:
        nonlocal count
        count += 1
        if count in {call, call + 5}:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(TapeFile, "fdatasync", fdatasync)
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))
    path, sliced = folders
    record_walk(path)  # Each flush syncs several blocks.
    assert len(segment_numbers(path)) == 3
    assert sum(len(block_ticks) for block_ticks in frame_blocks(path)) > 60, "some frames must be there twice"
    seed = random.randrange(1 << 30)
    print("seed", seed)

    for follower in follow_in_slices(sliced, writes_of(path), truth_of(path), seed):
        assert follower.frames == follower.truth
        assert len(follower.truth) == 60
        assert [one.tick for one in follower.keyframes] == [*range(0, 60, 7)]
        assert [end["reason"] for end in follower.ended] == ["closed"]


def test_blocks_written_just_before_the_next_file_begins_are_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a reader looks for the next file, the writer may finish the current one and begin the next."""
    path = tmp_path / "run.tape"
    tape = Recorder(path, Walkers(), keyframe_interval_ticks=5, split=10_000_000, sync="never")
    follower = Follower(path, [])
    rotation = tape._keyframes._rotation
    rotation._settings = attrs.evolve(rotation._settings, split=SplitSize(1))

    def look_late(path: Path) -> list[int]:
        monkeypatch.undo()
        for _ in range(7):
            tape.step()
        tape.flush()
        follower.truth = truth_of(path)
        return segment_numbers(path)

    tape.flush()
    follower.poll()
    monkeypatch.setattr("replayer.follow.tail.segment_numbers", look_late)
    follower.poll()
    tape.close()
    follower.poll()
    follower.tail.close()

    assert len(segment_numbers(path)) == 2
    assert [frame.tick for frame in follower.frames] == list(range(1, 8))


LIVE = """
import sys
sys.path.insert(0, sys.argv[1])
from recorder import Recorder
from small_worlds import Herd
with Recorder(sys.argv[2], Herd(3), keyframe_interval_ticks=40, split=15_000) as tape:
    print("ready", flush=True)
    for tick in range(2000):
        tape.step({"tick": tick})
        if tick % 50 == 49:
            print("fifty", flush=True)
            sys.stdin.readline()
"""


@pytest.mark.seldom(0.15)
def test_many_readers_follow_a_process_that_records(tmp_path: Path) -> None:
    """Eight readers, each at its own pace, get the same frames as the finished tape has, in order, and its end.

    The process records fifty ticks while some of them look, and then the next fifty, so that none can come too late.
    """
    path, tests = tmp_path / "run.tape", str(SUPPORT)
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    command = [sys.executable, "-c", LIVE, tests, path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    tails = [Tail(path) for _ in range(8)]
    seen: list[list[Seen]] = [[] for _ in tails]
    polls_with_news = 0

    def poll_one() -> None:
        number = chance.randrange(8)
        some = tails[number].poll()
        nonlocal polls_with_news
        polls_with_news += bool(some)
        seen[number] += some

    for _ in range(2000 // 50):
        for _ in range(4):
            poll_one()
        assert process.stdout.readline() == "fifty\n"
        process.stdin.write("on\n")
    while not all(own and isinstance(own[-1], Ended) for own in seen):
        poll_one()
        assert process.poll() in {None, 0}
    assert process.communicate() == ("", None)
    assert process.returncode == 0
    for tail in tails:
        tail.close()

    truth = truth_of(path)
    assert len(truth) == 2000
    assert polls_with_news > 24, "the readers must have met the tape while it grew"
    for own in seen:
        assert not [one for one in own if isinstance(one, Damage | Missed)], seed
        assert [one for one in own if isinstance(one, Frame)] == truth


def test_follow_waits_and_ends(tmp_path: Path) -> None:
    """It prints the ticks on the tape, waits when there is nothing new, and stops when the recording is closed."""
    path = tmp_path / "run.tape"
    tape = Recorder(path, Herd(), keyframe_interval_ticks=5)
    waits: list[float] = []

    def record_meanwhile(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) <= 3:
            tape.step()
            tape.flush()
        else:
            tape.close({"reason": "enough"})

    with Tail(path) as tail:
        seen = list(tail.follow(poll_s=0.25, wait=record_meanwhile))

    assert [one.tick for one in seen if isinstance(one, Frame)] == [1, 2, 3]
    assert seen[-1] == Ended({"reason": "enough"})
    assert waits == [0.25] * 4


@pytest.mark.parametrize(("content", "waits"), [(b"", True), (b"\x89TAP", True), (b"x", False), (b"x1234", False)])
def test_a_short_file_is_waited_for_if_it_may_become_a_tape(tmp_path: Path, content: bytes, *, waits: bool) -> None:
    """A recording begins with the first bytes of a header."""
    path = tmp_path / "run.tape"
    path.write_bytes(content)
    if waits:
        tail = Tail(path)
        assert tail.poll() == []
        tail.close()
    else:
        with pytest.raises(UnreadableError):
            Tail(path).poll()
