"""The user's code that a process has loaded: a digest of each function, method and constant around a simulation's class.

A tape notes the digests. A reader that loads the same code can say so, and of other code, which functions it is. Bytecode
differs between versions of Python, so it is compared within one only. Comments, lines and docstrings do not count.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import xxhash

from recorder.ambient.roots import is_users
from sim.kernel.class_names import module_of
from sim.kernel.simulation import subject_of
from sim.replaced_code import own_code

KEY = "code"  # In the note on the outside world.
DIGEST_BYTES = 6  # Of a thousand other definitions, one has the digest of a changed one with a chance of 4e-12.
DEFINITIONS_MAX = 1000  # In a note: META is repeated in each file of a tape.
_MODULES_MAX = 100
_PLAIN = (bool, int, float, str, bytes, type(None))
_WRAPPING = ("gymnasium.", "pettingzoo.")
_LIBRARY = ("sim", "recorder", "replayer")  # Their version is in the environment.

_HAS_DOCSTRING = (
    0x4000000  # A flag of code since Python 3.13; before, the first constant of a function is its docstring or None.
)
_NO_DOCSTRING = ("<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")

Named = tuple[str, str, Any]  # The place, the qualified name, and a function or the text of a constant.


@attrs.frozen
class CodeNote:
    """The digests of a note.

    Attributes:
        python: the version that compiled the code, with its level of optimization.
        digests: of all definitions.
    """

    python: str
    digests: frozenset[bytes]


@attrs.frozen
class CodeComparison:
    """Loaded code beside that of a note.

    Attributes:
        compared: how many definitions there are.
        different: those that the note does not have: changed since, or new; each as "Shop.step (shop.py:14)".
    """

    compared: int
    different: list[str]


def code_note(simulation: Any) -> dict[str, Any]:
    """The note on the code around a simulation's class, for META; empty for a class that is not the user's, or too much code."""
    try:
        digests = {_digest(one) for one in _definitions(simulation)}
    except Exception:  # noqa: BLE001 - whatever a module's objects raise when they are looked at: it stops no recording
        return {}
    if not 0 < len(digests) <= DEFINITIONS_MAX:
        return {}
    return {KEY: {"python": _python(), "digests": b"".join(sorted(digests))}}


def decode_code_note(plain: Any) -> CodeNote | None:
    """The note in plain data; None for anything else."""
    match plain:
        case {"python": str(python), "digests": bytes(joined)} if not len(joined) % DIGEST_BYTES:
            starts = range(0, len(joined), DIGEST_BYTES)
            return CodeNote(python, frozenset(joined[start : start + DIGEST_BYTES] for start in starts))
    return None


def compare_code(note: CodeNote, simulation: Any) -> CodeComparison | None:
    """Compare the code around a simulation's class with a note; None for the code of another version of Python."""
    if note.python != _python():
        return None
    named = list(_definitions(simulation))
    different = [f"{one[1]} ({one[0]})" for one in named if _digest(one) not in note.digests]
    return CodeComparison(len(named), list(dict.fromkeys(different)))


def _python() -> str:
    return f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))} -O{sys.flags.optimize}"


def _definitions(simulation: Any) -> Iterator[Named]:
    """What the modules around the simulation's class define, each once."""
    kinds = [kind for one in _objects(simulation) for kind in type(one).__mro__]
    waiting = [name for name in dict.fromkeys(map(module_of, kinds)) if _counts(name)]
    seen = set(waiting)
    for name in waiting:  # It grows by the modules that these use.
        content = dict(vars(sys.modules[name]))
        file = Path(str(content.get("__file__") or name)).name
        yield from _members(content, name, "", file)
        used = {_module_name(value) for value in content.values()}
        more = [one for one in sorted(used - seen) if _counts(one)]
        seen.update(more)
        if len(seen) <= _MODULES_MAX:
            waiting += more


def _objects(simulation: Any) -> list[Any]:
    """The user's object, and the environment that it wraps."""
    subject = subject_of(simulation)
    is_wrapper = any(kind.__module__.startswith(_WRAPPING) for kind in type(subject).__mro__)
    return [subject, subject.unwrapped] if is_wrapper else [subject]


def _counts(name: str) -> bool:
    return (
        name.partition(".")[0] not in _LIBRARY
        and isinstance(sys.modules.get(name), types.ModuleType)
        and is_users(name)
    )


def _module_name(value: Any) -> str:
    kind = type(value)  # Not isinstance: a proxy would be asked for its class.
    if issubclass(kind, types.ModuleType):
        return str(object.__getattribute__(value, "__dict__").get("__name__"))
    return str(value.__module__) if issubclass(kind, type | types.FunctionType) else ""


def _members(content: Mapping[str, Any], module: str, path: str, file: str) -> Iterator[Named]:
    """The functions, classes and constants that a module or a class defines itself."""
    for name, value in content.items():
        if issubclass(type(value), type):
            if value.__module__ == module and value.__qualname__ == f"{path}{name}":
                yield from _members(dict(vars(value)), module, f"{path}{name}.", file)
        elif name.isupper() and _is_plain(value):
            yield file, f"{path}{name}", repr(value)
        else:
            for function in _functions_in(value):
                if function.__module__ == module:
                    yield _place(own_code(function), file), f"{path}{name}", function


def _place(code: types.CodeType, file: str) -> str:
    """The file and the line; of a function that a decorator made, such as that of dataclasses, the file."""
    return f"{file}:{code.co_firstlineno}" if Path(code.co_filename).name == file else file


def _functions_in(value: Any) -> Iterable[types.FunctionType]:
    """The functions behind a name: a function itself, and those that decorators of Python keep."""
    kind = type(value)
    if kind is types.FunctionType:
        return (value,)
    if kind in (staticmethod, classmethod):
        return _functions_in(value.__func__)
    if kind is property:
        return [one for one in (value.fget, value.fset, value.fdel) if type(one) is types.FunctionType]
    if kind is functools.cached_property:
        return _functions_in(value.func)
    return ()


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or (type(value) is tuple and all(map(_is_plain, value)))


def _digest(one: Named) -> bytes:
    _, name, content = one
    text = content if isinstance(content, str) else _function_text(content)
    return xxhash.xxh3_64_digest(f"{name}\0{text}".encode("utf-8", "surrogatepass"))[:DIGEST_BYTES]


def _function_text(function: types.FunctionType) -> str:
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    plain = [repr(one) if _is_plain(one) else type(one).__qualname__ for one in defaults]
    return f"{_code_text(own_code(function))} {plain}"


@functools.lru_cache(maxsize=4096)  # A process may begin many recordings.
def _code_text(code: types.CodeType) -> str:
    """What a code object does, in text that is the same in each process."""
    constants = code.co_consts[1:] if _has_docstring(code) else code.co_consts
    texts = [_code_text(one) if isinstance(one, types.CodeType) else _constant_text(one) for one in constants]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_HAS_DOCSTRING)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return f"{code.co_code.hex()} {code.co_exceptiontable.hex()} {counts} {names} {texts}"


def _has_docstring(code: types.CodeType) -> bool:
    if sys.version_info >= (3, 13):
        return bool(code.co_flags & _HAS_DOCSTRING)
    is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name not in _NO_DOCSTRING
    return bool(is_function and code.co_consts and isinstance(code.co_consts[0], str))


def _constant_text(value: Any) -> str:
    """A constant as text: the elements of a frozenset have no order that is the same in each process."""
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(_constant_text, value))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant_text, value))})"
    return repr(value)
