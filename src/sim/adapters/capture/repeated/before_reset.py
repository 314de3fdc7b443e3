"""The values that a simulation has before a reset, as far as they can be saved: what outlives the reset is among them.

What cannot be saved is left alone, and so is what shares an object with that: a restore makes most objects again, and
would part the two. Each capture is made from the objects alone, so equal values before a reset give equal bytes.
"""

from __future__ import annotations

import enum
import gc
import types
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sim.adapters.capture.captured_state import CapturedState
from sim.adapters.capture.digest.attribute_reader import AttributeReader
from sim.adapters.capture.digest.value_digest import ValueSubject
from sim.adapters.capture.digest.value_tokens import ATOMS
from sim.adapters.capture.graph.names.ignored import ensure_names_match
from sim.adapters.capture.graph.restored.trial_restore import is_restorable
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.known_objects import kept_values
from sim.adapters.capture.native_objects import is_native
from sim.adapters.capture.pickle_protocol import Pickler
from sim.adapters.capture.repeated.outliving import find_compiled_objects
from sim.adapters.capture.survey import LEFT_OUT, Classify, Structure, structure_from_plain
from sim.adapters.capture.values import decode_state, decode_value, encode_state
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.kernel.state import State

_COARSE = ("kept", LEFT_OUT, "clock", "drawing")
_LEFT_ALONE = ("unknown", "fixed")
_ENTANGLED = "it shares an object with something that cannot be saved"
_FINALIZED = "it leads to an object with __del__, which the end of a copy would call"
# Of these a restore gives equal ones, and nothing can tell them from the recorded ones.
_IMMUTABLE = (tuple, frozenset, enum.Enum, np.generic, np.dtype, types.BuiltinFunctionType, types.MethodType)


class PartlyCaptured(CapturedState):
    """The state of some objects without what cannot be saved.

    Attributes:
        reasons: the full names of the attributes that are left alone, each with the path, the type and the reason.
    """

    def __init__(self, layers: Sequence[tuple[str, Any]], classify: Classify, **options: Any) -> None:
        """Set the options of CapturedState."""
        self.reasons: dict[str, str] = {}
        super().__init__(layers, classify, **options)

    def _survey_first(self) -> None:
        while True:
            super()._survey_first()
            reason, apart = _FINALIZED, self._finalized()  # First: no copy of those may be made.
            if not apart:
                reason = _ENTANGLED
                apart = self._entangled() or ([] if self._comes_back() else [full for full, _, _ in self._rest])
            if not apart:
                return
            self.reasons |= dict.fromkeys(apart, reason)
            self._surveyor.unknown |= dict.fromkeys(apart, "")

    def _place_of(self, error: UnsavableError) -> tuple[str, str]:
        name, described = super()._place_of(error)
        self.reasons[name] = described
        return name, ""  # In a set, the first one that is met may be another one in the next process.

    def left_alone(self, *, has_holders: bool = False) -> dict[str, Any]:
        """The present values of the attributes that are left alone, by their full names.

        has_holders: also of those that hold the objects with such attributes.
        """
        names = dict.fromkeys(self.reasons)
        for full in self.reasons if has_holders else ():
            parts = full.split(".")
            names |= dict.fromkeys(".".join(parts[:count]) for count in range(2, len(parts)))
        places = {full: _place_of_name(self.objects, full) for full in names}
        return {full: getattr(holder, name, None) for full, (holder, name) in places.items()}

    def _finalized(self) -> list[str]:
        """The attributes that lead to an object whose class has a method __del__: a connection that it closes."""
        if not self._graph.has_finalizers():
            return []
        known = self._known_names().keys()
        return [
            full
            for full, attributes, name in self._rest
            if any(hasattr(type(one), "__del__") for one in _objects_reached([attributes[name]], known))
        ]

    def _comes_back(self) -> bool:
        """Return True if the values can be restored."""
        if not self._rest:
            return True
        known = {full: attributes[name] for full, attributes, name in self._elsewhere}
        known |= kept_values(self.structure, self.objects) | self.objects
        try:
            return is_restorable(self.state, self._make_graph, known, self._known_names, "the state before a reset")
        except NotCapturedError:
            return False

    def _entangled(self) -> list[str]:
        """The attributes whose objects are made again by a restore, and that something left alone refers to."""
        apart = [
            vars(self.objects[layer])[name]
            for (layer, name), one in self.structure.category_of().items()
            if one.category in _LEFT_ALONE
        ]
        if not apart or not self._rest:
            return []
        known = self._known_names().keys()
        shared = _reached([held for one in apart for held in _held_by(one)], known)
        return [full for full, attributes, name in self._rest if _reached([attributes[name]], known) & shared]


