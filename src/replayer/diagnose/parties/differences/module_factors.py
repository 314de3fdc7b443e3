"""The modules that two parties load from different files with different contents, one file at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from recorder.text import shown_path
from replayer.diagnose.parties.differences.factor import Factor, ModulePair, TextPair
from replayer.diagnose.parties.differences.module_files import is_installed, same_file
from replayer.diagnose.parties.differences.one_sided import one_sided_factors
from replayer.diagnose.parties.party import Made, Party

LentPair = tuple[dict[str, str], dict[str, str]]

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
    asked_for = one_sided_factors(made)
    lent = _lent(made, asked_for)
    factors = []
    for top, names in tops.items():
        files = [(name, *pairs[name]) for name in names]
        alone = [
            (name, first.modules.get(name), second.modules.get(name))
            for name in sorted(of_one)
            if name.startswith(f"{top}.")
        ]
        has_place = top in first.modules and top in second.modules  # A namespace package has no one place.
        if top in own and (by_files or not has_place):
            factors += [_file_factor(name, pairs[name], made, lent) for name in names]
            if has_place and (len(names) > 1 or alone):
                factors.append(_package_factor("package", top, files, alone, made, lent))
        elif has_place:
            factors.append(_package_factor("module", top, files, alone, made, lent))
    # The user's own code first, then packages whose versions differ.
    factors.sort(
        key=lambda one: (any(map(is_installed, one.files[0])), one.name.partition(".")[0] not in first.versions)
    )
    return [*asked_for, *factors]


def _file_factor(name: str, pair: TextPair, made: tuple[Made, Made], lent: LentPair) -> Factor:
    top = name.partition(".")[0]
    versions = [f" ({top} {one})" for one in _other_versions(top, made)] or ["", ""]
    texts = [f"{shown_path(file)}{version}" for file, version in zip(pair, versions, strict=True)]
    give = _give_module(name, pair, lent)
    return Factor("module", name, (texts[0], texts[1]), give, (pair,), modules=((name, *pair),))


def _package_factor(
    kind: str,
    top: str,
    files: list[tuple[str, str, str]],
    alone: list[ModulePair],
    made: tuple[Made, Made],
    lent: LentPair,
) -> Factor:
    """A package with all of its modules, or a module that has no others."""
    places = made[0].modules[top], made[1].modules[top]
    roots = _root(places[0]), _root(places[1])
    texts = _other_versions(top, made) or [shown_path(root) for root in roots]
    give, pairs = _give_module(top, roots, lent), tuple((one, other) for _, one, other in files)
    return Factor(kind, top, (texts[0], texts[1]), give, pairs, modules=(*files, *alone))


def _other_versions(top: str, made: tuple[Made, Made]) -> list[str]:
    """The two versions of a package; empty if they are not known, or one."""
    versions = [made[0].versions.get(top), made[1].versions.get(top)]
    known = [one for one in versions if one is not None]
    return known if len(known) == len(versions) and known[0] != known[1] else []


def _lent(made: tuple[Made, Made], asked_for: list[Factor]) -> LentPair:
    """What only A has, and what only B has: a given file may import it. Differences of their own are left out."""
    apart = [factor.name for factor in asked_for]
    first, second = (
        {
            name: file
            for name, file in own.modules.items()
            if name not in other.modules
            and not is_installed(file)
            and name.partition(".")[0] not in own.early
            and not any(name == one or name.startswith(f"{one}.") for one in apart)
        }
        for own, other in (made, made[::-1])
    )
    return first, second


def _give_module(name: str, pair: TextPair, lent: LentPair) -> Callable[[Party, int], Party]:
    """Return a function that gives a file or folder, and lends what only its party has."""

    def give(to: Party, of: int) -> Party:
        return attrs.evolve(to, modules={**to.modules, name: pair[of]}, lent={**to.lent, **lent[of]})

    return give


def _root(file: str) -> str:
    """The folder of a package, or the file of a module."""
    path = Path(file)
    return str(path.parent if path.stem == "__init__" else path)
