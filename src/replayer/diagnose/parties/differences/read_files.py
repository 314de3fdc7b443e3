"""Files of different content that two parties read, in pairs: of one name, or opened by one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs

from recorder.text import shown_path
from replayer.diagnose.parties.differences.factor import PARTIES, Factor, TextPair
from replayer.diagnose.parties.differences.module_files import same_file
from replayer.diagnose.parties.party import Made, Party

READ_AT = {
    "import": "which is read while modules are imported",
    "construction": "which is read while the simulation is made",
    "step": "which is read by a step",
}


def file_factors(first: Made, second: Made) -> list[Factor]:
    """Files of different content that each party's simulation reads: of one name, or opened by one line."""
    made = first, second
    factors = []
    for name, pair in _pairs(made):
        if same_file(*pair):
            continue
        texts = [f"{shown_path(path)} (read at {one.files[path]})" for path, one in zip(pair, made, strict=True)]
        stages = {one.stages.get(path, "construction") for path, one in zip(pair, made, strict=True)}
        remark = READ_AT[stages.pop()] if len(stages) == 1 else "which both read"
        factors.append(Factor("file", name, (texts[0], texts[1]), _give_file(pair), (pair,), remark=remark))
    return factors


def untested_files(made: tuple[Made, Made]) -> list[str]:
    """The files that one party reads and that are in no pair, as texts."""
    pairs = [pair for _, pair in _pairs(made)]
    paired = [{pair[number] for pair in pairs} for number in (0, 1)]
    return [
        f"the file {shown_path(path)}, which only {label} opens ({place})"
        for one, known, label in zip(made, paired, PARTIES, strict=True)
        for path, place in one.files.items()
        if path not in known
    ]


def _pairs(made: tuple[Made, Made]) -> list[tuple[str, TextPair]]:
    """The pairs by what tells them apart: the end of the path, as short as it can be, or the line that opens them."""
    both = [path for path in made[0].files if path in made[1].files]
    left: tuple[list[str], list[str]] = ([], [])
    for number in (0, 1):
        left[number].extend(path for path in made[number].files if path not in both)
    found = [(Path(path).name, (path, path)) for path in both]
    # In two checkouts, grid/params.json and agents/params.json have one name, and other ends.
    for length in range(1, max((len(Path(path).parts) for path in [*left[0], *left[1]]), default=0)):
        found += _take(left, [_unique(paths, _ends(length)) for paths in left], "/".join)
    places = [_unique(paths, _opening(one)) for paths, one in zip(left, made, strict=True)]
    by_lines = _take(left, places, lambda key: f"that {key[0]} opens")
    return [*sorted(found), *sorted(by_lines)]


Keyed = dict[tuple[str, ...], str]


def _take(
    left: tuple[list[str], list[str]], keyed: list[Keyed], name: Callable[[tuple[str, ...]], str]
) -> list[tuple[str, TextPair]]:
    """Take the pairs that have one key out of the paths that are left."""
    keys = keyed[0].keys() & keyed[1].keys()
    for paths, own in zip(left, keyed, strict=True):
        for key in keys:
            paths.remove(own[key])
    return [(name(key), (keyed[0][key], keyed[1][key])) for key in keys]


def _ends(length: int) -> Callable[[str], tuple[str, ...]]:
    return lambda path: Path(path).parts[-length:]


def _opening(made: Made) -> Callable[[str], tuple[str, ...]]:
    return lambda path: (made.files[path],)


def _unique(paths: Iterable[str], key: Callable[[str], tuple[str, ...]]) -> Keyed:
    """The paths by their keys, without those whose key another one has."""
    keys = {path: key(path) for path in paths}
    counts = Counter(keys.values())
    return {one: path for path, one in keys.items() if counts[one] == 1}


def _give_file(pair: TextPair) -> Callable[[Party, int], Party]:
    def give(to: Party, of: int) -> Party:
        return attrs.evolve(to, files={**to.files, pair[1 - of]: pair[of]})

    return give
