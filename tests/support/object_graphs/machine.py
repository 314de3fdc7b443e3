"""The test of captured objects as a state machine: change, save, load into a used or a fresh object, continue, compare.

Three copies of one graph get the same inputs. The control is never captured: its walk is the truth, also about what the
capture itself does to objects (it keeps them alive, gives them dictionaries). The live one is captured at each tick.
The twin is restored from one of the saved states, repeats the inputs since, and is captured too.

Checked: the twin's arena is byte for byte the live one's at each tick; every restored graph equals the control's at its
tick; at the end every saved state is restored once more, and sets, iterators and generators are continued.
"""

from __future__ import annotations

import gc
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import attrs
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sim.kernel.simulation import restore
from sim.kernel.state import Snapshot

from object_graphs.changes import OPERATIONS, RESHAPING, random_inputs
from object_graphs.makers import FEATURES, makers_of
from object_graphs.walk import canonical, difference, probe
from object_graphs.world import World, adapted_world, make_world

SPREAD = 7919  # Small numbers are drawn more often than others: they stand for all makers.
AHEAD = 6  # Ticks that each restored state continues at the end.
CHANGES = st.lists(
    st.tuples(st.integers(0, OPERATIONS - 1), st.integers(0, 999), st.integers(0, 299), st.integers(0, 199)),
    min_size=3,
    max_size=16,
)
STORM_CHANGES_MAX = 50
IDLES = (*[1, 2, 3] * 6, 257)  # Ticks without changes; some work is done only at each 256th.


@attrs.frozen(eq=False)
class Tick:
    """One tick of the run. truth: the walk of the control, empty in a row of ticks without changes."""

    inputs: list[list[int]]
    truth: list[Any]
    state: Snapshot


