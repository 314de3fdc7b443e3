"""Text on a terminal: what would steer the terminal is escaped, since texts on a tape are untrusted."""

from __future__ import annotations

from typing import TextIO


def visible(text: str) -> str:
    """The text with escapes in place of characters that steer a terminal, but for line ends.

    These are the control characters of ASCII and of Latin-1 (C1), and those that change the direction of text or separate
    lines.
    """
    return text.translate(_STEERING)


_STEERING = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != ord("\n")}
_STEERING |= {
    code: f"\\u{code:04x}" for code in (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}


_named_otherwise: dict[str, str] = {}


def print_as(text: str, name: str) -> None:
    """Print a name wherever print_visible would print a text: that of a temporary file, which is no use to the reader."""
    _named_otherwise[text] = name


def print_visible(*parts: object, end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Print as print does, but only text that is visible. All commands print with it."""
    line = " ".join(map(str, parts))
    for text, name in _named_otherwise.items():
        line = line.replace(text, name)
    print(visible(line), end=end, file=file, flush=flush)
