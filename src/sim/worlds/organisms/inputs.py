"""The inputs of a tick, checked.

    {"kind": "feed", "amount": 500}                                 energy for the pool, also above pool_max
    {"kind": "inject", "program": "eat copy divide nop", "count": 2}   organisms without a mother, at the end of the tick

The order of the inputs of one tick has no meaning: they are sorted.
"""

from __future__ import annotations

from typing import Any

from sim.kernel.registry import InputSource
from sim.worlds.organisms.config import AMOUNT_MAX, INPUT_KEYS, ORGANISMS_MAX, OrganismsConfig
from sim.worlds.organisms.instructions import parse_program

POOL_MAX = 1 << 50  # Feeding stops here: sums stay inside 64 bits.


def read_inputs(inputs: Any) -> tuple[int, list[bytes]]:
    """The energy that is fed, and the genomes that are injected, of the inputs of a tick. Raises ValueError."""
    amount, programs = 0, []
    for item in inputs if isinstance(inputs, list) else [] if inputs is None else [inputs]:
        match item:
            case {"kind": "feed", "amount": int(fed), **rest} if not rest and _is_within(fed, AMOUNT_MAX):
                amount += fed
            case {"kind": "inject", "program": str(text), "count": int(count), **rest} if not rest and _is_within(
                count, ORGANISMS_MAX
            ):
                programs += [parse_program(text)] * count
            case _:
                forms = " or ".join(str({"kind": kind} | dict.fromkeys(keys, "…")) for kind, keys in INPUT_KEYS.items())
                raise ValueError(f"expected {forms}, got {str(item)[:80]}")
    if len(programs) > ORGANISMS_MAX:
        raise ValueError(f"expected at most {ORGANISMS_MAX} organisms in a tick, got {len(programs)}")
    return amount, sorted(programs)


def _is_within(number: int, most: int) -> bool:
    return number is not True and 1 <= number <= most


def schedule(config: OrganismsConfig) -> InputSource:
    """The source of the inputs that the scenario sends."""
    return lambda tick: [item.sent() for item in config.inputs if item.is_due(tick)]
