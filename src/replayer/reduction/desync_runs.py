"""Run a simulation with some of the inputs of a tape, and again from its keyframes: where do the two differ?

A desync needs no recording of the shorter run: the simulation runs once from its start, and each interval once more from
a state of that run, in a simulation made for it, as a verification does. Each candidate is run in a process of its own:
what a run leaves behind in modules would hide the next one.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from recorder.errors import DesyncError, SimulationFailedError
from recorder.exception_text import raised_text
from recorder.processes.inline_pool import InlinePool, local_pool
from recorder.processes.pool import Report, results_in_order
from replayer.playback.make_simulation import Factory, make_stepping
from replayer.reduction.candidate_runs import Ending, Watch
from replayer.reduction.failures import Failure
from replayer.reduction.input_parts import Inputs, RecordedInputs
from replayer.tape.tape import Tape
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation, restore
from sim.kernel.state import Snapshot


class DesyncFailure(Failure):
    """A replay from a keyframe gives other states than the run: the first time in the same fields.

    Attributes:
        text: for people.
        fields: that differ at the first divergent tick of the recorded run; None before it was found.
        ends_at: the tick at which a run that is written ends.
    """

    def __init__(self) -> None:
        self.fields: tuple[str, ...] | None = None
        self.ends_at: int | None = None

    @property
    def text(self) -> str:  # type: ignore[override]
        """The failure for people."""
        return f"a desync in {', '.join(self.fields)}" if self.fields else "a desync"

    identity = "desync"

    def stops(self, tick: int, simulation: Simulation) -> bool:
        """See Watch: the run itself does not show it."""
        del simulation
        return tick == self.ends_at


@attrs.frozen
class CandidateDivergence:
    """The first tick at which the run and its replay differ, and the fields that do; no tick if they do not.

    Attributes:
        steps: that were run to find it.
        mismatch: tick, recorded and actual hash, if the run itself differs from the tape.
        raised: the tick and the text of an exception that ended the run; None if none did.
    """

    tick: int | None
    fields: tuple[str, ...]
    steps: int
    mismatch: tuple[int, int, int] | None = None
    raised: tuple[int, str] | None = None


@attrs.frozen
class _Work:
    """One candidate in a process of its own."""

    tape: Tape
    world: Factory | None
    start: Snapshot
    recorded: RecordedInputs
    interval: int

    def __call__(self, candidate: tuple[Inputs, int, bool], report: Report, /) -> CandidateDivergence:
        del report
        inputs, last_tick, compares = candidate
        run = make_stepping(self.tape, self.world)
        if run.state.hash() != self.start.hash():
            restore(run, self.start)  # Else it is as the recorded one was: made, and not restored.
        first, steps = self.tape.first_tick, 0
        for begin in range(first, last_tick, self.interval):
            states, raised = [run.state.snapshot()], None
            for tick in range(begin + 1, min(begin + self.interval, last_tick) + 1):
                steps += 1
                try:
                    run.step(decode_plain(inputs.get(tick, self.recorded.empty)))
                except MemoryError:
                    raise
                except Exception as error:  # noqa: BLE001 - the simulation's own, which is not the failure
                    raised = tick, raised_text("the step", error)
                    break
                if compares and (found := self._mismatch(tick, run)) is not None:
                    return CandidateDivergence(None, (), steps, mismatch=found)
                states.append(run.state.snapshot())
            for tick, fields in self._replayed(begin, states, inputs):
                steps += 1
                if fields:
                    return CandidateDivergence(tick, fields, steps)
            if raised is not None:
                return CandidateDivergence(None, (), steps, raised=raised)
        return CandidateDivergence(None, (), steps)

    def _mismatch(self, tick: int, run: Simulation) -> tuple[int, int, int] | None:
        recorded = self.tape.recording.recorded_hashes.recorded_hash(tick) if tick <= self.tape.last_tick else None
        actual = run.state.hash()
        return None if recorded in (None, actual) else (tick, int(recorded or 0), actual)

    def _replayed(self, begin: int, states: list[Snapshot], inputs: Inputs) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Replay an interval in a simulation made for it; yield each tick with the fields that differ."""
        replay = make_stepping(self.tape, self.world)
        restore(replay, states[0])
        for tick, expected in enumerate(states[1:], begin + 1):
            try:
                replay.step(decode_plain(inputs.get(tick, self.recorded.empty)))
            except Exception:  # noqa: BLE001 - the run did not raise there: that is a difference
                yield tick, ("an exception",)
                return
            yield tick, _differing(expected, replay.state.snapshot())


def _differing(expected: Snapshot, replayed: Snapshot) -> tuple[str, ...]:
    if expected.layout.hash_seed != replayed.layout.hash_seed:
        return ("the layout",)
    if expected.hash() == replayed.hash():
        return ()
    arenas = expected.arena, replayed.arena
    return tuple(
        name
        for name, slot in expected.layout.slots.items()
        if (
            arenas[0][slot.offset : slot.offset + slot.size_bytes]
            != arenas[1][slot.offset : slot.offset + slot.size_bytes]
        ).any()
    )


class DesyncRuns:
    """Runs with different inputs, each searched for its first divergent tick.

    Attributes:
        steps, runs: so far; the steps of replays included.
    """

    def __init__(self, tape: Tape, world: Factory | None, recorded: RecordedInputs, interval: int) -> None:
        """interval: the ticks from one replayed keyframe to the next."""
        self._work = _Work(tape, world, tape.snapshot(tape.keyframes[0]), recorded, interval)
        self.steps = self.runs = 0

    def run(self, inputs: Inputs, last_tick: int, watch: Watch) -> Ending:
        """Run up to last_tick with these inputs: it has failed if the same fields differ at the first divergent tick."""
        return self._judged(self._searched(inputs, last_tick, compares=False), last_tick, watch)

    def run_here(self, inputs: Inputs, last_tick: int, watch: Watch) -> Ending:
        """As run, in this process, which is a copy made for this one run."""
        return self._judged(self._searched(inputs, last_tick, compares=False, is_here=True), last_tick, watch)

    @staticmethod
    def _judged(found: CandidateDivergence, last_tick: int, watch: Watch) -> Ending:
        assert isinstance(watch, DesyncFailure)
        is_same = found.tick is not None and found.fields == watch.fields
        return Ending(found.tick or last_tick, failed=is_same)

    def run_as_recorded(self, inputs: Inputs, last_tick: int, watch: DesyncFailure) -> Ending:
        """The first run, with all inputs, whose own states are compared with the tape.

        Raises DesyncError if they differ: the simulation is not the recorded one, or is not deterministic;
        SimulationFailedError if a step raises.
        """
        found = self._searched(inputs, last_tick, compares=True)
        if found.mismatch is not None:
            raise DesyncError(*found.mismatch)
        if found.raised is not None and found.raised[0] <= self._work.tape.last_tick:
            raise SimulationFailedError(
                *found.raised
            )  # Not the step that ended the recording, which raised there, too.
        watch.fields = found.fields or None
        return Ending(found.tick or last_tick, failed=found.tick is not None)

    def _searched(
        self, inputs: Inputs, last_tick: int, *, compares: bool, is_here: bool = False
    ) -> CandidateDivergence:
        self.runs += 1
        [found] = results_in_order(
            InlinePool() if is_here else local_pool(1),
            self._work,
            [(inputs, last_tick, compares)],
            name=lambda item: f"simulated up to tick {item[1]:,}",
            size=lambda item: item[1],
        )
        self.steps += found.steps
        return found
