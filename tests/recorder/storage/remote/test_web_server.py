"""Tapes at http:// URLs: a server that works, that fails, and that cannot send parts of a file."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

needs("aiohttp")

from web_store import WebStore, serving  # noqa: E402

from recorder.errors import RecordingError  # noqa: E402
from recorder.location.tape_url import TapeUrl  # noqa: E402
from replayer import Tape, Timeline, verify_tape  # noqa: E402
from replayer.playback.cursor import Cursor  # noqa: E402
from replayer.timeline.intervals import Interval, _WithCursor, list_intervals  # noqa: E402

from small_worlds import Walkers, record  # noqa: E402

TICKS = 60


make = functools.partial(Walkers, 3, 400)  # Found by processes that are spawned, too.


@pytest.fixture(scope="module")
def server() -> Iterator[WebStore]:
    with serving() as store:
        yield store


@pytest.fixture
def store(server: WebStore, monkeypatch: pytest.MonkeyPatch) -> WebStore:
    monkeypatch.setattr("recorder.storage.remote.store_errors.FIRST_PAUSE_S", 0)
    server.clear()
    return server


@pytest.fixture(scope="module")
def taped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, bytes]]:
    path = tmp_path_factory.mktemp("web") / "run.tape"
    live = record(path, make(), [None] * TICKS, keyframe_interval_ticks=15, trial_ms=0, durability="none")
    return path, live


def put(store: WebStore, path: Path) -> str:
    store.files |= {f"/a/{file.name}": file.read_bytes() for file in path.parent.iterdir()}
    return f"{store.address}/a/{path.name}"


def test_a_tape_is_read_in_parts(store: WebStore, taped: tuple[Path, dict[int, bytes]]) -> None:
    """Each state is the live one; the server is asked for the tape, for a journal and for a second file."""
    url = put(store, taped[0])
    with Timeline(TapeUrl(url, read_ahead_bytes=4096), make) as run:
        asked = [path for path, _ in store.asked]
        assert asked.count("/a/run.tape") <= 3
        assert set(asked) == {"/a/run.tape", "/a/run.tape.journal", "/a/run.tape.1"}
        for tick, state in taped[1].items():
            assert run[tick].arena.tobytes() == state
    assert all(asked_range is not None for _, asked_range in store.asked)


def test_several_files_are_found(store: WebStore, tmp_path: Path) -> None:
    record(
        tmp_path / "run.tape",
        make(),
        [None] * 90,
        keyframe_interval_ticks=10,
        split=5000,
        deterministic=True,
        trial_ms=0,
    )
    count = len(list(tmp_path.iterdir()))
    with Tape(put(store, tmp_path / "run.tape")) as tape:
        assert len(tape.segments) == count > 2
        assert tape.check_blocks() == []


def test_processes_of_a_verification_read_for_themselves(store: WebStore, taped: tuple[Path, dict[int, bytes]]) -> None:
    """Forked copies with connections of their own, although this process has some open; and any other process."""
    url = put(store, taped[0])
    with Tape(url) as tape:
        interval = list_intervals(tape)[1]
        sent = ForkingPickler.dumps(_WithCursor(tape, make, _last_hash, None))
        state_hash = tape.state_hash(interval.final_tick)
    report = verify_tape(TapeUrl(url, cache_bytes=8192, read_ahead_bytes=4096), make, jobs=2)

    assert report.ok
    assert report.verified_ticks == TICKS + 1
    assert ForkingPickler.loads(sent)(interval, lambda _: None) == state_hash


def _last_hash(cursor: Cursor, interval: Interval, *_: Any) -> int:
    cursor.seek(interval.final_tick)
    return cursor.state.hash()


def test_failures_that_pass_are_not_seen(store: WebStore, taped: tuple[Path, dict[int, bytes]]) -> None:
    url = put(store, taped[0])
    store.statuses += [503, 429]
    store.cut_off = 2
    with Timeline(url, make) as run:
        run.seek(TICKS)
        assert run.state.arena.tobytes() == taped[1][TICKS]
    assert len(store.asked) >= 5


@pytest.mark.parametrize(
    ("status", "expected", "attempts"),
    [
        (503, "the store answered 503.*asked 3 times", 3),
        (403, "the store does not permit it", 1),
        (404, "No such file", 1),
        (400, "the store answered 400", 1),
    ],
)
def test_a_failure_that_stays_is_one_line(
    status: int, expected: str, attempts: int, store: WebStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLAY_URL_ATTEMPTS", "3")
    store.statuses += [status] * 9
    with pytest.raises(OSError, match=expected) as caught:
        Tape(f"{store.address}/run.tape")
    assert caught.value.filename == f"{store.address}/run.tape"
    assert "\n" not in str(caught.value)
    assert len(store.asked) == attempts


def test_an_answer_that_is_always_cut_off_is_told(store: WebStore, taped: tuple[Path, dict[int, bytes]]) -> None:
    url = put(store, taped[0])
    store.cut_off = 99
    with pytest.raises(OSError, match="asked 5 times"):
        Tape(url)


def test_a_slow_server_fails_in_time(
    store: WebStore, taped: tuple[Path, dict[int, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLAY_URL_TIMEOUT", "0.1")
    monkeypatch.setenv("REPLAY_URL_ATTEMPTS", "2")
    url = put(store, taped[0])
    store.slow_s = 0.5
    begun_s = time.monotonic()
    with pytest.raises(OSError, match=r"did not answer in time .asked 2 times"):
        Tape(url)
    assert time.monotonic() - begun_s < 30


def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAY_URL_ATTEMPTS", "1")
    with pytest.raises(OSError, match=r"the store cannot be read: Connect call failed"):
        Tape("http://127.0.0.1:9/run.tape")


def test_a_server_without_parts_sends_the_whole_once(store: WebStore, taped: tuple[Path, dict[int, bytes]]) -> None:
    url = put(store, taped[0])
    store.has_ranges = False
    with Timeline(url, make) as run:
        for tick, state in taped[1].items():
            assert run[tick].arena.tobytes() == state
    assert [path for path, _ in store.asked].count("/a/run.tape") == 1


def test_a_tape_that_changes_is_told(store: WebStore, taped: tuple[Path, dict[int, bytes]]) -> None:
    """Of the same size, too."""
    url = put(store, taped[0])
    with Timeline(TapeUrl(url, cache_bytes=0), make) as run:
        run.seek(3)
        data = bytearray(store.files["/a/run.tape"])
        data[len(data) // 2] ^= 1
        store.files["/a/run.tape"] = bytes(data)
        with pytest.raises(OSError, match="was changed while it was read"):
            run.seek(40)
        store.files["/a/run.tape"] = bytes(data[:100])
        with pytest.raises(OSError, match="was changed while it was read"):
            run.seek(40)


def test_a_signed_url_is_not_shown(store: WebStore, taped: tuple[Path, dict[int, bytes]]) -> None:
    url = put(store, taped[0])
    store.signature = "key=secret"
    with Tape(f"{url}?key=secret") as tape:
        assert tape.status == "not checked"
        assert "secret" not in str(tape.path)
    with pytest.raises(OSError, match="does not permit") as caught:
        Tape(f"{url}?key=wrong")
    assert "wrong" not in str(caught.value)


def test_what_is_no_tape_is_told(store: WebStore) -> None:
    store.files["/page"] = b"<html>"
    store.files["/empty"] = b""
    with pytest.raises(RecordingError, match=r"this is not a tape"):
        Tape(f"{store.address}/page")
    with pytest.raises(RecordingError, match="the file is empty"):
        Tape(f"{store.address}/empty")


@pytest.mark.seldom(0.2)
def test_a_cause_is_found_by_url(store: WebStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes that try variants open the URL, too: the line is that which is found by path."""
    from replayer.diagnose import explain_tape

    (tmp_path / "counting.py").write_text(COUNTING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("counting")
    path = tmp_path / "tapes" / "run.tape"
    path.parent.mkdir()
    record(path, module.Counting(), [None] * 25, keyframe_interval_ticks=10, trial_ms=0)
    by_path, by_url = (
        explain_tape(one, sim="counting:Counting", factory=module.Counting) for one in (path, put(store, path))
    )

    assert by_url.tick == by_path.tick == 11
    assert by_url.cause is not None
    assert by_path.cause is not None
    assert (by_url.cause.kind, by_url.cause.place) == (by_path.cause.kind, by_path.cause.place)
    assert by_url.cause.place.text.startswith('self.state["x"][0] += calls[0]')


COUNTING = """
from sim import Field, Schema, State

calls = [0]


class Counting:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8", (5,))))

    def step(self, inputs):
        calls[0] += 1
        self.state["x"][0] += calls[0] % 3
"""
