"""Settings of the process and values of modules that differ before the step, one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from recorder.ambient.outside.process_facts import VARIABLES
from replayer.diagnose.explain.values.process_settings import WORKING_DIRECTORY, Settings, differing_settings
from replayer.diagnose.parties.differences.factor import Factor, TextPair, cut, give_entry
from replayer.diagnose.parties.differences.module_files import same_file
from replayer.diagnose.parties.differences.named_texts import texts_of
from replayer.diagnose.parties.party import SET_HERE, Made, Party
from replayer.diagnose.parties.set_values.set_settings import GENERATORS, setting_texts, variable_of

SET = ("setting", "value")  # Kinds that something else may have set, which is tested first.


def set_factors(parties: tuple[Party, Party], made: tuple[Made, Made]) -> list[Factor]:
    """What the processes of two parties have set differently before the step, and the state does not hold."""
    first, second = made
    factors = []
    drawn = {*first.drawn, *second.drawn}
    for one in differing_settings(*_with_variables(parties, made)):
        if (one.name in GENERATORS and one.name not in drawn) or (
            one.name == WORKING_DIRECTORY and any(party.work_tree is not None for party in parties)
        ):
            continue
        pair = one.first, one.second
        texts = _variable_texts(one.name, pair, made) or setting_texts(one.name, pair) or (one.texts[0], one.texts[1])
        factors.append(Factor("setting", one.name, texts, give_entry("settings", one.name, pair)))
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


def _with_variables(parties: tuple[Party, Party], made: tuple[Made, Made]) -> list[Settings]:
    """The settings of both; of a variable that one process alone has changed, the other one has what it got from outside."""
    names = [name for one in made for name in one.settings if variable_of(name)]
    return [
        {**{name: party.variable(variable_of(name)) for name in names}, **one.settings}
        for party, one in zip(parties, made, strict=True)
    ]


def _variable_texts(name: str, pair: Sequence[str | None], made: Sequence[Made]) -> TextPair | None:
    """What is shown of a variable: a value that the user's code names, or that is no secret; None for other settings."""
    if not (variable := variable_of(name)):
        return None
    named = {text for one in made for text in texts_of(one)} if variable not in VARIABLES else set()
    texts = [
        "not set" if value is None else value if variable in VARIABLES or value in named else SET_HERE for value in pair
    ]
    return texts[0], texts[1]


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
