"""Philox against published vectors and plain integers; keys, streams and ranges."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import Field, KeyedRandom, RandomStream, Schema, State
from sim.kernel.arithmetic.counter_rng import ENTITY_MAX, GENERATOR_NAME, RANGE_MAX, philox_words, scale_words

from sim_strategies import philox_block

WORD = st.integers(0, 0xFFFFFFFF)
SEED = st.integers(0, (1 << 64) - 1)

RANDOM123_VECTORS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def hexes(text: str) -> tuple[int, ...]:
    """Words from hexadecimal text."""
    return tuple(int(word, 16) for word in text.split())


@pytest.mark.parametrize(("counter", "key", "words"), RANDOM123_VECTORS)
def test_the_known_answers_of_random123(counter: str, key: str, words: str) -> None:
    """The library and the oracle of these tests give the three vectors that Random123 publishes for philox4x32-10."""
    assert tuple(philox_words(hexes(counter), hexes(key)).tolist()) == hexes(words)  # type: ignore[arg-type]
    assert philox_block(hexes(counter), hexes(key)) == hexes(words)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(WORD, WORD, WORD, WORD), min_size=1, max_size=5), st.tuples(WORD, WORD))
def test_philox_is_that_of_plain_integers(counters: list[Any], key: tuple[int, int]) -> None:
    """An array of counters gives the same words as plain Python integers one by one."""
    columns = tuple(np.array(column, np.uint64) for column in zip(*counters, strict=True))

    assert philox_words(columns, key).tolist() == [list(philox_block(counter, key)) for counter in counters]  # type: ignore[arg-type]


@settings(deadline=None, max_examples=100)
@given(
    SEED,
    st.integers(0, 254),
    st.integers(0, (1 << 40) - 1),
    st.lists(st.integers(0, ENTITY_MAX), min_size=1, max_size=4),
    WORD,
)
def test_the_counter_layout(seed: int, phase: int, tick: int, entities: list[int], block: int) -> None:
    """Block | entity low | tick low | phase, tick high, entity high; the key is the seed, low word first."""
    key = (seed % (1 << 32), seed // (1 << 32))
    expected = [
        list(
            philox_block(
                (block, e % (1 << 32), tick % (1 << 32), (phase << 24) + (tick // (1 << 32) << 16) + e // (1 << 32)),
                key,
            )
        )
        for e in entities
    ]

    drawn = KeyedRandom(seed).words(phase, tick, np.array(entities), block)
    assert (drawn.tolist(), drawn.dtype) == (expected, np.uint64)
    assert KeyedRandom(seed).words(phase, tick, entities[0], block).tolist() == expected[0]
    assert list(KeyedRandom(seed).numbers(phase, tick, entities[0], block)) == expected[0]
    assert GENERATOR_NAME == "philox4x32-10/1"


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_seeds_out_of_range(seed: int) -> None:
    """A seed has 64 bits."""
    with pytest.raises(ValueError, match=f"^seed: expected an integer from 0 to 2\\*\\*64 - 1, got {seed}$"):
        KeyedRandom(seed)


@pytest.mark.parametrize(("phase", "tick"), [(-1, 0), (255, 0), (0, -1), (0, 1 << 40)])
def test_keys_out_of_range(phase: int, tick: int) -> None:
    """A phase is at most 254, since 255 is that of streams, and a tick has 40 bits; the last of each is accepted."""
    KeyedRandom(0).words(254, (1 << 40) - 1, ENTITY_MAX)
    with pytest.raises(ValueError, match=f"from 0 to 254 and a tick from 0 to 1099511627775, got {phase} and {tick}$"):
        KeyedRandom(0).words(phase, tick, 1)


@settings(deadline=None, max_examples=100)
@given(st.lists(WORD, min_size=1, max_size=8), st.integers(1, RANGE_MAX))
def test_words_scale_to_a_range(words: list[int], size: int) -> None:
    """A word becomes floor(word × size / 2**32), which lies in 0 … size - 1."""
    scaled = scale_words(np.array(words, np.uint64), size)

    assert scaled.tolist() == [int(Fraction(word * size, 1 << 32)) for word in words]
    assert scaled.dtype == np.int64


def test_the_ends_of_a_range() -> None:
    """The least and the greatest word give 0 and size - 1, for sizes 1 and RANGE_MAX too; sizes may be an array."""
    ends = np.array([0, 0xFFFFFFFF], np.uint64)

    assert scale_words(ends, 1).tolist() == [0, 0]
    assert scale_words(ends, RANGE_MAX).tolist() == [0, 0xFFFFFFFF]
    assert scale_words(ends, np.array([7, 7])).tolist() == [0, 6]


def a_stream(seed: int = 5, stream: int = 0) -> tuple[State, RandomStream]:
    """A state with one field, and a stream in it."""
    state = State(Schema(Field("rng", "u8", (4,))))
    return state, RandomStream.seed(state["rng"], seed, stream)


def stream_word(seed: int, stream: int, index: int) -> int:
    """The word at an index of a stream, in plain integers."""
    block = index // 4
    counter = (block % (1 << 32), stream % (1 << 32), block >> 32, 0xFF000000 + (stream >> 32))
    return philox_block(counter, (seed % (1 << 32), seed >> 32))[index % 4]


@settings(deadline=None, max_examples=80)
@given(SEED, st.integers(0, ENTITY_MAX), st.lists(st.integers(0, 9), max_size=8))
def test_any_split_of_draws_gives_the_same_words(seed: int, stream: int, counts: list[int]) -> None:
    """Words do not depend on how many are drawn at once; the state is four words that hold the position."""
    state, random = a_stream(seed, stream)
    drawn = [word for count in counts for word in random.words(count).tolist()]

    assert drawn == [stream_word(seed, stream, index) for index in range(sum(counts))]
    assert random.drawn_count == sum(counts)
    assert state["rng"].tolist() == [seed, stream, sum(counts), 0]


@pytest.mark.parametrize("start", [(1 << 34) - 2, (1 << 34) + 5])
def test_a_stream_continues_past_32_bits_of_blocks(start: int) -> None:
    """The block's high half is in the counter, so that words do not repeat after 2**34 draws."""
    state, random = a_stream(9, 3)
    state["rng"][2] = start

    assert random.words(6).tolist() == [stream_word(9, 3, start + i) for i in range(6)]


