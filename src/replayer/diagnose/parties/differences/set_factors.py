"""Settings of the process and values of modules that differ before the step, one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from replayer.diagnose.explain.values.process_settings import WORKING_DIRECTORY, differing_settings
from replayer.diagnose.parties.differences.factor import Factor, cut, give_entry
from replayer.diagnose.parties.differences.module_files import same_file
from replayer.diagnose.parties.party import Made, Party

SET = ("setting", "value")  # Kinds that something else may have set, which is tested first.


def set_factors(parties: tuple[Party, Party], made: tuple[Made, Made]) -> list[Factor]:
    """What the processes of two parties have set differently before the step, and the state does not hold."""
    first, second = made
    factors = []
    for one in differing_settings(first.settings, second.settings):
        if one.name != WORKING_DIRECTORY or all(party.work_tree is None for party in parties):
            texts = one.texts[0], one.texts[1]
            factors.append(
                Factor("setting", one.name, texts, give_entry("settings", one.name, (one.first, one.second)))
            )
    same = {
        name for name, file in first.modules.items() if name in second.modules and same_file(file, second.modules[name])
    }
    for name, literal in first.values.items():
        pair = literal, second.values.get(name, literal)
        if pair[0] != pair[1] and name.partition(":")[0] in same:
            texts = cut(pair[0]), cut(pair[1])
            give = give_entry("values", name, pair)
            factors.append(Factor("value", name.replace(":", "."), texts, give, key=name))
    return factors


def names_of(factors: Sequence[Factor]) -> tuple[list[str], list[str]]:
    """The names of settings and of values of modules among some differences, as processes take them."""
    single = [one for factor in factors for one in (factor.parts or (factor,))]
    return [one.name for one in single if one.kind == "setting"], [one.key for one in single if one.kind == "value"]


def with_places(factor: Factor, parties: Sequence[Made | None]) -> Factor:
    """The difference with the lines that set it, as far as they are known."""
    if factor.parts:
        return attrs.evolve(factor, parts=tuple(with_places(part, parties) for part in factor.parts))
    if factor.kind not in SET:
        return factor
    places = [made.set_at if made is not None else {} for made in parties]
    key = factor.key or factor.name
    texts = [
        f"{text} ({of_one[key]})" if key in of_one else text for text, of_one in zip(factor.texts, places, strict=True)
    ]
    return attrs.evolve(factor, texts=(texts[0], texts[1]))
