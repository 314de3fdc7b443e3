"""What class statements and decorators make, as text that is the same in each process: neither functions nor values tell it.

Of a class: its metaclass, the order of its bases, its slots, and the order of its fields. Of a name that functions stand
behind: the kind of its descriptor and the functions of its decorators, in their order. Of another name: the class, the module
or the function of another module that it stands for. None of the user's code is run.
"""

from __future__ import annotations

import enum
import functools
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from recorder.ambient.outside.code_parts.c_functions import c_function_text
from recorder.ambient.outside.code_parts.defining_lines import class_line, import_line, place_text
from recorder.ambient.outside.code_parts.places import Place, is_defined_here, is_special
from recorder.ambient.outside.code_text import array_orders, assignment_line, is_constant, value_text
from recorder.ambient.roots import CACHE_TYPE, content_of, is_users, kept_by_decorator
from sim.enum_members import is_enums
from sim.kernel.class_names import importable_module, module_of
from sim.replaced_code import own_code

_DEPTH_MAX = 20  # Of decorators behind each other.
_OF_A_CLASS = ("__slots__", "__match_args__", "__struct_fields__", "__array_priority__")
_OF_FIELDS = ("name", "init", "compare", "eq", "order", "hash", "kw_only", "alias")  # Of dataclasses and of attrs.
_DESCRIPTORS = (staticmethod, classmethod, property, functools.cached_property, types.MethodType)
_PARTIAL = (functools.partial, functools.partialmethod)
_OF_ANNOTATIONS = ("__annotate__", "__annotate_func__")
_BUILTIN_MODULES = ("builtins", "math", "cmath", "operator")  # Nothing of them is replaced while a run is recorded,
_REPLACED = ("hash",)  # but this.
# Modules whose classes and functions may be substitutes while a run is recorded, and those that set methods when they are used.
_LEFT_OUT = ("datetime", "random", "threading", "typing", "sim", "recorder", "replayer")

_NO_LIMIT = "a cache of None results"


@attrs.frozen(eq=False)
class CodeStatement:
    """A class statement, or what a name stands for.

    Attributes:
        name: qualified; of a class, or of the name.
        what: which of both, in front of the name.
        text: what it makes, without the name of its module.
        place: where it stands.
        now: what a name stands for, in a few words; empty of a class.
        is_code: False for a name that may be given another meaning while a program runs.
        is_early: True if it was noted by earlier versions, too.
    """

    name: str
    what: str
    text: str
    place: Place
    now: str = ""
    is_code: bool = True
    is_early: bool = True

    @property
    def shown(self) -> str:
        """With the file and the line as they are now."""
        path, file = self.place.path, self.place.file
        if self.what:
            line = class_line(path, self.name) or assignment_line(path, self.name)
            return f"{self.what}{self.name} ({file}{'' if line is None else f':{line}'})"
        line = import_line(path, self.name)
        where = place_text(path, self.name) if line is None else f"{file}:{line}"
        # The digests of a note have the limit as it is.
        now = "a cache without a limit" if self.now == _NO_LIMIT else self.now
        return f"{self.name}, now {now} ({where})"


def statements_of(places: Iterable[Place], named: set[str]) -> Iterator[CodeStatement]:
    """The statements at the places. named: what functions read; of other names that stand for something, none is of effect."""
    for place in places:
        value = place.value()
        if is_defined_here(value, place.module, place.name):
            yield CodeStatement(place.name, "the class statement of ", _without_home(_class_text(value), place), place)
            if fields := _fields_text(value):
                yield CodeStatement(place.name, "the fields of ", _without_home(fields, place), place)
        else:
            yield from (one for one in _meanings(place, value) if one.is_code or place.key in named)
            if (orders := array_orders(value)) and (isinstance(place.holder, type) or place.key in named):
                yield CodeStatement(
                    place.name, "the order in memory of ", f"{orders}", place, is_code=False, is_early=False
                )


