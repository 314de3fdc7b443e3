"""Calls of a plain object that people give as JSON, read as they are shown (shown_calls.py): the way back.

JSON has no objects, members of an enumeration and tuples. What stands for one is read by the recorded calls of the same
method: a place in a call, such as the attribute ``verb`` of an ``Order`` in the list that is the first argument, holds what
was recorded at this place. A text stays a text where none but texts were recorded. What may be meant in two ways is refused.
"""

from __future__ import annotations

import ast
import enum
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import attrs
import msgpack

from sim.adapters.capture.arguments.places import Step, value_at
from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.graph.values.trees import pack, unpack
from sim.adapters.object_view.shown_calls import shown_form
from sim.adapters.object_view.shown_values import last_name

_ATOMS = (type(None), bool, int, float, str, bytes)
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1
_AS_LISTS = frozenset("tlsqfavxHF")  # Letters of what is shown as a list, and so on.
_AS_DICTS = frozenset("doeU")
_NAMED = frozenset("GNP")  # What a text names: an immutable value, an object of a module, one that the subject holds.
_AS_TEXTS = _NAMED | frozenset("rkgb")
_SCALARS = frozenset(("int", "float", "bool", "str", "bytes", "i"))
_PATH = re.compile(r"(?P<name>[^\W\d]\w*)|\.(?P<attribute>[^\W\d]\w*)|\[(?P<key>-?\d+|'[^']*'|\"[^\"]*\")\]")
_NAMED_MAX = 8
_pack = partial(msgpack.packb, use_bin_type=True)
_unpack = partial(msgpack.unpackb, raw=False, strict_map_key=False)
ADVICE = "use branch.object or run.branch in Python, which take any object"


class GivenCallError(ValueError):
    """A call that cannot be read; the message is one line."""


@attrs.define
class _Place:
    """What was recorded at a place: the letters of values, the texts that stand for some, and what objects are made of."""

    letters: set[str] = attrs.field(factory=set)
    texts: dict[str, set[bytes]] = attrs.field(factory=lambda: defaultdict(set))
    enums: dict[str, set[str]] = attrs.field(factory=lambda: defaultdict(set))
    objects: dict[str, set[tuple[str, ...]]] = attrs.field(factory=lambda: defaultdict(set))
    tuples: dict[str, set[int]] = attrs.field(factory=lambda: defaultdict(set))
    keys: set[type] = attrs.field(factory=set)


class GivenCalls:
    """What the recorded calls of one method hold at each place, and how JSON is read by that."""

    def __init__(self, calls: Iterable[Any]) -> None:
        """calls: the recorded values of its key: bytes, or plain [[argument, ...], {name: argument}]."""
        self._places: dict[str, _Place] = defaultdict(_Place)
        self._has_forms = False
        for call in calls:
            if type(call) is bytes:
                self._has_forms = True
                self._learn(_unpack(call), "")
            else:
                self._learn(_form_of_plain(call), "")

    def read(self, given: Any, recorded: Any, finder: ClassFinder, subject: Any) -> Any:
        """The recorded form of a call; given itself if all recorded calls of the method are plain data.

        recorded: the recorded form of the call at this tick, if there is one: the same text at the same place is the same
        value. subject: the object as it is before the call. Raises GivenCallError.
        """
        match given:
            case [list(arguments), dict(keywords)] if self._has_forms:
                own = dict(_texts_in(_unpack(recorded), "")) if type(recorded) is bytes else {}
                reader = _Reader(self._places, own, finder, subject)
                listed = ["l", *(reader.form(one, f"[{i}]", f"[{i}]") for i, one in enumerate(arguments))]
                named = [
                    part for key, one in keywords.items() for part in (key, reader.form(one, f".{key}", f".{key}"))
                ]
                return _pack(["l", listed, ["d", *named]])
        return given

    def _learn(self, tree: Any, path: str) -> None:
        match tree:
            case ["l", ["l", *arguments], ["d", *pairs]] if not path:
                for index, one in enumerate(arguments):
                    self._learn(one, f"[{index}]")
                for key, one in zip(pairs[::2], pairs[1::2], strict=True):
                    self._learn(one, f".{key}")
            case [str(letter), *parts]:
                place = self._places[path]
                place.letters.add(letter)
                self._learn_parts(place, letter, parts, path)
            case _:
                self._places[path].letters.add(type(tree).__name__)

    def _learn_parts(self, place: _Place, letter: str, parts: list[Any], path: str) -> None:
        match letter, parts:
            case "l", _:
                for one in parts:
                    self._learn(one, f"{path}[]")
            case "t", _:
                for index, one in enumerate(parts):
                    self._learn(one, f"{path}[{index}]")
            case "d", _:
                for key, one in zip(parts[::2], parts[1::2], strict=True):
                    place.keys.add(type(key))
                    self._learn(one, f"{path}{{{key}}}")
                    self._learn(one, f"{path}{{}}")
            case "O", [str(name), list(names), *items]:
                place.objects[name].add(tuple(names))
                for attribute, one in zip(names, items, strict=True):
                    self._learn(one, f"{path}.{last_name(name)}.{attribute}")
            case "T", [str(name), *items]:
                place.tuples[name].add(len(items))
                for index, one in enumerate(items):
                    self._learn(one, f"{path}.{last_name(name)}[{index}]")
            case "G" | "N", [*_, bytes(content)]:
                place.texts[str(shown_form([letter, *parts]))].add(_pack([letter, *parts]))
                match unpack(content) if letter == "G" else None:
                    case ["e", str(name), str(member)]:
                        place.enums[name].add(member)


