"""What both commands share: one line for a mistake, the exit codes, progress bars on a terminal.

Exit codes: 0 the same, intact; 1 differs (desync); 2 usage; 3 incomplete; 4 corrupt; 5 unreadable; 130 interrupted; 143 terminated.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated, TextIO

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, Token
from cyclopts.exceptions import ConsumeMultipleError, UnusedCliTokensError
from cyclopts.validators import Number
from rich.console import Console

from recorder.console.broken_pipes import patient_streams
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

WHOLE_MAX = (1 << 63) - 1  # What a tape's numbers hold, a seed's included.
WHOLE_CHARS_MAX = 100  # Python refuses to read the longest ones, and says so in words of its own.

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


OnError = Callable[[BaseException, str, int], None]  # The mistake, its line, the exit code.


def run_app(
    app: App,
    arguments: Sequence[str] | None,
    on_error: OnError | None = None,
    unnamed: str | None = None,
) -> int:
    """Run a command line and return its exit code; a user's mistake gives one line on stderr and no traceback.

    on_error: called with the mistake, that line and the exit code, to say it in another way, too.
    unnamed: what the system means where it refuses something and does not say what.
    Any other exception is a defect, ours or the simulation's, and keeps its traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A terminal without × or → gets a ? and no traceback.
    code = SAME
    try:
        with patient_streams():
            code = _run(app, arguments, on_error, unnamed)
            if sys.stdout is not None:
                sys.stdout.flush()  # Now, and not when the interpreter ends, which has lines of its own for a failure.
    except BrokenPipeError:  # Whoever follows something for ever ends with its reader.
        _silence(sys.stdout)
        _silence(sys.stderr)
    except OSError as error:
        code = USAGE
        _silence(sys.stdout)
        _show(_one_line(OSError(error.errno, error.strerror, "standard output")))
    return code


def _run(app: App, arguments: Sequence[str] | None, on_error: OnError | None, unnamed: str | None) -> int:
    try:
        result = app(
            arguments, exit_on_error=False, print_error=False, result_action="return_value", console=_PipeConsole()
        )
        return result if isinstance(result, int) else SAME
    except KeyboardInterrupt:
        _show("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (RecordingError, ConfigError, UnknownWorldError, UsageError, CycloptsError, OSError) as error:
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            error.filename = _culprit(unnamed)
        line, code = _one_line(error), _code_of(error)
        _show(line)
        if on_error is not None:
            try:
                on_error(error, line, code)
                sys.stdout.flush()
            except OSError:
                _silence(sys.stdout)  # The line on stderr has said it all.
        return code


def _culprit(unnamed: str | None) -> str | None:
    """What the system means where it refuses something and does not say what: the output, if that fails again."""
    try:
        sys.stdout.flush()
    except OSError:
        _silence(sys.stdout)
        return "standard output"
    return unnamed


def _code_of(error: BaseException) -> int:
    if isinstance(error, UsageError):
        return error.code
    if isinstance(error, MissingTickError) and error.damaged:
        return CORRUPT
    return next(code for kind, code in _CODES if isinstance(error, kind))


class _PipeConsole(Console):
    """Where help is printed."""

    def on_broken_pipe(self) -> None:
        """Let run_app see it; rich would end the program with exit code 1."""
        raise BrokenPipeError


def say(line: str) -> None:
    """Print a line on stdout, if anybody takes it: a full disk or a reader that went away stops no recording."""
    _say(line, sys.stdout)


def say_aside(line: str) -> None:
    """Likewise on stderr."""
    _say(line, sys.stderr)


def _say(line: str, stream: TextIO) -> None:
    try:
        print(line, file=stream, flush=True)
    except (OSError, ValueError):  # ValueError: it was closed.
        _silence(stream)


def _silence(stream: TextIO | None) -> None:
    """Let what a stream still holds, and all that comes, go nowhere: the interpreter's last flush would fail again."""
    try:
        descriptor = stream.fileno() if stream is not None else None
    except (OSError, ValueError):
        return  # No file of the system's, or a closed one.
    if descriptor is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)


def _one_line(error: BaseException) -> str:
    if isinstance(error, CycloptsError):
        return _usage_line(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{shown_path(error.filename)}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, UnknownWorldError | OSError):
        return str(error.args[0]) if error.args else type(error).__name__
    return " ".join(str(error).split()) or type(error).__name__


def shown_path(filename: str | bytes | int | os.PathLike[str]) -> str:
    """A file as a user would type it here: tapes keep their whole path, so that they stay where they are."""
    path, here = Path(os.fsdecode(filename) if not isinstance(filename, int) else str(filename)), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) and path != here else str(path)


def _usage_line(error: CycloptsError) -> str:
    """What is wrong with a command line, in the words that its help uses."""
    argument = error.argument
    match error:
        case MissingArgumentError() if argument is not None and not isinstance(error, ConsumeMultipleError):
            typed = next((word for word in error.root_input_tokens or () if word in argument.names), None)
            return f"{typed} needs a value" if typed else f"{argument.name} is missing"
        case UnusedCliTokensError() if error.unused_tokens:
            words = [shlex.quote(word) for word in error.unused_tokens]
            return (
                f"there is no argument {words[0]}" if len(words) == 1 else f"there are no arguments {' '.join(words)}"
            )
    return " ".join(str(error).split())


def _show(line: str) -> None:
    say_aside(f"error: {line}")


def whole_number(_: type, tokens: Sequence[Token]) -> int:
    """A command's number, written as one: 5.5 is refused instead of rounded. Raises ValueError."""
    text = tokens[0].value
    try:
        if len(text) <= WHOLE_CHARS_MAX and abs(number := int(text)) <= WHOLE_MAX:
            return number
    except ValueError:
        raise ValueError(f"a whole number was expected, found {text!r}.") from None
    raise ValueError(f"{WHOLE_MAX:,} is the largest number.")


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


def counted(number: int, noun: str) -> str:
    """A number and what it counts: 1 tick, 2,000 ticks."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def bytes_text(size_bytes: float) -> str:
    """A size for people, in decimal units: 1.5 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size_bytes < 1000 or unit == "GB":
            return f"{size_bytes:.0f} {unit}" if unit == "bytes" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    raise AssertionError("the loop returns for GB")
