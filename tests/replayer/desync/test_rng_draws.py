"""The distance between two states of a generator is the number of draws that a counting wrapper counted."""

from __future__ import annotations

import ctypes
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer
from recorder import Recorder
from replayer.desync.rng_draws import compare_streams, count_draws, draws_between, finding_lines, streams_of
from replayer.timeline.draw_ledger import ledger
from replayer.timeline.verify import verify_tape
from sim import Blob, Field, RandomStream, Schema, State

COUNTING: dict[str, Callable[[int], Any]] = {
    "PCG64": np.random.PCG64,
    "PCG64DXSM": np.random.PCG64DXSM,
    "Philox": np.random.Philox,
}


class CountingBitGenerator:
    """A bit generator that counts every call and passes it on to a real one."""

    class Interface(ctypes.Structure):
        _fields_ = (
            ("state", ctypes.c_void_p),
            ("next_uint64", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
            ("next_uint32", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)),
            ("next_double", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)),
            ("next_raw", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
        )

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.lock = threading.Lock()
        self.words = self.halves = 0
        real = inner.ctypes
        kinds = dict(self.Interface._fields_)

        def counting(name: str, counter: str) -> Any:
            passed = ctypes.cast(getattr(real, name), kinds[name])

            def call(_: Any) -> Any:
                setattr(self, counter, getattr(self, counter) + 1)
                return passed(real.state_address)

            return kinds[name](call)

        self._interface = self.Interface(
            real.state_address,
            counting("next_uint64", "words"),
            counting("next_uint32", "halves"),
            counting("next_double", "words"),
            kinds["next_raw"](),
        )
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = make(ctypes.addressof(self._interface), b"BitGenerator", None)


def draw_something(rng: Any, chance: Any) -> None:
    """Make one of many kinds of calls, with a random size; some take half words."""
    size = int(chance.integers(0, 6))
    match int(chance.integers(0, 11)):
        case 0:
            rng.random(size)
        case 1:
            rng.normal(size=size)
        case 2:
            rng.exponential(size=size)
        case 3:
            rng.integers(0, 1000, size)
        case 4:
            rng.integers(0, 1 << 40, size)
        case 5:
            rng.random(size, dtype=np.float32)
        case 6:
            rng.shuffle(np.arange(size))
        case 7:
            rng.poisson(3.0, size)
        case 8:
            rng.gamma(0.7, size=size)
        case 9:
            rng.permutation(size)
        case 10:
            rng.choice(20, size)


@pytest.mark.parametrize(("kind", "ticks"), [("PCG64", 10_000), ("Philox", 10_000), ("PCG64DXSM", 1_000)])
def test_the_count_is_that_of_a_counting_wrapper_for_ten_thousand_ticks(kind: str, ticks: int) -> None:
    """At each tick of mixed calls, the two states give the exact numbers of words and half words."""
    inner: Any = COUNTING[kind](12)
    counting = CountingBitGenerator(inner)
    rng, chance = np.random.Generator(counting), np.random.Generator(np.random.PCG64(5))  # type: ignore[arg-type]
    before, calls = inner.state, 0
    for _ in range(ticks):
        counting.words = counting.halves = 0
        for _ in range(int(chance.integers(0, 3))):
            draw_something(rng, chance)
        after = inner.state
        found = draws_between("rng", before, after)
        fetched = (counting.halves + (1 if before["has_uint32"] == 0 else 0)) // 2

        assert found.half_words == 2 * counting.words + counting.halves
        assert found.words == counting.words + fetched
        calls += counting.words + counting.halves
        before = after

    assert calls > 2 * ticks


@pytest.mark.parametrize("kind", COUNTING)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 1000, 10**7])
def test_any_number_of_words_is_counted_forwards_and_backwards(kind: str, count: int) -> None:
    """Exact up to ten million words, in well under a millisecond each; backwards it is negative."""
    generator: Any = COUNTING[kind](3)
    np.random.Generator(generator).random(5)
    before = generator.state
    np.random.Generator(generator).random(count)
    after = generator.state
    start_s = time.thread_time()  # Of this thread: on a busy machine it may wait for its turn.
    found = draws_between("rng", before, after)

    assert time.thread_time() - start_s < 0.01
    assert (found.words, found.half_words, found.note) == (count, 2 * count, None)
    assert draws_between("rng", after, before).words == -count


def test_a_jump_of_the_generator_is_its_own_length() -> None:
    """advance() defines the generator's own distance."""
    for far in (2**64, 2**100 + 12345, 2**126):
        generator = np.random.PCG64(9)
        before = generator.state
        generator.advance(far)
        assert draws_between("rng", before, generator.state).words == far
        philox = np.random.Philox(9)
        start = philox.state
        philox.advance(far)
        assert draws_between("rng", start, philox.state).words == 4 * far


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.SFC64])
def test_generators_that_do_not_count_are_unsupported(kind: Any) -> None:
    """The result is "unsupported", not a guess."""
    generator = kind(1)
    before = generator.state
    generator.random_raw(3)
    found = draws_between("rng", before, generator.state)

    assert found.words is None
    assert (found.note or "").startswith("unsupported")
    assert found.moved


