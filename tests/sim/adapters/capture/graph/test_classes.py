"""Classes, functions and named objects are found again by name, and nothing else on the machine is reachable."""

from __future__ import annotations

import enum
import json
import math
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sim.adapters.capture.graph.names.classes import ClassFinder, NotFoundError
from sim.adapters.capture.graph.names.global_names import names_of_globals
from sim.adapters.find_adapter import adapt
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.kernel.simulation import restore

SOURCE = """
import os, enum, functools
from os import environ
from os.path import join
from collections import OrderedDict

class Cell:
    EDGE = [1, 2]
    name = "cell"
    class Inner:
        DEPTHS = {1: 2}
    def act(self):
        return 1
    @staticmethod
    def make():
        return Cell()
    @classmethod
    def other(cls):
        return cls()

class Kind(enum.Enum):
    A = 1

class Game:
    pass

def rule(game):
    return game

def decorate(function):
    @functools.wraps(function)
    def inner():
        return function()
    return inner

@decorate
def wrapped():
    return 1

def local_class():
    class Local:
        pass
    return Local

WALL = Cell()
ALSO_WALL = WALL
FLOORS = [WALL]
SIZE = 5
SHAPE = (1, 2)
anonymous = lambda: 1
"""


HOOKS = """
ASKED = []

def __getattr__(name):
    ASKED.append(name)
    raise AttributeError(name)

class Meta(type):
    def __getattribute__(cls, name):
        if name not in ("__module__", "__qualname__"):
            ASKED.append(name)
        return type.__getattribute__(cls, name)

class Hooked(metaclass=Meta):
    INSIDE = [1]
"""


def module_from(name: str, source: str = SOURCE) -> Any:
    """A module that was imported under this name."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(source, vars(module))
    return module


def _make() -> Any:
    def inner() -> None:
        pass

    return inner


@pytest.fixture
def game() -> Iterator[Any]:
    """A module of one package, with a second one and one of another package next to it."""
    before = set(sys.modules)
    module_from("zoo_of_classes.other")
    module_from("other_zoo.units")
    yield module_from("zoo_of_classes.game")
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_class_is_found_by_its_name(game: Any) -> None:
    """In the module of the subject, in a class, and in another module of the package."""
    finder = ClassFinder(game.Game)
    other = sys.modules["zoo_of_classes.other"]
    for cls, name in (
        (game.Game, ".:Game"),
        (game.Cell.Inner, ".:Cell.Inner"),
        (other.Cell, "zoo_of_classes.other:Cell"),
    ):
        assert finder.name_of(cls) == name
        assert finder.find(name) is cls


def test_a_script_and_the_same_file_imported_give_equal_names(game: Any) -> None:
    """The module of the subject has no name."""
    script = module_from("a_script_of_classes")
    one, other = ClassFinder(game.Game), ClassFinder(script.Game)

    assert one.name_of(game.Cell) == other.name_of(script.Cell)
    assert other.find(one.name_of(game.Cell)) is script.Cell
    assert one.name_of_function(game.rule) == other.name_of_function(script.rule)


def test_only_definitions_in_packages_of_registered_classes_are_found(game: Any) -> None:
    """No imported name, no other package, no standard library, nothing that is not imported, nothing hidden."""
    finder = ClassFinder(game.Game)
    for name in (
        "other_zoo.units:Cell", "os:_Environ", "builtins:type", ".:OrderedDict", "collections:OrderedDict", ".:WALL",
        ".:rule", ".:os", ".:os.PathLike", ".:", "", ":", ".", "zoo_of_classes.missing:Cell", ".:Cell.act", ".:Cell.missing",
        ".:Cell.act.__globals__", ".:Game.__class__", ".:SIZE.real", ".:Cell.__dict__", "xml.dom:Node", ".:__builtins__",
        "zoo_of_classes:Game", ".:Cell..Inner", "subprocess:Popen",
    ):  # fmt: skip
        with pytest.raises(NotFoundError, match=r"\Aexpected .*\Z"):
            finder.find(name)
    for name in (
        ".:environ",
        ".:join",
        ".:os.system",
        "os:system",
        ".:Cell",
        ".:anonymous",
        ".:Cell.name",
        ".:WALL.act",
    ):
        with pytest.raises(NotFoundError, match=r"\Aexpected .*\Z"):
            finder.find_function(name)
    for name in (
        ".:os",
        ".:Cell",
        ".:rule",
        ".:SIZE",
        ".:SHAPE",
        "os:environ",
        ".:__builtins__",
        ".:Cell.name",
        ".:Cell.make",
    ):
        with pytest.raises(NotFoundError, match=r"\Aexpected .*\Z"):
            finder.find_global(name)


def test_a_registered_class_is_found_with_its_package(game: Any) -> None:
    """The user's own object refers to it; also one that is defined in a function."""
    finder = ClassFinder(game.Game)
    units = sys.modules["other_zoo.units"]
    local = game.local_class()
    finder.register(units.Cell)
    finder.register(local)

    assert finder.find(finder.name_of(units.Game)) is units.Game
    assert finder.find(finder.name_of(local)) is local
    with pytest.raises(TypeError, match="Local is defined in a function"):
        finder.name_of(game.local_class())


