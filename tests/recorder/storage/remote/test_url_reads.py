"""A tape at a URL: how many reads it takes, what is kept, and what is told when the store fails or the file changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counted_store import CountedStore, empty, put

from recorder.errors import UnreadableError
from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.page_cache import PageCache
from recorder.storage.remote.range_reads import FileVersion
from recorder.storage.remote.url_file import UrlFile
from recorder.storage.remote.url_files import UrlFiles
from recorder.storage.remote.url_settings import READ_AHEAD_BYTES, settings_of
from replayer import Tape, Timeline, verify_tape
from sim import Field, Schema, State

from small_worlds import Walkers, record

WORDS = 1 << 15


class Noise:
    """Its state of 256 KiB cannot be compressed, so that each keyframe takes as much."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "u8", (WORDS,))))
        self.state["x"][:] = np.arange(WORDS, dtype=np.uint64)

    def step(self, _: Any) -> None:
        words = self.state["x"] + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        self.state["x"][:] = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[int, bytes]]:
    """A tape of 12 MB, and the states of the live run."""
    path = tmp_path_factory.mktemp("large") / "run.tape"
    live = record(path, Noise(), [None] * 90, keyframe_interval_ticks=2, trial_ms=0, durability="none")
    data = path.read_bytes()
    assert 11e6 < len(data) < 14e6
    return data, live


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[int, bytes]]:
    """A tape of some kilobytes, and the states of the live run."""
    path = tmp_path_factory.mktemp("small") / "run.tape"
    live = record(path, Walkers(3), [None] * 60, keyframe_interval_ticks=10, trial_ms=0, durability="none")
    return path.read_bytes(), live


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("recorder.storage.remote.store_errors.FIRST_PAUSE_S", 0)
    empty()
    yield
    empty()


def test_opening_takes_three_reads_and_a_seek_two(large: tuple[bytes, dict[int, bytes]]) -> None:
    """In a tape of 12 MB, at ticks in any order; a state is the live one."""
    data, live = large
    url = put("run.tape", data)
    with Timeline(TapeUrl(url, cache_bytes=8 * READ_AHEAD_BYTES), Noise) as run:
        assert run.tape.status == "not checked"
        assert len(CountedStore.reads) <= 3
        assert len(CountedStore.listings) == 1
        seed = random.randrange(1 << 32)
        draw = random.Random(seed)
        for tick in draw.sample(sorted(live), 25):
            CountedStore.forget()
            run.seek(tick)
            assert len(CountedStore.reads) <= 2, (seed, tick)
            assert run.state.arena.tobytes() == live[tick], (seed, tick)
            assert CountedStore.listings == []


def test_a_tape_up_to_the_size_of_the_cache_is_read_once(large: tuple[bytes, dict[int, bytes]]) -> None:
    """Verified and played: no byte of it comes over the network a second time, but for those of overlapping reads."""
    data, live = large
    url = put("run.tape", data)
    with Timeline(url, Noise) as run:
        run.tape.check_blocks()
        for tick in live:
            assert run[tick].arena.tobytes() == live[tick]

    assert sum(min(end, len(data)) - start for _, start, end in CountedStore.reads) < len(data) * 1.1
    assert len(CountedStore.reads) < 60


def test_without_a_cache_every_read_is_a_request(small: tuple[bytes, dict[int, bytes]]) -> None:
    url = TapeUrl(put("run.tape", small[0]), cache_bytes=0, read_ahead_bytes=0)
    with Tape(url) as tape:
        file = tape._files._files[0]
        CountedStore.forget()
        assert file.read(8, 64) == file.read(8, 64) == small[0][8:72]

    assert [read[1:] for read in CountedStore.reads] == [(8, 72)] * 2


