"""Save by pickle the values that cannot be saved otherwise. Only this module reads stored pickles, and only with trust=True.

Loading a pickle runs any code that its bytes name. Nothing here is therefore ever used because a tape requires it: to
open a tape with such bytes, the user must also pass trust=True, and so trusts the tape and its author.

Equal values give equal bytes. Immutable values, such as texts, NumPy's numbers and tuples of them, are shared if they
are equal, not if they are one object: the latter differs between a run that was loaded and one that was not. The same
holds for dtypes, of which NumPy makes a new one for each loaded pickle, and for the immutable values of the standard
library (_VALUES). Sets of such values are written in the order of their elements' bytes, not in the order of this
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
import pickle  # noqa: TID251 - the only module that reads stored ones, see above
import re
import types
import uuid
import zoneinfo
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.adapters.capture.values import decode_value, encode_value, is_immutable
from sim.adapters.interface.adapter_registry import NotCapturedError

_TEXTS = (str, bytes)
_BY_VALUE = frozenset((int, float, bool, types.NoneType))  # Pickle writes each of them again.
# Pickle shares those of these types that are one object: this is the only difference between equal values.
_VALUES = frozenset((
    range, re.Pattern, decimal.Decimal, fractions.Fraction, dt.date, dt.timedelta, dt.timezone,
    zoneinfo.ZoneInfo, uuid.UUID, pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath,
    np.datetime64, np.timedelta64,
))  # fmt: skip
_BY_NAME = (type, types.FunctionType, enum.Enum)  # Found again by its name, as the same object.
_MUTABLE = frozenset((list, dict, np.ndarray))
# The kinds of listed values besides texts. They are numbers, since pickle would share texts that are one object.
_DTYPE, _PICKLE, _SET, _FROZENSET = range(4)
_PLAIN_DTYPE_KINDS = "biufcSUOmM"


class TrustedPickler:
    """Saves and loads by pickle."""

    @staticmethod
    def pickler(hooks: type, *arguments: Any) -> Any:
        """Make a pickler with the methods of the class hooks and these arguments."""
        return _mixed(hooks, pickle.Pickler)(*arguments)

    @staticmethod
    def unpickler(hooks: type, *arguments: Any) -> Any:
        """Make an unpickler with the methods of the class hooks and these arguments."""
        return _mixed(hooks, pickle.Unpickler)(*arguments)

    def dump(self, values: Mapping[str, Any], known: Mapping[int, str]) -> bytes:
        """The values as bytes. known: names of objects kept elsewhere, by id, so that they stay the same objects.

        Raises NotCapturedError, naming it, for a value that cannot be saved, or that pickle saves only in part.
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
        """The values that dump wrote. known: objects kept elsewhere, by name. Raises NotCapturedError on failure."""
        size = int.from_bytes(data[:8], "little")
        buffer = io.BytesIO(data[8 + size :])
        values: dict[str, Any] = {}
        try:
            listed = pickle.loads(data[8 : 8 + size])  # noqa: S301 - the user has passed trust=True
            unpickler = _Unpickler(buffer, _values_of(listed), known)
            while buffer.tell() < len(data) - 8 - size:
                name, value = unpickler.load()
                values[name] = value
        except Exception as error:
            raise NotCapturedError(f"the pickled values cannot be loaded: {error}") from error
        return values

    def ensure_loads(self, values: Mapping[str, Any], elsewhere: Mapping[str, Any]) -> None:
        """Raise NotCapturedError, naming it, for a value that can be dumped but not loaded.

        elsewhere: objects that are not dumped, by name. Without this check the failure would appear only when a
        recording is needed.
        """
        known = {id(value_elsewhere): name for name, value_elsewhere in elsewhere.items()}
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
    """The values that a pickler wrote by content; see _Pickler.values."""
    values: list[Any] = []
    for entry in listed:
        match entry:
            case (bytes(encoded),):
                values.append(decode_value(encoded))
            case [kind, bytes(text)] if kind == _DTYPE:
                values.append(np.dtype(text.decode()))
            case [kind, bytes(inner), bytes(pickled)] if kind == _PICKLE:
                values.append(_loaded(inner, pickled))
            case [kind, list(elements)]:
                members = [_loaded(*element) for element in elements]
                values.append(set(members) if kind == _SET else frozenset(members))
            case _:
                values.append(entry)
    return values


def _loaded(listed: bytes, pickled: bytes) -> Any:
    values = _values_of(pickle.loads(listed))  # noqa: S301 - the user has passed trust=True
    return _Unpickler(io.BytesIO(pickled), values, {}).load()


