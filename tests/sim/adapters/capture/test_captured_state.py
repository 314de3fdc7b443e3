"""Captured objects against a plain loop: after a seek they equal deep copies that were made alongside the recording."""

from __future__ import annotations

import copy
import enum
import types
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recorder
import replayer
from sim.adapters import adapt, fields
from sim.kernel.simulation import restore

MUTABLE = (list, dict, set, np.ndarray, np.random.Generator)


def assert_same(actual: Any, expected: Any, path: str, pairs: dict[int, int]) -> None:
    """Fail unless both are equal, in every type, in the sign of zeros, and in the sharing of objects.

    pairs: for each mutable object in expected, its counterpart in actual, by id.
    """
    assert type(actual) is type(expected), f"{path} is {actual!r}, expected {expected!r}"
    if isinstance(expected, MUTABLE):
        assert pairs.setdefault(id(expected), id(actual)) == id(actual), f"{path} is shared with something else"
    if isinstance(expected, dict):
        assert list(actual) == list(expected), path
        for key in expected:
            assert_same(actual[key], expected[key], f"{path}[{key!r}]", pairs)
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected), f"{path} is {actual!r}, expected {expected!r}"
        for index, (actual_item, expected_item) in enumerate(zip(actual, expected, strict=True)):
            assert_same(actual_item, expected_item, f"{path}[{index}]", pairs)
    elif isinstance(expected, np.ndarray):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), path
        assert actual.tobytes() == expected.tobytes(), f"{path} is {actual!r}, expected {expected!r}"
    elif isinstance(expected, np.random.Generator):
        assert actual.bit_generator.state == expected.bit_generator.state, path
    else:
        assert repr(actual) == repr(expected), f"{path} is {actual!r}, expected {expected!r}"


def assert_attributes(actual: Any, expected: dict[str, Any], tick: int) -> None:
    """Fail unless an object has exactly these attributes, with equal values and equal sharing."""
    assert sorted(vars(actual)) == sorted(expected), f"tick {tick}"
    pairs: dict[int, int] = {}
    for name, value in sorted(expected.items()):
        assert_same(vars(actual)[name], value, f"tick {tick}: {name}", pairs)
    assert len(set(pairs.values())) == len(pairs), f"tick {tick}: objects are shared that were not"


Change = Callable[[Any], None]


class Scripted:
    """An object that a script changes; the script is not an attribute of it, so that it is not part of the state."""

    def __init__(self, initial: dict[str, Any], script: dict[int, Change]) -> None:
        vars(self).update(copy.deepcopy(initial), t=0)
        type(self).SCRIPT = script

    SCRIPT: ClassVar[dict[int, Change]] = {}

    def step(self, _: Any) -> None:
        self.t += 1
        if self.t in self.SCRIPT:
            self.SCRIPT[self.t](self)


def assert_seeks_give_copies(
    path: Path, initial: dict[str, Any], script: dict[int, Change], *, ticks: int, every: int, seeks: Iterable[int]
) -> None:
    """Record a scripted object with deep copies; fail unless all seeks give the copies and the tape verifies."""
    subject = Scripted(initial, script)
    recorded = recorder.record(subject, path, fields(), quiet=True, trial_ms=0, keyframe_interval_ticks=every)
    truth = [copy.deepcopy(vars(subject))]
    for _ in range(ticks):
        recorded.step(None)
        truth.append(copy.deepcopy(vars(subject)))
    recorded.close()
    with replayer.open(path, world=lambda: adapt(Scripted(initial, script), fields())) as run:
        for tick in seeks:
            run.seek(tick)
            assert_attributes(run.simulation.subject, truth[tick], tick)
        report = run.verify()
        assert report.ok, f"called a desync from tick {report.first_bad} on"


def sets(**values: Any) -> Change:
    """A change that sets these attributes."""
    return lambda one: vars(one).update(copy.deepcopy(values))


def both(*changes: Change) -> Change:
    """A change that makes these changes in one step."""

    def change(one: Any) -> None:
        for each in changes:
            each(one)

    return change


def lamp(value: int) -> Change:
    """A change of the first lamp in place."""

    def change(one: Any) -> None:
        one.lamps[0] = value

    return change


class Light(enum.Enum):
    RED = 1
    GREEN = 2


