"""The sync test finds hidden state, names it, proves it, and suspects no harmless value."""

from __future__ import annotations

import math
import os
import random
import re
import struct
import time
from typing import Any

import leaky_worlds
import numpy as np
import pytest

from recorder import SimulationFailedError
from replayer import SyncTest
from replayer.diagnose.hidden_state.report import SyncReport, report_lines
from replayer.diagnose.hidden_state.trials import CANDIDATES_MAX
from replayer.playback.make_simulation import UnfitSimulationError
from sim.adapters import adapt
from sim.kernel.simulation import as_simulation, restore
from sim.scenario.scenario_file import load_scenario

from small_worlds import Herd, Saved, Walkers

pytestmark = pytest.mark.share(0.18)

# The first twelve are the zoo of DESYNC.md's capability 2; each with the name of its suspect.
ZOO = {
    "InstanceAttribute": "InstanceAttribute._memo",
    "ModuleGlobal": "module leaky_worlds: COUNTER",
    "ClassAttribute": "ClassAttribute.total",
    "ClosureCell": "ClosureCell.draw: drawn",
    "StaleCache": "module leaky_worlds: threshold",
    "GlobalRandom": "random",
    "NumpyRandom": "np.random",
    "WallClock": "time.time",
    "EnvironmentRead": "os.environ['LEAKY_SPEED']",
    "SplitAlias": "SplitAlias.places and SplitAlias.seen",
    "HalfWord": "HalfWord.random",
    "MutableDefault": "MutableDefault.draw: gathered",
    # Further kinds.
    "GlobalDict": "module leaky_worlds: CALLS",
    "EnvironmentWritten": "os.environ['LEAKY_COUNT']",
    "SplitView": "SplitView.places and SplitView.seen",
    "StaleView": "StaleView.rows",
    "Today": "datetime.now",
    "ImportedClock": "time.perf_counter",
    "Numbering": "Numbering.numbers",
    "Uuid": "uuid.uuid4",
    "FunctionAttribute": "FunctionAttribute.draw.calls",
    "WrittenOnce": "WrittenOnce.first",
    "ForgottenGenerator": "ForgottenGenerator.brain.generators",
    "OrderOfKeys": "OrderOfKeys.known",
    "UnseededConstruction": "UnseededConstruction.speed",
    "Fragile": "Fragile.plan",
    "Registry": "Registry.known",
    "make_with_closure": "Local.draw: drawn",
    "ReadingDraws": "ReadingDraws.telemetry()",
    "Unmarked": "Unmarked.step",
}
SOUND = ["One", "HarmlessCounter", "PureCache", "DerivedCache", "WholeSave"]


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reset the zoo for each test, and restore the generators of the process."""
    monkeypatch.setattr(leaky_worlds, "COUNTER", 0)
    monkeypatch.setattr(leaky_worlds.ClassAttribute, "total", 0)
    monkeypatch.setattr(leaky_worlds.WrittenOnce, "first", None)
    monkeypatch.setattr(leaky_worlds.Registry, "known", [])
    monkeypatch.delenv("LEAKY_COUNT", raising=False)
    leaky_worlds.CALLS.clear()
    leaky_worlds.threshold.cache_clear()
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    os.environ.pop("LEAKY_COUNT", None)


@pytest.mark.parametrize(("world", "name"), ZOO.items(), ids=list(ZOO))
def test_each_leak_is_found_named_and_proved(world: str, name: str) -> None:
    """One suspect, the planted one, proved; the harmless neighbours are not among the suspects."""
    report = SyncTest(getattr(leaky_worlds, world), ticks=60).run()

    assert not report.ok
    assert [(suspect.name, suspect.proved) for suspect in report.suspects] == [(name, True)]


def test_a_cache_that_other_code_has_filled_is_not_a_suspect() -> None:
    """Only the caches under test are restored."""
    leaky_worlds.square(3)
    report = SyncTest(leaky_worlds.StaleCache, ticks=60).run()
    assert [suspect.name for suspect in report.suspects] == ["module leaky_worlds: threshold"]


@pytest.mark.parametrize("period_ticks", [1, 5])
@pytest.mark.parametrize("world", [name for name in ZOO if name != "Unmarked"])
def test_other_periods_find_the_same(world: str, period_ticks: int) -> None:
    """A leak is found with any period."""
    report = SyncTest(getattr(leaky_worlds, world), ticks=60, period_ticks=period_ticks).run()

    assert ZOO[world] in {suspect.name for suspect in report.suspects if suspect.proved}


@pytest.mark.parametrize("world", SOUND)
@pytest.mark.parametrize("period_ticks", [1, 8, 100])
def test_a_simulation_without_hidden_state_has_no_finding(world: str, period_ticks: int) -> None:
    """Derived caches, counters that no step reads and complete saves are not hidden state."""
    ticks = min(20 * period_ticks, 120)
    report = SyncTest(
        getattr(leaky_worlds, world), inputs=lambda tick: tick % 3, ticks=ticks, period_ticks=period_ticks
    ).run()

    assert report.ok, report.findings
    assert (report.first_bad, report.suspects, report.tick_count) == (None, [], ticks)


@pytest.mark.parametrize(
    ("factory", "inputs"),
    [(Walkers, lambda tick: [[tick % 20, 3]]), (Herd, None), (Saved, lambda tick: tick)],
)
def test_the_worlds_of_other_tests_have_no_hidden_state(factory: Any, inputs: Any) -> None:
    """States in arenas, tables that grow and shrink, saves of changing sizes."""
    SyncTest(factory, inputs, ticks=100).assert_ok()


@pytest.mark.parametrize(("scenario", "ticks"), [("quiet-meadow", 30), ("arms-race", 20)])
def test_the_shipped_meadow_has_no_hidden_state(scenario: str, ticks: int) -> None:
    """With its scenario's own inputs; every write is marked as well."""
    loaded = load_scenario(scenario)
    report = SyncTest(
        lambda: loaded.world.make(loaded.config), loaded.world.inputs(loaded.config), ticks=ticks
    ).assert_ok()

    assert report.moves == []


