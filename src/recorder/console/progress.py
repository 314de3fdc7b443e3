"""Progress bars and lines of status, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

_TIME_WIDTH = 8  # Of TimeRemainingColumn and a blank.


@contextmanager
def progress_bar(label: str, total: int, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on stderr if that is a terminal; yield a function that takes the work done so far."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
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
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text(label)) as status:
        yield lambda text: status.update(Text(text, overflow="ellipsis", no_wrap=True))
