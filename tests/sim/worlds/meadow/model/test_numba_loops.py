"""A meadow is the same to the last bit with arrays, with loops in Python, and with loops compiled by numba.

A meadow never uses Python loops over arrays itself. Here they stand for the compiled loops if numba is missing, and
NumPy's overflow warnings, which are errors in tests, show overflows that numba would not report.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.kernel.arithmetic.counter_rng import KeyedRandom
from sim.kernel.changes.row_changes import AuditedChanges
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.model import loops as passes
from sim.worlds.meadow.model import numba_loops as compiled
from sim.worlds.meadow.model import swarm_turn as swarming
from sim.worlds.meadow.model.energy_ledger import Ledger
from sim.worlds.meadow.model.layers import publish

from oracle.followed_meadow import FollowedMeadow
from sim_strategies import meadow_inputs, meadows

pytestmark = pytest.mark.share(0.22)  # Of the cases of each test; each run takes a different share.

SWARMS_MAX = 100  # With more swarms the oracle is too slow: the run ends.
LARGE = {1: 0x7216349300B022F1, 10: 0x26F2A064E6597AC5}
needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed: nothing can be compiled")
LAYERS = ("biotope.energy", "biotope.total")
WAYS = ["loops", pytest.param("compiled", marks=needs_numba)]


@contextmanager
def going(way: str) -> Iterator[None]:
    """Compute meadows of any size with arrays, loops or compiled loops."""
    with patch.object(compiled, "is_worth_it", lambda *_: way != "arrays"):
        if way != "loops":
            yield
            return
        with patch.object(compiled, "compile_loop", lambda function, _: function):
            yield


def account(meadow: Meadow) -> tuple[Any, ...]:
    """Return everything that must be equal after a tick."""
    return meadow.state.arena.tobytes(), meadow.events(), dict(meadow.telemetry())


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("way", WAYS)
@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_way_gives_the_same_bytes_events_and_books(way: str, data: st.DataObject) -> None:
    """Random meadows and inputs give the same arena, marks, events and figures after each tick, and the same ledger."""
    plain = data.draw(meadows(swarms=data.draw(st.sampled_from((True,) * 5 + (False,)))))
    inputs = data.draw(st.dictionaries(st.integers(1, 60), st.lists(meadow_inputs(plain), max_size=3), max_size=8))
    books = Ledger(), Ledger()
    one, other = (Meadow(plain, ledger=ledger) for ledger in books)
    one.events_wanted = other.events_wanted = True
    marks = [meadow.state.attach_marks() for meadow in (one, other)]
    for tick in range(1, 61):
        with going("arrays"):
            one.step(inputs.get(tick))
        with going(way):
            other.step(inputs.get(tick))
        assert account(one) == account(other)
        marked, others = ({name: rows.tolist() for name, rows in taker.rows().items()} for taker in marks)
        assert marked == others
        for taker in marks:
            taker.clear()

    assert books[0].entries == books[1].entries


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("way", WAYS)
@settings(deadline=None, max_examples=3, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_way_is_that_of_the_oracle(way: str, data: st.DataObject) -> None:
    """Every field equals that of the oracle after every tick."""
    plain = data.draw(meadows())
    inputs = data.draw(st.lists(st.lists(meadow_inputs(plain), max_size=4), min_size=5, max_size=40))
    with going(way):
        followed = FollowedMeadow(plain)
        while followed.tick < 60 and len(followed.living("swarms")) <= SWARMS_MAX:
            followed.step(inputs[followed.tick] if followed.tick < len(inputs) else [])


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("way", ["arrays", *WAYS])
@settings(deadline=None, max_examples=6)
@given(data=st.data())
def test_every_way_marks_what_it_writes(way: str, data: st.DataObject) -> None:
    """The audit finds no unmarked write, compared with the previous tick and with an earlier one."""
    plain = data.draw(meadows())
    inputs = data.draw(st.dictionaries(st.integers(1, 40), st.lists(meadow_inputs(plain), max_size=3), max_size=8))
    meadow = Meadow(plain)
    audits = AuditedChanges(meadow.state), AuditedChanges(meadow.state)
    with going(way):
        for tick in range(1, 41):
            audits[0].reset(meadow.state.snapshot())
            if tick % 7 == 1:
                audits[1].reset(meadow.state.snapshot())
            meadow.step(inputs.get(tick))
            for audit in audits:
                audit.changed_rows()


@pytest.mark.parametrize("way", ["arrays", pytest.param("as installed", marks=needs_numba)])
@pytest.mark.seldom(0.15)
def test_the_large_scenario(way: str) -> None:
    """Golden hashes; with numba the scenario is large enough to be compiled automatically."""
    config = load_scenario("large").config
    meadow, inputs_at = Meadow(config), WORLD.inputs(config)
    found = {}
    with going(way) if way == "arrays" else nullcontext():
        for tick in range(1, max(LARGE) + 1):
            meadow.step(inputs_at(tick))
            found[tick] = f"{meadow.state.hash():016x}"

    assert {tick: found[tick] for tick in LARGE} == {tick: f"{value:016x}" for tick, value in LARGE.items()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("field", ["swarms.x", "swarms.y"])
def test_a_swarm_outside_of_the_meadow_is_an_error_in_every_way(way: str, field: str) -> None:
    """An invalid state, as a defect would leave it, raises IndexError; no memory outside the arrays is touched."""
    meadow = Meadow(load_scenario("quiet-meadow").config)
    meadow.state[field][0] = 1_000_000
    with going("arrays"), pytest.raises(IndexError):
        Meadow.step(meadow, None)
    meadow = Meadow(load_scenario("quiet-meadow").config)
    meadow.state[field][0] = 1_000_000
    with going(way), pytest.raises(IndexError):
        meadow.step(None)


@pytest.mark.parametrize("way", ["arrays", *WAYS])
@pytest.mark.parametrize(("field", "value"), [("biotope.occupant", 1_000_000), ("plants.species", 9)])
def test_a_cell_with_an_unknown_plant_is_an_error_in_every_way(way: str, field: str, value: int) -> None:
    """Loops whose indices the compiler does not check check them: IndexError, and no memory outside the arrays is written."""
    meadow = Meadow(load_scenario("quiet-meadow").config)
    layers = meadow.state["biotope.energy"].copy()
    meadow.state[field].reshape(-1)[0] = value
    with going(way), pytest.raises(IndexError):
        publish(meadow.state, *(meadow.state[name][side].reshape(-1) for name in LAYERS for side in (1, 0)))
    assert (meadow.state["biotope.energy"] == layers).all()


@pytest.mark.parametrize("way", WAYS)
def test_layers_that_were_altered_by_hand_stay_the_same_in_every_way(way: str) -> None:
    """A branch may begin with other layers than the plants have: their sums follow by differences."""
    one, other = (Meadow(load_scenario("quiet-meadow").config) for _ in range(2))
    one.events_wanted = other.events_wanted = True
    random = np.random.default_rng(7)
    for name in LAYERS:
        change = random.integers(-3, 4, one.state[name].shape) * (random.random(one.state[name].shape) < 0.05)
        for meadow in (one, other):
            meadow.state[name][...] += change.astype(meadow.state[name].dtype)
    for _ in range(20):
        with going("arrays"):
            one.step(None)
        with going(way):
            other.step(None)
        assert account(one) == account(other)


@pytest.mark.parametrize("way", WAYS)
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_the_places_of_values_and_rows_are_those_of_numpy(way: str, data: st.DataObject) -> None:
    """Few values in long lines, up to a number of them; rows of the wanted species; sums; the first words of entities."""
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    values = random.integers(-3, 4, size := data.draw(st.integers(1, 300))) * (random.random(size) < 0.1)
    most = data.draw(st.integers(1, size))
    ids, species = random.integers(0, 3, size), random.integers(0, 4, size, np.int32)
    with going(way):
        find, living, add_up = (
            compiled.compile_loop(function, ()) or function
            for function in (passes.list_nonzero, passes.list_living, passes.sum_by_species)
        )
        places, rows, counts, sums = (np.zeros(count, np.int64) for count in (size, size + 1, 4, 4))
        wanted = random.random(4) < 0.5
        found, alive = find(values, most, places), living(ids, species, wanted, rows)
        add_up(ids, species, values, counts, sums)
        keyed, entities = KeyedRandom(data.draw(st.integers(0, 2**64 - 1))), random.integers(0, 2**48, size)
        tick, words = data.draw(st.integers(0, 2**40 - 1)), np.empty(size, np.int64)
        numbers = (tick & 0xFFFFFFFF, 7 << 24 | (tick >> 32) << 16, *keyed.key)
        draw = compiled.compile_loop(passes.draw_first_words, ()) or passes.draw_first_words
        draw(entities, *(np.uint64(number) for number in numbers), words)

    assert places[:found].tolist() == np.flatnonzero(values)[:most].tolist()
    assert rows[:alive].tolist() == np.flatnonzero(wanted[species] & (ids != 0)).tolist()
    assert counts.tolist() == [int(((species == kind) & (ids != 0)).sum()) for kind in range(4)]
    assert sums.tolist() == [int(values[(species == kind) & (ids != 0)].sum()) for kind in range(4)]
    assert words.tolist() == [keyed.numbers(7, tick, entity)[0] for entity in entities.tolist()]


@needs_numba
@pytest.mark.seldom(0.15)
def test_functions_called_by_compiled_loops_check_indices() -> None:
    """A cell out of range in a function that run_swarms calls raises IndexError."""
    land = swarming.Land(3, 3, 500, 2, *(np.zeros(9, np.int64) for _ in range(5)))
    swarms = np.zeros((1, swarming.SWARM_WIDTH), np.int64)
    swarms[0, [swarming.POPULATION, swarming.X, swarming.Y, swarming.SPLIT_WORD]] = 9, 2, 2, 2**32 - 1
    kinds = np.ones((1, swarming.DIET + 1), np.int64)
    run = swarming.swarm_loop(compiled.SWARMS_MIN).run
    with pytest.raises(IndexError):
        run(swarms, kinds, land._replace(flow=np.zeros(7, np.int64)))


ALONE = """
import sys
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.model import numba_loops as compiled
import recorder, replayer
assert "numba" not in sys.modules
config = load_scenario("quiet-meadow").config
meadow, inputs_at = Meadow(config), WORLD.inputs(config)
for tick in range(1, 4):
    meadow.step(inputs_at(tick))
