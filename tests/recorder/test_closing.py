"""How a recording ends: by an exception with any text, by an interrupt in the midst of closing, on a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder import Recorder
from replayer import Tape

from small_worlds import Walkers


class UnspeakableError(Exception):
    """An exception that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("bad \udcff name"), "RuntimeError: bad ? name"),
        (RuntimeError("x" * (1 << 20)), f"RuntimeError: {'x' * 3986}… (1,048,590 characters)"),
        (UnspeakableError(), "UnspeakableError: its text cannot be had (RuntimeError)"),
    ],
    ids=["surrogate", "long", "unspeakable"],
)
def test_an_exception_with_any_text_seals_the_tape(tmp_path: Path, error: Exception, text: str) -> None:
    """It is the one that leaves the block, and the tape says what can be said of it."""
    path = tmp_path / "run.tape"
    tape = Recorder(path, Walkers())
    tape.step([])
    with pytest.raises(type(error)) as caught, tape:
        raise error
    assert caught.value is error
    with Tape(path) as read:
        assert read.status == "intact"
        assert read.outcome == {"reason": "exception", "exception": text}
