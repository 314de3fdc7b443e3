"""The events of a meadow explain exactly the changes of its states, change nothing, and are rebuilt from any tape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import recorder
from recorder import Recorder
from replayer import Tape
from replayer.playback.rebuild_events import rebuild_events
from sim import State
from sim.kernel.simulation import restore
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow

from oracle.event_account import SINGLE, AccountedMeadow, Picture, Tick, check_account
from sim_strategies import meadow_inputs, meadows, small_meadow

QUICK: dict[str, Any] = {
    "deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}  # fmt: skip
SWARMS_MAX = 25  # With more swarms a tick takes too long: the run ends.
TICKS = 60


def busy_meadow() -> dict[str, Any]:
    """Return the configuration of a small meadow in which every kind of event happens."""
    moss = {"name": "moss", "base_energy": 4, "max_energy": 9, "growth_percent": 15, "survival_threshold": 1.5}
    deer = {"name": "deer", "consumption_rate": 1.25, "upkeep": 0.25, "energy_min": 2, "split_population": 4}
    tannin = {"name": "tannin", "kind": "toxin", "strength": 10, "lethality": 0.3, "repellence": 1, "energy_cost": 0.5}
    alarm = {"name": "alarm", "kind": "signal", "aftereffect_ticks": 3, "energy_cost": 2.5}
    venom = {"name": "venom", "kind": "toxin", "strength": 10, "lethality": 1}
    return {
        "grid": {"width": 10, "height": 8},
        "seed": 3,
        "flora": [{**moss, "reproduction_interval": 5, "seed_cost": 1}],
        "herbivores": [{**deer, "reproduction_divisor": 1}],
        "diet": [[True]],
        "substances": [tannin, alarm, venom],
        "triggers": [
            {"flora": "moss", "substance": name, "when": {"herbivore": "deer", "heads": heads}}
            for name, heads in (("tannin", 3), ("alarm", 3), ("venom", 7))
        ],
        "links": {"interval": 3, "cost": 0.25},
        "players": [{"species": "deer", "budget": 100, "income": 1, "spawn_cost": 0.25, "sight": 9}],
        "plants": [{"species": "moss", "count": 30}],
        "swarms": [{"species": "deer", "population": 3, "count": 5}],
    }


def busy_inputs(tick: int) -> list[dict[str, Any]]:
    """Return inputs of each kind that adds or removes entities."""
    sent: list[dict[str, Any]] = [{"kind": "plant", "species": 0, "x": tick % 10, "y": tick % 8}]
    if tick % 4 == 0:
        sent.append({"kind": "split", "swarm": 1 + tick % 7})
    if tick % 10 == 0:
        sent.append({"kind": "cull", "species": 0, "x": 4, "y": 4, "radius": 3, "percent": 100})
        sent.append({"kind": "release", "species": 0, "x": 9, "y": 7, "population": 3})
        sent.append({"kind": "spawn", "species": 0, "x": 8, "y": 7, "population": 9})
    return sent


def live_events(plain: dict[str, Any], inputs_at: Any, ticks: int) -> list[tuple[int, dict[str, Any]]]:
    """Return the events of a live meadow, without a tape."""
    meadow, events = Meadow(plain), []
    meadow.events_wanted = True
    for tick in range(1, ticks + 1):
        meadow.step(inputs_at(tick))
        events += [(tick, event) for event in meadow.events()]
    return events


@settings(max_examples=8, **QUICK)
@given(st.data())
@pytest.mark.seldom(0.15)
def test_the_events_of_a_tick_are_the_difference_of_its_states(data: st.DataObject) -> None:
    """Each added and removed id, each link, head, meal and defence has its event and cause; there are no others."""
    plain = data.draw(meadows())
    accounted = AccountedMeadow(plain)
    inputs = data.draw(st.lists(st.lists(meadow_inputs(plain), max_size=4), max_size=12))
    for tick in range(40):
        if np.count_nonzero(accounted.meadow.state["swarms.id"]) > SWARMS_MAX:
            break
        accounted.step(inputs[tick] if tick < len(inputs) else [])


@pytest.fixture(scope="module")
def busy() -> tuple[AccountedMeadow, list[Tick]]:
    """The busy meadow, and its ticks, each checked by the account."""
    accounted = AccountedMeadow(busy_meadow())
    return accounted, [accounted.step(busy_inputs(tick)) for tick in range(1, TICKS + 1)]


@pytest.mark.seldom(0.15)
def test_events_of_every_kind_and_cause_occur(busy: Any) -> None:
    """The busy meadow covers all kinds and causes; otherwise the account would not check them."""
    events = [event for tick in busy[1] for event in tick.events]
    assert {event["kind"] for event in events} == {*SINGLE, "heads_lost"}
    causes = {(event["kind"], key, event[key]) for event in events for key in ("by", "cause") if key in event}
    assert causes >= {
        *(("plant_born", "by", by) for by in ("dispersal", "input")),
        *(("plant_died", "cause", cause) for cause in ("feeding", "defence")),
        *(("swarm_born", "by", by) for by in ("mitosis", "split", "release", "spawn")),
        *((kind, "cause", cause) for kind in ("swarm_died", "heads_lost") for cause in ("starvation", "toxin", "cull")),
        *(("substance_ended", "cause", cause) for cause in ("owner_died", "faded", "unpaid")),
    }, causes


@pytest.mark.parametrize("kind", [*SINGLE, "heads_lost"])
def test_the_account_detects_errors(busy: Any, kind: str) -> None:
    """A missing event, a duplicate and an event of a different entity fail the check."""
    accounted, ticks = busy
    config = accounted.meadow.config
    tick, place = next(
        (tick, place) for tick in ticks for place, event in enumerate(tick.events) if event["kind"] == kind
    )
    check_account(config, tick)
    events = tick.events
    name = next(key for key in ("defence", "swarm", "plant") if key in events[place])
    stranger = {**events[place], name: events[place][name] + 100_000}
    for wrong in (events[:place] + events[place + 1 :], [events[place], *events], [*events[:place], stranger]):
        with pytest.raises((AssertionError, KeyError)):
            check_account(config, attrs.evolve(tick, events=wrong))


def shuffle_rows(state: State, seed: int) -> None:
    """Move plants, swarms and substances to different rows; nothing else changes."""
    random = np.random.default_rng(seed)
    for table in ("plants", "swarms", "substances"):
        order = random.permutation(state.count(table))  # Row i gets the contents of row order[i].
        for name in [name for name in state if name.startswith(f"{table}.")]:
            state[name][...] = state[name][order].copy()
        if table == "plants":
            rows = np.append(np.argsort(order) + 1, 0)  # The last item is for -1: a cell without a plant.
            state["biotope.occupant"][...] = rows[state["biotope.occupant"] - 1]


def test_rows_decide_nothing() -> None:
    """Two meadows that differ only in the rows of their tables give the same events, in the same order."""
    one, other = Meadow(busy_meadow()), Meadow(busy_meadow())
    for tick in range(1, TICKS + 1):
        shuffle_rows(other.state, tick)
        events = []
        for meadow in (one, other):
            meadow.events_wanted = True
            meadow.step(busy_inputs(tick))
            events.append(meadow.events())
        assert events[0] == events[1]
        assert Picture.of(one.state).plants == Picture.of(other.state).plants


def test_collecting_changes_no_state() -> None:
    """With and without events, the state hash of each tick is the same."""
    asked, silent = Meadow(busy_meadow()), Meadow(busy_meadow())
    asked.events_wanted = True
    for tick in range(1, TICKS + 1):
        for meadow in (asked, silent):
            meadow.step(busy_inputs(tick))
        asked.events()
        assert asked.state.hash() == silent.state.hash()


def test_events_that_were_not_collected_raise() -> None:
    """At the start and after a restore there are no events; after a step without collection events() raises."""
    meadow = Meadow(small_meadow())
    assert meadow.events() == []
    meadow.step([])
    with pytest.raises(RuntimeError, match="set events_wanted = True before the step"):
        meadow.events()
    restore(meadow, meadow.state.snapshot())
    assert meadow.events() == []
    meadow.events_wanted = True
    meadow.step([{"kind": "plant", "species": 0, "x": 2, "y": 1}])
    born = {"kind": "plant_born", "plant": 1, "species": "moss", "x": 2, "y": 1, "by": "input", "mother": None}
    assert meadow.events() == [born]
    with pytest.raises(ValueError, match="expected an input of kind plant"):
        meadow.step([{"kind": "nonsense"}])
    assert meadow.events() == [born]  # The refused step changed nothing.


def test_the_end_is_an_event_of_its_tick() -> None:
    """The last event has the name and sentence of ended(); each later tick has it again."""
    meadow = Meadow(small_meadow(plants=[{"species": "moss", "x": 1, "y": 1}], termination={"flora_energy_max": 15}))
    meadow.events_wanted = True
    meadow.step([])
    assert meadow.events() == []
    for x in (2, 3):
        meadow.step([{"kind": "plant", "species": 0, "x": x, "y": 1}])
        born, *ends = meadow.events()
        assert born["kind"] == "plant_born"
        found = meadow.ended()
        assert found is not None
        assert ends == [{"kind": "ended", "reason": found[0], "text": found[1]}]
        assert found[0] == "Z6"


# --- on tapes


@pytest.mark.seldom(0.15)
@settings(max_examples=5, **QUICK)
@given(st.data())
def test_recorded_rebuilt_and_live_events_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Across keyframes and a resume, a tape with or without recorded events gives the live events."""
    plain = data.draw(meadows())
    inputs = data.draw(st.lists(st.lists(meadow_inputs(plain), max_size=3), min_size=24, max_size=24))
    stop = data.draw(st.integers(1, 23))
    live = live_events(plain, lambda tick: inputs[tick - 1], 24)
    folder = tmp_path_factory.mktemp("events")
    for events in (True, None):
        path = folder / f"{events}.tape"
        with Recorder(path, Meadow(plain), keyframe_interval_ticks=5, events=events) as tape:
            for tick in range(stop):
                tape.step(inputs[tick])
        with recorder.resume(path) as tape:
            for tick in range(stop, 24):
                tape.step(inputs[tick])
        with Tape(path) as found:
            assert found.meta["event_stream"] is bool(events)
            assert list(found.events()) == (live if events else [])
            assert found.missing_event_ticks() == ([] if events else [(0, 24)])
            assert list(rebuild_events(found)) == live
            assert list(rebuild_events(found, stored=False)) == live
            inner = [(tick, event) for tick, event in live if 7 <= tick <= 16]
            assert list(rebuild_events(found, first=7, last=16, stored=False)) == inner


def test_the_shipped_arms_race_comes_back_from_its_tape(tmp_path: Path) -> None:
    """Rebuilt events equal the live ones; each tick's events explain the change of its state."""
    config = load_scenario("arms-race").config
    accounted, inputs_at = AccountedMeadow(config), WORLD.inputs(config)
    live = [(tick, event) for tick in range(1, 21) for event in accounted.step(inputs_at(tick)).events]
    with Recorder(tmp_path / "a.tape", Meadow(config), keyframe_interval_ticks=8) as tape:
        for tick in range(1, 21):
            tape.step(inputs_at(tick))
    with Tape(tmp_path / "a.tape") as found:
        assert not found.has_events
        assert list(rebuild_events(found)) == live
