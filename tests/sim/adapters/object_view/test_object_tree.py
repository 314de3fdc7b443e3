"""The values of captured objects, read from a state alone, by paths that Python itself understands."""

from __future__ import annotations

import enum
import random
import re
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.adapters import adapt
from sim.adapters.object_view.object_tree import ObjectTree, tree_of
from sim.adapters.object_view.shown_values import Composite, Ref, Word
from sim.kernel.schema import Field, Schema
from sim.kernel.state import Snapshot, State

Point = namedtuple("Point", "x y")  # noqa: PYI024 - a class without annotations is what many games have


class Colour(enum.Enum):
    """A colour."""

    RED = 1


@dataclass
class Unit:
    """A unit that refers to others."""

    name: str
    hp: int = 10
    target: Unit | None = None
    path: list[tuple[int, int]] = field(default_factory=list)


class Pack(list):  # type: ignore[type-arg]
    """A list with an attribute."""


class Slotted:
    """An object without a dict."""

    __slots__ = ("speed",)

    def __init__(self) -> None:
        self.speed = 1.5


class Battle:
    """One of everything."""

    def __init__(self) -> None:
        self.units = [Unit(f"u{number}", number) for number in range(5)]
        self.units[0].target = self.units[3]
        self.units[1].path = [(1, 2), (3, 4)]
        self.by_name = {unit.name: unit for unit in self.units}
        self.first = self.units[0]
        self.leader = Unit("leader")
        self.turn, self.speed, self.is_over, self.winner = 3, -0.0, False, None
        self.large = 1 << 90
        self.place, self.colour, self.half = Point(1, 2), Colour.RED, Fraction(1, 2)
        self.ordered, self.counts = OrderedDict(a=1), Counter("abca")
        self.grouped = defaultdict(list, {(0, 1): [1]})
        self.recent = deque([1, 2], maxlen=3)
        self.pack = Pack([1, 2])
        self.pack.hunger = 4  # type: ignore[attr-defined]
        self.slotted = [Slotted()]
        self.grid, self.grids = np.arange(6).reshape(2, 3), [np.ones(2), np.array(["a"])]
        self.names, self.frozen = {"a", "b"}, frozenset({1})
        self.random, self.generator = random.Random(3), np.random.default_rng(3)
        self.file = Path("a/b")
        self.function, self.method = test_a_state_without_objects_has_no_tree, self.units[0].path.append
        self.loose = [types.SimpleNamespace(depth=2)]
        self.itself = self
        self.table = {number: Unit(f"t{number}") for number in range(900)}  # Large containers are saved apart.

    def step(self, _: Any) -> None:
        """Change something."""
        self.units[2].hp -= 1
        self.turn += 1


def tree_after_step() -> tuple[Battle, ObjectTree]:
    """A battle after a step, and the tree of its state."""
    battle = Battle()
    simulation = adapt(battle)
    simulation.step(None)
    tree = tree_of(simulation.state.snapshot())
    assert tree is not None
    return battle, tree


def leaves(tree: ObjectTree) -> Iterator[tuple[str, Any]]:
    """Each value without parts, by its path; each object once."""
    waiting = [(entry.step, entry.value) for entry in tree.entries]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Ref):
            if tree.path_of(value) != path:
                continue
            value = value.source.composite(value.number)
        if isinstance(value, Composite):
            waiting += [(f"{path}{entry.step}", entry.value) for entry in value.entries]
        elif not isinstance(value, Word):
            yield path, value


def test_each_path_leads_to_the_live_value() -> None:
    """Read by Python from the live object: the value and its type are the same."""
    battle, tree = tree_after_step()
    count = 0
    for path, value in leaves(tree):
        if " element " in path or not path[0].isalpha():
            continue
        live = eval(f"battle.{path}", {"battle": battle})
        assert type(live) is type(value), path
        assert repr(live) == repr(value), path
        count += 1
    assert count > 100


def test_references_have_the_path_of_their_object() -> None:
    """The shortest one, and not that through a dict; an object that only one attribute has is shown there."""
    _, tree = tree_after_step()
    lines = tree.summary()
    assert lines["by_name"] == "{'u0': first, 'u1': units[1], 'u2': units[2], 'u3': units[3], 'u4': units[4]}"
    assert lines["first"] == "Unit(hp=0, name='u0', path=[], target=units[3])"
    assert lines["leader"] == "Unit(hp=10, name='leader', path=[], target=None)"
    assert lines["itself"] == "Battle"
    assert "units[2].hp = 1" in [line.strip() for line in tree.lines_at(*found(tree, "units[2]"), whole=True)]


