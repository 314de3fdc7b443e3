"""The begin of the first line of an answer, printed as soon as it is known: the rest may take seconds."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from recorder.console.progress import status_line
from recorder.location.tape_location import Location
from recorder.visible_text import print_visible
from replayer.value_text import plain_text

_TICK = re.compile(r"tick [\d,]+")


class FirstLine:
    """Prints "run.tape: tick 64" once, and later what follows. The text as a whole is that of the answer."""

    def __init__(self, path: Location, *, quiet: bool) -> None:
        """quiet: print nothing early."""
        self._path, self._quiet = path, quiet
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._stdout = sys.stdout  # While the simulation runs, it is another one.
        self._begun, self._is_of_finding = "", False

    @contextmanager
    def status(self, label: str) -> Iterator[Callable[[str], None]]:
        """As status_line; the first text with a tick begins the line, where no terminal shows the texts."""
        with status_line(label, quiet=self._quiet) as show:

            def told(text: str) -> None:
                show(text)
                match = _TICK.match(text)
                if match is not None and not (self._begun or self._quiet or self._is_shown):
                    self._begun = plain_text(f"{self._path}: {match[0]}")
                    self._is_of_finding = text == f"{match[0]} differs"
                    print_visible(self._begun, end="", flush=True, file=self._stdout)

            try:
                yield told
            except BaseException:
                if self._begun:
                    print_visible(": the search ended early", file=self._stdout)
                raise

    def print(self, text: str) -> None:
        """Print the text, without what stands there already; if it is about another tick, that line is completed first."""
        if self._begun and not re.match(rf"{re.escape(self._begun)}(?![\d,])", text):
            seen = " differed when the tape was verified in this process" if self._is_of_finding else ""
            print_visible(f"{seen}; what follows is not about this tick")
        else:
            text = text[len(self._begun) :]
        print_visible(text)
