"""The differences between two parties, one at a time: each is given to the other party, to test what it does."""

from __future__ import annotations

import filecmp
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder.text import shown_path
from replayer.diagnose.parties.party import Made, Party
from replayer.tape.tape import Tape

TextPair = tuple[str, str]
_TEXT_CHARS_MAX = 120
READ_AT = {
    "import": "which is read while modules are imported",
    "construction": "which is read while the simulation is made",
    "step": "which is read by a step",
}
WHOLES = ("factory", "interpreter")  # Kinds that contain others, which are tested first.


@attrs.frozen(eq=False)
class Factor:
    """One difference.

    Attributes:
        kind: "inputs", "argument", "configuration", "file", "module", "variable", "factory", "interpreter" or "together".
        name: of the argument, the module and so on.
        texts: for people: what A has, and what B has.
        remark: what else is said of it; empty without one.
        files: of a module, the files that differ, and of a file it: the path of A and that of B.
        parts: of "together", the differences that are given at once.
        give: returns a party with what the first (0) or the second party (1) has.
    """

    kind: str
    name: str
    texts: TextPair
    give: Callable[[Party, int], Party]
    files: tuple[TextPair, ...] = ()
    parts: tuple[Factor, ...] = ()
    remark: str = ""


def together(factors: list[Factor]) -> Factor:
    """Several differences as one."""

    def give(to: Party, of: int) -> Party:
        for factor in factors:
            to = factor.give(to, of)
        return to

    return Factor("together", "", ("", ""), give, parts=tuple(factors))


def find_factors(
    parties: tuple[Party, Party], tapes: tuple[Tape, Tape], made: tuple[Made, Made], ticks: range
) -> list[Factor]:
    """All differences between two parties that can be given from one to the other.

    ticks: those whose inputs the compared runs were fed.
    """
    first, second = parties
    factors = [
        *_inputs(parties, tapes, ticks),
        *(_configuration(parties, tapes) or _arguments(*made)),
        *_files(*made),
        *_modules(*made),
        *_variables(first.environment, second.environment),
    ]
    if first.sim != second.sim:
        sims = first.sim, second.sim
        texts = str(first.sim), str(second.sim)
        factors.append(Factor("factory", "--sim", texts, lambda to, of: attrs.evolve(to, sim=sims[of])))
    if first.python != second.python:
        pythons = first.python, second.python
        shown = [f"Python {one.python} ({shown_path(python)})" for one, python in zip(made, pythons, strict=True)]
        name = "the interpreter with its packages"
        give = lambda to, of: attrs.evolve(to, python=pythons[of])  # noqa: E731 - one line, used once
        factors.append(Factor("interpreter", name, (shown[0], shown[1]), give))
    return factors


def not_compared(made: tuple[Made, Made]) -> list[str]:
    """Arguments of the constructors whose values are no plain data, so that they could not be compared."""
    if made[0].class_name != made[1].class_name:
        return []
    return [
        name
        for name, value in made[0].arguments.items()
        if value is None and name in made[1].arguments and made[1].arguments[name] is None
    ]


def _inputs(parties: tuple[Party, Party], tapes: tuple[Tape, Tape], ticks: range) -> list[Factor]:
    differing = [tick for tick in ticks if tapes[0].frame(tick).encoded_inputs != tapes[1].frame(tick).encoded_inputs]
    if not differing:
        return []
    frames = parties[0].frames, parties[1].frames
    texts = [_short(tape.frame(differing[0]).inputs) for tape in tapes]
    return [
        Factor(
            "inputs",
            f"tick {differing[0]:,}",
            (texts[0], texts[1]),
            lambda to, of: attrs.evolve(to, frames=frames[of]),
        )
    ]


def _arguments(first: Made, second: Made) -> list[Factor]:
    if first.class_name is None or first.class_name != second.class_name:
        return []
    factors = []
    for name in first.arguments:
        pair = first.arguments[name], second.arguments.get(name)
        if pair[0] is not None and pair[1] is not None and pair[0] != pair[1]:
            texts = _cut(pair[0]), _cut(pair[1])
            factors.append(Factor("argument", name, texts, _give_entry("arguments", name, pair)))
    return factors


