"""Values that code reads and of which no digest tells anything: they are not said to be equal."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any

from recorder.ambient.outside.code_parts.c_functions import C_METHODS, c_function_text, keeps_object
from recorder.ambient.outside.code_parts.defining_lines import place_text
from recorder.ambient.outside.code_parts.kept_text import earlier_kept_texts, kept_text
from recorder.ambient.outside.code_parts.member_tables import member_table_text
from recorder.ambient.outside.code_parts.places import Place, is_special
from recorder.ambient.outside.code_text import assignment_line, is_constant, value_text
from recorder.ambient.outside.reached_functions import PARTIAL, reached_functions
from recorder.ambient.roots import CACHE_TYPE, content_of, is_users
from sim.replaced_code import own_code

_OF_FUNCTIONS = (types.FunctionType, types.MethodType, staticmethod, classmethod, property, functools.cached_property)
_OF_INSTANCES = (types.GetSetDescriptorType, types.MemberDescriptorType)


def untold_values(
    places: Iterable[Place], named: set[str], *, is_kept: bool, is_early: bool, has_tables: bool
) -> Iterator[str]:
    """What the code names and the note has no digest of.

    named: what functions read. is_kept: the note has digests of what functions keep. is_early: they are those of an
    earlier version. has_tables: it has digests of tables with members of enumerations.
    """
    found = dict[int, str]()
    for place in places:
        value = place.value()
        if not (_is_read(place, value, named) and value_text(value) is None and is_left_out(value)):
            continue
        if has_tables and member_table_text(place) is not None:
            continue
        if is_kept and (earlier_kept_texts(value, place.module)[0] if is_early else kept_text(value, place.module)):
            continue
        # Where it is made, not imported.
        if assignment_line(place.path, place.name) is not None or id(value) not in found:
            found[id(value)] = f"{place.name} ({place_text(place.path, place.name)})"
    yield from found.values()


def _is_read(place: Place, value: Any, named: set[str]) -> bool:
    """Return True for what functions name, and for a method of a class, which Python or a framework may call."""
    if place.key in named and not is_special(place.key):
        return True
    return isinstance(place.holder, type) and any(
        own_code(one).co_filename == place.path for one in reached_functions(value)
    )


def is_left_out(value: Any) -> bool:
    """Return True for a value, of no text, that code may read and that is neither a class, a module nor functions alone."""
    kind = type(value)
    if issubclass(kind, type | types.ModuleType | enum.Enum) or kind in (*C_METHODS, *_OF_INSTANCES):
        return False
    if kind.__module__ in ("typing", "_abc", "__future__", "dataclasses"):
        return False  # They are about types, or made by each import.
    if keeps_object(value):
        return True
    functions = list(reached_functions(value))
    if kind in _OF_FUNCTIONS:
        return any(map(_keeps_values, functions))
    if c_function_text(value) is not None:
        return False
    if issubclass(kind, functools.partial):
        return any(map(_is_value, (*value.args, *value.keywords.values())))
    if hasattr(kind, "__get__") and not functions:
        return bool(is_users(kind.__module__) and content_of(value))  # Not a field of a named tuple.
    # Of a cache, and of what a library has compiled, the function behind it is compared.
    is_wrapper = kind.__module__ == "functools" or (
        "__wrapped__" in (content_of(value) or {}) and not is_users(kind.__module__)
    )
    return any(map(_keeps_values, functions)) if is_wrapper and functions else True


def _keeps_values(function: types.FunctionType) -> bool:
    """Return True if a free variable of a function, or a default of a user's, is neither a function nor a class."""
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue  # It is empty.
        if _is_value(value):
            return True
    # Those of a library are a matter of its version.
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    is_own = bool(defaults) and is_users(str(function.__globals__.get("__name__")))
    return is_own and any(_is_value(one) for one in defaults if not is_constant(one))


def _is_value(value: Any) -> bool:
    """Return True for what is more than a function and a class: also for an object that is called like a function."""
    kind = type(value)
    if issubclass(kind, type) or kind in (*_OF_FUNCTIONS[:1], *C_METHODS, CACHE_TYPE):
        return False  # What a function keeps is looked at by itself.
    if keeps_object(value):
        return True
    if kind in PARTIAL:
        return any(map(_is_value, (*value.args, *value.keywords.values())))
    if callable(value) and not is_users(kind.__module__):
        # A library's wrapper of a function, such as a compiled one.
        return not list(reached_functions(value)) and c_function_text(value) is None
    return kind not in _OF_FUNCTIONS
