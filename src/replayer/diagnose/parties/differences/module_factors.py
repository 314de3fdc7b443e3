"""The modules that two parties load from different files with different contents, one file at a time."""

from __future__ import annotations

import filecmp
from collections.abc import Callable
from pathlib import Path

import attrs

from recorder.text import shown_path
from replayer.diagnose.parties.differences.factor import Factor, TextPair
from replayer.diagnose.parties.party import Made, Party

SINGLY_MAX = 8  # More files of the user's code are given as the packages that they belong to.


def module_factors(first: Made, second: Made) -> list[Factor]:
    """The user's code by files, then as packages; installed packages, and those that processes load early, as wholes."""
    made = first, second
    pairs = {
        name: (first.modules[name], second.modules[name])
        for name in sorted(first.modules.keys() & second.modules.keys())
        if not same_file(first.modules[name], second.modules[name])
    }
    tops: dict[str, list[str]] = {}
    for name in pairs:
        tops.setdefault(name.partition(".")[0], []).append(name)
    of_one = first.modules.keys() ^ second.modules.keys()
    early = {*first.early, *second.early}
    own = [top for top, names in tops.items() if top not in early and not any(map(is_installed, pairs[names[0]]))]
    by_files = sum(len(tops[top]) for top in own) <= SINGLY_MAX
    factors = []
    for top, names in tops.items():
        files = tuple(pairs[name] for name in names)
        has_place = top in first.modules and top in second.modules  # A namespace package has no one place.
        if top in own and (by_files or not has_place):
            factors += [_file_factor(name, pairs[name], made) for name in names]
            if has_place and (len(names) > 1 or any(name.startswith(f"{top}.") for name in of_one)):
                factors.append(_package_factor("package", top, files, made))
        elif has_place:
            factors.append(_package_factor("module", top, files, made))
    # The user's own code first, then packages whose versions differ.
    return sorted(
        factors,
        key=lambda one: (any(map(is_installed, one.files[0])), one.name.partition(".")[0] not in first.versions),
    )


def is_installed(path: str) -> bool:
    """Return True for a file of an installed package."""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def same_file(one: str, other: str) -> bool:
    """Return True for two paths of one file, or of files with equal contents."""
    first, second = Path(one), Path(other)
    if first.resolve() == second.resolve():
        return True
    try:
        return filecmp.cmp(first, second, shallow=False)
    except OSError:
        return False


def _file_factor(name: str, pair: TextPair, made: tuple[Made, Made]) -> Factor:
    top = name.partition(".")[0]
    versions = [f" ({top} {one})" for one in _other_versions(top, made)] or ["", ""]
    texts = [f"{shown_path(file)}{version}" for file, version in zip(pair, versions, strict=True)]
    return Factor("module", name, (texts[0], texts[1]), _give_module(name, pair, made), (pair,))


def _package_factor(kind: str, top: str, files: tuple[TextPair, ...], made: tuple[Made, Made]) -> Factor:
    """A package with all of its modules, or a module that has no others."""
    places = made[0].modules[top], made[1].modules[top]
    roots = _root(places[0]), _root(places[1])
    texts = _other_versions(top, made) or [shown_path(root) for root in roots]
    return Factor(kind, top, (texts[0], texts[1]), _give_module(top, roots, made), files)


def _other_versions(top: str, made: tuple[Made, Made]) -> list[str]:
    """The two versions of a package; empty if they are not known, or one."""
    versions = [made[0].versions.get(top), made[1].versions.get(top)]
    known = [one for one in versions if one is not None]
    return known if len(known) == len(versions) and known[0] != known[1] else []


def _give_module(name: str, pair: TextPair, made: tuple[Made, Made]) -> Callable[[Party, int], Party]:
    """Return a function that gives a file or folder, and lends what only its party has: a file may import it."""
    lent = [
        {
            name: file
            for name, file in own.modules.items()
            if name not in other.modules and not is_installed(file) and name.partition(".")[0] not in own.early
        }
        for own, other in (made, made[::-1])
    ]

    def give(to: Party, of: int) -> Party:
        return attrs.evolve(to, modules={**to.modules, name: pair[of]}, lent={**to.lent, **lent[of]})

    return give


def _root(file: str) -> str:
    """The folder of a package, or the file of a module."""
    path = Path(file)
    return str(path.parent if path.stem == "__init__" else path)