def test_a_memo_planted_deep_in_the_meadow_is_named() -> None:
    """A figure that one phase's object keeps from tick to tick, next to the meadow's own harmless caches."""
    loaded = load_scenario("quiet-meadow")

    class Forgetful:
        def __init__(self) -> None:
            self.seen = [0, {"drought": 0}]

    def make() -> Any:
        meadow = loaded.world.make(loaded.config)
        meadow.memory = Forgetful()  # type: ignore[attr-defined]
        step = meadow.step

        def leaky_step(inputs: Any) -> None:
            step(inputs)
            seen = meadow.memory.seen  # type: ignore[attr-defined]
            seen[1]["drought"] += 1
            if seen[1]["drought"] == 13:
                meadow.state.set("climate.drought_ticks", 0, 2)

        meadow.step = leaky_step  # type: ignore[method-assign]
        return meadow

    report = SyncTest(make, loaded.world.inputs(loaded.config), ticks=20).run()

    assert [(one.name, one.proved) for one in report.suspects] == [("Meadow.memory.seen", True)]
    assert report.findings[0].differences[0].field == "climate.drought_ticks"


def test_two_leaks_are_both_proved_and_a_third_mover_is_only_mentioned() -> None:
    """Neither alone makes the hashes equal; the harmless value is among the moves."""
    report = SyncTest(leaky_worlds.TwoLeaks, ticks=60).run()

    assert {(one.name, one.proved) for one in report.suspects} == {("random", True), ("TwoLeaks._memo", True)}
    assert "TwoLeaks.steps" not in {one.name for one in report.suspects}


def test_a_change_without_effect_is_a_move_and_not_a_finding() -> None:
    """An attribute, a global and the clock, none of which the step reads."""
    report = SyncTest(leaky_worlds.HarmlessCounter, ticks=60).run()

    assert set(report.moves) == {
        "HarmlessCounter.steps",
        "HarmlessCounter.seconds",
        "module leaky_worlds: COUNTER",
    }


class Harbour:
    """Sets of texts, which collide: restored, most have another order. A step only asks what is in them."""

    def __init__(self) -> None:
        self.turn, self.score = 0, 0
        self.seen: list[set[str]] = [set() for _ in range(20)]

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.turn += 1
        for number, one in enumerate(self.seen):
            place = f"{number} {self.turn * 5 % 17}"
            self.score += place in one
            one.add(place)


def test_an_order_without_effect_is_told_as_an_order() -> None:
    """The members are in the state, and a restore brings them back: no value outside of it changes."""
    report = SyncTest(lambda: adapt(Harbour()), ticks=24).run()

    assert (report.ok, report.moves, report.orders) == (True, [], ["Harbour.seen"])
    line = "  another order after a restore, no effect observed: Harbour.seen"
    assert line in report_lines("Harbour", report, verbose=True)


