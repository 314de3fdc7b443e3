"""The help of a whole program, printed without importing one of its commands: that takes a second.

It looks as the help of cyclopts does, which prints it where this one cannot. Needs only the standard library, and few
modules of that.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

ASKS: tuple[list[str], ...] = ([], ["--help"], ["-h"])
OWN_OPTIONS = {"--help (-h)": "Display this message and exit.", "--version": "Display application version."}
COLUMNS_MIN = 60  # The columns of a table become narrower below that, which is left to rich.
COLUMNS_DEFAULT = 80
_NAME_STYLE, _PLAIN = "\x1b[36m", "\x1b[0m"
_WORD = re.compile(r"\s*\S+\s*")


def shows_help(
    words: Sequence[str], name: str, text: str, commands: Mapping[str, str], summaries: Mapping[str, str]
) -> bool:
    """Print the help if a command line asks for it; return False if it does not, or if this cannot print it.

    words: the command line. commands: those of the program. summaries: the first paragraph of the help of each.
    """
    if list(words) not in ASKS or commands.keys() != summaries.keys():
        return False
    try:
        columns = _columns()
        if columns < COLUMNS_MIN or sys.stdout is None:
            return False
        lines = help_lines(name, text, summaries, columns, _NAME_STYLE if _has_colours() else "")
        printed = memoryview("\n".join([*lines, ""]).encode(sys.stdout.encoding, "replace"))
        output = sys.stdout.fileno()
        while printed:
            printed = printed[os.write(output, printed) :]
    except (OSError, ValueError, LookupError):  # The other way meets it too, and says what it is.
        return False
    return True


def help_lines(name: str, text: str, summaries: Mapping[str, str], columns: int, style: str = "") -> list[str]:
    """The lines of the help at a width of the terminal. style: the escape sequence for names of commands."""
    lines = [f"Usage: {name} COMMAND", ""]
    for line in text.split("\n"):
        lines += wrapped(line, columns)
    lines += ["", f"╭─ Commands {'─' * (columns - 13)}╮"]
    rows = dict(sorted(summaries.items())) | OWN_OPTIONS
    name_columns = max(map(len, rows))
    rest_columns = columns - name_columns - 6
    for row, summary in rows.items():
        for number, part in enumerate(wrapped(summary, rest_columns)):
            shown = f"{row if number == 0 else '':{name_columns}}  "
            shown = f"{style}{shown}{_PLAIN}" if style else shown
            lines.append(f"│ {shown}{part:{rest_columns}} │")
    return [*lines, f"╰{'─' * (columns - 2)}╯"]


def wrapped(line: str, columns: int) -> list[str]:
    """Cut a line between words where it gets too long, as rich does; spaces at its start stay."""
    lines, current = [], ""
    for word in _WORD.findall(line):
        if current and len(current) + len(word.rstrip()) > columns:
            lines.append(current.rstrip())
            current = ""
        current += word
    return [*lines, current.rstrip()]


def _columns() -> int:
    """The width of the terminal, as rich finds it."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    for stream in (0, 1, 2):
        try:
            return os.get_terminal_size(stream).columns or COLUMNS_DEFAULT
        except OSError:
            continue
    return COLUMNS_DEFAULT


def _has_colours() -> bool:
    return (
        os.isatty(sys.stdout.fileno())
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    )
