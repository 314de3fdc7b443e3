"""The messages that the code can print, as Markdown."""

from __future__ import annotations


def all_messages() -> str:
    """Return a table of all messages."""
    return ""