assert "numba" not in sys.modules
compiled.is_worth_it = lambda *_: True
for tick in range(4, 101):
    meadow.step(inputs_at(tick))
print(f"{meadow.state.hash():016x}", "numba" in sys.modules)
"""
HIDING = """
import importlib.util as util
find = util.find_spec
util.find_spec = lambda name, *more: None if name == "numba" else find(name, *more)
"""
QUIET_100 = "20ff3bf21f06a947"  # As in test_exactness.py.


def run_alone(code: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process with a separate cache folder for numba."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **more}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def run_at_terminal(code: str, folder: Path) -> tuple[str, str]:
    """As run_alone, with a terminal for stderr. Returns what was printed on stdout and on stderr."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=theirs, check=False, timeout=120
    )
    os.write(theirs, b"END")  # All that was printed before can be read.
    shown = b""
    while not shown.endswith(b"END"):
        shown += os.read(ours, 1 << 16)
    os.close(theirs)
    os.close(ours)
    return run.stdout.decode(), shown.removesuffix(b"END").decode()


@pytest.mark.seldom(0.15)
@needs_numba
def test_numba_is_imported_when_useful_and_announces_compiling_once(tmp_path: Path) -> None:
    """Neither imports nor small meadows import numba; compiled code is cached, and the second run prints nothing."""
    (first, announced), (second, nothing) = (run_at_terminal(ALONE, tmp_path) for _ in range(2))

    assert first == second == f"{QUIET_100} True\n", announced
    lines = announced.splitlines()
    assert lines
    assert set(lines) == {"meadow: numba is compiling a loop; this takes some seconds, and the result is cached"}
    assert nothing == ""


