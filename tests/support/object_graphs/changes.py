"""One random change of an object graph, from four numbers: the same on every copy of the graph.

Attributes are read by name and never through vars(), which would give each object a dictionary of its own and so hide
the compact form in which Python keeps them, that a capture meets in practice.
"""

from __future__ import annotations

import random
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

from object_graphs.classes import OBJECTS, Cell, Fixed, Half, Made, Narrow, Slim, Spare, Special, Team, Thing, Tile
from object_graphs.makers import MAKERS, WEAK_MAKERS, key_of, member_of, thing_of
from object_graphs.walk import ITERATORS

NAMES = (
    "score", "kind", "target", "grid", "row", "rng", "dice", "things", "table", "cells",
    "n", "near", "bag", "x", "y", "a", "b", "c", "extra0", "extra1", "extra2",
)  # fmt: skip
CHANGED = (
    list,
    deque,
    dict,
    set,
    bytearray,
    np.ndarray,
    random.Random,
    np.random.Generator,
    np.random.RandomState,
    *ITERATORS,
)
WORLD_NAMES = ("score", "kind", "target", "grid", "row", "rng", "dice", "cells", "extra0", "extra1", "extra2")
RESHAPING = 16  # Operations from this one on replace a __class__ or a __dict__.
OPERATIONS = 20
MISSING = object()
ITEMS_MAX = 30
LOOK_EVERY = 8  # Changes of one tick; finding all objects takes most of the time.


def random_inputs(rng: random.Random, count: int, operations: int, makers: list[int]) -> list[list[int]]:
    """The inputs of one tick, from a seeded generator."""
    return [
        [rng.randrange(operations), rng.choice(makers), rng.randrange(300), rng.randrange(200)] for _ in range(count)
    ]


def objects_of(world: Any) -> list[Any]:
    """The objects that a change may choose, in an order that is the same in each copy."""
    return [one for one in _reached(world) if type(one) is not weakref.ref]


def weak_references_of(world: Any) -> list[Any]:
    """The weak references in the graph."""
    return [one for one in _reached(world) if type(one) is weakref.ref]


def _reached(world: Any) -> list[Any]:
    found, todo, seen = [], deque([world]), set()
    while todo:
        one = todo.popleft()
        if isinstance(one, tuple):
            todo.extend(one)
            continue
        if type(one).__name__ == "method":
            todo.append(one.__self__)
            continue
        is_object = isinstance(one, OBJECTS) or one is world
        if not (is_object or isinstance(one, (*CHANGED, weakref.ref))) or id(one) in seen:
            continue
        seen.add(id(one))
        found.append(one)
        if isinstance(one, dict):
            todo.extend(one.keys())
            todo.extend(one.values())
        elif isinstance(one, list | deque):
            todo.extend(one)
        elif is_object:
            todo.extend(getattr(one, name) for name in NAMES if getattr(one, name, None) is not None)
    return found


def make_changes(world: Any, inputs: list[list[int]]) -> None:
    """Make the changes of one tick. Some are of objects that a change before has cut off, as in real programs."""
    objects: list[Any] = []
    # A set that was empty at each look begins again when it comes and goes: no change empties one in its first tick.
    seen_sets = {id(one): one for one in objects_of(world) if type(one) is set}
    for number, (operation, maker, b, c) in enumerate(inputs):
        if maker in WEAK_MAKERS:
            world.collects = True
        if number % LOOK_EVERY == 0:
            objects = [one for one in objects_of(world) if type(one) is not set or id(one) in seen_sets]
        change(world, objects, operation, maker, b, c)


