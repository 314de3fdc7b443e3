"""Encode calls of an object's step as the inputs of a tick, so that a replay makes exactly the same call.

One argument is recorded as it is, and None stands for no argument where the step takes none. Every other call is a
map, and so is each call of another method that is recorded, such as reset. Its key is the name of the method with "()":

    {"step()": [[3], {"dt": 0.1}]}    step(3, dt=0.1), all of it plain data
    {"step()": bytes}                 the same as values.py writes it, for other types: tuples, sets, shared lists,
                                      and objects as object_values.py writes them
    {"step()": ..., "set": bytes}     assignments from outside since the last step come first: [["set", name, value]]

Invariants:
    1. decode(encode(call)) equals the call, in the types of all values, too.
    2. A single argument that looks like such a map, or like an attempt (see attempts.py), is written as a map itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np

from sim.adapters.capture.values import NotPlainError, OtherValues, decode_value, encode_value
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.adapters.interface.attempts import RAISED
from sim.adapters.interface.proxy import RecordedProxy

SET = "set"
_EXPECTED = (
    "expected numbers, texts, arrays, lists, dicts or sets of them, members of an enum, or objects of classes of the "
    "recorded object's modules: pass an index, a name or a number in its place"
)
_OF_PROXY = "record() returned it in place of an object: pass that object, its .subject"
_AS_IS = frozenset((float, bool, str, bytes, type(None)))
# A larger owner of a view is not written: each row of a table would write all of it.
_OWNER_BYTES, _OWNER_FACTOR = 4096, 4
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1

Change = tuple[Any, ...]  # ("set", name, value), ("del", name), ("setitem", key, value) or ("delitem", key).


class CallValues(OtherValues, Protocol):
    """Writes and makes the objects in a call."""

    def of_changes(self) -> OtherValues:
        """The same for the values that were assigned before it."""

    def hold_any(self, addresses: set[int]) -> bool:
        """Return True if the recorded object holds any of the lists, dicts and arrays with these identities."""

    def leave_out(self, owners: Sequence[Any]) -> None:
        """Note the arrays of which only a part is written, by a view: a replay has that part alone."""


@attrs.frozen
class StepCall:
    """One call of the method that makes a step.

    Attributes:
        arguments, keywords: of the call.
        changes: what was assigned from outside since the last step, in order.
    """

    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = attrs.field(factory=dict)
    changes: Sequence[Change] = ()


class StepMethod:
    """A method whose calls are ticks: how it is called, and how its calls are written.

    Attributes:
        name: of the method.
        key: of its calls that are written as maps.
    """

    def __init__(self, name: str, function: Callable[..., Any], *, is_step: bool = True) -> None:
        """function: the bound method. is_step: False for one whose calls are always written as maps."""
        self.name = name
        self.key = f"{name}()"
        self._is_step = is_step
        try:
            signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            signature = None  # Methods of extension modules may not expose their parameters.
        self._takes_nothing = signature is not None and takes(signature)
        self._takes_one = signature is None or takes(signature, None)
        self._none_is_default = signature is not None and _first_is_none(signature)

    def encode(self, call: StepCall, names: Callable[[], Mapping[int, str]], others: Callable[[], CallValues]) -> Any:
        """The inputs of a call.

        names: gives the names of the object's own attributes by the ids of their values. others: gives what writes arguments
        that are objects. Raises TypeError for arguments that cannot be recorded.
        """
        arguments, keywords = call.arguments, call.keywords
        may_be_alone = False
        if self._is_step and not keywords and not call.changes:
            if len(arguments) == 1:
                argument = arguments[0]
                if self._is_written_alone(argument, others):
                    return argument
                may_be_alone = type(argument) is not dict and argument is not None
            elif not arguments and (not self._takes_one or self._none_is_default):
                return None
        listed = [list(arguments), dict(keywords)]
        try:
            called = listed if is_apart(listed, others) else encode_value(listed, names(), others())
        except NotPlainError as error:
            if may_be_alone and isinstance(error.value, np.ndarray):
                return arguments[0]  # The recorder knows some subclasses, and refuses others.
            raise self._refusal(error) from None
        inputs: dict[str, Any] = {self.key: called}
        if call.changes:
            inputs[SET] = encode_value([list(change) for change in call.changes], names(), others().of_changes())
        return inputs

    def decode_changes(
        self, inputs: Any, known: Mapping[str, Any], others: Callable[[], CallValues]
    ) -> Sequence[Change]:
        """What was assigned before the call of these inputs, in order. Raises ValueError for a map that is not one of ours."""
        changes = inputs.get(SET) if type(inputs) is dict and self.key in inputs else None
        return decode_value(changes, known, others().of_changes()) if changes else ()

    def decode(self, inputs: Any, known: Mapping[str, Any], others: Callable[[], CallValues]) -> StepCall:
        """The call of these inputs, without the changes before it, which are to be made first.

        known: as before these changes. Raises ValueError for a map that is not one of ours.
        """
        if type(inputs) is not dict or self.key not in inputs:
            takes_it = inputs is not None or self._takes_one
            return StepCall((inputs,) if takes_it else ())
        called = inputs[self.key]
        match decode_value(called, known, others()) if type(called) is bytes else called:
            case [list(arguments), dict(keywords)]:
                return StepCall(tuple(arguments), keywords)
        raise ValueError(f"expected the arguments of {self.key}, got {called!r}")

    def _is_written_alone(self, argument: Any, others: Callable[[], CallValues]) -> bool:
        if argument is None:
            return self._takes_one
        if type(argument) is dict:
            has_our_keys = RAISED in argument or any(type(key) is str and key.endswith("()") for key in argument)
            return is_apart(argument, others) and not has_our_keys
        return is_apart(argument, others)

    def _refusal(self, error: NotPlainError) -> TypeError:
        place = error.path.removeprefix("value[0]").removeprefix("value[1]")
        is_proxy = issubclass(type(error.value), RecordedProxy)
        why = _OF_PROXY if is_proxy else error.why or _EXPECTED
        return TypeError(
            f"the call {self.name}(...) cannot be recorded: argument {place} is {type(error.value).__name__}: {why}"
        )


def is_apart(value: Any, others: Callable[[], CallValues]) -> bool:
    """Return True if value is plain data that is restored with equal types and equal sharing, also with the recorded object."""
    seen, owners = set[int](), list[Any]()
    if not _is_exact(value, seen, owners) or (seen and others().hold_any(seen)):
        return False
    if owners:
        others().leave_out(owners)
    return True


def ensure_not_held(left_out: Sequence[Any], others: Callable[[], CallValues]) -> None:
    """Raise NotCapturedError if the recorded object holds an array of which a replay has only a part. left_out: these arrays."""
    if left_out and others().hold_any(set(map(id, left_out))):
        raise NotCapturedError(
            "the object kept a part of an array that was passed to it, such as a row of a large table, and would be saved with "
            "all of that array: pass a copy of the part, row.copy()"
        )


def _is_exact(value: Any, seen: set[int], owners: list[Any]) -> bool:
    """owners: gets the large arrays of which a view is in the value."""
    kind = type(value)
    if kind is int:
        return is_index(value)
    if kind in _AS_IS:
        return True
    if kind is np.ndarray:
        is_plain = value.dtype.kind in "biufc" and value.dtype.isnative and value.flags.c_contiguous
        owner = _owner_of(value)
        if owner is not value and owner.nbytes <= max(_OWNER_BYTES, _OWNER_FACTOR * value.nbytes):
            return False  # A view that the object keeps is captured with its owner, so a replay needs that.
        if owner is not value:
            owners.append(owner)
        # What is read-only is written as such. Views of one array share its memory.
        return bool(is_plain and value.flags.writeable) and not _was_seen(owner, seen)
    if isinstance(value, np.generic):
        return value.dtype.kind in "biufc" and value.dtype.isnative
    if kind is list:
        return not _was_seen(value, seen) and all(_is_exact(item, seen, owners) for item in value)
    if kind is dict:
        keys = all(type(key) is str or type(key) is int for key in value)
        return keys and not _was_seen(value, seen) and all(_is_exact(item, seen, owners) for item in value.values())
    return False


def _owner_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array whose memory this one is; the array itself, if it is no view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def is_index(value: Any) -> bool:
    """Return True for an int that plain data holds as one number."""
    return type(value) is int and _INT_MIN <= value <= _INT_MAX


def _was_seen(value: Any, seen: set[int]) -> bool:
    if id(value) in seen:
        return True
    seen.add(id(value))
    return False


def takes(signature: inspect.Signature, *arguments: Any) -> bool:
    """Return True if a function with this signature can be called with these arguments."""
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _first_is_none(signature: inspect.Signature) -> bool:
    first = next(iter(signature.parameters.values()), None)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return first is not None and first.kind in positional and first.default is None