def test_a_class_of_the_standard_library_is_found_alone(game: Any) -> None:
    """Its package does not become reachable."""
    from argparse import ArgumentParser, Namespace

    finder = ClassFinder(game.Game)
    finder.register(Namespace)

    assert finder.find(finder.name_of(Namespace)) is Namespace
    with pytest.raises(TypeError, match=r"argparse.ArgumentParser is of a package that the object did not refer to"):
        finder.name_of(ArgumentParser)
    with pytest.raises(NotFoundError):
        finder.find("argparse:ArgumentParser")


def test_a_class_that_cannot_be_found_again_is_refused(game: Any) -> None:
    """Defined in a function, deleted, replaced, renamed: each message says what to do."""
    finder = ClassFinder(game.Game)
    local, cell, inner = game.local_class(), game.Cell, game.Cell.Inner
    with pytest.raises(TypeError, match=r"Local is defined in a function.*: define it at the top level of its module"):
        finder.name_of(local)
    del game.Cell
    with pytest.raises(TypeError, match=r"game.Cell cannot be found by this name: keep it at the top level"):
        finder.name_of(cell)
    with pytest.raises(TypeError, match=r"Cell.Inner cannot be found"):
        finder.name_of(inner)
    game.Cell = type("Cell", (), {"__module__": game.__name__})
    with pytest.raises(
        TypeError, match="is not the one that has this name now: make the objects again after the class"
    ):
        finder.name_of(cell)


def test_functions_are_found_by_their_names(game: Any) -> None:
    """Of modules and classes, static and class methods, decorated ones; no lambda, no function in a function."""
    finder = ClassFinder(game.Game)
    for function in (game.rule, game.Cell.act, game.Cell.make, game.Cell.other.__func__, game.wrapped):
        assert finder.find_function(finder.name_of_function(function)) is function
    with pytest.raises(TypeError, match="<lambda> cannot be found by this name"):
        finder.name_of_function(game.anonymous)
    with pytest.raises(TypeError, match="defined in a function"):
        finder.name_of_function(game.decorate(_make()))
    with pytest.raises(TypeError, match="of a package that the object did not refer to"):
        finder.name_of_function(sys.modules["other_zoo.units"].rule)
    rule = sys.modules["other_zoo.units"].rule
    finder.register_function(rule)
    assert finder.find_function(finder.name_of_function(rule)) is rule
    with pytest.raises(NotFoundError):
        finder.find_function("other_zoo.units:wrapped")


def test_objects_of_modules_and_classes_have_names(game: Any) -> None:
    """Under their first names; numbers, texts, tuples, classes, functions and modules have none."""
    finder = ClassFinder(game.Game)
    assert finder.modules() == [game]
    names = names_of_globals(game, ".")

    assert {name for name in names.values() if "environ" not in name} == {
        ".:WALL", ".:FLOORS", ".:Cell.EDGE", ".:Cell.Inner.DEPTHS",
    }  # fmt: skip
    for number, name in names.items():
        assert id(finder.find_global(name)) == number
    assert finder.find_global(".:WALL") is game.WALL


def test_a_module_whose_dict_has_hooks_is_only_looked_up() -> None:
    """Neither __getattr__ of a module nor of a metaclass is called."""
    source = SOURCE + HOOKS
    module = module_from("a_zoo_with_hooks", source)
    finder = ClassFinder(module.Game)
    for name in (".:Missing", ".:Hooked.Missing", ".:Cell.Missing"):
        with pytest.raises(NotFoundError):
            finder.find(name)
    assert finder.find(".:Hooked") is module.Hooked
    assert module.ASKED == []
    del sys.modules["a_zoo_with_hooks"]


class Holder:
    """Holds modules in lists."""

    def __init__(self) -> None:
        self.held: list[Any] = [math, [sys.modules[__name__]]]

    def step(self, late: Any) -> None:
        """Hold one more."""
        self.held.append(late)


def test_modules_are_found_again_by_name_if_the_object_refers_to_them() -> None:
    """In any container, shown by name. One that comes later has to be of a package of the object's classes."""
    live = adapt(Holder())
    live.step(math)
    state = live.state.snapshot()
    fresh = adapt(Holder())
    fresh.subject.held.clear()
    restore(fresh, state)
    assert fresh.subject.held == [math, [sys.modules[__name__]], math]
    with pytest.raises(
        NotCapturedError, match=r"what appeared in a step cannot be saved: .*\(module\): the object did not refer"
    ):
        live.step(json)
    other = adapt(Holder())
    with pytest.raises(NotCapturedError, match=r"the module numpy\.random has a generator that belongs to the process"):
        other.step(np.random)


def test_enum_members_are_not_named_objects(game: Any) -> None:
    """They are found by their class and name."""
    game.CHOSEN = game.Kind.A
    names = names_of_globals(game, ".")

    assert id(game.Kind.A) not in names
    assert isinstance(game.Kind.A, enum.Enum)


def test_names_of_globals_follow_what_the_names_refer_to(game: Any) -> None:
    """They are remembered until a global, or an attribute of a class in the module, refers to another object."""
    for holder, name, full in ((game, "WALL", ".:WALL"), (game.Cell, "EDGE", ".:Cell.EDGE")):
        before = names_of_globals(game, ".")
        assert names_of_globals(game, ".") is before
        former = getattr(holder, name)
        setattr(holder, name, other := type(former)())
        now = names_of_globals(game, ".")
        assert now[id(other)] == full
        assert full not in {now.get(id(former)), now.get(0)}
    del game.WALL
    assert ".:WALL" not in names_of_globals(game, ".").values()
