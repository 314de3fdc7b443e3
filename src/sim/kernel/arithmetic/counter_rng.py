"""Random words by key: a word depends on its key alone, never on earlier random draws.

The generator is Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC '11), written in
integer NumPy operations that give the same words on every platform and NumPy release. A key is
(seed, phase, tick, entity); a local change in a world does not affect random draws elsewhere.

``RandomStream`` is an ordinary, sequential generator for worlds that need one: its complete state is four words of a
field.

Counter layout, four 32-bit words: block | entity, low 32 | tick, low 32 | phase 8, tick high 8, entity high 16.
The Philox key is the seed, low word first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

GENERATOR_NAME = "philox4x32-10/1"  # Name and version of generator and counter layout, written to the tape.
PHASE_MAX = (1 << 8) - 2  # 255 belongs to RandomStream, so that streams and keyed draws never share a counter.
TICK_MAX = (1 << 40) - 1
ENTITY_MAX = (1 << 48) - 1
RANGE_MAX = 1 << 32  # A range is mapped from one 32-bit word.

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)  # Constants of the Philox paper, section 4.3.
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)

Words = npt.NDArray[np.uint64]


def philox_words(counter: tuple[Any, Any, Any, Any], key: tuple[int, int]) -> npt.NDArray[np.uint64]:
    """Philox4x32-10 of each counter.

    counter: four integers or integer arrays that broadcast together, each below 2**32. key: two such integers.
    Returns (..., 4) uint64, each below 2**32.
    """
    a, b, c, d = (np.asarray(word, dtype=np.uint64) for word in counter)
    first, second = (np.uint64(multiplier) for multiplier in _MULTIPLIERS)
    key0, key1 = key
    for _ in range(_ROUNDS):
        product0, product1 = first * a, second * c
        a = (product1 >> _SHIFT) ^ b ^ np.uint64(key0)
        b = product1 & _LOW
        c = (product0 >> _SHIFT) ^ d ^ np.uint64(key1)
        d = product0 & _LOW
        key0, key1 = (key0 + _WEYL[0]) & 0xFFFFFFFF, (key1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack(np.broadcast_arrays(a, b, c, d), axis=-1)


def philox_numbers(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 of a single counter, in Python's integers: a tenth of the time that arrays take for one."""
    a, b, c, d = counter
    (first, second), (key0, key1) = _MULTIPLIERS, key
    for _ in range(_ROUNDS):
        product0, product1 = first * a, second * c
        a, b = (product1 >> 32) ^ b ^ key0, product1 & 0xFFFFFFFF
        c, d = (product0 >> 32) ^ d ^ key1, product0 & 0xFFFFFFFF
        key0, key1 = (key0 + _WEYL[0]) & 0xFFFFFFFF, (key1 + _WEYL[1]) & 0xFFFFFFFF
    return a, b, c, d


class KeyedRandom:
    """Random draws by (phase, tick, entity) under one seed; holds nothing but the seed."""

    def __init__(self, seed: int) -> None:
        """seed: 0 to 2**64 - 1. Raises ValueError outside that range."""
        if not 0 <= seed < 1 << 64:
            raise ValueError(f"seed: expected an integer from 0 to 2**64 - 1, got {seed}")
        self._key = (seed & 0xFFFFFFFF, seed >> 32)

    @property
    def key(self) -> tuple[int, int]:
        """The Philox key: the seed's words, the low one first."""
        return self._key

    def words(self, phase: int, tick: int, entities: Any, block: int = 0) -> Words:
        """Four random words for each entity.

        entities: integer or (n,) integers, 0 to ENTITY_MAX. block: each number gives four more words.
        Returns (..., 4) uint64, each below 2**32. Raises ValueError if phase, tick or an entity is out of range.
        """
        ids = self.check(phase, tick, entities).astype(np.uint64)
        top = np.uint64(phase << 24 | (tick >> 32) << 16) | (ids >> _SHIFT)
        return philox_words((block, ids & _LOW, tick & 0xFFFFFFFF, top), self._key)

    def check(self, phase: int, tick: int, entities: Any) -> npt.NDArray[Any]:
        """Return entities as an array. Raises ValueError if phase, tick or an entity is out of range."""
        if not (0 <= phase <= PHASE_MAX and 0 <= tick <= TICK_MAX):
            raise ValueError(
                f"expected a phase from 0 to {PHASE_MAX} and a tick from 0 to {TICK_MAX}, got {phase} and {tick}"
            )
        ids = np.asarray(entities)
        if ids.size and (ids.min() < 0 or ids.max() > ENTITY_MAX):
            raise ValueError(f"entities: expected numbers from 0 to {ENTITY_MAX}, got {ids.min()} to {ids.max()}")
        return ids

    def numbers(self, phase: int, tick: int, entity: int, block: int = 0) -> tuple[int, int, int, int]:
        """The result of words for one entity, as Python's integers. Raises ValueError as words does."""
        if not (0 <= phase <= PHASE_MAX and 0 <= tick <= TICK_MAX and 0 <= entity <= ENTITY_MAX):
            raise ValueError(
                f"expected a phase from 0 to {PHASE_MAX}, a tick from 0 to {TICK_MAX} and an entity from 0 to "
                f"{ENTITY_MAX}, got {phase}, {tick} and {entity}"
            )
        top = phase << 24 | (tick >> 32) << 16 | entity >> 32
        return philox_numbers((block, entity & 0xFFFFFFFF, tick & 0xFFFFFFFF, top), self._key)


