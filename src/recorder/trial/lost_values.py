"""Find values that a seek restores wrongly although no step returned them: where a seek repeats inputs since a reset.

The values of the whole simulation are compared at the end of a run, in copies of this process: lived, lived again,
restored in the instance that has run, and restored in one that has not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from recorder.processes.isolated_fork import Send, run_isolated
from recorder.trial.trajectory import Trajectory
from sim.kernel.exactness import Level, level_of
from sim.kernel.hooks import ComparesValues, KeepsValues, hook
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation, inner_of, restore


@attrs.frozen
class LostValue:
    """A value that is not as in the run.

    Attributes:
        path: of the value.
        is_unstable: True if it differs between two runs without any restore.
    """

    path: str
    is_unstable: bool

    def __str__(self) -> str:
        ignoring = f"ignore=[{'.'.join(_plain_names(self.path))!r}] leaves it out, if no step reads it"
        if self.is_unstable:
            return (
                f"{self.path} differs between two equal runs (possible: a clock, unseeded randomness, threads, memory "
                f"addresses): no seek restores it, and verify will say so. {ignoring}"
            )
        return (
            f"{self.path} is not saved and outlives a reset: after a seek it has another value than in the run, and "
            f"verify will say so. Give it its first value in reset(); {ignoring}"
        )


def find_lost_value(
    simulation: Simulation, run: Trajectory, tick: int, left_s: Callable[[], float]
) -> LostValue | None:
    """The first value that is wrong at the end of the run, if it is restored; None if there is none, or none is known.

    tick: of a kept state. left_s: returns the time that a copy may take.
    """
    inner = inner_of(simulation)
    if level_of(simulation) is not Level.INPUTS_ONLY or hook(inner, KeepsValues) is None:
        return None

    def in_a_copy(prepare: Callable[[], None], after: int, answer: Callable[[], Any]) -> Any:
        def work(send: Send) -> None:
            prepare()
            _step(simulation, run, after)
            send(answer())

        messages = run_isolated(work, left_s()).messages
        return messages[0] if messages else None

    def nothing() -> None:
        """Run live."""

    def rewind() -> None:
        _step(simulation, run, 0)
        restore(simulation, run.states[0])

    keeps, compares = hook(inner, KeepsValues), hook(inner, ComparesValues)
    live = in_a_copy(nothing, 0, keeps.kept_values) if keeps is not None else None
    if live is None or compares is None:
        return None
    for prepare, after, is_unstable in (
        (nothing, 0, True),
        (rewind, 0, False),
        (lambda: restore(simulation, run.states[tick]), tick, False),
    ):
        path = in_a_copy(prepare, after, lambda: compares.value_difference(live))
        if path is not None:
            return LostValue(path, is_unstable)
    return None


def _step(simulation: Simulation, run: Trajectory, after: int) -> None:
    for inputs in run.inputs[after:]:
        simulation.step(decode_plain(inputs))


def _plain_names(path: str) -> list[str]:
    """The names of the attributes at the beginning of a path, up to the first element of a container."""
    names = []
    for name in path.split("."):
        plain = name if name.isidentifier() else next(iter(name.replace("'", "[").split("[")))
        names.append(plain)
        if plain != name:
            break
    return names
