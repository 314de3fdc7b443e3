"""The files beside the code of two versions that are no Python code, and have other content; the places in which texts differ."""

from __future__ import annotations

import filecmp
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import attrs

_FILES_MAX = 2_000  # In the folder of one version; of more, those that come first are compared.
_NEW_MAX = 4  # Of those that the other version alone has.
_BYTES_MAX = 1 << 20  # A larger file is compared, and not split into lines.
_LINES_MAX = 2_000
_CODE = (".py", ".pyc", ".pyo", ".pyi", ".so", ".pyd")
_RECORDED = (".tape", ".json.lock")
_NOT_ENTERED = ("__pycache__", "node_modules", "site-packages")

Files = tuple[str, str]  # Whole paths of one file in both versions; one of them may be missing.


def beside_the_code(folder: str, modules: Mapping[str, tuple[str, str]]) -> list[Files]:
    """The files that differ in the folder of one version, and at the same place in the other one.

    modules: the files of each module in both versions: they tell which folder corresponds to it.
    """
    roots = dict.fromkeys(root for both in modules.values() if (root := _other_root(Path(folder), *both)) is not None)
    found = []
    for root in roots:
        names = dict.fromkeys([*_names(Path(folder)), *_names(root, without=Path(folder))])
        pairs = [(str(Path(folder) / name), str(root / name)) for name in names if is_data(name)]
        found += [pair for pair in pairs if _differ(*pair)]
    here = [one for one in found if Path(one[0]).exists()]
    # A folder in which one works holds more than the code, such as what it wrote.
    return [*here, *[one for one in found if one not in here][:_NEW_MAX]]


def _differ(first: str, second: str) -> bool:
    there = [Path(path).is_file() for path in (first, second)]
    try:
        return any(there) and not (all(there) and filecmp.cmp(first, second, shallow=False))
    except OSError:
        return False


def is_data(path: str) -> bool:
    """Return True for a file that is neither code nor a recording."""
    return not path.endswith((*_CODE, *_RECORDED))


def _other_root(folder: Path, first: str, second: str) -> Path | None:
    if not Path(first).is_relative_to(folder):
        return None
    parts = Path(first).relative_to(folder).parts
    other = Path(second)
    return other.parents[len(parts) - 1] if other.parts[-len(parts) :] == parts else None


def _names(root: Path, without: Path | None = None) -> Iterator[str]:
    """The files of a folder and of those in it, relative to it."""
    count = 0
    for place, folders, files in os.walk(root):
        inner = [name for name in folders if not name.startswith(".") and name not in _NOT_ENTERED]
        # Another checkout, or the other version, is not a part of this one.
        here = Path(place)
        folders[:] = sorted(name for name in inner if here / name != without and not (here / name / ".git").exists())
        for name in sorted(files):
            count += 1
            if count > _FILES_MAX:
                return
            yield str((here / name).relative_to(root))


@attrs.frozen
class Hunk:
    """Lines in which a text differs, numbered from 0: of both versions, each up to the second number."""

    first: tuple[int, int]
    second: tuple[int, int]


def lines_of(path: str) -> list[str] | None:
    """The lines of a text with their ends; None for what is no text, is missing, or too large."""
    try:
        if not Path(path).is_file() or Path(path).stat().st_size > _BYTES_MAX:
            return None
        text = Path(path).read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
    lines = list(io.StringIO(text, newline="\n"))
    return lines if len(lines) <= _LINES_MAX and "\0" not in text else None


def hunks_of(first: Sequence[str], second: Sequence[str]) -> list[Hunk]:
    """The places in which two texts differ; of as many lines in both, each line."""
    found = []
    for kind, begin, end, other_begin, other_end in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        if end - begin == other_end - other_begin:
            pairs = zip(range(begin, end), range(other_begin, other_end), strict=True)
            found += [Hunk((one, one + 1), (other, other + 1)) for one, other in pairs]
        else:
            found.append(Hunk((begin, end), (other_begin, other_end)))
    return found


def with_hunk(first: Sequence[str], second: Sequence[str], hunk: Hunk) -> str:
    """The second text with one place as the first one has it."""
    return "".join([*second[: hunk.second[0]], *first[slice(*hunk.first)], *second[hunk.second[1] :]])
