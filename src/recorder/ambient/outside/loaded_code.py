"""The user's code that a process has loaded: a digest of each function and method around a simulation's class.

A tape notes the digests. A reader that loads the same code can say so, and of other code, which functions it is. Bytecode
differs between versions of Python, so it is compared within one only. Comments, lines and docstrings do not count.
Plain values of modules and classes are noted apart: the same code gives another one where it asks the outside world, or
where a program changes it while it runs.
"""

from __future__ import annotations

import enum
import sys
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import xxhash

from recorder.ambient.outside.code_parts.changed_values import shown_changes
from recorder.ambient.outside.code_parts.code_note import CodeNote
from recorder.ambient.outside.code_parts.defining_lines import place_text
from recorder.ambient.outside.code_parts.digest_lists import DIGEST_BYTES, NAME_BYTES, joined
from recorder.ambient.outside.code_parts.kept_text import earlier_kept_texts, kept_text
from recorder.ambient.outside.code_parts.member_tables import member_tables
from recorder.ambient.outside.code_parts.places import Place, is_special, places_of
from recorder.ambient.outside.code_parts.same_files import file_digests, may_read_files
from recorder.ambient.outside.code_parts.statements import CodeStatement, statements_of
from recorder.ambient.outside.code_parts.untold_values import untold_values
from recorder.ambient.outside.code_text import function_text, is_constant, value_text
from recorder.ambient.outside.line_digests import LINE_BYTES, first_edited_line, line_digests
from recorder.ambient.outside.loaded_modules import imported_sources
from recorder.ambient.outside.reached_functions import names_in_code, reached_functions
from recorder.ambient.roots import content_of
from sim.enum_members import is_enums
from sim.replaced_code import own_code

KEY = "code"  # In the note on the outside world.
DEFINITIONS_MAX = 1000  # In a note: META is repeated in each file of a tape.
LINES_BYTES_MAX = 1 << 14  # Of the lines of all functions: of a game of 3,000 lines, some 6,000 bytes.
_MEMBER_NAMES = "_member_names_"  # Of an enumeration, in their order.
_ATTRS = "<attrs generated"  # In the name that attrs gives as the file of what it compiles.
_STATEMENTS = "class statements and decorators"
_REFERENCES = "functions written in C that names stand for, and how arrays lie in memory"
_IMPORTED, _KEPT = "imported ", "kept "  # In front of the text of a module, and of what a function keeps.


@attrs.frozen(eq=False)
class Definition:
    """What a module or a class defines.

    Attributes:
        name: qualified.
        file: of the module.
        content: a function, or the text of a plain value.
        path: of the file of the module, or its name.
        is_constant: a plain value that is named like a constant and cannot change by itself.
        is_enums: a value that Python keeps for an enumeration: it follows from the members, which have definitions.
    """

    name: str
    file: str
    content: Any
    path: str = ""
    is_constant: bool = False
    is_enums: bool = False

    @property
    def is_value(self) -> bool:
        """True for a plain value, False for a function."""
        return isinstance(self.content, str)

    @property
    def is_generated(self) -> bool:
        """True for a function of a class that stands in no file, such as those of dataclasses."""
        is_of_a_class = isinstance(self.content, types.FunctionType) and "." in self.name and self.path.endswith(".py")
        return is_of_a_class and _file_of(self.content).startswith("<")

    @property
    def is_of_a_process(self) -> bool:
        """True for the generated hash of a class of attrs: its code has the hash of a text, another number in each process."""
        return self.is_generated and own_code(self.content).co_name == "__hash__" and _ATTRS in _file_of(self.content)


