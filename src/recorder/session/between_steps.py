"""Compare the state before each step with the one that the last step left: other code may have changed it.

Code of a user interface, render() or a camera does so by mistake. No replay knows of such a change.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from sim.kernel.hashing import differing_fields
from sim.kernel.hooks import ComparesValues, KeepsValues, hook
from sim.kernel.simulation import ArenaOfSaved, Simulation, inner_of

KEY = "between_steps"  # In the end of a tape.
KEPT_MAX = 16  # Changes that the end of a tape lists.
LATER_MAX = 1_000  # Of those after them: the tick, and which of the listed ones it is like.
FIRST_STEPS_NS = 250_000_000  # Of processor time for comparing the first steps: 600 of a game of 20 objects.
FIRST_STEPS_MAX = 500  # Of them, however short they are: a step of 2 µs takes 8 while they are compared.


class ChangesOutside:
    """The changes between two steps that are known in one session, however they became known.

    Attributes:
        changes: the tick after each change, and the path or the fields; the first KEPT_MAX.
        later: of the next LATER_MAX, the tick, and the number of the one in changes of the same path or fields; -1 for none.
        count: of all changes.
    """

    def __init__(self) -> None:
        self.changes: list[tuple[int, str]] = []
        self.later: list[tuple[int, int]] = []
        self.count = 0
        self._tick, self._told = -1, set[str]()  # Of the latest change: the tick, and what was told before its step.

    def add(self, tick: int, what: str) -> None:
        """Keep a change of what, a path or fields, before the step to a tick; once, however often it is told."""
        if tick != self._tick:
            self._tick, self._told = tick, set()
        if what in self._told:
            return
        self._told.add(what)
        self.count += 1
        if len(self.changes) < KEPT_MAX:
            self.changes.append((tick, what))
        elif len(self.later) < LATER_MAX:
            self.later.append((tick, next((place for place, (_, one) in enumerate(self.changes) if one == what), -1)))

    def outcome(self, end: Any, compared: BetweenSteps | None) -> Any:
        """The end of the tape with the changes and what was compared; unchanged unless it is a mapping, and without either."""
        ticks = {} if compared is None else compared.compared_ticks()
        is_told = bool(self.changes) or (compared is not None and compared.tells_all)
        return {**end, KEY: {**ticks, **self._found()}} if isinstance(end, dict) and is_told else end

    def _found(self) -> dict[str, Any]:
        later = {"later": [list(one) for one in self.later]} if self.later else {}
        return {"count": self.count, "changes": [list(one) for one in self.changes], **later}


class BetweenSteps:
    """The comparisons of one session.

    Attributes:
        tells_all: True if the tape tells of them also where no change was found.
    """

    tells_all = True

    def __init__(
        self,
        simulation: Simulation,
        outside: ChangesOutside,
        notify: Callable[[str], None],
        path: str | os.PathLike[str],
        tick: int,
    ) -> None:
        """outside: takes the changes. notify: shows a notice to the user. path: of the tape. tick: of the state as it is now."""
        self._simulation = simulation
        inner = inner_of(simulation)
        self._keeps, self._compares = hook(inner, KeepsValues), hook(inner, ComparesValues)
        self._outside, self._notify, self._path = outside, notify, os.fspath(path)
        self._first_tick = tick + 1
        self._named: set[str] = set()
        self._kept: Any = None
        self._reported = -1
        self.keep()

    def keep(self) -> None:
        """Keep the state as it is now. Raises any exception of the simulation."""
        if self._keeps is not None and self._compares is not None:
            self._kept = self._keeps.kept_values()
        elif not isinstance(self._simulation, ArenaOfSaved):  # Of that, the arena itself is what the last step left.
            self._kept = self._simulation.state.hash(), self._simulation.state.field_hashes()

    def before_step(self, tick: int) -> None:
        """Report a change since the last keep. tick: that the next step makes. Raises any exception of the simulation."""
        what = self._difference()
        if what is None or tick == self._reported:  # The inputs of a call before were refused: one change, still.
            return
        self._reported = tick
        self._outside.add(tick, what)
        if what not in self._named:
            self._named.add(what)
            self._notify(
                f"{self._path}: {what} was changed between tick {tick - 1:,} and {tick:,}, outside of the step: a replay "
                "does not know of it. Change it in the step, or, of an object that record() returned, assign the "
                "attribute itself, which becomes an input"
            )

    @property
    def is_over(self) -> bool:
        """True once no further step is compared."""
        return False

    def compared_ticks(self) -> dict[str, int]:
        """The ticks before whose steps the states were compared, as the end of a tape tells them."""
        return {"first_tick": self._first_tick}

    def _difference(self) -> str | None:
        """The path of a value that has changed, or the fields; None if nothing has."""
        if self._keeps is not None and self._compares is not None:
            return self._compares.value_difference(self._kept)
        if isinstance(self._simulation, ArenaOfSaved):
            return self._simulation.changed_field()
        state, (kept_hash, kept_fields) = self._simulation.state, self._kept
        if state.hash() == kept_hash:
            return None
        fields = state.field_hashes()
        same_layout = len(fields) == len(kept_fields)
        names = differing_fields(list(state.layout.slots), kept_fields, fields) if same_layout else []
        return ", ".join(names) or "the state"


class BetweenFirstSteps(BetweenSteps):
    """Comparisons of the first steps of a recording, as many as some milliseconds allow; nothing is said of them live.

    What is changed there may be written again by the next step, and then harms no replay: only a tick that differs in a
    replay is explained by it. An error of a comparison ends them: the user did not ask for any.
    """

    tells_all = False

    def __init__(
        self, simulation: Simulation, outside: ChangesOutside, path: str | os.PathLike[str], tick: int
    ) -> None:
        """As BetweenSteps, without a notice."""
        self._spent_ns = 0
        self._last_tick, self._final_tick = tick, tick + FIRST_STEPS_MAX
        self._has_failed = False
        super().__init__(simulation, outside, lambda _: None, path, tick)

    @property
    def is_over(self) -> bool:
        """True once the time is spent, or the steps are many."""
        return self._has_failed or self._spent_ns > FIRST_STEPS_NS or self._last_tick >= self._final_tick

    def keep(self) -> None:
        """Keep the state as it is now."""
        self._timed(super().keep)

    def before_step(self, tick: int) -> None:
        """Note a change since the last keep."""
        before = super().before_step
        self._timed(lambda: before(tick))
        if not self._has_failed:
            self._last_tick = tick

    def compared_ticks(self) -> dict[str, int]:
        """As BetweenSteps, and the last of them."""
        return {**super().compared_ticks(), "last_tick": self._last_tick}

    def _timed(self, work: Callable[[], None]) -> None:
        start_ns = time.thread_time_ns()
        try:
            if not self._has_failed:
                work()
        except Exception:  # noqa: BLE001 - whatever a value raises when it is read: the recording goes on without this
            self._has_failed = True
        self._spent_ns += time.thread_time_ns() - start_ns