class GraphMachine(RuleBasedStateMachine):
    """One example: a random run.

    Attributes:
        adapted: makes a fresh simulation with .state, .step, after_restore and .subject, a World.
        features: those that examples draw from.
        always: those that every example has.
    """

    adapted: ClassVar[Callable[[], Any]] = staticmethod(adapted_world)
    features: ClassVar[frozenset[str]] = frozenset(FEATURES)
    always: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.is_sound = True
        self.history: list[Tick] = []

    @initialize(left_out=st.sets(st.sampled_from(sorted(FEATURES)), max_size=len(FEATURES)))
    def start(self, left_out: set[str]) -> None:
        """Draw the features of this example, and make the two worlds."""
        kept = self.features - left_out | self.always
        note(f"features: {sorted(kept)}")
        if "weak" in kept:
            gc.freeze()  # Worlds with weak references collect at each step.
        with self.checked():
            self.operation_count = OPERATIONS if "reshape" in kept else RESHAPING
            self.makers = makers_of(kept)
            self.control, self.live, self.twin = make_world(), self.adapted(), None
            self.history = [Tick([], canonical(self.control), self.live.state.snapshot())]
            self.saved = {0}

    @rule(changes=CHANGES)
    def change(self, changes: list[tuple[int, int, int, int]]) -> None:
        """One tick with changes."""
        inputs = [
            [operation % self.operation_count, self.makers[maker * SPREAD % len(self.makers)], b, c]
            for operation, maker, b, c in changes
        ]
        with self.checked():
            self.tick(inputs, looks=True)

    @rule(seed=st.integers(0, 2**32), count=st.integers(10, STORM_CHANGES_MAX))
    def storm(self, seed: int, count: int) -> None:
        """One tick with many changes, which hypothesis draws as one number: denser, and harder to reduce."""
        rng = random.Random(seed)
        with self.checked():
            self.tick(random_inputs(rng, count, self.operation_count, self.makers), looks=True)

    @rule(ticks=st.sampled_from(IDLES))
    def idle(self, ticks: int) -> None:
        """Ticks without changes."""
        with self.checked():
            for remaining in reversed(range(ticks)):
                self.tick([], looks=remaining == 0)

    def tick(self, inputs: list[list[int]], *, looks: bool) -> None:
        """Step all three. looks: walk the control."""
        self.control.step(inputs)
        self.live.step(inputs)
        self.history.append(Tick(inputs, canonical(self.control) if looks else [], self.live.state.snapshot()))
        if self.twin is not None:
            self.twin.step(inputs)
            self.compare_bytes(self.twin, self.now)

    @property
    def now(self) -> int:
        """The present tick."""
        return len(self.history) - 1

    @rule()
    def save(self) -> None:
        """Keep the present state as a keyframe."""
        self.saved.add(self.now)

    @rule(number=st.integers(0, 99), looks=st.booleans())
    def load_into_a_fresh_object(self, number: int, looks: bool) -> None:  # noqa: FBT001 - hypothesis passes names
        """Restore into an object whose graph is at its initial state."""
        with self.checked():
            self.twin = self.adapted()
            self.load(self.twin, number, looks=looks)

    @precondition(lambda self: self.twin is not None)
    @rule(number=st.integers(0, 99), looks=st.booleans())
    def load_into_the_used_object(self, number: int, looks: bool) -> None:  # noqa: FBT001
        """Restore into an object that has been at other ticks."""
        with self.checked():
            self.load(self.twin, number, looks=looks)

    @rule(number=st.integers(0, 99))
    def return_to_a_saved_state(self, number: int) -> None:
        """Restore into the recorded object, and take another way from there."""
        with self.checked():
            tick = self.pick(number)
            restore(self.live, self.history[tick].state)
            self.twin = None
            del self.history[tick + 1 :]
            self.saved = {one for one in self.saved if one <= tick}
            self.control = make_world()
            for one in self.history[1:]:
                self.control.step(one.inputs)
            self.compare(canonical(self.control), "the control, which is stepped again")

    def pick(self, number: int) -> int:
        """One of the saved ticks; small numbers are the latest."""
        return sorted(self.saved, reverse=True)[number % len(self.saved)]

    def load(self, simulation: Any, number: int, *, looks: bool) -> None:
        """Restore, and repeat the inputs up to the present tick. looks: walk it at once, which may change it."""
        tick = self.pick(number)
        restore(simulation, self.history[tick].state)
        if looks:
            self.compare(canonical(simulation.subject), f"restored at tick {tick}", tick)
        for later in range(tick + 1, self.now + 1):
            simulation.step(self.history[later].inputs)
            self.compare_bytes(simulation, later)
        if looks:
            self.compare(canonical(simulation.subject), f"restored at tick {tick} and continued to tick {self.now}")

    def compare(self, actual: list[Any], name: str, tick: int | None = None) -> None:
        """Fail unless a walk equals the control's."""
        truth = self.history[self.now if tick is None else tick].truth
        found = difference(actual, truth) if truth else None
        assert found is None, f"{name}: {found}"

    def compare_bytes(self, simulation: Any, tick: int) -> None:
        """Fail unless the arena is the one of the live run."""
        actual, expected = simulation.state.snapshot(), self.history[tick].state
        names = [
            name
            for name in {**dict.fromkeys(actual), **dict.fromkeys(expected)}
            if name not in actual.layout.slots
            or name not in expected.layout.slots
            or actual[name].tobytes() != expected[name].tobytes()
        ]
        assert names == [], f"other bytes at tick {tick} than in the live run, in {', '.join(names)}"
        assert actual.arena.tobytes() == expected.arena.tobytes(), f"other bytes at tick {tick}"

    @contextmanager
    def checked(self) -> Iterator[None]:
        """After a failure the end of the example has nothing to add. Warnings name what is not exact in other runs."""
        self.is_sound = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
        self.is_sound = True

    def teardown(self) -> None:
        """Restore every saved state, and continue what a walk cannot see."""
        if self.is_sound and self.history:
            with self.checked():
                self.check_all()
        gc.unfreeze()

    def check_all(self) -> None:
        """Compare the live object, and every saved state in fresh and in used objects."""
        used = self.twin
        for tick in sorted(self.saved | {self.now}):
            fresh = self.adapted()
            for simulation in (fresh,) if used is None else (fresh, used):
                restore(simulation, self.history[tick].state)
                self.compare(canonical(simulation.subject), f"restored at tick {tick}, at the end", tick)
                for later in range(tick + 1, min(tick + AHEAD, self.now) + 1):
                    simulation.step(self.history[later].inputs)
                    self.compare_bytes(simulation, later)
            used = fresh
        assert used is not None
        restore(used, self.history[self.now].state)
        self.compare(canonical(self.live.subject), "the recorded object itself")
        assert isinstance(self.control, World)
        probe(used.subject, self.control, self.live.subject)
