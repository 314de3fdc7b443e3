"""Save by pickle what cannot be saved otherwise. The only module that may: it is reached by trust=True alone.

Loading a pickle runs whatever code its bytes say. So nothing here is ever used because a tape says so: whoever opens a
tape with such bytes has to say trust=True, too, and means both the tape and its author.

What is written is the same for equal values: what nobody can change, such as texts, NumPy's numbers and tuples of them,
is shared where it is equal, not where it happens to be one object, which differs between a run that was loaded and one
that was not. Sets of such are written in the order of their elements' bytes, not in that of this process's hashes.
"""

from __future__ import annotations

import functools
import io
import pickle  # noqa: TID251 - the one place for it, see above
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.adapters.capture.values import decode_value, encode_value, is_unchangeable
from sim.adapters.interface.adapter_registry import NotCapturedError

_TEXTS = (str, bytes)
_BY_VALUE = frozenset((int, float, complex, bool, types.NoneType))  # Pickle itself writes each of them anew.


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
            by_content = [decode_value(*one) if type(one) is tuple else one for one in listed]
            unpickler = _Unpickler(buffer, by_content, known)
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


class _Pickler(pickle.Pickler):
    """Goes on from one value to the next with one memory, so that what two attributes share stays shared.

    Attributes:
        name: of the value that is being written.
        values: what is written by its content, in the order of its numbers: texts, and of other values their bytes, each in a tuple of its own.
    """

    def __init__(self, buffer: io.BytesIO, known: Mapping[int, str]) -> None:
        super().__init__(buffer, protocol=5)
        self._known = known
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
        if kind is tuple or kind is frozenset or isinstance(obj, np.generic):
            return self._number((encode_value(obj),)) if is_unchangeable(obj) else None
        if id(obj) in self._known:
            return -1 - self._number(self._known[id(obj)])
        if kind is set and all(map(is_unchangeable, obj)):
            return self._number_of_set(obj)
        if keeps_only_arguments(obj):
            raise NotCapturedError(
                f"{self.name}: pickling a {kind.__qualname__} keeps only the arguments that it was made with "
                "(EzPickle), not its state: choose level='inputs_only'"
            )
        return None

    def _number(self, content: Any) -> int:
        number = self._numbers.get(content)
        if number is None:
            number = self._numbers[content] = len(self.values)
            self.values.append(content)
        return number

    def _number_of_set(self, found: set[Any]) -> int:
        number = self._sets.get(id(found))
        if number is None:
            number = self._sets[id(found)] = len(self.values)
            self.values.append((encode_value(found),))
        return number


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, values: list[Any], known: Mapping[str, Any]) -> None:
        super().__init__(buffer)
        self._values = values
        self._known = known

    def persistent_load(self, pid: Any) -> Any:
        """The value of this number, or what has the text of that number as its name."""
        return self._values[pid] if pid >= 0 else self._known[self._values[-1 - pid]]


def keeps_only_arguments(value: Any) -> bool:
    """Whether pickling an object keeps only its constructor's arguments, as Gymnasium's EzPickle does."""
    return any(kind.__name__ == "EzPickle" for kind in type(value).__mro__)


def make_pickler() -> TrustedPickler:
    """For where the user has said trust=True, and nowhere else."""
    return TrustedPickler()