class _Pickler(pickle.Pickler):
    """A pickler that keeps one memory for all values, so that objects shared by two attributes stay shared.

    Attributes:
        name: of the present value, for messages.
        values: the values that are written by content, in the order of their numbers: texts as they are; other values
            of values.py as their bytes, each in a tuple; dtypes and values that only pickle writes as lists, see
            _values_of.
    """

    def __init__(self, buffer: io.BytesIO, known: Mapping[int, str], *, alone: bool = False) -> None:
        """alone: for one immutable value, in which nothing is shared."""
        super().__init__(buffer, protocol=5)
        self.fast = alone  # Without memory: equal parts give equal bytes, whether they are one object or two.
        self._known = known
        self._alone = alone
        self._numbers: dict[Any, int] = {}  # By text, or by the bytes of other values in a tuple.
        self._sets: dict[int, int] = {}  # By id: a set is mutable, so that each set is a separate object.
        self.values: list[Any] = []
        self.name = ""

    def persistent_id(self, obj: Any) -> Any:
        """The number of a value that is written by content, a negative number for an object kept elsewhere, or None.

        Raises NotCapturedError for an object that pickle keeps only in part.
        """
        kind = type(obj)
        if kind in _BY_VALUE:
            return None
        if kind in _TEXTS:
            return self._number(obj)
        if kind in _MUTABLE:  # Most objects: the checks below are skipped.
            return -1 - self._number(self._known[id(obj)]) if id(obj) in self._known else None
        if isinstance(obj, _BY_NAME):
            return None
        if is_immutable(obj):
            return self._number((encode_value(obj),))
        if id(obj) in self._known:
            return -1 - self._number(self._known[id(obj)])
        if isinstance(obj, np.dtype) and _is_named_by_its_text(obj):
            return self._number((_DTYPE, obj.str), [_DTYPE, obj.str.encode()])
        if kind is set or kind is frozenset:
            return self._number_of_set(obj)
        if _is_value(obj):
            return None if self._alone else self._number_of_pickle(obj)
        if keeps_only_arguments(obj):
            raise NotCapturedError(
                f"{self.name}: pickling a {kind.__qualname__} keeps only the arguments that it was made with "
                "(EzPickle), not its state: record an environment itself, or with level='inputs_only'"
            )
        return None

    def _number(self, content: Any, listed: Any = None) -> int:
        """The number of a content. listed: its form in the list of values; by default the content."""
        number = self._numbers.get(content)
        if number is None:
            number = self._numbers[content] = len(self.values)
            self.values.append(content if listed is None else listed)
        return number

    def _number_of_pickle(self, value: Any) -> int:
        """The number of an immutable value, by its bytes when it is pickled alone."""
        listed, pickled = self._pickled_alone(value)
        return self._number((_PICKLE, listed, pickled), [_PICKLE, listed, pickled])

    def _pickled_alone(self, value: Any) -> tuple[bytes, bytes]:
        """The listed values and the bytes of an immutable value that is pickled alone."""
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, {}, alone=True)
        pickler.name = self.name
        pickler.dump(value)
        return pickle.dumps(pickler.values, protocol=5), buffer.getvalue()

    def _number_of_set(self, elements: set[Any] | frozenset[Any]) -> int | None:
        """The number of a set, whose elements are written in the order of their bytes; None for at most one element.

        Raises NotCapturedError for a set of objects, whose order differs in each process.
        """
        number = self._sets.get(id(elements))
        if number is not None:
            return number
        if type(elements) is set and all(map(is_immutable, elements)):
            listed: Any = (encode_value(elements),)
        elif all(map(_is_value, elements)):
            members = sorted(map(self._pickled_alone, elements))
            if type(elements) is frozenset:
                return self._number((_FROZENSET, *members), [_FROZENSET, list(map(list, members))])
            listed = [_SET, list(map(list, members))]
        elif len(elements) > 1:
            kinds = ", ".join(sorted({type(element).__qualname__ for element in elements if not _is_value(element)}))
            raise NotCapturedError(
                f"{self.name}: a {type(elements).__name__} of {kinds} has a different order after each load: "
                "keep the elements in a list, or as the keys of a dict"
            )
        else:
            return None
        number = self._sets[id(elements)] = len(self.values)
        self.values.append(listed)
        return number


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, values: list[Any], known: Mapping[str, Any]) -> None:
        super().__init__(buffer)
        self._values = values
        self._known = known

    def persistent_load(self, pid: Any) -> Any:
        """The value of this number, or for a negative number the object whose name is the text of that number."""
        return self._values[pid] if pid >= 0 else self._known[self._values[-1 - pid]]


def _is_named_by_its_text(dtype: np.dtype[Any]) -> bool:
    """Return True if np.dtype(dtype.str) is an equal dtype."""
    return dtype.kind in _PLAIN_DTYPE_KINDS and dtype.metadata is None


def _is_value(obj: Any) -> bool:
    """Return True for an immutable object, which any equal object can replace."""
    kind = type(obj)
    if kind in _VALUES or isinstance(obj, (*_BY_NAME, np.dtype)) or is_immutable(obj):
        return True
    if kind is tuple or kind is frozenset:
        return all(map(_is_value, obj))
    if isinstance(obj, tuple):  # A named tuple; with a __dict__ it is mutable.
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
    """Return True if pickling an object keeps only the arguments of its constructor, as with Gymnasium's EzPickle."""
    return any(kind.__name__ == "EzPickle" for kind in type(value).__mro__)


def make_pickler() -> TrustedPickler:
    """Make the pickler, only where the user has passed trust=True."""
    return TrustedPickler()
