"""Progress bars and lines of status, on a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_TERMINAL_NAMES = {
    "FORCE_COLOR",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
}  # Rich takes other streams for terminals by these.
_TIME_WIDTH = 8  # Of TimeRemainingColumn and a blank.


@contextmanager
def progress_bar(label: str, total: int, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on stderr if that is a terminal; yield a function that takes the work done so far."""
    console = None if quiet else _terminal()
    if console is None:
        yield lambda _: None
        return
    from rich.progress import (  # noqa: PLC0415 - only needed on a terminal
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns: list[ProgressColumn] = [TextColumn("{task.description}"), MofNCompleteColumn()]
    room = console.width - len(label) - 2 * len(str(total)) - 3  # Left over by label and numbers.
    if room > _TIME_WIDTH + 4:
        columns.insert(1, BarColumn(min(40, room - _TIME_WIDTH - 1)))
    if room >= _TIME_WIDTH:
        columns.append(TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def status_line(label: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show a line of text that changes on stderr if that is a terminal; yield a function that takes the next text."""
    console = None if quiet else _terminal()
    if console is None:
        yield lambda _: None
        return
    from rich.text import Text  # noqa: PLC0415 - only needed on a terminal

    with console.status(Text(label)) as status:
        yield lambda text: status.update(Text(text, overflow="ellipsis", no_wrap=True))


def _terminal() -> Console | None:
    """The console of stderr if that is a terminal, or the environment says so."""
    stream = sys.stderr
    if stream is None or not (stream.isatty() or _TERMINAL_NAMES & os.environ.keys()):
        return None  # Without rich, which takes long to import.
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    return console if console.is_terminal else None
