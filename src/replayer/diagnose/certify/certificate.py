"""Keep a certificate next to its tape, and check later that it belongs to it.

A certificate names the tape by its run and by the SHA-256 of its files: it is void as soon as one of their bytes
changes. It is not a signature: anyone who can write the tape can write the certificate.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import attrs

from recorder.location.tape_location import Location
from recorder.storage.atomic_file import write_file
from replayer.diagnose.certify.certify import CellReport, Certification
from replayer.tape.digest import tape_digest
from replayer.tape.tape import Tape

SUFFIX = ".certificate.json"
VERSION = 1
_ENTRIES = ("certificate", "run_id", "sha256", "date", "same_everywhere", "factors", "cells")


class CertificateError(ValueError):
    """The file is not a certificate that this program can read."""


def certificate_path(tape: Location) -> Path:
    """The path of a tape's certificate: next to it, or in the current folder if the tape is at a URL."""
    folder = tape.parent if isinstance(tape, Path) else Path()
    return folder / f"{Path(tape.name).stem}{SUFFIX}"


def certificate_of(certification: Certification, tape: Location, digest: str) -> dict[str, Any]:
    """Return the certificate as plain data. digest: of the tape's files before they were verified."""
    return {
        "certificate": VERSION,
        "tape": tape.name,
        "run_id": certification.run_id,
        "sha256": digest,
        "first_tick": certification.first_tick,
        "last_tick": certification.last_tick,
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "status": certification.status,
        "same_everywhere": certification.ok and certification.status != "corrupt",
        "factors": dict(certification.verdicts),
        "cells": [_plain_cell(report) for report in certification.cells],
    }


def _plain_cell(report: CellReport) -> dict[str, Any]:
    facts = attrs.asdict(report, filter=lambda attribute, _: attribute.name not in ("cell", "field_hashes"))
    cell = report.cell
    return {
        "factor": cell.factor,
        "level": cell.level,
        "environment": dict(cell.changes),
        "python_path": cell.python,
    } | facts


def keep_certificate(certificate: dict[str, Any], path: Path) -> None:
    """Write a certificate atomically. Raises OSError."""
    write_file(path, json.dumps(certificate, indent=1) + "\n", existing="replace")


def read_certificate(path: Path) -> dict[str, Any]:
    """Read a certificate that was kept. Raises OSError, or CertificateError if the file is something else."""
    try:
        loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"{path}: not a certificate: {error}") from None
    match loaded:
        case {
            "certificate": int(version),
            "run_id": str(),
            "sha256": str(),
            "date": str(),
            "same_everywhere": bool(),
            "factors": dict(),
            "cells": [{"status": "intact" | "incomplete" | "corrupt" | None}, *_] as cells,
        } if all(isinstance(cell, dict) and "result" in cell for cell in cells):
            if version != VERSION:
                raise CertificateError(f"{path}: expected a certificate of version {VERSION}, got version {version}")
            return loaded
    raise CertificateError(f"{path}: not a certificate: expected the entries {', '.join(_ENTRIES)}")


def outcome_of(certificate: dict[str, Any]) -> tuple[bool, str]:
    """True if no environment differed, and the status that the tape had: only a part of a damaged tape was compared."""
    results = [cell["result"] for cell in certificate["cells"]]
    return "differs" not in results and "failed" not in results, certificate["cells"][0]["status"] or "intact"


def why_not_of(certificate: dict[str, Any], tape: Location) -> str | None:
    """The reason why a certificate does not belong to a tape as it is now; None if it does. Raises as Tape does."""
    with Tape(tape) as opened:
        run_id = opened.run_id
    if certificate["run_id"] != run_id:
        return f"it is for run {certificate['run_id']}, and the tape is of run {run_id}"
    if certificate["sha256"] != tape_digest(tape):
        return "the tape's files have changed since the certificate was written"
    return None
