"""Weak references, and what happens when objects end; the last two classes are sound."""

import gc
import json
import weakref


class Bird:
    """A bird that is found through weak references."""

    def __init__(self, name, weight):
        self.name, self.weight = name, weight


class Kite(Bird):
    """A bird whose end changes the flock."""

    fallen = 0

    def __del__(self):
        Kite.fallen += 1


class Swift(Bird):
    """A bird that its class counts, but for those that a load makes."""

    flying = weakref.WeakSet()

    def __init__(self, name, weight):
        super().__init__(name, weight)
        Swift.flying.add(self)


class _Flock:
    kind = Bird

    def __init__(self):
        self.tick, self.total = 0, 0
        self.birds = [self.kind(f"bird {number}", number * 7 % 11) for number in range(8)]

    def save(self):
        birds = [[bird.name, bird.weight] for bird in self.birds]
        return json.dumps([self.tick, self.total, birds]).encode()

    def load(self, saved):
        self.tick, self.total, birds = json.loads(saved)
        self.birds = [self.kind(name, weight) for name, weight in birds]


class CountedByClass(_Flock):
    """A WeakSet of a class: its members end, a step counts those that are left, and a load adds none."""

    kind = Swift

    def step(self, inputs):
        self.tick += 1
        self.birds.append(Swift(f"bird {self.tick + 8}", self.tick))
        del self.birds[0]
        self.total += len(Swift.flying) + self.tick % 3  # HERE: CountedByClass

    def load(self, saved):
        super().load(saved)
        Swift.flying.clear()


class WeakSetOrder(_Flock):
    """A WeakSet iterates by addresses."""

    def __init__(self):
        super().__init__()
        self.watched = weakref.WeakSet(self.birds)

    def step(self, inputs):
        self.tick += 1
        for bird in self.watched:  # HERE: WeakSetOrder
            self.total = (self.total * 31 + bird.weight) % 1_000_003

    def load(self, saved):
        super().load(saved)
        self.watched = weakref.WeakSet(self.birds)


class WeakValuesOrder(_Flock):
    """A WeakValueDictionary that a load fills in another order."""

    def __init__(self):
        super().__init__()
        self.by_name = weakref.WeakValueDictionary({bird.name: bird for bird in self.birds})

    def step(self, inputs):
        self.tick += 1
        for bird in self.by_name.values():  # HERE: WeakValuesOrder
            self.total = (self.total * 31 + bird.weight) % 1_000_003

    def load(self, saved):
        super().load(saved)
        self.by_name = weakref.WeakValueDictionary({bird.name: bird for bird in reversed(self.birds)})


class LostMember(_Flock):
    """A weak reference that a load does not bring back."""

    def __init__(self):
        super().__init__()
        self.favourite = weakref.ref(self.birds[3])

    def step(self, inputs):
        self.tick += 1
        bird = self.favourite()  # HERE: LostMember
        self.total += 1 if bird is None else bird.weight


class CountsEnds(_Flock):
    """A finalizer counts in the class, and a step reads the count."""

    kind = Kite

    def step(self, inputs):
        self.tick += 1
        self.birds.append(Kite(f"bird {self.tick + 8}", self.tick))
        del self.birds[0]
        self.total += Kite.fallen % 9  # HERE: CountsEnds


class CountsCollections(_Flock):
    """A step reads how often garbage was collected."""

    def step(self, inputs):
        self.tick += 1
        self.total += gc.get_count()[0] % 5 + gc.get_stats()[0]["collections"]  # HERE: CountsCollections


class SortedWatch(WeakSetOrder):
    """The step sorts the members of the WeakSet."""

    def step(self, inputs):
        self.tick += 1
        for bird in sorted(self.watched, key=lambda one: one.name):
            self.total = (self.total * 31 + bird.weight) % 1_000_003


class UnreadEnds(CountsEnds):
    """A finalizer counts in the class, and no step reads the count."""

    def step(self, inputs):
        self.tick += 1
        self.birds.append(Kite(f"bird {self.tick + 8}", self.tick))
        del self.birds[0]
        self.total += sum(bird.weight for bird in self.birds) % 9


class CountedMembers(_Flock):
    """A WeakSet whose members end, and a step counts those that are left: restored as they are."""

    def __init__(self):
        super().__init__()
        self.watched = weakref.WeakSet(self.birds)

    def step(self, inputs):
        self.tick += 1
        bird = Bird(f"bird {self.tick + 8}", self.tick)
        self.birds.append(bird)
        self.watched.add(bird)
        del self.birds[0], bird
        self.total += len(self.watched)

    def load(self, saved):
        super().load(saved)
        self.watched = weakref.WeakSet(self.birds)
