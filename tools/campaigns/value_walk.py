"""Describe the values of any Python object canonically: equal values give equal texts, in every process.

This is the independent judge of the campaign environments.py: it shares no code with the capture that it judges, reads
only what ``__dict__``, ``__slots__`` and the containers hold, calls no method of the walked objects, and changes nothing.

    Values are told apart by type: 1, True, 1.0 and -0.0 are four values.
    A mutable value that was already visited is written as a reference to its first place, so aliasing counts, as does
    memory that two arrays share.
    Sets of numbers, and of tuples of numbers, are written in their order of iteration: it does not depend on the hash seed.
    All other sets are sorted by the texts of their members, of objects by their plain attributes.
    Drawings, spaces and specs count as None: no step reads them. Values of functools.cached_property are left out: they
    appear when they are first read. What cannot be looked into is written as its class; ``Walk.opaque`` names these
    classes, because differences inside them stay unseen.
"""

from __future__ import annotations

import collections
import enum
import functools
import hashlib
import random
import struct
import types
import weakref
from typing import Any

import numpy as np

_PLAIN = (type(None), bool, int, str, bytes, complex)
_DRAWING_PACKAGES = {"pygame", "PIL", "OpenGL", "glfw", "matplotlib", "pyglet", "cv2", "moderngl"}
_KEPT_CLASSES = {"EnvSpec", "MujocoRenderer", "WrapperSpec"}
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
_MJDATA = ("time", "qpos", "qvel", "act", "ctrl", "qacc_warmstart", "qacc", "xpos", "xquat", "cvel", "sensordata",
           "mocap_pos", "mocap_quat", "qfrc_applied", "xfrc_applied", "userdata", "eq_active", "cfrc_ext", "cinert")  # fmt: skip
_MJMODEL = ("body_pos", "body_quat", "body_mass", "geom_pos", "geom_size", "geom_friction", "site_pos", "dof_damping",
            "dof_armature", "jnt_range", "actuator_gainprm", "actuator_biasprm")  # fmt: skip
_B2BODY = ("position", "angle", "linearVelocity", "angularVelocity", "awake")


