"""Where the search for a cause starts, and which line it does not end at."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence

import attrs

from replayer.diagnose.explain.align import DIVERGED, HERE, HIDDEN, Alignment, ValueOrigin
from replayer.diagnose.explain.cause import Cause
from replayer.diagnose.explain.source_lines import Statement
from replayer.diagnose.explain.step_trace import RETURN, Operation, Record

_ITERATING = {
    "enumerate",
    "zip",
    "reversed",
    "iter",
    "range",
    "len",
    "list",
    "tuple",
}  # They make no values of objects.
_DRAWN = re.compile(r"an? (?:iterator|generator|coroutine)\b|[A-Za-z_]\w*: ")  # Their texts, see value_texts.text_of.
_TAKING = {
    *_ITERATING,
    "next",
    "set",
    "frozenset",
    "dict",
    "sum",
    "max",
    "min",
    "any",
    "all",
    "map",
    "filter",
    "itertools.islice",
}
_INDEX = re.compile(r"\[.*?\]|,.*| in [A-Za-z_].*")  # In a name for people, with where it is a variable.
_ARITHMETIC = {"abs", "bool", "divmod", "float", "int", "len", "max", "min", "pow", "round", "sum"}


def first_difference(alignment: Alignment) -> tuple[str, ValueOrigin] | None:
    """The value to start from, with the origin of its difference; None if nothing differs."""
    return _start(alignment) or _returned(alignment) or _divergence(alignment)


def _start(alignment: Alignment) -> tuple[str, ValueOrigin] | None:
    """The value to start from: of the fields that differ at the end, the one that began to differ first."""
    final = alignment.final()
    fields = {name: origin for name, origin in final.items() if name.startswith("s:")}
    # A simulation that saves its state has no fields before the step is over: the values that it holds count.
    kept = {name: origin for name, origin in final.items() if name[0] in "ocg" and origin.kind != HIDDEN}
    chosen = fields or kept
    if not chosen:
        return None
    return min(chosen.items(), key=lambda entry: (entry[1].item, entry[0]))


def _returned(alignment: Alignment) -> tuple[str, ValueOrigin] | None:
    """What the outermost function returned, such as an observation, which no object of the user's keeps."""
    records = alignment.first.records
    outermost = {f"f{record.frame}:return" for record in records if record.kind == RETURN and record.parent < 0}
    found = [(name, origin) for name, origin in alignment.final().items() if name in outermost and origin.kind == HERE]
    return max(found, key=lambda entry: entry[1].item, default=None)


def _divergence(alignment: Alignment) -> tuple[str, ValueOrigin] | None:
    """The last common item if the two never met again, for example because one of them raised an exception."""
    last = alignment.items[-1] if alignment.items else None
    if last is None or (last.first is not None and last.second is not None):
        return None
    both = [index for index, item in enumerate(alignment.items) if item.first is not None and item.second is not None]
    return ("", ValueOrigin(DIVERGED, both[-1])) if both else None


def draws_from(cause: Cause) -> bool:
    """Return True if all that a line reads from outside are generators and iterators: who draws from them makes values."""
    return cause.kind == "outside" and bool(cause.outside) and all(_DRAWN.match(one.first) for one in cause.outside)


def hands_over(cause: Cause) -> bool:
    """Return True if a line hands what it reads from outside to a function, as it is; ``next`` and the like take from it."""
    tree = _parsed(cause.place.text)
    if tree is None:
        return False
    names = {one.name for one in cause.outside}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) not in _TAKING]
    given = [value for call in calls for value in (*call.args, *(keyword.value for keyword in call.keywords))]
    return any(ast.unparse(value) in names for value in given)


def objects_called(text: str, function: str) -> list[tuple[str, bool]]:
    """The variables that lead to the object for which a statement calls a function: its method's, or the first argument.

    Each with True if the variable is that object itself.
    """
    tree = _parsed(text)
    found: dict[str, bool] = {}
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Call(func=ast.Attribute(value=led, attr=name)) if name == function:
                pass
            case ast.Call(func=ast.Name(id=name), args=[led, *_]) if name == function:
                pass
            case _:
                continue
        names = [one.id for one in ast.walk(led) if isinstance(one, ast.Name)]
        found |= {one: isinstance(led, ast.Name) for one in names}
    return list(found.items())


def _parsed(text: str) -> ast.Module | None:
    """The tree of a statement, or of the head of one; None of such as an elif."""
    try:
        return ast.parse(f"{text} pass" if text.endswith(":") else text)
    except SyntaxError:
        return None


def only_fetches(cause: Cause) -> bool:
    """Return True if all that differs after a line is inside an object that the line fetched from outside as it was.

    For example the head of a loop over objects: the line that reads the part that differs comes later.
    """
    if cause.kind not in ("outside", "version") or cause.value is None or not cause.outside:
        return False
    parts = [part for part in cause.value.parts if part[0] != cause.value.name]
    had = [part for one in cause.outside for part in one.parts]
    if not parts or len(parts) != len(cause.value.parts):
        return False
    is_loop = cause.place.text.startswith("for ") and all(call in _ITERATING for call in cause.calls)
    ends = [(path.removeprefix(cause.value.name), one, two) for path, one, two in parts]
    return is_loop or all(
        any(path.endswith(end) and texts == [one, two] for path, *texts in had) for end, one, two in ends
    )


def names_what_differs(cause: Cause) -> bool:
    """Return True if a line names what it reads from outside, or a part of it that differs."""
    names = [(one.name, *(path for path, *_ in one.parts)) for one in cause.outside]
    words = {words[-1] for own in names for name in own if (words := re.findall(r"[A-Za-z_]\w*", _INDEX.sub("", name)))}
    return not words.isdisjoint(re.findall(r"[A-Za-z_]\w*", cause.place.text))


def used_between(
    fetching: tuple[int, str, ValueOrigin],
    later: int,
    parents: Iterable[tuple[str, ValueOrigin]],
    reads: Callable[[int], Iterable[str]],
) -> tuple[int, str, ValueOrigin] | None:
    """The first line that reads what an earlier one fetched, and makes of it what a later one reads; None if there is none.

    parents: what the later one reads and that differs, with the origins.
    """
    item, name, _ = fetching
    found = [
        (origin.item, read, origin)
        for read, origin in parents
        if origin.kind == HERE and item < origin.item < later and name in set(reads(origin.item))
    ]
    return min(found, key=lambda one: one[:2], default=None)


def without_claim(cause: Cause) -> Cause:
    """The cause as the first difference: that its line has to do with the large value was not seen."""
    return attrs.evolve(cause, kind="unseen", operation=None, orders=[], way=[])


def is_called_by_others(inner: Record, outer: Record, statement: Statement | None) -> bool:
    """Return True if a line is of a function that no call in an outer line names: what that line calls, calls it.

    For example a comparison of two objects in heapq.heappop(): the outer line used the objects when it passed the heap.
    statement: that of the outer line.
    """
    if statement is None or not statement.calls or inner.frame == outer.frame:
        return False
    name = inner.function.rpartition(".")[2]
    return all(call.rpartition(".")[2] != name for call in statement.calls)


def may_make_values(statement: Statement | None) -> bool:
    """Return False for a line whose result follows from what it reads: it calls nothing but functions of arithmetic."""
    return statement is None or any(call not in _ARITHMETIC for call in statement.calls) or statement.displays


def is_frozen(operation: Operation, outside: Sequence[str]) -> bool:
    """Return True for a compiled function whose globals, which it took as constants, differed before the step."""
    return any(name[0] == "g" and name.rpartition(":")[2] == operation.name.rpartition(".")[2] for name in outside)