class _Reader:
    """Reads the arguments of one call. path: of a place, where: the same for messages."""

    def __init__(self, places: dict[str, _Place], own: dict[str, Any], finder: ClassFinder, subject: Any) -> None:
        self._own = own
        self._places, self._finder, self._subject = places, finder, subject

    def form(self, given: Any, path: str, where: str) -> Any:
        """The form of a value. Raises GivenCallError."""
        place = self._places.get(path, _Place())
        if isinstance(given, str):
            return self._of_text(given, place, where)
        if isinstance(given, list):
            return self._of_list(given, place, path, where)
        if isinstance(given, dict):
            return self._of_dict(given, place, path, where)
        if given is not None and place.letters - {"NoneType"} and not place.letters & _SCALARS:
            raise _refused(where, given, f"expected {self._expected(place)}")
        return ["i", str(given)] if type(given) is int and not _INT_MIN <= given <= _INT_MAX else given

    def _of_text(self, text: str, place: _Place, where: str) -> Any:
        if not place.letters & _AS_TEXTS:
            return text
        own = self._own.get(where)
        if own is not None and shown_form(own) == text:
            return own
        form = self._named(text, place)
        if "str" not in place.letters:
            if form is None:
                raise _refused(where, text, f"expected {self._expected(place)}")
            return form
        if form is not None or place.letters & _AS_TEXTS - _NAMED:
            raise _refused(where, text, "texts and objects were recorded there, so it may mean both")
        return text

    def _named(self, text: str, place: _Place) -> Any:
        """The form of what a text names; None for one that names nothing that was recorded at the place."""
        forms: list[Any] = [_unpack(form) for form in place.texts.get(text, ())]
        if not forms:
            forms = [["G", pack(["e", name, member])] for name in place.enums for member in self._members(name)
                     if text == f"{last_name(name)}.{member}"]  # fmt: skip
        if "P" in place.letters and (steps := self._steps(text)) is not None:
            forms.append(["P", *(list(step) for step in steps)])
        return forms[0] if len(forms) == 1 else None

    def _members(self, name: str) -> list[str]:
        try:
            kind = self._finder.find(name)
        except LookupError:
            return []
        return list(kind.__members__) if issubclass(kind, enum.Enum) else []

    def _steps(self, text: str) -> list[Step] | None:
        """The steps to an object that the subject holds now, by their text; None if there is none."""
        if text == "the recorded object":
            return []
        steps: list[Step] = []
        owner, end = self._subject, 0
        while end < len(text):
            match = _PATH.match(text, end)
            if match is None or (match["name"] is not None) != (end == 0):
                return None
            key = ast.literal_eval(match["key"]) if match["key"] is not None else None
            attribute = match["name"] or match["attribute"]
            kind: Any = "a" if key is None else "k" if isinstance(owner, dict) else "i"
            step: Step = (kind, attribute if key is None else key)
            try:
                owner = value_at(owner, [step])
            except (LookupError, TypeError):
                return None
            steps.append(step)
            end = match.end()
        return steps if steps and not isinstance(owner, (*_ATOMS, tuple, frozenset)) else None

    def _expected(self, place: _Place) -> str:
        parts = [f"a new {last_name(name)}" for name in (*place.objects, *place.tuples)]
        for name in place.enums:
            several = ", ".join(self._members(name)[:_NAMED_MAX]) or "those that were recorded"
            parts.append(f"a member of {last_name(name)} ({several})")
        if "N" in place.letters:
            names = sorted(
                {last_name(form[1]) for form in map(_unpack, set().union(*place.texts.values())) if form[0] == "N"}
            )
            parts.append(f"one of the objects {', '.join(names[:_NAMED_MAX])}")
        if "P" in place.letters:
            parts.append("the path to an object that the game holds now, such as units[0]")
        return " or ".join(parts) or "what was recorded there, which JSON does not have"

    def _of_list(self, given: list[Any], place: _Place, path: str, where: str) -> Any:
        kinds = place.letters & _AS_LISTS
        if kinds - {"l", "t"} or len(kinds) > 1:
            raise _refused(where, given, "a list may stand for several types that were recorded there")
        if kinds == {"t"}:
            return ["t", *(self.form(one, f"{path}[{i}]", f"{where}[{i}]") for i, one in enumerate(given))]
        self._ensure_plain(given, place, where)
        return ["l", *(self.form(one, f"{path}[]", f"{where}[{i}]") for i, one in enumerate(given))]

    def _of_dict(self, given: dict[str, Any], place: _Place, path: str, where: str) -> Any:
        if len(given) == 1 and (made := self._of_class(*next(iter(given.items())), place, path, where)) is not None:
            return made
        if place.letters & _AS_DICTS - {"d"} or place.keys - {str}:
            raise _refused(where, given, "a dict may stand for several types that were recorded there")
        self._ensure_plain(given, place, where)
        pairs: list[Any] = []
        for key, one in given.items():
            own = f"{path}{{{key}}}"
            pairs += [key, self.form(one, own if own in self._places else f"{path}{{}}", f"{where}[{key!r}]")]
        return ["d", *pairs]

    def _of_class(self, name: str, content: Any, place: _Place, path: str, where: str) -> Any:
        """The form of a new object of a class, or of a named tuple; None for a name of none that was recorded there."""
        named = [one for one in (*place.objects, *place.tuples) if last_name(one) == name]
        if not named:
            return None
        if len(named) > 1 or "d" in place.letters:
            raise _refused(where, {name: ...}, "it may stand for several things that were recorded there")
        if isinstance(content, dict) and named[0] in place.objects:
            for names in place.objects[named[0]]:
                if set(names) == content.keys():
                    items = [self.form(content[one], f"{path}.{name}.{one}", f"{where}.{one}") for one in names]
                    return ["O", named[0], list(names), *items]
            several = ", ".join(min(place.objects[named[0]]))
            raise _refused(where, {name: ...}, f"expected the attributes {several}")
        if isinstance(content, list) and len(content) in place.tuples.get(named[0], ()):
            items = [self.form(one, f"{path}.{name}[{i}]", f"{where}[{i}]") for i, one in enumerate(content)]
            return ["T", named[0], *items]
        raise _refused(where, {name: ...}, "expected the attributes that were recorded there")

    @staticmethod
    def _ensure_plain(given: Any, place: _Place, where: str) -> None:
        """Refuse a list or dict where only objects were recorded: it would be taken for one of them."""
        same = {"l"} if isinstance(given, list) else {"d"}
        if place.letters & {"O", "T", *_NAMED} and not place.letters & same:
            several = ", ".join(sorted(map(last_name, [*place.objects, *place.tuples])))
            raise _refused(where, given, f"expected {several or 'what was recorded there'}")


