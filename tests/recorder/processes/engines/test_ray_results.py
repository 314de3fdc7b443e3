"""Each command that takes --engine gives on Ray what it gives in local processes, byte by byte."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from corpora import duel_folder, tapes  # noqa: F401 - a fixture
from optional_packages import needs
from pool_work import Wrong

import recorder.commands.main
import replayer.commands.main
from recorder.location.tape_location import tape_location
from recorder.location.tape_url import TapeUrl
from recorder.processes.engines.ray_pool import RayPool
from recorder.processes.pool import Pool
from replayer.datasets import plan
from replayer.datasets.extract import extract
from replayer.diagnose.certify.certify import certify
from replayer.timeline.verify import verify_tape

from oracle.command_lines import files, run
from project_paths import SUPPORT
from ray_cluster import ray_pool
from small_worlds import Walkers, record

needs("ray")


@attrs.frozen
class Kept:
    """An engine whose pool is kept by the tests."""

    kept: Pool

    @contextmanager
    def pool(self, _: int | None = None) -> Iterator[Pool]:
        """The pool."""
        yield self.kept


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A Ray with two workers, for all tests."""
    with ray_pool(tmp_path_factory.mktemp("ray")) as made:
        yield Kept(made)


@pytest.fixture
def engine(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """The engine of --engine ray."""
    for module in ("recorder.console.engine_option", "recorder.commands.batch", "recorder.commands.generate"):
        monkeypatch.setattr(f"{module}.find_engine", lambda name: kept if name == "ray" else None)
    return kept


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Fifty ticks with a keyframe every eight."""
    record(tmp_path / "run.tape", Walkers(), [[[tick % 20, 2]] for tick in range(50)], keyframe_interval_ticks=8)
    return tmp_path / "run.tape"


@pytest.mark.parametrize("factory", ["Walkers", "Wrong"])
def test_verify(tape: Path, engine: Kept, factory: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same lines and exit code, also of a divergence, with its dump."""
    told = []
    module = "small_worlds" if factory == "Walkers" else "pool_work"
    for place in ("--jobs 2", "--engine ray"):
        line = f"verify {tape} --sim {module}:{factory} --json --dump-folder {tmp_path / 'dumps'} {place}"
        code = run(replayer.commands.main.main, line)
        told.append((code, json.loads(capsys.readouterr().out)))
        shutil.rmtree(tmp_path / "dumps", ignore_errors=True)
    assert told[0] == told[1]
    assert told[0][0] == (0 if factory == "Walkers" else 1)
    assert isinstance(engine.kept, RayPool)


def test_verify_reports_progress_in_order(tape: Path, kept: Kept) -> None:
    seen: list[tuple[int, int]] = []
    report = verify_tape(tape, Walkers, engine=kept, progress=lambda done, total: seen.append((done, total)))
    assert report.ok
    assert report.verified_ticks == 51
    assert seen == sorted(seen)
    assert seen[-1] == (51, 51)
    assert verify_tape(tape, Wrong, engine=kept).first_bad == 29


def test_verify_a_tape_that_is_damaged(tape: Path, kept: Kept) -> None:
    damaged = bytearray(tape.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    tape.write_bytes(damaged)
    local, there = verify_tape(tape, Walkers, jobs=2), verify_tape(tape, Walkers, engine=kept)
    assert not there.ok
    assert list(map(str, there.problems)) == list(map(str, local.problems))
    assert there.verified_ticks == local.verified_ticks


def test_verify_a_class_of_a_script(tape: Path, kept: Kept) -> None:
    """A local class has no name under which a worker could import it."""

    class Mine(Walkers):
        pass

    assert verify_tape(tape, lambda: Mine(), engine=kept).ok  # noqa: PLW0108 - a closure


def test_extract(
    tape: Path, engine: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same files, with the manifest."""
    monkeypatch.setattr(plan, "PART_TICKS", 14)
    monkeypatch.chdir(tmp_path)
    for folder, place in (("local", "-j 2"), ("ray", "--engine ray")):
        line = f"extract {tape} -o {folder} --table states --table actions --sim small_worlds:Walkers {place}"
        monkeypatch.setattr("sys.argv", ["replay", *line.replace(folder, "out", 1).split()])
        assert run(replayer.commands.main.main, line) == 0
    capsys.readouterr()
    assert files(tmp_path / "ray") == files(tmp_path / "local")
    assert len(files(tmp_path / "ray")) > 4
    extract(tape, tmp_path / "python", world=Walkers, tables=("states", "actions"), engine=engine)
    assert {name for name in files(tmp_path / "python") if "parquet" in name} == {
        name for name in files(tmp_path / "ray") if "parquet" in name
    }


def test_tapes_and_data_sets_at_urls(tape: Path, kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is a folder under another scheme than file: each worker opens the tape by its URL."""
    needs("fsspec")
    monkeypatch.setattr(plan, "PART_TICKS", 14)
    monkeypatch.setenv("REPLAY_STAGING", str(tmp_path / "staging"))
    store = f"local://{tmp_path}/store"
    (tmp_path / "store").mkdir()
    shutil.copy(tape, tmp_path / "store" / "run.tape")
    report = verify_tape(f"{store}/run.tape", Walkers, engine=kept)
    assert (report.ok, report.verified_ticks) == (True, 51)
    assert verify_tape(f"{store}/run.tape", Wrong, engine=kept).first_bad == 29
    there_url = TapeUrl(f"{store}/there", options={"auto_mkdir": True})
    for output, more in ((tmp_path / "here", {"jobs": 2}), (there_url, {"engine": kept})):
        extract(f"{store}/run.tape", output, world=Walkers, tables=("states", "actions"), **more)  # type: ignore[call-overload]
    here, there = files(tmp_path / "here"), files(tmp_path / "store" / "there")
    assert {name: data for name, data in here.items() if "parquet" in name} == {
        name: data for name, data in there.items() if "parquet" in name
    }
    assert there.keys() == here.keys()
    assert len(there) > 4


def without_times(folder: Path) -> dict[str, bytes]:
    """The files of a batch but for its tapes, which have times; what is noted as runs end is sorted."""
    found = {name: data for name, data in files(folder).items() if not name.endswith((".tape", ".png"))}
    return {name: b"\n".join(sorted(data.splitlines())) for name, data in found.items()}


@pytest.mark.parametrize(
    "line", ["batch two-phase-vote --seeds 0..3 --ticks 4", "sweep two-phase-vote --axis seed=0..3 --ticks 4"]
)
def test_batch_and_sweep(
    engine: Kept, tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same manifest; each tape verifies."""
    found = []
    for name, place in (("local", "-j 2"), ("ray", "--engine ray")):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert run(recorder.commands.main.main, f"{line} -o runs --json {place}") == 0
        found.append((json.loads(capsys.readouterr().out), without_times(tmp_path / name)))
    assert found[0] == found[1]
    made = sorted((tmp_path / "ray").rglob("*.tape"))
    assert len(made) == 4
    assert all(verify_tape(path).ok for path in made)
    assert isinstance(engine.kept, RayPool)


def test_generate(duel_folder: Path, engine: Kept, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811 - the fixture
    """The same tapes, byte by byte."""
    for folder, place in (("local", "-j 2"), ("ray", "--engine ray")):
        assert run(recorder.commands.main.main, f"generate heaps.toml --seeds 0..2 -o {folder} {place}") == 0
    assert "3 runs on Ray → ray" in capsys.readouterr().out
    assert tapes(duel_folder / "ray") == tapes(duel_folder / "local")
    assert len(tapes(duel_folder / "ray")) == 3
    assert isinstance(engine.kept, RayPool)


def test_certify(tape: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same verdicts and results, cell by cell."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    told = [
        certify(tape, "small_worlds:Walkers", factors=["hash-seed"], quick=True, **place)  # type: ignore[arg-type]
        for place in ({"jobs": 2}, {"engine": kept})
    ]
    assert told[0].ok
    assert told[0].verdicts == told[1].verdicts
    cells = [[attrs.evolve(report, seconds=0.0) for report in one.cells] for one in told]
    assert cells[0] == cells[1]


def test_ctrl_c_ends_the_work_and_leaves_the_tape_as_it_was(tape: Path, kept: Kept) -> None:
    """The interrupt reaches the caller, and the next verification is complete."""
    before = tape.read_bytes()

    def interrupt(done: int, _: int) -> None:
        if done > 8:
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
            threading.Event().wait(5)

    with pytest.raises(KeyboardInterrupt):
        verify_tape(tape, Walkers, engine=kept, progress=interrupt)
    assert tape.read_bytes() == before
    assert verify_tape(tape, Walkers, engine=kept).ok


def test_a_tape_that_a_worker_cannot_see_is_one_line(tape: Path, kept: Kept) -> None:
    """A path that only this machine has: here the file is removed before the first worker opens it."""
    pool = kept.kept

    @attrs.frozen
    class Late:
        """Removes the tape when the work is submitted."""

        workers: int = 2

        def submit(self, *given: object, **more: object) -> object:
            tape.unlink()
            return pool.submit(*given, **more)  # type: ignore[arg-type]

    with pytest.raises(FileNotFoundError, match=r"run\.tape"):
        verify_tape(tape, Walkers, pool=Late())  # type: ignore[arg-type]
    assert isinstance(tape_location(tape), Path)
