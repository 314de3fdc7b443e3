"""A Merkle tree over a state: leaves are hashes of the 64 KiB blocks of fields, other nodes are hashes of two nodes.

Two peers that each have a state find all blocks that differ by exchanging the children of nodes that differ: one
exchange a level, of 8 bytes a node, and log2(blocks) levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import attrs
import xxhash

from sim.kernel.state import Snapshot

BLOCK_BYTES = 64 << 10
HASH_BYTES = 8

Ask = Callable[[int, Sequence[int]], Sequence[bytes]]  # From a level and numbers of nodes to their hashes.


@attrs.frozen
class MerkleTree:
    """The hashes of one state.

    Attributes:
        leaves: for each block the name of its field and the number of the block in that field.
        levels: the hashes, 8 bytes each; the leaves first, the root last.
    """

    leaves: list[tuple[str, int]]
    levels: list[list[bytes]]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """The tree of a state: each leaf is xxh3-64 of a block's bytes, seeded with the state's layout."""
        leaves, hashes, seed = [], [], snapshot.layout.hash_seed
        for name, slot in snapshot.layout.slots.items():
            for number, start in enumerate(range(0, max(1, slot.size_bytes), BLOCK_BYTES)):
                end = min(start + BLOCK_BYTES, slot.size_bytes)
                leaves.append((name, number))
                hashes.append(xxhash.xxh3_64_digest(snapshot.arena[slot.offset + start : slot.offset + end].data, seed))
        return cls(leaves, _levels_over(hashes))

    def ask(self, level: int, numbers: Sequence[int]) -> list[bytes]:
        """The hashes of the nodes of these numbers in a level: the answer to one exchange."""
        return [self.levels[level][number] for number in numbers]

    def to_plain(self) -> dict[str, Any]:
        """The tree as plain data for JSON."""
        return {
            "leaves": [[name, number] for name, number in self.leaves],
            "levels": [[one.hex() for one in level] for level in self.levels],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The tree that to_plain made. Raises ValueError for anything else, or if the nodes do not match the leaves."""
        try:
            leaves = [(str(name), int(number)) for name, number in plain["leaves"]]
            levels = [[bytes.fromhex(one) for one in level] for level in plain["levels"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a Merkle tree: {error}") from None
        if not levels or len(levels[0]) != len(leaves) or _levels_over(levels[0]) != levels:
            raise ValueError("not a Merkle tree: its nodes do not match its leaves")
        return cls(leaves, levels)


def _levels_over(leaves: list[bytes]) -> list[list[bytes]]:
    levels = [leaves]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([xxhash.xxh3_64_digest(b"".join(below[i : i + 2])) for i in range(0, len(below), 2)])
    return levels


def find_differing_leaves(tree: MerkleTree, ask: Ask) -> tuple[list[int], int]:
    """The numbers of the leaves that differ from a remote tree of the same shape, and the number of exchanges.

    ask: MerkleTree.ask of the remote tree.
    """
    level, exchanges = len(tree.levels) - 1, 0
    suspects = [0]
    while True:
        exchanges += 1
        remote_hashes = ask(level, suspects)
        differing = [
            number
            for number, remote_hash in zip(suspects, remote_hashes, strict=True)
            if tree.levels[level][number] != remote_hash
        ]
        if not differing or level == 0:
            return differing, exchanges
        level -= 1
        width = len(tree.levels[level])
        suspects = [child for number in differing for child in (2 * number, 2 * number + 1) if child < width]
