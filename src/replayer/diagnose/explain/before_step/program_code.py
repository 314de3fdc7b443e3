"""The functions of the user's program, from reading its files: nothing is run.

What a step may run is found by names: a function counts as one of the step's if anything that the step may run names it.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from recorder.ambient.outside.own_code import is_users_file

FILES_MAX = 200
BYTES_MAX = 1_000_000  # Of one file.
MAKING = frozenset(("__init__", "__new__", "__post_init__"))  # They begin a new object.


@attrs.frozen(eq=False)
class Function:
    """A function, or the statements of a module or a class.

    Attributes:
        path, name: of the file, and in it.
        own: its nodes, without those of functions in it.
        runs_later: True for a lambda, a generator, a coroutine and a function with decorators: who runs it is not seen.
        is_class: True for the statements of a class.
    """

    path: str
    name: str
    own: tuple[ast.AST, ...]
    runs_later: bool = False
    is_class: bool = False

    @property
    def last_name(self) -> str:
        """Its name without those that it is in."""
        return self.name.rpartition(".")[2]


@attrs.frozen(eq=False)
class ProgramCode:
    """The functions of a program, but for those that begin a new object.

    Attributes:
        of_step: those that the step may run, by the names in it.
        given: others that the program gives to something by their names, or that run later: it is not seen who runs them.
        of_others: all others.
        step: the name of the step's method.
    """

    of_step: list[Function]
    given: list[Function]
    of_others: list[Function]
    step: str


def program_code(subject: Any, step: str) -> ProgramCode:
    """Read the files of the user's program. subject: the object that is stepped. step: the name of its method."""
    functions = functions_of_program(subject)
    of_step = _named_from(functions, step)
    steps = set(map(id, of_step))
    given = {name for function in functions for name in _given_names(function)}
    rest = [one for one in functions if one.last_name not in MAKING and id(one) not in steps]
    later = [one for one in rest if one.runs_later or one.last_name in given]
    return ProgramCode(
        [one for one in of_step if one.last_name not in MAKING],
        later,
        [one for one in rest if not (one.runs_later or one.last_name in given)],
        step,
    )


def functions_of_program(subject: Any) -> list[Function]:
    """All functions of the files of the user's program."""
    return [one for path in files_of_program(subject) for one in _functions(path)]


def _given_names(function: Function) -> set[str]:
    """The names that a function mentions without calling them."""
    called = {id(node.func) for node in function.own if isinstance(node, ast.Call)}
    return {
        text
        for node in function.own
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in called and (text := _name_of(node))
    }


def files_of_program(subject: Any) -> list[str]:
    """The files of the package or the folder that the object's class is in, and those of other loaded modules of the user's."""
    loaded = [str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())]
    files = dict.fromkeys(path for path in loaded if path.endswith(".py") and is_users_file(path))
    own = str(getattr(sys.modules.get(type(subject).__module__), "__file__", None) or "")
    if own in files:
        package = type(subject).__module__.partition(".")[0]
        top = str(getattr(sys.modules.get(package), "__file__", None) or own)
        folder = Path(top).parent
        beside = [*sorted(folder.glob("*.py")), *sorted(folder.glob("*/*.py"))]
        if Path(top).name == "__init__.py":
            beside += [*sorted(folder.parent.glob("*.py")), *sorted(folder.glob("*/*/*.py"))]
        # First, as there may be more than FILES_MAX.
        files = dict.fromkeys([*(str(path) for path in beside if is_users_file(str(path))), *files])
    return list(files)[:FILES_MAX]


def _functions(path: str) -> Iterator[Function]:
    try:
        if Path(path).stat().st_size > BYTES_MAX:
            return
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, name = waiting.pop()
        own: list[ast.AST] = []
        inside = list(ast.iter_child_nodes(node))
        while inside:
            child = inside.pop(0)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                last = "<lambda>" if isinstance(child, ast.Lambda) else child.name
                waiting.append((child, f"{name}.{last}".removeprefix(".")))
                continue
            own.append(child)
            inside[:0] = list(ast.iter_child_nodes(child))
        yield Function(path, name, tuple(own), _runs_later(node, own), isinstance(node, ast.ClassDef))


def _runs_later(node: ast.AST, own: list[ast.AST]) -> bool:
    if isinstance(node, ast.FunctionDef):
        names = {_name_of(one) for one in node.decorator_list}
        is_known = names <= {"property", "staticmethod", "classmethod", "setter", "override"}
        return not is_known or any(isinstance(one, ast.Yield | ast.YieldFrom) for one in own)
    return isinstance(node, ast.AsyncFunctionDef | ast.Lambda)


def _named_from(functions: list[Function], step: str) -> list[Function]:
    """The functions that the step may run, by the names in them; those that operators run count always."""
    by_name: defaultdict[str, list[Function]] = defaultdict(list)
    inside: defaultdict[tuple[str, str], list[Function]] = defaultdict(list)
    for function in functions:
        by_name[function.last_name].append(function)
        inside[function.path, function.name.rpartition(".")[0]].append(function)
    always = [name for name in by_name if name.startswith("__") and name.endswith("__") and name not in MAKING]
    first = [step, *always] if step in by_name else always
    waiting = [function for name in first for function in by_name[name]]
    found: dict[int, Function] = {}
    while waiting:
        function = waiting.pop()
        if id(function) in found or not function.name:
            continue
        found[id(function)] = function
        for name in {text for node in function.own if (text := _name_of(node))}:
            waiting += by_name.get(name, ())
        # What is in a function may run where that gives it to; of a class, what makes its objects.
        within = inside[function.path, function.name]
        waiting += [one for one in within if one.last_name in MAKING] if function.is_class else within
    return list(found.values())


def called_name(node: ast.expr) -> str:
    """The last name in an expression that is called, such as add in self.bag.add; empty for any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value  # As in getattr(self, "on_hit")().
    return ""
