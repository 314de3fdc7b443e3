"""The sentence of replay explain about the line of a cause."""

from __future__ import annotations

import ast
import contextlib

from recorder.text import shown_path
from replayer.diagnose.explain.cause import Cause, DifferingValue, SourceLocation
from replayer.report.before_step import LOAD

_ALONE = {type(None), bool, type(...)}  # Kinds of which each value is one object.

_FIXED = {
    "identity": "this line changes an object that has two names in only one of the two",
    "order": "this line iterates over a set that has the same members in another order",
    "version": "this line reads a value that is not in the state, and that differed before it ran",
    "inexact": "save() and load() do not bring back exactly what the step reads: for both values, save() returns the same",
    "unseen": "after this line a value differs; the cause is not known, since not all that lines read and change was seen",
    "split": "load() makes two objects of one; joined again before the step, they give in B the state of A",
    "joined": "load() makes one object of two; made two again before the step, they give in B the state of A",
    "shared": "names share an object or memory before the step in only one of the two; shared as in A, B gives the state of A",
    "alone": "only one of the two runs this line",
    "depth": (
        "how deep the stack is when the step is called: run from two depths, four times each, it gives the same state from "
        "each depth, and different ones from the other; this line is in a try that catches a RecursionError"
    ),
}

_READS = ("outside", "version", "load", "inexact")  # Kinds of causes that are told as what the line reads.


def cause_text(cause: Cause) -> str:
    """What is said of the line of a cause."""
    if cause.kind in _FIXED:
        is_elsewhere = cause.kind in ("split", "joined", "shared") and not cause.is_of_load
        return f"{_FIXED[cause.kind]}; {at_this_line(cause)}" if is_elsewhere else _FIXED[cause.kind]
    match cause.kind:
        case "operation":
            inputs = (
                "inputs that are the same apart from what fresh memory holds" if cause.memory else "the same inputs"
            )
            return f"{cause.operation} gives different results from {inputs}"
        case "edited" | "function":
            return _version_text(cause)
        case "file":
            return _file_text(cause)
        case "load":
            is_told = cause.read_at is not None or cause.is_of_load
            return LOAD if is_told else f"{LOAD}; this line reads it"
        case "outside" if cause.loaded_at is not None:
            return "this line reads state that a save and a load do not bring back"
        case "outside":
            return "this line reads hidden state"
        case "is":
            return f"{cause.asked}, and this line asks whether they are one (is)"
        case "branch":
            branches = "the two take different branches after this line"
            if _compares_identity(cause.place.text):
                return f"{branches}, which compares by identity (is): equal values need not be the same object"
            return branches
    if cause.place.function.endswith(".save"):
        return "not known: this line of save() gives different values, and no line of the step was seen to make them"
    called = f", calling {', '.join(cause.called)}" if cause.called else ""
    may_call = [name for name in cause.calls if name in cause.may_call]
    called += f"; it may call {', '.join(may_call)}" if may_call else ""
    return f"this line gives different values, and no difference was seen in those that it reads{called}"


def _compares_identity(text: str) -> bool:
    """Return True if a statement, or the condition of one that holds others, compares two objects by ``is``."""
    text = text.removeprefix("el") if text.startswith("elif") else text
    tree: ast.AST | None = None
    for whole in (text, f"{text}\n pass"):  # The head of a block, which a comment may follow.
        with contextlib.suppress(SyntaxError):
            tree = tree or ast.parse(whole)
    if tree is None:
        return False
    if isinstance(tree, ast.Module) and len(tree.body) == 1 and isinstance(tree.body[0], ast.If | ast.While):
        tree = tree.body[0].test  # What follows it in the line runs in one of the branches.
    return any(_is_of_objects(node) for node in ast.walk(tree) if isinstance(node, ast.Compare))


def _is_of_objects(node: ast.Compare) -> bool:
    """Return True if two objects are compared by identity; of None, True and False there is only one each."""
    pairs = zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False)
    return any(
        isinstance(operator, ast.Is | ast.IsNot)
        and not any(isinstance(one, ast.Constant) and type(one.value) in _ALONE for one in sides)
        for operator, *sides in pairs
    )


