"""Verify, extract, batch and generate take any pool and give the same result in each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest
from corpora import duel_folder, tapes  # noqa: F401 - a fixture
from pool_work import InProcessPool, Wrong

from recorder.corpus.corpus import Corpus
from recorder.corpus.generate import missing_runs, plan_runs, run_missing
from recorder.processes.fork_pool import ForkPool
from recorder.processes.pool import Pool
from recorder.processes.spawn_pool import SpawnPool
from recorder.scenarios.batch import Job, RunRecord, run_job, run_many
from recorder.scenarios.sweep import Axis, sweep_jobs
from replayer.datasets import plan
from replayer.datasets.extract import extract
from replayer.timeline.verify import verify_tape
from sim.scenario.scenario_file import load_scenario

from oracle.command_lines import files
from small_worlds import Walkers, record

OTHERS: dict[str, Callable[[], Pool]] = {"in process": InProcessPool, "spawned": functools.partial(SpawnPool, 2)}
others = pytest.mark.parametrize("make_pool", OTHERS.values(), ids=OTHERS)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Fifty ticks with a keyframe every eight."""
    record(tmp_path / "run.tape", Walkers(), [[[tick % 20, 2]] for tick in range(50)], keyframe_interval_ticks=8)
    return tmp_path / "run.tape"


def ensure_used(pool: Pool) -> None:
    """Check that the pool was used, as far as that can be known."""
    assert not isinstance(pool, InProcessPool) or pool.worked_on


@pytest.mark.seldom(0.15)
@others
def test_verify(tape: Path, make_pool: Callable[[], Pool]) -> None:
    """The same report, also of a simulation with a divergent tick."""
    factory: type[Walkers]
    for factory in (Walkers, Wrong):
        seen: list[tuple[int, int]] = []
        expected = verify_tape(tape, factory, jobs=2)
        pool = make_pool()
        found = verify_tape(
            tape, factory, pool=pool, progress=lambda done, total, seen=seen: seen.append((done, total))
        )
        ensure_used(pool)
        assert found.ok == expected.ok == (factory is Walkers)
        assert plain_report(found) == plain_report(expected)
        assert factory is Wrong or seen[-1] == (51, 51)
        assert found.first_bad == (None if factory is Walkers else 29)


@others
def test_verify_a_damaged_tape(tape: Path, make_pool: Callable[[], Pool]) -> None:
    """A worker that opens it again finds the same damage."""
    damaged = bytearray(tape.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    tape.write_bytes(damaged)
    expected = verify_tape(tape, Walkers, jobs=2)
    assert not expected.ok
    assert plain_report(verify_tape(tape, Walkers, pool=make_pool())) == plain_report(expected)


def plain_report(report: Any) -> list[Any]:
    """Return the parts of a report that can be compared."""
    figures = attrs.astuple(report, filter=attrs.filters.exclude("findings", "problems"))
    return [figures, [str(problem) for problem in report.problems], [finding.tick for finding in report.findings]]


@pytest.mark.seldom(0.15)
@others
def test_extract(tape: Path, tmp_path: Path, make_pool: Callable[[], Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same files, byte by byte."""
    monkeypatch.setattr(plan, "PART_TICKS", 14)
    extract(tape, tmp_path / "forked", world=Walkers, tables=("states", "actions"), jobs=2)
    pool = make_pool()
    extract(tape, tmp_path / "out", world=Walkers, tables=("states", "actions"), pool=pool)
    ensure_used(pool)
    assert files(tmp_path / "out") == files(tmp_path / "forked")
    assert len(files(tmp_path / "out")) > 4


def jobs_of(folder: Path) -> list[Job]:
    """Make small runs with tapes."""
    folder.mkdir()
    return sweep_jobs(load_scenario("two-phase-vote"), [Axis("seed", tuple(range(4)))], folder, ticks=4)


@pytest.mark.parametrize("make_pool", [*OTHERS.values(), functools.partial(ForkPool, 2)], ids=[*OTHERS, "forked"])
def test_batch(tmp_path: Path, make_pool: Callable[[], Pool]) -> None:
    """The same records."""
    expected = [attrs.evolve(record, tape=None) for record in run_many(jobs_of(tmp_path / "a"), workers=1)]
    pool = make_pool()
    found = run_many(jobs_of(tmp_path / "b"), pool=pool)
    ensure_used(pool)
    assert [attrs.evolve(record, tape=None) for record in found] == expected
    assert tapes(tmp_path / "b").keys() == tapes(tmp_path / "a").keys()
    assert len(tapes(tmp_path / "b")) == 4


def test_a_batch_in_a_pool_that_loses_a_job(tmp_path: Path) -> None:
    """The job runs again in the same pool, alone; if it is lost again, that is its error."""
    pool = InProcessPool(dying=[1])
    found = run_many(jobs_of(tmp_path / "a"), pool=pool)
    assert [job.index for job in pool.worked_on] == [0, 1, 2, 3, 1]
    assert [(record.error, record.attempts) for record in found] == [(None, 1), (None, 2), (None, 1), (None, 1)]

    class LosesAll(InProcessPool):
        def submit(self, *given: Any, **more: Any) -> Any:
            self.dying = {0}
            return super().submit(*given, **more)

    found = run_many(jobs_of(tmp_path / "c")[:1], pool=LosesAll())
    assert found[0].error == "its worker died 2 times, the last time while running no other job"


def test_threads_of_an_executor_take_closures(tmp_path: Path) -> None:
    """Nothing is pickled where no process is needed."""
    ran: list[int] = []

    def work(job: Job) -> RunRecord:
        ran.append(job.index)
        return run_job(job)

    with ThreadPoolExecutor(1) as threads:
        assert all(record.error is None for record in run_many(jobs_of(tmp_path / "a"), executor=threads, work=work))
    assert ran == [0, 1, 2, 3]


def test_a_batch_has_one_place_to_run_in(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as threads, pytest.raises(ValueError, match="expected an executor or a pool, got both"):
        run_many(jobs_of(tmp_path / "a"), executor=threads, pool=InProcessPool())


@others
@pytest.mark.seldom(0.18)
def test_generate(duel_folder: Path, make_pool: Callable[[], Pool]) -> None:  # noqa: F811 - the fixture
    """The same tapes, byte by byte."""
    for folder, pool in ((Path("forked"), ForkPool(2)), (Path("other"), make_pool())):
        folder.mkdir()
        runs = plan_runs(["heaps.toml"], folder, seeds=[0, 1, 2], keyframe_interval_ticks=9)
        records = run_missing(missing_runs(runs, Corpus.open(folder)), folder, pool=pool)
        assert [record.error for record in records] == [None] * 3
        ensure_used(pool)
    assert tapes(duel_folder / "other") == tapes(duel_folder / "forked")
    assert len(tapes(duel_folder / "other")) == 3
