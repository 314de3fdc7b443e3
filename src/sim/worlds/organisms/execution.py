"""The slice of each organism in a tick: its next instructions, in which it touches nothing but itself.

So the slices of a tick can run in any order, and anywhere: what an organism wants of the world, food and births, is a
request, and the barrier answers all of them in the order of ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.counter_rng import KeyedRandom, scale_words
from sim.worlds.organisms.config import OrganismsConfig
from sim.worlds.organisms.instructions import GENOME_MAX, GENOME_MIN, Op
from sim.worlds.organisms.layout import COLUMNS, RUNNING, KeyPhase

Bodies = dict[str, npt.NDArray[Any]]  # The columns of some organisms by name, rows in the order of ids.
WORD = 0xFFFF
FIGURES = 3  # Of an organism's slice: instructions, copies, mutations.
DRAWN_AT_ONCE = 256  # Organisms whose random words are drawn in one call.
REPLACED, LEFT_OUT, ADDED = 1, 2, 4
CHANGED = REPLACED | LEFT_OUT | ADDED

# Plain integers: an enum's members take several times as long to compare.
_, _INC, _DEC, _ADD, _SUB, _SWAP, _ZERO, _JZ, _JBACK, _LOAD, _READ, _COPY, _DIVIDE, _EAT, _SENSE, _SKIP = map(int, Op)


@attrs.frozen(eq=False)
class Requests:
    """What organisms want of the world after their slices.

    Attributes:
        ids: (n,) int64, ascending. asked: (n,) int64, how often each has eaten.
        figures: (n, 3) int64: instructions, copies and mutations of each.
        mothers: (m,) int64, the id of the mother of each newborn; ascending, one mother's in the order of divisions.
        sizes: (m,) int32. genomes: (m, GENOME_MAX) uint8. energies: (m,) int64.
    """

    ids: npt.NDArray[np.int64]
    asked: npt.NDArray[np.int64]
    figures: npt.NDArray[np.int64]
    mothers: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int32]
    genomes: npt.NDArray[np.uint8]
    energies: npt.NDArray[np.int64]

    def to_plain(self) -> dict[str, Any]:
        """The requests as plain data."""
        return attrs.asdict(self)

    @staticmethod
    def merged(parts: Iterable[Requests]) -> Requests:
        """The requests of all organisms, from those of several groups, in the order of ids."""
        groups = list(parts)
        joined = {
            field.name: np.concatenate([getattr(group, field.name) for group in groups])
            for field in attrs.fields(Requests)
        }
        rows, births = np.argsort(joined["ids"]), np.argsort(joined["mothers"], kind="stable")
        by_row = {name: joined[name][rows] for name in ("ids", "asked", "figures")}
        return Requests(
            **by_row, **{name: joined[name][births] for name in ("mothers", "sizes", "genomes", "energies")}
        )


def take_bodies(columns: Mapping[str, npt.NDArray[Any]], rows: Any) -> Bodies:
    """Copies of these rows of each column of an organism."""
    return {column.name: columns[column.name][rows].copy() for column in COLUMNS}


def run_slices(bodies: Bodies, config: OrganismsConfig, seed: int, tick: int, level: int) -> Requests:
    """Run the slice of each organism, and return their requests.

    bodies: the columns of RUNNING are written. tick: that the step makes. level: the pool, for ``sense``.
    """
    random, ids = KeyedRandom(seed), bodies["id"]
    asked, figures = np.zeros(len(ids), np.int64), np.zeros((len(ids), FIGURES), np.int64)
    births: list[tuple[int, bytes, int]] = []
    columns = {name: bodies[name].tolist() for name in RUNNING if name != "child"}
    copies: npt.NDArray[np.int64] = np.zeros((0, 0), np.int64)
    for row, size in enumerate(bodies["size"].tolist()):
        if row % DRAWN_AT_ONCE == 0:
            copies = _copy_outcomes(random, tick, ids[row : row + DRAWN_AT_ONCE], config)
        run = _Run(
            genome=bodies["genome"][row, :size].tobytes(),
            child=bytearray(bodies["child"][row, : columns["child_size"][row]].tobytes()),
            copies=copies[row % DRAWN_AT_ONCE].tolist(),
            **{name: values[row] for name, values in columns.items() if name != "child_size"},
        )
        run.run(config, level & WORD)
        asked[row] = run.asked
        figures[row] = run.instructions, run.copy_count, run.mutations
        births += [(int(ids[row]), genome, energy) for genome, energy in run.births]
        for name, values in columns.items():
            values[row] = getattr(run, name)
        bodies["child"][row] = genome_rows([bytes(run.child)])[0]
    for name, values in columns.items():
        bodies[name][:] = values
    return Requests(
        ids.copy(),
        asked,
        figures,
        np.array([mother for mother, _, _ in births], np.int64),
        np.array([len(genome) for _, genome, _ in births], np.int32),
        genome_rows([genome for _, genome, _ in births]),
        np.array([energy for _, _, energy in births], np.int64),
    )


def genome_rows(genomes: list[bytes]) -> npt.NDArray[np.uint8]:
    """Genomes as rows, (count, GENOME_MAX) uint8, filled up with zeros."""
    joined = b"".join(genome.ljust(GENOME_MAX, b"\0") for genome in genomes)
    return np.frombuffer(joined, np.uint8).reshape(len(genomes), GENOME_MAX)


def _copy_outcomes(
    random: KeyedRandom, tick: int, ids: npt.NDArray[np.int64], config: OrganismsConfig
) -> npt.NDArray[np.int64]:
    """What becomes of each copy that an organism could make in its slice: (organisms, slice) int64.

    The sum of REPLACED, LEFT_OUT and ADDED where they apply, with the replacing nibble << 4 and the added one << 8.
    """
    blocks: Any = np.arange(config.slice)
    words = random.words(KeyPhase.COPY, tick, ids[:, None], blocks)
    outcomes = ((words[..., 1] & 15) << 4 | (words[..., 1] >> 8 & 15) << 8).astype(np.int64)
    for flag, word, one_in in ((REPLACED, 0, config.mutation), (LEFT_OUT, 2, config.slip), (ADDED, 3, config.slip)):
        if one_in:
            outcomes += flag * (scale_words(words[..., word], one_in) == 0)
    return outcomes


@attrs.define(eq=False)
class _Run:
    """The slice of one organism while it runs."""

    genome: bytes
    child: bytearray
    copies: list[int]  # Of _copy_outcomes.
    energy: int
    ip: int
    a: int
    b: int
    copied: int
    age_in_instructions: int
    error_count: int
    asked: int = 0
    instructions: int = 0
    copy_count: int = 0
    mutations: int = 0
    births: list[tuple[bytes, int]] = attrs.field(factory=list)

    @property
    def child_size(self) -> int:
        """The operations in the child buffer."""
        return len(self.child)

    def run(self, config: OrganismsConfig, level: int) -> None:
        """Run the instructions of a slice, or until the energy is gone."""
        genome, size = self.genome, len(self.genome)
        ip, a, b = self.ip, self.a, self.b
        for done in range(config.slice):
            if self.energy <= 0:
                self.instructions = done
                break
            self.energy -= 1
            op, ip = genome[ip], (ip + 1) % size
            if op == _COPY:
                self._copy()
            elif op == _EAT:
                self.asked += 1
            elif op == _DIVIDE:
                self._divide(config.divide_energy)
            elif op == _JBACK:
                ip = (ip - genome[ip] - 1) % size
            elif op == _JZ:
                ip = (ip + 2) % size if a == 0 else ip
            elif op == _SKIP:
                ip = (ip + 1) % size
            elif op == _LOAD:
                a, ip = genome[ip], (ip + 1) % size
            else:
                a, b = _calculate(op, a, b, genome, level)
        else:
            self.instructions = config.slice
        self.age_in_instructions += self.instructions
        self.ip, self.a, self.b = ip, a, b

    def _copy(self) -> None:
        """Copy the next operation into the child buffer: replaced, left out, or with a further one after it, by chance."""
        if len(self.child) >= GENOME_MAX:
            self.error_count += 1
            return
        outcome = self.copies[self.copy_count]
        self.copy_count += 1
        if outcome & CHANGED == 0:
            self.child.append(self.genome[self.copied % len(self.genome)])
        else:
            self.mutations += 1
            if not outcome & LEFT_OUT:
                is_replaced = outcome & REPLACED
                self.child.append(outcome >> 4 & 15 if is_replaced else self.genome[self.copied % len(self.genome)])
            if outcome & ADDED and len(self.child) < GENOME_MAX:
                self.child.append(outcome >> 8 & 15)
        self.copied += 1

    def _divide(self, divide_energy: int) -> None:
        """Give birth to the content of the child buffer, with half of the energy."""
        if self.copied < len(self.genome) or len(self.child) < GENOME_MIN or self.energy < divide_energy:
            self.error_count += 1
            return
        half = self.energy // 2
        self.energy -= half
        self.births.append((bytes(self.child), half))
        self.child, self.copied = bytearray(), 0


def _calculate(op: int, a: int, b: int, genome: bytes, level: int) -> tuple[int, int]:
    """The registers after an operation that changes nothing else."""
    if op == _INC:
        return (a + 1) & WORD, b
    if op == _DEC:
        return (a - 1) & WORD, b
    if op == _ADD:
        return (a + b) & WORD, b
    if op == _SUB:
        return (a - b) & WORD, b
    if op == _SWAP:
        return b, a
    if op == _ZERO:
        return 0, b
    if op == _READ:
        return genome[b % len(genome)], b
    if op == _SENSE:
        return level, b
    return a, b  # nop
