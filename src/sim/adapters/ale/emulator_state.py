"""The emulator's own serialized state, split into arrays, and its random generator, which decides on sticky actions.

The serialized state holds two generators (mt19937) as text. Their words are kept as arrays: as text, nearly every byte
moves when one number gets a digit more.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import attrs
import numpy as np

from sim.adapters.interface.adapter_registry import NotCapturedError

_WORDS = re.compile(rb"(?:\d{1,10} ){624}")
_ROM_HASH = re.compile(rb"[0-9a-f]{32}")
GENERATOR_COUNT, GENERATOR_WORDS = 2, 625  # The console's, then the environment's: 624 words and a position each.
_LENGTH_BYTES = 4


@attrs.frozen(eq=False)
class EmulatorState:
    """One state of the emulator.

    Attributes:
        machine: all bytes except the texts of the generators.
        places: the offsets in ``machine`` at which these texts belong.
        generators: their words, one row each.
    """

    machine: np.ndarray[Any, Any]
    places: np.ndarray[Any, Any]
    generators: np.ndarray[Any, Any]

    def serialized(self) -> bytes:
        """The bytes that the emulator itself writes."""
        machine, start, pieces = self.machine.tobytes(), 0, []
        for place, words in zip(self.places.tolist(), self.generators.tolist(), strict=True):
            text = b" ".join(b"%d" % word for word in words)
            pieces += [machine[start:place], len(text).to_bytes(_LENGTH_BYTES, "little"), text]
            start = place
        return b"".join([*pieces, machine[start:]])

    def rom_hash(self) -> bytes:
        """The hash of the game's ROM, which is part of the state; empty if there is none."""
        found = _ROM_HASH.search(self.machine.tobytes())
        return found[0] if found else b""


@functools.lru_cache(8)
def _key_of(text: bytes) -> np.ndarray[Any, Any]:
    """The 624 words of a generator. They move once in 312 frames; parsing them takes longer than a frame."""
    return np.array(list(map(int, text.split())), np.uint32)


def _words_of(text: bytes) -> np.ndarray[Any, Any]:
    key, _, position = text.rpartition(b" ")
    return np.append(_key_of(key), np.uint32(int(position)))


def split_state(serialized: bytes) -> EmulatorState:
    """The state that the emulator wrote. Raises NotCapturedError for one that is laid out differently."""
    pieces, places, words, start, size = [], [], [], 0, 0
    for found in _WORDS.finditer(serialized):
        begin = found.start()
        length = int.from_bytes(serialized[begin - _LENGTH_BYTES : begin], "little")
        piece = serialized[start : begin - _LENGTH_BYTES]
        pieces.append(piece)
        size += len(piece)
        places.append(size)
        words.append(_words_of(serialized[begin : begin + length]))
        start = begin + length
    pieces.append(serialized[start:])
    if [len(one) for one in words] != [GENERATOR_WORDS] * GENERATOR_COUNT:
        raise NotCapturedError(
            "expected the state of the emulator to hold two generators, as that of ale-py 0.12 does: use this version, "
            "or level='inputs_only'"
        )
    machine = np.frombuffer(b"".join(pieces), np.uint8).copy()
    return EmulatorState(machine, np.array(places, np.int64), np.stack(words))


class StickyDraws:
    """The numbers that the environment's generator will draw, one for each frame, without drawing them there."""

    def __init__(self, words: np.ndarray[Any, Any]) -> None:
        """words: of the environment's generator, the last in its state."""
        self._bits = np.random.MT19937()
        self._bits.state = {
            "bit_generator": "MT19937",
            "state": {"key": words[:-1].astype(np.uint32), "pos": int(words[-1])},
        }

    def next(self) -> float:
        """The number for the next frame. An action below the probability of repeats is dropped for the one before."""
        high, low = self._bits.random_raw(2).tolist()
        return float(((high << 32) + low) / 2**64)

    def words(self) -> np.ndarray[Any, Any]:
        """The words of the generator after these numbers."""
        state = self._bits.state["state"]
        return np.append(state["key"].astype(np.uint32), np.uint32(state["pos"]))