@attrs.frozen
class CodeComparison:
    """Loaded code beside that of a note.

    Attributes:
        compared: how many functions there are.
        different: those that the note does not have: changed since, or new; each as "Shop.step (shop.py:14)".
        compared_values: how many plain values there are.
        values: those that the note does not have, in the same form.
        gone, gone_values: how many functions and values the note has, of which nothing is there now, changed or not.
        left_out: values that functions name and that cannot be compared, in the same form.
        imported: modules that functions import and whose source is another one, each with the line that imports it.
        gone_statements: how many class statements and meanings of names the note has besides those that are there now.
        not_noted: kinds of code of which the note has no digests.
        by_functions: those of values and left_out that functions change: they may differ without an edit.
        has_same_files: the files of the modules are those of the note, and have no statement outside of functions that may read
            another file: values that differ come from somewhere else.
    """

    compared: int
    different: list[str]
    compared_values: int
    values: list[str]
    gone: int
    gone_values: int = 0
    left_out: list[str] = attrs.field(factory=list)
    imported: list[str] = attrs.field(factory=list)
    gone_statements: int = 0
    not_noted: list[str] = attrs.field(factory=list)
    by_functions: list[str] = attrs.field(factory=list)
    has_same_files: bool = False


def code_note(simulation: Any) -> dict[str, Any]:
    """The note on the code around a simulation's class, for META; empty for a class that is not the user's, or too much code."""
    try:
        places = list(places_of(simulation))
        named = list(_definitions(places))
        found = [(one.is_value, _digest(one)) for one in named]
        lines = b"".join(key + bytes((len(digests) // LINE_BYTES,)) + digests for key, digests in _lines_of(named))
        kept = {_digest(one) for one in _kept(places)}
        tables = _tables(places).keys()
        imported = {_digest(one) for one in _imported(named)}
        files = set(file_digests({one.path for one in places}).values())
        read = names_in_code(_functions(named))
        statements = {is_early: set[bytes]() for is_early in (True, False)}
        for one in statements_of(places, read):
            statements[one.is_early].add(_statement_digest(one))
    except Exception:  # noqa: BLE001 - whatever a module's objects raise when they are looked at: it stops no recording
        return {}
    definitions = {digest for is_value, digest in found if not is_value}
    values = {digest for is_value, digest in found if is_value}
    if not definitions or len(definitions) + len(values) + len(kept) + len(imported) > DEFINITIONS_MAX:
        return {}
    known: dict[str, Any] = {"python": _python(), "definitions": joined(definitions), "values": joined(values)}
    known |= {
        "keeps": joined(kept),
        "imported": joined(imported),
        "files": joined(filter(None, files)),
        "wrapped": True,
    }
    further = {"tables": tables, "statements": statements[True], "references": statements[False]}
    known |= {key: joined(one) for key, one in further.items() if len(one) <= DEFINITIONS_MAX}
    return {KEY: {**known, "lines": lines} if len(lines) <= LINES_BYTES_MAX else known}


def compare_code(note: CodeNote, simulation: Any) -> CodeComparison | None:
    """Compare the code around a simulation's class with a note; None for the code of another version of Python."""
    if note.python != _python():
        return None
    places = list(places_of(simulation, in_tables=note.tables is not None, through_wrappers=note.has_wrapped))
    named = list(_definitions(places))
    values, code = ({_digest(one): one for one in named if one.is_value is value} for value in (True, False))
    new = [one for digest, one in code.items() if digest not in note.definitions]
    edited = _edited_lines(named, note.lines)
    kept, tables = _kept_beside(note, places), _tables(places) if note.tables is not None else {}
    read = names_in_code(_functions(named))
    imported = {_digest(one): f"{one.name} (imported at {one.path})" for one in _imported(named)}
    known = {"is_early": note.is_kept_early, "has_tables": note.tables is not None}
    not_compared = list(untold_values(places, read, is_kept=note.kept is not None, **known))
    not_compared += imported.values() if note.imported is None else ()
    other_values = [one for digest, one in values.items() if digest not in note.values]
    found = {is_early: dict[bytes, CodeStatement]() for is_early in (True, False)}
    for one in statements_of(places, read):
        found[one.is_early][_statement_digest(one)] = one
    parts = [(_STATEMENTS, found[True], note.statements), (_REFERENCES, found[False], note.references)]
    beside = [(now, noted) for _, now, noted in parts if noted is not None]
    other = [one for now, noted in beside for digest, one in now.items() if digest not in noted]
    other_kept = [one for digest, one in kept.items() if digest not in (note.kept or ())]
    other_tables = [one for digest, one in tables.items() if digest not in (note.tables or ())]
    of_values = [
        (note.values, values, other_values),
        (note.kept, kept, other_kept),
        (note.tables, tables, other_tables),
    ]
    shown_values = [*_shown_values(other_values), *map(shown, [*other_kept, *other_tables]), *_shown_meanings(other)]
    other_texts = list(dict.fromkeys(shown_values))
    return CodeComparison(
        compared=sum(not one.is_value for one in named),
        compared_values=sum(one.is_value and not one.is_enums for one in named) + len(kept) + len(tables),
        different=list(dict.fromkeys(_shown_code(new, edited, other))),
        values=other_texts,
        gone_values=sum(max(0, len((noted or set()) - now.keys()) - len(new)) for noted, now, new in of_values),
        # Of what has changed, the digest of before is gone, too.
        gone=max(0, len(note.definitions - code.keys()) - len(new)),
        left_out=list(dict.fromkeys(not_compared)),
        imported=[text for key, text in imported.items() if note.imported is not None and key not in note.imported],
        gone_statements=max(0, sum(len(noted - now.keys()) for now, noted in beside) - len(other)),
        not_noted=[what for what, now, noted in parts if noted is None and now],
        by_functions=shown_changes(places, {*other_texts, *not_compared}),
        has_same_files=_has_same_files(note, {one.path for one in places}),
    )


def _has_same_files(note: CodeNote, paths: set[str]) -> bool:
    """Return True if no file is a new one: a module that is not used any more was named in another one."""
    found = file_digests(paths).values()
    return note.files is not None and note.files.issuperset(found) and not may_read_files(paths)


def is_noted(note: CodeNote, place: Place) -> bool:
    """Return True for a plain value, or a table, of which the note has the digest."""
    digests = {*_tables([place]), *(_digest(one) for one in _definitions([place]) if one.is_value)}
    return bool(digests) and digests <= note.values | (note.tables or frozenset())


def _shown_code(new: list[Definition], edited: Mapping[int, int], statements: list[CodeStatement]) -> Iterator[str]:
    """Functions and statements that differ, each once: of a class whose statement does, not the functions that follow from it.

    edited: the lines to name, by id of the definition.
    """
    changed = {one.name for one in statements if one.what}
    named = {one.name for one in new}
    for statement in statements:
        if statement.is_code and (statement.what or statement.name not in named):
            yield statement.shown
    for one in new:
        holder = one.name.rpartition(".")[0]
        if one.is_of_a_process:
            continue
        if not one.is_generated:
            yield shown(one, edited.get(id(one)))
        elif holder not in changed:
            yield f"what a decorator or a base generates for {holder} ({place_text(one.path, holder)})"


def _file_of(function: types.FunctionType) -> str:
    return own_code(function).co_filename


def _shown_meanings(statements: list[CodeStatement]) -> Iterator[str]:
    return (one.shown for one in statements if not one.is_code)


def _functions(named: Iterable[Definition]) -> Iterator[types.FunctionType]:
    return (one.content for one in named if isinstance(one.content, types.FunctionType))


def _statement_digest(one: CodeStatement) -> bytes:
    return xxhash.xxh3_64_digest(f"{one.what}{one.name}\0{one.text}".encode("utf-8", "surrogatepass"))[:DIGEST_BYTES]


def _shown_values(different: list[Definition]) -> Iterator[str]:
    """Values as shown. What Python keeps for an enumeration is not, but for their order, where no member differs itself."""
    own = [one for one in different if not one.is_enums]
    yield from map(shown, own)
    changed = {one.name.rpartition(".")[0] for one in own}
    for one in different:
        holder, _, key = one.name.rpartition(".")
        if one.is_enums and key == _MEMBER_NAMES and holder not in changed:
            yield f"the members of {holder} ({one.file})"


def _lines_of(named: Iterable[Definition]) -> Iterator[tuple[bytes, bytes]]:
    """The name of each function as a digest, with its number among those of that name, and the digests of its lines, joined."""
    for one, key in _numbered(named):
        yield key, b"".join(digest for _, digest in line_digests(own_code(one.content)))


def _numbered(named: Iterable[Definition]) -> Iterator[tuple[Definition, bytes]]:
    numbers = Counter[str]()
    for one in named:
        if not one.is_value:
            number = numbers[one.name]
            numbers[one.name] += 1
            yield one, xxhash.xxh3_64_digest(f"{one.name}\0{number}".encode("utf-8", "surrogatepass"))[:NAME_BYTES]


def _edited_lines(named: Iterable[Definition], noted: Mapping[bytes, bytes]) -> dict[int, int]:
    """By id of the definition, the first line that was edited since the note, of those that the note has."""
    edited = {}
    for one, key in _numbered(named):
        line = first_edited_line(noted[key], line_digests(own_code(one.content))) if key in noted else None
        if line is not None:
            edited[id(one)] = line
    return edited


def _python() -> str:
    return f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))} -O{sys.flags.optimize}"


