"""Other values for what modules and classes of the user's keep outside the state: those that the program's text gives or names."""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import attrs

from recorder.ambient.outside.code_parts.code_note import CodeNote
from recorder.ambient.outside.code_parts.defining_lines import import_line
from recorder.ambient.outside.code_parts.places import Place, is_special
from recorder.ambient.outside.code_text import assignment_line
from recorder.ambient.outside.loaded_code import is_noted
from replayer.diagnose.explain.before_step.assigned_values import shown
from replayer.diagnose.explain.before_step.changeable_values import (
    MISSING,
    Path,
    attributes_of,
    has_attributes,
    is_plain,
    put_at,
    value_at,
)
from replayer.diagnose.explain.before_step.changing_lines import changes_of, constants_of
from replayer.diagnose.explain.before_step.program_code import Function
from replayer.diagnose.explain.versions.value_readers import put_in_modules

NUMBERS = range(-64, 1025)  # Those that are tried against a digest, which costs no run of the step.
CONSTANTS_MAX = 2000
ITEMS_MAX = 64  # Of one container.
LEVELS_MAX = 3
MEMBERS_MAX = 12  # Of an enumeration, and of a set.
_MEMBER = "member"
Steps = tuple[tuple[str, Any], ...]


@attrs.frozen(eq=False)
class Guess:
    """Another value at a place in a module or a class.

    Attributes:
        place: the name in the module or the class.
        path: from what it stands for to what is changed; the last step is ("member", value) for a value of a set.
        value: to put there; MISSING to take away what is there.
        now: what is there; MISSING for nothing.
        is_noted: True if the tape has the digest of what the name stands for with it.
    """

    place: Place
    path: Steps
    value: Any
    now: Any
    is_noted: bool = False

    @property
    def name(self) -> str:
        """For people, such as keyboard._pressed['right']."""
        steps = (f".{name}" if kind == "attribute" else f"[{name!r}]" for kind, name in self.path if kind != _MEMBER)
        return f"{self.place.module}.{self.place.name}{''.join(steps)}"

    @property
    def then_text(self) -> str:
        """The value that is put in."""
        return self._text(self.value)

    @property
    def now_text(self) -> str:
        """The value that is there."""
        return self._text(self.now)

    def _text(self, value: Any) -> str:
        if self.path and self.path[-1][0] == _MEMBER:
            return f"{shown(self.path[-1][1])} {'not in it' if value is MISSING else 'in it'}"
        return shown(value)

    @property
    def key(self) -> str:
        """The name by which code would change it: the last attribute, or that of the place."""
        return next((str(name) for kind, name in reversed(self.path) if kind == "attribute"), self.place.key)

    def is_in(self, state: Collection[int]) -> bool:
        """Return True if what holds the value is in the state. state: the identities of what is in it."""
        root = self.place.value()
        return any(id(value_at(root, _checked(self.path[:end]))) in state for end in range(len(self.path)))

    def apply(self) -> None:
        """Put the value there, also where modules import the name."""
        root = self.place.value()
        if not self.path and isinstance(self.place.holder, types.ModuleType):
            put_in_modules(self.place.holder, self.place.key, root, self.value)
        elif not self.path:
            setattr(self.place.holder, self.place.key, self.value)
        elif self.path[-1][0] == _MEMBER:
            held, member = value_at(root, _checked(self.path[:-1])), self.path[-1][1]
            (held.discard if self.value is MISSING else held.add)(member)
        else:
            put_at(root, _checked(self.path), self.value)


def _checked(path: Sequence[tuple[str, Any]]) -> Path:
    return tuple(("attribute", name) if kind == "attribute" else ("item", name) for kind, name in path)


def own_places(places: Iterable[Place]) -> Iterator[Place]:
    """The places where a name is at home: not those that import it, nor what Python keeps."""
    for place in places:
        is_imported = import_line(place.path, place.name) is not None
        if is_special(place.key) or isinstance(place.holder, enum.EnumMeta):
            continue
        if not is_imported or assignment_line(place.path, place.name) is not None:
            yield place


# --- values whose digest the tape has


def constants_in(functions: Iterable[Function]) -> list[Any]:
    """The plain constants in the program's text, each once."""
    found: dict[tuple[type, Any], None] = {}
    for function in functions:
        for node in function.own:
            if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bytes):
                found[type(node.value), node.value] = None
            if len(found) >= CONSTANTS_MAX:
                break
    return [value for _, value in found]


