"""What functions and plain values are, as text that is the same in each process with the same version of Python."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from sim.enum_members import member_name
from sim.kernel.class_names import importable_module
from sim.replaced_code import own_code

ELEMENTS_MAX = 1000  # Of a table that is a plain value.
ARRAY_BYTES_MAX = 1_000_000
_content_of_class: Any = type.__dict__["__dict__"].__get__
_qualified_name_of: Any = type.__dict__["__qualname__"].__get__
CONTAINERS = (list, tuple, dict, set, frozenset)
COLLECTIONS = (defaultdict, OrderedDict, Counter, deque)
_PLAIN = (bool, int, float, str, bytes, type(None))
_HAS_DOCSTRING = (
    0x4000000  # A flag of code since Python 3.14; before, the first constant of a function is its docstring or None.
)
_NO_DOCSTRING = ("<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def function_text(function: types.FunctionType) -> str:
    """A function: its code, and those of its defaults that cannot change."""
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    plain = [repr(one) if is_constant(one) else type(one).__qualname__ for one in defaults]
    return f"{code_text(own_code(function))} {plain}"


def is_constant(value: Any) -> bool:
    """Return True for a number, a text, bytes, None, and tuples of these."""
    return type(value) in _PLAIN or (type(value) is tuple and all(map(is_constant, value)))


def value_text(value: Any, *, with_names: bool = False) -> str | None:
    """A plain value: a constant, an array of numbers, and lists, tuples, dicts and sets of these; None for anything else.

    A table of more than ELEMENTS_MAX elements in all, and an array of more than ARRAY_BYTES_MAX, are not looked at.

    with_names: members of enumerations, functions and classes are plain, too: by their names, since each has a text of its own
    elsewhere; and so are the further containers of the module collections.
    """
    left = [ELEMENTS_MAX]
    try:
        return _value_text(value, left, with_names=with_names)
    except _NotPlainError:
        return None


class _NotPlainError(Exception):
    """A value has a part that is not plain, or too many."""


def _value_text(value: Any, left: list[int], *, with_names: bool) -> str:
    kind = type(value)
    left[0] -= 1
    if kind in _PLAIN:
        return repr(value)
    if with_names and (name := _name_of(value)) is not None:
        return name
    if kind is np.ndarray and not value.dtype.hasobject and value.nbytes <= ARRAY_BYTES_MAX:
        content = xxhash.xxh3_128_hexdigest(value.tobytes())  # Dates have no buffer.
        return f"array({value.dtype!r}, {value.shape}, {content})"
    known = (*CONTAINERS, *COLLECTIONS) if with_names else CONTAINERS
    if kind not in known or len(value) > left[0]:
        raise _NotPlainError
    if issubclass(kind, dict):
        pairs = [[_value_text(one, left, with_names=with_names) for one in pair] for pair in list(value.items())]
        return f"{kind.__name__}({list(map(tuple, pairs))})"
    texts = [_value_text(one, left, with_names=with_names) for one in list(value)]
    return f"{kind.__name__}({sorted(texts) if kind in (set, frozenset) else texts})"


def _name_of(value: Any) -> str | None:
    """The name of a member, or of a function or a class that has one of its own; None for anything else. It asks no class."""
    kind = type(value)
    is_of_c = kind is types.BuiltinFunctionType and issubclass(type(value.__self__), types.ModuleType | type(None))
    if is_of_c or kind is types.FunctionType:
        module, name = value.__module__, value.__qualname__
    elif issubclass(kind, type):
        module, name = _content_of_class(value).get("__module__"), _qualified_name_of(value)
    else:
        return member_name(value)
    if "<" in name:
        return None  # Such as <lambda>: another function may have the same name.
    # A copy of the code has other packages around it.
    return f"{importable_module(str(module)).rpartition('.')[2]}.{name}"


def array_orders(value: Any) -> list[str]:
    """How the arrays of a plain value lie in memory, which decides in which order ravel("K") and sums go through them."""
    if value_text(value) is None:
        return []
    waiting, found = [value], list[str]()
    while waiting:
        one = waiting.pop()
        if type(one) is np.ndarray:
            found.append("C" if one.flags.c_contiguous else "F" if one.flags.f_contiguous else f"{one.strides}")
        elif type(one) is dict:
            waiting += one.values()
        elif type(one) in (list, tuple):
            waiting += one
    return found


def assignment_line(path: str, name: str) -> int | None:
    """The first line of a file, as it is now, that gives a value to a qualified name, such as "Shop.tax"; None if none is found."""
    body, key = body_of(path, name)
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == key for target in targets):
            return node.lineno
    return None


def function_line(path: str, name: str) -> int | None:
    """The line of a file, as it is now, that defines a function of a qualified name; None if none is found."""
    body, key = body_of(path, name)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return next((node.lineno for node in body if isinstance(node, kinds) and node.name == key), None)


def names_of_a_program(path: str) -> set[str]:
    """The names that a file gives a value only where it runs as a program, in ``if __name__ == "__main__":``."""
    body, _ = body_of(path, "")
    blocks = [node for node in body if isinstance(node, ast.If) and "__name__" in _names_in(node.test)]
    return set().union(*map(_stored_in, blocks)) - set().union(
        *(_stored_in(node) for node in body if node not in blocks)
    )


def _names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _stored_in(node: ast.AST) -> set[str]:
    names = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
    defined = [one.name for one in ast.walk(node) if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    return {one.id for one in names if isinstance(one.ctx, ast.Store)} | set(defined)


def body_of(path: str, name: str) -> tuple[list[ast.stmt], str]:
    """The statements of the module or class that has a qualified name, and the last part of it; none if it is not found."""
    *classes, key = name.split(".")
    try:
        body = _statements(Path(path).read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError):
        return [], key
    for one in classes:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == one), [])
    return body, key


@functools.lru_cache(maxsize=16)  # Names of one module are asked for one after another.
def _statements(source: str) -> list[ast.stmt]:
    return ast.parse(source).body


@functools.lru_cache(maxsize=4096)  # A process may begin many recordings.
def code_text(code: types.CodeType) -> str:
    """Code without the lines that it stands in, and without its docstring."""
    constants = code.co_consts[1:] if _has_docstring(code) else code.co_consts
    texts = [code_text(one) if isinstance(one, types.CodeType) else constant_text(one) for one in constants]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_HAS_DOCSTRING)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return f"{code.co_code.hex()} {code.co_exceptiontable.hex()} {counts} {names} {texts}"


def _has_docstring(code: types.CodeType) -> bool:
    if sys.version_info >= (3, 14):
        return bool(code.co_flags & _HAS_DOCSTRING)
    is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name not in _NO_DOCSTRING
    return bool(is_function and code.co_consts and isinstance(code.co_consts[0], str))


def constant_text(value: Any) -> str:
    """A constant as text: the elements of a frozenset have no order that is the same in each process."""
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(constant_text, value))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(constant_text, value))})"
    return repr(value)
