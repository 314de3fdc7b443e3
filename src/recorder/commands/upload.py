"""The command ``record upload``: send a tape to a URL, also while it is recorded; and the same beside ``record run``."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter, Token

from recorder.console.argument_types import LocalPath
from recorder.console.output import print_json, say, say_on_stderr
from recorder.exit_codes import INCOMPLETE, SAME, UsageError
from recorder.location.tape_location import tape_location
from recorder.location.tape_url import TapeUrl, is_url
from recorder.processes.interpreter import module_program, start_python, with_module_path
from recorder.storage.open_tape import is_locked
from recorder.storage.os_errors import reading
from recorder.storage.remote.uploads import ensure_url_is_free
from recorder.text import bytes_text, counted
from recorder.upload.tape_upload import TapeUpload, UploadReport

PROGRAM = "recorder"
RECORDED_NICE = 10  # Of an upload beside a recording.


def to_url(_: object, tokens: object) -> TapeUrl:
    """Convert an argument to a URL. Raises ValueError for a path."""
    assert isinstance(tokens, tuple | list)
    token = tokens[0]
    assert isinstance(token, Token)
    found = tape_location(token.value)
    if not isinstance(found, TapeUrl):
        why = (
            f"{found} is on this machine: copy the tape, with all its files"
            if is_url(token.value)
            else "this is a path"
        )
        raise ValueError(f"expected a URL such as s3://bucket/run.tape, got {token.value!r}; {why}.")  # noqa: TRY004 - as cyclopts expects
    return found


Url = Annotated[TapeUrl, Parameter(converter=to_url, accepts_keys=False, n_tokens=1)]
Upload = Annotated[
    Url | None,
    Parameter(
        help="Send each finished file of the tape to this URL during the run, and the rest after it; see --split."
    ),
]


def upload(
    tape: LocalPath,
    url: Url,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Upload a tape to a URL; if it is being recorded, each file as soon as it is finished.

    Examples:
    record upload run.tape s3://bucket/runs/run.tape
    record run quiet-meadow --split 100MB -o run.tape --upload s3://bucket/runs/run.tape

    What is there already is not sent again: the same command continues an upload
    that was stopped, and adds what record resume has added to the tape.

    Exit code: 0 all of the run is there, 2 another tape is there, 3 the tape was not
    closed, and what it has is there.

    Parameters
    ----------
    tape
        The tape.
    url
        The URL of the copy.
    as_json
        Print one JSON object.
    """
    with reading(tape):
        if is_locked(tape):
            os.nice(RECORDED_NICE)  # The recording comes first where no processor is free.
        report = TapeUpload(tape, url).follow()
    if as_json:
        print_json(attrs.asdict(report, recurse=False) | {"url": str(report.url)})
    else:
        say(_line(report, tape))
    return SAME if report.is_whole else INCOMPLETE


def _line(report: UploadReport, tape: Path) -> str:
    sent = f"{counted(report.uploaded, 'file')} of {report.files:,} sent, {bytes_text(report.size_bytes)} in all"
    end = "" if report.is_whole else f"; the run was not closed: record resume {tape}, then upload it again"
    return f"uploaded to {report.url}: {sent}{end}"


def ensure_upload(url: TapeUrl | None, keep: object) -> None:
    """Report what an upload cannot do before the run begins. Raises UsageError, and as uploads do."""
    if url is None:
        return
    if keep is not None:
        raise UsageError("--upload sends every file, and --keep removes old ones: choose one of them")
    with reading(url):
        ensure_url_is_free(url)


@contextlib.contextmanager
def upload_beside(tape: Path, url: TapeUrl | None, *, quiet: bool = False) -> Iterator[None]:
    """Upload a tape by another process while it is recorded; at the end, wait for it and print its line, unless quiet.

    If this process is killed, the other one sends what there is and ends. A failed upload does not fail the run.
    """
    if url is None:
        yield
        return
    process = start_python(
        module_program(PROGRAM, ["upload", str(tape), url.text]),
        environment=with_module_path(),
        stdin=subprocess.DEVNULL,
        stderr=sys.stderr.fileno(),
        is_own_session=True,  # Ctrl-C ends the recording first.
    )
    try:
        yield
    finally:
        assert process.stdout is not None
        with process.stdout:
            line = process.stdout.read().decode(errors="replace").strip()
        if process.wait() not in (SAME, INCOMPLETE):
            say_on_stderr(f"warning: not all of the tape is uploaded: continue it with: record upload {tape} {url}")
        elif line and not quiet:
            say(line)
