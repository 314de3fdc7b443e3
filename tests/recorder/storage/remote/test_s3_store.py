"""Tapes in an object store, against a real S3 server on loopback that works, fails, refuses and changes."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any

import pytest
from optional_packages import needs

needs("s3fs", "moto", "flask")

import s3_store  # noqa: E402
from s3_store import BUCKET, S3Store  # noqa: E402

from recorder.corpus import Corpus  # noqa: E402
from recorder.location.tape_url import TapeUrl  # noqa: E402
from replayer import Tape, Timeline, verify_tape  # noqa: E402
from replayer.commands.main import main  # noqa: E402

from oracle.command_lines import assert_one_line, run  # noqa: E402
from small_worlds import Walkers, record  # noqa: E402

TICKS = 60


make = functools.partial(Walkers, 3, 400)  # Found by processes that are spawned, too.


@pytest.fixture(scope="module")
def server() -> Iterator[S3Store]:
    settings = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    with s3_store.serving() as store, pytest.MonkeyPatch.context() as patch:
        for name, value in (settings | {"AWS_ENDPOINT_URL": store.endpoint}).items():
            patch.setenv(name, value)
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.delenv("AWS_PROFILE", raising=False)
        yield store


@pytest.fixture(scope="module")
def bucket(server: S3Store) -> Any:
    import s3fs

    files = s3fs.S3FileSystem(endpoint_url=server.endpoint, use_listings_cache=False, skip_instance_cache=True)
    if not files.exists(BUCKET):  # The store is the process's, which may come back to this module.
        files.mkdir(BUCKET)
    return files


@pytest.fixture(scope="module")
def taped(tmp_path_factory: pytest.TempPathFactory, bucket: Any) -> dict[int, bytes]:
    """The states of the live run that s3://runs/a/run.tape was recorded from; 3 files at s3://runs/parts."""
    folder = tmp_path_factory.mktemp("s3")
    live = record(folder / "run.tape", make(), [None] * TICKS, keyframe_interval_ticks=15, trial_ms=0)
    bucket.put(str(folder / "run.tape"), f"{BUCKET}/a/run.tape")
    (folder / "parts").mkdir()
    parts: dict[str, Any] = {"split": 5000, "deterministic": True, "keyframe_interval_ticks": 10, "trial_ms": 0}
    record(folder / "parts" / "run.tape", make(), [None] * 90, **parts)
    bucket.put(str(folder / "parts"), f"{BUCKET}/", recursive=True)
    bucket.pipe(f"{BUCKET}/a/broken.tape", b"no tape")
    bucket.pipe(f"{BUCKET}/a/notes.txt", b"no tape either")
    return live


@pytest.fixture
def store(server: S3Store, taped: dict[int, bytes], monkeypatch: pytest.MonkeyPatch) -> S3Store:
    assert taped
    monkeypatch.setattr("recorder.storage.remote.store_errors.FIRST_PAUSE_S", 0)
    server.work()
    return server


URL = f"s3://{BUCKET}/a/run.tape"


@pytest.mark.seldom(0.15)
def test_a_tape_is_opened_with_one_listing_and_two_reads(store: S3Store, taped: dict[int, bytes]) -> None:
    """And its states are those of the live run."""
    with Timeline(TapeUrl(URL, read_ahead_bytes=4096), make) as run:
        assert len(store.reads()) <= 3
        assert len(store.asked) == len(store.reads()) + 1
        for tick, state in taped.items():
            assert run[tick].arena.tobytes() == state
    assert all(asked is not None for _, asked in store.reads())


@pytest.mark.seldom(0.15)
def test_a_verification_in_processes(store: S3Store) -> None:
    report = verify_tape(TapeUrl(URL, cache_bytes=8192, read_ahead_bytes=4096), make, jobs=2)

    assert report.ok
    assert report.verified_ticks == TICKS + 1
    assert len(store.asked) > 4, "forked processes asked, too"


