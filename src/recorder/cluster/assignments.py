"""Which worker runs which organism. No rule of the world reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

REBALANCE_TICKS = 7  # From one balance to the next.


class Assignments:
    """The worker of each organism, by id."""

    def __init__(self, worker_count: int) -> None:
        self.worker_count = worker_count
        self.workers: dict[int, int] = {}

    def follow(self, ids: Iterable[int], wanted: Mapping[int, int] | None = None) -> None:
        """Assign the organisms with these ids, and no others; those that have a worker keep it.

        wanted: the workers of new ones by id, such as their mothers'. Others, and those whose worker does not exist,
        get the worker with the fewest organisms.
        """
        present = set(ids)
        for gone in [one for one in self.workers if one not in present]:
            del self.workers[gone]
        loads = self._loads()
        for one in sorted(present - self.workers.keys()):
            worker = (wanted or {}).get(one, -1)
            if not 0 <= worker < self.worker_count:
                worker = min(range(self.worker_count), key=lambda number: (loads[number], number))
            self.workers[one] = worker
            loads[worker] += 1

    def balance(self) -> None:
        """Move organisms from the worker with the most to that with the fewest, until they differ by at most one."""
        loads, by_worker = self._loads(), self.by_worker()
        numbers = range(self.worker_count)
        while True:
            full, empty = max(numbers, key=loads.__getitem__), min(numbers, key=loads.__getitem__)
            if loads[full] <= loads[empty] + 1:
                return
            moved = by_worker[full].pop()
            by_worker[empty].append(moved)
            self.workers[moved] = empty
            loads[full] -= 1
            loads[empty] += 1

    def by_worker(self) -> list[list[int]]:
        """The ids of each worker's organisms, ascending."""
        ids: list[list[int]] = [[] for _ in range(self.worker_count)]
        for one in sorted(self.workers):
            ids[self.workers[one]].append(one)
        return ids

    def _loads(self) -> Counter[int]:
        return Counter(self.workers.values())