class Wine(enum.Enum):
    RED = 1


def alias(name: str, of: str) -> Change:
    """A change that makes an attribute the same object as a second attribute."""
    return lambda one: setattr(one, name, getattr(one, of))


SIX_LINES = {13: both(lamp(1), sets(mode=1)), 14: lamp(0)}
STALE: dict[str, tuple[dict[str, Any], dict[int, Change]]] = {
    "a list that goes back while another attribute moves": ({"lamps": [0, 0], "mode": 0}, SIX_LINES),
    "a list that goes back while the arena grows": (
        {"lamps": [0, 0], "log": ""},
        {13: both(lamp(1), sets(log="x" * 3000)), 14: lamp(0)},
    ),
    "a list that goes back after an attribute was added": (
        {"lamps": [0, 0]},
        {13: both(lamp(1), sets(new=1)), 14: lamp(0)},
    ),
    "a list that is taken for an equal one of another attribute": (
        {"lamps": [0, 0], "spare": [0, 0]},
        {13: alias("lamps", "spare"), 20: lamp(1)},
    ),
    "a list that becomes one of its own": (
        {"lamps": [0, 0], "spare": [0, 0]},
        {3: alias("lamps", "spare"), 13: sets(lamps=[0, 0]), 20: lamp(1)},
    ),
    "a list that holds an array in place of an equal copy": (
        {"grid": np.zeros(3), "held": [np.zeros(3)]},
        {13: lambda one: one.held.__setitem__(0, one.grid), 20: lambda one: one.grid.__setitem__(0, 1.0)},
    ),
    "a member of another enumeration with the same name": (
        {"lamps": [0, 0], "now": Light.GREEN, "mode": 0},
        {
            **{tick: sets(now=(Light.RED, Light.GREEN)[tick % 2], mode=tick) for tick in range(1, 16)},
            17: sets(now=Light.RED),
            22: sets(now=Wine.RED),
            23: sets(now="RED"),
        },
    ),
}