def test_the_runs_of_a_folder(store: S3Store) -> None:
    runs = {run.tape: run for run in Corpus.open(f"s3://{BUCKET}/a")}

    assert sorted(runs) == ["broken.tape", "run.tape"]
    assert (runs["run.tape"].ticks, runs["run.tape"].status) == (TICKS, "not checked")
    assert (runs["broken.tape"].status, runs["broken.tape"].error) == ("unreadable", "this is not a tape")
    assert runs["run.tape"].changed_ns > 1e18
    assert sum(path.count("/") == 1 for _, path, _ in store.asked) == 1, "listed once"


def test_failures_that_pass_are_not_seen(store: S3Store, taped: dict[int, bytes]) -> None:
    """Busy, too many requests, broken, cut off."""
    store.statuses += [(503, "SlowDown"), (503, "ServiceUnavailable"), (500, "InternalError")]
    store.cut_off = 2
    with Timeline(URL, make) as run:
        run.seek(TICKS)
        assert run.state.arena.tobytes() == taped[TICKS]


@pytest.mark.parametrize(
    ("error", "expected", "attempts"),
    [
        ((503, "SlowDown"), r"the store answered 503: SlowDown it is .asked 3 times", 3),
        ((404, "NoSuchBucket"), "No such file", 1),
    ],
)
def test_a_failure_that_stays_is_one_line(
    error: tuple[int, str],
    expected: str,
    attempts: int,
    store: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a command, too. Where nothing may be listed, the tape itself is asked for."""
    monkeypatch.setenv("REPLAY_URL_ATTEMPTS", "3")
    store.statuses += [error] * attempts
    with pytest.raises(OSError, match=expected) as caught:
        Tape(URL)
    assert caught.value.filename == URL
    assert store.statuses == []
    store.statuses += [error] * attempts
    assert run(main, f"info {URL}") in (2, 5)
    assert_one_line(capsys.readouterr(), URL)


def test_an_object_that_may_not_be_read_is_told(store: S3Store) -> None:
    store.denied = "run.tape"
    with pytest.raises(PermissionError, match="does not permit it: AccessDenied it is"):
        Tape(URL)


def test_a_store_that_lists_nothing_is_asked_by_name(store: S3Store) -> None:
    store.lists = False
    with Tape(f"s3://{BUCKET}/parts/run.tape") as tape:
        assert len(tape.segments) > 2
        assert tape.check_blocks() == []
    with pytest.raises(FileNotFoundError):
        Tape(f"s3://{BUCKET}/parts/none.tape")


def test_a_slow_store_fails_in_time(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAY_URL_TIMEOUT", "0.2")
    monkeypatch.setenv("REPLAY_URL_ATTEMPTS", "1")
    store.slow_s = 1.0
    with pytest.raises(OSError, match="did not answer in time"):
        Tape(URL)


@pytest.mark.usefixtures("store")
def test_a_missing_part_is_told(bucket: Any) -> None:
    bucket.copy(f"{BUCKET}/parts/run.tape", f"{BUCKET}/lost/run.tape")
    bucket.copy(f"{BUCKET}/parts/run.tape.2", f"{BUCKET}/lost/run.tape.2")
    with Tape(f"s3://{BUCKET}/lost/run.tape") as tape:
        assert 1 in tape.missing_segments
        assert tape.status == "corrupt"


@pytest.mark.usefixtures("store")
def test_a_tape_that_changes_while_it_is_read_is_told(bucket: Any) -> None:
    """Of the same size: the states that were read stay those of the first tape, and no state mixes the two."""
    data = bucket.cat_file(f"{BUCKET}/a/run.tape")
    bucket.pipe(f"{BUCKET}/changed.tape", data)
    with Timeline(TapeUrl(f"s3://{BUCKET}/changed.tape", cache_bytes=0), make) as run:
        run.seek(3)
        bucket.pipe(f"{BUCKET}/changed.tape", bytes([*data[:-1], data[-1] ^ 1]))
        with pytest.raises(OSError, match="was changed while it was read: open it again"):
            run.seek(40)


def test_options_reach_the_file_system(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address given with the tape, without one in the environment."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    with Tape(TapeUrl(URL, options={"endpoint_url": store.endpoint})) as tape:
        assert tape.last_tick == TICKS