def test_the_first_bad_tick_is_the_one_that_brute_force_finds() -> None:
    """By hand: restored at each start of a period into a fresh instance, and stepped next to the live run."""
    report = SyncTest(leaky_worlds.HalfWord, ticks=60).run()
    live = leaky_worlds.HalfWord()
    hashes, snapshots = [live.state.hash()], [live.state.snapshot()]
    for _ in range(60):
        live.step(None)
        hashes.append(live.state.hash())
        snapshots.append(live.state.snapshot())

    def first_bad_from(start: int) -> float:
        copy = leaky_worlds.HalfWord()
        restore(as_simulation(copy), snapshots[start])
        for tick in range(start + 1, 61):
            copy.step(None)
            if copy.state.hash() != hashes[tick]:
                return tick
        return math.inf

    starts = [0, 8, 17, 25]
    assert report.findings[0].start_tick == next(start for start in starts if first_bad_from(start) < math.inf)
    assert report.first_bad == min(map(first_bad_from, starts))
    finding = report.findings[0]
    assert report.first_bad is not None
    assert finding.expected_hash == hashes[report.first_bad]
    assert [difference.field for difference in finding.differences] == ["x", "rng"]
    assert finding.differences[0].recorded.tolist() == [int(snapshots[report.first_bad]["x"])]


def test_a_broken_alias_is_reported_at_the_first_load_even_if_its_effect_comes_late() -> None:
    """The load at tick 0 splits the array; a write through one name is read through the other at tick 30."""

    class Late(leaky_worlds.SplitAlias):
        def __init__(self) -> None:
            super().__init__()
            self.tick = 0

        def step(self, inputs: Any) -> None:  # noqa: ARG002
            self.tick += 1
            if self.tick >= 30:
                self.places[0] += 1
                self.places[1] = self.seen[0]

        def save(self) -> dict[str, Any]:
            return {"places": self.places, "tick": np.int64(self.tick)}

        def load(self, saved: dict[str, Any]) -> None:
            self.places, self.tick = saved["places"].copy(), int(saved["tick"])
            self.seen = saved["places"].copy()

    report = SyncTest(Late, ticks=60).run()

    assert report.first_bad == 30
    assert "Late.places and Late.seen" in report.suspects[0].name
    assert "first seen at tick 0" in report.suspects[0].detail


def test_a_split_that_no_step_reads_is_a_move_at_most() -> None:
    """An alias that a load breaks is not a finding unless a state diverges."""

    class Idle(leaky_worlds.SplitAlias):
        def step(self, inputs: Any) -> None:  # noqa: ARG002
            self.places = self.places + 1
            self.seen = self.places

    report = SyncTest(Idle, ticks=30).run()

    assert report.ok
    assert report.moves == ["Idle.places and Idle.seen"]


def test_the_live_run_is_not_changed_by_its_copies() -> None:
    """After the test, globals are as the live run alone would have left them."""
    report = SyncTest(leaky_worlds.HarmlessCounter, ticks=50).run()

    assert (report.tick_count, leaky_worlds.COUNTER) == (50, 50)


def test_substitutes_of_python_s_own_functions_are_removed() -> None:
    """Clocks, entropy, the environment and caches are the real ones again, also after a step that raised."""

    def present() -> tuple[Any, ...]:
        clocks = (time.time, leaky_worlds.perf_counter, leaky_worlds.datetime, os.urandom, random._urandom)  # type: ignore[attr-defined]
        return (*clocks, type(os.environ).__getitem__, leaky_worlds.threshold)

    class Failing(leaky_worlds.Today):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            assert inputs is None, "no food"

    before = present()
    SyncTest(leaky_worlds.WallClock, ticks=10).run()
    SyncTest(leaky_worlds.StaleCache, ticks=20).run()
    with pytest.raises(SimulationFailedError, match=r"tick 3: the step raised AssertionError: no food"):
        SyncTest(Failing, {3: 1}).run()

    assert present() == before


def test_a_value_that_cannot_be_restored_is_named_and_only_suspected() -> None:
    """The position of a generator cannot be copied."""
    report = SyncTest(leaky_worlds.Script, ticks=20).run()

    assert [(one.name, one.proved) for one in report.suspects] == [("Script.script", False)]