@pytest.mark.seldom(0.15)
@needs_numba
def test_compiling_is_announced_to_who_waits_alone(tmp_path: Path) -> None:
    """Not in a file or a pipe, and not to who wants it quiet: a session in the docs looks the same the first time."""
    piped = run_alone(ALONE, tmp_path / "piped")
    quiet = "from sim.waiting_notice import silence_notices\nsilence_notices(when=True)\n"
    silent, shown = run_at_terminal(quiet + ALONE, tmp_path / "quiet")

    assert (piped.stdout, piped.stderr) == (silent, shown) == (f"{QUIET_100} True\n", "")
    assert all(any((tmp_path / name).rglob("*.nbc")) for name in ("piped", "quiet"))


def test_without_numba_everything_is_the_same(tmp_path: Path) -> None:
    """Without numba nothing is printed, and the states are the same."""
    finished = run_alone(HIDING + ALONE, tmp_path)

    assert (finished.stdout, finished.stderr) == (f"{QUIET_100} False\n", "")


@needs_numba
def test_numba_can_be_disabled(tmp_path: Path) -> None:
    """NUMBA_DISABLE_JIT disables it."""
    finished = run_alone(ALONE, tmp_path, NUMBA_DISABLE_JIT="1")

    assert (finished.stdout, finished.stderr) == (f"{QUIET_100} True\n", "")


@needs_numba
@pytest.mark.seldom(0.15)
def test_without_a_cache_folder_loops_are_compiled_each_time() -> None:
    """numba finds no folder for its cache: the loop is compiled without one."""
    import numba

    njit, given_cache = numba.njit, []

    def refuse(function: Any, *, cache: bool = False, **options: Any) -> Any:
        given_cache.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(function, **options)

    room = np.zeros((4, 4), np.int64)
    with patch.object(numba, "njit", refuse):
        grow = compiled.compile_loop.__wrapped__(passes.grow_plants, ())
    ones = np.ones(4, np.int64)
    assert grow(ones.copy(), ones * 0, ones, ones, 5, ones, ones * 9, ones * 3, ones, ones * 9, *room) == (4, 4, 0, 0)
    assert given_cache == [True, False]