def _without_home(text: str, place: Place) -> str:
    """A text without the name of its own module, or of the package of that: a copy of the code may have another one."""
    module = importable_module(place.module)
    for name, short in ((module, "."), (module.partition(".")[0], "..")):
        text = re.sub(rf"(?<![\w.]){re.escape(name)}\.", short, text)
    return text


def _meanings(place: Place, value: Any) -> Iterator[CodeStatement]:
    """What a name stands for, as earlier versions noted it, and once more if that lacks functions of C; none for a value."""
    key, is_in_class = place.key, isinstance(place.holder, type)
    if key in _OF_ANNOTATIONS or (is_special(key) and not is_in_class):
        return
    if isinstance(place.holder, enum.EnumMeta) and is_enums(key):
        return
    early = _EARLY.text(value)
    text = _FULL.text(value)
    is_function = type(value) is types.FunctionType
    is_own = early == f"{_home(value)}.{place.name}" if is_function else True
    is_alias = issubclass(type(value), type | types.ModuleType) or c_function_text(value) is not None
    is_code = is_in_class or not (is_alias or (is_function and value.__module__ != place.module))
    now = _now(value, is_own=is_own)
    if early is not None:
        yield CodeStatement(place.name, "", _without_home(early, place), place, now, is_code)
    if text is not None and text != early:
        yield CodeStatement(place.name, "", _without_home(text, place), place, now, is_code, is_early=False)


def _now(value: Any, *, is_own: bool) -> str:
    """A name's meaning in a few words."""
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        return f"the module {(content_of(value) or {}).get('__name__')}"
    if issubclass(kind, type):
        return f"the class {value.__qualname__}"
    if (text := c_function_text(value)) is not None:
        return text
    if kind is types.FunctionType:
        name = own_code(value).co_qualname.partition(".<locals>")[0]
        return "a function without a decorator" if is_own else f"a function of {name}"
    if kind is CACHE_TYPE:
        return f"a cache of {value.cache_parameters()['maxsize']} results"
    return f"a {kind.__qualname__}"


class _Texts:
    """What names stand for, as text."""

    def __init__(self, *, with_c: bool) -> None:
        """with_c: tell all functions, methods and ufuncs that are written in C, and the class that a method is bound to."""
        self._with_c = with_c

    def text(self, value: Any, depth: int = 0) -> str | None:
        """None for what is no function, class or module, and for what is left out."""
        kind = type(value)
        if depth > _DEPTH_MAX:
            return "..."
        if kind is types.FunctionType:
            return self._function_text(value, depth)
        if (
            kind is types.BuiltinFunctionType
            and value.__module__ in _BUILTIN_MODULES
            and value.__name__ not in _REPLACED
        ):
            return f"{value.__module__}.{value.__qualname__}"
        if kind is types.BuiltinFunctionType:
            return self._c_text(value)
        if issubclass(kind, types.ModuleType):
            return f"module {importable_module(str((content_of(value) or {}).get('__name__')))}"
        if issubclass(kind, type):
            name = _class_name(value)
            return None if name.partition(".")[0] in _LEFT_OUT else f"class {name}"
        if kind is CACHE_TYPE:
            return f"{sorted(value.cache_parameters().items())!r}({self.text(value.__wrapped__, depth + 1)})"
        if kind in _PARTIAL:
            return f"{kind.__qualname__}({self.text(value.func, depth + 1)})"
        if issubclass(kind, _DESCRIPTORS):
            texts = [one and self.text(one, depth + 1) for one in kept_by_decorator(value)]
            return f"{_class_name(kind)}({texts}){self._holder_text(value)}"
        wrapped = (content_of(value) or {}).get("__wrapped__")
        is_called = any("__call__" in vars(base) or "__get__" in vars(base) for base in kind.__mro__)
        if is_called and (wrapped is not None or is_users(module_of(kind))):
            return f"{_class_name(kind)}({self.text(wrapped, depth + 1)})"
        return self._c_text(value)

    def _c_text(self, value: Any) -> str | None:
        return c_function_text(value) if self._with_c else None

    def _holder_text(self, value: Any) -> str:
        """The class that a method is bound to."""
        is_bound = type(value) is types.MethodType and issubclass(type(value.__self__), type)
        return f" of {_class_name(value.__self__)}" if is_bound and self._with_c else ""

    def _function_text(self, function: types.FunctionType, depth: int) -> str | None:
        """A function by its name and those that it keeps, such as the one that a decorator wraps."""
        home = _home(function)
        if home.partition(".")[0] in _LEFT_OUT:
            return None
        kept = []
        for cell in function.__closure__ or ():
            try:
                inside = cell.cell_contents
            except ValueError:  # It is empty.
                continue
            if type(inside) in (types.FunctionType, CACHE_TYPE) or issubclass(type(inside), _DESCRIPTORS):
                kept.append(self.text(inside, depth + 1))
        name = f"{home}.{own_code(function).co_qualname}"
        return f"{name}({kept})" if kept else name


