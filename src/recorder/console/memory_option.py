"""The option --memory of all commands: it holds for this process and for those that it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from recorder.exit_codes import UsageError
from recorder.storage.memory_limit import VARIABLE, parse_size

OPTION = "--memory"


def split_memory(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Split a command line into the words without --memory SIZE, and that size; None if it is not given."""
    kept: list[str] = []
    size: str | None = None
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name == OPTION:
            size = value if equals else next(rest, "")
        else:
            kept.append(word)
    return kept, size


@contextmanager
def memory_in_environment(size: str | None) -> Iterator[None]:
    """Keep the size in the environment meanwhile. Raises UsageError for one that cannot be understood."""
    before = os.environ.get(VARIABLE)
    text = before if size is None else size
    try:
        limit = None if text is None else parse_size(text)
    except ValueError as error:
        raise UsageError(f"{VARIABLE if size is None else OPTION}: {error}") from None
    if size is None:
        yield
        return
    os.environ[VARIABLE] = str(limit)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
