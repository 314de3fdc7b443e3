"""Functions of another version of the code, put in place of those of this process, to test which one makes a difference."""

from __future__ import annotations

import ast
import builtins
import copy
import sys
from collections.abc import Iterable, Sequence
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FunctionType, ModuleType
from typing import Any

from recorder.ambient.roots import content_of
from replayer.diagnose.explain.line_pairs.source_functions import FunctionNode, functions_of, names_in, value_statements
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.versions.taken_values import made_value
from replayer.diagnose.explain.versions.value_readers import is_read_when_loaded, put_in_modules

_MAKE = "_make_function"
_OF_CLASS = {"super", "__class__"}
_SUSPENDED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_WRAPPERS = (staticmethod, classmethod)
_MARK = f"__import__({__name__!r}, fromlist=['marks']).marks.append(0)"

marks: list[int] = []  # One for each run of a function that was put in place with a mark.
_held: list[str] = []  # Functions put in place of others that an object may hold, such as a closure or a generator.
_marked: list[str] = []  # Functions put in place with a mark.
brought: list[str] = []  # Names of the other version that functions needed, and that the module did not have.


class NotTakenError(Exception):
    """A function cannot be taken from the other version: nothing is said of it then."""


def was_run() -> bool:
    """Return True if a function ran that was put in place with a mark, and nothing can have run the old one.

    A value has no mark: whether it is read is not seen.
    """
    return (bool(marks) or not _marked) and not _held


def is_value(taken: Sequence[str]) -> bool:
    """Return True for the name of a value, of what take_functions takes."""
    _, name, path = taken
    return bool(path) and name in value_statements(SourceFile(path).tree)


def may_be_read_when_loaded(taken: Sequence[str]) -> bool:
    """Return True for a value that the user's modules may have read as they were loaded."""
    module = sys.modules.get(taken[0])
    return module is not None and is_value(taken) and is_read_when_loaded(module, taken[1].rpartition(".")[2])


def take_functions(taken: Iterable[Sequence[str]], *, marked: bool = False) -> None:
    """Take functions from other files: module, qualified name and file of each; with no file, the function is removed.

    A name that is given a value is taken like a function.

    marked: put them in place so that was_run() tells whether one of them ran. Raises NotTakenError.
    """
    marks.clear()
    _held.clear()
    _marked.clear()
    brought.clear()
    for module_name, name, path in taken:
        module = sys.modules.get(module_name)
        if module is None:
            raise NotTakenError
        holder: Any = module
        *classes, key = name.split(".")
        for one in classes:
            holder = vars(holder).get(one)
            if not isinstance(holder, type):
                raise NotTakenError
        if not path:
            if key not in vars(holder):
                raise NotTakenError
            _held.append(name)
            delattr(holder, key)
            continue
        if is_value((module_name, name, path)):
            _put_value(module, holder, name, path)
        else:
            _put(holder, key, name, _made(module, holder, name, path, marked=marked))


def _put(holder: Any, key: str, name: str, made: Any) -> None:
    """Put a function in place: in the object that is there, if other names may lead to it."""
    old = vars(holder).get(key)
    inner = [one.__func__ if isinstance(one, _WRAPPERS) else one for one in (old, made)]
    if type(old) is type(made) and all(isinstance(one, FunctionType) for one in inner):
        own, new = inner
        if own.__code__.co_flags & _SUSPENDED or any(isinstance(one, CodeType) for one in own.__code__.co_consts):
            _held.append(name)  # A generator or a function that it made runs on with the old code.
        is_plain = own.__code__.co_qualname == name and new.__code__.co_name == name.rpartition(".")[2]
        if is_plain and own.__code__.co_freevars == new.__code__.co_freevars:
            own.__code__, own.__defaults__, own.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
            return
    if old is not None:
        _held.append(name)
    setattr(holder, key, made)
    if isinstance(holder, ModuleType) and old is not None:
        for one in list(sys.modules.values()):  # Those that imported it by its name.
            content = content_of(one) or {}
            content.update({other: made for other, value in content.items() if value is old})


def _put_value(module: ModuleType, holder: Any, name: str, path: str) -> None:
    """Give a name of a module or a class the value of the other version, and other modules that imported it."""
    key = name.rpartition(".")[2]
    try:
        old, made = vars(holder)[key], made_value(module, holder, name, SourceFile(path).tree, path)
        setattr(holder, key, made)
    except Exception as error:  # Whatever the statement raises, or a class whose attributes cannot be set.
        raise NotTakenError from error
    if isinstance(holder, ModuleType):
        put_in_modules(holder, key, old, made)


def _made(module: ModuleType, holder: Any, name: str, path: str, *, marked: bool) -> Any:
    """The function of a file as it is with the globals of a module."""
    tree = SourceFile(path).tree
    node = functions_of(tree).get(name)
    if node is None:
        raise NotTakenError
    if isinstance(holder, type) and any(_is_private(one) for one in _attributes_and_names(node)):
        raise NotTakenError  # It stands for another one in each class.
    plain = _without_annotations(node)
    _add_missing(module, tree, plain)
    if marked:
        plain.body[:0] = ast.parse(_MARK).body
        _marked.append(name)
    used = {part.id for part in ast.walk(plain) if isinstance(part, ast.Name)}
    is_of_class = isinstance(holder, type) and bool(used & _OF_CLASS)
    if is_of_class and plain.name in used:
        raise NotTakenError  # In the function that makes it, its name would stand for itself, and not for a global.
    names: dict[str, Any] = {}
    try:
        exec(_program(plain, path, is_of_class=is_of_class), vars(module), names)  # noqa: S102 - the user's own code
        made = names[_MAKE](holder) if is_of_class else names[plain.name]
    except Exception as error:  # Whatever a decorator or the value of a default raises.
        raise NotTakenError from error
    if isinstance(made, FunctionType):
        made.__qualname__ = name
    return made


def _program(function: FunctionNode, path: str, *, is_of_class: bool) -> CodeType:
    """The definition of a function; for one that needs to know its class, in a function that is given the class."""
    body: list[ast.stmt] = [function]
    if is_of_class:
        arguments = ast.arguments([], [ast.arg("__class__")], None, [], [], None, [])
        value = ast.Return(ast.Name(function.name, ast.Load()))
        body = [ast.FunctionDef(_MAKE, arguments, [function, value], [], None, None)]
    code: CodeType = compile(ast.fix_missing_locations(ast.Module(body, [])), path, "exec", dont_inherit=True)
    return code


def _add_missing(module: ModuleType, tree: ast.Module, node: FunctionNode) -> None:
    """Define what the function names and the module does not have, as the other version does."""
    missing = names_in(node) - vars(module).keys() - vars(builtins).keys()
    for statement in tree.body:
        if _defined_by(statement) & missing:
            program = ast.Module([copy.deepcopy(statement)], [])
            try:
                exec(compile(program, "<missing>", "exec", dont_inherit=True), vars(module))  # noqa: S102 - see above
            except Exception as error:
                raise NotTakenError from error
            brought.extend(sorted(_defined_by(statement) & missing - {*brought}))


def _defined_by(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {(one.asname or one.name).partition(".")[0] for one in names}
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def _without_annotations(node: FunctionNode) -> FunctionNode:
    """A copy of a function without annotations, which may name what is not there."""
    plain = copy.deepcopy(node)
    plain.returns = None
    for part in ast.walk(plain.args):
        if isinstance(part, ast.arg):
            part.annotation = None
    return plain


def _attributes_and_names(node: FunctionNode) -> Iterable[str]:
    for part in ast.walk(node):
        match part:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.arg(arg=name):
                yield name


def _is_private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")
