"""One object under two names that is two after a restore; the last two classes are sound."""

import json


class Unit:
    """A unit that can be hurt."""

    def __init__(self, hp):
        self.hp = hp


class SplitLeader:
    """The leader is one of the units; a load makes it a unit of its own."""

    def __init__(self):
        self.tick = 0
        self.units = [Unit(100 + number) for number in range(4)]
        self.leader = self.units[2]

    def step(self, inputs):
        self.tick += 1
        self.leader.hp -= 3  # HERE: SplitLeader
        for unit in self.units:
            unit.hp += 1

    def save(self):
        units = [unit.hp for unit in self.units]
        return json.dumps({"tick": self.tick, "units": units, "leader": self.leader.hp}).encode()

    def load(self, saved):
        state = json.loads(saved)
        self.tick = state["tick"]
        self.units = [Unit(hp) for hp in state["units"]]
        self.leader = Unit(state["leader"])


class SplitList:
    """Two attributes are one list; a load makes two."""

    def __init__(self):
        self.tick = 0
        self.queue = [5, 6]
        self.waiting = self.queue

    def step(self, inputs):
        self.tick += 1
        self.queue.append(self.tick % 7)  # HERE: SplitList
        if len(self.waiting) > 4:
            self.queue.pop(0)

    def save(self):
        return json.dumps({"tick": self.tick, "queue": self.queue, "waiting": self.waiting}).encode()

    def load(self, saved):
        state = json.loads(saved)
        self.tick, self.queue, self.waiting = state["tick"], state["queue"], state["waiting"]


class SharedDepot:
    """Two carts have depots of equal content; a load makes them one."""

    def __init__(self):
        self.tick = 0
        self.near = {"ore": 3}
        self.far = {"ore": 3}

    def step(self, inputs):
        self.tick += 1
        self.near["ore"] += 1  # HERE: SharedDepot
        self.near["ore"] %= 5
        self.far["ore"] = (self.far["ore"] + 2) % 5

    def save(self):
        return json.dumps({"tick": self.tick, "near": self.near, "far": self.far}).encode()

    def load(self, saved):
        state = json.loads(saved)
        self.tick, self.near = state["tick"], state["near"]
        self.far = self.near if state["far"] == state["near"] else state["far"]


class JoinedLeader(SplitLeader):
    """The load finds the leader among the units."""

    def save(self):
        units = [unit.hp for unit in self.units]
        return json.dumps({"tick": self.tick, "units": units, "leader": self.units.index(self.leader)}).encode()

    def load(self, saved):
        state = json.loads(saved)
        self.tick = state["tick"]
        self.units = [Unit(hp) for hp in state["units"]]
        self.leader = self.units[state["leader"]]


class ReadLeader(SplitLeader):
    """The load makes a second leader, which no step writes or compares by identity."""

    def step(self, inputs):
        self.tick += 1
        self.units[0].hp += self.leader.hp
        self.units[0].hp %= 1009
