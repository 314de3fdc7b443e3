"""Turn plain data, as TOML gives it, into attrs classes; a mistake names the key and says what was expected.

cattrs does the structuring; here are the types with bounds, and the one line that a user reads.
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

T = TypeVar("T")

SHOWN_MAX = 200  # Characters of a wrong value.


@attrs.frozen
class Whole:
    """Bounds of a whole number, both included. Used as ``Annotated[int, Whole(0, 9)]``."""

    low: int
    high: int


@attrs.frozen
class Decimal:
    """Bounds of a decimal number that becomes fixed point. Used as ``Annotated[int, Decimal(0, 9)]``.

    Attributes:
        places: binary places of the fixed point.
    """

    low: int
    high: int
    places: int = PLACES


def structure(plain: Mapping[str, Any], target: type[T]) -> T:
    """An instance of the attrs class target from plain data. Raises ConfigError for the first mistake."""
    try:
        return _CONVERTER.structure(plain, target)
    except (ClassValidationError, IterableValidationError, ForbiddenExtraKeysError, ConfigError) as error:
        raise _first_problem(error, "") from None


def _structure_bounded(value: Any, annotated: Any) -> int:
    bounds = get_args(annotated)[1]
    whole = isinstance(bounds, Whole)
    allowed = int if whole else int | float
    what = f"a {'whole' if whole else 'decimal'} number from {bounds.low} to {bounds.high} was expected"
    if isinstance(value, bool) or not isinstance(value, allowed) or not bounds.low <= value <= bounds.high:
        raise ConfigError("", f"{what}, found {shown(value)}")
    return value if whole and isinstance(value, int) else from_number(value, getattr(bounds, "places", PLACES))


def _structure_exact(value: Any, wanted: type) -> Any:
    if type(value) is not wanted:
        names = {str: "text", bool: "true or false", int: "a whole number"}
        raise ConfigError("", f"{names[wanted]} was expected, found {shown(value)}")
    return value


def _structure_choice(value: Any, wanted: Any) -> str:
    choices = get_args(wanted)
    if value not in choices:
        raise ConfigError("", f"one of {', '.join(choices)} was expected, found {shown(value)}")
    return str(value)


def _structure_list(value: Any, wanted: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError("", f"a list was expected, found {shown(value)}")
    inner = get_args(wanted)[0]
    made = []
    for index, item in enumerate(value):
        try:
            made.append(_CONVERTER.structure(item, inner))
        except (ClassValidationError, IterableValidationError, ForbiddenExtraKeysError, ConfigError) as error:
            raise _first_problem(error, f"[{index}]") from None
    return tuple(made)


def _structure_mapping(value: Any, _: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ConfigError("", f"a table was expected, found {shown(value)}")
    return value


def shown(value: Any) -> str:
    """What was found, for a message: dates as a file has them, and nothing that is too long to be read."""
    if isinstance(value, date | time):
        return str(value)
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python writes down no number of more than some thousand digits.
        return "more than can be shown"
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _is_bounded(wanted: Any) -> bool:
    return get_origin(wanted) is Annotated and isinstance(get_args(wanted)[1], Whole | Decimal)


def _is_choice(wanted: Any) -> bool:
    return get_origin(wanted) is Literal


def _is_mapping(wanted: Any) -> bool:
    return get_origin(wanted) is Mapping


def _is_list(wanted: Any) -> bool:
    return get_origin(wanted) is tuple and get_args(wanted)[1:] == (...,)


def _key(attribute: str) -> str:
    return attribute.removesuffix("_")


def _names(target: type[Any]) -> list[str]:
    return [field.name for field in attrs.fields(target)]


def _make_table_hook(target: type[Any], converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    from_text: Callable[[Any], Any] | None = getattr(target, "from_text", None)
    if from_text is not None:
        return lambda value, _: from_text(value)
    # A key that is a word of Python, such as "not", belongs to the attribute with an underscore behind it.
    renamed: dict[str, Any] = {n: override(rename=_key(n)) for n in _names(target) if n != _key(n)}
    structure_keys = make_dict_structure_fn(target, converter, _cattrs_forbid_extra_keys=True, **renamed)

    def structure_table(value: Any, wanted: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ConfigError("", "a table was expected")
        return structure_keys(value, wanted)

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


def _first_problem(error: BaseException, place: str) -> ConfigError:
    """The first leaf of what cattrs found, with the path to it."""
    match error:
        case ConfigError():
            joint = "." if place and error.key and not error.key.startswith("[") else ""
            return ConfigError(place + joint + error.key, error.problem)
        case ForbiddenExtraKeysError():
            name = min(error.extra_fields)
            known = ", ".join(map(_key, _names(error.cl)))
            return ConfigError(f"{place}.{name}" if place else name, f"there is no such key; known: {known}")
        case ClassValidationError():
            noted, others = error.group_exceptions()
            if not noted or isinstance(others[0] if others else None, ForbiddenExtraKeysError):
                # A misspelt key is both unknown and missing; saying that it is unknown helps more.
                return _first_problem(others[0], place)
            inner, note = noted[0]
            return _first_problem(inner, f"{place}.{_key(note.name)}" if place else _key(note.name))
        case KeyError():
            return ConfigError(place, "this key is missing")
    return ConfigError(place, str(error))