def test_values_that_bring_back_the_state_only_together_are_told_as_such() -> None:
    """Both the day and the tide are needed; the wind has no part in it."""

    class Tide(leaky_worlds.One):
        def __init__(self) -> None:
            super().__init__()
            self.day = self.tide = self.wind = 0

        def draw(self) -> int:
            self.day, self.tide, self.wind = self.day + 1, self.tide + 2, self.wind + 3
            return self.day * 1000 + self.tide

    report = SyncTest(Tide, ticks=20).run()

    found = {one.name.partition(".")[2]: one for one in report.suspects}
    assert found.keys() == {"day", "tide"}
    assert all(one.proved and one.with_others for one in found.values())
    assert "; proved together with the others; named in " in str(found["day"])


def test_of_many_values_only_the_needed_ones_are_proved_together() -> None:
    """The others are left out as well where they are more than are tried one by one, at once."""

    class Counters(leaky_worlds.One):
        def __init__(self) -> None:
            super().__init__()
            self.day = self.tide = 0
            vars(self).update({f"count_{number}": 0 for number in range(CANDIDATES_MAX + 10)})

        def draw(self) -> int:
            for name in vars(self).keys() - {"state", "day", "tide"}:
                vars(self)[name] += 1
            self.day, self.tide = self.day + 1, self.tide + 2
            return self.day * 1000 + self.tide

    report = SyncTest(Counters, ticks=20).run()

    assert {one.name for one in report.suspects} == {"Counters.day", "Counters.tide"}
    assert all(one.proved and one.with_others for one in report.suspects)


def test_a_cause_that_is_not_visible_is_reported_as_such() -> None:
    """The position of an iterator in C code is found by its effect, and no harmless value is named."""

    class Out(leaky_worlds.One):
        def __init__(self) -> None:
            super().__init__()
            self.bytes = struct.iter_unpack("B", bytes(range(200)))

        def draw(self) -> int:
            return int(next(self.bytes)[0])

    report = SyncTest(Out, ticks=20).run()

    assert (report.ok, report.suspects) == (False, [])
    assert "no Python value was seen to differ" in str(report.findings[0])


@pytest.mark.seldom(0.15)
def test_values_beyond_the_limit_are_noted() -> None:
    """Values beyond the limit are not skipped silently."""

    class Huge(leaky_worlds.One):
        table = tuple([index] for index in range(21_000))

    report = SyncTest(Huge, ticks=1).run()

    assert report.notes == ["there is more outside the state than was inspected"]


class Part:
    """A node of a random tree."""


def grow(random_: random.Random, depth: int, name: str, places: list[tuple[str, Any, Any]]) -> Any:
    """A random tree of objects, lists and dicts; the attributes or items that hold numbers are added to places."""
    kind = random_.choice(["object", "list", "dict"]) if depth else "object"
    made: Any = Part() if kind == "object" else [] if kind == "list" else {}
    for index in range(random_.randint(1, 4)):
        is_leaf = depth >= 4 or random_.random() < 0.4
        key: Any = f"part{index}" if kind != "list" else index
        inner = f"{name}.{key}" if kind == "object" else name if is_leaf else f"{name}[{key!r}]"
        child = random_.randint(0, 9) if is_leaf else grow(random_, depth + 1, inner, places)
        if kind == "object":
            setattr(made, key, child)
        elif kind == "list":
            made.append(child)
        else:
            made[key] = child
        if is_leaf:
            places.append((inner, made, key))
    return made


@pytest.mark.parametrize("seed", range(25))
def test_a_leak_anywhere_in_a_tree_of_objects_is_named_by_the_attribute_that_holds_it(seed: int) -> None:
    """All numbers of a random tree change; one of them takes part in the step, and that one is proved."""

    class Tree(leaky_worlds.One):
        def __init__(self) -> None:
            super().__init__()
            self.places: Any = None
            places: list[tuple[str, Any, Any]] = []
            self.root = grow(random.Random(seed), 0, "Tree.root", places)
            chosen = random.Random(seed).randrange(len(places))
            self.places = lambda: places  # Functions are inspected as well: the same objects by a second path.
            self.leak = chosen

        def draw(self) -> int:
            for _, holder, key in self.places():
                if isinstance(holder, Part):
                    setattr(holder, key, getattr(holder, key) + 1)
                else:
                    holder[key] += 1
            _, holder, key = self.places()[self.leak]
            return int(getattr(holder, key) if isinstance(holder, Part) else holder[key])

    places: list[tuple[str, Any, Any]] = []
    grow(random.Random(seed), 0, "Tree.root", places)
    expected = places[random.Random(seed).randrange(len(places))][0]
    report = SyncTest(Tree, ticks=20).run()
    proved = [one.name for one in report.suspects if one.proved]

    assert len(proved) == 1
    assert _matches(proved[0], expected), (proved, expected)