def change(world: Any, objects: list[Any], operation: int, maker: int, b: int, c: int) -> None:
    """Make one change of one of these objects."""
    subject = objects[c % len(objects)]

    def value(more: int = 0) -> Any:
        return MAKERS[maker](world, objects, b + more)

    if subject is world:
        _change_world(world, operation, value, b)
    elif isinstance(subject, dict):
        _change_dict(subject, operation, value, b, key_of(world, objects, b))
    elif isinstance(subject, list):
        _change_list(subject, operation, value, b)
    elif isinstance(subject, deque):
        _change_deque(subject, operation, value, b)
    elif isinstance(subject, set):
        _change_set(subject, operation, b)
    elif type(subject) is np.ndarray:
        _change_array(subject, operation, b)
    elif isinstance(subject, bytearray):
        subject.append(b % 256) if operation % 3 or not subject else subject.pop()
    elif isinstance(subject, Team):
        thing = thing_of(world, objects, b)
        world.score = thing in subject.members
        subject.members.discard(thing) if operation % 4 == 0 else subject.members.add(thing)
    elif isinstance(subject, ITERATORS):
        world.score = next(subject, None)
    elif isinstance(subject, CHANGED):
        world.score = _drawn(subject, operation)
    else:
        _change_object(subject, operation, value, b)


def _equal_to(value: Any, b: int) -> Any:
    """An equal value of another kind, which a comparison by == overlooks; or one that has such."""
    if type(value) in (int, bool, float) and value in (0, 1):
        return (True, 1, 1.0)[b % 3] if value else (0.0, -0.0, 0, False)[b % 4]
    return bool(b % 2)


def _drawn(generator: Any, operation: int) -> Any:
    if isinstance(generator, random.Random):
        return generator.gauss(0, 1) if operation % 2 else generator.random()
    if isinstance(generator, np.random.RandomState):
        return generator.standard_normal() if operation % 2 else int(generator.randint(9))
    if operation == 6:  # As Generator.spawn does, which NumPy 1.26 has not for each bit generator.
        return float(np.random.default_rng(generator.bit_generator._seed_seq.spawn(1)[0]).random())
    return int(generator.integers(0, 9, dtype=np.uint32)) if operation % 2 else generator.random()


def _change_world(world: Any, operation: int, value: Any, b: int) -> None:
    """Attributes of the outermost object appear, go and change their type; things are born and die."""
    name = WORLD_NAMES[b % len(WORLD_NAMES)]
    if operation == 0 and name.startswith("extra") and hasattr(world, name):
        delattr(world, name)
    elif operation < 5:
        world.things.append(Thing(world.born(), b))
    elif operation < 7 and world.things:
        del world.things[b % len(world.things)]
    elif operation == 7:
        del world.things[b % 16 :]
    elif operation == 8:
        world.target = None if world.target is not None else value()
    elif operation == 9:
        world.grid = np.arange(12.0).reshape(3, 4) + b
        world.row = world.grid[b % 3]
    elif operation == 11:
        world.score = _equal_to(world.score, b)
    elif operation == 10:
        for one in world.things:
            if isinstance(one, Thing):
                one.extra0 = b
    else:
        setattr(world, name, value())


