"""Trees of arrays by the names of their leaves, without JAX; with it, see tests/support/jax_checks.py."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

from sim.adapters import tree_leaves, tree_like


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    mass: Any
    parts: list[Any]
    half: Any = dataclasses.field(init=False, default=0.5)


@attrs.define
class Slotted:
    speed: Any


def a_tree() -> dict[str, Any]:
    return {
        "b": [Pair(np.arange(3), 2), None],
        "a": Frozen(np.float32(1.5), [Slotted(np.zeros((2, 2))), True]),
        7: (1.0, 2j),
    }


def test_each_leaf_has_the_name_of_its_place() -> None:
    """In the order of the keys' texts, whatever the order of the dict."""
    leaves = tree_leaves(a_tree(), "state")
    assert list(leaves) == [
        "state.7.0", "state.7.1", "state.a.mass", "state.a.parts.0.speed", "state.a.parts.1", "state.a.half",
        "state.b.0.left", "state.b.0.right",
    ]  # fmt: skip
    assert leaves["state.b.0.right"].dtype == np.int64
    turned = dict(reversed(a_tree().items()))
    assert list(tree_leaves(turned, "state")) == list(leaves)


def test_a_tree_is_made_again_with_its_classes_and_types() -> None:
    """Also frozen classes, fields that __init__ does not take, numbers of Python, and the order of a dict."""
    tree = a_tree()
    saved = {name: np.array(leaf) + 1 for name, leaf in tree_leaves(tree).items() if name != "tree.a.parts.1"}
    made = tree_like(tree, saved | {"tree.a.parts.1": np.False_})
    assert list(made) == list(tree)
    assert type(made["b"][0]) is Pair
    assert made["b"][0].left.tolist() == [1, 2, 3]
    assert made["b"][0].right == 3
    assert type(made["b"][0].right) is int
    assert made["b"][1] is None
    assert type(made["a"]) is Frozen
    assert (made["a"].mass, made["a"].half) == (2.5, 1.5)
    assert type(made["a"].mass) is np.float32
    assert made["a"].parts[1] is False
    assert made["a"].parts[0].speed.tolist() == [[1, 1], [1, 1]]
    assert made[7] == (2.0, 1 + 2j)
    assert tree["a"].mass == 1.5  # The given tree is not changed.
    assert tree["a"].parts[0].speed.sum() == 0


def test_a_restored_tree_shares_no_memory_with_what_was_saved() -> None:
    """The saved arrays may be views of a state."""
    saved = {"tree": np.zeros(2)}
    made = tree_like(np.zeros(2), saved)
    made[:] = 1
    assert saved["tree"].sum() == 0


class Deep:
    pass


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        (
            {"a": "text"},
            TypeError,
            r"^tree\.a: expected an array or a number as the leaf of a tree, got builtins\.str$",
        ),
        ({"a": {"b": Deep()}}, TypeError, r"^tree\.a\.b: expected an array or a number"),
        ({"a b": 1}, ValueError, r"^'tree\.a b': expected letters, digits"),
        ({"a": {"b": 1}, "a.b": 2}, ValueError, r"^'tree\.a\.b': expected one leaf of this name, got two"),
    ],
)
def test_what_is_no_tree_of_arrays_is_refused_by_its_place(tree: Any, error: type[Exception], message: str) -> None:
    """By name, so that it can be found."""
    with pytest.raises(error, match=message):
        tree_leaves(tree)


def test_a_tree_that_contains_itself_is_refused() -> None:
    """Not by a RecursionError."""
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(TypeError, match="expected a tree of at most 100 levels: it may contain itself"):
        tree_leaves(tree)


def test_leaves_that_do_not_fit_the_tree_are_named() -> None:
    """One too few and one too many."""
    with pytest.raises(KeyError, match=r"tree\.b: expected this leaf among the saved arrays, got tree\.a"):
        tree_like({"a": 1, "b": 2}, {"tree.a": np.int64(1)})
    with pytest.raises(ValueError, match=r"expected a tree with the leaf 'tree\.b', as it was saved, got one without"):
        tree_like({"a": 1}, {"tree.a": np.int64(1), "tree.b": np.int64(1), "other": np.int64(3)})
