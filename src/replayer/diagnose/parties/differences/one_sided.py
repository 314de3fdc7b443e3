"""The modules that only one of two parties loads: exchanged where code of the other one asks for them, otherwise named."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import attrs

from recorder.text import shown_path
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.parties.differences.factor import PARTIES, Factor, ModulePair, TextPair
from replayer.diagnose.parties.differences.module_files import is_installed
from replayer.diagnose.parties.party import Made, Party

NOT_LOADED = "not loaded"


def one_sided_modules(made: tuple[Made, Made]) -> list[ModulePair]:
    """The outermost modules that one party alone loads, without those that processes load before the simulation."""
    tables = [one.modules for one in made]
    alone = tables[0].keys() ^ tables[1].keys()
    early = {*made[0].early, *made[1].early}
    return [
        (name, tables[0].get(name), tables[1].get(name))
        for name in sorted(alone)
        if name.partition(".")[0] not in early and alone.isdisjoint(_parents(name))
    ]


def one_sided_factors(made: tuple[Made, Made]) -> list[Factor]:
    """Those that the party without them imports as well: it goes on without, or another file of the name is missing.

    What only the code of their own party imports is a part of that code.
    """
    asked = tuple(_names_asked_for(one) for one in made)
    return [
        Factor("module", pair[0], _texts(pair), _give(pair), modules=(pair,))
        for pair in one_sided_modules(made)
        if not _is_installed(pair) and pair[0] in asked[0 if pair[1] is None else 1]
    ]


def untested_modules(modules: Iterable[ModulePair], tested: Iterable[Factor]) -> list[str]:
    """Those of these one-sided modules that were neither exchanged, nor brought by a module that was, as texts."""
    names = {name for factor in tested for name in [*factor.brought, *(pair[0] for pair in factor.modules)]}
    return [
        f"the module {name}, which only {PARTIES[of]} loads ({shown_path(file)})"
        for name, *files in modules
        for of, file in enumerate(files)
        if file is not None and names.isdisjoint([name, *_parents(name)])
    ]


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _is_installed(pair: ModulePair) -> bool:
    """Return True for a module of an installed package, with which further ones would have to come."""
    return any(file is not None and is_installed(file) for file in pair[1:])


def _texts(pair: ModulePair) -> TextPair:
    first, second = (NOT_LOADED if file is None else shown_path(file) for file in pair[1:])
    return first, second


def _give(pair: ModulePair) -> Callable[[Party, int], Party]:
    name, files = pair[0], pair[1:]

    def give(to: Party, of: int) -> Party:
        file = files[of]
        if file is None:
            return attrs.evolve(to, hidden=to.hidden | {name})
        return attrs.evolve(to, modules={**to.modules, name: file})

    return give


def _names_asked_for(made: Made) -> set[str]:
    """The names of all modules that the user's code of a party may import, whether they were found or not."""
    return {one for name, file in made.modules.items() if not is_installed(file) for one in _imports(name, file)}


def _imports(module: str, file: str) -> Iterator[str]:
    """The full names that the statements of a file import, and those that may be modules of a package."""
    package = module if Path(file).stem == "__init__" else module.rpartition(".")[0]
    for node in ast.walk(SourceFile(file).tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            outer = package.split(".")
            parents = outer[: len(outer) - node.level + 1] if node.level else []
            full = ".".join(part for part in [*parents, node.module or ""] if part)
            yield full
            yield from (f"{full}.{one.name}" for one in node.names)
