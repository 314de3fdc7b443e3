"""A short run of a simulation with everything that a second run is compared with: inputs, states, results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from recorder.exception_text import raised_text
from recorder.trial.returned import Leaves, differing_leaves, leaves_of
from sim.kernel.exactness import Level, level_of
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.simulation import Simulation, end_of, inner_of, restore
from sim.kernel.state import Snapshot

KEPT_BYTES_MAX = 1 << 19  # States of one trajectory: keeping more would cost a share of the budget.
ALL_KEPT_BYTES_MAX = 64 << 20  # Once there is a difference, to name the fields.
NO_INPUTS = encode_plain(None)
_INPUTS_CHARS_MAX = 60  # Longer ones are not printed.
STEPS_MIN = 8  # Before these the deadline does not count.
RELOAD_TICKS = 16  # A canonical simulation continues from its own saved state every so many ticks.


@attrs.frozen(eq=False)
class Trajectory:
    """One run from the present state.

    Attributes:
        seed: of its inputs.
        inputs: of each tick, encoded.
        hashes: of the state, from tick 0.
        results: of each step, as leaves; empty if they are not compared.
        states: by tick; tick 0 always.
        error: what ended it, if a step raised.
        unstable: parts of the results that are not compared.
        seconds: the time that the steps took.
    """

    seed: int
    inputs: list[bytes]
    hashes: list[int]
    results: list[Leaves]
    states: dict[int, Snapshot]
    error: str | None = None
    unstable: frozenset[str] = frozenset()
    seconds: float = 0.0

    @property
    def ticks(self) -> int:
        """The number of steps."""
        return len(self.inputs)


@attrs.frozen
class RunDifference:
    """The first difference between a trajectory and its repetition.

    Attributes:
        tick: at which it was seen.
        from_tick: whose state had been restored.
        fields: of the state that differ; empty if none do, or they are not known.
        is_state: True if the states differ.
        leaves: parts of the result that differ.
        error: what the repetition raised.
        states: the expected and the actual one; None if they do not differ, or the expected one is not known.
    """

    tick: int
    from_tick: int
    fields: tuple[str, ...] = ()
    is_state: bool = False
    leaves: tuple[str, ...] = ()
    error: str | None = None
    states: tuple[Snapshot, Snapshot] | None = attrs.field(default=None, eq=False, repr=False)

    def __str__(self) -> str:
        if self.error is not None:
            return f"at step {self.tick}, {self.error}"
        if self.leaves and not self.is_state:
            return f"step {self.tick} returned other values: {several(self.leaves)}"
        when = "the restored state" if self.tick == self.from_tick else f"the state after step {self.tick}"
        returned = f"; it returned other values: {several(self.leaves)}" if self.leaves else ""
        return f"{when} differs: {several(self.fields) or 'in what fields is not known'}{returned}"


def inputs_text(run: Trajectory | None, tick: int) -> str:
    """The inputs of a step, such as a reset with its seed, in brackets; empty if there are none, or if they are long."""
    encoded = run.inputs[tick - 1] if run is not None and 1 <= tick <= len(run.inputs) else NO_INPUTS
    text = "" if encoded == NO_INPUTS else repr(decode_plain(encoded))
    return f" (its inputs: {text})" if 0 < len(text) <= _INPUTS_CHARS_MAX else ""


def run_live(
    simulation: Simulation,
    play: Callable[[], Any],
    seed: int,
    steps: int,
    deadlines_s: tuple[float, float],
    names: Sequence[str] = (),
) -> Trajectory:
    """Step the simulation until the steps are made, it ends, a step raises, or time.monotonic() is at a deadline.

    The first deadline counts after STEPS_MIN steps, the second, later one, once a further step would be after it.
    """
    deadline_s, slow_s = deadlines_s
    begun_s = time.monotonic()
    keeps = _reload_if_canonical(simulation, 0)
    run = Trajectory(seed, [], [simulation.state.hash()], [], {0: simulation.state.snapshot()})
    spacing = max(1, -(-simulation.state.layout.size_bytes * steps // KEPT_BYTES_MAX))
    for tick in range(1, steps + 1):
        what = f"step {tick}"
        try:
            encoded = encode_plain(play())
            what += " with the inputs None (trial_inputs(seed) would give others)" if encoded == NO_INPUTS else ""
            result = simulation.step(decode_plain(encoded))  # type: ignore[func-returns-value]
            reloads = keeps and _reload_if_canonical(simulation, tick)
        except Exception as error:  # noqa: BLE001 - a user's simulation may raise anything
            return attrs.evolve(run, error=raised_text(what, error))
        run.inputs.append(encoded)
        run.hashes.append(simulation.state.hash())
        run.results.append(leaves_of(result, names))
        if reloads if keeps else tick % spacing == 0:
            run.states[tick] = simulation.state.snapshot()
        now_s = time.monotonic()
        is_late = tick >= STEPS_MIN and now_s >= deadline_s
        if is_late or now_s + (now_s - begun_s) / tick > slow_s or end_of(inner_of(simulation)) is not None:
            break
    return attrs.evolve(run, seconds=time.monotonic() - begun_s)


def restore_and_follow(
    simulation: Simulation, run: Trajectory, start: int, names: Sequence[str] = ()
) -> RunDifference | None:
    """Restore a kept state of the run, and continue with its inputs to its end."""
    try:
        restore(simulation, run.states[start])
    except Exception as error:  # noqa: BLE001 - of the user's load
        return RunDifference(start, start, error=raised_text("the restore", error))
    return follow(simulation, run, start, names)


def run_again(
    simulation: Simulation, run: Trajectory, names: Sequence[str] = ()
) -> tuple[RunDifference | None, Trajectory]:
    """Repeat the run with a simulation that is still in its first state; nothing is restored.

    Return the first difference of the states, and the run with more of its states, and with the parts of the results
    that differ although the states do not: times of the day, for example. Those are not compared any further.
    """
    _reload_if_canonical(simulation, 0)
    unstable: set[str] = set()
    states = dict(run.states)
    tick = 0
    while True:
        masked = attrs.evolve(run, unstable=frozenset(unstable), states=states)
        different = follow(simulation, masked, tick, names, is_known=tick > 0, kept=states)
        if different is None or different.is_state or different.error is not None:
            return different, masked
        unstable |= {*different.leaves}
        tick = different.tick


def follow(
    simulation: Simulation,
    run: Trajectory,
    start: int,
    names: Sequence[str] = (),
    *,
    is_known: bool = False,
    kept: dict[int, Snapshot] | None = None,
) -> RunDifference | None:
    """Continue from the state of tick start with the inputs of the run; return the first difference.

    is_known: the state of tick start was compared already. kept: takes the states that are as those of the run.
    """
    is_canonical = level_of(simulation) is Level.CANONICAL
    for tick in range(start + is_known, run.ticks + 1):
        result: Any = None
        if tick > start:
            try:
                result = simulation.step(decode_plain(run.inputs[tick - 1]))  # type: ignore[func-returns-value]
                if is_canonical:
                    _reload_if_canonical(simulation, tick)
            except Exception as error:  # noqa: BLE001 - an incomplete state may fail in any way
                return RunDifference(tick, start, error=raised_text("the step", error))
        is_state = simulation.state.hash() != run.hashes[tick]
        leaves: tuple[str, ...] = ()
        if tick > start and run.results:
            differing = differing_leaves(run.results[tick - 1], leaves_of(result, names))
            leaves = tuple(path for path in differing if path not in run.unstable)
        if not is_state and kept is not None and simulation.state.layout.size_bytes * run.ticks <= ALL_KEPT_BYTES_MAX:
            kept[tick] = simulation.state.snapshot()
        if is_state or leaves:
            if not is_state:
                return RunDifference(tick, start, leaves=leaves)
            return state_difference(simulation, run, tick, start, leaves)
    return None


def state_difference(
    simulation: Simulation, run: Trajectory, tick: int, start: int, leaves: tuple[str, ...] = ()
) -> RunDifference:
    """The difference of the present state, at tick, from that of the run; with its fields if the run has kept that."""
    kept, now = run.states.get(tick), simulation.state.snapshot()
    if kept is None:
        return RunDifference(tick, start, (), is_state=True, leaves=leaves)
    return RunDifference(tick, start, differing_fields(kept, now), is_state=True, leaves=leaves, states=(kept, now))


def differing_fields(expected: Snapshot, actual: Snapshot) -> tuple[str, ...]:
    """The names of the fields in which two states differ."""
    names = [*expected, *(name for name in actual if name not in expected.layout.slots)]
    return tuple(
        name
        for name in names
        if name not in expected.layout.slots
        or name not in actual.layout.slots
        or expected[name].tobytes() != actual[name].tobytes()
    )


def _reload_if_canonical(simulation: Simulation, tick: int) -> bool:
    """Let a canonical simulation continue from its saved state, as a recorder does. Return True if it did."""
    if tick % RELOAD_TICKS or level_of(simulation) is not Level.CANONICAL:
        return False
    restore(simulation, simulation.state.snapshot())
    return True


def several(names: Sequence[str], shown: int = 3) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
