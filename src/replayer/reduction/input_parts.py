"""The inputs of a tape in parts that can be left out: those of one tick, or one item of a list or dict among them.

A part that is left out leaves its tick where it is, with the empty input, or with a shorter list or dict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from replayer.tape.copied_range import UnfitTapeError
from replayer.tape.tape import Tape
from sim.adapters.interface.attempts import attempt_of
from sim.kernel.hooks import HasAdapter, SuggestsInputs, hook
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.simulation import Simulation, inner_of, restore
from sim.kernel.state import Snapshot

Inputs = Mapping[int, bytes]  # By tick, encoded; the ticks that are missing have the empty input.
_USUAL: tuple[Any, ...] = (None, [], {})  # Empty inputs that simulations take.


@attrs.frozen(order=True)
class InputPart:
    """The inputs of a tick, or one item of them.

    Attributes:
        tick: the tick that the inputs lead to.
        item: the number of the item in the list or dict of inputs; -1 for all inputs of the tick.
    """

    tick: int
    item: int = -1


@attrs.frozen
class RecordedInputs:
    """All inputs of a range of ticks that are not empty.

    Attributes:
        encoded: by tick.
        attempts: the names of the exceptions that recorded steps raised and the caller caught, by tick.
        empty: the empty input, encoded.
    """

    encoded: Inputs
    attempts: Mapping[int, str]
    empty: bytes

    def by_tick(self) -> list[InputPart]:
        """A part for each tick with inputs, ascending."""
        return [InputPart(tick) for tick in sorted(self.encoded)]

    def by_item(self, ticks: Iterable[int]) -> list[InputPart]:
        """A part for each item of the lists and dicts of two or more; the other ticks as a whole."""
        return [part for tick in sorted(ticks) for part in self._items(tick)]

    def _items(self, tick: int) -> Iterator[InputPart]:
        inputs = self.value(tick)
        if isinstance(inputs, list | dict) and len(inputs) > 1:
            yield from (InputPart(tick, number) for number in range(len(inputs)))
        else:
            yield InputPart(tick)

    def value(self, tick: int) -> Any:
        """The inputs of a tick as plain data."""
        return decode_plain(self.encoded.get(tick, self.empty))

    def part_value(self, part: InputPart) -> Any:
        """A part as plain data."""
        inputs, key = self.value(part.tick), self.part_key(part)
        return inputs if key is None else inputs[key]

    def part_key(self, part: InputPart) -> Any:
        """The index or the key of a part among the inputs of its tick; None for all of them."""
        if part.item < 0:
            return None
        inputs = self.value(part.tick)
        return list(inputs)[part.item] if isinstance(inputs, dict) else part.item

    def select(self, parts: Iterable[InputPart]) -> dict[int, bytes]:
        """The inputs with these parts alone."""
        items: dict[int, list[int]] = {}
        for part in parts:
            items.setdefault(part.tick, []).append(part.item)
        selected = {}
        for tick in sorted(items):
            if items[tick] == [-1]:
                selected[tick] = self.encoded[tick]
            else:
                inputs = self.value(tick)
                numbers = sorted(items[tick])
                if isinstance(inputs, dict):
                    kept: Any = {key: inputs[key] for number, key in enumerate(inputs) if number in numbers}
                else:
                    kept = [inputs[number] for number in numbers]
                selected[tick] = self.encoded[tick] if len(kept) == len(inputs) else encode_plain(kept)
        return selected


def read_inputs(tape: Tape, last: int, empty: bytes, ending: tuple[int, Any] | None = None) -> RecordedInputs:
    """The inputs of a tape up to tick last.

    ending: the tick and the inputs of a step that no frame has, since it raised. Raises UnfitTapeError for a tick that
    cannot be read.
    """
    encoded, attempts = {}, {}
    for tick in range(tape.first_tick + 1, min(last, tape.last_tick) + 1):
        frame = tape.frame(tick)
        attempt = attempt_of(frame.inputs)
        if attempt is not None and hook_names_adapter(tape):
            attempts[tick] = attempt.kind
        inputs = frame.encoded_inputs if tick not in attempts else encode_plain(attempt.inputs if attempt else None)
        if inputs != empty:
            encoded[tick] = inputs
    if ending is not None and ending[0] <= last and encode_plain(ending[1]) != empty:
        encoded[ending[0]] = encode_plain(ending[1])
    return RecordedInputs(encoded, attempts, empty)


def hook_names_adapter(tape: Tape) -> bool:
    """Return True for the tape of an adapter: its steps that raised are ticks."""
    return bool(tape.meta.get("adapter"))


def find_empty(tape: Tape, simulation: Simulation, start: Snapshot, given: Sequence[Any] = ()) -> bytes:
    """The empty input of a simulation, encoded: the one that was given, or None, [] or {}, as the recorded inputs are.

    It is tried on the first state, and after the first recorded inputs: an environment is reset by them. Raises
    UnfitTapeError if the simulation refuses it, or all of them.
    """
    refused = ""
    candidates = list(given) or _candidates(tape, simulation)
    for first in ([], [tape.frame(tape.first_tick + 1).inputs] if tape.last_tick > tape.first_tick else []):
        for candidate in candidates:
            restore(simulation, start)
            try:
                for inputs in (*first, decode_plain(encode_plain(candidate))):
                    simulation.step(inputs)
            except Exception as error:  # noqa: BLE001 - a simulation may raise anything for inputs that it does not take
                refused = refused or f"{candidate!r} raised {type(error).__name__}: {error}"
            else:
                return encode_plain(candidate)
            finally:
                restore(simulation, start)
    hint = "" if given else "; name what stands for no input with --empty JSON, in Python empty=…"
    raise UnfitTapeError(f"the first step takes no empty input: {' '.join(refused.split())}{hint}")


def _candidates(tape: Tape, simulation: Simulation) -> list[Any]:
    """Empty inputs, those that the tape itself has first."""
    counts: Counter[bytes] = Counter()
    kinds: Counter[type] = Counter()
    for tick in range(tape.first_tick + 1, tape.last_tick + 1):
        inputs = tape.frame(tick).inputs
        kinds[type(inputs)] += 1
        if any(type(inputs) is type(usual) and inputs == usual for usual in _USUAL):
            counts[encode_plain(inputs)] += 1
    recorded = [decode_plain(encoded) for encoded, _ in counts.most_common()]
    usual = sorted(_USUAL, key=lambda one: -kinds[type(one)])
    inner = inner_of(simulation)
    suggesting = hook(inner, SuggestsInputs) if hook(inner, HasAdapter) is not None else None
    suggested = [suggesting.trial_inputs(0)()] if suggesting is not None and _calls_alone(tape) else []
    return [*recorded, *suggested, *usual]


def _calls_alone(tape: Tape) -> bool:
    """Return True for a plain object: what it suggests for trials is a call without arguments, not a random action."""
    adapter = tape.meta.get("adapter")
    return isinstance(adapter, dict) and adapter.get("name") == "plain_object"