def test_the_field_is_the_complete_state_of_a_stream() -> None:
    """Restoring the state resets every stream on it, a used one and a new one alike."""
    state, random = a_stream()
    random.words(7)
    saved = state.snapshot()
    first = random.words(5).tolist()
    random.words(100)
    state.restore(saved)

    assert random.drawn_count == 7
    assert RandomStream(state["rng"].copy()).words(5).tolist() == first
    assert random.words(5).tolist() == first


def test_integers_of_a_stream() -> None:
    """One word each, mapped to low … high - 1."""
    _, random = a_stream(11)
    _, same = a_stream(11)
    drawn = random.integers(-3, 4, 50)

    assert drawn.tolist() == [int(Fraction(word * 7, 1 << 32)) - 3 for word in same.words(50).tolist()]
    assert set(drawn.tolist()) == set(range(-3, 4))
    assert random.drawn_count == 50
    assert random.integers(5, 6, 3).tolist() == [5, 5, 5]
    assert random.integers(0, RANGE_MAX, 1).dtype == np.int64


@pytest.mark.parametrize(("low", "high", "count"), [(3, 3, 1), (4, 3, 1), (0, RANGE_MAX + 1, 1), (0, 2, -1)])
def test_invalid_draws(low: int, high: int, count: int) -> None:
    """An empty or too wide range, or a negative count, is refused and draws nothing."""
    state, random = a_stream()
    random.words(3)
    before = state.hash()

    with pytest.raises(ValueError):  # noqa: PT011 - two messages
        random.integers(low, high, count)
    assert state.hash() == before


@pytest.mark.parametrize("words", [np.zeros(3, np.uint64), np.zeros(4, np.int64), np.zeros((1, 4), np.uint64)])
def test_a_stream_needs_four_words(words: Any) -> None:
    """A different shape or dtype is refused."""
    with pytest.raises(ValueError, match=r"^words: expected a uint64 field of shape \(4,\), got "):
        RandomStream(words)


@pytest.mark.parametrize("entity", [-1, ENTITY_MAX + 1])
def test_entities_out_of_range(entity: int) -> None:
    """An entity has 48 bits and no sign, alone and among others."""
    for given_entities in (entity, np.array([3, entity])):
        with pytest.raises(ValueError, match=f"^entities: expected numbers from 0 to {ENTITY_MAX}, got "):
            KeyedRandom(0).words(1, 1, given_entities)
