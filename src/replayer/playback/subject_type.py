"""The type of the object that a run is a run of, for type checkers: what the factory returns, as far as that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # A default lets annotations say `Timeline` alone. Python has it from 3.13 on.
    from typing import Any

    from typing_extensions import TypeVar

    SubjectT = TypeVar("SubjectT", default=Any)
else:
    from typing import TypeVar

    SubjectT = TypeVar("SubjectT")
