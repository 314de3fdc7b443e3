"""Convert the complete state of random generators to plain words and back.

That includes a buffered half of a word, and the seed sequence, from which ``spawn`` makes further generators.

No pickle: a generator is rebuilt from the name of its class, which must be listed here.
"""

from __future__ import annotations

import ctypes
import functools
import random
import sys
from typing import Any

import numpy as np

WORD_BITS = 64
WORD_MASK = (1 << WORD_BITS) - 1

BIT_GENERATORS: dict[str, Any] = {
    name: getattr(np.random, name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
}
PCG_WORDS = 6  # state (2), inc (2), has_uint32 and uinteger (32 bits each in one), children of the seed sequence.
HALF_BITS = 32
_PCG = ("PCG64", "PCG64DXSM")
_POOL_MAX = 1 << 10
_ENTROPY_MAX = 1 << 16
_ENTROPIES: dict[str, Any] = {
    "int": int,
    "list": list,
    "tuple": tuple,
    "ndarray": lambda words: np.array(words, object),
}


def is_generator(value: Any) -> bool:
    """Return True if value is a random generator whose complete state can be captured."""
    if type(value) is random.Random:
        return True
    if type(value) not in (np.random.Generator, np.random.RandomState):
        return False
    return type(_bit_generator(value)).__name__ in BIT_GENERATORS


def _bit_generator(generator: Any) -> Any:
    return getattr(generator, "bit_generator", None) or generator._bit_generator  # noqa: SLF001 - RandomState's only way


def seeds_of(bits: Any) -> Any:
    """The seed sequence of a bit generator; None for one that was seeded in the way of RandomState."""
    return bits._seed_seq  # noqa: SLF001 - seed_seq exists since NumPy 1.25 only


def seeds_to_plain(seeds: Any) -> list[Any] | None:
    """A seed sequence as [kind of entropy, entropy, spawn key, pool size, number of children].

    None for what is no SeedSequence of NumPy, was made of other things than integers, or is larger than a restore makes.
    """
    if type(seeds) is not np.random.SeedSequence:
        return None
    entropy: Any = seeds.entropy
    kind = "int"
    if isinstance(entropy, list | tuple | np.ndarray):
        kind = type(entropy).__name__
        entropy = [int(one) for one in entropy] if all(map(_is_integer, entropy)) else None
    else:
        entropy = int(entropy) if _is_integer(entropy) else None
    if entropy is None or kind not in _ENTROPIES:
        return None
    key = [int(one) for one in seeds.spawn_key]
    words = [entropy] if kind == "int" else entropy
    if len(words) + len(key) > _ENTROPY_MAX or seeds.pool_size > _POOL_MAX:
        return None
    return [kind, entropy, key, int(seeds.pool_size), int(seeds.n_children_spawned)]


def seeds_from_plain(plain: Any) -> Any:
    """A sequence that gives the same words and spawns the same children. Raises ValueError for anything else."""
    match plain:
        case [str(kind), entropy, list(key), int(pool), int(spawned)] if kind in _ENTROPIES:
            words = [entropy] if kind == "int" else entropy
            integers = type(words) is list and all(type(one) is int for one in (*words, *key, pool, spawned))
            if integers and len(words) + len(key) <= _ENTROPY_MAX and 4 <= pool <= _POOL_MAX and 0 <= spawned < 1 << 32:
                try:
                    return np.random.SeedSequence(
                        _ENTROPIES[kind](entropy), spawn_key=tuple(key), pool_size=pool, n_children_spawned=spawned
                    )
                except (TypeError, OverflowError):
                    pass
    raise ValueError("expected a seed sequence")


def with_seeds(generator: Any, plain: Any) -> Any:
    """The generator with this seed sequence: the same object where NumPy allows it, else another in another state."""
    bits = generator.bit_generator
    if seeds_to_plain(seeds_of(bits)) == plain:
        return generator
    seeds = seeds_from_plain(plain)
    try:
        bits.__setstate__((bits.state, seeds))
    except TypeError:  # Before NumPy 2.0 a bit generator keeps the sequence that it was made with.
        return np.random.Generator(type(bits)(seeds))
    return generator


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer)


def generator_to_plain(generator: Any) -> list[Any]:
    """The complete state of a generator: its class, its bit generator's class, the state as numbers and arrays, seeds.

    The seeds are None if a generator has no seed sequence, or one of other things than integers.
    """
    if type(generator) is random.Random:
        version, words, gauss = generator.getstate()
        return ["Random", "", [version, np.array(words, np.uint64), gauss]]
    bits = _bit_generator(generator)
    seeds = seeds_to_plain(seeds_of(bits))
    if type(generator) is np.random.RandomState:
        return ["RandomState", type(bits).__name__, _dict_to_plain(generator.get_state(legacy=False)), seeds]
    return ["Generator", type(bits).__name__, _dict_to_plain(bits.state), seeds]


def generator_from_plain(plain: Any, present: Any = None, *, over: Any = None) -> Any:
    """The generator that generator_to_plain described.

    present: reused if it is of the same kind. over: a bit generator that it shares with another one. Raises ValueError for
    anything else.
    """
    match plain:
        case ["Random", "", [int(version), np.ndarray() as words, gauss]]:
            made = present if type(present) is random.Random else random.Random()  # noqa: S311 - its state is set next
            made.setstate((version, tuple(words.tolist()), gauss))
            return made
        case [("Generator" | "RandomState") as kind, str(name), list(state), *rest] if name in BIT_GENERATORS:
            cls = getattr(np.random, kind)
            present = present if over is None else cls(over)
            fits = type(present) is cls and type(_bit_generator(present)) is BIT_GENERATORS[name]
            if not fits or (rest and seeds_to_plain(seeds_of(_bit_generator(present))) != rest[0]):
                present = cls(_fresh_bits(name, *rest))
            if kind == "RandomState":
                present.set_state(_dict_from_plain(state))
            else:
                present.bit_generator.state = _dict_from_plain(state)
            return present
    raise ValueError("expected the state of a random generator")


