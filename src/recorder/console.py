"""What both commands share: one line for a mistake, the exit codes, progress bars on a terminal.

Exit codes: 0 the same, intact; 1 differs (desync); 2 usage; 3 incomplete; 4 corrupt; 5 unreadable; 130 interrupted; 143 terminated.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter, Token
from cyclopts.validators import Number
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from recorder.errors import (
    CorruptError,
    DesyncError,
    MissingTickError,
    RecordingError,
    TornError,
    UnreadableError,
    UnsupportedVersionError,
    WriterFailedError,
)
from sim.kernel.registry import ConfigError, UnknownWorldError

SAME, DIFFERS, USAGE, INCOMPLETE, CORRUPT, UNREADABLE, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 5, 130, 143


def version() -> str:
    """Of this program, as it is installed."""
    return metadata.version("simulation-flight-recorder")


class UsageError(ValueError):
    """Something that a command was asked for cannot be; the message is the one line that is shown.

    Attributes:
        code: the exit code.
    """

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (DesyncError, DIFFERS),
    (MissingTickError, USAGE),
    (TornError, INCOMPLETE),
    (WriterFailedError, INCOMPLETE),
    (CorruptError, CORRUPT),
    (UnreadableError, UNREADABLE),
    (UnsupportedVersionError, UNREADABLE),
    (ConfigError, USAGE),
    (UnknownWorldError, USAGE),
    (CycloptsError, USAGE),
    (OSError, USAGE),
    (UsageError, USAGE),
    (RecordingError, USAGE),
)


def run_app(
    app: App,
    arguments: Sequence[str] | None,
    on_error: Callable[[BaseException, str, int], None] | None = None,
    unnamed: str | None = None,
) -> int:
    """Run a command line and return its exit code; a user's mistake gives one line on stderr and no traceback.

    on_error: called with the mistake, that line and the exit code, to say it in another way, too.
    unnamed: what the system means where it refuses something and does not say what. Any other exception is a defect, ours or the simulation's, and keeps its traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A terminal without × or → gets a ? and no traceback.
    try:
        result = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        _flush_output()
        return result if isinstance(result, int) else SAME
    except KeyboardInterrupt:
        _show("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # The reader of our output went away, as `| head` does: nothing is left to be said.
        return SAME
    except (RecordingError, ConfigError, UnknownWorldError, UsageError, CycloptsError, OSError) as error:
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            error.filename = unnamed
            with contextlib.suppress(OSError):
                _flush_output()  # If it was the output, that fails again, and Python's own last try is spared.
        line, code = _one_line(error), _code_of(error)
        _show(line)
        if on_error is not None:
            with contextlib.suppress(OSError):
                on_error(error, line, code)
                _flush_output()
        return code


def _code_of(error: BaseException) -> int:
    if isinstance(error, UsageError):
        return error.code
    if isinstance(error, MissingTickError) and error.damaged:
        return CORRUPT
    return next(code for kind, code in _CODES if isinstance(error, kind))


def _flush_output() -> None:
    """Write what print has gathered while errors can still be told. Raises OSError that names the standard output."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise OSError(error.errno, error.strerror, "standard output") from None


def _drop_output() -> None:
    """Let what is still in print's buffer go nowhere: Python would try to write it once more at its end, and complain."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # It is no file that could be replaced.


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, UnknownWorldError | OSError):
        return str(error.args[0]) if error.args else type(error).__name__
    return " ".join(str(error).split()) or type(error).__name__


def _show(line: str) -> None:
    print(f"error: {line}", file=sys.stderr)


def whole_number(_: type, tokens: Sequence[Token]) -> int:
    """A command's number, written as one: 5.5 is refused instead of rounded."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"a whole number was expected, found {tokens[0].value!r}.") from None


Positive = Annotated[int, Parameter(converter=whole_number, validator=Number(gte=1))]
NotNegative = Annotated[int, Parameter(converter=whole_number, validator=Number(gte=0))]
Whole = Annotated[int, Parameter(converter=whole_number)]


_TIME_WIDTH = 8  # Of what TimeRemainingColumn shows, and a blank.


@contextmanager
def progress_bar(label: str, total: int, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr if that is a terminal; gives a function that takes how far the work is."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    columns: list[ProgressColumn] = [TextColumn("{task.description}"), MofNCompleteColumn()]
    room = console.width - len(label) - 2 * len(str(total)) - 3  # What label and numbers leave for the rest.
    if room > _TIME_WIDTH + 4:
        columns.insert(1, BarColumn(min(40, room - _TIME_WIDTH - 1)))
    if room >= _TIME_WIDTH:
        columns.append(TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)


def bytes_text(size_bytes: float) -> str:
    """A size for people, in decimal units: 1.5 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size_bytes < 1000 or unit == "GB":
            return f"{size_bytes:.0f} {unit}" if unit == "bytes" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    raise AssertionError("the loop returns for GB")
