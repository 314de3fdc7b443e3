"""The naive meadow next to the fast one: a comparison of all fields after each tick, and small meadows for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import State, Table
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.config.meadow import read_config
from sim.worlds.meadow.model.layout import make_schema

from oracle.naive_meadow import Input, NaiveMeadow
from sim_strategies import small_meadow


class FollowedMeadow(NaiveMeadow):
    """An oracle that steps the fast meadow with it and asserts equal states at tick 0 and after every tick."""

    def __init__(self, plain: dict[str, Any]) -> None:
        super().__init__(read_config(plain))
        self.meadow = Meadow(plain)
        self.compare()

    def step(self, inputs: list[Input]) -> None:
        """Advance both by one tick."""
        super().step(inputs)
        self.meadow.step(inputs)
        self.compare()

    def compare(self) -> None:
        """Assert that all fields and the hash are equal."""
        problem = first_difference(self.meadow.state, self)
        assert problem is None, problem
        assert self.meadow.state.hash() == state_of(self).hash(), f"tick {self.tick}: the hash alone differs"


def first_difference(state: State, naive: NaiveMeadow) -> str | None:
    """The tick, the first field that differs and the position in it, or None."""
    values = naive.fields()
    if sorted(values) != sorted(state):
        return f"tick {naive.tick}: only one of both has {sorted(set(values) ^ set(state))}"
    for name in state:
        actual, expected = state[name], np.array(values[name], object)
        if name.split(".")[0] in naive.rows and len(actual) != len(expected):
            return f"tick {naive.tick}, {name}: {len(actual)} rows instead of {len(expected)}"
        expected = expected.reshape(actual.shape)  # Lists without any number have lost their shape.
        differs = np.argwhere(actual.astype(object) != expected)
        if len(differs):
            where = tuple(differs[0].tolist())
            return f"tick {naive.tick}, {name}{list(where)}: {actual[where]} instead of {expected[where]}"
    return None


def state_of(naive: NaiveMeadow) -> State:
    """A state with the values of the oracle, and so with the hash that an equal meadow must have."""
    schema = make_schema(naive.config)
    state = State(schema)
    for entry in schema.entries:
        if isinstance(entry, Table):
            state.add_rows(entry.name, len(naive.rows[entry.name]))
    for name, value in naive.fields().items():
        state[name][...] = np.array(value, state[name].dtype).reshape(state[name].shape)
    return state


def deer(diet: Any = ((True,),), **changes: Any) -> dict[str, Any]:
    """A herbivore species that has 2 individuals and does nothing else, unless changes override it, and its diet."""
    kind = {"name": "deer", "consumption_rate": 0, "upkeep": 0, "energy_min": 2, **changes}
    return {"herbivores": [kind], "diet": diet}


def one_cell(*populations: int, **changes: Any) -> dict[str, Any]:
    """A meadow of one cell with a plant and swarms in it."""
    return small_meadow(
        grid={"width": 1, "height": 1},
        plants=[{"species": "moss", "x": 0, "y": 0}],
        swarms=[{"species": "deer", "x": 0, "y": 0, "population": population} for population in populations],
        **changes,
    )


def defended(plain: dict[str, Any], when: dict[str, Any], **substance: Any) -> dict[str, Any]:
    """The meadow with one substance that moss makes at once when triggered, emitted with 1."""
    return {
        **plain,
        "substances": [{"name": "own", "synthesis_ticks": 0, **substance}],
        "triggers": [{"flora": "moss", "substance": "own", "when": when}],
        "signalling": {"emission": 1, "decay": 0.5, "epsilon": 0.03125, **plain.get("signalling", {})},
    }
