"""Verify one tape in many environments and name each factor that alone makes a difference.

Every cell of the matrix is a separate process (cell_process.py), started with changed environment variables or a
different Python. The cells of a factor are compared with the present environment, not with the tape. So a factor is
named even where the present environment differs from that of the tape. No other factor is blamed for that difference.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, Literal

import attrs

from recorder.location.tape_location import Location, tape_location
from recorder.location.tape_url import TapeUrl
from recorder.processes.engines.engine import Engine, engine_pool
from recorder.processes.interpreter import PythonProcess, end_all, finish, module_program, start_python
from recorder.processes.pool import Pool, Report, results_in_order
from replayer.desync.object_diff import GRAPH_PREFIX, shown_fields
from replayer.diagnose.certify.arithmetic import describe_arithmetic
from replayer.diagnose.certify.matrix import (
    BLAS_KERNEL,
    FROM_STDIN,
    PRESENT,
    PYTHON,
    REPEAT,
    SIMD,
    Cell,
    make_matrix,
    present_cell,
    repeat_cell,
)
from replayer.tape.tape import Tape

Result = Literal["same", "differs", "failed", "not tested"]
Verdict = Literal["no difference", "makes the difference", "not tested", "cannot be judged"]
Progress = Callable[[int, int], None]  # Cells done, total number of cells.

_INTERRUPT_TIMEOUT_S = 5.0  # Time for an interrupted process to end its own workers.


class CertifyError(RuntimeError):
    """The present environment cannot replay the tape at all: there is nothing to compare."""


@attrs.frozen
class CellReport:
    """The result of one cell.

    Attributes:
        cell: the environment that was tried.
        result: compared with the tape.
        why: the reason for "failed" and "not tested", or a note on a difference; None if there is neither.
        status: of the tape; None if it was not read.
        verified_ticks, tick_count: ticks that are the same as on the tape, and ticks on the tape.
        first_bad: the first tick that differs from the tape; None if none does.
        fields: the fields that are known to differ there.
        fields_tick: the tick at which they were compared: the first bad tick itself, or the next keyframe.
        phase: the first phase after which the state differs, if the tape has hashes of phases.
        outcome: equal for environments that compute alike, tick by tick, even if they disagree with the tape.
        arithmetic: the libraries and features that the process reported; None if it died before.
        seconds: the duration.
        problems: damage of the tape.
        unreached_ticks: the first and last tick of each range that could not be verified.
    """

    cell: Cell
    result: Result
    why: str | None = None
    status: str | None = None
    verified_ticks: int = 0
    tick_count: int = 0
    first_bad: int | None = None
    fields: list[str] = attrs.field(factory=list)
    fields_tick: int | None = None
    phase: str | None = None
    outcome: str | None = None
    arithmetic: dict[str, Any] | None = None
    seconds: float = 0.0
    problems: list[str] = attrs.field(factory=list)
    unreached_ticks: list[list[int]] = attrs.field(factory=list)
    field_hashes: dict[str, str] = attrs.field(factory=dict, repr=False)


@attrs.frozen
class Certification:
    """The result of the complete matrix.

    Attributes:
        run_id: of the tape.
        first_tick, last_tick: of the tape.
        present: the present environment's report.
        cells: the reports of all cells, the present one first.
        verdicts: by factor.
    """

    run_id: str
    first_tick: int
    last_tick: int
    present: CellReport
    cells: list[CellReport]
    verdicts: dict[str, Verdict]

    @property
    def ok(self) -> bool:
        """Every environment that could be tried gave the recorded hash at every tick that can be verified."""
        return all(report.result in ("same", "not tested") for report in self.cells)

    @property
    def status(self) -> str:
        """The status of the tape; "intact" as well if no environment could read it."""
        return self.present.status or "intact"

    @property
    def deciding_factors(self) -> list[str]:
        """The factors that make a difference alone."""
        return [factor for factor, verdict in self.verdicts.items() if verdict == "makes the difference"]


def certify(
    path: str | os.PathLike[str],
    sim: str | None = None,
    *,
    pythons: Sequence[str] = (),
    factors: Sequence[str] = (),
    quick: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
    engine: str | Engine | None = None,
) -> Certification:
    """Verify a tape in every environment of the matrix that this machine can provide.

    path: of the tape, or its URL, which each environment reads. sim: module:factory as on the command line, because other
    processes import it; None for a registered world. pythons: other interpreters, in whose environments this package is installed. factors: keys of matrix.FACTORS.
    jobs: the number of processes at a time. engine: "ray", "ray:ADDRESS" or a RayEngine starts them on its machines; an environment
    on a machine that computes with other libraries or features than this one is not tested.

    Raises as Tape does on opening, EngineError, MissingTickError if the tape has no state, CertifyError if the present environment
    cannot replay the tape (no such world, a step that raises everywhere).
    """
    with Tape(path) as tape:
        recorded = tape.meta.get("environment")
        recorded = recorded if isinstance(recorded, dict) else {}
        run_id, first_tick, last_tick = tape.run_id, tape.first_tick, tape.last_tick
    present = present_cell(recorded)
    cells = make_matrix(present, describe_arithmetic(), recorded, pythons=pythons, factors=factors, quick=quick)
    location = tape_location(path).absolute()
    runner = _Runner(location, sim)
    with engine_pool(engine, jobs if jobs > 1 else None) as pool:
        try:
            to_run = [present, *(cell for cell in cells if cell.why_not is None and not cell.is_present)]
            done = []
            for report in _run_here(runner, to_run, jobs) if pool is None else _run_in(pool, location, sim, to_run):
                done.append(report)
                if progress is not None:
                    progress(len(done), len(to_run))
            base = done[0]
            reports = _in_order(cells, base, {id(cell): report for cell, report in zip(to_run, done, strict=True)})
            _ensure_replayable(base, reports)
            if base.result != "same" or any(report.outcome != base.outcome for report in _tested(reports)):
                reports.insert(0, runner.verify(repeat_cell(present)))
            reports = [runner.with_exact_fields(report, base) for report in reports]
        except BaseException:
            runner.end()
            raise
    verdicts = _judge(base, reports)
    return Certification(run_id, first_tick, last_tick, base, [base, *reports], verdicts)


def _run_here(runner: _Runner, cells: Sequence[Cell], jobs: int) -> Iterator[CellReport]:
    """Yield the reports of cells in their order, from processes of this machine."""
    with ThreadPoolExecutor(jobs) as threads:
        try:
            yield from threads.map(runner.verify, cells)
        except BaseException:
            runner.end()
            raise


def _run_in(pool: Pool, path: Location, sim: str | None, cells: Sequence[Cell]) -> Iterator[CellReport]:
    """Yield the reports of cells in their order, from a pool."""
    work = partial(_verify_there, path, sim, attrs.asdict(describe_arithmetic()))
    return results_in_order(pool, work, cells, name=lambda cell: f"verified with {cell.factor} {cell.level}")


def _verify_there(path: Location, sim: str | None, expected: dict[str, Any], cell: Cell, _: Report) -> CellReport:
    """In a worker: verify the tape in the environment of a cell, if the machine computes as the one that asks."""
    actual = attrs.asdict(describe_arithmetic())
    name = next((name for name in expected if actual[name] != expected[name]), None)
    if name is not None:
        why = f"the machine {socket.gethostname()} of the engine computes with another {name.replace('_', ' ')}"
        return CellReport(cell, "not tested", why)
    return _Runner(path, sim).verify(cell)


def _in_order(cells: list[Cell], base: CellReport, ran: dict[int, CellReport]) -> list[CellReport]:
    reports = []
    for cell in cells:
        if cell.why_not is not None:
            reports.append(CellReport(cell, "not tested", cell.why_not))
        elif cell.is_present:
            reports.append(attrs.evolve(base, cell=cell, why="this is the present environment", seconds=0.0))
        else:
            reports.append(_name_versions(_ensure_effect(ran[id(cell)], base), base))
    return reports


def _name_versions(report: CellReport, base: CellReport) -> CellReport:
    """Name the factor of a different interpreter: it may change Python, NumPy or both."""
    if report.cell.factor != PYTHON or report.arithmetic is None or base.arithmetic is None:
        return report
    versions = [f"{report.arithmetic['python']}", f"NumPy {report.arithmetic['numpy']}"]
    factor = PYTHON
    if report.arithmetic["numpy"] == base.arithmetic["numpy"]:
        factor = "Python"
    elif report.arithmetic["python"] == base.arithmetic["python"]:
        factor = "NumPy"
    return attrs.evolve(report, cell=attrs.evolve(report.cell, factor=factor, level=", ".join(versions)))


def _ensure_effect(report: CellReport, base: CellReport) -> CellReport:
    """Return "not tested" if the process reports that it computed with the same features as the present environment."""
    kind = {SIMD: "simd", BLAS_KERNEL: "blas_kernel"}.get(report.cell.factor)
    if kind is None or report.arithmetic is None or base.arithmetic is None:
        return report
    used = report.arithmetic[kind]
    if used != base.arithmetic[kind]:
        return report
    shown = (" ".join(used) if isinstance(used, list) else used) or "nothing"
    return CellReport(
        report.cell, "not tested", f"no effect: the process still uses {shown}", arithmetic=report.arithmetic
    )


def _tested(reports: list[CellReport]) -> list[CellReport]:
    return [report for report in reports if report.result != "not tested" and not report.cell.is_present]


def _ensure_replayable(base: CellReport, reports: list[CellReport]) -> None:
    if base.result == "not tested":
        raise CertifyError(base.why or "the present environment cannot replay the tape")
    if base.result == "failed" and all(report.outcome == base.outcome for report in _tested(reports)):
        raise CertifyError(base.why or "the simulation raises in every environment")


def _judge(base: CellReport, reports: list[CellReport]) -> dict[str, Verdict]:
    stable = all(report.outcome == base.outcome for report in reports if report.cell.factor == REPEAT)
    verdicts: dict[str, Verdict] = {}
    for factor in dict.fromkeys(report.cell.factor for report in reports):
        mine = [report for report in _tested(reports) if report.cell.factor == factor]
        if factor == REPEAT:
            verdicts[factor] = "no difference" if stable else "makes the difference"
        elif not mine:
            verdicts[factor] = "not tested"
        elif not stable:
            verdicts[factor] = "cannot be judged"
        elif all(report.outcome == base.outcome for report in mine):
            verdicts[factor] = "no difference"
        else:
            verdicts[factor] = "makes the difference"
    return verdicts


class _Runner:
    """Starts the processes of the cells, and ends them if the certification is stopped."""

    def __init__(self, path: Location, sim: str | None) -> None:
        self._url = path if isinstance(path, TapeUrl) else None
        self._arguments = [FROM_STDIN if self._url is not None else str(path), sim or ""]
        self._running: set[PythonProcess] = set()
        self._ended = False
        self._field_hashes: dict[int, dict[str, str]] = {}

    def verify(self, cell: Cell) -> CellReport:
        """Verify the tape in the environment of a cell."""
        start_s = time.perf_counter()
        code, facts, last_line = self._run(cell)
        seconds = round(time.perf_counter() - start_s, 3)
        if facts is None:
            return _died(cell, code, last_line, seconds)
        arithmetic = facts["arithmetic"]
        if "unfit" in facts:
            return CellReport(cell, "not tested", facts["unfit"], arithmetic=arithmetic, seconds=seconds)
        if "failed" in facts:
            return CellReport(
                cell,
                "failed",
                facts["failed"],
                first_bad=facts["first_bad"],
                outcome=facts["outcome"],
                arithmetic=arithmetic,
                seconds=seconds,
            )
        exact = facts["bad_fields"] or []  # By the per-field hashes of the tape's frame.
        if facts["compared_fields"] and any(name.startswith(GRAPH_PREFIX) for name in exact):
            exact = []  # The paths of values in objects, at the next keyframe, tell more.
        return CellReport(
            cell,
            "same" if facts["first_bad"] is None else "differs",
            facts["note"],
            facts["status"],
            facts["verified_ticks"],
            facts["tick_count"],
            facts["first_bad"],
            shown_fields(exact) or facts["compared_fields"],
            facts["first_bad"] if exact else facts["compared_tick"],
            facts["phase"],
            facts["outcome"],
            arithmetic,
            seconds,
            facts["problems"],
            facts["unreached_ticks"],
            facts["field_hashes"],
        )

    def with_exact_fields(self, report: CellReport, base: CellReport) -> CellReport:
        """Return the report with the fields that differ at the first bad tick, if the present environment can reach it.

        This is for a tape without per-field hashes, which has one hash of that tick. The present environment gives the
        values of the tick, proved by that hash.
        """
        tick = report.first_bad
        if report.result != "differs" or base.result != "same" or tick is None or report.fields_tick == tick:
            return report
        if tick not in self._field_hashes:
            _, facts, _ = self._run(base.cell, str(tick))
            self._field_hashes[tick] = (facts or {}).get("field_hashes", {})
        expected = self._field_hashes[tick]
        fields = [name for name, actual in report.field_hashes.items() if expected.get(name, actual) != actual]
        if not fields or (report.fields and any(name.startswith(GRAPH_PREFIX) for name in fields)):
            return report
        return attrs.evolve(report, fields=shown_fields(fields), fields_tick=tick)

    def end(self) -> None:
        """End the running processes: by an interrupt first, after which a process can end its own workers."""
        self._ended = True
        end_all(list(self._running), _INTERRUPT_TIMEOUT_S)

    def _run(self, cell: Cell, *more: str) -> tuple[int, dict[str, Any] | None, str]:
        """Return the exit code, the facts that the process printed or None, and its last line on stderr."""
        if self._ended:
            raise RuntimeError("the certification was stopped")
        program = module_program("replayer.diagnose.certify.cell_process", [*self._arguments, *more])
        try:
            process = start_python(program, interpreter=cell.python, environment=cell.changes)
        except OSError as error:
            return 127, None, f"{cell.python}: {error.strerror}"
        self._running.add(process)
        if self._ended:
            process.kill()  # It was stopped while this process was being started.
        try:
            finished = finish(process, bytes(ForkingPickler.dumps(self._url)) if self._url is not None else None)
        finally:
            self._running.discard(process)
        try:
            facts = json.loads(finished.output) if finished.exit_code == 0 else None
        except ValueError:
            facts = None
        return finished.exit_code, facts, finished.last_words or "it printed no message"


def _died(cell: Cell, code: int, last_line: str, seconds: float) -> CellReport:
    """Report a process without a result: not tested if it could not start or lacks an instruction, else failed."""
    if code == -signal.SIGILL and cell.factor in (BLAS_KERNEL, SIMD):
        return CellReport(cell, "not tested", "this processor cannot run it (illegal instruction)", seconds=seconds)
    if code < 0:
        why = f"the process was ended by {signal.Signals(-code).name}"
        return CellReport(cell, "failed", why, outcome=why, seconds=seconds)
    if cell.factor in (PYTHON, PRESENT):
        return CellReport(cell, "not tested", last_line, seconds=seconds)
    return CellReport(cell, "failed", last_line, outcome=last_line, seconds=seconds)
