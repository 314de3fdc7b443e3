"""The command ``replay tail``: follow a recording while it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from recorder.console.argument_types import NotNegative
from recorder.console.broken_pipes import ensure_reader
from recorder.console.output import print_result
from recorder.exit_codes import CORRUPT, SAME
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from replayer.commands.arguments import newest_tape
from replayer.commands.options import Json, TapePath
from replayer.follow.idle_wait import Waiting
from replayer.follow.tail import Tail
from replayer.follow.url_tail import UrlTail
from replayer.report.tail_text import tail_lines
from replayer.status import STATUS_CODES
from replayer.tape.tape import Tape


def tail(
    tape: TapePath | None = None,
    /,
    *,
    last: Annotated[NotNegative, Parameter(name=["--last", "-n"])] = 10,
    follow: bool = True,
    as_json: Json = False,
) -> int:
    """Follow a recording while it is written, one line per tick.

    Examples:
    replay tail run.tape --last 3
    replay tail s3://bucket/runs/run.tape

    It ends when the recording is closed or Ctrl-C is pressed. If the process that
    records dies, the tail waits until the recording is resumed. Only complete
    blocks are shown, so a tick appears up to a second after it happened. At a URL
    the files of a tape appear one by one, each when the next one has begun.

    Exit code: 0 the recording was closed or Ctrl-C was pressed, 5 not a tape.
    With --no-follow as replay info: 0 intact, 3 incomplete, 4 corrupt.

    Parameters
    ----------
    tape
        The tape, a path or a URL; by default the newest in recordings/.
    last
        Begin with the last N ticks that are there already.
    follow
        With --no-follow, stop after the ticks that are there now.
    as_json
        Print one JSON object per line.
    """
    path = tape or newest_tape()
    if not follow:
        with reading(path), Tape(path) as opened:
            code = CORRUPT if opened.check_blocks() else STATUS_CODES[opened.status]
    with _tail_of(path) as followed:
        lines = tail_lines(followed, last, follow=follow, as_json=as_json, wait=Waiting(path))
        try:
            while True:
                with reading(path):
                    line = next(lines, None)
                if line is None:
                    return code if not follow else SAME
                print_result(line)
                ensure_reader()
        except KeyboardInterrupt:
            return SAME  # Ctrl-C is the normal way to end a tail.


def _tail_of(path: Location) -> Tail | UrlTail:
    with reading(path):
        return Tail(path) if isinstance(path, Path) else UrlTail(path)