def _fresh_bits(name: str, *seeds: Any) -> Any:
    """A bit generator in any state, with these seeds, which older tapes do not have."""
    if seeds == (None,) and name == "MT19937":
        return mersenne_without_seeds()
    return BIT_GENERATORS[name](0 if seeds in ((), (None,)) else seeds_from_plain(*seeds))


def mersenne_without_seeds() -> Any:
    """A bit generator MT19937, in any state, that has no seed sequence, as RandomState seeds it."""
    return np.random.RandomState(0)._bit_generator  # noqa: SLF001 - the only way to it


def bits_of(generator: Any) -> Any:
    """The bit generator of one of NumPy's generators; None for others."""
    return None if type(generator) is random.Random else _bit_generator(generator)


def _dict_to_plain(state: dict[str, Any]) -> list[Any]:
    """A state as pairs: texts, integers of any size and arrays."""
    return [[key, _dict_to_plain(value) if isinstance(value, dict) else value] for key, value in state.items()]


def _dict_from_plain(pairs: list[Any]) -> dict[str, Any]:
    return {key: _dict_from_plain(value) if isinstance(value, list) else value for key, value in pairs}


# --- the fast path for NumPy's default generator


def is_pcg(value: Any) -> bool:
    """Return True if value is a Generator that pcg_words supports."""
    if type(value) is not np.random.Generator or type(value.bit_generator).__name__ not in _PCG:
        return False
    return seeds_to_plain(seeds_of(value.bit_generator)) is not None


def pcg_kind(generator: np.random.Generator) -> list[Any]:
    """What is_pcg accepted: the name of the class, and the seed sequence without the number of its children."""
    bits = generator.bit_generator
    return [type(bits).__name__, (seeds_to_plain(seeds_of(bits)) or [])[:-1]]


def parts_of_pcg(name: str, generator: np.random.Generator) -> dict[str, Any]:
    """The objects that others may share with a generator that is_pcg accepted, by its name and the attribute's."""
    bits = generator.bit_generator
    return {f"{name}.bit_generator": bits, f"{name}.bit_generator.seed_seq": seeds_of(bits)}


def identities_of_pcg(generator: np.random.Generator) -> set[int]:
    """The identities of a generator that is_pcg accepts, and of what others may share with it."""
    return {id(generator), *map(id, parts_of_pcg("", generator).values())}


def pcg_words(generator: np.random.Generator) -> list[int]:
    """The state of a Generator over PCG64 or PCG64DXSM as PCG_WORDS numbers of 64 bits."""
    bits: Any = generator.bit_generator
    state = bits.state
    words = [word for value in state["state"].values() for word in (value & WORD_MASK, value >> WORD_BITS)]
    return [*words, state["has_uint32"] | state["uinteger"] << HALF_BITS, int(seeds_of(bits).n_children_spawned)]


def set_pcg_words(generator: np.random.Generator, words: list[int]) -> None:
    """Set a Generator over PCG64 or PCG64DXSM to the state that pcg_words returned; its seeds are for with_seeds."""
    generator.bit_generator.state = {
        "bit_generator": type(generator.bit_generator).__name__,
        "state": {"state": words[0] | words[1] << WORD_BITS, "inc": words[2] | words[3] << WORD_BITS},
        "has_uint32": words[4] & ((1 << HALF_BITS) - 1),
        "uinteger": words[4] >> HALF_BITS,
    }


def generator_memory(generator: np.random.Generator) -> list[memoryview] | None:
    """The words of a PCG64 generator but the last, as views of its own memory in two parts; None if not certain.

    Reading the memory takes a twentieth of the time of NumPy's dict. NumPy documents the address
    (``bit_generator.ctypes.state_address``), but not the layout. The layout is therefore used only after a generator of
    the same class agreed with its dict in several states. The generator must outlive the views.
    """
    return _memory_of(generator) if _memory_is_known(type(generator.bit_generator)) else None


def pcg_bytes(generator: np.random.Generator) -> bytes:
    """The words of a PCG64 generator, as NumPy's dict gives them, as bytes."""
    return np.array(pcg_words(generator), "<u8").tobytes()


def _memory_of(generator: np.random.Generator) -> list[memoryview]:
    address = int(generator.bit_generator.ctypes.state_address)
    pointer = ctypes.c_void_p.from_address(address).value or 0
    words = (ctypes.c_uint8 * 32).from_address(pointer)
    halves = (ctypes.c_uint8 * 8).from_address(address + ctypes.sizeof(ctypes.c_void_p))
    return [memoryview(words), memoryview(halves)]


@functools.cache
def _memory_is_known(kind: Any) -> bool:
    if ctypes.sizeof(ctypes.c_void_p) * 8 != WORD_BITS or sys.byteorder != "little":
        return False
    probe = np.random.Generator(kind(12345))
    memory = _memory_of(probe)
    for _ in range(3):
        probe.integers(0, 1 << 20, 3, dtype=np.uint32)  # An odd number of half words: one stays buffered.
        if b"".join(memory) != pcg_bytes(probe)[: sum(part.nbytes for part in memory)]:
            return False
    return True