def test_a_different_seed_or_an_invalid_state_is_reported() -> None:
    """Two seeds have no distance; an invalid state raises nothing."""
    one, two = np.random.PCG64(1).state, np.random.PCG64(2).state
    assert draws_between("rng", one, two).note == "a different seed"
    assert draws_between("rng", np.random.Philox(1).state, np.random.Philox(2).state).note == "a different seed"
    assert (draws_between("rng", np.random.Philox(1).state, one).note or "").startswith("a different generator: Philox")
    for nonsense in ({}, {"state": 5}, {"state": {"state": "x", "inc": 1}}, {"state": {"state": 1, "inc": 2}}):
        found = draws_between("rng", {"bit_generator": "PCG64", **nonsense}, {"bit_generator": "PCG64", **nonsense})
        assert found.note == "its state does not have NumPy's format"


class Dice:
    """Draws from a RandomStream in the state; the replayed variant draws three more at a tick."""

    extra_tick = -1

    def __init__(self) -> None:
        self.state = State(
            Schema(Field("tick", "i8"), Field("x", "i8"), Field("dice", "u8", (4,)), Field("u", "u8", (4,)))
        )
        RandomStream.seed(self.state["dice"], 8)
        self.state["u"][:] = 5

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        tick = int(self.state["tick"])
        self.state["x"][()] = RandomStream(self.state["dice"]).words(tick % 4).sum()
        if tick == self.extra_tick:
            RandomStream(self.state["dice"]).words(3)


class LoadedDice(Dice):
    extra_tick = 33


class SavedDice:
    """Keeps NumPy generators in attributes, and saves their states as JSON."""

    extra_tick = -1

    def __init__(self) -> None:
        self.tick = 0
        self.rngs = [np.random.Generator(np.random.PCG64(4)), np.random.Generator(np.random.MT19937(4))]

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.tick += 1
        self.rngs[0].random(2)
        if self.tick == self.extra_tick:
            self.rngs[0].random(3)

    def save(self) -> bytes:
        states = [self.rngs[0].bit_generator.state]
        return json.dumps({"tick": self.tick, "rng": states}).encode()

    def load(self, saved: bytes) -> None:
        found = json.loads(saved)
        self.tick = found["tick"]
        self.rngs[0].bit_generator.state = found["rng"][0]


class LoadedSavedDice(SavedDice):
    extra_tick = 33


def record(path: Path, simulation: Any, interval: int) -> None:
    """Record sixty ticks."""
    with Recorder(path, simulation, keyframe_interval_ticks=interval) as tape:
        for _ in range(60):
            tape.step()


@pytest.mark.parametrize(
    ("sound", "loaded", "stream", "recorded"),
    [(Dice, LoadedDice, "dice", 1), (SavedDice, LoadedSavedDice, "saved.rng.0", 2)],
)
@pytest.mark.seldom(0.18)
def test_a_desync_is_reported_by_its_random_draws(
    tmp_path: Path, sound: Any, loaded: Any, stream: str, recorded: int
) -> None:
    """Three more words at tick 33: located exactly if a keyframe is there, else between it and the next one."""
    record(tmp_path / "at.tape", sound(), 33)
    [finding] = verify_tape(tmp_path / "at.tape", loaded).findings
    assert finding.tick == 33
    assert finding_lines(finding) == [
        f"stream {stream} drew 3 words more at tick 33 ({recorded} recorded, {recorded + 3} replayed)"
    ]

    record(tmp_path / "near.tape", sound(), 20)
    [finding] = verify_tape(tmp_path / "near.tape", loaded).findings
    [line] = finding_lines(finding)
    assert line.startswith(f"stream {stream} drew 3 words more from tick 33 to the keyframe of tick 40 (")


def test_correct_runs_have_no_difference_and_the_ledger_lists_each_tick(tmp_path: Path) -> None:
    """The ledger of a tape equals the simulation's draws at each tick; equal states have no difference."""
    record(tmp_path / "a.tape", Dice(), 20)
    with replayer.open(tmp_path / "a.tape", Dice) as run:
        found = {tick: draws["dice"].words for tick, draws in ledger(run, 1, 60)}
        assert found == {tick: tick % 4 for tick in range(1, 61)}
        assert compare_streams(run[31], run[31]) == []
        assert {name: draws.words for name, draws in count_draws(run[10], run[20]).items()} == {"dice": 15}
        assert list(streams_of(run[0])) == ["dice"]


def test_what_is_no_generator_is_no_stream() -> None:
    """Blobs with other text and other fields of four words are ignored."""
    state = State(Schema(Field("f", "f8", (4,)), Field("i", "i8", (4,)), Blob("a"), Blob("b"), Blob("c"), Blob("d")))
    state.set_blob("a", b"{not json")
    state.set_blob("b", b"[" * 5000)
    state.set_blob("c", b'{"bit_generator": 7, "x": [{"y": 1}]}')
    state.set_blob("d", json.dumps({"deep": [1, {"er": np.random.PCG64(1).state}]}).encode())

    assert list(streams_of(state.snapshot())) == ["d.deep.1.er"]