def definitions_at(place: Place, value: Any) -> Iterator[Definition]:
    """What a value at a place defines: a plain value, the members of an enum, or functions of the module."""
    if not is_special(place.key) and (text := value_text(value)) is not None:
        follows = isinstance(place.holder, enum.EnumMeta) and is_enums(place.key)
        is_fixed = place.key.isupper() and is_constant(value)
        yield Definition(place.name, place.file, text, place.path, is_fixed, follows)
        return
    if place.key == "_member_map_" and type(value) is dict:
        yield from _members_of_enum(place, value)
    for function in reached_functions(value):
        if function.__module__ == place.module:
            yield Definition(place.name, place.file, function, place.path)


def _definitions(places: Iterable[Place]) -> Iterator[Definition]:
    return (one for place in places for one in definitions_at(place, place.value()))


def _imported(named: Iterable[Definition]) -> Iterator[Definition]:
    """The modules that functions import, each with the text of its code, and in place of the path the line that imports it."""
    found = imported_sources(one.content for one in named if not one.is_value)
    for name, (text, place) in found.items():
        yield Definition(name, "", f"{_IMPORTED}{text}", place)


def _kept(places: Iterable[Place]) -> Iterator[Definition]:
    """What functions, partial calls and patterns keep, at each name that has any of them."""
    for place in places:
        value = place.value()
        text = kept_text(value, place.module) if value_text(value) is None else None
        if text:
            yield Definition(place.name, place.file, f"{_KEPT}{text}", place.path)


