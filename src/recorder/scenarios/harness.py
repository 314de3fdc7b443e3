"""Run scenarios of other projects: a project describes its scenarios in one object, a HostAdapter.

The factory of the object is named as ``module:factory``, so that each worker process can import it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import attrs

from recorder.factory_spec import load_factory
from recorder.processes.engines.engine import Engine
from recorder.processes.pool import Pool
from recorder.scenarios.batch import Job, RunRecord, failed_record, record_of, run_many
from recorder.scenarios.pass_criteria import check_contracts
from recorder.scenarios.run_scenario import TICKS_BY_DEFAULT, InputsOf, run_with_scenario
from recorder.storage.atomic_file import make_folder
from sim.scenario.middleware.monitors import PropertyFunction
from sim.scenario.results.result import ScenarioResult


@runtime_checkable
class HostAdapter(Protocol):
    """The scenarios of a project."""

    def scenarios(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the tables ``scenario`` by name; each must have ``steps``."""

    def make(self, name: str) -> Any:
        """Make a simulation at tick 0 for the scenario of this name."""

    def inputs(self, name: str) -> InputsOf | None:
        """Return the source of inputs; None for no inputs."""

    def functions(self, name: str) -> Mapping[str, PropertyFunction]:
        """Return the scenario's properties of kind function."""

    def failures(self, name: str, result: ScenarioResult) -> Sequence[str]:
        """Return the failures of a result beyond pass_criteria.py, one sentence each."""


@attrs.frozen
class HostRecord:
    """The result of one scenario of a host: the record of its run, and the failed pass criteria."""

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
    engine: str | Engine | None = None,
    finished: Callable[[RunRecord], None] | None = None,
) -> list[HostRecord]:
    """Run scenarios of a host, by default all, in its order.

    adapter: ``module:factory`` of a HostAdapter, such as its class. tapes: a folder. engine: see run_many.
    Raises ValueError for an unknown factory or scenario, TypeError if the factory does not make a HostAdapter.
    """
    scenarios = _host(adapter).scenarios()
    selected = list(scenarios) if names is None else list(names)
    missing = next((name for name in selected if name not in scenarios), None)
    if missing is not None:
        raise ValueError(f"{adapter} has no scenario {missing}; scenarios: {', '.join(scenarios)}")
    if tapes is not None:
        make_folder(tapes)
    jobs = [
        Job(index, name, "", {}, dict(scenarios[name]), _ticks_of(scenarios[name]), tape=_tape(tapes, name))
        for index, name in enumerate(selected)
    ]
    work = functools.partial(_run_hosted, adapter)
    records = run_many(jobs, workers=workers, executor=executor, pool=pool, engine=engine, finished=finished, work=work)
    return [_with_failures(record) for record in records]


def _ticks_of(scenario: Mapping[str, Any]) -> int:
    """Return the last tick of a scenario; the worker refuses an invalid one."""
    steps = scenario.get("steps")
    return steps - 1 if isinstance(steps, int) else TICKS_BY_DEFAULT


def _tape(folder: Path | None, name: str) -> Path | None:
    return folder / f"{name}.tape" if folder is not None else None


def _host(adapter: str) -> HostAdapter:
    host = load_factory(adapter)()
    if not isinstance(host, HostAdapter):
        raise TypeError(f"{adapter}: expected a HostAdapter, with scenarios, make, inputs, functions and failures")
    return host


def _run_hosted(adapter: str, job: Job) -> RunRecord:
    """Run one scenario in a worker; the record's error holds the failures of the pass criteria, one per line."""
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
    except Exception as error:  # noqa: BLE001 - the host's code: its error is the result of this scenario.
        return failed_record(job, error)
    return attrs.evolve(record_of(job, result, {}), error="\n".join(failures) or None)


def _with_failures(record: RunRecord) -> HostRecord:
    return HostRecord(record, tuple((record.error or "").splitlines()))