def _matches(name: str, expected: str) -> bool:
    """Return True if a name is that of the expected place, with an ellipsis for items, or of its plain items."""
    pattern = re.escape(name).replace(re.escape("[…]"), r"\[[^]]*\]")
    return re.fullmatch(pattern + r"(\[[^]]*\])*", expected) is not None


def test_a_step_gets_its_inputs() -> None:
    """From a function, a mapping or a list; copies get them as from a tape, even if the step consumes them."""

    class Greedy(leaky_worlds.One):
        def step(self, inputs: Any) -> None:
            while inputs:
                self.state["x"][()] += inputs.pop()

    by_tick = {tick: [tick, 1] for tick in range(1, 41)}
    for inputs in (lambda tick: [tick, 1], by_tick, list(by_tick.values())):
        report = SyncTest(Greedy, inputs, ticks=40).run()
        assert (report.ok, report.tick_count) == (True, 40)
    assert SyncTest(Walkers, [[]] * 7).run().tick_count == 7


def test_inputs_that_change_on_a_tape_are_found() -> None:
    """A tuple is a list on a tape: a step that distinguishes the two diverges."""

    class Picky(leaky_worlds.One):
        def step(self, inputs: Any) -> None:
            self.state["x"][()] += isinstance(inputs, tuple)

    assert SyncTest(Picky, lambda tick: (tick,), ticks=5).run().first_bad == 1


def test_a_failed_assertion_has_the_complete_report() -> None:
    """The text names tick, field, values and the suspect."""
    with pytest.raises(AssertionError) as caught:
        SyncTest(leaky_worlds.ModuleGlobal, ticks=20).assert_ok()

    assert str(caught.value).startswith("ModuleGlobal: HIDDEN STATE, first seen at tick 1\n")
    assert "module leaky_worlds: COUNTER (module global): 0 in the live run, 13 for the copy; proved" in str(
        caught.value
    )
    assert "[0] live 1, restored 14" in str(caught.value)


def test_misuse_is_refused() -> None:
    """Not a factory, not a simulation, no ticks, invalid inputs, inputs that are not plain data."""
    with pytest.raises(TypeError, match="cannot be called"):
        SyncTest(Walkers())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ticks=0"):
        SyncTest(Walkers, ticks=0)
    with pytest.raises(ValueError, match="period_ticks=0"):
        SyncTest(Walkers, period_ticks=0)
    with pytest.raises(TypeError):
        SyncTest(Walkers, inputs=5)  # type: ignore[arg-type]
    with pytest.raises(UnfitSimulationError, match="int is not a simulation"):
        SyncTest(int).run()
    with pytest.raises(UnfitSimulationError, match="making the simulation raised ZeroDivisionError"):
        SyncTest(lambda: 1 // 0).run()
    with pytest.raises(TypeError, match="not plain data"):
        SyncTest(Walkers, lambda _: {1, 2}).run()


def test_the_run_ends_where_the_simulation_does() -> None:
    """A simulation that has ended is not stepped any more."""

    class Short(leaky_worlds.One):
        def ended(self) -> tuple[str, str] | None:
            return ("old", "it is over") if self.state["tick"] >= 11 else None

    assert SyncTest(Short, ticks=60).run().tick_count == 11


def test_a_run_is_repeatable() -> None:
    """One object can run several times, with the same result."""
    test = SyncTest(leaky_worlds.InstanceAttribute, ticks=20)

    def facts(report: SyncReport) -> Any:
        return report.first_bad, [str(suspect) for suspect in report.suspects]

    assert facts(test.run()) == facts(test.run())


@pytest.mark.parametrize(("limit_s", "ticks"), [(0.0, 8), (math.inf, 40)])
def test_a_time_limit_ends_the_run_after_a_period(limit_s: float, ticks: int) -> None:
    """A period that has begun is finished, and the report has the ticks that were run."""
    report = SyncTest(Walkers, ticks=40, period_ticks=8).run(limit_s=limit_s)
    assert (report.ok, report.tick_count) == (True, ticks)
