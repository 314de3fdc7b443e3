"""The command ``replay certify``: verify one tape in many environments, and keep the certificate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from recorder.console.argument_types import Positive
from recorder.console.engine_option import EngineOption, engine_arguments
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, UNREADABLE, UsageError
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, factory_of, ready_tape
from replayer.commands.options import Json, Output, Sim, TapePath
from replayer.diagnose.certify.certificate import (
    CertificateError,
    certificate_of,
    certificate_path,
    keep_certificate,
    outcome_of,
    read_certificate,
    why_not_of,
)
from replayer.diagnose.certify.certify import CellReport, Certification, CertifyError, certify
from replayer.diagnose.certify.matrix import HASH_SEED, HASH_SEED_VARIABLE, PRESENT, REPEAT
from replayer.playback.make_simulation import make_simulation
from replayer.status import STATUS_CODES
from replayer.tape.digest import tape_digest
from replayer.value_text import plain_text, tick_range

FIELDS_SHOWN = 6
_Factor = Literal["hash-seed", "simd", "threads", "blas-kernel"]


def certify_tape(
    tape: TapePath | None = None,
    /,
    *,
    sim: Sim = None,
    python: Annotated[list[str] | None, Parameter(name="--python", negative="")] = None,
    factor: Annotated[list[_Factor] | None, Parameter(name="--factor", negative="")] = None,
    quick: Annotated[bool, Parameter(negative="")] = False,
    jobs: Annotated[Positive | None, Parameter(name=["--jobs", "-j"])] = None,
    engine: EngineOption = None,
    output: Output = None,
    check: Annotated[bool, Parameter(name="--check", negative="")] = False,
    as_json: Json = False,
) -> int:
    """Verify a tape in many environments, name each factor that alone makes a difference, and write a certificate.

    Examples:
    replay certify s3://bucket/run.tape --jobs 2
    replay certify run.tape --python ~/py313/bin/python
    replay certify run.tape --check

    One factor is changed at a time, each in a separate process: the hash seed (order of sets), the SIMD level of NumPy,
    the number of threads, the kernel of OpenBLAS, Python and NumPy. A factor that this machine cannot vary is reported
    as not tested.

    Exit code: 0 the same everywhere, 1 some environment differs (with --check: it did, or the certificate does not
    belong to the tape), 3 the same but not sealed, 4 the same as far as the tape can be read, 5 no tape or no certificate.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    python
        A different interpreter, in whose environment this package is installed; may be given several times.
    factor
        Vary only this factor; may be given several times.
    quick
        Try one level of each factor, the one that is likeliest to differ.
    jobs
        Environments at a time; by default one, and with an engine one for each of its processors.
    output
        The certificate; by default NAME.certificate.json next to the tape, and in this folder for a tape at a URL.
    check
        Run nothing: check that the existing certificate belongs to the tape as it is now.
    as_json
        Print the certificate.
    """
    path = choose(tape)
    kept = output or certificate_path(path)
    if check:
        return _check(path, kept, as_json=as_json)
    with ready_tape(path) as opened:
        make_simulation(
            opened, factory_of(sim)
        )  # An unfit simulation is reported once, before many processes report it.
        digest = tape_digest(path)
    with progress_bar("certifying", 100, quiet=as_json) as show:
        certification = _certify(
            path,
            sim,
            pythons=python or (),
            factors=factor or (),
            quick=quick,
            progress=lambda done, total: show(100 * done // total),
            **engine_arguments(engine, jobs, 1),
        )
    certificate = certificate_of(certification, path, digest)
    keep_certificate(certificate, kept)
    if as_json:
        print_json(certificate | {"path": str(kept)})
    else:
        _print_certification(path, certification)
        print_visible(f"  certificate: {kept}")
    return STATUS_CODES[certification.status] if certification.ok else DIFFERS


def _certify(path: Location, sim: str | None, **settings: Any) -> Certification:
    try:
        return certify(path, sim, **settings)
    except CertifyError as error:
        raise UsageError(f"{path}: {error}") from None


def _print_certification(path: Location, certification: Certification) -> None:
    ran = sum(1 for report in certification.cells if report.result != "not tested" and not report.cell.is_present)
    print_visible(
        f"{path}: {tick_range(certification.first_tick, certification.last_tick)} in {counted(ran, 'environment')}"
    )
    rows = [
        (report.cell.factor, report.cell.level, *_result_words(report, certification.present))
        for report in certification.cells
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for factor, level, result, rest in rows:
        line = f"  {factor:<{widths[0]}}  {level:<{widths[1]}}  {result:<{widths[2]}}  {rest}"
        print_visible(plain_text(line.rstrip()))
    if HASH_SEED in certification.verdicts and os.environ.get(HASH_SEED_VARIABLE, "random") == "random":
        seed = certification.present.cell.changes[HASH_SEED_VARIABLE]
        print_visible(
            f"  {HASH_SEED_VARIABLE} is not set here: fixed to {seed} for the comparison, as each process would draw its own"
        )
    if REPEAT in certification.deciding_factors:
        print_visible(
            "  the same environment gives different states in each run: no factor can be blamed (time? addresses? threads?)"
        )
    elif certification.deciding_factors:
        verb = "makes" if len(certification.deciding_factors) == 1 else "each make"
        print_visible(
            f"  {' and '.join(certification.deciding_factors)}: {verb} a difference alone; no other factor that was tested does"
        )
        if all(report.result != "same" for report in certification.cells):
            print_visible(
                "  none of these environments gives the recorded states: factors are compared with the present environment"
            )
    elif not certification.ok:
        print_visible("  differs from the tape in the same way everywhere: none of these factors is the cause")
    else:
        print_visible(f"  the same everywhere{_AS_FAR[certification.status]}")
    _print_damage(certification.present)
    untested = [factor for factor, verdict in certification.verdicts.items() if verdict == "not tested"]
    if untested:
        print_visible(f"  not tested on this machine: {', '.join(untested)}")


_AS_FAR = {
    "intact": "",
    "incomplete": "; the tape is not sealed",
    "corrupt": ", as far as the tape can be read: it is corrupt",
}


def _print_damage(present: CellReport) -> None:
    """Print the ticks that no environment could verify, and why."""
    for problem in present.problems:
        print_visible(plain_text(f"  {problem}"))
    for first, last in present.unreached_ticks:
        print_visible(f"  not verified anywhere: {tick_range(first, last)}")


def _result_words(report: CellReport, present: CellReport) -> tuple[str, str]:
    """The result of a cell, and the rest of its line."""
    if report.result == "differs":
        where = f"first at tick {report.first_bad:,}" + (f", phase {report.phase}" if report.phase else "")
        if report.fields:
            more = f" and {len(report.fields) - FIELDS_SHOWN} more" if len(report.fields) > FIELDS_SHOWN else ""
            at = "" if report.fields_tick == report.first_bad else f" at the keyframe of tick {report.fields_tick:,}"
            where += f", {'fields' if len(report.fields) > 1 else 'field'} {', '.join(report.fields[:FIELDS_SHOWN])}{more}{at}"
        if report.cell.is_present:
            where += f": {report.why}"
        elif present.result == "differs" and report.cell.factor != PRESENT:
            same = report.outcome == present.outcome
            where += f": {'as in' if same else 'different from'} the present environment"
        return "differs", where
    if report.result == "same":
        if report.cell.is_present:
            return "same", f"({report.why})"
        of_all = f" of {report.tick_count:,}" if report.verified_ticks < report.tick_count else ""
        return "same", f"{report.verified_ticks:,}{of_all} ticks"
    return report.result, report.why or ""


def _check(path: Location, kept: Path, *, as_json: bool) -> int:
    try:
        with reading(path):
            certificate = read_certificate(kept)
            why_not = why_not_of(certificate, path)
    except CertificateError as error:
        raise UsageError(str(error), UNREADABLE) from None
    same, status = outcome_of(certificate)
    if as_json:
        facts: dict[str, Any] = {"path": str(kept), "belongs": why_not is None, "why_not": why_not}
        facts |= {"date": certificate["date"], "status": status, "same_everywhere": same and status != "corrupt"}
        print_json(facts | {"factors": certificate["factors"]})
    elif why_not is not None:
        print_visible(f"{kept}: does not belong to {path}: {plain_text(why_not)}")
    else:
        print_visible(f"{kept}: belongs to {path}; dated {plain_text(certificate['date'])}")
        for factor, verdict in certificate["factors"].items():
            print_visible(plain_text(f"  {factor}: {verdict}"))
        print_visible(f"  the same in every environment that was tried{_AS_FAR[status]}" if same else _NOT_SAME)
    return STATUS_CODES[status] if why_not is None and same else DIFFERS


_NOT_SAME = "  not the same in every environment"