def noted_guess(note: CodeNote, place: Place, constants: Sequence[Any]) -> Guess | None:
    """The value of a place with which it has the digest on the tape, if it is among those that are tried; else None.

    The place has its own value afterwards.
    """
    now = place.value()
    if is_plain(now):
        values = [True, False, None, *constants, *NUMBERS, *(type(now) if isinstance(now, enum.Enum) else ())]
        tried = (Guess(place, (), value, now, is_noted=True) for value in values)
    else:
        tried = (
            Guess(place, path, value, held, is_noted=True)
            for path, held in spots_in(now)
            if path
            for value in (True, False, None, *constants, *NUMBERS)
        )
    return next((one for one in tried if _has_digest(note, one)), None)


def _has_digest(note: CodeNote, guess: Guess) -> bool:
    root = guess.place.value()
    try:
        if not guess.path:
            setattr(guess.place.holder, guess.place.key, guess.value)
        else:
            put_at(root, _checked(guess.path), guess.value)
        return is_noted(note, guess.place)
    except (AttributeError, TypeError, LookupError):
        return False
    finally:
        if not guess.path:
            setattr(guess.place.holder, guess.place.key, root)
        else:
            put_at(root, _checked(guess.path), guess.now)


# --- values that other functions give


def guesses_of(places: Iterable[Place], others: Sequence[Function], named: Collection[Any]) -> Iterator[Guess]:
    """The other values that functions which the step is not seen to run may give to what they change.

    named: constants in the lines that the step runs, such as the names of keys that it asks a set for.
    """
    given = _given_by(others)
    seen: set[Any] = set()
    for place in places:
        for path, now in spots_in(place.value()):
            probe = Guess(place, path, now, now)
            # One container may stand under several names.
            identity = (
                (id(value_at(place.value(), _checked(path[:-1]))), path[-1]) if path else (place.module, place.name)
            )
            if probe.key not in given or identity in seen:
                continue
            seen.add(identity)
            constants = given[probe.key]
            if isinstance(now, set):
                yield from _of_set(place, path, now, named)
            elif isinstance(now, dict):
                yield from _of_dict(place, path, now, named, constants)
            else:
                yield from (Guess(place, path, value, now) for value in _others(now, constants))


def _given_by(functions: Iterable[Function]) -> dict[str, list[tuple[str, Any]]]:
    """By the names that functions change, "=", "+" and the like with the constants that they give."""
    given: dict[str, list[tuple[str, Any]]] = {}
    for function in functions:
        for name, node in changes_of(function):
            given.setdefault(name, []).extend(constants_of(node))
    return given


def spots_in(value: Any, path: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """The plain values, sets and dicts below a value, with the paths to them."""
    if is_plain(value):
        yield path, value
        return
    if isinstance(value, set | dict):
        yield path, value
    if len(path) >= LEVELS_MAX:
        return
    inner: list[tuple[tuple[str, Any], Any]] = []
    if type(value) in (dict, list) and len(value) <= ITEMS_MAX:
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        inner = [(("item", key), held) for key, held in items if is_plain(key)]
    elif has_attributes(value):
        inner = [(("attribute", name), held) for name, held in list(attributes_of(value).items())[:ITEMS_MAX]]
    for step, held in inner:
        yield from spots_in(held, (*path, step))


def _others(now: Any, constants: Iterable[tuple[str, Any]]) -> Iterator[Any]:
    if type(now) is bool:
        yield not now
        return
    if isinstance(now, enum.Enum):
        yield from [one for one in type(now) if one is not now][:MEMBERS_MAX]
        return
    seen = [now]
    for sign, constant in constants:
        value = constant
        if sign in ("+", "-") and type(now) in (int, float) and type(constant) in (int, float):
            value = now + constant if sign == "+" else now - constant
        elif sign != "=":
            continue
        if is_plain(value) and not any(type(one) is type(value) and one == value for one in seen):
            seen.append(value)
            yield value


def _of_set(place: Place, path: Steps, now: set[Any], named: Iterable[Any]) -> Iterator[Guess]:
    members = sorted((one for one in now if is_plain(one)), key=repr)[:MEMBERS_MAX]
    yield from (Guess(place, (*path, (_MEMBER, one)), MISSING, one) for one in members)
    yield from (Guess(place, (*path, (_MEMBER, one)), one, MISSING) for one in named if one not in now)


def _of_dict(
    place: Place,
    path: Steps,
    now: dict[Any, Any],
    named: Iterable[Any],
    constants: Sequence[tuple[str, Any]],
) -> Iterator[Guess]:
    values = list(dict.fromkeys(value for sign, value in constants if sign == "=" and is_plain(value)))
    kinds = {type(key) for key in now}
    for key in named:
        if key not in now and (not now or type(key) in kinds):
            yield from (Guess(place, (*path, ("item", key)), value, MISSING) for value in values)
