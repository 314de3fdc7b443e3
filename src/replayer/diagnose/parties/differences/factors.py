"""The differences between two parties, one at a time: each is given to the other party, to test what it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from recorder.text import counted, shown_path
from replayer.diagnose.parties.differences.factor import Factor, cut, give_entry
from replayer.diagnose.parties.differences.module_factors import module_factors
from replayer.diagnose.parties.differences.module_files import is_installed
from replayer.diagnose.parties.differences.one_sided import one_sided_modules, untested_modules
from replayer.diagnose.parties.differences.read_files import file_factors, untested_files
from replayer.diagnose.parties.differences.set_factors import set_factors
from replayer.diagnose.parties.party import Made, Party
from replayer.tape.tape import Tape
from replayer.value_text import readable_inputs

_UNTESTED_SHOWN = 6
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
        *file_factors(*made),
        *module_factors(*made),
        *_variables(parties, made),
        *set_factors(parties, made),
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


def untested(parties: tuple[Party, Party], made: tuple[Made, Made], tested: Sequence[Factor]) -> list[str]:
    """What one party alone loads or reads, and no test has exchanged, as texts. tested: the differences of the tests."""
    modules = one_sided_modules(made)
    if parties[0].python != parties[1].python:  # The packages of the interpreters are exchanged with these.
        modules = [pair for pair in modules if not any(file is not None and is_installed(file) for file in pair[1:])]
    texts = [*untested_modules(modules, tested), *untested_files(made)]
    more = len(texts) - _UNTESTED_SHOWN
    return [
        *texts[:_UNTESTED_SHOWN],
        *([f"{counted(more, 'more module')} or files of one of them"] if more > 0 else []),
    ]


def _inputs(parties: tuple[Party, Party], tapes: tuple[Tape, Tape], ticks: range) -> list[Factor]:
    differing = [tick for tick in ticks if tapes[0].frame(tick).encoded_inputs != tapes[1].frame(tick).encoded_inputs]
    if not differing:
        return []
    frames = parties[0].frames, parties[1].frames
    texts = [_short(readable_inputs(tape.frame(differing[0]).inputs)) for tape in tapes]
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
            texts = [_with_place(text, one, name) for text, one in zip(pair, (first, second), strict=True) if text]
            factors.append(Factor("argument", name, (texts[0], texts[1]), give_entry("arguments", name, pair)))
    return factors


def _with_place(literal: str, made: Made, name: str) -> str:
    """An argument with the line that gives it, where that is known."""
    place = made.given_at.get(name)
    return cut(literal) if place is None else f"{cut(literal)} ({place})"


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


def _variables(parties: tuple[Party, Party], made: tuple[Made, Made]) -> list[Factor]:
    first, second = parties
    factors = []
    for name in dict.fromkeys([*first.environment, *second.environment]):
        pair = first.variable(name), second.variable(name)
        if pair[0] != pair[1]:
            texts = [party.shown_variable(name) for party in parties]
            give = give_entry("environment", name, pair)
            places = [f"read at {one.read_of(name).place}" for one in made if name in one.variables]
            factors.append(Factor("variable", name, (texts[0], texts[1]), give, remark=next(iter(places), "")))
    return factors


def _short(value: Any) -> str:
    return cut(repr(value))