def _configuration(parties: tuple[Party, Party], tapes: tuple[Tape, Tape]) -> list[Factor]:
    """Entries of the configurations of a registered world, which no factory replaces."""
    configs: list[Mapping[str, Any]] = []
    for party, tape in zip(parties, tapes, strict=True):
        world = tape.meta.get("world")
        if party.sim is not None or not isinstance(world, Mapping) or not isinstance(world.get("config"), Mapping):
            return []
        configs.append(world["config"])
    factors = []
    for name in configs[0]:
        pair = configs[0][name], configs[1].get(name, configs[0][name])
        if pair[0] != pair[1]:
            texts = _short(pair[0]), _short(pair[1])
            factors.append(Factor("configuration", name, texts, _give_entry("config", name, pair)))
    return factors


def _modules(first: Made, second: Made) -> list[Factor]:
    """Modules and packages that are loaded from different files with different contents."""
    differing: dict[str, list[TextPair]] = {}
    for name in sorted(first.modules.keys() & second.modules.keys()):
        files = first.modules[name], second.modules[name]
        if not _same_file(*files):
            differing.setdefault(name.partition(".")[0], []).append(files)
    factors = []
    for top, pairs in differing.items():
        if top not in first.modules or top not in second.modules:
            continue  # A namespace package: it has no one place.
        places = first.modules[top], second.modules[top]
        versions = first.versions.get(top), second.versions.get(top)
        has_versions = None not in versions and versions[0] != versions[1]
        texts = [str(one) for one in versions] if has_versions else [shown_path(place) for place in places]
        roots = _root(places[0]), _root(places[1])
        give = _give_entry("modules", top, roots)
        factors.append(Factor("module", top, (texts[0], texts[1]), give, tuple(pairs)))
    # The user's own code first, then packages whose versions differ.
    return sorted(factors, key=lambda one: (any(map(is_installed, one.files[0])), one.name not in first.versions))


def is_installed(path: str) -> bool:
    """Return True for a file of an installed package."""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def _files(first: Made, second: Made) -> list[Factor]:
    """Files of one name and of different content that each party's simulation reads."""
    named = [_by_name(made.files) for made in (first, second)]
    factors = []
    for name in named[0].keys() & named[1].keys():
        pair = named[0][name], named[1][name]
        if _same_file(*pair):
            continue
        texts = [
            f"{shown_path(path)} (read at {made.files[path]})" for path, made in zip(pair, (first, second), strict=True)
        ]
        stages = {made.stages.get(path, "construction") for path, made in zip(pair, (first, second), strict=True)}
        remark = READ_AT[stages.pop()] if len(stages) == 1 else "which both read"
        factors.append(Factor("file", name, (texts[0], texts[1]), _give_file(pair), (pair,), remark=remark))
    return sorted(factors, key=lambda one: one.name)


def _by_name(files: Mapping[str, str]) -> dict[str, str]:
    """Paths by the names of the files; a name that two files have is left out."""
    names = Counter(Path(path).name for path in files)
    return {name: path for path in files if names[name := Path(path).name] == 1}


def _give_file(pair: TextPair) -> Callable[[Party, int], Party]:
    def give(to: Party, of: int) -> Party:
        return attrs.evolve(to, files={**to.files, pair[1 - of]: pair[of]})

    return give


def _variables(first: Mapping[str, str | None], second: Mapping[str, str | None]) -> list[Factor]:
    factors = []
    for name in dict.fromkeys([*first, *second]):
        pair = first.get(name), second.get(name)
        if pair[0] != pair[1]:
            texts = [value if value is not None else "not set" for value in pair]
            give = _give_entry("environment", name, pair)
            factors.append(Factor("variable", name, (texts[0], texts[1]), give))
    return factors


def _give_entry(table: str, name: str, pair: tuple[Any, Any]) -> Callable[[Party, int], Party]:
    """Return a function that sets an entry in one of a party's tables to the value of one of the two parties."""

    def give(to: Party, of: int) -> Party:
        changed: dict[str, Any] = {table: {**getattr(to, table), name: pair[of]}}
        return attrs.evolve(to, **changed)

    return give


def _root(file: str) -> str:
    """The folder of a package, or the file of a module."""
    path = Path(file)
    return str(path.parent if path.stem == "__init__" else path)


def _same_file(one: str, other: str) -> bool:
    first, second = Path(one), Path(other)
    if first.resolve() == second.resolve():
        return True
    try:
        return filecmp.cmp(first, second, shallow=False)
    except OSError:
        return False


def _short(value: Any) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}…"
