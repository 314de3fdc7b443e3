"""Turn plain data, as parsed from TOML, into attrs classes. A mistake becomes one line with the key and the problem.

cattrs does the structuring. This module adds the bounded types and the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, time
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError
from cattrs.gen import make_dict_structure_fn, override

from sim.kernel.arithmetic.fixed_point import PLACES, from_number
from sim.kernel.registry import ConfigError
from sim.near_names import did_you_mean

T = TypeVar("T")

SHOWN_MAX = 200  # Characters of a rejected value in a message.


@attrs.frozen
class Whole:
    """Bounds of an integer, both included. Used as ``Annotated[int, Whole(0, 9)]``."""

    low: int
    high: int


@attrs.frozen
class Decimal:
    """Bounds, both included, of a decimal number that becomes fixed point. Used as ``Annotated[int, Decimal(0, 9)]``.

    Attributes:
        places: binary places of the fixed point.
    """

    low: int
    high: int
    places: int = PLACES


def structure(plain: Mapping[str, Any], target: type[T]) -> T:
    """Build an instance of the attrs class target from plain data. Raises ConfigError for the first mistake."""
    try:
        return _CONVERTER.structure(plain, target)
    except (ClassValidationError, IterableValidationError, ForbiddenExtraKeysError, ConfigError) as error:
        raise _first_problem(error, "") from None


def _structure_bounded(value: Any, annotated: Any) -> int:
    bounds = get_args(annotated)[1]
    whole = isinstance(bounds, Whole)
    allowed = int if whole else int | float
    expected = f"expected {'an integer' if whole else 'a decimal number'} from {bounds.low} to {bounds.high}"
    if isinstance(value, bool) or not isinstance(value, allowed) or not bounds.low <= value <= bounds.high:
        raise ConfigError("", f"{expected}, got {shown(value)}")
    return value if whole and isinstance(value, int) else from_number(value, getattr(bounds, "places", PLACES))


def _structure_exact(value: Any, target: type) -> Any:
    if type(value) is not target:
        names = {str: "text", bool: "true or false", int: "an integer"}
        raise ConfigError("", f"expected {names[target]}, got {shown(value)}")
    return value


def _structure_choice(value: Any, target: Any) -> str:
    choices = get_args(target)
    if value not in choices:
        raise ConfigError("", f"expected one of {', '.join(choices)}, got {shown(value)}")
    return str(value)


def _structure_list(value: Any, target: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError("", f"expected a list, got {shown(value)}")
    item_type = get_args(target)[0]
    items = []
    for index, item in enumerate(value):
        try:
            items.append(_CONVERTER.structure(item, item_type))
        except (ClassValidationError, IterableValidationError, ForbiddenExtraKeysError, ConfigError) as error:
            raise _first_problem(error, f"[{index}]") from None
    return tuple(items)


def _structure_mapping(value: Any, _: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ConfigError("", f"expected a table, got {shown(value)}")
    return value


def shown(value: Any) -> str:
    """A rejected value as text for a message, at most SHOWN_MAX characters; dates as a file has them."""
    if isinstance(value, date | time):
        return str(value)
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python refuses to format numbers of more than some thousand digits.
        return "a value too large to show"
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _is_bounded(target: Any) -> bool:
    return get_origin(target) is Annotated and isinstance(get_args(target)[1], Whole | Decimal)


def _is_choice(target: Any) -> bool:
    return get_origin(target) is Literal


def _is_mapping(target: Any) -> bool:
    return get_origin(target) is Mapping


def _is_list(target: Any) -> bool:
    return get_origin(target) is tuple and get_args(target)[1:] == (...,)


def _key(attribute: str) -> str:
    return attribute.removesuffix("_")


def _names(target: type[Any]) -> list[str]:
    return [field.name for field in attrs.fields(target)]


def _make_table_hook(target: type[Any], converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    from_text: Callable[[Any], Any] | None = getattr(target, "from_text", None)
    if from_text is not None:
        return lambda value, _: from_text(value)
    # A key that is a keyword of Python, such as "from", is the attribute with a trailing underscore.
    renamed: dict[str, Any] = {n: override(rename=_key(n)) for n in _names(target) if n != _key(n)}
    structure_keys = make_dict_structure_fn(target, converter, _cattrs_forbid_extra_keys=True, **renamed)

    def structure_table(value: Any, table_type: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ConfigError("", f"expected a table, got {shown(value)}")
        return structure_keys(value, table_type)

    return structure_table


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for exact in (str, bool):
        converter.register_structure_hook(exact, _structure_exact)
    converter.register_structure_hook_factory(attrs.has, lambda target: _make_table_hook(target, converter))
    converter.register_structure_hook_func(_is_list, _structure_list)
    converter.register_structure_hook_func(_is_mapping, _structure_mapping)
    converter.register_structure_hook_func(_is_choice, _structure_choice)
    converter.register_structure_hook_func(_is_bounded, _structure_bounded)
    return converter


_CONVERTER = _make_converter()


def _first_problem(error: BaseException, key_path: str) -> ConfigError:
    """The first leaf of a cattrs error, with the path to its key."""
    match error:
        case ConfigError():
            joint = "." if key_path and error.key and not error.key.startswith("[") else ""
            return ConfigError(key_path + joint + error.key, error.problem)
        case ForbiddenExtraKeysError():
            name = min(error.extra_fields)
            known = list(map(_key, _names(error.cl)))
            problem = f"unknown key; known keys: {', '.join(known)}{did_you_mean(name, known)}"
            return ConfigError(f"{key_path}.{name}" if key_path else name, problem)
        case ClassValidationError():
            noted, others = error.group_exceptions()
            if not noted or isinstance(others[0] if others else None, ForbiddenExtraKeysError):
                # A misspelt key is both unknown and missing; reporting it as unknown helps more.
                return _first_problem(others[0], key_path)
            inner, note = noted[0]
            return _first_problem(inner, f"{key_path}.{_key(note.name)}" if key_path else _key(note.name))
        case KeyError():
            return ConfigError(key_path, "this key is missing")
    return ConfigError(key_path, str(error))