def scale_words(words: Words, range_size: Any) -> npt.NDArray[np.int64]:
    """Map 32-bit words to 0 … range_size - 1 by multiply and shift: floor(word × range_size / 2**32).

    range_size: an integer or array from 1 to RANGE_MAX. The probability of a value is off by at most 2**-32: the price
    of exactly one word for each value.
    """
    return ((words * np.asarray(range_size, dtype=np.uint64)) >> _SHIFT).astype(np.int64)


class RandomStream:
    """A sequential stream of random words whose complete state lies in four uint64 words of a field.

    words[0] is the seed, words[1] the stream's number, words[2] the number of words drawn so far, words[3] is 0.
    Because this count is kept, the number of random draws between two ticks is a subtraction.

    Examples:
        >>> state = State(Schema(Field("rng", "u8", (4,))))
        >>> random = RandomStream.seed(state["rng"], 7)
        >>> random.integers(1, 7, 5).dtype, random.drawn_count
        (dtype('int64'), 5)
    """

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        """words: a (4,) uint64 view of the state, which the stream reads and advances in place."""
        if words.shape != (4,) or words.dtype != np.uint64:
            raise ValueError(f"words: expected a uint64 field of shape (4,), got {words.dtype} of shape {words.shape}")
        self._words = words

    @staticmethod
    def seed(words: npt.NDArray[np.uint64], seed: int, stream: int = 0) -> RandomStream:
        """Start a stream in words. seed: 0 to 2**64 - 1; stream: 0 to ENTITY_MAX, one for each purpose."""
        made = RandomStream(words)
        words[:] = (seed, stream, 0, 0)
        return made

    @property
    def drawn_count(self) -> int:
        """Words drawn since the stream was started."""
        return int(self._words[2])

    def words(self, count: int) -> Words:
        """The next count words, (count,) uint64, each below 2**32. Raises ValueError if count is negative."""
        if count < 0:
            raise ValueError(f"count: expected at least 0 words, got {count}")
        seed, stream, drawn = (int(word) for word in self._words[:3])
        blocks = np.arange(drawn // 4, (drawn + count + 3) // 4, dtype=np.uint64)
        counter = (blocks & _LOW, stream & 0xFFFFFFFF, blocks >> _SHIFT, 0xFF000000 | stream >> 32)
        made = philox_words(counter, (seed & 0xFFFFFFFF, seed >> 32)).reshape(-1)
        self._words[2] = drawn + count
        return made[drawn % 4 : drawn % 4 + count]

    def integers(self, low: int, high: int, count: int) -> npt.NDArray[np.int64]:
        """count integers from low to high - 1, (count,) int64. Raises ValueError if the range is empty or too wide."""
        if not 1 <= high - low <= RANGE_MAX:
            raise ValueError(
                f"expected a range of 1 to {RANGE_MAX} values, got {high - low} values from {low} to {high - 1}"
            )
        return low + scale_words(self.words(count), high - low)
