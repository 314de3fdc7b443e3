"""Make changes before a step, one at a time, and see which of them lets the step give the recorded state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import attrs

from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.before_step.answer import Found
from replayer.diagnose.explain.before_step.assigned_values import joined
from replayer.diagnose.explain.before_step.candidates import candidates
from replayer.diagnose.explain.before_step.changeable_values import Change, places_of
from replayer.diagnose.explain.before_step.changing_lines import written_by_others
from replayer.diagnose.explain.before_step.program_code import program_code
from sim.kernel.simulation import Simulation, restore, subject_of
from sim.kernel.state import Snapshot

SEARCH_S = 4.0  # Of processor time: on a busy machine, as many are tried as on a free one, up to this multiple of it.
BUSY_MAX = 3.0
FURTHER_S = 1.0  # After the first change that gives the recorded state: another one may do so, too.
SHOWN_MAX = 3


@attrs.frozen(eq=False)
class Case:
    """The step whose state before it is changed.

    Attributes:
        make: makes a simulation.
        before: the state that the last step left.
        later: the recorded and the replayed state at the next recorded keyframe; None without.
        inputs: of the step.
        recorded_hash: after it.
        step: the name of the method that makes the steps.
    """

    make: Callable[[], Simulation]
    before: Snapshot
    later: tuple[Snapshot, Snapshot] | None
    inputs: Any
    recorded_hash: int
    step: str = "step"


def try_changes(case: Case, seconds: float = SEARCH_S) -> Found:
    """Search changes in a copy of this process, and repeat each that was found in a copy of its own.

    Raises RuntimeError if a copy died.
    """
    found = in_a_copy(partial(_search, case, seconds))
    confirmed = [
        one for one in found["found"] if in_a_copy(partial(_confirm, case, one["place"], one["parts"]))["is_recorded"]
    ]
    if confirmed and in_a_copy(partial(_confirm, case, None, None))["is_recorded"]:
        confirmed = []  # The step gives it without a change as well: by chance.
    names = dict.fromkeys(name for one in confirmed for name in one["names"])
    texts = tuple(one["text"] for one in confirmed[:SHOWN_MAX])
    return Found(texts, tuple(names), found["tried"], found["is_complete"])


class _Bench:
    """One simulation that is put into the state before the step again and again."""

    def __init__(self, case: Case) -> None:
        self._case = case
        # Before the one that is stepped: a factory may begin something again. What is put into them is looked at alone.
        self._shown = [_made(case, snapshot) for snapshot in (case.before, *(case.later or ()))]
        self._simulation = _made(case, case.before)

    def candidates(self) -> Iterator[Change]:
        """The changes to try; none if the factory gives one object each time, of which there is no second state."""
        roots = [subject_of(one) for one in (*self._shown, self._simulation)]
        if len({id(root) for root in roots}) < len(roots):
            return iter(())
        written = written_by_others(program_code(roots[0], self._case.step))
        return candidates(roots[0], places_of(*roots[:-1]), written)

    def gives_recorded(self, change: Change | None) -> bool:
        """Make a change and run the step."""
        try:
            restore(self._simulation, self._case.before)
        except Exception:  # noqa: BLE001 - a change may have taken away what a restore needs
            self._simulation = _made(self._case, self._case.before)
        try:
            if change is not None:
                change.apply(subject_of(self._simulation))
            self._simulation.step(self._case.inputs)
            return self._simulation.state.hash() == self._case.recorded_hash
        except Exception:  # noqa: BLE001 - a step in a state that it never had may fail in any way
            return False


def _made(case: Case, snapshot: Snapshot) -> Simulation:
    simulation = case.make()
    restore(simulation, snapshot)
    return simulation


class _Limit:
    """Seconds of processor time, and at most some more on the clock."""

    def __init__(self, seconds: float) -> None:
        self._end_s = time.process_time() + seconds
        self._clock_end_s = time.monotonic() + BUSY_MAX * seconds

    def left_s(self) -> float:
        """The processor time that is left."""
        return max(0.0, self._end_s - time.process_time())

    def is_over(self) -> bool:
        """Return True after its end."""
        return not self.left_s() or time.monotonic() > self._clock_end_s


def _search(case: Case, seconds: float) -> dict[str, Any]:
    bench, limit = _Bench(case), _Limit(seconds)
    found: list[dict[str, Any]] = []
    paths: set[Any] = set()
    tried, is_complete = 0, True
    for place, change in enumerate(bench.candidates()):
        if limit.is_over():
            is_complete = False
            break
        if paths.intersection(change.paths):
            continue  # Of this one it is known.
        tried += 1
        if bench.gives_recorded(change):
            if not found:
                limit = _Limit(min(FURTHER_S, limit.left_s()))
            needed = _needed(bench, change, limit)
            chosen = change if needed is None else joined([change.parts[one] for one in needed])
            paths.update(chosen.paths)
            found.append({"text": chosen.text, "names": list(chosen.names), "place": place, "parts": needed})
            if len(found) > SHOWN_MAX:
                break
    return {"found": found, "tried": tried, "is_complete": is_complete}


def _needed(bench: _Bench, change: Change, limit: _Limit) -> list[int] | None:
    """Of several changes some with which the step gives the recorded state, by their places; None for one that has no parts.

    They are taken away by halves, quarters and so on, as far as the limit allows.
    """
    if not change.parts:
        return None
    needed = list(range(len(change.parts)))
    size = len(needed) // 2
    while size:
        for first in range(0, len(needed), size):
            rest = needed[:first] + needed[first + size :]
            if limit.is_over():
                return needed
            if rest and bench.gives_recorded(joined([change.parts[one] for one in rest])):
                needed = rest
                break
        else:
            size //= 2
        size = min(size, len(needed) // 2) if len(needed) > 1 else 0
    return needed


def _confirm(case: Case, place: int | None, parts: list[int] | None) -> dict[str, Any]:
    """Make the change at this place of the candidates, or none, in a new instance."""
    bench = _Bench(case)
    changes: Iterable[Change] = bench.candidates() if place is not None else ()
    change = next((one for number, one in enumerate(changes) if number == place), None)
    if change is not None and parts is not None:
        change = joined([change.parts[one] for one in parts])
    return {"is_recorded": bench.gives_recorded(change)}
