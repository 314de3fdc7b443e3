"""Write arguments that are objects: of the user's classes, of an enum, dates, and what the recorded object holds itself.

Forms, besides those of values.py:

    ["G", tree]                        an immutable value as the graph of objects writes it (trees.py): a member of an enum, a date
    ["T", class, item, ...]            a named tuple with objects in it
    ["U", key, count, ...]             a Counter
    ["O", class, [names], value, ...]  a new object, by its attributes; none of its code runs when it is made again
    ["P", ["a", name], ["i", 3], ...]  an object that the recorded one holds, by the steps to it (places.py)
    ["P", ["b", name], ...]            the same, by an attribute as it was before the assignments from outside
    ["P", ..., ["m", 0]]               the base of an array that it holds, which has the memory of several views
    ["N", name, bytes]                 an object of a module, by its name there, with what it holds (global_values.py)
    ["N", name]                        the same, inside such an object
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from sim.adapters.capture.arguments.global_values import global_form, global_value
from sim.adapters.capture.arguments.places import Step, leads_to, steps_to, value_at
from sim.adapters.capture.arguments.set_values import set_form, set_value
from sim.adapters.capture.graph.attribute_setters import set_attributes
from sim.adapters.capture.graph.names.attribute_names import names_of, object_dict, read_slowly
from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.graph.names.ignored import ignored_of
from sim.adapters.capture.graph.names.python_class import base_of, in_order, make_shell
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.graph.values.trees import TreeDecoder, TreeEncoder, pack, unpack
from sim.adapters.capture.rng_state import is_generator
from sim.adapters.capture.values import NotPlainError, ValueDecoder, ValueEncoder, is_array

_CONTAINERS: tuple[type, ...] = (list, dict, set, deque, OrderedDict, defaultdict, Counter, bytearray)
_ADVICE = "pass an index, a name or a number in its place"


class Holder(Protocol):
    """What the recorded object holds, as it was captured last.

    Attributes:
        left_out: arrays of which a call that is under way wrote only a part.
    """

    left_out: Sequence[Any]

    def holds_any(self, addresses: set[int]) -> bool | None:
        """Return True for the identity of a mutable value in the object, or several of them, None if that is not known."""

    def may_name_any(self, addresses: set[int]) -> bool:
        """Return True if a module or class may refer to an object with any of these identities by a name."""

    def array_over(self, base: Any) -> Any:
        """The array with a field of its own that alone holds this base, and all of its memory; None without one."""

    def name_of(self, value: Any) -> str | None:
        """The name by which a module or class refers to an object now; None without one."""

    def leading_to(self, value: Any) -> list[Any]:
        """Objects that lead from the object's attributes to a mutable value in it, as far as they are known."""