def _change_list(one: list[Any], operation: int, value: Any, b: int) -> None:
    if len(one) > ITEMS_MAX:
        del one[ITEMS_MAX // 2 :]
    if operation < 4 or not one:
        one.append(value())
    elif operation == 4:
        one.pop()
    elif operation == 5:
        del one[b % 4 :]
    elif operation < 9:
        one[b % len(one)] = value()
    elif operation < 11:
        one.insert(0, value())
    elif operation < 13:
        one.reverse()
    elif operation == 13:
        del one[:: b % 3 + 2]
    elif operation in (14, 15):
        one[0] = _equal_to(one[0], b)
    else:
        one[b % len(one) :] = [value(), value(1)]


def _change_deque(one: deque[Any], operation: int, value: Any, b: int) -> None:
    if operation < 6 or not one:
        one.append(value())
    elif operation < 9:
        one.appendleft(value())
    elif operation < 13:
        one.popleft()
    else:
        one.rotate(b % 3)


def _change_dict(one: dict[Any, Any], operation: int, value: Any, b: int, key: Any) -> None:
    if len(one) > ITEMS_MAX:
        one.popitem()
    if isinstance(one, Counter):
        one[str(b % 9)] += b % 4 - 1
    elif operation < 6:
        one[key] = value()
    elif not one:
        one.update({b: b, "b": value()})
    elif operation < 9:
        del one[list(one)[b % len(one)]]
    elif operation < 12:
        first = next(iter(one))
        one[first] = one.pop(first)
    elif operation == 12:
        first = next(iter(one))
        one[first] = _equal_to(one[first], b)
    elif operation == 13 and isinstance(one, OrderedDict):
        one.move_to_end(next(reversed(one)), last=False)
    elif operation == 14 and isinstance(one, defaultdict) and one.default_factory is list:
        one[b].append(value())
    elif operation == 15:
        one.clear()
    else:
        one.popitem()


def _change_set(one: set[Any], operation: int, b: int) -> None:
    if operation < 3:
        one.update(map(member_of, range(b % 40)))
    elif operation < 6 and one:
        one.pop()
    elif operation < 9:
        one.discard(member_of(b))
    elif operation == 9:
        one -= set(map(member_of, range(b, b + 20)))
    elif operation == 10:
        one &= set(map(member_of, range(40)))
    elif operation == 11:
        one.clear()
    else:
        one.add(member_of(b))


def _change_array(one: Any, operation: int, b: int) -> None:
    if not one.flags.writeable:
        return
    if operation == 15:
        one.flags.writeable = False
    elif one.size and one.dtype.kind == "U":
        one.flat[b % one.size] = str(b)
    elif one.size and one.dtype.kind == "M":
        one.flat[b % one.size] += np.timedelta64(b, "s")
    elif one.size and operation % 2:
        one.flat[b % one.size] = b % 100
    elif one.size:
        one[...] = one[..., ::-1]


def _change_object(one: Any, operation: int, value: Any, b: int) -> None:
    if isinstance(one, Cell | Fixed | Tile):
        return
    if isinstance(one, Narrow | Slim | Made) and not isinstance(one, Half):
        _change_slots(one, operation, value, b)
    elif operation < 4:
        one.near = value()
    elif operation == 4:
        one.near = None if getattr(one, "near", None) is not None else value()
    elif operation < 8:
        setattr(one, f"extra{b % 3}", value())
    elif operation < 10:
        for name in ("near", "extra0", "extra1", "extra2")[b % 4 :]:
            if _deleted(one, name):
                break
    else:
        _reshape_object(one, operation, value, b)


def _deleted(one: Any, name: str) -> bool:
    """Delete an attribute of an object; False if the object itself has none."""
    try:
        delattr(one, name)
    except AttributeError:
        return False
    return True


def _reshape_object(one: Any, operation: int, value: Any, b: int) -> None:
    if operation == 10 and _deleted(one, "extra0"):
        one.extra1 = value()  # The same number of attributes as before.
    elif operation == 12 and isinstance(one, Spare) and _deleted(one, ("near", "extra0", "extra1")[b % 3]):
        setattr(one, f"extra{b // 3 % 3}", (None, (), b, value())[b % 4])  # The same value as the class has, perhaps.
    elif operation == 11:
        one.near, one.x = getattr(one, "x", None), getattr(one, "near", None)
    elif operation == 12:
        vars(one)["extra2"] = value()
    elif operation in (13, 14):
        one.near = _equal_to(getattr(one, "near", None), b)
    elif operation < RESHAPING:
        setattr(one, "n" if isinstance(one, Thing) else "bag", value())
    elif operation < OPERATIONS - 2:
        one.__dict__ = {**vars(one), "extra0": b}
    elif isinstance(one, Thing):
        one.__class__ = Thing if type(one) is Special else Special


def _change_slots(one: Any, operation: int, value: Any, b: int) -> None:
    names = {Slim: ("x", "y"), Made: ("x", "near")}.get(type(one), ("a", "b", "c"))
    name = names[b % len(names)]
    if name == "c" and not hasattr(type(one), "c"):
        name = "b"
    if operation < 5 and hasattr(one, name) and isinstance(one, Narrow):
        delattr(one, name)
    elif operation in (5, 6):
        setattr(one, name, _equal_to(getattr(one, name, None), b))
    else:
        setattr(one, name, value())
