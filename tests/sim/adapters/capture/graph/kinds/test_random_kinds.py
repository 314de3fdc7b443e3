"""Generators of random numbers made again: each kind of draw continues, and what is shared stays shared."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from sim.adapters.capture.graph.kinds import random_kinds, random_memory
from sim.adapters.capture.graph.kinds.special_kinds import KINDS, KINDS_BY_NAME

BITS = ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"]


def again(value: Any, memo: dict[int, Any]) -> Any:
    """The object made again, with its parts; memo keeps what is shared."""
    if id(value) not in memo:
        kind = KINDS[type(value)]
        plain, parts = kind.take(value)
        made_parts = [again(part, memo) for part in parts]
        memo[id(value)] = KINDS_BY_NAME[kind.name].make(plain, made_parts)
        assert kind.take(memo[id(value)])[0] == plain
    return memo[id(value)]


def test_python_generators_continue() -> None:
    """At each of many positions, with a normal number waiting or not."""
    live = random.Random(5)
    for step in range(700):
        live.gauss(0, 1) if step % 7 == 0 else live.random()
        made = again(live, {})
        assert made.getstate() == live.getstate()
    assert made.gauss(0, 1) == live.gauss(0, 1)
    assert made.getrandbits(99) == live.getrandbits(99)


def test_the_slow_ways_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking and reading the memory give the same data."""
    python, bits, legacy = random.Random(6), np.random.MT19937(3), np.random.RandomState(4)
    assert random_memory.words_are_known()
    assert random_memory.key_is_known()
    assert random_memory.normal_offset() is not None
    for _ in range(700):
        python.random()
        bits.random_raw()
        legacy.standard_normal()
        fast = [KINDS[type(live)].take(live) for live in (python, bits, legacy)]
        with monkeypatch.context() as patch:
            patch.setattr(random_kinds, "words_are_known", lambda: False)
            patch.setattr(random_kinds, "key_is_known", lambda: False)
            patch.setattr(random_kinds, "normal_offset", lambda: None)
            assert [KINDS[type(live)].take(live) for live in (python, bits, legacy)] == fast


def test_memory_of_another_layout_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test at first use compares the memory with what the generator says."""
    tests: list[Any] = [random_memory.words_are_known, random_memory.key_is_known, random_memory.normal_offset]
    assert all(test.__wrapped__() for test in tests)
    monkeypatch.setattr(random_memory, "words_in_memory", lambda _: bytes(2500))
    monkeypatch.setattr(random_memory, "key_in_memory", lambda _: (bytes(2496), 0))
    monkeypatch.setattr(random_memory, "normal_in_memory", lambda _, offset: (False, float(offset)))
    assert not any(test.__wrapped__() for test in tests)


def test_a_generator_with_attributes_of_its_own_is_refused() -> None:
    """They would be lost."""
    live: Any = random.Random(1)
    live.owner = "x"
    with pytest.raises(TypeError, match="attributes of its own"):
        KINDS[random.Random].take(live)


@pytest.mark.parametrize("name", BITS)
def test_numpy_generators_continue(name: str) -> None:
    """Over each bit generator, with a buffered half of a word, and so do their children."""
    live = np.random.Generator(getattr(np.random, name)(3))
    for step in range(30):
        live.integers(0, 100, 3, dtype=np.uint32)
        live.normal()
        if step % 5 == 0:
            live.bit_generator.seed_seq.spawn(1)
        made = again(live, {})
        copied = again(live, {})
        assert made.bit_generator.seed_seq.spawn(1)[0].state == copied.bit_generator.seed_seq.spawn(1)[0].state
        assert (
            made.integers(0, 1 << 20, 5, dtype=np.uint32).tolist()
            == copied.integers(0, 1 << 20, 5, dtype=np.uint32).tolist()
        )
    made = again(live, {})
    assert made.bit_generator.seed_seq.spawn(2)[1].spawn_key == live.bit_generator.seed_seq.spawn(2)[1].spawn_key
    assert made.random(1000).tolist() == live.random(1000).tolist()
    assert made.integers(0, 9, 7, dtype=np.uint32).tolist() == live.integers(0, 9, 7, dtype=np.uint32).tolist()


@pytest.mark.parametrize("make", [lambda: np.random.RandomState(5), lambda: np.random.RandomState(np.random.PCG64(3)),
                                  lambda: np.random.RandomState(np.random.MT19937(3))])  # fmt: skip
def test_legacy_generators_continue(make: Any) -> None:
    """With a normal number waiting or not, seeded by an integer or over a bit generator."""
    live = make()
    for step in range(20):
        live.random_sample()
        if step % 3 == 0:
            live.randn()
        made = again(live, {})
        kept = KINDS[type(live)].take(live)[0]
        assert KINDS[type(live)].take(made)[0] == kept
    assert made.randn(5).tolist() == live.randn(5).tolist()
    assert made.randint(0, 1000, 900).tolist() == live.randint(0, 1000, 900).tolist()


def test_equal_seeds_give_equal_data() -> None:
    """Nothing of the operating system's entropy is in the state of what was seeded."""
    for make in (np.random.default_rng, np.random.RandomState, random.Random):
        taken = []
        for _ in range(2):
            plain, parts = KINDS[make(5).__class__].take(make(5))
            taken.append((plain, [KINDS[type(part)].take(part)[0] for part in parts]))
        assert taken[0] == taken[1]


def test_what_generators_share_stays_shared() -> None:
    """Two generators over one bit generator, and two bit generators of one seed sequence."""
    seeds = np.random.SeedSequence(8)
    bits = np.random.PCG64(seeds)
    live = [
        np.random.Generator(bits),
        np.random.Generator(bits),
        bits,
        np.random.Generator(np.random.SFC64(seeds)),
        seeds,
    ]
    memo: dict[int, Any] = {}
    first, second, same_bits, other, same_seeds = (again(one, memo) for one in live)

    assert first.bit_generator is second.bit_generator is same_bits
    assert other.bit_generator.seed_seq is same_bits.seed_seq is same_seeds
    for one, made in zip(live, (first, second, same_bits, other), strict=False):
        draw = "random_raw" if one is bits else "random"
        assert getattr(one, draw)() == getattr(made, draw)()


@pytest.mark.parametrize("entropy", [0, 1 << 100, [1, 2], (3, 1 << 40), np.array([4, 5]), [], np.int64(7)], ids=repr)
def test_seed_sequences_give_the_same_words_and_children(entropy: Any) -> None:
    """Whatever they were made of, and however many children they have spawned."""
    live = np.random.SeedSequence(entropy, spawn_key=(1, 2), pool_size=8)
    live.spawn(3)
    made = again(live, {})

    assert made.generate_state(9).tolist() == live.generate_state(9).tolist()
    assert (
        [one.spawn_key for one in made.spawn(2)] == [one.spawn_key for one in live.spawn(2)] == [(1, 2, 3), (1, 2, 4)]
    )
    assert type(made.entropy) is type(entropy if type(entropy) is not np.int64 else 7)


def test_other_seeds_and_bit_generators_are_refused() -> None:
    """A seed sequence or a bit generator of the user's own has a state that is not known."""

    class Seeds(np.random.SeedSequence):
        pass

    class Bits(np.random.PCG64):
        pass

    for live, message in (
        (np.random.PCG64(Seeds(1)), "with a .*Seeds: make it with a SeedSequence"),
        (np.random.Generator(Bits(1)), "over a .*Bits: use one of MT19937, PCG64"),
        (np.random.SeedSequence(["5"]), "a SeedSequence of list"),
    ):
        with pytest.raises(TypeError, match=message):
            KINDS[type(live)].take(live)
