"""One value that is watched from tick to tick: an element of a field, a value of an entity, a path in objects."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from replayer.search.names.printed_keys import key_text
from replayer.search.names.value_names import NameStep, ValueName
from replayer.search.neighbours import neighbours_of
from replayer.search.search_errors import ExpressionError, UndefinedError
from replayer.search.state_values import StateValues
from replayer.value_text import plain_text
from sim.kernel.state import Snapshot, State
from sim.near_names import did_you_mean

if TYPE_CHECKING:
    from sim.adapters.object_view.object_tree import ObjectTree

ID_COLUMN = "id"  # The column of a table by which an entity is known if no other is named.


class Absent:
    """The value is not there: the entity is not born yet or gone, the attribute does not exist."""

    def __repr__(self) -> str:
        return "not there"


ABSENT = Absent()


@attrs.frozen
class AskedValue:
    """What is watched.

    Attributes:
        name: of a field, or the path of a value in recorded objects.
        row: index of the element, one number for each axis; () for all of it.
        entity: the entity whose value is watched, by its number in id_column; None for a fixed place.
        id_column: the field with the numbers of the entities; None without an entity.
    """

    name: ValueName
    row: tuple[int, ...] = ()
    entity: int | None = None
    id_column: ValueName | None = None

    def __str__(self) -> str:
        if self.entity is not None and self.id_column is not None:
            return f"{self.name} of {str(self.id_column).rpartition('.')[2]} {self.entity}"
        return f"{self.name}[{', '.join(map(str, self.row))}]" if self.row else str(self.name)

    def read(self, tick: int, state: Snapshot | State) -> Any:
        """The value in a state: a number, a text, an array (a copy), a list; ABSENT if it is not there."""
        values = StateValues(tick, state, {})
        try:
            value = values(self.name)
            place = self._place(values)
            if place is None:
                return ABSENT
            return self.plain(_element(value, place, self))
        except UndefinedError:
            return ABSENT

    def plain(self, value: Any) -> Any:
        """A value that was read from a state, as it is compared. Raises ExpressionError for an object, or a list of them."""
        return _plain(value, self.name)

    def place_in(self, tick: int, state: Snapshot | State) -> tuple[int, ...] | None:
        """The indices of the value in its field; None if the entity is not there."""
        return self._place(StateValues(tick, state, {}))

    def _place(self, values: StateValues) -> tuple[int, ...] | None:
        if self.entity is None or self.id_column is None:
            return self.row
        ids = np.asarray(values(self.id_column))
        rows = np.flatnonzero(ids == self.entity)
        return (int(rows[0]),) if rows.size else None


class NamedValue:
    """A value of a state by a name as in a condition, for ``replay seek``. Raises ExpressionError for text that is no name."""

    def __init__(self, text: str, tick: int, snapshot: Snapshot) -> None:
        self._name = parse_name(text)
        self._values = StateValues(tick, snapshot, {})

    @property
    def path(self) -> str:
        """The name with places from the end of lists counted from their beginning.

        Raises UndefinedError if something else than a list is counted so.
        """
        steps: list[NameStep] = []
        for step in self._name.steps:
            if step.kind == "index" and int(step.value) < 0 and steps:
                items = self._values(ValueName(tuple(steps)))
                if not isinstance(items, list) and not (isinstance(items, np.ndarray) and items.ndim):
                    raise UndefinedError(f"{ValueName(tuple(steps))} has no places")
                steps.append(NameStep(int(step.value) + len(items), "index"))
            else:
                steps.append(step)
        return str(ValueName(tuple(steps)))

    @property
    def value(self) -> Any:
        """The value. Raises UndefinedError if there is none of this name."""
        return self._values(self._name)


def watched_value(
    field: str, row: tuple[int, ...] = (), entity: int | None = None, id_column: str | None = None
) -> AskedValue:
    """Parse the name of a value. Raises ExpressionError for a name that is none."""
    if entity is not None and row:
        raise ExpressionError("name a row or an entity, not both: a row may hold another entity at another tick")
    name = parse_name(field)
    if entity is None:
        return AskedValue(name, row)
    column = id_column or f"{field.rpartition('.')[0]}.{ID_COLUMN}"
    return AskedValue(name, (), entity, parse_name(column))


def parse_name(text: str) -> ValueName:
    """Parse a name such as ``plants.energy`` or ``units[14].hp``. Raises ExpressionError."""
    try:
        node: ast.expr = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"{text[:60]!r} is not the name of a value") from None
    steps: list[NameStep] = []
    while True:
        match node:
            case ast.Name(id=name):
                return ValueName((NameStep(name, "name"), *reversed(steps)))
            case ast.Attribute(value=inner, attr=name):
                steps.append(NameStep(name, "attribute"))
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() as key)):
                steps.append(NameStep(key, "key"))
            case ast.Subscript(value=inner, slice=ast.Constant(value=int() as index)) if type(index) is int:
                steps.append(NameStep(index, "index"))
            case ast.Subscript(
                value=inner, slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as index))
            ):
                steps.append(NameStep(-index, "index"))
            case ast.Subscript(value=inner, slice=key) if (printed := key_text(key)) is not None:
                steps.append(NameStep(printed, "printed"))
            case _:
                raise ExpressionError(f"{text[:60]!r} is not the name of a value")
        node = inner


def are_same(one: Any, other: Any) -> bool:
    """Return True if two readings are the same value, of the same type; NaN is the same as NaN."""
    if one is ABSENT or other is ABSENT:
        return one is other
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, float) and isinstance(other, float):
        return np.float64(one).tobytes() == np.float64(other).tobytes()
    return type(one) is type(other) and repr(one) == repr(other)


def _element(value: Any, place: tuple[int, ...], watched: AskedValue) -> Any:
    if not place:
        return value
    if not isinstance(value, np.ndarray | list):
        raise ExpressionError(f"{watched.name} has no rows: it is {type(value).__name__}")
    if isinstance(value, np.ndarray) and len(place) > value.ndim:
        raise ExpressionError(f"{watched.name} has {value.ndim} axes, not {len(place)}")
    if any(not -length <= index < length for index, length in zip(place, np.shape(value), strict=False)):
        raise UndefinedError("there is no such row")
    return value[place] if isinstance(value, np.ndarray) else value[place[0]]


def _plain(value: Any, name: ValueName) -> Any:
    if isinstance(value, dict | list):
        from sim.adapters.object_view.shown_values import SET_STEP  # noqa: PLC0415 - most tapes have no objects

        if isinstance(value, dict) and any(step.startswith(SET_STEP) for step in value):
            raise ExpressionError(
                f"{name} is a set of {len(value):,}: replay find 'VALUE in {name}' tells when a value is in it, "
                f"and replay find 'len({name}) > {len(value):,}' when it grows"
            )
        what = "an object" if isinstance(value, dict) else f"a list of {len(value):,}"
        raise ExpressionError(f"{name} is {what}: name one value in it, or find where len({name}) changes")
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.item() if not value.ndim else value.copy()
    return value


def no_such_path(tree: ObjectTree, tick: int, path: str) -> str:
    """A line about a path that neither a field of the state nor a value in its objects has."""
    try:
        near = neighbours_of(tree, tick, parse_name(path))
    except ExpressionError:  # It cannot be a path.
        near = None
    if near is not None:
        return f"no attribute or field {path!r}{near.hint()}"
    steps = [entry.step for entry in tree.entries]
    first = re.split(r"[.\[]", path, maxsplit=1)[0]
    hint = "" if first in steps else did_you_mean(first, steps, after=path[len(first) :])
    shown = ", ".join(map(plain_text, steps))
    return f"no attribute or field {path!r}{hint or f'; the attributes are {shown}'}"