class ObjectValues:
    """See OtherValues."""

    def __init__(
        self,
        finder: ClassFinder,
        subject: Any = None,
        holder: Holder | None = None,
        *,
        ignored: Collection[str] = (),
        has_changes: bool = False,
        before: Mapping[str, Any] | None = None,
        now: Mapping[str, Any] | None = None,
    ) -> None:
        """finder: of the classes. subject: the recorded object, whose parts are written by the steps to them.

        holder: of what the subject holds. ignored: attributes that are left out, as Class.attribute. has_changes: attributes
        of the subject were assigned from outside since the step before. before: all of them as that step left them; None
        if they are not known. now: as they are after these assignments, where the subject itself is without them.
        """
        self._now = now
        self._finder, self._subject, self._holder = finder, subject, holder
        self._ignored, self._has_changes, self._before = ignored, has_changes, before
        self._trees = TreeEncoder(_NoNodes(), finder)

    def of_changes(self) -> ObjectValues:
        """The same for the values that were assigned: a replay takes the steps to them in the state after the step before."""
        return _OfChanges(
            self._finder, self._subject, self._holder, ignored=self._ignored, has_changes=True, before=self._before
        )

    # --- to forms

    def hold_any(self, addresses: set[int]) -> bool:
        """Return True if the subject holds any mutable value with one of these identities now, or a module may name one."""
        if self._holder is None:
            return False
        if self._holder.may_name_any(addresses):
            return True
        held = self._holder.holds_any(addresses)
        if held is None:
            return leads_to(self._subject, addresses)
        return held or (self._has_changes and leads_to(self._subject, addresses, self._before, self._stops_at()))

    def leave_out(self, owners: Sequence[Any]) -> None:
        """See CallValues."""
        if self._holder is not None:
            self._holder.left_out = owners

    def place(self, value: Any, path: str, encoder: ValueEncoder, depth: int) -> Any:
        """The form of an immutable value, or the steps to a part of the subject; None for any other value.

        Raises NotPlainError for a value that cannot be saved, and for a part to which no steps lead.
        """
        if not _is_container(value):
            try:
                return ["G", pack(self._trees.tree(value, []))]
            except _NodeMetError:
                pass
            except UnsavableError as error:
                raise NotPlainError(path, value, str(error)) from None
        if self._holder is None or isinstance(value, tuple):
            return None
        over = self._holder.array_over(value) if is_array(value) else None
        try:
            steps = self._steps_to(value if over is None else over, self._holder)
        except UnsavableError as error:
            raise NotPlainError(path, value, str(error)) from None
        if steps is not None:
            form = ["P", *([kind, encoder.tree(one, path, depth + 1)] for kind, one in steps)]
            return form if over is None else _base_form(value, over, form, path, encoder)
        name = self._holder.name_of(value)
        return None if name is None else global_form(name, value, path, _InGlobal(self._finder, self._holder))

    def _steps_to(self, value: Any, holder: Holder) -> list[Step] | None:
        """The steps to a value that the subject holds; None for one that is to be written whole. Raises UnsavableError."""
        held = value is self._subject or holder.holds_any({id(value)})
        if held is False:
            # Only what was assigned just now may lead to it.
            stops_at = self._stops_at()
            if not self._has_changes or not leads_to(self._subject, {id(value)}, self._before, stops_at):
                return None
            steps = steps_to(self._subject, value, stops_at=stops_at)
        else:
            steps = steps_to(self._subject, value, holder.leading_to(value) if held else [], self._before)
            if steps is not None and self._before is not None:
                steps = self._from_before(steps, self._before)
            elif steps is None and held is None:
                steps = steps_to(self._subject, value)
        if steps is None and (held is not None or leads_to(self._subject, {id(value)})):
            raise UnsavableError("no attributes, items and keys of the recorded object lead to it", _ADVICE)
        return steps

    def _from_before(self, steps: list[Step], before: Mapping[str, Any]) -> list[Step]:
        """The steps from an attribute as it was before the changes, if it is another value now."""
        if not steps or steps[0][0] != "a":
            return steps
        name = steps[0][1]
        return steps if object_dict(self._subject).get(name) is before[name] else [("b", name), *steps[1:]]

    def _stops_at(self) -> Callable[[Any], bool] | None:
        """True for what the subject held at the last step: nothing new is in it. None if that is not known."""
        holder = self._holder
        if holder is None or self._before is None:
            return None
        return lambda one: holder.holds_any({id(one)}) is True

    def elements(self, value: Any, path: str, encoder: ValueEncoder, depth: int) -> Any:
        """The form of a set or frozenset; None if its sorted elements are enough. Raises NotPlainError."""
        return set_form(value, path, encoder, depth)

    def tree(self, value: Any, path: str, encoder: ValueEncoder, depth: int) -> Any:
        """The form of a mutable value, or of one with mutable ones in it. Raises NotPlainError."""
        cls = type(value)
        try:
            if cls is Counter:
                encoder.enter(value)
                return ["U", *encoder.pairs(value, path, depth)]
            if isinstance(value, tuple) and not getattr(value, "__dict__", None):
                items = [encoder.tree(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(value)]
                return ["T", self._finder.name_of(cls), *items]
            if base_of(cls) is object and not isinstance(value, type):
                return self._object(value, path, encoder, depth)
        except UnsavableError as error:
            raise NotPlainError(path, value, str(error)) from None
        raise NotPlainError(path, value)

    def _object(self, value: Any, path: str, encoder: ValueEncoder, depth: int) -> Any:
        cls = type(value)
        name = self._finder.name_of(cls)
        left_out = ignored_of(cls, self._ignored)
        attributes = in_order(cls, [one for one in names_of(value) if one not in left_out])
        encoder.enter(value)
        parts = zip(attributes, read_slowly(value, attributes), strict=True)
        return ["O", name, attributes, *(encoder.tree(part, f"{path}.{one}", depth + 1) for one, part in parts)]

    # --- from forms

    def value(self, tree: list[Any], decoder: ValueDecoder) -> Any:
        """The value of a form. Raises ValueError, TypeError, LookupError."""
        match tree:
            case ["G", bytes(content)]:
                return TreeDecoder(self._finder, {}, _no_node).of(unpack(content))
            case ["T", str(name), *items]:
                cls = self._finder.find(name)
                if not issubclass(cls, tuple):
                    raise TypeError(f"expected a class derived from tuple, got {name}")
                return tuple.__new__(cls, map(decoder.value, items))
            case ["H" | "F" as letter, table, *items]:
                return set_value(letter, table, items, decoder)
            case ["U", *pairs]:
                return decoder.fill_pairs(Counter(), pairs)
            case ["O", str(name), list(names), *items] if all(isinstance(one, str) for one in names):
                made = decoder.enter(make_shell(self._finder.find(name)))
                set_attributes(made, names, [decoder.value(item) for item in items])
                return made
            case ["P", *steps]:
                taken = [_step(one, decoder) for one in steps]
                attributes = {"a": self._now, "b": self._before or {}}.get(taken[0][0]) if taken else None
                if attributes is None:
                    return value_at(self._subject, taken)
                return value_at(attributes[taken[0][1]], taken[1:])
            case ["N", str(name), bytes(content)]:
                return global_value(self._finder, name, content, _InGlobal(self._finder, self._holder))
        raise ValueError(f"expected a value of a call, got {str(tree)[:40]}")


def _base_form(base: Any, over: Any, form: list[Any], path: str, encoder: ValueEncoder) -> list[Any]:
    """The form of the base of an array, which a restore does not make: a view of the array over it. form: of that array."""
    if not over.flags.c_contiguous:
        raise NotPlainError(path, base, f"it shares the memory of an array whose rows are not in one piece: {_ADVICE}")
    encoder.enter(base)
    return ["v", form, base.dtype.newbyteorder("<").str, list(base.shape), list(base.strides), 0]


def _is_container(value: Any) -> bool:
    return type(value) in _CONTAINERS or is_array(value) or is_generator(value)


class _OfChanges(ObjectValues):
    """Of what was assigned from outside: in a replay, the steps lead through the attributes before."""

    def _steps_to(self, value: Any, holder: Holder) -> list[Step] | None:
        held = value is self._subject or holder.holds_any({id(value)})
        if held is False or (held is None and _is_container(value)):
            return None
        leading = holder.leading_to(value) if held else []
        steps = None if self._before is None else steps_to(self._subject, value, leading, self._before)
        if steps is None and (is_array(value) or is_generator(value)):
            return None  # It has a field of its own, so what was assigned there just now counts as held.
        if steps is None:
            raise UnsavableError("what leads to it may have been assigned from outside since the last step", _ADVICE)
        return steps


class _InGlobal(ObjectValues):
    """Of what an object of a module holds: others of modules by their names alone, and nothing of the recorded object."""

    def __init__(self, finder: ClassFinder, names: Holder | None) -> None:
        """names: gives the names of objects of modules."""
        super().__init__(finder)
        self._names = names

    def place(self, value: Any, path: str, encoder: ValueEncoder, depth: int) -> Any:
        name = None if depth == 0 or self._names is None else self._names.name_of(value)
        return super().place(value, path, encoder, depth) if name is None else ["N", name]

    def value(self, tree: list[Any], decoder: ValueDecoder) -> Any:
        match tree:
            case ["N", str(name)]:
                return self._finder.find_global(name)
        return super().value(tree, decoder)


class _NodeMetError(Exception):
    """A mutable object, which is no immutable value."""


class _NoNodes:
    """Numbers of nodes for values in which there may be none."""

    def number_of(self, value: Any) -> int:
        """Raises _NodeMetError."""
        raise _NodeMetError(value)

    def node_at(self, address: int) -> tuple[int, Any] | None:
        """None: nothing is a node."""
        del address
        return None


def _no_node(number: int) -> Any:
    raise ValueError(f"expected a value without objects, got the number {number} of one")


def _step(plain: Any, decoder: ValueDecoder) -> Step:
    match plain:
        case ["a" | "b" as kind, str(name)]:
            return ("a", name) if kind == "a" else ("b", name)
        case ["i" | "n" as kind, int(place)]:
            return ("i", place) if kind == "i" else ("n", place)
        case ["m", 0]:
            return "m", 0
        case ["k", key]:
            return "k", decoder.value(key)
    raise ValueError(f"expected a step to an object, got {str(plain)[:40]}")