class Walk:
    """The walk over one object and everything that it reaches.

    Attributes:
        parts: by the name of an attribute of the root, the texts of its values.
        opaque: the names of classes that were not looked into.
    """

    def __init__(self, roots: dict[str, object], skipped: frozenset[str] = frozenset()) -> None:
        """Walk all attributes.

        roots: objects by name. skipped: attributes to leave out, with the root's name or, at any depth, without.
        """
        self._skipped = skipped
        self.parts: dict[str, list[str]] = {}
        self.opaque: set[str] = set()
        self._seen: dict[int, str] = {id(root): f"root {name}" for name, root in roots.items()}
        self._owners: dict[int, str] = {}
        self._kept_alive: list[Any] = []
        self._part = ""
        self._out: list[str] = []
        for name, root in roots.items():
            for attribute, value in sorted(_attributes(root).items()):
                full_name = f"{name}.{attribute}"
                if full_name not in skipped and attribute not in skipped:
                    self._begin(full_name)
                    self._value(value)

    def _begin(self, part: str) -> None:
        self._part, self._out = part, []
        self.parts[part] = self._out

    def digests(self) -> dict[str, str]:
        """A digest for each attribute of the roots."""
        return {name: digest(texts) for name, texts in self.parts.items()}

    def _value(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self._out.append(f"{kind.__name__} {value!r}")
        elif kind is float:
            self._out.append(f"float {struct.pack('<d', value).hex()} {value!r}")
        elif isinstance(value, np.generic):
            self._out.append(f"numpy {value.dtype.str} {value.tobytes().hex()} {value!r}")
        elif isinstance(value, enum.Enum):
            self._out.append(f"enum {kind.__qualname__}.{value.name}")
        elif isinstance(value, _FUNCTIONS):
            self._out.append(
                f"named {getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
            )
        elif isinstance(value, tuple | slice | range) or kind is frozenset:
            self._immutable(value)
        elif _is_drawing(kind):
            self._out.append("NoneType None")
        else:
            self._mutable(value)

    def _immutable(self, value: Any) -> None:
        if isinstance(value, slice | range):
            self._out.append(repr(value))
        elif isinstance(value, frozenset):
            self._set(value)
        else:
            self._sequence(_name(value), value)

    def _mutable(self, value: Any) -> None:
        """Write a value with an identity, or a reference to its first place."""
        first = self._seen.get(id(value))
        if first is not None:
            self._out.append(f"same as {first}")
            return
        self._seen[id(value)] = f"{self._part} #{len(self._out)}"
        self._kept_alive.append(value)  # A temporary object's id could be used again.
        if isinstance(value, np.ndarray):
            self._array(value)
        elif isinstance(value, dict):
            self._mapping(value)
        elif isinstance(value, list | collections.deque):
            self._sequence(_name(value), value)
            self._extras(value, maxlen=getattr(value, "maxlen", None))
        elif isinstance(value, set | frozenset):
            self._set(value)
            self._extras(value)
        else:
            self._object(value)

    def _sequence(self, name: str, values: Any) -> None:
        self._out.append(f"{name} of {len(values)}")
        for value in values:
            self._value(value)

    def _mapping(self, value: dict[Any, Any]) -> None:
        self._out.append(f"{_name(value)} of {len(value)}")
        for key, item in value.items():
            self._value(key)
            self._value(item)
        self._extras(value, default=getattr(value, "default_factory", None))

    def _set(self, values: Any) -> None:
        self._out.append(f"{_name(values)} of {len(values)}")
        if all(map(_is_hash_seed_independent, values)):
            for value in values:
                self._value(value)
            return
        for _, value in sorted(((_sort_key(value), value) for value in values), key=lambda pair: pair[0]):
            self._value(value)

    def _array(self, array: Any) -> None:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        shared = self._owners.setdefault(id(owner), self._seen[id(array)])
        self._kept_alive.append(owner)
        memory = "" if shared == self._seen[id(array)] else f", memory of {shared}"
        self._out.append(f"{_name(array)} {array.dtype.str} {array.shape}{memory}")
        if array.dtype.hasobject:
            for value in array.reshape(-1).tolist():
                self._value(value)
        else:
            content = array.tobytes()
            self._out.append(content.hex() if len(content) <= 64 else hashlib.blake2b(content).hexdigest())

    def _extras(self, value: Any, **more: Any) -> None:
        """The attributes of an object of a subclass of a container."""
        for name, item in sorted({**_attributes(value), **more}.items()):
            if item is not None:
                self._out.append(f".{name}")
                self._value(item)

    def _object(self, value: Any) -> None:
        if type(value).__name__ == "ObservedEmulator":
            value = value.inner  # What is recorded has it in place of the emulator.
        self._out.append(_name(value))
        special = _special(value)
        if special is not None:
            self._value(special)
        elif isinstance(value, types.MethodType):
            self._value(value.__func__)
            self._value(value.__self__)
        elif isinstance(value, weakref.ref):
            self._value(value())
        elif isinstance(value, int | float | str):
            self._out.append(repr(value.real if isinstance(value, int | float) else str.__str__(value)))
            self._extras(value)
        else:
            attributes = _attributes(value)
            if not attributes and not hasattr(type(value), "__slots__") and not hasattr(value, "__dict__"):
                self.opaque.add(_name(value))
            for name, item in sorted(attributes.items()):
                if name not in self._skipped:
                    self._out.append(f".{name}")
                    self._value(item)


def digest(texts: list[str]) -> str:
    """A short digest of texts."""
    return hashlib.blake2b("\n".join(texts).encode("utf-8", "backslashreplace"), digest_size=12).hexdigest()


def texts_of(value: Any) -> list[str]:
    """The texts of one value."""
    return Walk({"result": types.SimpleNamespace(value=value)}).parts["result.value"]


def first_difference(live: list[str], restored: list[str]) -> str:
    """The first texts that differ, with the texts before them."""
    both = enumerate(zip(live, restored, strict=False))
    index = next((index for index, (a, b) in both if a != b), min(len(live), len(restored)))
    before = " ".join(text[:40] for text in live[max(0, index - 4) : index])
    shown = [texts[index][:120] if index < len(texts) else "nothing" for texts in (live, restored)]
    return f"after [{before}] expected {shown[0]}, got {shown[1]}"


def _attributes(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member = (
                f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            )
            if name not in ("__dict__", "__weakref__") and hasattr(value, member):
                found[member] = getattr(value, member)
    kind = type(value)
    for name, item in getattr(value, "__dict__", {}).items():
        if not isinstance(getattr(kind, str(name), None), functools.cached_property):
            found[str(name)] = item
    return found


def _special(value: Any) -> Any:
    """Plain data for objects whose content is not in attributes; None for all others."""
    kind = type(value).__name__
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.BitGenerator):
        return value.state
    if isinstance(value, np.random.RandomState):
        return value.get_state(legacy=False)
    if isinstance(value, functools.partial):
        return (value.func, value.args, value.keywords)
    if isinstance(value, types.MappingProxyType):
        return dict(value)
    if isinstance(value, weakref.WeakKeyDictionary | weakref.WeakValueDictionary):
        return list(value.items())  # Its other attributes tell when it was last cleared of the dead.
    if isinstance(value, weakref.WeakSet):
        return set(value)
    return _native(value, kind, _module(type(value)).partition(".")[0])


def _native(value: Any, kind: str, package: str) -> Any:
    """Plain data for objects of compiled packages that have no attributes; None for all others."""
    if package == "itertools" and kind == "count":
        return repr(value)
    if package == "mujoco" and kind == "MjData":
        return {name: np.array(getattr(value, name)) for name in _MJDATA if hasattr(value, name)}
    if package == "mujoco" and kind == "MjModel":
        return {name: np.array(getattr(value, name)) for name in _MJMODEL}
    if package == "Box2D" and kind == "b2Body":
        return {name: repr(getattr(value, name)) for name in _B2BODY}
    if kind == "ALEInterface":
        return np.array(value.getRAM())
    if package == "pyspiel" and hasattr(value, "history_str"):
        return value.history_str()
    return None


def _is_drawing(kind: type) -> bool:
    is_space = any(_module(base).startswith("gymnasium.spaces") for base in kind.__mro__)
    return is_space or kind.__name__ in _KEPT_CLASSES or _module(kind).partition(".")[0] in _DRAWING_PACKAGES


def _module(kind: type) -> str:
    return str(getattr(kind, "__module__", ""))  # Some classes of SWIG have none.


def _sort_key(member: Any) -> list[str]:
    """The texts that order the members of a set: of an object, those of its plain attributes."""
    if isinstance(member, (*_PLAIN, float, tuple, frozenset, np.generic, enum.Enum, type)):
        return texts_of(member)
    plain = (*_PLAIN, float, np.generic, enum.Enum)
    attributes = [(name, item) for name, item in sorted(_attributes(member).items()) if isinstance(item, plain)]
    return [_name(member), *(text for name, item in attributes for text in (name, *texts_of(item)))]


def _is_hash_seed_independent(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_hash_seed_independent, value))
    return type(value) in (int, float, bool) or isinstance(value, np.number)


def _name(value: Any) -> str:
    return f"{_module(type(value))}.{type(value).__qualname__}"