def found(tree: ObjectTree, path: str) -> tuple[str, Any]:
    """The value at a path."""
    result = tree.find(path)
    assert result is not None, path
    return result


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("place", "Point(1, 2)"),
        ("colour", "Colour.RED"),
        ("half", "Fraction(1, 2)"),
        ("large", str(1 << 90)),
        ("speed", "-0.0"),
        ("ordered", "OrderedDict({'a': 1})"),
        ("counts", "Counter({'a': 2, 'b': 1, 'c': 1})"),
        ("grouped", "defaultdict({(0, 1): [1]})"),
        ("recent", "deque([1, 2])"),
        ("slotted", "[Slotted(speed=1.5)]"),
        ("grid", "array of 2 × 3 int64: [[0 1 2] [3 4 5]]"),
        ("grids", "[array of 2 float64: [1. 1.], array of 1 str32: ['a']]"),
        ("frozen", "frozenset({1})"),
        ("random", "<random.Random>"),
        ("generator", "numpy.random.Generator(PCG64)"),
        ("file", "PosixPath('a/b')"),
        ("loose", "[SimpleNamespace(depth=2)]"),
        ("function", "test_a_state_without_objects_has_no_tree"),
        ("winner", "None"),
    ],
)
def test_the_text_of_each_kind(path: str, text: str) -> None:
    """Close to what Python prints."""
    assert tree_after_step()[1].summary()[path] == text


def test_the_content_and_the_attributes_of_a_derived_list() -> None:
    """Both can be named."""
    _, tree = tree_after_step()
    assert found(tree, "pack[1]")[1] == 2
    assert found(tree, "pack.hunger")[1] == 4
    assert found(tree, "Battle.units[1].path[0]")[0] == "units[1].path[0]"
    assert tree.find("units[9]") is None
    assert tree.find("units[1].hp.x") is None
    assert tree.find("unit") is None


def test_long_attributes_are_cut() -> None:
    """A line for each, the first items of those that do not fit, and all of them on request."""
    _, tree = tree_after_step()
    lines = list(tree.lines())
    at = lines.index("table = {… 900 items}")
    assert lines[at + 1] == "  table[0] = Unit(name='t0', hp=10, target=None, path=[])"
    assert lines[at + 4] == "  … 897 more: --all, or --field 'table'"
    assert len(list(tree.lines(whole=True))) > 900
    assert max(map(len, lines)) < 200


def test_a_value_as_plain_data() -> None:
    """For JSON: an object that is elsewhere is its path."""
    _, tree = tree_after_step()
    assert tree.plain(*found(tree, "by_name")) == {f"u{n}": f"units[{n}]" if n else "first" for n in range(5)}
    assert tree.plain(*found(tree, "units[1]")) == {"name": "u1", "hp": 1, "target": None, "path": [[1, 2], [3, 4]]}
    assert tree.plain(*found(tree, "colour")) == "Colour.RED"


def test_cells_of_the_graph_have_paths() -> None:
    """Each cell of a unit's attributes leads to the attribute."""
    _, tree = tree_after_step()
    field_names = [name for name in tree.fields if re.fullmatch(r"graph\.\d+\.Unit\.cells\.value", name)]
    paths = {tree.path_of_cell(name, index) for name in field_names for index in range(4000)}
    assert {"units[1].hp", "units[2].hp", "units[4].target", "units[4].name"} <= paths
    assert tree.path_of_cell("Battle.turn", 0) is None


def test_a_state_without_objects_has_no_tree() -> None:
    """Nothing is shown of it."""
    assert tree_of(State(Schema(Field("x", "i8"))).snapshot()) is None


@pytest.mark.seldom(0.15)
def test_damaged_states_are_refused_or_shown() -> None:
    """What a tape holds is not trusted: no other error than those that are documented."""
    battle = Battle()
    battle.table.clear()
    whole = adapt(battle).state.snapshot()
    generator = random.Random(5)
    refused = 0
    for _ in range(300):
        arena = whole.arena.copy()
        for _ in range(generator.randrange(1, 4)):
            arena[generator.randrange(len(arena))] ^= 1 << generator.randrange(8)
        try:
            tree = tree_of(Snapshot(whole.layout, arena))
            assert tree is not None
            list(tree.lines(whole=True))
            tree.summary()
        except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
            refused += 1
    assert 0 < refused < 300


