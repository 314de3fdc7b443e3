"""Iterators over dicts at an exact position, and views of dicts.

An iterator over a dict knows the number of entries that the dict had when it was made, the index of its next entry, and
how many it has left. None of these can be set. So the iterator is made over the dict itself, which for a moment holds as
many other entries, and is advanced; then these entries are removed. It does not notice: it compares the number of entries
when it is next used, and by then the dict has its contents.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from sim.adapters.capture.graph.kinds.kind_protocol import Plain, SpecialKind, StrongKind, held_by, is_a, wrong_data
from sim.adapters.capture.graph.unsavable import UnsavableError

ENTRIES_MAX = 1 << 24


@attrs.frozen
class DictIterator(StrongKind):
    """An iterator over the keys, values or items of a dict.

    Attributes:
        name: of the kind.
        start: makes the iterator.
    """

    name: str
    start: Callable[[dict[Any, Any]], Iterator[Any]]

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The size of the dict and the number of entries left; nothing if the iterator is exhausted.

        Raises UnsavableError if the dict has changed in a way that the iterator notices or would notice.
        """
        walked = next((held for held in held_by(value) if isinstance(held, dict)), None)
        if walked is None:
            return [], ()
        try:
            left = len(value.__reduce__()[1][0])  # A list of the rest, which a copy of the iterator gives.
        except RuntimeError:
            left = -1
        if left != value.__length_hint__():
            raise UnsavableError(
                "an iterator over a dict that has changed since",
                "delete the iterator when it is not used any more, or iterate over list(...) of the dict",
            )
        return [len(walked), left], (walked,)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """An iterator at this position; it is exact once the dict has its contents."""
        match plain, parts:
            case [], []:
                value = self.start({})
                next(value, None)
                return value
            case [int(size), int(left)], [walked] if (
                is_a(walked, dict)
                and not is_a(walked, OrderedDict)
                and type(size) is int
                and type(left) is int
                and 0 <= left <= size <= ENTRIES_MAX
            ):
                contents = dict.copy(walked)
                dict.clear(walked)
                dict.update(walked, dict.fromkeys(range(size)))
                value = self.start(walked)
                for _ in range(size - left):
                    next(value)
                dict.clear(walked)
                dict.update(walked, contents)
                return value
        raise wrong_data(self.name)

    def finish(self, value: Any, plain: Plain, parts: Sequence[Any]) -> None:
        """Check that the dict has as many entries as it should have."""
        if parts and (dict.__len__(parts[0]) != plain[0] or value.__length_hint__() != plain[1]):
            raise wrong_data(self.name)


@attrs.frozen
class DictView(StrongKind):
    """The keys, values or items of a dict."""

    name: str
    owner: type
    start: Callable[[Any], Any]

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The dict."""
        return [], (held_by(value)[0],)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A view of the same dict."""
        match plain, parts:
            case [], [viewed] if is_a(viewed, self.owner):
                return self.start(viewed)
        raise wrong_data(self.name)


_ITERATORS: dict[str, Callable[[dict[Any, Any]], Iterator[Any]]] = {
    "dict_keyiterator": dict.__iter__,
    "dict_valueiterator": lambda walked: iter(dict.values(walked)),
    "dict_itemiterator": lambda walked: iter(dict.items(walked)),
    "dict_reversekeyiterator": dict.__reversed__,
    "dict_reversevalueiterator": lambda walked: reversed(dict.values(walked)),
    "dict_reverseitemiterator": lambda walked: reversed(dict.items(walked)),
}
DICT_ITERATORS: dict[type, SpecialKind] = {
    type(start({})): DictIterator(name, start) for name, start in _ITERATORS.items()
}
DICT_VIEWS: dict[type, SpecialKind] = {
    type(start(owner())): DictView(type(start(owner())).__name__, owner, start)
    for owner in (dict, OrderedDict)
    for start in (owner.keys, owner.values, owner.items)
}
