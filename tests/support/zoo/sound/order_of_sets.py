"""Cause 3: the order of sets and dicts. Here they are sorted before iteration."""

from zoo.flock import Flock

TREES = {"oak", "elm", "ash", "fir", "yew", "birch", "lime", "alder", "beech", "rowan"}


class OrderOfASet(Flock):
    def age(self, inputs):
        super().age(inputs)
        if self.tick >= 25:
            for number, tree in enumerate(sorted(TREES)):
                self.state["energy"][number] += ord(tree[0]) * len(tree)


class DictOfASet(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        shade = {tree: ord(tree[0]) for tree in sorted(TREES)}
        total = 0
        for weight in shade.values():
            total = total * 3 + weight
        if self.tick >= 27:
            self.state["grass"][5, 5] += total / 65536
