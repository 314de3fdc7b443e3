"""The differences between two parties, one at a time: each is given to the other party, to test what it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder.text import shown_path
from replayer.diagnose.parties.differences.factor import Factor, TextPair, give_entry
from replayer.diagnose.parties.differences.module_factors import module_factors, same_file
from replayer.diagnose.parties.party import Made, Party
from replayer.tape.tape import Tape

_TEXT_CHARS_MAX = 120
READ_AT = {
    "import": "which is read while modules are imported",
    "construction": "which is read while the simulation is made",
    "step": "which is read by a step",
}
WHOLES = ("package", "factory", "interpreter")  # Kinds that contain others, which are tested first.


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
        *module_factors(*made),
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
            factors.append(Factor("argument", name, texts, give_entry("arguments", name, pair)))
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
            factors.append(Factor("configuration", name, texts, give_entry("config", name, pair)))
    return factors


def _files(first: Made, second: Made) -> list[Factor]:
    """Files of different content that each party's simulation reads: of one name, or opened by one line."""
    made = first, second
    named = [_by_name(one.files) for one in made]
    by_names = [(name, (named[0][name], named[1][name])) for name in sorted(named[0].keys() & named[1].keys())]
    alone = [_opened_alone(made[number], made[1 - number]) for number in (0, 1)]
    by_lines = [
        (f"that {place} opens", (alone[0][place], alone[1][place]))
        for place in sorted(alone[0].keys() & alone[1].keys())
    ]
    factors = []
    for name, pair in [*by_names, *by_lines]:
        if same_file(*pair):
            continue
        texts = [f"{shown_path(path)} (read at {one.files[path]})" for path, one in zip(pair, made, strict=True)]
        stages = {one.stages.get(path, "construction") for path, one in zip(pair, made, strict=True)}
        remark = READ_AT[stages.pop()] if len(stages) == 1 else "which both read"
        factors.append(Factor("file", name, (texts[0], texts[1]), _give_file(pair), (pair,), remark=remark))
    return factors


def _opened_alone(made: Made, other: Made) -> dict[str, str]:
    """The files that one party alone opens, by the line that opens no other one of them."""
    names = {Path(path).name for path in other.files}
    alone = {path: place for path, place in made.files.items() if Path(path).name not in names}
    counts = Counter(alone.values())
    return {place: path for path, place in alone.items() if counts[place] == 1}


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
            give = give_entry("environment", name, pair)
            factors.append(Factor("variable", name, (texts[0], texts[1]), give))
    return factors


def _short(value: Any) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}…"