_EARLY = _Texts(with_c=False)  # As earlier versions noted them.
_FULL = _Texts(with_c=True)


def _home(function: Any) -> str:
    """The module whose code a function is, which a decorator's ``functools.wraps`` does not change."""
    return importable_module(str(function.__globals__.get("__name__")))


def _class_name(kind: type) -> str:
    return f"{importable_module(module_of(kind))}.{kind.__qualname__}"


def _class_text(kind: type) -> str:
    content = vars(kind)
    bases = [_class_name(one) for one in kind.__bases__]
    order = [] if type(kind).mro is type.mro else [_class_name(one) for one in kind.__mro__]
    own = [] if _fields_of(content) else _own_texts(content)
    is_hashed = not ("__hash__" in content and content["__hash__"] is None)
    boundary = getattr(content.get("_boundary_"), "_name_", None)  # Of flags.
    parameters = _parameters_text(content.get("__dataclass_params__"))
    inherited = any(type(one) is type(kind) for one in kind.__bases__)  # Then its bases tell it.
    return f"{'' if inherited else _class_name(type(kind))} {bases} {order} {own} {is_hashed} {boundary} {parameters}"


def _parameters_text(parameters: Any) -> str:
    """The arguments of a dataclass decorator."""
    names = getattr(type(parameters), "__slots__", ()) if module_of(type(parameters)) == "dataclasses" else ()
    return f"{[(name, getattr(parameters, name, None)) for name in names]}"


def _fields_text(kind: type) -> str:
    """The fields of a dataclass, a class of attrs or a named tuple, in their order; empty for another class."""
    content = vars(kind)
    if issubclass(kind, tuple) and type(names := content.get("_fields")) is tuple:
        return f"{names!r}"
    fields = _fields_of(content)
    return f"{list(map(_field_text, fields))} {_own_texts(content)}" if fields else ""


def _fields_of(content: Mapping[str, Any]) -> Iterable[Any]:
    fields = content.get("__dataclass_fields__") or content.get("__attrs_attrs__") or ()
    return list(fields.values()) if type(fields) is dict else fields


def _own_texts(content: Mapping[str, Any]) -> list[str]:
    """Values of a class that Python gives a meaning. Of a class with fields they may be made of these."""
    return [f"{name}={_plain_text(content[name])}" for name in _OF_A_CLASS if name in content]


def _field_text(field: Any) -> str:
    parts = [f"{name}={_part_text(getattr(field, name))}" for name in _OF_FIELDS if hasattr(field, name)]
    factory = _EARLY.text(getattr(field, "default_factory", None))
    return f"({parts} {_plain_text(getattr(field, 'default', None))} {factory})"


def _part_text(value: Any) -> str:
    return repr(value) if is_constant(value) else type(value).__qualname__


def _plain_text(value: Any) -> str:
    text = value_text(value)
    return type(value).__qualname__ if text is None else text
