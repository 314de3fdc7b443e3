"""Save by pickle what cannot be saved otherwise. The only module that may: it is reached by trust=True alone.

Loading a pickle runs whatever code its bytes say. So nothing here is ever used because a tape says so: whoever opens a
tape with such bytes has to say trust=True, too, and means both the tape and its author.

What is written is the same for equal values: what nobody can change, such as texts, NumPy's numbers and tuples of them,
is shared where it is equal, not where it happens to be one object, which differs between a run that was loaded and one
that was not. So are dtypes, of which NumPy makes a new one for each pickle that is loaded, and the unchangeable values of
the standard library (_VALUES). Sets of such are written in the order of their elements' bytes, not in that of this
process's hashes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import io
import pathlib
import pickle  # noqa: TID251 - the one place for it, see above
import re
import types
import uuid
import zoneinfo
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.adapters.capture.values import decode_value, encode_value, is_unchangeable
from sim.adapters.interface.adapter_registry import NotCapturedError

_TEXTS = (str, bytes)
_BY_VALUE = frozenset((int, float, bool, types.NoneType))  # Pickle itself writes each of them anew.
# Of these it shares those that are one object, and only that tells equal ones apart.
_VALUES = frozenset((
    range, re.Pattern, decimal.Decimal, fractions.Fraction, dt.date, dt.timedelta, dt.timezone,
    zoneinfo.ZoneInfo, uuid.UUID, pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath,
    np.datetime64, np.timedelta64,
))  # fmt: skip
_BY_NAME = (type, types.FunctionType, enum.Enum)  # Found again by its name, as the same object.
_CHANGEABLE = frozenset((list, dict, np.ndarray))
# What is listed, and how, besides texts: numbers and bytes made for it, since pickle would share texts that are one object.
_DTYPE, _PICKLE, _SET, _FROZENSET = range(4)
_PLAIN_DTYPE_KINDS = "biufcSUOmM"


class TrustedPickler:
    """Saves and loads by pickle."""

    @staticmethod
    def pickler(hooks: type, *arguments: Any) -> Any:
        """A pickler with the methods of a class, which is made with these arguments."""
        return _mixed(hooks, pickle.Pickler)(*arguments)

    @staticmethod
    def unpickler(hooks: type, *arguments: Any) -> Any:
        """The same for an unpickler."""
        return _mixed(hooks, pickle.Unpickler)(*arguments)

    def dump(self, values: Mapping[str, Any], known: Mapping[int, str]) -> bytes:
        """The values as bytes. known: names of what is kept elsewhere, by id, so that it is met again as the same object.

        Raises NotCapturedError, naming it, for what cannot be saved, or only seems to be.
        """
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, known)
        for name, value in values.items():
            pickler.name = name
            try:
                pickler.dump([name, value])
            except NotCapturedError:
                raise
            except Exception as error:
                raise NotCapturedError(f"{name} ({type(value).__qualname__}) cannot be pickled: {error}") from error
        listed = pickle.dumps(pickler.values, protocol=5)
        return len(listed).to_bytes(8, "little") + listed + buffer.getvalue()

    def load(self, data: bytes, known: Mapping[str, Any]) -> dict[str, Any]:
        """The values again. known: what is kept elsewhere, by name. Raises NotCapturedError if they cannot be made."""
        size = int.from_bytes(data[:8], "little")
        buffer = io.BytesIO(data[8 + size :])
        values: dict[str, Any] = {}
        try:
            listed = pickle.loads(data[8 : 8 + size])  # noqa: S301 - the user has said trust=True
            unpickler = _Unpickler(buffer, _values_of(listed), known)
            while buffer.tell() < len(data) - 8 - size:
                name, value = unpickler.load()
                values[name] = value
        except Exception as error:
            raise NotCapturedError(f"what was pickled cannot be loaded: {error}") from error
        return values

    def ensure_loads(self, values: Mapping[str, Any], elsewhere: Mapping[str, Any]) -> None:
        """Raise NotCapturedError, naming it, for a value that can be dumped and not loaded. elsewhere: what is not dumped, by name.

        Without this it would be found out when a recording is needed.
        """
        known = {id(one): name for name, one in elsewhere.items()}
        for name, value in values.items():
            try:
                self.load(self.dump({name: value}, known), elsewhere)
            except NotCapturedError as error:
                kind = type(value).__qualname__
                raise NotCapturedError(f"{name} ({kind}) cannot be saved, not even by pickle: {error}") from error


@functools.cache
def _mixed(hooks: type, base: type) -> type:
    return type(hooks.__name__, (hooks, base), {})


def _values_of(listed: list[Any]) -> list[Any]:
    """What a pickler has written by its content; see _Pickler.values."""
    values: list[Any] = []
    for one in listed:
        match one:
            case (bytes(encoded),):
                values.append(decode_value(encoded))
            case [kind, bytes(text)] if kind == _DTYPE:
                values.append(np.dtype(text.decode()))
            case [kind, bytes(inner), bytes(pickled)] if kind == _PICKLE:
                values.append(_loaded(inner, pickled))
            case [kind, list(elements)]:
                found = [_loaded(*element) for element in elements]
                values.append(set(found) if kind == _SET else frozenset(found))
            case _:
                values.append(one)
    return values


def _loaded(listed: bytes, pickled: bytes) -> Any:
    values = _values_of(pickle.loads(listed))  # noqa: S301 - the user has said trust=True
    return _Unpickler(io.BytesIO(pickled), values, {}).load()


class _Pickler(pickle.Pickler):
    """Goes on from one value to the next with one memory, so that what two attributes share stays shared.

    Attributes:
        name: of the value that is being written.
        values: what is written by its content, in the order of its numbers: texts as they are; other values that values.py
            writes as their bytes, each in a tuple of its own; dtypes and what only pickle writes as lists, see _values_of.
    """

    def __init__(self, buffer: io.BytesIO, known: Mapping[int, str], *, alone: bool = False) -> None:
        """alone: for one value that cannot be changed, in which nothing is shared."""
        super().__init__(buffer, protocol=5)
        self.fast = alone  # Without memory: equal parts are written alike, be they one object or two.
        self._known = known
        self._alone = alone
        self._numbers: dict[Any, int] = {}  # Of texts by themselves, of other values by their bytes in a tuple.
        self._sets: dict[int, int] = {}  # By id: a set can be changed, so that each is one by itself.
        self.values: list[Any] = []
        self.name = ""

    def persistent_id(self, obj: Any) -> Any:
        """The number of what is written by its content, or a negative one, of the name of what is kept elsewhere; None for all else.

        Raises NotCapturedError for what pickle keeps only in part.
        """
        kind = type(obj)
        if kind in _BY_VALUE:
            return None
        if kind in _TEXTS:
            return self._number(obj)
        if kind in _CHANGEABLE:  # Most of what there is: none of the questions below is asked of it.
            return -1 - self._number(self._known[id(obj)]) if id(obj) in self._known else None
        if isinstance(obj, _BY_NAME):
            return None
        if is_unchangeable(obj):
            return self._number((encode_value(obj),))
        if id(obj) in self._known:
            return -1 - self._number(self._known[id(obj)])
        if isinstance(obj, np.dtype) and _is_told_by_its_text(obj):
            return self._number((_DTYPE, obj.str), [_DTYPE, obj.str.encode()])
        if kind is set or kind is frozenset:
            return self._number_of_set(obj)
        if _is_value(obj):
            return None if self._alone else self._number_of_pickle(obj)
        if keeps_only_arguments(obj):
            raise NotCapturedError(
                f"{self.name}: pickling a {kind.__qualname__} keeps only the arguments that it was made with "
                "(EzPickle), not its state: choose level='inputs_only'"
            )
        return None

    def _number(self, content: Any, listed: Any = None) -> int:
        """The number of a content, which is listed as it is, or otherwise where that is said."""
        number = self._numbers.get(content)
        if number is None:
            number = self._numbers[content] = len(self.values)
            self.values.append(content if listed is None else listed)
        return number

    def _number_of_pickle(self, value: Any) -> int:
        """The number of a value that cannot be changed, by the bytes that it has when it is pickled alone."""
        listed, pickled = self._pickled_alone(value)
        return self._number((_PICKLE, listed, pickled), [_PICKLE, listed, pickled])

    def _pickled_alone(self, value: Any) -> tuple[bytes, bytes]:
        """The listed values and the bytes of a value that cannot be changed."""
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, {}, alone=True)
        pickler.name = self.name
        pickler.dump(value)
        return pickle.dumps(pickler.values, protocol=5), buffer.getvalue()

    def _number_of_set(self, found: set[Any] | frozenset[Any]) -> int | None:
        """The number of a set, whose elements are written in the order of their bytes; None if they have but one order.

        Raises NotCapturedError for a set of objects, which has another order in each process.
        """
        number = self._sets.get(id(found))
        if number is not None:
            return number
        if type(found) is set and all(map(is_unchangeable, found)):
            listed: Any = (encode_value(found),)
        elif all(map(_is_value, found)):
            elements = sorted(map(self._pickled_alone, found))
            if type(found) is frozenset:
                return self._number((_FROZENSET, *elements), [_FROZENSET, list(map(list, elements))])
            listed = [_SET, list(map(list, elements))]
        elif len(found) > 1:
            kinds = ", ".join(sorted({type(one).__qualname__ for one in found if not _is_value(one)}))
            raise NotCapturedError(
                f"{self.name}: a {type(found).__name__} of {kinds} has another order after each load: "
                "keep them in a list, or as the keys of a dict"
            )
        else:
            return None
        number = self._sets[id(found)] = len(self.values)
        self.values.append(listed)
        return number


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, values: list[Any], known: Mapping[str, Any]) -> None:
        super().__init__(buffer)
        self._values = values
        self._known = known

    def persistent_load(self, pid: Any) -> Any:
        """The value of this number, or what has the text of that number as its name."""
        return self._values[pid] if pid >= 0 else self._known[self._values[-1 - pid]]


def _is_told_by_its_text(dtype: np.dtype[Any]) -> bool:
    """Whether np.dtype(dtype.str) is the same dtype."""
    return dtype.kind in _PLAIN_DTYPE_KINDS and dtype.metadata is None


def _is_value(obj: Any) -> bool:
    """Whether an object can never change, so that it does not matter which of several equal ones it is."""
    kind = type(obj)
    if kind in _VALUES or isinstance(obj, (*_BY_NAME, np.dtype)) or is_unchangeable(obj):
        return True
    if kind is tuple or kind is frozenset:
        return all(map(_is_value, obj))
    if isinstance(obj, tuple):  # One with names for its elements; with a dict of its own it can be changed.
        return hasattr(kind, "_fields") and not hasattr(obj, "__dict__") and all(map(_is_value, obj))
    if kind is slice:
        return all(map(_is_value, (obj.start, obj.stop, obj.step)))
    if kind is dt.datetime or kind is dt.time:
        return _is_value(obj.tzinfo)
    settings = vars(kind).get("__dataclass_params__")
    if settings is None or not (settings.frozen and settings.eq):
        return False
    names = {field.name for field in dataclasses.fields(obj)}
    if set(getattr(obj, "__dict__", names)) != names:
        return False  # It remembers more than its fields.
    return all(_is_value(getattr(obj, name)) for name in names)


def keeps_only_arguments(value: Any) -> bool:
    """Whether pickling an object keeps only its constructor's arguments, as Gymnasium's EzPickle does."""
    return any(kind.__name__ == "EzPickle" for kind in type(value).__mro__)


def make_pickler() -> TrustedPickler:
    """For where the user has said trust=True, and nowhere else."""
    return TrustedPickler()
