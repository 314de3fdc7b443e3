"""Names of nodes for a pickler: their numbers, and the nodes by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sim.adapters.capture.graph.values.trees import TreeEncoder


class NodeNames(Mapping[int, str]):
    """The names of nodes by identity, for a pickler: their numbers. It keeps those that were asked for.

    Attributes:
        met: the nodes that the pickled object refers to, by identity.
    """

    def __init__(self, encoder: TreeEncoder, own: int) -> None:
        """own: the identity of the pickled object itself."""
        self._encoder, self._own = encoder, own
        self.met: dict[int, Any] = {}

    def __getitem__(self, address: int) -> str:
        node = self._encoder.node_at(address)
        if node is None or address == self._own:
            raise KeyError(address)
        self.met[address] = node[1]
        return str(node[0])

    def __contains__(self, address: object) -> bool:
        return isinstance(address, int) and address != self._own and self._encoder.node_at(address) is not None

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def __len__(self) -> int:
        return 0


class NodesByName(Mapping[str, Any]):
    """Nodes by the names that NodeNames gave them."""

    def __init__(self, node: Callable[[int], Any]) -> None:
        self._node = node

    def __getitem__(self, name: str) -> Any:
        return self._node(int(name))

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
