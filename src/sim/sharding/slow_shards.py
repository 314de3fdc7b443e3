"""The sentence that names a shard for which the others wait."""

from __future__ import annotations

from sim.sharding.stripes import Stripes

SLOW_S = 5.0  # Without an answer for longer, a shard is named.


def slow_shard_text(number: int, stripes: Stripes, process_id: int, waited_s: float) -> str:
    """Name a shard that has not answered for so many seconds."""
    first, end = stripes.own(number)
    return (
        f"shard {number} of {stripes.count} (process {process_id}, rows {first} to {end - 1}) is slow: "
        f"no answer for {waited_s:.1f} s"
    )
