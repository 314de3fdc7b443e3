"""Workers end with their parent, and at once when it is interrupted; an executor that breaks loses no run."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import pytest
from batch_work import always_dies_late, dies_once
from waiting import wait_until

from recorder.scenarios.batch import Job, RunRecord, run_job, run_many
from recorder.scenarios.batch_manifest import LINES_NAME
from recorder.scenarios.sweep import Axis, run_batch, sweep_jobs
from replayer import Tape
from sim.scenario.scenario_file import load_scenario

from project_paths import SUPPORT

SOON_S = 5.0
WAITING = """
import sys
from pathlib import Path
import batch_work
from recorder.scenarios.sweep import Axis, run_batch, sweep_jobs
from sim.scenario.scenario_file import load_scenario

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    jobs = sweep_jobs(load_scenario("two-phase-vote"), [Axis("seed", (0, 1, 2, 3))], folder, ticks=4)
    try:
        run_batch(jobs, folder, workers=2, work=batch_work.first_alone)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def jobs_of(count: int, folder: Path | None = None) -> list[Job]:
    """Make small runs, with seeds from 0."""
    return sweep_jobs(load_scenario("two-phase-vote"), [Axis("seed", tuple(range(count)))], folder, ticks=4)


@contextmanager
def executor(workers: int) -> Iterator[ProcessPoolExecutor]:
    """An executor of the user."""
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.seldom(0.15)
def test_an_executor_whose_worker_dies(tmp_path: Path) -> None:
    """Its unfinished jobs run in our own processes; the job that kills its worker again is named."""
    truth = run_many(jobs_of(5), workers=1)
    told: list[int] = []
    begun = tmp_path / "begun"
    begun.mkdir()
    with executor(2) as pool:
        found = run_many(
            jobs_of(5, begun), executor=pool, work=always_dies_late, finished=lambda record: told.append(record.index)
        )
    assert found[3].error == "its worker died 2 times, the last time while running no other job"
    others = [attrs.evolve(record, attempts=1, tape=None) for record in found if record.index != 3]
    assert others == [record for record in truth if record.index != 3]
    assert sorted(told) == list(range(5))

    folder = tmp_path / "tapes"
    folder.mkdir()
    with executor(1) as pool:
        found = run_many(jobs_of(5, folder), executor=pool, work=dies_once)
        assert [(record.error, record.final_hash) for record in found] == [(None, one.final_hash) for one in truth]
        assert found[3].attempts == 2
        assert run_many(jobs_of(2), executor=pool) == truth[:2]  # Though it takes no further work.
    assert len(list(folder.glob("*.tape"))) == 5


def test_an_interrupt_while_a_record_is_kept(tmp_path: Path) -> None:
    """It is kept once, and no further job is started."""
    told: list[int] = []

    def the_other_worker_has_finished() -> bool:
        with ExitStack() as stack:
            statuses = [
                stack.enter_context(Tape(path)).status for path in tmp_path.glob("*.tape") if path.stat().st_size
            ]
        return statuses.count("not checked") >= 2

    def finished(record: RunRecord) -> None:
        told.append(record.index)
        signal.raise_signal(signal.SIGINT)
        wait_until(the_other_worker_has_finished)  # Its record would come at once.

    with pytest.raises(KeyboardInterrupt):
        run_many(jobs_of(3, tmp_path), workers=2, finished=finished)
    assert told
    assert len(told) == len(set(told))


def test_jobs_of_one_index() -> None:
    """They are refused before any of them runs."""
    first = jobs_of(1)[0]
    with pytest.raises(ValueError, match="expected a different index for each job of the batch"):
        run_many([first, attrs.evolve(first, name="other")], workers=1)


def is_alive(process: int) -> bool:
    """Return True if the process runs; a zombie does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@contextmanager
def waiting_batch(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A batch with one finished run and two workers that never finish: its process, and the workers."""
    given = [sys.executable, "-c", WAITING, str(folder)]
    with subprocess.Popen(given, cwd=SUPPORT, stderr=subprocess.PIPE, start_new_session=True) as process:
        try:

            def at_work() -> list[int]:
                assert process.poll() is None
                numbers = [int(text) for path in folder.glob("*.pid") if (text := path.read_text()).endswith("\n")]
                has_kept_one = len(numbers) == 2 and (folder / LINES_NAME).read_text().count("\n") == 2
                return numbers if has_kept_one else []

            workers = wait_until(at_work)
            assert all(map(is_alive, workers))
            yield process, workers
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.seldom(0.15)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes with their parent")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_parent(tmp_path: Path, number: signal.Signals) -> None:
    """Soon, and without output; the same batch then continues at once with what had not finished."""
    folder = tmp_path / "runs"
    with waiting_batch(folder) as (process, workers):
        if number == signal.SIGINT:  # The terminal's interrupt goes to all of them.
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(SOON_S) == (130 if number == signal.SIGINT else -number)
        wait_until(lambda: not any(map(is_alive, workers)), SOON_S)
        assert process.stderr is not None
        told = process.stderr.read().decode()
        assert "Traceback" not in told
        assert told == "" or number != signal.SIGINT
    kept = [json.loads(line) for line in (folder / LINES_NAME).read_text().splitlines()]
    assert [entry.get("index") for entry in kept] == [None, 0]

    ran: list[int] = []

    def work(job: Job) -> RunRecord:
        ran.append(job.index)
        return run_job(job)

    records = run_batch(jobs_of(4, folder), folder, workers=1, work=work)
    assert ran == [1, 2, 3]
    assert [record.final_hash for record in records] == [
        record.final_hash for record in run_many(jobs_of(4), workers=1)
    ]
    assert [record.error for record in records] == [None] * 4
