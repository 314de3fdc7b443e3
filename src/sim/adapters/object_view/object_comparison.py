"""Compare the objects of two states by their paths: values, order, and which paths lead to one object.

An object of one state and an object of the other count as one where both states number them alike, and their values do
not contradict that. Each difference is a statement about the two states alone, and true for any way to pair them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import attrs
import numpy as np

from sim.adapters.object_view.array_comparison import array_differences
from sim.adapters.object_view.documents import DocumentTree, read_documents, written
from sim.adapters.object_view.object_pairs import ObjectPairs, Side, are_equal, likeness, opened
from sim.adapters.object_view.object_tree import ObjectTree
from sim.adapters.object_view.shown_values import Composite, Ref, ShownPart, Word
from sim.adapters.object_view.value_text import differing_texts, order_texts, shortened, told_apart

PLACE_LENGTH = 3  # A list of so few numbers is rather a place than a queue: its values tell more than their order.
HALF_WIDTH = 55  # Of the text of one value, about.
NAME_WIDTH = 30  # Of the text of an item in an order.
ALIKE_WIDTH = 120  # Of that of an item whose shorter text is that of another one, too.
ABSENT = Word("absent")
SAME, TWO = "the same object", "two objects"
_SIDES: tuple[Side, Side] = (0, 1)


@attrs.frozen
class ObjectDifference:
    """A difference between two states.

    Attributes:
        kind: "value"; "order" of a dict, a set or a list with the same items; "identity" of what two paths lead to;
            "state" of an object whose content is not shown, such as a generator of random numbers; "count" of the
            elements of an array, of which only the first follow; "form" of a text in a standard form, such as JSON, whose
            values are equal.
        path: of the value; "A and B" for an identity, "X in PATH" for an item of a set.
        first, second: of both states, as texts.
        numbers: both values, if they are floats.
    """

    kind: Literal["value", "order", "identity", "state", "count", "form"]
    path: str
    first: str
    second: str
    numbers: tuple[float, float] | None = None

    @property
    def subject(self) -> str:
        """What differs, in a few words."""
        kinds = ("order", "state", "form")
        return f"{self.kind} of {self.path}" if self.kind in kinds else self.path

    def text(self, labels: tuple[str, str]) -> str:
        """The difference in a line. labels: of the two states."""
        if self.kind == "state":
            return f"{self.path}: the state of {self.first} differs"
        if self.kind == "count":
            return f"{self.path}: {self.first} differ"
        if self.kind == "form":
            what = f"{self.path}: all values in this text are equal, it is only written in another way"
            return f"{what}: {labels[0]} {self.first}, {labels[1]} {self.second}"
        separator = ";" if self.kind == "order" else ","
        return f"{self.subject}: {labels[0]} {self.first}{separator} {labels[1]} {self.second}"


@attrs.frozen
class _Pair:
    """What two states have at corresponding paths, which differ inside a list with another order."""

    paths: tuple[str, str]
    values: tuple[Any, Any]


Tree = ObjectTree | DocumentTree


def object_differences(first: ObjectTree, second: ObjectTree, elements: int) -> Iterator[ObjectDifference]:
    """The differences between two states, outermost objects first. elements: of each array, at most.

    Raises ValueError, LookupError, TypeError, RecursionError or OverflowError for a malformed state.
    """
    return _Comparison(first, second, elements).run()


def document_differences(path: str, one: Any, two: Any, elements: int) -> Iterator[ObjectDifference] | None:
    """The differences between two texts, by the paths of the values in them. path: of the text.

    None unless both are documents in one standard form, and not equal: see read_documents.
    """
    read = read_documents(one, two)
    if read is None:
        return None
    first, second = (DocumentTree([ShownPart(path, "", value)]) for value in read)
    return _or_form(_Comparison(first, second, elements).run(), path, one, two)


def _or_form(differences: Iterator[ObjectDifference], path: str, one: Any, two: Any) -> Iterator[ObjectDifference]:
    """The differences; without any, where the texts differ."""
    is_equal = True
    for difference in differences:
        is_equal = False
        yield difference
    if is_equal:
        yield ObjectDifference("form", path, *differing_texts(written(one), written(two)))


class _Comparison:
    def __init__(self, first: Tree, second: Tree, elements: int) -> None:
        self._trees = (first, second)
        self._elements = elements
        self._pairs = ObjectPairs(first, second)
        self._waiting: deque[_Pair] = deque()
        self._sets: deque[tuple[_Pair, Composite, Composite]] = deque()  # Compared when their elements have partners.

    def run(self) -> Iterator[ObjectDifference]:
        for name, ref in self._trees[0].outermost.items():  # An object in them may refer to them.
            if name in self._trees[1].outermost:
                self._pairs.add(ref, self._trees[1].outermost[name])
        self._add_entries(("", ""), [self._trees[0].entries, self._trees[1].entries])
        while self._waiting or self._sets:
            if self._waiting:
                yield from self._compare(self._waiting.popleft())
            else:
                pair, one, two = self._sets.popleft()
                yield from _placed(pair, self._compare_sets(pair, one, two))

    def _add_entries(self, paths: tuple[str, str], entries: Sequence[Sequence[ShownPart]]) -> None:
        """Have the entries of two objects compared, by their steps."""
        mine, theirs = ({entry.step: entry.value for entry in one} for one in entries)
        for step in {**mine, **theirs}:
            values = mine.get(step, ABSENT), theirs.get(step, ABSENT)
            self._waiting.append(_Pair((f"{paths[0]}{step}", f"{paths[1]}{step}"), values))

    def _compare(self, pair: _Pair) -> Iterator[ObjectDifference]:
        one, two = pair.values
        if isinstance(one, Ref) and isinstance(two, Ref):
            if self._pairs.has(one, two):
                return
            if not self._pairs.are_one(one, two):
                yield from _placed(pair, self._other_object(pair))
                return
            self._pairs.add(one, two)
            known = self._trees[0].path_of(one) or pair.paths[0], self._trees[1].path_of(two) or pair.paths[1]
            pair = attrs.evolve(pair, paths=known)
        yield from _placed(pair, self._compare_values(pair, one, two))

    # --- values

    def _compare_values(self, pair: _Pair, one: Any, two: Any) -> Iterator[ObjectDifference]:
        one, two = opened(one), opened(two)
        may_be_text = type(one) is type(two) and type(one) in (str, bytes, np.ndarray)
        of_texts = document_differences(pair.paths[0], one, two, self._elements) if may_be_text else None
        if of_texts is not None:
            yield from of_texts
            return
        if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
            for kind, path, texts, numbers in array_differences(pair.paths[0], one, two, self._elements):
                yield ObjectDifference(kind, path, *texts, numbers)
            return
        if not (isinstance(one, Composite) and isinstance(two, Composite)):
            if not are_equal(one, two):
                yield self._value_difference(pair)
            return
        if one.title != two.title or one.opening != two.opening:
            yield self._value_difference(pair)
            return
        if one.is_set:
            self._sets.append((pair, one, two))
        elif one.is_dict:
            yield from self._compare_order(pair, _keyed(one), _keyed(two))
            self._add_entries(pair.paths, [_keyed(one), _keyed(two)])
        elif one.is_list:
            yield from self._compare_lists(pair, one.entries, two.entries, is_tuple=one.opening == "(")
        else:
            self._add_entries(pair.paths, [one.entries, two.entries])
            if one.hidden != two.hidden:
                yield ObjectDifference("state", pair.paths[0], f"{one.title}{one.closing}", f"{two.title}{two.closing}")

    def _value_difference(self, pair: _Pair) -> ObjectDifference:
        if all(isinstance(value, Word) for value in pair.values) and pair.values[0].text == pair.values[1].text:
            return ObjectDifference("state", pair.paths[0], pair.values[0].text, pair.values[1].text)
        numbers = pair.values if all(isinstance(value, float) for value in pair.values) else None
        if all(type(value) is type(pair.values[0]) and isinstance(value, str | bytes) for value in pair.values):
            return ObjectDifference("value", pair.paths[0], *differing_texts(*pair.values))
        texts = told_apart([self._text(pair, side) for side in _SIDES], pair.values)
        return ObjectDifference("value", pair.paths[0], *texts, numbers)

    def _text(self, pair: _Pair, side: Side, width: int = HALF_WIDTH) -> str:
        return shortened(pair.values[side], pair.paths[side], self._trees[side].elsewhere_than, width)[0]

    def _place_text(self, pair: _Pair, side: Side) -> str:
        """Another path to an object, if there is one, else the object."""
        tree, ref = self._trees[side], pair.values[side]
        return tree.elsewhere_than(ref, pair.paths[side]) or tree.other_path_of(ref) or self._text(pair, side)

    # --- order

    def _compare_order(
        self, pair: _Pair, one: Sequence[ShownPart], two: Sequence[ShownPart]
    ) -> Iterator[ObjectDifference]:
        """Compare the order of the keys that both have."""
        steps = [[entry.step for entry in entries] for entries in (one, two)]
        if steps[0] == steps[1]:
            return
        sets = [set(side) for side in steps]
        common = [[step for step in side if step in sets[0] and step in sets[1]] for side in steps]
        if common[0] != common[1]:
            yield _order(pair, [_key_name(step) for step in common[0]], *common)

    def _compare_lists(
        self, pair: _Pair, one: Sequence[ShownPart], two: Sequence[ShownPart], *, is_tuple: bool
    ) -> Iterator[ObjectDifference]:
        values = [entry.value for entry in one]
        is_place = not any(isinstance(value, Ref) for value in values) and (
            is_tuple or (len(one) <= PLACE_LENGTH and not any(isinstance(value, str) for value in values))
        )
        places = None if is_place else self._permutation(values, [entry.value for entry in two])
        if places is None:
            self._add_entries(pair.paths, [one, two])
            return
        matched = [(entry, two[place]) for entry, place in zip(one, places, strict=True)]
        for mine, theirs in matched:
            paths = f"{pair.paths[0]}{mine.step}", f"{pair.paths[1]}{theirs.step}"
            self._waiting.append(_Pair(paths, (mine.value, theirs.value)))
        yield self._order_difference(pair, one, sorted(range(len(places)), key=places.__getitem__))

    def _order_difference(self, pair: _Pair, entries: Sequence[ShownPart], order: Sequence[int]) -> ObjectDifference:
        """order: of the second state, by the places of the items in the first one."""
        names = [self._item_name(0, entry.value) for entry in entries]
        if [names[place] for place in order] == names:
            names = [self._item_name(0, entry.value, ALIKE_WIDTH) for entry in entries]
        return ObjectDifference("order", pair.paths[0], *order_texts(names, order))

    def _item_name(self, side: Side, value: Any, width: int = NAME_WIDTH) -> str:
        """An item by its values, not by its place."""
        elsewhere = self._trees[side].elsewhere_than
        return shortened(value, "", lambda ref, path: elsewhere(ref, path) if path else None, width, 1)[0]

    def _permutation(self, one: list[Any], two: list[Any]) -> list[int] | None:
        """The place of each item in the second list, if that has the same items in another order."""
        if len(one) != len(two) or len(one) < 2:
            return None
        if all(isinstance(value, Ref) for value in (*one, *two)):
            return self._permutation_of_objects(one, two)
        if any(isinstance(value, Ref | Composite | np.ndarray | Word) for value in (*one, *two)):
            return None
        keys = [[repr(value) for value in side] for side in (one, two)]
        if keys[0] == keys[1] or sorted(keys[0]) != sorted(keys[1]):
            return None
        if len(set(keys[0])) != len(one):
            # Of few values that occur often, such as the cells of a map, others may have come that happen to be the same ones.
            return None
        places = {key: place for place, key in enumerate(keys[1])}
        return [places[key] for key in keys[0]]

    def _permutation_of_objects(self, one: list[Ref], two: list[Ref]) -> list[int] | None:
        places = self._pairs.places_of(one, two)
        if places is None:
            return None
        moved = [place for place, other in enumerate(places) if other != place]
        alike = [(likeness(one[place], two[places[place]]), likeness(one[place], two[place])) for place in moved]
        # If one is more like what stands in its place, they may only be numbered in another order.
        is_order = all(by_match >= by_place for by_match, by_place in alike)
        return places if is_order and sum(by_match - by_place for by_match, by_place in alike) > 0 else None

    # --- sets

    def _compare_sets(self, pair: _Pair, one: Composite, two: Composite) -> Iterator[ObjectDifference]:
        keys = self._set_keys(one, two)
        by_key = [dict(zip(side, whole.entries, strict=True)) for side, whole in zip(keys, (one, two), strict=True)]
        is_same = True
        for side in _SIDES:
            for key in keys[side]:
                if key not in by_key[1 - side]:
                    is_same = False
                    element = self._item_name(side, by_key[side][key].value)
                    texts = ("present", "absent") if side == 0 else ("absent", "present")
                    yield ObjectDifference("value", f"{element} in {pair.paths[0]}", *texts)
        common = [key for key in keys[0] if key in by_key[1]]
        for key in common:
            mine, theirs = by_key[0][key], by_key[1][key]
            paths = f"{pair.paths[0]}{mine.step}", f"{pair.paths[1]}{theirs.step}"
            self._waiting.append(_Pair(paths, (mine.value, theirs.value)))
        if not (one.has_order and two.has_order):
            return
        others = [key for key in keys[1] if key in by_key[0]]
        if common != others:
            yield _order(pair, [self._item_name(0, by_key[0][key].value) for key in common], common, others)
        elif is_same and one.hidden != two.hidden:
            yield ObjectDifference("state", pair.paths[0], "its table (places of removed elements)", "")

    def _set_keys(self, one: Composite, two: Composite) -> list[list[Any]]:
        """A key of each element of two sets, which is equal for the same element.

        An object without a partner has the key of one of the other set, without a partner too, that is like it.
        """
        pairs = zip(_SIDES, (one, two), strict=True)
        keys = [[self._set_key(side, entry.value) for entry in whole.entries] for side, whole in pairs]
        values = {key: entry.value for key, entry in zip(keys[0], one.entries, strict=True)}
        others = set(keys[1])
        alone = [key for key in values if key not in others]
        for place, entry in enumerate(two.entries):
            if keys[1][place] in values or not isinstance(entry.value, Ref) or not self._pairs.is_free(1, entry.value):
                continue
            alike = [key for key in alone if self._pairs.look_alike(values[key], entry.value)]
            if alike:
                keys[1][place] = alike[0]
                alone.remove(alike[0])
        return keys

    def _set_key(self, side: Side, value: Any) -> Any:
        if isinstance(value, Ref):
            return self._pairs.identity(side, value)
        if isinstance(value, Composite):
            return value.title, value.opening, *(self._set_key(side, entry.value) for entry in value.entries)
        return value if isinstance(value, Word) else (type(value), repr(value))

    # --- identity

    def _other_object(self, pair: _Pair) -> Iterator[ObjectDifference]:
        """A path that leads to objects that do not count as one."""
        for side in _SIDES:
            first = self._pairs.shared_path(side, pair.values, pair.paths)
            if first is not None:
                texts = (SAME, TWO) if side == 0 else (TWO, SAME)
                yield ObjectDifference("identity", f"{first} and {pair.paths[0]}", *texts)
                yield from self._copied_values(pair)
                return
        texts = self._place_text(pair, 0), self._place_text(pair, 1)
        if texts[0] != texts[1]:
            yield ObjectDifference("value", pair.paths[0], *texts)
            return
        elsewhere = [self._trees[side].elsewhere_than(pair.values[side], pair.paths[side]) for side in _SIDES]
        if None in elsewhere:  # Otherwise the difference is named at the path that both lead to.
            yield ObjectDifference("value", pair.paths[0], texts[0], "a different object with these values")

    def _copied_values(self, pair: _Pair) -> Iterator[ObjectDifference]:
        """The plain values in which an object and what stands in its place differ."""
        one, two = opened(pair.values[0]), opened(pair.values[1])
        if not (isinstance(one, Composite) and isinstance(two, Composite)) or one.title != two.title:
            return
        mine, theirs = ({entry.step: entry.value for entry in whole.entries} for whole in (one, two))
        for step in mine:
            values = mine[step], theirs.get(step, ABSENT)
            if not any(isinstance(value, Ref | Composite | np.ndarray) for value in values) and not are_equal(*values):
                yield self._value_difference(_Pair((f"{pair.paths[0]}{step}", f"{pair.paths[1]}{step}"), values))


def _order(pair: _Pair, names: list[str], one: Sequence[Any], two: Sequence[Any]) -> ObjectDifference:
    """The order of what both have. names: of the items of the first one, by which the keys of both are ordered."""
    place = {key: at for at, key in enumerate(one)}
    return ObjectDifference("order", pair.paths[0], *order_texts(names, [place[key] for key in two]))


def _placed(pair: _Pair, differences: Iterator[ObjectDifference]) -> Iterator[ObjectDifference]:
    """The differences with the path in the second state, where an object has another path there."""
    is_moved = pair.paths[0] != pair.paths[1]
    for difference in differences:
        if not is_moved or difference.kind == "identity" or not difference.second:
            yield difference
        else:
            yield attrs.evolve(difference, second=f"{difference.second} at {pair.paths[1]}")


def _keyed(value: Composite) -> list[ShownPart]:
    """The entries of a dict with different steps, also where two keys have one text."""
    seen: Counter[str] = Counter()
    entries = []
    for entry in value.entries:
        seen[entry.step] += 1
        count = seen[entry.step]
        entries.append(entry if count == 1 else attrs.evolve(entry, step=f"{entry.step} ({count})"))
    return entries


def _key_name(step: str) -> str:
    """A key, or the name of an attribute, in an order: a text without its quotes if it is a name."""
    text = step.removeprefix(".") if step.startswith(".") else step[1:-1] if step.endswith("]") else step
    inner = text[1:-1]
    return inner if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and inner.isidentifier() else text