def _version_text(cause: Cause) -> str:
    """Of a line or a function that two versions of the code have in other forms, or of which one has none."""
    what = "function" if cause.kind == "function" else "line"
    if (
        cause.kind == "function"
        and cause.other_place is not None
        and cause.other_place.function != cause.place.function
    ):
        return "only one version of the code has a function of its own for this class, and the other one inherits it"
    if cause.reordered is not None:
        return "the two versions of the code have these lines in another order"
    if cause.other_place is not None:
        # Of a statement of several lines, the first one may be the same: only that is shown.
        is_same_line = what == "line" and cause.place.text == cause.other_place.text
        return f"the two versions of the code differ in this {'statement' if is_same_line else what}"
    return f"{_only_one(cause)} this {what}{' at this place' if what == 'line' else ''}"


def _only_one(cause: Cause) -> str:
    """The beginning of a sentence on what one version alone has; after replay bisect, both have it under one path."""
    return f"only one version of the code{f', {cause.only_in},' if cause.only_in else ''} has"


def _file_text(cause: Cause) -> str:
    """Of a file that is no Python code, of two versions of the code, or of its line."""
    both = cause.other_place is not None
    begin = "the two versions of the code differ in this" if both else f"{_only_one(cause)} this"
    if cause.place.line and cause.is_shown:
        return f"{begin} line of a file that is not Python"
    if cause.place.line:
        return f"the two versions of the code differ in this file, which is not Python, in this line first{'' if both else ', which one has'}"
    return f"{begin} file, which is not Python"


def read_text(cause: Cause) -> str:
    """What is said of the line of the step that reads what the line of a cause gives, where that is another one."""
    if cause.kind == "file":
        return "the step first reads something that differs in"
    # The other version has no such value, or the value that is read is made by what was edited.
    is_new = cause.kind == "function" or (cause.kind == "edited" and cause.other_place is None)
    return "the step reads what this changes first in" if is_new else "the step reads it first in"


def at_this_line(cause: Cause) -> str:
    """What is known of a line whose cause lies outside of it: of some, what they read was not all seen."""
    return (
        "the first value seen to differ is of this line" if cause.kind == "unseen" else "the two diverge at this line"
    )


def name_with_folder(place: SourceLocation) -> str:
    """The name of a line where two versions of the code have files of one name."""
    return f"{shown_path(place.path)}:{place.line}"


def place_lines(place: SourceLocation, letter: str | None = None) -> list[str]:
    """A line of the code, with its function. letter: of the variant that has it; None if both do."""
    where = f" in {place.function}" if place.function else ""
    line = f":{place.line}" if place.line else ""  # Some files have no lines.
    head = f"  {shown_path(place.path)}{line}{where}{f' ({letter})' if letter else ''}"
    return [head, *([f"      {place.text}"] if place.text else [])]


def order_lines(value: DifferingValue) -> list[str]:
    """The first members of a set in both orders."""
    if value.first == value.second:
        return [f"  order of {value.name}: differs; the members that are shown look alike: {value.first}"]
    return [f"  order of {value.name}:", f"      A  {value.first}", f"      B  {value.second}"]


def undone_lines(cause: Cause) -> list[str]:
    """Of a line of load(), what an earlier one had set, and where this one changes it."""
    if cause.undone is None:
        return []
    set_by, inside = cause.undone.set_by, cause.undone.changed_in
    lines = [f"  before this line it was as A has it, {'as in a new instance' if set_by is None else 'set by'}"]
    lines += place_lines(set_by) if set_by is not None else []
    return lines + (["  this line calls what changes it:", *place_lines(inside)] if inside is not None else [])


def loaded_lines(cause: Cause) -> list[str]:
    """Of what the line of a cause reads: the line of load() that gave B its value."""
    if cause.loaded_at is None:
        return []
    return ["  B has it from load():", *place_lines(cause.loaded_at), *undone_lines(cause)]


def after_it(cause: Cause) -> str:
    """Of a line that reads what differs: the value that it gives is not one of those that it reads."""
    return "after this line: " if cause.kind in _READS else ""


def where_from(cause: Cause) -> str:
    """Where a value comes from that the line reads and that differed before the step."""
    if cause.kind == "load":
        return "after load(): "
    is_before = cause.loaded_at is not None or cause.kind in ("inexact", "version", "edited", "function", "file")
    return "before the step: " if is_before else "outside the state: "
