"""A base class of what is open until its ``with`` block ends."""

from __future__ import annotations

from typing import Self


class ClosedOnExit:
    """A context manager that enters as itself, and calls its ``close`` at the end of the block."""

    def close(self) -> None:
        """Release what is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
