"""Convert the complete state of random generators to plain words and back, including a buffered half of a word.

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
PCG_WORDS = 5  # state (2), inc (2), has_uint32 and uinteger (32 bits each in one).
HALF_BITS = 32
_PCG = ("PCG64", "PCG64DXSM")


def is_generator(value: Any) -> bool:
    """Return True if value is a random generator whose complete state can be captured."""
    if type(value) is random.Random:
        return True
    if type(value) not in (np.random.Generator, np.random.RandomState):
        return False
    return type(_bit_generator(value)).__name__ in BIT_GENERATORS


def _bit_generator(generator: Any) -> Any:
    return getattr(generator, "bit_generator", None) or generator._bit_generator  # noqa: SLF001 - RandomState's only way


def generator_to_plain(generator: Any) -> list[Any]:
    """The complete state of a generator: its class, its bit generator's class, the state as numbers and arrays."""
    if type(generator) is random.Random:
        version, words, gauss = generator.getstate()
        return ["Random", "", [version, np.array(words, np.uint64), gauss]]
    bits = _bit_generator(generator)
    if type(generator) is np.random.RandomState:
        return ["RandomState", type(bits).__name__, _dict_to_plain(generator.get_state(legacy=False))]
    return ["Generator", type(bits).__name__, _dict_to_plain(bits.state)]


def generator_from_plain(plain: Any, present: Any = None) -> Any:
    """The generator that generator_to_plain described. present: reused if it is of the same kind.

    Raises ValueError for anything else.
    """
    match plain:
        case ["Random", "", [int(version), np.ndarray() as words, gauss]]:
            made = present if type(present) is random.Random else random.Random()  # noqa: S311 - its state is set next
            made.setstate((version, tuple(words.tolist()), gauss))
            return made
        case [("Generator" | "RandomState") as kind, str(name), list(state)] if name in BIT_GENERATORS:
            cls = getattr(np.random, kind)
            fits = type(present) is cls and type(_bit_generator(present)) is BIT_GENERATORS[name]
            made = present if fits else cls(BIT_GENERATORS[name](0))
            if kind == "RandomState":
                made.set_state(_dict_from_plain(state))
            else:
                made.bit_generator.state = _dict_from_plain(state)
            return made
    raise ValueError("expected the state of a random generator")


def _dict_to_plain(state: dict[str, Any]) -> list[Any]:
    """A state as pairs: texts, integers of any size and arrays."""
    return [[key, _dict_to_plain(value) if isinstance(value, dict) else value] for key, value in state.items()]


def _dict_from_plain(pairs: list[Any]) -> dict[str, Any]:
    return {key: _dict_from_plain(value) if isinstance(value, list) else value for key, value in pairs}


# --- the fast path for NumPy's default generator


def is_pcg(value: Any) -> bool:
    """Return True if value is a Generator that pcg_words supports."""
    return type(value) is np.random.Generator and type(value.bit_generator).__name__ in _PCG


def pcg_words(generator: np.random.Generator) -> list[int]:
    """The state of a Generator over PCG64 or PCG64DXSM as PCG_WORDS numbers of 64 bits."""
    state: Any = generator.bit_generator.state
    words = [word for value in state["state"].values() for word in (value & WORD_MASK, value >> WORD_BITS)]
    return [*words, state["has_uint32"] | state["uinteger"] << HALF_BITS]


def set_pcg_words(generator: np.random.Generator, words: list[int]) -> None:
    """Set a Generator over PCG64 or PCG64DXSM to the state that pcg_words returned."""
    generator.bit_generator.state = {
        "bit_generator": type(generator.bit_generator).__name__,
        "state": {"state": words[0] | words[1] << WORD_BITS, "inc": words[2] | words[3] << WORD_BITS},
        "has_uint32": words[4] & ((1 << HALF_BITS) - 1),
        "uinteger": words[4] >> HALF_BITS,
    }


def generator_memory(generator: np.random.Generator) -> list[memoryview] | None:
    """The words of a PCG64 generator as views of its own memory, in two parts; None if the layout is not certain.

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
        if b"".join(memory) != pcg_bytes(probe):
            return False
    return True
