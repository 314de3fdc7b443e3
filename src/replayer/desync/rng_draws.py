"""Count random draws after the fact: the distance between two states of a generator is the number of words it drew.

No instrumentation is needed. A PCG64 is a linear congruential generator: its distance is found bit by bit in 128 steps
(O'Neill, "PCG", 2014, section 4.3.1). A Philox and our RandomStream have a counter. The states of MT19937 and SFC64
have no such distance: they are reported as unsupported.

A word has 64 bits in PCG64 and Philox, 32 bits in a RandomStream. For a draw of 32 bits, a Generator takes half a word
and keeps the other half (``has_uint32``). Half words are therefore counted, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np

from replayer.desync.finding import Finding
from sim.kernel.arithmetic.counter_rng import ENTITY_MAX
from sim.kernel.schema import Blob, Field
from sim.kernel.state import Snapshot

_BITS = 128
_MASK = (1 << _BITS) - 1
# NumPy's pcg64.h: the default multiplier of PCG64 and the cheap one of PCG64DXSM.
_MULTIPLIERS = {"PCG64": 0x2360ED051FC65DA44385DF649FCCF645, "PCG64DXSM": 0xDA942042E4DD58B5}
_PHILOX_WORDS = 4  # In the block for each value of the counter.
_PHILOX_MASK = (1 << 256) - 1
RANDOM_STREAM = "RandomStream"
_JSON_BYTES_MAX = 1 << 20  # A generator's state is far shorter; the complete save of a simulation may be JSON, too.
_LEVELS_MAX = 16


@attrs.frozen
class Draws:
    """The random draws of a stream between two states.

    Attributes:
        stream: name of the stream: a field, or a field and the path to the generator inside it.
        generator: kind of the generator, by NumPy's name, or RANDOM_STREAM.
        words: number of words drawn; negative if the second state is the earlier one; None if unknown.
        half_words: number of half words drawn, with the half that is kept for the next draw; None if unknown, and for a
            RandomStream, which has no half words.
        note: reason why the number is unknown: "unsupported", or a different seed; None if it is known.
    """

    stream: str
    generator: str
    words: int | None
    half_words: int | None = None
    note: str | None = None

    @property
    def moved(self) -> bool:
        """True if the two states are known to differ, or cannot be compared."""
        return self.note is not None or bool(self.words) or bool(self.half_words)


@attrs.frozen
class StreamDifference:
    """The difference of a stream between a recorded and a replayed state of one tick.

    Attributes:
        more: draws of the replay minus draws of the recording; negative words if the replay drew less.
        recorded, replayed: draws since an earlier state, on which both agree; None if there is none.
    """

    more: Draws
    recorded: Draws | None = None
    replayed: Draws | None = None

    def text(self, where: str) -> str:
        """One sentence. where: for example "at tick 7"."""
        more, name = self.more, self.more.stream
        if more.note is not None:
            return f"stream {name} ({more.generator}) differs {where}: {more.note}"
        words, unit = more.words or 0, "word"
        if not words:
            words, unit = more.half_words or 0, "half word"
        direction = "more" if words > 0 else "fewer"
        counts = ""
        if self.recorded is not None and self.replayed is not None and self.recorded.note is None:
            counts = f" ({self.recorded.words:,} recorded, {self.replayed.words:,} replayed)"
        return f"stream {name} drew {abs(words):,} {unit}{'' if abs(words) == 1 else 's'} {direction} {where}{counts}"


def draws_between(stream: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Draws:
    """Count the draws of a NumPy generator between two values of its ``bit_generator.state``.

    stream: its name, for the result. Raises nothing: where the draws cannot be counted, the result has a note.
    """
    kind = str(after.get("bit_generator"))
    if before.get("bit_generator") != kind:
        return Draws(stream, kind, None, note=f"a different generator: {before.get('bit_generator')} before")
    try:
        words = _words(kind, before["state"], after["state"], before, after)
        kept = int(after["has_uint32"]) - int(before["has_uint32"]) if words is not None else 0
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        return Draws(stream, kind, None, note="its state does not have NumPy's format")
    if words is None:
        note = "a different seed" if kind in (*_MULTIPLIERS, "Philox") else f"unsupported: {kind} has no counter"
        return Draws(stream, kind, None, note=note)
    return Draws(stream, kind, words, 2 * words - kept)


def _words(
    kind: str, first: Mapping[str, Any], second: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> int | None:
    if kind in _MULTIPLIERS:
        if int(first["inc"]) != int(second["inc"]):
            return None
        return _signed(
            _lcg_distance(int(first["state"]), int(second["state"]), _MULTIPLIERS[kind], int(first["inc"])), _BITS
        )
    if kind == "Philox":
        if [int(word) for word in first["key"]] != [int(word) for word in second["key"]]:
            return None
        blocks = _signed((_number(second["counter"]) - _number(first["counter"])) & _PHILOX_MASK, 256)
        return _PHILOX_WORDS * blocks + int(after["buffer_pos"]) - int(before["buffer_pos"])
    return None


def _lcg_distance(state: int, target: int, multiplier: int, increment: int) -> int:
    """Number of steps from state to target: the lowest differing bit decides about a jump by that power of two."""
    if not increment & 1:
        raise ValueError("an even increment: the generator would not run through all states")
    distance, bit = 0, 1
    for _ in range(_BITS):
        if (state ^ target) & bit:
            state = (state * multiplier + increment) & _MASK
            distance |= bit
        bit <<= 1
        increment = (multiplier + 1) * increment & _MASK
        multiplier = multiplier * multiplier & _MASK
    return distance


def _signed(distance: int, bits: int) -> int:
    return distance - (1 << bits) if distance >> (bits - 1) else distance


def _number(words: Iterable[Any]) -> int:
    return sum(int(word) << (64 * place) for place, word in enumerate(words))


# --- streams in a state


def streams_of(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """The generators recognised in a state: their ``bit_generator.state`` by name.

    A field of four uint64 words whose last is 0 counts as a RandomStream. In a blob with JSON text, dicts with the key
    bit_generator are searched at any depth; ``json.dumps(rng.bit_generator.state)`` writes such a dict.
    """
    generators: dict[str, dict[str, Any]] = {}
    for entry in snapshot.layout.schema.entries:
        if isinstance(entry, Field) and entry.shape == (4,) and entry.dtype == np.uint64:
            seed, stream, drawn, zero = (int(word) for word in snapshot[entry.name])
            if zero == 0 and stream <= ENTITY_MAX:
                state = {"seed": seed, "stream": stream, "drawn": drawn}
                generators[entry.name] = {"bit_generator": RANDOM_STREAM, "state": state}
        elif isinstance(entry, Blob):
            generators |= _generators_in(entry.name, _from_json(snapshot.blob(entry.name)), _LEVELS_MAX)
    return generators


def _from_json(content: bytes) -> Any:
    if not content.startswith((b"{", b"[")) or len(content) > _JSON_BYTES_MAX:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None  # A blob may begin with a bracket and not be JSON.


def _generators_in(name: str, value: Any, levels: int) -> dict[str, dict[str, Any]]:
    if isinstance(value, dict) and isinstance(value.get("bit_generator"), str):
        return {name: value}
    if not levels or not isinstance(value, dict | list):
        return {}
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    generators: dict[str, dict[str, Any]] = {}
    for key, item in inner:
        generators |= _generators_in(f"{name}.{key}", item, levels - 1)
    return generators


def count_draws(before: Snapshot, after: Snapshot) -> dict[str, Draws]:
    """The draws of each stream that both states hold, by name."""
    first, second = streams_of(before), streams_of(after)
    return {name: _between(name, first[name], state) for name, state in second.items() if name in first}


def _between(name: str, before: dict[str, Any], after: dict[str, Any]) -> Draws:
    if before["bit_generator"] != RANDOM_STREAM or after["bit_generator"] != RANDOM_STREAM:
        return draws_between(name, before, after)
    first, second = before["state"], after["state"]
    if (first["seed"], first["stream"]) != (second["seed"], second["stream"]):
        return Draws(name, RANDOM_STREAM, None, note="a different seed")
    return Draws(name, RANDOM_STREAM, second["drawn"] - first["drawn"])


def compare_streams(recorded: Snapshot, replayed: Snapshot, before: Snapshot | None = None) -> list[StreamDifference]:
    """The streams whose position differs from the recording. before: an earlier state on which both agree."""
    since = (count_draws(before, recorded), count_draws(before, replayed)) if before is not None else ({}, {})
    return [
        StreamDifference(more, since[0].get(name), since[1].get(name))
        for name, more in count_draws(recorded, replayed).items()
        if more.moved
    ]


def finding_lines(finding: Finding) -> list[str]:
    """One sentence about each stream that differs at a desync; empty if none does or recorded values are unknown."""
    recorded, replayed = finding.compared_recorded, finding.compared_replayed
    if recorded is None or replayed is None:
        return []
    if finding.compared_tick == finding.tick:
        where = f"at tick {finding.tick:,}"
    else:
        where = f"from tick {finding.tick:,} to the keyframe of tick {finding.compared_tick:,}"
    return [difference.text(where) for difference in compare_streams(recorded, replayed, finding.before)]
