"""Scenarios of other projects: a project says in one object what it has, and all of it runs here, one or many.

What makes that object is named as ``module:factory``, so that each worker process can import it by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import attrs

from recorder.factory_spec import load_factory
from recorder.processes.pool import Pool
from recorder.scenarios.batch import Job, RunRecord, failed_record, record_of, run_many
from recorder.scenarios.pass_criteria import check_contracts
from recorder.scenarios.run_scenario import TICKS_BY_DEFAULT, InputsOf, run_with_scenario
from sim.scenario.middleware.monitors import PropertyFunction
from sim.scenario.results.result import ScenarioResult


@runtime_checkable
class HostAdapter(Protocol):
    """What a project says of its scenarios."""

    def scenarios(self) -> Mapping[str, Mapping[str, Any]]:
        """By name what stands under ``scenario`` in a file; ``steps`` must be there."""

    def make(self, name: str) -> Any:
        """A simulation at tick 0 for the scenario of this name."""

    def inputs(self, name: str) -> InputsOf | None:
        """What it is fed with; None if with nothing."""

    def functions(self, name: str) -> Mapping[str, PropertyFunction]:
        """Its properties of kind function."""

    def failures(self, name: str, result: ScenarioResult) -> Sequence[str]:
        """What is wrong with a result beyond pass_criteria.py, a sentence each."""


@attrs.frozen
class HostRecord:
    """What became of one scenario of a host: the run, and what its contracts say."""

    record: RunRecord
    failures: tuple[str, ...]


def run_harness(
    adapter: str,
    *,
    names: Sequence[str] | None = None,
    tapes: Path | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    pool: Pool | None = None,
    finished: Callable[[RunRecord], None] | None = None,
) -> list[HostRecord]:
    """Run scenarios of a host, all by default, in the order in which it names them.

    adapter: ``module:factory`` of what makes a HostAdapter, such as its class. tapes: a folder.
    Raises ValueError if there is no such thing or no scenario of a name, TypeError if it makes something else.
    """
    known = _host(adapter).scenarios()
    wanted = list(known) if names is None else list(names)
    missing = next((name for name in wanted if name not in known), None)
    if missing is not None:
        raise ValueError(f"{adapter} has no scenario {missing}; scenarios: {', '.join(known)}")
    if tapes is not None:
        tapes.mkdir(parents=True, exist_ok=True)
    jobs = [
        Job(index, name, "", {}, dict(known[name]), _ticks_of(known[name]), tape=_tape(tapes, name))
        for index, name in enumerate(wanted)
    ]
    work = functools.partial(_run_hosted, adapter)
    records = run_many(jobs, workers=workers, executor=executor, pool=pool, finished=finished, work=work)
    return [_with_failures(record) for record in records]


def _ticks_of(scenario: Mapping[str, Any]) -> int:
    """How far a scenario is to be run; one with a mistake in it is refused in the worker."""
    steps = scenario.get("steps")
    return steps - 1 if isinstance(steps, int) else TICKS_BY_DEFAULT


def _tape(folder: Path | None, name: str) -> Path | None:
    return folder / f"{name}.tape" if folder is not None else None


def _host(adapter: str) -> HostAdapter:
    host = load_factory(adapter)()
    if not isinstance(host, HostAdapter):
        raise TypeError(f"{adapter} makes no HostAdapter: it needs scenarios, make, inputs, functions and failures")
    return host


def _run_hosted(adapter: str, job: Job) -> RunRecord:
    """In the worker: one scenario, its contracts' failures in the record's error, each in its line."""
    try:
        host = _host(adapter)
        result = run_with_scenario(
            host.make(job.name),
            job.scenario or {},
            inputs=host.inputs(job.name),
            tape=job.tape,
            functions=host.functions(job.name),
        )
        failures = [*check_contracts(result).failures, *host.failures(job.name, result)]
    except Exception as error:  # noqa: BLE001 - the host's code; its mistake is this scenario's result.
        return failed_record(job, error)
    return attrs.evolve(record_of(job, result, {}), error="\n".join(failures) or None)


def _with_failures(record: RunRecord) -> HostRecord:
    return HostRecord(record, tuple((record.error or "").splitlines()))
