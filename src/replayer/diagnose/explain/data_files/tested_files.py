"""Whether a file that is no Python code makes the difference between two versions of the code: B finds that of A in its place."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs

from recorder.text import shown_path
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause, SourceLocation
from replayer.diagnose.explain.data_files.differing_files import (
    Files,
    Hunk,
    beside_the_code,
    hunks_of,
    is_data,
    lines_of,
    with_hunk,
)
from replayer.diagnose.explain.outside.deciding_variables import RUNS
from replayer.diagnose.explain.values.given_values import GivenFunctions
from replayer.diagnose.explain.variants import Variant, VariantOutcome
from replayer.diagnose.explain.versions.changed_part import VERSIONS
from replayer.diagnose.explain.versions.tested_functions import Run
from replayer.diagnose.explain.versions.tested_statement import files_of, gives_first, is_open_between_versions

_FILES_MAX = 12  # Those that are tried, each alone.
_HUNKS_MAX = 12  # Places of a file, each of which is tried alone.
_TEXT_MAX = 200
_READS = ("version", "edited")

Pair = tuple[VariantOutcome, VariantOutcome]


def with_tested_files(explained: Explanation, run: Run, changed: Sequence[Files] | None) -> Explanation:
    """The explanation with the file that makes the difference, if no test showed another edit that does.

    changed: files that differ between the two versions; None if they are to be searched beside the code of A.
    """
    pair = explained.pair
    if pair is None or not is_open_between_versions(explained):
        return explained
    folder = pair[0].variant.code
    if changed is None:
        changed = beside_the_code(folder, files_of(pair)) if folder is not None else []
    tried = [one for one in changed if is_data(one[1])][:_FILES_MAX]
    right = gives_first(pair, [_with(pair, one) for one in tried], run)
    for files, is_right in zip(tried, right, strict=True):
        if not is_right or not _gives_always(pair, _with(pair, files), run):
            continue
        hunks = _hunks(files)
        hunk = _deciding(pair, files, hunks, run)
        cause, name = _cause(files, hunks, hunk, explained.cause)
        return attrs.evolve(explained, cause=cause, functions=GivenFunctions((name,), _removed(files, name)))
    return explained


def _with(pair: Pair, files: Files) -> Variant:
    return attrs.evolve(pair[1].variant, label="now, with a file of A", files=((files[1], files[0]),), start=None)


def _gives_always(pair: Pair, variant: Variant, run: Run) -> bool:
    return all(gives_first(pair, [variant], run)[0] for _ in range(RUNS))


def _hunks(files: Files) -> list[Hunk]:
    first, second = map(lines_of, files)
    return hunks_of(first, second) if first is not None and second is not None else []


def _deciding(pair: Pair, files: Files, hunks: Sequence[Hunk], run: Run) -> Hunk | None:
    """The first place of a file that decides alone; None if none does."""
    first, second = map(lines_of, files)
    if len(hunks) == 1:
        return hunks[0]
    if first is None or second is None or len(hunks) > _HUNKS_MAX:
        return None
    with tempfile.TemporaryDirectory(prefix="explain-") as folder:
        variants = []
        for number, hunk in enumerate(hunks):
            path = Path(folder) / f"{number}-{Path(files[1]).name}"
            path.write_bytes(with_hunk(first, second, hunk).encode())
            variants.append(_with(pair, (str(path), files[1])))
        right = gives_first(pair, variants, run)
        for hunk, variant, is_right in zip(hunks, variants, right, strict=True):
            if is_right and _gives_always(pair, variant, run):
                return hunk
    return None


def _removed(files: Files, name: str) -> tuple[str, ...]:
    return () if Path(files[0]).exists() else (name,)


def _cause(files: Files, hunks: Sequence[Hunk], hunk: Hunk | None, found: Cause | None) -> tuple[Cause, str]:
    """The cause, and what B got of A. found: the line that was found before."""
    there = [path for path in files if Path(path).exists()]
    shown = hunk if hunk is not None else hunks[0] if hunks else None
    places, only_in = [], ""
    for side, path in enumerate(files):
        if path not in there:
            continue
        begin, end = (shown.first, shown.second)[side] if shown is not None else (-1, 0)
        if begin == end:
            continue  # Only the other version has lines at this place.
        text = (lines_of(path) or [])[begin].strip()[:_TEXT_MAX] if begin >= 0 else ""
        places.append(SourceLocation(path, begin + 1, "", text))
        only_in = VERSIONS[side]
    name = shown_path(there[-1])
    if hunk is not None and len(hunks) > 1:
        name += f":{places[-1].line}"
    read = None
    if found is not None and found.outside and found.kind in _READS:
        read = found.read_at or found.place
    outside, way = (found.outside if read else [], found.way) if found is not None else ([], [])
    place, other = places if len(places) > 1 else (places[0], None)
    only_in = "" if other is not None else only_in
    cause = Cause("file", place, other, None, (), None, outside, way, read_at=read, only_in=only_in)
    return attrs.evolve(cause, is_shown=hunk is not None), name
