"""Arguments that are objects of a module, such as a card of a deck: by their names, as the graph of objects saves them.

What the object holds is written, too. A program may write to such an object between two calls, so a replay gives it what
it held in the recorded run, where a restore would. One in a list or dict of a module is taken only as it was; see global_items.py.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from sim.adapters.capture.graph.attribute_setters import clear_attributes, set_attributes
from sim.adapters.capture.graph.names.attribute_names import names_of, read_slowly
from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.graph.names.python_class import base_of
from sim.adapters.capture.values import NotPlainError, OtherValues, decode_value, encode_value


def global_form(name: str, value: Any, path: str, inside: OtherValues) -> list[Any]:
    """The form of an object of a module. inside: writes what it holds. Raises NotPlainError with a path below path."""
    try:
        return ["N", name, encode_value(value, None, inside)]
    except NotPlainError as error:
        raise NotPlainError(path + error.path.removeprefix("value"), error.value, error.why) from None


def global_value(finder: ClassFinder, name: str, content: bytes, inside: OtherValues) -> Any:
    """The object of this name, with what was recorded; another one if a restore may not write to it, and it differs.

    Raises ValueError, LookupError.
    """
    made = decode_value(content, None, inside)
    found, is_own = finder.find_to_fill(name)
    if type(found) is not type(made):
        raise ValueError(
            f"expected a {type(made).__qualname__} with the name {name!r}, got a {type(found).__qualname__}"
        )
    if encode_value(found, None, inside) == content:
        return found
    if not is_own:
        return made
    _fill(found, made)
    return found


def _fill(found: Any, made: Any) -> None:
    """Give an object what another one of its type holds, without any code of the class."""
    if isinstance(found, list | deque):
        found.clear()
        found.extend(made)
    elif isinstance(found, dict | set):
        found.clear()
        found.update(made)
    elif base_of(type(found)) is object:
        names = names_of(made)
        clear_attributes(found)
        set_attributes(found, names, read_slowly(made, names))
    else:
        raise ValueError(f"a {type(found).__qualname__} of a module holds something else than in the recorded run")