def _tables(places: Iterable[Place]) -> dict[bytes, Definition]:
    found = (Definition(place.name, place.file, text, place.path) for place, text in member_tables(places))
    return {_digest(one): one for one in found}


def _kept_beside(note: CodeNote, places: Iterable[Place]) -> dict[bytes, Definition]:
    """What functions keep, by digest; for an early note, with that of its texts which is in it, if any is."""
    if note.kept is None:
        return {}
    if not note.is_kept_early:
        return {_digest(one): one for one in _kept(places)}
    found = {}
    for place in places:
        value = place.value()
        texts = earlier_kept_texts(value, place.module) if value_text(value) is None else []
        kept = [Definition(place.name, place.file, f"{_KEPT}{text}", place.path) for text in texts if text]
        known = [one for one in kept if _digest(one) in note.kept]
        found.update({_digest(one): one for one in (known or kept)[:1]})
    return found


def _members_of_enum(place: Place, members: dict[str, Any]) -> Iterator[Definition]:
    of_class = place.name.removesuffix(place.key)
    for name, member in members.items():
        text = value_text((content_of(member) or {}).get("_value_"))
        if text is not None:
            yield Definition(f"{of_class}{name}", place.file, text, place.path, is_constant=True)


def shown(one: Definition, edited: int | None = None) -> str:
    """The name with the file and the line; of a function that a decorator made, such as that of dataclasses, with the file.

    edited: the line to name, if it is not the first one.
    """
    if not isinstance(one.content, types.FunctionType):
        return f"{one.name} ({place_text(one.path, one.name)})"
    code = own_code(one.content)
    line = (edited or code.co_firstlineno) if Path(code.co_filename).name == one.file else None
    return f"{one.name} ({one.file}{'' if line is None else f':{line}'})"


def _digest(one: Definition) -> bytes:
    text = function_text(one.content) if isinstance(one.content, types.FunctionType) else one.content
    return xxhash.xxh3_64_digest(f"{one.name}\0{text}".encode("utf-8", "surrogatepass"))[:DIGEST_BYTES]
