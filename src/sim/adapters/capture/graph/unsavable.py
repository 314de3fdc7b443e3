"""The error for a value that cannot be saved, with the reason and what to do instead."""

from __future__ import annotations

from typing import Any

NAMES_SHOWN = 3


class UnsavableError(TypeError):
    """A value that cannot be saved exactly.

    Attributes:
        reason: a noun phrase or clause about the value, without the path to it, which only the caller knows.
        advice: what to do instead, as an imperative.
        value: the value, once it is known.
        path: from the roots of the graph to the value, once it is known.
        attribute: ``Class.attribute`` of the innermost object on this path; empty if there is none.
    """

    def __init__(self, reason: str, advice: str, value: Any = None) -> None:
        super().__init__(reason, advice)
        self.reason = reason
        self.advice = advice
        self.value = value
        self.path = self.attribute = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.advice}"


def refusal_of(error: Exception, path: str = "", value: Any = None) -> UnsavableError:
    """The error itself, or the refusal of an object that raised when it was looked at. Raises all other errors.

    What isinstance and hasattr ask may be code of the object's class, and a weak proxy of a dead object answers nothing.

    path, value: where and what was looked at, if it is known.
    """
    if isinstance(error, UnsavableError):
        error.path = error.path or path
        error.value = value if error.value is None else error.value
        return error
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    is_own = last is None or str(last.tb_frame.f_globals.get("__name__")).startswith("sim.")
    if isinstance(error, MemoryError | RecursionError) or (is_own and not isinstance(error, ReferenceError)):
        raise error
    reason = f"to look at it raises {type(error).__name__}" + f": {error}" * bool(str(error))
    refusal = UnsavableError(reason, "let it answer isinstance and hasattr, or keep what a step reads elsewhere", value)
    refusal.path, refusal.__cause__ = path, error
    return refusal


def ways_out(otherwise: str, *names: str) -> str:
    """What to do about attributes with values that cannot be saved, where the advice for the values does not suit.

    otherwise: the last option. names: of the attributes; none if they are not known. Pickle is not among the options:
    it helps only with values of unknown C types, whose own advice names it.
    """
    listed = ", ".join([*(f'"{name}"' for name in names[:NAMES_SHOWN]), *["..."] * (len(names) > NAMES_SHOWN)]) or "..."
    return f"Or leave out what no step reads or changes, ignore=[{listed}], or {otherwise}"
