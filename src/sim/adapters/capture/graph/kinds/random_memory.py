"""The states of generators of random numbers read from memory: asking for them takes 30 to 70 times as long.

Each layout is tested when it is first used, by comparing the memory of a generator with its answers in several states.
"""

from __future__ import annotations

import ctypes
import functools
import random
import struct
import sys
from typing import Any

import numpy as np

MERSENNE_BYTES = 4 * 625  # 624 words, and the index of the next one: before them in Python, after them in NumPy.
_KEY_BYTES = 4 * 624
_NORMAL = struct.Struct("i4xd")  # If a normal number waits, and the number.


def _has_known_words() -> bool:
    return sys.implementation.name == "cpython" and sys.byteorder == "little"


# --- random.Random


def words_asked(value: random.Random) -> bytes:
    """The index and the words, the slow way."""
    *words, index = value.getstate()[1]
    return np.array([index, *words], "<u4").tobytes()


def words_in_memory(value: random.Random) -> bytes:
    """The index and the words of a random.Random."""
    return ctypes.string_at(id(value) + object.__basicsize__, MERSENNE_BYTES)


@functools.cache
def words_are_known() -> bool:
    """Return True if words_in_memory gives what words_asked gives."""
    if not _has_known_words():
        return False
    probe = random.Random(1)  # noqa: S311 - a test of the layout
    for count in (0, 1, 700):
        for _ in range(count):
            probe.random()
        if words_in_memory(probe) != words_asked(probe):
            return False
    return True


# --- np.random.MT19937


def key_in_memory(value: Any) -> tuple[bytes, int]:
    """The words of an MT19937, and the index of the next one."""
    memory = ctypes.string_at(value.ctypes.state_address, MERSENNE_BYTES)
    return memory[:_KEY_BYTES], int.from_bytes(memory[_KEY_BYTES:], "little", signed=True)


def key_asked(value: Any) -> tuple[bytes, int]:
    """The same, the slow way."""
    state = value.state["state"]
    return state["key"].astype("<u4").tobytes(), int(state["pos"])


@functools.cache
def key_is_known() -> bool:
    """Return True if key_in_memory gives what key_asked gives."""
    if not _has_known_words():
        return False
    probe: Any = np.random.MT19937(1)
    for count in (0, 1, 700):
        probe.random_raw(count)
        if key_in_memory(probe) != key_asked(probe):
            return False
    return True


# --- np.random.RandomState


def normal_asked(value: Any) -> tuple[bool, float]:
    """If a normal number waits in a RandomState, and the number, the slow way."""
    state = value.get_state(legacy=False)
    return bool(state["has_gauss"]), float(state["gauss"])


def normal_in_memory(value: Any, offset: int) -> tuple[bool, float]:
    """The same from its memory."""
    is_waiting, number = _NORMAL.unpack(ctypes.string_at(id(value) + offset, _NORMAL.size))
    return bool(is_waiting), number


@functools.cache
def normal_offset() -> int | None:
    """The offset in a RandomState of the number that waits; None if it is not found, or not only once."""
    if not _has_known_words():
        return None
    probes = []
    for count in range(4):
        probe: Any = np.random.RandomState(count)
        probe.standard_normal(count)
        probes.append(probe)
    found = [
        offset
        for offset in range(object.__basicsize__, type(probes[0]).__basicsize__ - _NORMAL.size + 1, 8)
        if all(normal_in_memory(probe, offset) == normal_asked(probe) for probe in probes)
    ]
    return found[0] if len(found) == 1 else None
