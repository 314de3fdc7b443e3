"""Trees of arrays (JAX's pytrees, dicts, named tuples, dataclasses) as one array for each name, for save and load.

``save`` returns ``tree_leaves(self.state)``, and ``load`` sets ``self.state = tree_like(self.state, saved)``. JAX need
not be installed; where it is loaded, its registered classes are taken apart as JAX does.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from sim.kernel.class_names import module_of
from sim.kernel.foreign_arrays import is_foreign_array, kind_of, like, to_numpy

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NUMBERS: dict[Any, str] = {bool: "?", int: "i8", float: "f8", complex: "c16"}
DEPTH_MAX = 100


@attrs.frozen
class _Node:
    """A node of a tree: its children by their names, and the function that makes it again from children."""

    children: list[tuple[str, Any]]
    rebuild: Callable[[list[Any]], Any]


def tree_leaves(tree: Any, name: str = "tree") -> dict[str, Any]:
    """The arrays of a tree by the names of their places, such as ``tree.position`` or ``tree.bodies.0.mass``.

    Numbers become NumPy numbers; arrays of other libraries stay what they are, as ``save`` may return them. Dicts are
    taken in the order of their keys' texts. name: the first part of each name.

    Raises TypeError for a leaf that is neither an array nor a number, ValueError for two leaves of one name or a name
    that a field cannot have.
    """
    leaves: dict[str, Any] = {}
    for full, value in _walk(name, tree, 0):
        if not _NAME.fullmatch(full):
            raise ValueError(f"{full!r}: expected letters, digits, and _ . - in the names of a tree; rename this key")
        if full in leaves:
            raise ValueError(f"{full!r}: expected one leaf of this name, got two; rename one of the keys")
        leaves[full] = _leaf(full, value)
    return leaves


def tree_like(tree: Any, saved: Mapping[str, Any], name: str = "tree") -> Any:
    """A tree like this one, with the saved arrays in the places of its leaves.

    Classes, and the libraries of arrays, are those of the given tree, which is not changed. Raises KeyError, naming the
    leaf, if one is not among the saved arrays; ValueError if saved has others that begin with the name.
    """
    taken: set[str] = set()
    made = _filled(name, tree, saved, taken, 0)
    others = sorted(one for one in saved if (one == name or one.startswith(f"{name}.")) and one not in taken)
    if others:
        raise ValueError(f"expected a tree with the leaf {others[0]!r}, as it was saved, got one without it")
    return made


def _walk(full: str, value: Any, depth: int) -> list[tuple[str, Any]]:
    node = _node_of(full, value, depth)
    if node is None:
        return [(full, value)]
    return [leaf for key, child in node.children for leaf in _walk(f"{full}.{key}", child, depth + 1)]


def _filled(full: str, value: Any, saved: Mapping[str, Any], taken: set[str], depth: int) -> Any:
    node = _node_of(full, value, depth)
    if node is not None:
        return node.rebuild([_filled(f"{full}.{key}", child, saved, taken, depth + 1) for key, child in node.children])
    if full not in saved:
        raise KeyError(f"{full}: expected this leaf among the saved arrays, got {', '.join(sorted(saved)) or 'none'}")
    taken.add(full)
    return _like_leaf(full, value, saved[full])


def _node_of(full: str, value: Any, depth: int) -> _Node | None:
    """The node that a value is; None for a leaf."""
    if depth > DEPTH_MAX:
        raise TypeError(f"{full[:80]}…: expected a tree of at most {DEPTH_MAX} levels: it may contain itself")
    kind = type(value)
    if value is None:
        return _Node([], lambda _: None)
    if isinstance(value, np.ndarray | np.generic) or kind in _NUMBERS or is_foreign_array(value):
        return None
    if kind is dict:
        keys = sorted(value, key=str)  # A tree is the same in each order of its keys.
        return _Node([(str(key), value[key]) for key in keys], lambda made: _in_order_of(value, keys, made))
    if kind in (list, tuple):
        return _Node(_numbered(value), kind)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return _Node(list(zip(kind._fields, value, strict=True)), kind._make)
    return _registered_in_jax(value) or _with_fields(value)


def _in_order_of(present: dict[Any, Any], keys: Sequence[Any], made: Sequence[Any]) -> dict[Any, Any]:
    by_key = dict(zip(keys, made, strict=True))
    return {key: by_key[key] for key in present}


def _numbered(values: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(str(number), value) for number, value in enumerate(values)]


def _registered_in_jax(value: Any) -> _Node | None:
    """The node that JAX takes the value apart into, one level deep; None if its class is not registered there."""
    jax: Any = sys.modules.get("jax")
    if not hasattr(jax, "tree_util"):  # It is not imported, or a different thread is about to.
        return None
    paths, structure = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda one: one is not value)
    if jax.tree_util.treedef_is_leaf(structure):
        return None
    children = [(_key_text(path[0]), child) for path, child in paths]
    return _Node(children, lambda made: jax.tree_util.tree_unflatten(structure, made))


def _key_text(key: Any) -> str:
    """The name in an entry of a path of JAX: of an attribute, a dict's key, an index."""
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _with_fields(value: Any) -> _Node | None:
    """The node of a dataclass or an attrs class."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    elif attrs.has(kind):
        names = [field.name for field in attrs.fields(kind)]
    else:
        return None

    def rebuild(made: list[Any]) -> Any:
        copied = copy.copy(value)
        for name, one in zip(names, made, strict=True):
            object.__setattr__(copied, name, one)  # Also where the class is frozen.
        return copied

    return _Node([(name, getattr(value, name)) for name in names], rebuild)


def _leaf(full: str, value: Any) -> Any:
    kind = type(value)
    if kind in _NUMBERS:
        return np.array(value, _NUMBERS[kind])[()]
    if isinstance(value, np.ndarray | np.generic) or is_foreign_array(value):
        return value
    raise TypeError(
        f"{full}: expected an array or a number as the leaf of a tree, got {module_of(kind)}.{kind.__name__}"
    )


def _like_leaf(full: str, value: Any, saved: Any) -> Any:
    kind = type(value)
    if kind in _NUMBERS:
        return kind(np.asarray(saved).item())
    if is_foreign_array(value):
        if is_foreign_array(saved):
            return saved  # As load got it.
        wanted = kind_of(value)
        return like(value, np.asarray(saved), attrs.evolve(wanted, shape=_shape_in(wanted, value, saved)))
    if isinstance(value, np.generic):
        return np.asarray(saved)[()]
    if is_foreign_array(saved):
        raise TypeError(f"{full}: expected a NumPy array, as in the given tree, got one of {kind_of(saved).library}")
    return np.array(saved)


def _shape_in(kind: Any, value: Any, saved: Any) -> tuple[int, ...]:
    """The shape of the saved array. The data of JAX's keys have more axes than the keys."""
    more = to_numpy(value).ndim - len(kind.shape)
    shape = tuple(np.asarray(saved).shape)
    return shape[: len(shape) - more] if more else shape
