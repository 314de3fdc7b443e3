"""A digest of the values that objects hold, by a walk of its own: the proof that a restored state is the recorded one.

The code that captures attributes must not be used here. A fault of that code would otherwise hide itself.

The walk numbers every mutable object when it is first met, breadth first, and writes one record for each: its kind,
then a token for each value inside. The token of a mutable object is its number, so cycles and shared references count.
Immutable values count by their content only: a tuple that occurs twice equals two equal tuples. The walk needs no
recursion. The folder digest/ has the tokens of immutable values and the contents of each kind of object.

Invariants:
    1. The digest is a function of the values: no address, no hash of a text and no name of a file enters it.
    2. The walk changes nothing. In particular it does not make the ``__dict__`` of an object: a later write to such an
       object takes longer.
    3. An object whose values cannot be read contributes the name of its type, which is listed in ``not_looked_at``.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

import attrs
import numpy as np
import xxhash

from sim.adapters.capture.digest.attribute_reader import AttributeReader
from sim.adapters.capture.digest.tuple_lists import tokens_of_lists
from sim.adapters.capture.digest.value_contents import Excluded, Lookup, ValueContents
from sim.adapters.capture.digest.value_image import ValueImage, ValueRecord, WalkImage
from sim.adapters.capture.digest.value_tokens import ATOMS, all_hash_alike, are_pure, is_compound, is_pure, text_token

# The first byte of a digest, without and with the closures of functions. A change of what is written here or in digest/
# needs other ones.
METHOD, METHOD_WITH_CLOSURES = b"\x01", b"\x02"
_LOCAL_NODES_MAX = 16  # Objects around an element of a set that decide its order among equal ones.
_SETS = (set, frozenset)
_ELEMENT = ", an element"
_TOKEN_BYTES_MAX = 64  # A longer token of a tuple is replaced by its digest: nested tuples would grow exponentially.
_ATOM_TYPES = frozenset(ATOMS)
_LISTS_MIN = 4  # Fewer lists are written as fast one by one.
_MEMO_ITEMS_MIN = 8  # A shorter tuple of atoms is written again faster than it is found.


@attrs.frozen
class ValueDigest:
    """The result of a walk.

    Attributes:
        digest: the method and 16 bytes, equal for equal values.
        not_looked_at: the types of objects whose values are unknown, sorted.
    """

    digest: bytes
    not_looked_at: tuple[str, ...]


@attrs.frozen
class ValueSubject:
    """The objects of one simulation.

    Attributes:
        roots: the outermost objects by name, in a fixed order.
        excluded: called with an object and the name of an attribute; True for an attribute that does not count.
        holders: ids of the objects for which excluded is called; None calls it for all of them.
        home: the module that is written as ".", so that ``__main__:Unit`` equals ``game:Unit``.
        detached: names of roots that hold copies: their arrays share no memory, and they share no object with others.
        readers: what is known of the classes; one dict for all digests of a simulation saves most of the time.
        has_closures: count the variables that a function keeps of the function around it.
    """

    roots: Mapping[str, Any]
    excluded: Excluded | None = None
    holders: Collection[int] | None = None
    home: str = ""
    detached: frozenset[str] = frozenset()
    readers: dict[type, AttributeReader] = attrs.field(factory=dict, repr=False, eq=False)
    has_closures: bool = False


def digest_values(subject: ValueSubject) -> ValueDigest:
    """Walk the values of the subject."""
    whole = xxhash.xxh3_128()
    contents = _contents_for(subject)
    for roots, is_detached in _walks(subject):
        whole.update(_Walk(contents, is_detached=is_detached).run(roots))
    method = METHOD_WITH_CLOSURES if subject.has_closures else METHOD
    return ValueDigest(method + whole.digest(), tuple(sorted(contents.not_looked_at)))


def image_of(subject: ValueSubject) -> ValueImage:
    """The values of the subject, to find the first difference from others later, also in another process."""
    walked = []
    for roots, is_detached in _walks(subject):
        walk = _Walk(_contents_for(subject, has_labels=True), is_detached=is_detached, keeps=True)
        walk.run(roots)
        walked.append(walk.kept())
    return ValueImage(tuple(walked))


def first_difference(ours: ValueSubject, theirs: ValueSubject | ValueImage) -> str | None:
    """The path of the first value that differs, such as "game.units[14].hp"; None if all values are equal."""
    return image_of(ours).difference(theirs if isinstance(theirs, ValueImage) else image_of(theirs))


def _contents_for(subject: ValueSubject, *, has_labels: bool = False) -> ValueContents:
    lookup = Lookup(subject.home)
    return ValueContents(
        lookup,
        subject.excluded,
        holders=subject.holders,
        readers=subject.readers,
        has_labels=has_labels,
        has_closures=subject.has_closures,
    )


def _walks(subject: ValueSubject) -> list[tuple[dict[str, Any], bool]]:
    """The roots of each separate walk, and whether they hold copies."""
    together = {name: root for name, root in subject.roots.items() if name not in subject.detached}
    alone = [({name: root}, True) for name, root in subject.roots.items() if name in subject.detached]
    return [(together, False), *alone]


class _Walk:
    """One walk. The objects met so far are kept alive, so that no id is used twice."""

    def __init__(
        self,
        contents: ValueContents,
        *,
        is_detached: bool,
        keeps: bool = False,
        known: Mapping[int, int] | None = None,
        nodes_max: int = sys.maxsize,
    ) -> None:
        """keeps: keep records and parents, for an image. known: numbers of a walk of which this one is a part."""
        self._contents = contents
        self._is_detached = is_detached
        self._known, self._nodes_max = known, nodes_max
        self._hash = xxhash.xxh3_128()
        self._numbers: dict[int, int] = {}
        self._nodes: list[Any] = []
        self._node_kinds: set[type] = set()  # Types whose instances are always numbered.
        self._tuples: dict[int, tuple[bytes, Any]] = {}
        self._lists_end = 0
        self._unordered: deque[int] = deque()
        self._records: dict[int, ValueRecord] | None = {} if keeps else None
        self._parents: dict[int, tuple[int, str]] = {}

    def run(self, roots: Mapping[str, Any]) -> bytes:
        """Walk everything that the roots reach, and return the digest."""
        self._emit(-1, b"roots" + b"".join(map(text_token, roots)), list(roots.values()), list(roots))
        done = 0
        while True:
            while done < min(len(self._nodes), self._nodes_max):
                run = self._emit_lists(done) if type(self._nodes[done]) is list else 0
                if not run:
                    self._emit_node(done)
                done += run or 1
            if not self._unordered:
                break
            # Last, so that as many of its elements as possible are known by their numbers.
            self._emit_unordered(self._unordered.popleft())
        if not self._is_detached:
            self._emit_shared_memory()
        return self._hash.digest()

    def kept(self) -> WalkImage:
        """What was kept of the walk."""
        assert self._records is not None
        return WalkImage(self._records, self._parents, list(map(id, self._nodes)))

    # --- records

    def _emit_node(self, number: int) -> None:
        value = self._nodes[number]
        if issubclass(type(value), _SETS):
            self._emit_set(number, value)
            return
        head, values, labels = self._contents.of(value)
        if self._records is None:
            tokens = self._tokens(values)
            self._hash.update(b"@%d:%d:%d:%s%s" % (number, len(head), len(tokens), head, b"".join(tokens)))
        else:
            self._emit(number, head, values, labels)

    def _emit_lists(self, first: int) -> int:
        """Write the lists from this node on at once, if there are many, of which none holds an object; return how many."""
        if self._records is not None or first < self._lists_end:
            return 0
        end = next(
            (one for one in range(first, len(self._nodes)) if type(self._nodes[one]) is not list), len(self._nodes)
        )
        self._lists_end = end  # Those that are not written at once are not looked at again.
        end = min(end, self._nodes_max)
        joined = tokens_of_lists(self._nodes[first:end]) if end - first >= _LISTS_MIN else None
        if joined is None:
            return 0
        listed = zip(range(first, end), map(len, self._nodes[first:end]), joined, strict=True)
        self._hash.update(b"".join([b"@%d:4:%d:list%s" % one for one in listed]))
        return end - first

    def _emit(self, number: int, head: bytes, values: Iterable[Any], labels: Sequence[str]) -> None:
        tokens = self._tokens(values) if self._records is None else self._labelled_tokens(number, values, labels)
        self._write(number, head, tokens, labels)

    def _write(self, number: int, head: bytes, tokens: list[bytes], labels: Sequence[str]) -> None:
        if self._records is not None:
            self._records[number] = ValueRecord(head, labels, tokens)
        self._hash.update(b"@%d:%d:%d:%s%s" % (number, len(head), len(tokens), head, b"".join(tokens)))

    def _tokens(self, values: Iterable[Any]) -> list[bytes]:
        tokens: list[bytes] = []
        add, numbers, node_kinds, nodes = tokens.append, self._numbers, self._node_kinds, self._nodes
        for value in values:
            kind = type(value)
            if kind is int:
                add(b"i%x;" % value)
            elif kind in ATOMS:
                add(ATOMS[kind](value))
            elif kind is tuple and len(value) < _MEMO_ITEMS_MIN and _ATOM_TYPES.issuperset(map(type, value)):
                add(_joined(b"", b"t", [ATOMS[type(item)](item) for item in value]))
            elif (number := numbers.get(id(value))) is not None:
                add(b"#%d;" % number)
            elif kind in node_kinds:
                numbers[id(value)] = number = len(nodes)
                nodes.append(value)
                add(b"#%d;" % number)
            else:
                add(self._rare_token(value))
        return tokens

    def _labelled_tokens(self, number: int, values: Iterable[Any], labels: Sequence[str]) -> list[bytes]:
        tokens: list[bytes] = []
        for index, value in enumerate(values):
            first_new = len(self._nodes)
            tokens += self._tokens([value])
            label = labels[index] if labels else f"[{index}]"
            self._parents.update(dict.fromkeys(range(first_new, len(self._nodes)), (number, label)))
        return tokens

    # --- tokens of single values

    def _rare_token(self, value: Any) -> bytes:
        """The token of a value that is neither an atom nor an object with a number."""
        if self._known is not None and (number := self._known.get(id(value))) is not None:
            return b"^%d;" % number
        if is_compound(value):
            return self._compound(value)
        by_value = self._contents.by_value(value)
        if by_value is not None:
            head, parts = by_value
            tokens = self._tokens(parts)
            return b"v%d:%d:" % (len(head), len(tokens)) + head + b"".join(tokens)
        if self._known is None and type(value) is not frozenset:
            self._node_kinds.add(type(value))
        self._numbers[id(value)] = number = len(self._nodes)
        self._nodes.append(value)
        return b"#%d;" % number

    def _compound(self, value: Any) -> bytes:
        """The token of a tuple or of a frozenset of immutable values, without recursion."""
        stack: list[tuple[Any, Any, list[bytes]]] = [(value, iter(value), [])]
        while True:
            holder, items, tokens = stack[-1]
            for item in items:
                if is_compound(item):
                    memo = self._tuples.get(id(item))
                    if memo is None:
                        stack.append((item, iter(item), []))
                        break
                    tokens.append(memo[0])
                else:
                    tokens += self._tokens((item,))
            else:
                stack.pop()
                token = self._joined(holder, tokens)
                if stack or len(tokens) >= _MEMO_ITEMS_MIN:
                    self._tuples[id(holder)] = token, holder
                if not stack:
                    return token
                stack[-1][2].append(token)

    def _joined(self, holder: Any, tokens: list[bytes]) -> bytes:
        letter, kind = b"t", b""
        if isinstance(holder, frozenset):
            letter = b"z"
            if not all_hash_alike(holder):
                tokens.sort()
        if type(holder) is not tuple and type(holder) is not frozenset:
            kind = self._contents.lookup.name(type(holder))
        return _joined(kind, letter, tokens)

    # --- sets

    def _emit_set(self, number: int, value: Any) -> None:
        """Write a set whose elements are immutable at once; leave one with objects for the end of the walk."""
        is_whole = are_pure(value)
        if not is_whole and self._known is None:
            self._unordered.append(number)
            return
        head, attributes = self._contents.of_set(value)
        elements = self._tokens(value if is_whole else [one for one in value if is_pure(one)])
        if not is_whole or not all_hash_alike(value):
            elements.sort()
        tokens = self._tokens(attributes) + elements
        self._write(number, head, tokens, [_ELEMENT] * len(tokens))

    def _emit_unordered(self, number: int) -> None:
        """Write a set of objects, in an order that their values and numbers determine."""
        value = self._nodes[number]
        head, attributes = self._contents.of_set(value)
        elements = [(self._local_digest(one, 1), one) for one in value]
        counts = Counter(key for key, _ in elements)
        keyed = [
            (key, b"" if counts[key] == 1 else self._local_digest(one, _LOCAL_NODES_MAX), place, one)
            for place, (key, one) in enumerate(elements)
        ]
        values = [*attributes, *(one for *_, one in sorted(keyed))]
        self._emit(number, head, values, [_ELEMENT] * len(values))

    def _local_digest(self, element: Any, nodes_max: int) -> bytes:
        """A digest of an element and of up to this many objects around it that have no number yet."""
        number = self._numbers.get(id(element))
        if number is not None:
            return b"%016d" % number
        walk = _Walk(self._contents, is_detached=True, known=self._numbers, nodes_max=nodes_max)
        return b"~" + walk.run({"": element})

    # --- memory

    def _emit_shared_memory(self) -> None:
        """Write which arrays share memory, and where their elements lie in it."""
        groups: dict[int, list[tuple[int, Any]]] = {}
        owners: dict[int, Any] = {}
        for number, value in enumerate(self._nodes):
            if issubclass(type(value), np.ndarray):
                owner = _owner_of(value)
                owners[id(owner)] = owner
                groups.setdefault(id(owner), []).append((number, value))
        for address, arrays in groups.items():
            # The first array that sees all of the memory stands for it: which one owns it, or a hidden base, is no value.
            whole = (number for number, array in arrays if _is_all_of(array, owners[address]))
            holder = next(whole, self._numbers.get(address, -1))
            if len(arrays) == 1 and (holder == -1 or holder == arrays[0][0]):
                continue  # No other array and no other object sees this memory.
            start = _address(arrays[0][1])
            for number, array in arrays:
                place = b"%d %d " % (holder, _address(array) - start) + repr(_strides(array)).encode()
                self._write(number, b"memory", [text_token(place.decode())], ["'s memory"])


def _joined(kind: bytes, letter: bytes, tokens: list[bytes]) -> bytes:
    token = b"%s%d:%d:%s%s" % (letter, len(kind), len(tokens), kind, b"".join(tokens))
    return token if len(token) <= _TOKEN_BYTES_MAX else letter + b"h" + xxhash.xxh3_128_digest(token)


def _owner_of(array: Any) -> Any:
    """The object that owns the memory of an array."""
    owner = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner.obj if isinstance(owner, memoryview) and owner.obj is not None else owner


def _is_all_of(array: Any, owner: Any) -> bool:
    """Return True for an array that holds just the memory of the array that owns it."""
    return isinstance(owner, np.ndarray) and array.flags.c_contiguous and array.nbytes == owner.nbytes


def _strides(array: Any) -> tuple[int, ...]:
    """The strides of an array: along an axis of one item or none, where any is as good, the one of an array of this shape."""
    sizes = accumulate([array.itemsize, *(max(1, length) for length in reversed(array.shape[1:]))], mul)
    own = reversed([*sizes][: array.ndim])
    return tuple(
        one if length < 2 else stride for length, stride, one in zip(array.shape, array.strides, own, strict=True)
    )


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])
