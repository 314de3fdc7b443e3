"""Warnings at the user's own line: the innermost one outside of these packages, however deep a warning comes from.

Where no line of the user's led to it, as in a command, none is named. And what several processes of one command have
to say, each a copy of another, is said once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

NOWHERE = "<replay>"  # The file of a warning that no line of the user's led to.

_SOURCES = str(Path(__file__).parents[1])
_OURS = tuple(str(Path(_SOURCES, name, "")) + "/" for name in ("sim", "recorder", "replayer"))
_STANDARD = (str(Path(contextlib.__file__).parent) + "/", "<frozen ")
_INSTALLED = ("/site-packages/", "/dist-packages/")  # Some of them are in the folder of the standard library.
_OF_COMMANDS = ("/cyclopts/", "/bin/replay", "/bin/record", "/simulation_flight_recorder.py")
_SAID_BYTES, _SUM_BYTES = 4096, 4  # Further messages are repeated.
_of_nowhere: dict[Any, Any] = {}  # What the interpreter has shown already.
_said: int | None = None  # A file in memory to lock, with the sums of the messages: the copies of the process share it.


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's program that led here. Raises the warning where a filter makes it an error."""
    frame = _user_frame()
    if frame is None:
        if not _is_said(message):
            warnings.warn_explicit(message, category, NOWHERE, 1, "replayer", _of_nowhere)
        return
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__") or "<string>",  # As warnings.warn has it; with None nothing would be shown.
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


@contextlib.contextmanager
def said_once() -> Iterator[None]:
    """Within it, this process and its copies say once what no line of the user's led to, without a place."""
    global _said  # noqa: PLW0603 - the copies of the process have it, too
    before, shown = _said, warnings.showwarning
    _said = file = os.memfd_create("said")
    _of_nowhere.clear()

    def show(text: Any, category: type[Warning], filename: str, *place: Any, **options: Any) -> None:
        if filename == NOWHERE and sys.stderr is not None:
            sys.stderr.write(f"warning: {text}\n")
        else:
            shown(text, category, filename, *place, **options)

    warnings.showwarning = show  # type: ignore[assignment]
    try:
        yield
    finally:
        _said = before
        os.close(file)
        if warnings.showwarning is show:
            warnings.showwarning = shown


def _is_said(message: str) -> bool:
    """Note a message; return True if this process or a copy has noted it before."""
    if _said is None:
        return False
    one = (zlib.crc32(message.encode(errors="replace")) or 1).to_bytes(_SUM_BYTES, "little")
    fcntl.lockf(_said, fcntl.LOCK_EX)  # Two copies may have the same to say at once.
    try:
        sums = os.pread(_said, _SAID_BYTES, 0)
        if one in (sums[start : start + _SUM_BYTES] for start in range(0, len(sums), _SUM_BYTES)):
            return True
        if len(sums) < _SAID_BYTES:
            os.pwrite(_said, one, len(sums))
    finally:
        fcntl.lockf(_said, fcntl.LOCK_UN)
    return False


def _user_frame() -> FrameType | None:
    """The innermost frame of a user's file; None if there is none."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - inspect.stack reads source files
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _is_ours(file: str) -> bool:
    """Return True for a file of these packages, of the standard library or of what runs the commands."""
    if file.startswith(_OURS) or file.endswith(_OF_COMMANDS[1:]) or _OF_COMMANDS[0] in file:
        return True
    return file.startswith(_STANDARD) and not any(folder in file for folder in _INSTALLED)