def test_the_environment_sets_the_read_ahead(
    small: tuple[bytes, dict[int, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLAY_URL_READ_AHEAD", "1KiB")
    with Tape(put("run.tape", small[0])):
        assert CountedStore.reads[0][1:] == (0, 1024)


@pytest.mark.parametrize(
    ("variable", "value"), [("REPLAY_URL_CACHE", "much"), ("REPLAY_URL_TIMEOUT", "-1"), ("REPLAY_URL_ATTEMPTS", "x")]
)
def test_a_setting_that_is_none_is_named(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=variable):
        Tape("counted://runs/run.tape")


def test_the_files_of_a_tape_are_found_with_one_listing(tmp_path: Path) -> None:
    live = record(
        tmp_path / "run.tape",
        Walkers(1, 200),
        [None] * 90,
        keyframe_interval_ticks=10,
        split=5000,
        deterministic=True,
        trial_ms=0,
    )
    names = sorted(path.name for path in tmp_path.iterdir())
    for name in names:
        put(name, (tmp_path / name).read_bytes())
    put("run.tape2", b"another file")
    CountedStore.forget()
    with Timeline("counted://runs/run.tape", lambda: Walkers(1, 200)) as run:
        assert len(names) > 2
        assert len(run.tape.segments) == len(names)
        assert len(CountedStore.listings) == 1
        assert [run[tick].arena.tobytes() for tick in live] == list(live.values())


def test_a_missing_part_is_told(tmp_path: Path) -> None:
    record(
        tmp_path / "run.tape",
        Walkers(1, 200),
        [None] * 90,
        keyframe_interval_ticks=10,
        split=5000,
        deterministic=True,
        trial_ms=0,
    )
    for path in tmp_path.iterdir():
        if path.name != "run.tape.1":
            put(path.name, path.read_bytes())
    with Tape("counted://runs/run.tape") as tape:
        assert tape.missing_segments == [1]
        assert tape.status == "corrupt"
    with pytest.raises(Exception, match=r"this is file 2 of counted://runs/run\.tape"):
        Tape("counted://runs/run.tape.2")


def test_a_tape_of_an_unclosed_run_has_what_its_journal_has(tmp_path: Path) -> None:
    """Copied while it was recorded: the frames of the journal count."""
    from recorder import Recorder

    with Recorder(tmp_path / "run.tape", Walkers(1), keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(25):
            tape.step(None)
        copies = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name, data in copies.items():
        put(name, data)
    with (
        Timeline("counted://runs/run.tape", lambda: Walkers(1)) as run,
        Timeline(tmp_path / "run.tape", Walkers) as whole,
    ):
        assert run.tape.status == "incomplete"
        assert not run.tape.is_being_written()
        assert run[run.last_tick].arena.tobytes() == whole[run.last_tick].arena.tobytes()


def test_a_tape_that_changes_while_it_is_read_is_told(large: tuple[bytes, dict[int, bytes]]) -> None:
    """Of the same size, too: what was read of the old one stays, and a read that the cache does not have says so."""
    data, live = large
    url = put("run.tape", data)
    with Timeline(url, Noise) as run:
        run.seek(10)
        put("run.tape", data)
        run.seek(10)
        with pytest.raises(OSError, match="was changed while it was read: open it again") as caught:
            run.seek(81)
        assert caught.value.filename == url
        assert len(CountedStore.reads) < 12, "a change is not asked for again and again"
        run.tape.refresh()
        run.seek(81)
        assert run.state.arena.tobytes() == live[81]


def test_a_tape_that_is_gone_is_told(large: tuple[bytes, dict[int, bytes]]) -> None:
    url = put("run.tape", large[0])
    with Timeline(url, Noise) as run:
        CountedStore().rm("/runs/run.tape")
        with pytest.raises(FileNotFoundError) as caught:
            run.seek(81)
        assert caught.value.filename == url


def test_failures_that_pass_are_not_seen(small: tuple[bytes, dict[int, bytes]]) -> None:
    url = put("run.tape", small[0])
    CountedStore.failing += [TimeoutError(), ConnectionResetError(), OSError("SlowDown")]
    CountedStore.short_by += [7]
    with Timeline(url, lambda: Walkers(3)) as run:
        run.seek(33)
        assert run.state.arena.tobytes() == small[1][33]
    assert len(CountedStore.reads) > 4


@pytest.mark.parametrize(
    ("error", "expected", "attempts"),
    [
        (TimeoutError(), "did not answer in time .asked 5 times", 5),
        (ConnectionResetError(104, "Connection reset by peer"), "cannot be read: .*reset by peer .asked 5 times", 5),
        (PermissionError("Access Denied"), "does not permit it: Access Denied", 1),
        (FileNotFoundError(), "No such file", 1),
    ],
)
def test_a_failure_that_stays_is_one_line(
    error: OSError, expected: str, attempts: int, small: tuple[bytes, dict[int, bytes]]
) -> None:
    url = put("run.tape", small[0])
    CountedStore.failing += [error] * 10
    with pytest.raises(OSError, match=expected) as caught:
        Tape(url)
    assert caught.value.filename == url
    assert len(CountedStore.reads) == attempts
    assert str(ForkingPickler.loads(ForkingPickler.dumps(caught.value))) == str(caught.value)


def test_a_mistake_in_a_file_system_is_not_hidden(small: tuple[bytes, dict[int, bytes]]) -> None:
    url = put("run.tape", small[0])
    CountedStore.failing += [KeyError("a bug")]
    with pytest.raises(KeyError, match="a bug"):
        Tape(url)


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(UnreadableError, match="the scheme nosuch:// is not known"):
        Tape("nosuch://runs/run.tape")


def test_a_closed_tape_is_not_read(small: tuple[bytes, dict[int, bytes]]) -> None:
    tape = Tape(put("run.tape", small[0]))
    tape.close()
    with pytest.raises(ValueError, match="closed"):
        tape.segments[0].read(0, 1)


def test_forked_processes_read_for_themselves(small: tuple[bytes, dict[int, bytes]]) -> None:
    url = TapeUrl(put("run.tape", small[0]), cache_bytes=0)
    report = verify_tape(url, lambda: Walkers(3), jobs=2)

    assert report.ok
    assert report.verified_ticks == 61


def test_the_cache_keeps_what_was_used_last() -> None:
    cache = PageCache(8, 4)
    cache.put(0, b"abcdefgh", 100)
    assert cache.get(1, 7) == b"bcdefg"
    assert cache.get(0, 4) == b"abcd"
    cache.put(40, b"ijklm", 100)

    assert list(cache.kept) == [0, 10], "page 1 was used longest ago, and m is no whole page"
    assert cache.missing(1, 11) == (4, 12)
    assert cache.missing(0, 4) == (0, 0)
    assert cache.get(40, 45) is None


@pytest.mark.parametrize("cache_bytes", [0, 100, 1000])
def test_reads_of_any_ranges_give_the_bytes_of_the_file(cache_bytes: int) -> None:
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    data = draw.randbytes(777)
    url = TapeUrl(put("file", data), cache_bytes=cache_bytes, read_ahead_bytes=draw.choice([0, 1, 7, 64, 1000]))
    file = _opened(url)
    for _ in range(300):
        offset, size = draw.randrange(800), draw.randrange(200)
        assert file.read(offset, size) == data[offset : offset + size], (seed, offset, size)


@pytest.mark.parametrize("answer", ["the range", "the whole file", "either"])
def test_reads_are_slices_with_any_cache_and_any_answers(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A web server without ranges sends the whole file, which may be larger than the cache."""
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    data = draw.randbytes(777)
    version = FileVersion(len(data), "a mark")

    def answered(_: Any, __: Any, offset: int, end_offset: int, ___: Any) -> tuple[int, bytes]:
        is_whole = answer == "the whole file" or (answer == "either" and draw.random() < 0.5)
        return (0, data) if is_whole else (offset, data[offset:end_offset])

    monkeypatch.setattr("recorder.storage.remote.url_file.read_range", answered)
    for _ in range(60):
        sizes = {"cache_bytes": draw.randrange(1000), "read_ahead_bytes": draw.randrange(1, 200)}
        url = TapeUrl("counted://runs/file", **sizes)
        file = UrlFile(url, version, settings_of(url), data[: draw.randrange(100)])
        for _ in range(60):
            offset, size = draw.randrange(800), draw.randrange(200)
            assert file.read(offset, size) == data[offset : offset + size], (seed, sizes, offset, size)


def _opened(url: TapeUrl) -> Any:
    files = UrlFiles(url)
    files.update()
    return files.open(0, None)
