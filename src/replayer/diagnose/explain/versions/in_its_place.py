"""The method that one version of the code calls where the other has one of its own: that of a class that it inherits from."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

import attrs

from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.line_pairs.source_functions import FunctionNode, functions_of, local_names, outermost
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.trace_step import TracedStep
from replayer.diagnose.explain.versions.changed_part import ChangedPart


@attrs.frozen
class InItsPlace:
    """A method of one version, and the inherited one that ran in the other.

    Attributes:
        own: the version that has the method: 0 or 1.
        sources, names: of both versions.
        lines: in both: of the only statements that differ, else the heads.
        are_heads: True if these are the heads.
    """

    own: int
    sources: tuple[SourceFile, SourceFile]
    names: tuple[str, str]
    lines: tuple[int, int]
    are_heads: bool

    @property
    def places(self) -> tuple[SourceLocation, SourceLocation]:
        """The lines of both versions."""
        both = zip(self.sources, self.names, self.lines, strict=True)
        first, second = (
            SourceLocation(source.path, line, name, source.statement_text(line)) for source, name, line in both
        )
        return first, second

    def have_both(self, text: str) -> bool:
        """Return True if the inherited method has a statement, too: by that alone, it is no difference."""
        side = 1 - self.own
        node = functions_of(self.sources[side].tree)[self.names[side]]
        return text in {
            self.sources[side].statement_text(one.lineno) for one in ast.walk(node) if isinstance(one, ast.stmt)
        }


def in_its_place(part: ChangedPart, steps: Sequence[TracedStep]) -> InItsPlace | None:
    """None for a function of both versions, or if it is not known which inherited one ran in its place."""
    if (part.lines[0] is None) == (part.lines[1] is None):
        return None
    own = 0 if part.lines[0] is not None else 1
    sources = SourceFile(part.files[0]), SourceFile(part.files[1])
    kind, _, method = part.name.rpartition(".")
    ran = {(one.module, outermost(one.function)) for one in steps[1 - own].trace.records}
    first, second = (functions_of(source.tree) for source in sources)
    others = (first, second)[1 - own]
    inherited = [f"{base}.{method}" for base in sources[1 - own].classes.get(kind, ()) if base != kind]
    called = [one for one in inherited if one in others and (part.module, one) in ran]
    if len(called) != 1:
        return None
    names = (part.name, called[0]) if own == 0 else (called[0], part.name)
    nodes = first[names[0]], second[names[1]]
    lines = _differing(*nodes)
    return InItsPlace(own, sources, names, lines, are_heads=lines == (nodes[0].lineno, nodes[1].lineno))


def _differing(one: FunctionNode, other: FunctionNode) -> tuple[int, int]:
    """The lines of the only statements that differ, by any names of variables; else the heads."""
    heads = one.lineno, other.lineno
    plain = [_plain(node) for node in (one, other)]
    if len(plain[0].body) != len(plain[1].body) or ast.dump(plain[0].args) != ast.dump(plain[1].args):
        return heads
    pairs = [pair for pair in zip(plain[0].body, plain[1].body, strict=True) if ast.dump(pair[0]) != ast.dump(pair[1])]
    return (pairs[0][0].lineno, pairs[0][1].lineno) if len(pairs) == 1 else heads


def _plain(node: FunctionNode) -> FunctionNode:
    """A copy without docstring and annotations, whose variables have the names v0, v1, … in the order in which they come."""
    plain, names = copy.deepcopy(node), dict[str, str]()
    if ast.get_docstring(plain, clean=False) is not None:
        plain.body = plain.body[1:]
    variables = local_names(node)
    for part in ast.walk(plain):
        if isinstance(part, ast.arg):
            part.annotation = None
            part.arg = names.setdefault(part.arg, f"v{len(names)}")
        elif isinstance(part, ast.Name) and part.id in variables:
            part.id = names.setdefault(part.id, f"v{len(names)}")
    return plain
