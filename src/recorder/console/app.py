"""Run a command line: a user's mistake gives one line on stderr and an exit code."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

from cyclopts import App, CycloptsError, MissingArgumentError
from cyclopts.exceptions import ConsumeMultipleError, UnusedCliTokensError

from recorder.console.broken_pipes import patient_streams
from recorder.console.memory_option import memory_in_environment
from recorder.console.output import results_alone_on_stdout, say_on_stderr, silence
from recorder.console.stop_signals import signals_raised, stop_of
from recorder.errors import (
    CorruptError,
    DeniedTapeError,
    DesyncError,
    MissingTickError,
    RecordingError,
    TornError,
    UnreadableError,
    UnsupportedVersionError,
    WriterFailedError,
)
from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE, SAME, UNREADABLE, USAGE, UsageError
from recorder.processes.pool import WorkerDiedError
from recorder.text import shown_path
from sim.kernel.registry import ConfigError, UnknownWorldError
from sim.user_warning import said_once

if TYPE_CHECKING:
    from rich.console import Console


def version() -> str:
    """Return the installed version of this program."""
    from importlib import metadata  # noqa: PLC0415 - it brings half of the standard library along

    return metadata.version("simulation-flight-recorder")


_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (DesyncError, DIFFERS),
    (MissingTickError, USAGE),
    (TornError, INCOMPLETE),
    (WriterFailedError, INCOMPLETE),
    (CorruptError, CORRUPT),
    (DeniedTapeError, USAGE),
    (UnreadableError, UNREADABLE),
    (UnsupportedVersionError, UNREADABLE),
    (ConfigError, USAGE),
    (UnknownWorldError, USAGE),
    (CycloptsError, USAGE),
    (OSError, USAGE),
    (UsageError, USAGE),
    (RecordingError, USAGE),
    (WorkerDiedError, USAGE),
)


OnError = Callable[[BaseException, str, int], None]  # The error, its line, the exit code.


def run_app(
    app: App,
    arguments: Sequence[str] | None,
    on_error: OnError | None = None,
    unnamed: str | None = None,
    memory: str | None = None,
) -> int:
    """Run a command line and return its exit code; a user's mistake gives one line on stderr and no traceback.

    on_error: called with the error, that line and the exit code, to report it in a further way.
    unnamed: the name to print for a system error that names no file.
    memory: the size given by --memory.
    Any other exception is a bug, ours or the simulation's, and keeps its traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A terminal without × or → gets a ? and no traceback.
    code = SAME
    try:
        with patient_streams():
            code = _run(app, arguments, on_error, unnamed, memory)
            if sys.stdout is not None:
                sys.stdout.flush()  # Not at the end of the interpreter, which prints its own lines for a failure.
    except BrokenPipeError:  # A command that follows a file forever ends with its reader.
        silence(sys.stdout)
        silence(sys.stderr)
    except OSError as error:
        code = USAGE
        silence(sys.stdout)
        _show(_one_line(OSError(error.errno, error.strerror, "standard output")))
    return code


def _run(
    app: App, arguments: Sequence[str] | None, on_error: OnError | None, unnamed: str | None, memory: str | None
) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        json_alone = results_alone_on_stdout() if "--json" in words else nullcontext()
        with json_alone, signals_raised(), memory_in_environment(memory), said_once():
            result = app(
                arguments,
                exit_on_error=False,
                print_error=False,
                result_action="return_value",
                console=cast("Console", _LateConsole()),
            )
        return result if isinstance(result, int) else SAME
    except KeyboardInterrupt as interrupt:
        stop = stop_of(interrupt)
        _show(stop.word)
        return stop.exit_code
    except BrokenPipeError:
        raise
    except tuple(kind for kind, _ in _CODES) as error:
        if (stopped := _stopped_before(error)) is not None:
            stop = stop_of(stopped)
            _show(stop.word)
            return stop.exit_code
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            error.filename = _culprit(unnamed)
        line, code = _one_line(error), _code_of(error)
        _show(line)
        if on_error is not None:
            try:
                on_error(error, line, code)
                sys.stdout.flush()
            except OSError:
                silence(sys.stdout)  # The line on stderr has reported the error.
        return code


def _stopped_before(error: BaseException) -> KeyboardInterrupt | None:
    """The stop in whose course an error came, such as that of a pipe which was closed by it; None if there was none."""
    while error.__context__ is not None:
        error = error.__context__
        if isinstance(error, KeyboardInterrupt):
            return error
    return None


def _culprit(unnamed: str | None) -> str | None:
    """Return the name for a system error that names no file: standard output if writing to it fails again."""
    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
        return "standard output"
    return unnamed


def _code_of(error: BaseException) -> int:
    if isinstance(error, UsageError):
        return error.code
    if isinstance(error, MissingTickError) and error.damaged:
        return CORRUPT
    return next(code for kind, code in _CODES if isinstance(error, kind))


class _LateConsole:
    """The console for help texts, made when something is printed: rich takes long to import."""

    def __init__(self) -> None:
        self._console: Console | None = None

    def __getattr__(self, name: str) -> Any:
        if self._console is None:
            from rich.console import Console  # noqa: PLC0415 - see above

            class PipeConsole(Console):
                def on_broken_pipe(self) -> None:
                    """Raise it for run_app; rich would end the program with exit code 1."""
                    raise BrokenPipeError

            self._console = PipeConsole()
        return getattr(self._console, name)


def _one_line(error: BaseException) -> str:
    if isinstance(error, CycloptsError):
        return _usage_line(error)
    if isinstance(error, OSError) and error.strerror:
        if not error.filename:
            return error.strerror
        near = ""
        if isinstance(error, FileNotFoundError):
            from recorder.console.near_files import files_near  # noqa: PLC0415 - only to describe a mistake

            near = files_near(error.filename)
        return f"{shown_path(error.filename)}: {error.strerror}{near}"
    if isinstance(error, UnknownWorldError | OSError):
        return str(error.args[0]) if error.args else type(error).__name__
    return " ".join(str(error).split()) or type(error).__name__


def _usage_line(error: CycloptsError) -> str:
    """Describe a mistake in a command line in the words of its help."""
    argument = error.argument
    match error:
        case MissingArgumentError() if argument is not None and not isinstance(error, ConsumeMultipleError):
            typed = next((word for word in error.root_input_tokens or () if word in argument.names), None)
            return f"{typed} needs a value" if typed else f"{argument.name} is missing"
        case UnusedCliTokensError() if error.unused_tokens:
            words = [shlex.quote(word) for word in error.unused_tokens]
            return f"unknown argument{'' if len(words) == 1 else 's'}: {' '.join(words)}"
    return " ".join(str(error).split())


def _show(line: str) -> None:
    say_on_stderr(f"error: {line}")