def _texts_in(tree: Any, where: str) -> Iterator[tuple[str, Any]]:
    """The texts of a call, and what is shown as one, with their places as messages name them."""
    match tree:
        case str() | ["G" | "N" | "P", *_]:
            yield where, tree
        case ["l", ["l", *arguments], ["d", *pairs]] if not where:
            for index, one in enumerate(arguments):
                yield from _texts_in(one, f"[{index}]")
            for key, one in zip(pairs[::2], pairs[1::2], strict=True):
                yield from _texts_in(one, f".{key}")
        case ["l" | "t", *items] | ["T", _, *items]:
            for index, one in enumerate(items):
                yield from _texts_in(one, f"{where}[{index}]")
        case ["d", *pairs]:
            for key, one in zip(pairs[::2], pairs[1::2], strict=True):
                yield from _texts_in(one, f"{where}[{key!r}]")
        case ["O", _, list(names), *items]:
            for name, one in zip(names, items, strict=True):
                yield from _texts_in(one, f"{where}.{name}")


def _form_of_plain(value: Any) -> Any:
    """The form of plain data; of arrays and numbers of NumPy only the letter."""
    if type(value) is list:
        return ["l", *map(_form_of_plain, value)]
    if type(value) is dict:
        return ["d", *(part for key, one in value.items() for part in (key, _form_of_plain(one)))]
    return value if isinstance(value, _ATOMS) else ["a" if getattr(value, "shape", ()) else "n"]


def _refused(where: str, given: Any, why: str) -> GivenCallError:
    shown = repr(given).replace("\n", " ").replace("Ellipsis", "...")
    return GivenCallError(f"argument {where}: {shown[:60]}: {why}; {ADVICE}")
