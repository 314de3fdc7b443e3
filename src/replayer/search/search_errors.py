"""Why a condition has no answer: it is not a condition, it has no value in a state, or the kinds of its values differ."""

from __future__ import annotations


class ExpressionError(ValueError):
    """A text is not a condition; the message says where and why, in one line."""


class UndefinedError(Exception):
    """A condition has no value in a state: a value is not there, or a reduction has nothing to reduce."""


class OtherKindError(ExpressionError, UndefinedError):
    """A value is of a kind with which a condition cannot be asked; at another tick it may be of another kind."""