class Dice:
    """A generator that is saved as a field of its own, and is in a tuple as well."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)
        self.generators = (self.rng, 7)

    def step(self, _: Any) -> None:
        """Draw."""
        self.rng.random()


def test_a_value_that_is_saved_elsewhere_has_its_name() -> None:
    """Also directly in an attribute that is a tuple."""
    tree = tree_of(adapt(Dice()).state.snapshot())
    assert tree is not None
    assert tree.summary() == {"generators": "(rng, 7)", "rng": "numpy.random.Generator(PCG64)"}


class Arrays:
    """Views of arrays with fields of their own, arrays of objects, and one array under two names."""

    def __init__(self) -> None:
        self.turn, self.units = 0, [{"hp": 3}, {"hp": 4}]
        self.block = np.arange(36.0).reshape(6, 6)
        self.same, self.row, self.turned = self.block, self.block[1], self.block[::-1, ::-2]
        self.diagonal = self.block.reshape(-1)[::7]
        self.layers = [self.block, self.block[2], np.ones((2, 2))]
        self.layers.append(self.layers[2][1])
        self.cells = np.array([[1, None, "x"], [2.5, self.units, self.units[1]]], dtype=object)
        self.columns = np.asfortranarray(self.cells)
        self.single = np.array(7, dtype=object)
        self.chosen = lambda: self.turn

    def step(self, _: Any) -> None:
        """Change something."""
        self.turn += 1
        self.units[1]["hp"] += 1
        self.block += 1


def shown_arrays(path: str, tree: ObjectTree) -> Any:
    """The value at a path; of an array that is shown elsewhere the array."""
    found = tree.find(path)
    assert found is not None
    value = found[1].source.composite(found[1].number) if isinstance(found[1], Ref) else found[1]
    if isinstance(value, Word):
        return value.value
    return value.entries[0].value if isinstance(value, Composite) and not value.entries[0].step else value


@pytest.mark.parametrize("path", ["block", "same", "row", "turned", "diagonal", "layers[0]", "layers[1]", "layers[3]"])
def test_views_of_arrays_have_their_values(path: str) -> None:
    """Of an array with a field of its own, of a view, and of one array under two names."""
    game = Arrays()
    simulation = adapt(game, ignore=["Arrays.chosen"])
    simulation.step(None)
    tree = tree_of(simulation.state.snapshot())
    assert tree is not None
    assert np.array_equal(shown_arrays(path, tree), eval(f"game.{path}"))


def test_arrays_of_objects_have_the_paths_of_their_elements() -> None:
    """Each element by its indices, in any order of memory."""
    simulation = adapt(Arrays(), ignore=["Arrays.chosen"])
    simulation.step(None)
    tree = tree_of(simulation.state.snapshot())
    assert tree is not None
    for name in ("cells", "columns"):
        for path, value in (("[0][0]", 1), ("[0][1]", None), ("[0][2]", "x"), ("[1][0]", 2.5), ("[1][2]['hp']", 5)):
            assert tree.find(f"{name}{path}") == (f"{name}{path}", value)
    assert tree.find("units[1]['hp']") == ("units[1]['hp']", 5)
    assert tree.summary()["cells"] == "array([[1, None, 'x'], [2.5, units, units[1]]])"
    assert tree.summary()["single"] == "array(7)"


def test_one_value_that_cannot_be_shown_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a time zone that this machine does not have, or an array that cannot be made."""

    def refuse(*_: Any) -> Any:
        raise ValueError("not here")

    simulation = adapt(Battle())
    simulation.step(None)
    snapshot = simulation.state.snapshot()
    monkeypatch.setattr("sim.adapters.object_view.graph_reader.make_array", refuse)
    monkeypatch.setattr("sim.adapters.object_view.graph_reader.TreeDecoder.of", refuse)
    tree = tree_of(snapshot)
    assert tree is not None
    assert tree.summary()["half"] == "a value that cannot be shown"
    assert tree.summary()["grids"] == "[<ndarray that cannot be shown>, <ndarray that cannot be shown>]"
    assert tree.find("units[2].hp") == ("units[2].hp", 1)