def reshaped(one: Any) -> None:
    """Set the shape of an array in place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Of NumPy from 2.5 on.
        one.grid.shape = (2, 3)


def with_new_dict(one: Any) -> None:
    """Give an object a new dict for its attributes, as some objects do that restore a saved state."""
    one.__dict__ = {**copy.deepcopy(vars(one)), "mode": 7}


def view_of_a_new_array(array: np.ndarray[Any, Any]) -> dict[int, Change]:
    """A new array; later a view of it in a list, through which the array is written."""

    def keep_row(one: Any) -> None:
        one.rows.append(one.grid[1])

    def write(one: Any) -> None:
        one.rows[0][0] += 5.0
        one.total = float(one.grid.sum())

    return {3: lambda one: setattr(one, "grid", copy.copy(array).reshape(6)[:4].reshape(2, 2)
                                   if array.size > 4 else array.copy().reshape(2, 2)),
            5: keep_row, **dict.fromkeys(range(7, 40, 3), write)}  # fmt: skip


VIEWS = {"of all of its base": np.arange(4.0), "of a part of its base": np.arange(6.0)}


@pytest.mark.parametrize("case", VIEWS)
def test_a_view_of_a_view_shares_its_memory_after_a_seek(case: str, tmp_path: Path) -> None:
    """An attribute such as one made by reshape is a view, whose base nothing else holds until a second view is made."""
    initial = {"grid": np.zeros(4), "rows": [], "total": 0.0}
    assert_seeks_give_copies(
        tmp_path / "run.tape", initial, view_of_a_new_array(VIEWS[case]), ticks=40, every=8, seeks=range(41)
    )


EQUAL: dict[str, tuple[dict[str, Any], dict[int, Change]]] = {
    "a truth value that becomes a number": ({"on": False}, {13: sets(on=0), 20: sets(on=0.0), 23: sets(on=True)}),
    "a truth value of NumPy's": ({"on": np.True_}, {3: sets(on=np.False_), 13: sets(on=False), 20: sets(on=np.True_)}),
    "a number that becomes one of NumPy's": ({"x": 0.5}, {13: sets(x=np.float64(0.5)), 20: sets(x=np.float32(0.5))}),
    "a number that becomes an array of it": ({"x": 0.5}, {13: sets(x=np.array([0.5]))}),
    "a text that becomes one of NumPy's": ({"name": "a"}, {13: sets(name=np.str_("a"))}),
    "an array whose shape is set": ({"grid": np.arange(6)}, {13: reshaped}),
    "an object that has another dict": ({"mode": 1}, {13: with_new_dict, 20: sets(mode=8)}),
}


@pytest.mark.parametrize("case", EQUAL)
@pytest.mark.share(0.22)
def test_an_equal_value_of_a_different_type_is_a_different_value(case: str, tmp_path: Path) -> None:
    """The next step may treat an equal value of a different type differently."""
    initial, script = EQUAL[case]
    assert_seeks_give_copies(tmp_path / "run.tape", initial, script, ticks=40, every=8, seeks=range(41))


@pytest.mark.parametrize("value", [0, np.zeros(3), np.random.default_rng(1), [1]], ids=["cell", "array", "rng", "list"])
def test_an_attribute_that_is_replaced_by_a_new_one(value: Any, tmp_path: Path) -> None:
    """The missing attribute is noticed although the number of attributes is unchanged."""

    def change(one: Any) -> None:
        del one.a
        one.e = 1

    script = {t: sets(a=t) for t in range(1, 9)} if isinstance(value, int) else {}
    assert_seeks_give_copies(
        tmp_path / "run.tape", {"a": value}, {**script, 13: change}, ticks=24, every=8, seeks=range(25)
    )


@pytest.mark.parametrize("case", STALE)
@pytest.mark.share(0.22)
def test_a_seek_gives_what_a_plain_loop_had(case: str, tmp_path: Path) -> None:
    """A seek is exact if only one attribute of several moves, moves back, or becomes shared."""
    initial, script = STALE[case]
    ticks = 40
    for every in (8, 16):
        assert_seeks_give_copies(
            tmp_path / f"{every}.tape", initial, script, ticks=ticks, every=every, seeks=range(ticks + 1)
        )


def test_the_six_lines_of_a_house_with_lamps(tmp_path: Path) -> None:
    """A lamp that was on for one tick is off again at tick 300, as the live house had it."""
    assert_seeks_give_copies(
        tmp_path / "run.tape", {"lamps": [0, 0], "mode": 0}, SIX_LINES, ticks=320, every=64, seeks=(300, 13, 14)
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["FrozenLake", "Taxi"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.share(0.15)
@pytest.mark.seldom(0.15)
def test_gymnasiums_toys_with_a_seed_for_each_episode_verify(name: str, seed: int, tmp_path: Path) -> None:
    """Each reset with a seed makes a new generator, and everything is written again."""
    gymnasium = pytest.importorskip("gymnasium")
    newest = max(one for one in gymnasium.registry if one.startswith(f"{name}-v"))  # Older ones are refused by it.
    alone, subject = gymnasium.make(newest), gymnasium.make(newest)
    recorded = recorder.record(subject, tmp_path / "run.tape", quiet=True)
    choices = np.random.default_rng(seed).integers(0, subject.action_space.n, 600).tolist()
    results = [(alone.reset(seed=seed)[0], recorded.reset(seed=seed)[0])]
    for number, action in enumerate(choices):
        *wanted, _ = alone.step(action)
        *found, _ = recorded.step(action)
        results.append((wanted[0], found[0]))
        if wanted[2] or wanted[3] or number % 40 == 39:
            next_seed = 1000 * seed + number
            results.append((alone.reset(seed=next_seed)[0], recorded.reset(seed=next_seed)[0]))
    recorded.close()
    assert [one for one, _ in results] == [other for _, other in results]
    with replayer.open(tmp_path / "run.tape") as run:
        assert run.verify().ok
        for tick in (600, 40, 333):
            run.seek(tick)
            assert run.simulation.last.observation == results[tick - 1][0]


# --- any changes at all

NUMBERS = st.sampled_from((0, 1, -1, True, False, None, 0.0, -0.0, 0.5, 1 << 70, 1.0, float("nan"), np.float64(0.5),
                           np.int64(1), np.float32(0.5), np.True_, "a", "x" * 700, b"a", np.str_("a"), (1, 2), (True, 2)))  # fmt: skip
ARRAYS = st.sampled_from((np.zeros(3), np.zeros((2, 2)), np.ones(3), np.zeros(3, np.int64), np.zeros(600)))
PLAIN = st.one_of(
    NUMBERS,
    ARRAYS,
    st.lists(st.integers(0, 1) | st.sampled_from((True, 0.0)), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from("kl"), st.integers(0, 1) | st.lists(st.integers(0, 1), max_size=2), min_size=1),
    st.lists(ARRAYS, max_size=2),
)
NAMES = ("a", "b", "c", "d")
INSIDE = st.sampled_from(NAMES)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Any, ...]:
    """One change: its kind, its attribute and its value."""
    kind = draw(
        st.sampled_from(("set", "put", "put", "put", "back", "back", "alias", "hold", "copy", "delete", "grow", "many"))
    )
    return kind, draw(INSIDE), draw(INSIDE), draw(PLAIN if kind == "set" else st.integers(0, 1))


def make_change(one: Any, kind: str, name: str, other: str, value: Any) -> None:
    """Make a change; one that does not fit the present attribute changes nothing."""
    mine = vars(one)
    now = mine.get(name)
    if kind == "set":
        mine[name] = copy.deepcopy(value)
    elif kind == "put" and isinstance(now, list | np.ndarray) and len(now):
        now[0] = value
    elif kind == "put" and isinstance(now, dict):
        now["k"] = value
    elif kind == "back" and isinstance(now, list | np.ndarray) and len(now):
        now[0] = 0  # The value that most lists begin with.
    elif kind == "alias" and other in mine:
        mine[name] = mine[other]
    elif kind == "hold" and isinstance(now, list) and isinstance(mine.get(other), np.ndarray):
        now[:] = [mine[other]]
    elif kind == "copy" and other in mine:
        mine[name] = copy.deepcopy(mine[other])
    elif kind == "delete":
        mine.pop(name, None)
    elif kind == "grow" and isinstance(now, list):
        now.extend([value] * 90)
    elif kind == "many":
        mine["e"] = value + mine.get("e", 0)


@given(
    initial=st.fixed_dictionaries(dict.fromkeys(NAMES, PLAIN)),
    script=st.lists(st.lists(changes(), max_size=3), min_size=4, max_size=24),
    data=st.data(),
)
def test_whatever_changes_a_load_gives_what_a_plain_loop_had(initial: Any, script: Any, data: st.DataObject) -> None:
    """Loads into used and new objects, and their further steps, give equal attributes, types, sharing and hashes."""

    def make() -> Any:
        scripted = {
            tick: (lambda one, tick=tick: [make_change(one, *change) for change in script[tick - 1]])
            for tick in range(1, len(script) + 1)
        }
        return adapt(Scripted(initial, scripted), fields())

    live = make()
    truth, states, hashes = [copy.deepcopy(vars(live.subject))], [live.state.snapshot()], [live.state.hash()]
    for _ in script:
        live.step(None)
        truth.append(copy.deepcopy(vars(live.subject)))
        states.append(live.state.snapshot())
        hashes.append(live.state.hash())
    for subject in (live, make()):
        for start in data.draw(st.lists(st.integers(0, len(script)), min_size=1, max_size=4), label="loads"):
            restore(subject, states[start])
            assert_attributes(subject.subject, truth[start], start)
            for tick in range(start + 1, min(start + 6, len(script)) + 1):
                subject.step(None)
                assert_attributes(subject.subject, truth[tick], tick)
                assert subject.state.hash() == hashes[tick], f"loaded at tick {start}: a different hash at tick {tick}"


LEFT_OUT = "d"


@st.composite
def changes_beside_what_is_left_out(draw: st.DrawFn) -> tuple[Any, ...]:
    """A change that does not read the attribute that is left out; it may put any object there that others hold."""
    kind, name, other, value = draw(changes())
    if other == LEFT_OUT:
        other = "a"
    if name == LEFT_OUT and kind != "delete":
        kind = "alias"
    return kind, name, other, value


@given(
    initial=st.fixed_dictionaries(dict.fromkeys(NAMES, PLAIN)),
    script=st.lists(st.lists(changes_beside_what_is_left_out(), max_size=3), min_size=4, max_size=24),
    how=st.sampled_from(("ignore", "fields")),
    data=st.data(),
)
def test_what_is_left_out_may_be_an_object_that_is_saved(
    initial: Any, script: Any, how: str, data: st.DataObject
) -> None:
    """Whatever other attributes hold the same object, before or after it was put there, they are restored."""

    def make() -> Any:
        scripted = {
            tick: (lambda one, tick=tick: [make_change(one, *change) for change in script[tick - 1]])
            for tick in range(1, len(script) + 1)
        }
        subject = Scripted({"e": 0, **initial, LEFT_OUT: initial["a"]}, scripted)
        if how == "ignore":
            return adapt(subject, ignore=["Scripted.d"])
        return adapt(subject, fields("a", "b", "c", "e", "t"))

    def saved(one: Any) -> types.SimpleNamespace:
        return types.SimpleNamespace(**{name: value for name, value in vars(one).items() if name != LEFT_OUT})

    if how == "fields":  # A new attribute would be none of those that were named.
        script = [[change for change in changed if change[0] != "delete"] for changed in script]
    live = make()
    truth, states, hashes = [vars(copy.deepcopy(saved(live.subject)))], [live.state.snapshot()], [live.state.hash()]
    for _ in script:
        live.step(None)
        truth.append(vars(copy.deepcopy(saved(live.subject))))
        states.append(live.state.snapshot())
        hashes.append(live.state.hash())
    for subject in (live, make()):
        for start in data.draw(st.lists(st.integers(0, len(script)), min_size=1, max_size=4), label="loads"):
            restore(subject, states[start])
            assert_attributes(saved(subject.subject), truth[start], start)
            for tick in range(start + 1, min(start + 6, len(script)) + 1):
                subject.step(None)
                assert_attributes(saved(subject.subject), truth[tick], tick)
                assert subject.state.hash() == hashes[tick], f"loaded at tick {start}: a different hash at tick {tick}"


def test_a_large_list_that_changes_before_the_arena_is_made_again_is_found() -> None:
    """A new attribute makes a new arena: the list is still found to have changed, and is saved from then on."""
    script = {
        10: lambda one: one.table.__setitem__(0, 1),
        20: sets(new=1),
        21: lambda one: one.table.__setitem__(1, 1),
    }
    initial = {"table": [0] * 300}
    subject = adapt(Scripted(initial, script), fields())
    states, truth = stepped(subject, 30)
    copied = adapt(Scripted(initial, script), fields())
    for tick in range(20, 31):
        restore(copied, states[tick - 1])
        assert_attributes(copied.subject, truth[tick - 1], tick)


def test_a_restore_undoes_a_change_of_a_large_list_that_was_not_noticed_yet() -> None:
    """The list is compared at intervals while the run goes on, but always before a restore."""
    script: dict[int, Change] = {10: lambda one: one.table.__setitem__(0, 1)}
    subject = adapt(Scripted({"table": [0] * 300}, script), fields())
    states, truth = stepped(subject, 12)
    restore(subject, states[4])
    assert_attributes(subject.subject, truth[4], 5)


def stepped(subject: Any, steps: int) -> tuple[list[Any], list[dict[str, Any]]]:
    """The states and attributes of subject after each of these steps."""
    states, truth = [], []
    for _ in range(steps):
        subject.step(None)
        states.append(subject.state.snapshot())
        truth.append(copy.deepcopy(vars(subject.subject)))
    return states, truth


@pytest.mark.parametrize("last", [{}, {256: sets(mode=1)}], ids=["as ever", "written again"])
def test_large_lists_are_also_compared_at_a_step_that_writes_everything_again(last: dict[int, Change]) -> None:
    """What is noticed, and when, must not depend on the tick from which a run is loaded."""
    script: dict[int, Change] = {10: lambda one: one.table.__setitem__(0, 1), **last}

    def make() -> Any:
        return adapt(Scripted({"table": [0] * 300, "mode": 0}, script), fields())

    subject = make()
    states, truth = stepped(subject, 300)
    for start in (5, 9):
        copied = make()
        restore(copied, states[start - 1])
        for tick in range(start + 1, 301):
            copied.step(None)
            assert copied.state.hash() == states[tick - 1].hash(), f"loaded at tick {start}: tick {tick} differs"
    restore(copied, states[270])
    assert_attributes(copied.subject, truth[270], 271)
