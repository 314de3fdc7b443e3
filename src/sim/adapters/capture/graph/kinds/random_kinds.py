"""Generators of random numbers, with all their state: random.Random, NumPy's generators, bit generators and seeds.

Two generators that share a bit generator keep sharing it, and two bit generators a seed sequence: these are their parts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.adapters.capture.graph.kinds.kind_protocol import Plain, SpecialKind, StrongKind, wrong_data
from sim.adapters.capture.graph.kinds.random_memory import (
    MERSENNE_BYTES,
    key_in_memory,
    key_is_known,
    normal_asked,
    normal_in_memory,
    normal_offset,
    words_are_known,
    words_asked,
    words_in_memory,
)
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.rng_state import (
    BIT_GENERATORS,
    mersenne_without_seeds,
    seeds_from_plain,
    seeds_of,
    seeds_to_plain,
)


class PythonRandom(StrongKind):
    """random.Random: the index and the words of its generator as they lie in memory, and gauss_next."""

    name = "random.Random"

    def take(self, value: random.Random) -> tuple[Plain, tuple[Any, ...]]:
        """2,500 bytes, and the second normal number of a pair if it waits."""
        if vars(value).keys() != {"gauss_next"}:
            raise UnsavableError("a random.Random with attributes of its own", "keep them in an object of your own")
        words = words_in_memory(value) if words_are_known() else words_asked(value)
        return [words, value.gauss_next], ()  # type: ignore[attr-defined]

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A generator with this state."""
        match plain, parts:
            case [bytes(content), (None | float()) as gauss], [] if len(content) == MERSENNE_BYTES:
                index, *words = np.frombuffer(content, "<u4").tolist()
                made = random.Random(0)  # noqa: S311 - its state is set next
                made.setstate((3, (*words, index), gauss))
                return made
        raise wrong_data(self.name)


class BitGenerator(StrongKind):
    """A bit generator of NumPy: its complete state; its seed sequence is a part."""

    name = "bit_generator"

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The name of its class and the state; the seed sequence, if it has one, is needed by spawn."""
        seeds = seeds_of(value)
        if seeds is None:
            if type(value) is not np.random.MT19937:
                raise UnsavableError(
                    f"a {type(value).__name__} without a seed sequence", "make it with an integer or a SeedSequence"
                )
            return [type(value).__name__, _state_of(value)], ()
        if type(seeds) is not np.random.SeedSequence:
            raise UnsavableError(
                f"a {type(value).__name__} with a {type(seeds).__qualname__}", "make it with a SeedSequence of NumPy"
            )
        return [type(value).__name__, _state_of(value)], (seeds,)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A bit generator with this state. NumPy checks the state."""
        match plain, parts:
            case [str(name), state], [] if name == "MT19937":
                made: Any = mersenne_without_seeds()
            case [str(name), state], [seeds] if name in BIT_GENERATORS and type(seeds) is np.random.SeedSequence:
                made = BIT_GENERATORS[name](seeds)
            case _:
                raise wrong_data(self.name)
        if _shape(_to_plain(made.state)) != _shape(state):
            raise wrong_data(self.name)
        try:
            made.state = _from_plain(state, made.state)
        except (TypeError, OverflowError, LookupError):
            raise wrong_data(self.name) from None
        return made


def _state_of(bits: Any) -> Plain:
    if type(bits) is np.random.MT19937 and key_is_known():
        key, index = key_in_memory(bits)
        return [["bit_generator", "MT19937"], ["state", [["key", key], ["pos", index]]]]
    return _to_plain(bits.state)


def _to_plain(state: Any) -> Plain:
    """A state as lists: dicts as pairs of a name and a value, arrays as their bytes."""
    if isinstance(state, dict):
        return [[key, _to_plain(value)] for key, value in state.items()]
    if isinstance(state, np.ndarray):
        return state.astype(state.dtype.newbyteorder("<"), copy=False).tobytes()
    return state.item() if isinstance(state, np.generic) else state


def _from_plain(plain: Plain, present: Any) -> Any:
    """The state with the dtypes of the present one."""
    if isinstance(present, dict):
        return {key: _from_plain(value, present[key]) for key, value in plain}
    if isinstance(present, np.ndarray):
        return np.frombuffer(plain, present.dtype.newbyteorder("<")).astype(present.dtype)
    return plain


def _shape(plain: Plain) -> Any:
    """The names, types and lengths in a state: those of a tape must equal those of a new object."""
    if type(plain) is list:
        return [_shape(one) if number or type(one) is list else one for number, one in enumerate(plain)]
    return len(plain) if type(plain) is bytes else type(plain)


class Generator(StrongKind):
    """np.random.Generator: it has no state but that of its bit generator, which is its part."""

    name = "numpy.random.Generator"

    def take(self, value: np.random.Generator) -> tuple[Plain, tuple[Any, ...]]:
        """The bit generator."""
        return [], (_listed(value.bit_generator),)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A generator over the same bit generator."""
        match plain, parts:
            case [], [bits] if type(bits) in BIT_GENERATOR_KINDS:
                return np.random.Generator(bits)
        raise wrong_data(self.name)


class LegacyGenerator(StrongKind):
    """np.random.RandomState: the second normal number of a pair; the rest is that of its bit generator."""

    name = "numpy.random.RandomState"

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """If a normal number waits, this number; and the bit generator."""
        offset = normal_offset()
        is_waiting, number = normal_asked(value) if offset is None else normal_in_memory(value, offset)
        return [is_waiting, number], (_listed(value._bit_generator),)  # noqa: SLF001 - the only way

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A generator over the same bit generator."""
        match plain, parts:
            case [bool(has_gauss), float(gauss)], [bits] if type(bits) in BIT_GENERATOR_KINDS:
                made = np.random.RandomState(bits)
                made.set_state({**bits.state, "has_gauss": int(has_gauss), "gauss": gauss})
                return made
        raise wrong_data(self.name)


def _listed(bits: Any) -> Any:
    if type(bits) not in BIT_GENERATOR_KINDS:
        raise UnsavableError(
            f"a generator over a {type(bits).__qualname__}", f"use one of {', '.join(sorted(BIT_GENERATORS))}"
        )
    return bits


class SeedSequence(StrongKind):
    """np.random.SeedSequence: what it was made of, and the number of children that it has spawned."""

    name = "numpy.random.SeedSequence"

    def take(self, value: np.random.SeedSequence) -> tuple[Plain, tuple[Any, ...]]:
        """[kind of entropy, entropy, spawn key, pool size, number of children]."""
        plain = seeds_to_plain(value)
        if plain is None:
            raise UnsavableError(
                f"a SeedSequence of {type(value.entropy).__qualname__}",
                "make it of an integer or a list of up to 65,536 integers, with a pool of up to 1,024 words",
            )
        return plain, ()

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A sequence that gives the same words and spawns the same children."""
        if parts:
            raise wrong_data(self.name)
        try:
            return seeds_from_plain(plain)
        except ValueError:
            raise wrong_data(self.name) from None


BIT_GENERATOR_KINDS: dict[type, SpecialKind] = dict.fromkeys(BIT_GENERATORS.values(), BitGenerator())
RANDOM_KINDS: dict[type, SpecialKind] = {
    random.Random: PythonRandom(),
    np.random.Generator: Generator(),
    np.random.RandomState: LegacyGenerator(),
    np.random.SeedSequence: SeedSequence(),
    **BIT_GENERATOR_KINDS,
}
