"""Progress bars, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

_TIME_WIDTH = 8  # Of what TimeRemainingColumn shows, and a blank.


@contextmanager
def progress_bar(label: str, total: int, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr if that is a terminal; gives a function that takes how far the work is."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import (  # noqa: PLC0415 - only where there is somebody to see it
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns: list[ProgressColumn] = [TextColumn("{task.description}"), MofNCompleteColumn()]
    room = console.width - len(label) - 2 * len(str(total)) - 3  # What label and numbers leave for the rest.
    if room > _TIME_WIDTH + 4:
        columns.insert(1, BarColumn(min(40, room - _TIME_WIDTH - 1)))
    if room >= _TIME_WIDTH:
        columns.append(TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)
