"""Which of the edits inside a function make the difference: B runs with some of them as A has them, and the others as now."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from replayer.diagnose.explain.cause import Cause, SourceLocation
from replayer.diagnose.explain.line_pairs.line_map import LineMap
from replayer.diagnose.explain.line_pairs.source_functions import functions_of
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.values.given_values import TestedEdits
from replayer.diagnose.explain.versions.changed_part import VERSIONS, ChangedPart
from replayer.diagnose.explain.versions.edits.fewest import fewest
from replayer.diagnose.explain.versions.edits.mixed_function import Edit, FunctionEdits

EDITS_MAX = 12

Way = list[tuple[SourceLocation, str]]
# Of parts, each put into B alone: whether B gives the state of A; None if it did not run to its end.
AreRight = Callable[[Sequence[ChangedPart]], Sequence[bool | None]]


class NotRunError(Exception):
    """B could not run with a mix of the two versions: of its edits nothing is known then."""


@attrs.frozen
class NeededEdits:
    """What the test showed of the edits of a function.

    Attributes:
        part: the function, with the lines of the first edit that is needed; as it was if that is not known.
        tested: what is told of that; None of a function with one edit.
        edits: the edits that are needed; empty if that is not known.
    """

    part: ChangedPart
    tested: TestedEdits | None
    edits: Sequence[Edit] = ()

    def has(self, cause: Cause) -> bool:
        """Return True for a line of an edit that is needed, and for any line if that is not known."""
        places = [cause.place, *([cause.other_place] if cause.other_place is not None else [])]
        return (
            self.tested is None
            or not self.edits
            or any(
                edit.is_at(side, one.line)
                for edit in self.edits
                for one in places
                for side in (0, 1)
                if one.path == self.part.files[side]
            )
        )

    def cause_of_place(self, way: Way) -> Cause | None:
        """The cause at the first of these edits, if statements have changed places there, or one version has none; None otherwise.

        way: into the state.
        """
        if not self.edits:
            return None
        edit = self.edits[0]
        if edit.reordered:
            first, second = (
                tuple(self._place(side, node.lineno) for node in nodes) for side, nodes in enumerate(edit.reordered)
            )
            return Cause(
                "edited", first[0], second[0], None, (), None, [], way, is_shown=True, reordered=(first[1], second[1])
            )
        having = [side for side, nodes in enumerate((edit.own, edit.other)) if nodes]
        if len(having) > 1:
            return None
        place = self._place(having[0], edit.lines[having[0]])
        return Cause("edited", place, None, None, (), None, [], way, is_shown=True, only_in=VERSIONS[having[0]])

    def _place(self, side: int, line: int) -> SourceLocation:
        text = SourceFile(self.part.files[side]).statement_text(line)
        return SourceLocation(self.part.files[side], line, self.part.name, text)


def needed_edits(part: ChangedPart, are_right: AreRight, runs: int, end_s: float) -> NeededEdits | None:
    """The fewest edits of a function with which B gives the state of A; None for a function without any, of one version alone, or that is async in one alone.

    are_right: may raise NotRunError. runs: how many times the result must be the same. end_s: no further edits are left out after that.
    """
    if part.is_value or None in part.lines:
        return None
    first, second = map(SourceFile, part.files)
    if len({type(functions_of(one.tree)[part.name]) for one in (first, second)}) > 1:
        return None  # What a call of it gives is another thing: no mix of the two is B with an edit of A.
    edits = FunctionEdits(part.name, first, second, LineMap(first, second))
    count = len(edits.edits)
    if count < 2:  # With the function it was tested.
        return NeededEdits(part, None, edits.edits) if edits.edits else None
    found: list[int] = []
    if count <= EDITS_MAX:
        with tempfile.TemporaryDirectory() as folder, contextlib.suppress(NotRunError):
            found = _Mixes(part, edits, Path(folder), are_right).needed(runs, end_s)
    needed = [edits.edits[number] for number in found]
    if not needed:
        return NeededEdits(part, TestedEdits(count))
    names = tuple(_name(one, part) for one in needed)
    return NeededEdits(attrs.evolve(part, lines=needed[0].lines), TestedEdits(count, names), needed)


def _name(edit: Edit, part: ChangedPart) -> str:
    """The first line of an edit, in A where A has one."""
    side = 0 if edit.own else 1
    return f"{Path(part.files[side]).name}:{edit.lines[side]} ({'AB'[side]})"


@attrs.frozen(eq=False)
class _Mixes:
    part: ChangedPart
    edits: FunctionEdits
    folder: Path
    are_right: AreRight

    def needed(self, runs: int, end_s: float) -> list[int]:
        """The numbers of the edits; empty if no test shows them."""
        numbers = list(range(len(self.edits.edits)))
        results = self._results([[one] for one in numbers])
        alone = [number for number, is_right in zip(numbers, results, strict=True) if is_right]
        if not alone and None in results:
            return []
        kept, is_known = (alone[:1], True) if alone else fewest(numbers, self._right, end_s)
        is_sure = is_known and all(all(self._right([kept])) for _ in range(runs - 1))
        return kept if is_sure else []

    def _right(self, groups: Sequence[Sequence[int]]) -> list[bool]:
        """Raises NotRunError if one did not run to its end: that it does not give the state of A is not shown."""
        results = self._results(groups)
        if None in results:
            raise NotRunError
        return list(map(bool, results))

    def _results(self, groups: Sequence[Sequence[int]]) -> Sequence[bool | None]:
        return self.are_right([self._part(group) for group in groups])

    def _part(self, group: Sequence[int]) -> ChangedPart:
        """The function with the edits of these numbers as A has them."""
        folder = self.folder / "-".join(map(str, group))
        folder.mkdir(exist_ok=True)
        path = folder / Path(self.part.files[0]).name
        path.write_text(self.edits.text({*group}), encoding="utf-8")
        return attrs.evolve(self.part, files=(str(path), self.part.files[1]))
