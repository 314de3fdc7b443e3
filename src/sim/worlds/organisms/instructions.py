"""The 16 operations of an organism's program, one for each value of a nibble, and programs as text."""

from __future__ import annotations

import enum

GENOME_MIN, GENOME_MAX = 4, 64  # Operations.


class Op(enum.IntEnum):
    """An operation. ``docs/organisms.md`` says what each does."""

    NOP = 0
    INC = 1
    DEC = 2
    ADD = 3
    SUB = 4
    SWAP = 5
    ZERO = 6
    JZ = 7
    JBACK = 8
    LOAD = 9
    READ = 10
    COPY = 11
    DIVIDE = 12
    EAT = 13
    SENSE = 14
    SKIP = 15


OPS = tuple(op.name.lower() for op in Op)


def parse_program(text: str) -> bytes:
    """The genome of a program: the names of operations, separated by spaces. Raises ValueError."""
    words = text.split()
    if not GENOME_MIN <= len(words) <= GENOME_MAX:
        raise ValueError(f"expected a program of {GENOME_MIN} to {GENOME_MAX} operations, got {len(words)}")
    for word in words:
        if word not in OPS:
            raise ValueError(f"expected operations of {', '.join(OPS)}, got {word!r}")
    return bytes(map(OPS.index, words))


def program_text(genome: bytes) -> str:
    """The program of a genome, as parse_program reads it."""
    return " ".join(OPS[op] for op in genome)
