"""The changes of a meadow's state in a step, compared with the events that it emits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from sim import State
from sim.kernel.simulation import watched_phases
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.config.meadow import MeadowConfig
from sim.worlds.meadow.model.energy_ledger import Flow, Ledger
from sim.worlds.meadow.model.layout import HeadLoss, LossCause

Event = dict[str, Any]
ONE = 65_536
SINGLE = ("plant_born", "plant_died", "linked", "unlinked", "fed", "swarm_born", "swarm_died", "substance_begun",
          "substance_active", "substance_ended", "heads_born")  # fmt: skip  # Those that are reported at most once per tick.


def table(state: State, name: str) -> dict[int, dict[str, Any]]:
    """The entities of a table by id."""
    columns = [key for key in state if key.startswith(f"{name}.")]
    rows = zip(*(state[column].tolist() for column in columns), strict=True)
    entities = (dict(zip((column.split(".")[1] for column in columns), row, strict=True)) for row in rows)
    return {one["id"]: one for one in entities if one["id"]}


@attrs.frozen
class Picture:
    """The part of a state that an account needs."""

    plants: dict[int, dict[str, Any]]
    swarms: dict[int, dict[str, Any]]
    substances: dict[int, dict[str, Any]]
    counters: dict[str, Any]

    @staticmethod
    def of(state: State) -> Picture:
        """The picture of a meadow now."""
        names = ("births", "deaths", "heads_born", "heads_lost", "tick")
        names += tuple(f"next_{one}_id" for one in ("plant", "swarm", "substance"))
        tables = [table(state, name) for name in ("plants", "swarms", "substances")]
        return Picture(*tables, {name: state[name].copy() for name in names})

    def born(self, after: Picture, what: str) -> range:
        """Ids that have been assigned."""
        name = f"next_{what}_id"
        return range(int(self.counters[name]), int(after.counters[name]))

    @property
    def links(self) -> set[tuple[int, int]]:
        """Pairs of plants."""
        pairs = ((plant, other) for plant, one in self.plants.items() for other in one["links"] if other)
        return {(min(pair), max(pair)) for pair in pairs}


@attrs.frozen
class Tick:
    """The data of one tick for an account.

    Attributes:
        pictures: before the step and after each phase.
        events: as emitted. eaten: by the energy ledger. end: the result of ended().
    """

    pictures: Sequence[Picture]
    events: list[Event]
    eaten: int
    end: tuple[str, str] | None


class AccountedMeadow:
    """A meadow whose events are compared with its changes after each step. A mismatch raises AssertionError in step."""

    def __init__(self, plain: dict[str, Any]) -> None:
        self.ledger = Ledger()
        self.meadow = Meadow(plain, ledger=self.ledger)
        self.meadow.events_wanted = True

    def step(self, inputs: Any) -> Tick:
        """One tick."""
        meadow, eaten = self.meadow, self.ledger.entries["interaction", Flow.GRAZING]
        pictures = [Picture.of(meadow.state)]
        with watched_phases(meadow, lambda _: pictures.append(Picture.of(meadow.state))):
            meadow.step(inputs)
        eaten = self.ledger.entries["interaction", Flow.GRAZING] - eaten
        tick = Tick(pictures, meadow.events(), eaten, meadow.ended())
        check_account(meadow.config, tick)
        return tick


def check_account(config: MeadowConfig, tick: Tick) -> None:
    """Compare changes and events. Raises AssertionError, or KeyError for an unknown id."""
    events = tick.events
    by_kind: dict[str, list[Event]] = {}
    for event in events:
        by_kind.setdefault(event["kind"], []).append(event)
    for kind in SINGLE:
        named = [tuple(event.get(key) for key in _NAMES[kind]) for event in by_kind.get(kind, [])]
        assert len(set(named)) == len(named), (kind, named)
    before, after = tick.pictures[0], tick.pictures[-1]
    _check_plants(config, before, after, by_kind)
    _check_swarms(config, before, after, by_kind)
    _check_meals(config, tick.pictures[3], tick.pictures[4], by_kind.get("fed", []), tick.eaten)
    _check_substances(config, before, after, by_kind)
    expected = [] if tick.end is None else [{"kind": "ended", "reason": tick.end[0], "text": tick.end[1]}]
    assert by_kind.get("ended", []) == expected
    assert events[len(events) - len(expected) :] == expected
    assert set(by_kind) <= {*SINGLE, "heads_lost", "ended"}


_NAMES = {
    **dict.fromkeys(("plant_born", "plant_died"), ("plant",)),
    **dict.fromkeys(("linked", "unlinked"), ("plant", "other")),
    **dict.fromkeys(("swarm_born", "swarm_died", "heads_born"), ("swarm",)),
    **dict.fromkeys(("substance_begun", "substance_active", "substance_ended"), ("defence",)),
    "fed": ("swarm", "plant"),
}


def _check_ids(born: Iterable[int], before: Any, after: Any, came: list[int], went: list[int]) -> None:
    """A new entity has a birth, a removed one a death; in ascending order within the events of a phase."""
    assert sorted(came) == list(born)
    assert sorted(went) == sorted({*before, *born} - {*after})


def _born(config: MeadowConfig, counted: range, before: Any, came: list[int]) -> Iterable[int]:
    """The ids of the new plants or swarms; those that come from births are new, and as many as were counted."""
    if config.ids == "counted":
        return counted
    assert len(set(came) - {*before}) == len(came) == len(counted)
    return sorted(came)


def _check_plants(config: MeadowConfig, before: Picture, after: Picture, told: dict[str, list[Event]]) -> None:
    names = [flora.name for flora in config.flora]
    births, deaths = told.get("plant_born", []), told.get("plant_died", [])
    born = _born(config, before.born(after, "plant"), before.plants, [e["plant"] for e in births])
    _check_ids(born, before.plants, after.plants, [e["plant"] for e in births], [e["plant"] for e in deaths])
    cells = {e["plant"]: (e["species"], e["x"], e["y"]) for e in births}
    for event in births:
        if event["plant"] in after.plants:
            one = after.plants[event["plant"]]
            assert cells[event["plant"]] == (names[one["species"]], one["x"], one["y"])
    for event in deaths:
        one = before.plants.get(event["plant"])
        where = cells[event["plant"]] if one is None else (names[one["species"]], one["x"], one["y"])
        assert (event["species"], event["x"], event["y"]) == where
        last = LossCause(one["loss_cause"] if one is not None else 0).name.lower()
        assert event["cause"] in (last, "background")  # The growth of this tick may have been a loss.
    counted = Counter((names.index(e["species"]), e["cause"]) for e in deaths)
    grown = after.counters["deaths"] - before.counters["deaths"]
    for (species, cause), count in [((s, c), grown[s, c]) for s in range(len(names)) for c in LossCause]:
        assert counted[species, cause.name.lower()] == count
    assert [sum(e["species"] == name for e in births) for name in names] == (
        after.counters["births"] - before.counters["births"]
    ).tolist()
    tick = int(after.counters["tick"])
    parents = {plant for plant, one in after.plants.items() if one["last_reproduction"] == tick and plant not in born}
    assert {e["mother"] for e in births if e["by"] == "dispersal"} == parents
    assert sum(e["by"] == "dispersal" for e in births) == len(parents)
    assert all((e["mother"] is None) == (e["by"] == "input") for e in births)
    pairs = {kind: {(e["plant"], e["other"]) for e in told.get(kind, [])} for kind in ("linked", "unlinked")}
    assert pairs == {"linked": after.links - before.links, "unlinked": before.links - after.links}


def _check_swarms(config: MeadowConfig, before: Picture, after: Picture, told: dict[str, list[Event]]) -> None:
    names = [herbivore.name for herbivore in config.herbivores]
    births, deaths = told.get("swarm_born", []), told.get("swarm_died", [])
    born = _born(config, before.born(after, "swarm"), before.swarms, [e["swarm"] for e in births])
    _check_ids(born, before.swarms, after.swarms, [e["swarm"] for e in births], [e["swarm"] for e in deaths])
    heads = Counter({swarm: one["population"] for swarm, one in before.swarms.items()})
    species = {swarm: names[one["species"]] for swarm, one in before.swarms.items()}
    for event in births:
        heads[event["swarm"]] += event["heads"]
        species[event["swarm"]] = event["species"]
        assert (event["mother"] is not None) == (event["by"] in ("mitosis", "split"))
        if event["mother"] is not None:
            heads[event["mother"]] -= event["heads"]
    gained, lost = told.get("heads_born", []), told.get("heads_lost", [])
    for event in gained:
        heads[event["swarm"]] += event["heads"]
    for event in lost:
        heads[event["swarm"]] -= event["heads"]
    assert {swarm: count for swarm, count in heads.items() if count} == {
        swarm: one["population"] for swarm, one in after.swarms.items()
    }
    assert all(event["species"] == species[event["swarm"]] for event in (*births, *deaths, *gained, *lost))
    by_cause: Counter[tuple[str, str]] = Counter()
    for event in lost:
        by_cause[event["species"], event["cause"]] += event["heads"]
    for number, name in enumerate(names):
        for cause in HeadLoss:
            grown = after.counters["heads_lost"][number, cause] - before.counters["heads_lost"][number, cause]
            assert by_cause[name, cause.name.lower()] == grown
        grown = after.counters["heads_born"][number] - before.counters["heads_born"][number]
        assert sum(event["heads"] for event in gained if event["species"] == name) == grown
    last = {event["swarm"]: event["cause"] for event in lost}
    assert {event["swarm"]: event["cause"] for event in deaths} == {
        event["swarm"]: last[event["swarm"]] for event in deaths
    }


def _check_meals(config: MeadowConfig, before: Picture, after: Picture, meals: list[Event], eaten: int) -> None:
    """before, after: the interaction, in which plants lose energy only by meals."""
    lost = {plant: one["energy"] - after.plants[plant]["energy"] for plant, one in before.plants.items()}
    counted: Counter[int] = Counter()
    for event in meals:
        counted[event["plant"]] += round(event["energy"] * ONE)
        assert event["flora"] == config.flora[before.plants[event["plant"]]["species"]].name
        assert event["species"] == config.herbivores[before.swarms[event["swarm"]]["species"]].name
    assert counted == Counter({plant: energy for plant, energy in lost.items() if energy})
    assert sum(counted.values()) == eaten


def _check_substances(config: MeadowConfig, before: Picture, after: Picture, told: dict[str, list[Event]]) -> None:
    begun, ended = told.get("substance_begun", []), told.get("substance_ended", [])
    born = before.born(after, "substance")
    _check_ids(born, before.substances, after.substances, [e["defence"] for e in begun], [e["defence"] for e in ended])
    active = {number for number, one in before.substances.items() if one["active"]}
    turned = {event["defence"] for event in told.get("substance_active", [])}
    gone = {event["defence"]: event for event in ended}
    assert not active & turned
    assert (active | turned) - {*gone} == {number for number, one in after.substances.items() if one["active"]}
    for event in (*begun, *told.get("substance_active", []), *ended):
        one = after.substances.get(event["defence"]) or before.substances[event["defence"]]
        assert event["substance"] == config.substances[one["substance"]].name
        assert event["plant"] == one["owner"]
    for number, event in gone.items():
        assert (event["cause"] == "owner_died") == (event["plant"] not in after.plants)
        assert event["cause"] in ("owner_died", "unpaid" if number in turned else event["cause"])
