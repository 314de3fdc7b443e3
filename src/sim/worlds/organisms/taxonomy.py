"""The taxonomy of an organism: seven ranks, each decided by its genome alone.

Two genomes are of one species if and only if their 32-bit hashes are equal, which different genomes hardly ever are.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import xxhash

from sim.worlds.organisms.instructions import OPS, Op

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
NAMES: tuple[tuple[str, ...], ...] = (  # Of the codes of each rank but the last.
    ("Sterilia", "Replicantia"),  # Without, with both copy and divide: what a genome needs to copy itself.
    ("Brevia", "Media", "Longa"),  # Below 16 operations, below 32, from 32 on.
    ("Linearia", "Cyclica"),  # Without, with a jump back.
    ("Ieiuna", "Parca", "Voracia"),  # Eat: none, one or two, more.
    tuple(f"{name.capitalize()}idae" for name in OPS),  # The most frequent operation; of several, the first one.
    ("Caecus", "Sensor", "Lector", "Sensor-lector"),  # Sense, read, neither or both.
)


@functools.lru_cache(maxsize=4096)
def classify(genome: bytes) -> tuple[int, ...]:
    """The code of each rank of RANKS."""
    counts = [genome.count(op) for op in range(len(OPS))]
    eats = counts[Op.EAT]
    return (
        int(bool(counts[Op.COPY] and counts[Op.DIVIDE])),
        min(len(genome) // 16, 2),
        int(bool(counts[Op.JBACK])),
        0 if eats == 0 else 1 if eats <= 2 else 2,
        counts.index(max(counts)),
        int(bool(counts[Op.SENSE])) + 2 * int(bool(counts[Op.READ])),
        xxhash.xxh32_intdigest(genome),
    )


def rank_names(codes: Sequence[int]) -> dict[str, str]:
    """The name of each rank; the species has the name of its genus and its own hash."""
    names = [names[code] for names, code in zip(NAMES, codes[:-1], strict=True)]
    return dict(zip(RANKS, [*names, f"{names[-1]} {codes[-1]:08x}"], strict=True))