class ValuesBeforeReset:
    """The values before the last reset, and the objects that have them.

    Attributes:
        captured: the last capture.
    """

    def __init__(
        self,
        layers: Sequence[tuple[str, Any]],
        classify: Classify,
        *,
        ignored: Iterable[str] = (),
        pickler: Pickler | None = None,
        home: str = "",
    ) -> None:
        """Capture the present values. The options: see CapturedState; home: see ValueSubject."""
        self._layers = list(layers)
        self._classify = classify
        self._ignored = frozenset(ignored)
        self._pickler = pickler
        self._home = home
        self._readers: dict[type, AttributeReader] = {}
        self.captured = self._capture()

    @property
    def structure(self) -> Structure:
        """The attributes, by what a restore does with them."""
        return self.captured.structure

    def ensure_names_match(self, ignored: Iterable[str]) -> None:
        """Raise ValueError for a name to leave out that no attribute has, also of what cannot be saved."""
        names: dict[type, set[str]] = {}
        for one in _objects_reached([vars(layer) for _, layer in self._layers], ()):
            if hasattr(one, "__dict__"):
                names.setdefault(type(one), set()).update(vars(one))
        layers = dict(self._layers)
        others = [full for full in ignored if not hasattr(*_place_of_name(layers, full))]
        ensure_names_match(others, self.captured.objects | layers, names.items())

    def left_alone(self) -> dict[str, Any]:
        """The values that could not be saved before the last reset, as they are now, by their full names."""
        return self.captured.left_alone()

    def compiled_objects(self) -> dict[str, weakref.ref[Any]]:
        """The objects of unknown C code among these values, by their full names; for SWIG's handles what has them."""
        values = self.left_alone()
        swig = {full.removesuffix(".this"): full for full in values if full.endswith(".this")}
        holders = {name: _place_of_name(self.captured.objects, full)[0] for name, full in swig.items()}
        return find_compiled_objects(values | holders)

    def _capture(self) -> PartlyCaptured:
        try:
            return PartlyCaptured(self._layers, self._classify, ignored=self._ignored, pickler=self._pickler)
        except NotCapturedError:
            if self._pickler is None:
                raise
        return PartlyCaptured(self._layers, self._classify, ignored=self._ignored)

    def take(self) -> bytes:
        """Capture the values."""
        self.captured = self._capture()
        return encode_state(self.captured.state)

    def put(self, content: bytes, reset: Callable[[], None] | None) -> None:
        """Restore the values that take returned.

        reset: makes a reset, after which an instance that never had one has what cannot be saved; None if no reset
        follows. Raises NotCapturedError or ValueError.
        """
        if reset is not None and _lacks(self._capture(), decode_state(content)):
            reset()
        try:
            self._unpack(content)
        except (NotCapturedError, LookupError, ValueError):
            if reset is None:
                raise
            reset()  # There may be classes, and objects without a save, that only a reset brings.
            self._unpack(content)

    def _unpack(self, content: bytes) -> None:
        captured = self._capture()
        apart = captured.left_alone(has_holders=True)
        captured.state = decode_state(content)
        captured.unpack()
        for full, value in apart.items():
            holder, name = _place_of_name(captured.objects, full)
            # A later reset lets go of it as the one before would have. Without it, a world that it is a part of keeps
            # that part for ever.
            if holder is not None and vars(holder).get(name) is None:
                setattr(holder, name, value)
        self.captured = captured

    def subject(self) -> ValueSubject:
        """The objects for a digest of their values: all that can be read, also of what is not saved."""
        left_out: dict[int, set[str]] = {}
        for full in self._ignored:
            holder, name = _place_of_name(dict(self._layers), full)
            left_out.setdefault(id(holder), set()).add(name)
        classify = self._classify

        def excluded(holder: object, name: str) -> bool:
            if name in left_out.get(id(holder), ()):
                return True
            value = getattr(holder, name, None)
            # The walk cannot read a compiled object either, but says so.
            return classify(holder, name, value) in _COARSE and not is_native(value)

        return ValueSubject(dict(self._layers), excluded, home=self._home, readers=self._readers, has_closures=True)


def _lacks(captured: CapturedState, before: State) -> bool:
    """Return True if the objects lack something that was there before the reset and was not saved."""
    structure = structure_from_plain(decode_value(before.blob("structure")))
    present = captured.objects
    return any(
        one.category in _LEFT_ALONE and (of.name not in present or vars(present[of.name]).get(one.name) is None)
        for of in structure.layers
        for one in of.attributes
    )


def _place_of_name(objects: Mapping[str, Any], full: str) -> tuple[Any, str]:
    """The object that has the attribute of this full name now, and the attribute's name; None without such an object."""
    first, _, rest = full.partition(".")
    *between, name = rest.split(".")
    holder = objects.get(first)
    for one in between:
        holder = getattr(holder, one, None)
    return holder, name


def _reached(values: Iterable[Any], known: Iterable[int]) -> set[int]:
    """The identities of the mutable objects that values lead to. known: objects at which the search stops."""
    return set(map(id, _objects_reached(values, known)))


def _objects_reached(values: Iterable[Any], known: Iterable[int]) -> list[Any]:
    """The mutable objects that values lead to."""
    stops = set(known)
    seen: dict[int, Any] = {}  # Alive, so that no identity is used twice.
    found: list[Any] = []
    waiting = list(values)
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if id(one) in seen or id(one) in stops or kind in ATOMS or issubclass(kind, type | types.ModuleType):
            continue
        seen[id(one)] = one
        if not issubclass(kind, (*_IMMUTABLE, types.FunctionType)):
            found.append(one)
        waiting += _held_by(one)
    return found


def _held_by(value: Any) -> list[Any]:
    """What an object refers to; of a function not the globals of its module."""
    if type(value) is types.FunctionType:
        return [*(value.__closure__ or ()), value.__defaults__]
    return gc.get_referents(value)
