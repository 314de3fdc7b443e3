"""Save by pickle what cannot be saved otherwise. The only module that may: it is reached by trust=True alone.

Loading a pickle runs whatever code its bytes say. So nothing here is ever used because a tape says so: whoever opens a
tape with such bytes has to say trust=True, too, and means both the tape and its author.

What is written is the same for equal values: texts and bytes are shared where they are equal, not where they happen to
be one object, which differs between a run that was loaded and one that was not.
"""

from __future__ import annotations

import functools
import io
import pickle  # noqa: TID251 - the one place for it, see above
from collections.abc import Mapping
from typing import Any

from sim.adapters.registry import NotCapturedError

_BY_CONTENT = (str, bytes)


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
        texts = pickle.dumps(list(pickler.texts), protocol=5)
        return len(texts).to_bytes(8, "little") + texts + buffer.getvalue()

    def load(self, data: bytes, known: Mapping[str, Any]) -> dict[str, Any]:
        """The values again. known: what is kept elsewhere, by name. Raises NotCapturedError if they cannot be made."""
        size = int.from_bytes(data[:8], "little")
        buffer = io.BytesIO(data[8 + size :])
        values: dict[str, Any] = {}
        try:
            texts = pickle.loads(data[8 : 8 + size])  # noqa: S301 - the user has said trust=True
            unpickler = _Unpickler(buffer, texts, known)
            while buffer.tell() < len(data) - 8 - size:
                name, value = unpickler.load()
                values[name] = value
        except Exception as error:
            raise NotCapturedError(f"what was pickled cannot be loaded: {error}") from error
        return values


@functools.cache
def _mixed(hooks: type, base: type) -> type:
    return type(hooks.__name__, (hooks, base), {})


class _Pickler(pickle.Pickler):
    """Goes on from one value to the next with one memory, so that what two attributes share stays shared."""

    def __init__(self, buffer: io.BytesIO, known: Mapping[int, str]) -> None:
        super().__init__(buffer, protocol=5)
        self._known = known
        self.texts: dict[Any, int] = {}
        self.name = ""

    def persistent_id(self, obj: Any) -> Any:
        """The number of a text, or a negative one, of the name of what is kept elsewhere; None for all else.

        Raises NotCapturedError for what pickle keeps only in part.
        """
        if type(obj) in _BY_CONTENT:
            return self.texts.setdefault(obj, len(self.texts))
        if id(obj) in self._known:
            return -1 - self.texts.setdefault(self._known[id(obj)], len(self.texts))
        if keeps_only_arguments(obj):
            raise NotCapturedError(
                f"{self.name}: pickling a {type(obj).__qualname__} keeps only the arguments that it was made with "
                "(EzPickle), not its state: choose level='inputs_only'"
            )
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, texts: list[Any], known: Mapping[str, Any]) -> None:
        super().__init__(buffer)
        self._texts = texts
        self._known = known

    def persistent_load(self, pid: Any) -> Any:
        """The text of this number, or what has the text as its name."""
        return self._texts[pid] if pid >= 0 else self._known[self._texts[-1 - pid]]


def keeps_only_arguments(value: Any) -> bool:
    """Whether pickling an object keeps only its constructor's arguments, as Gymnasium's EzPickle does."""
    return any(kind.__name__ == "EzPickle" for kind in type(value).__mro__)


def make_pickler() -> TrustedPickler:
    """For where the user has said trust=True, and nowhere else."""
    return TrustedPickler()
