"""Explain a desync: run the one bad tick again on two sides that give different states, and say where they part.

What the sides are is tried in order, until two of them differ: the present environment against the one that was asked
for, or that was recorded; other processes and hash seeds; instances that ran from an earlier keyframe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder.environment import describe_environment
from recorder.errors import MissingTickError, RecordingError
from recorder.factory_spec import Factory
from replayer.desync.finding import find_desync
from replayer.desync.location import Place as DesyncPlace
from replayer.desync.location import place_between, place_of
from replayer.desync.state_diff import FieldDifference
from replayer.desync.ulps import Lanes, compare_lanes
from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.backward_slice import find_cause
from replayer.diagnose.explain.cause import Cause, Place
from replayer.diagnose.explain.source_lines import Source
from replayer.diagnose.explain.variants import Laboratory, Outcome, Proved, Side, SideFailedError
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import make_simulation
from replayer.tape.tape import Tape
from sim.kernel.state import Snapshot

NEAR_TICKS = 1500  # So far back an instance is run up to the tick before other processes are tried.
SEEDS = ("1", "2", "3")  # Of Python's hash; that of the present side is 0, or the user's own.
_SEED = "PYTHONHASHSEED"
_SWITCHES = (_SEED, "NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS")
_VERSIONS = ("python", "numpy", "machine", "system")


@attrs.frozen(eq=False)
class FieldOfTwo:
    """A field that the two sides gave other values.

    Attributes:
        name: of the field.
        lanes: where it differs; None if its size does.
    """

    name: str
    lanes: Lanes | None


@attrs.frozen(eq=False)
class Explanation:
    """What is known of one bad tick.

    Attributes:
        tick: which; None if every side verifies the whole tape.
        recorded_hash: of the tick, on the tape.
        sides: all that were run.
        pair: the two that are compared; None if all gave the same.
        fields: those in which the two differ, in the arena's order.
        cause: where they part; None if that is not known.
        known_fields: where no side gives the recorded state: what differs at the next recorded keyframe.
        known_tick: the tick of that keyframe; None if there is none.
        writers: lines that write the fields that differ in this tick, in their order; if the tape does not say which
            do, those that differ at the next recorded keyframe; all that write the state, if none do there.
        notes: what else must be said, a sentence each.
        place: phase and fields in which the two sides differ, or in which all of them differ from the tape.
        proved: what was proved of a tape that is damaged or not sealed, if no bad tick was found on it; else None.
    """

    tick: int | None
    recorded_hash: int
    sides: list[Outcome]
    pair: tuple[Outcome, Outcome] | None
    fields: list[FieldOfTwo]
    cause: Cause | None
    known_fields: list[FieldDifference]
    known_tick: int | None
    writers: list[tuple[Place, list[str]]]
    notes: list[str]
    place: DesyncPlace = attrs.field(factory=DesyncPlace)
    proved: Proved | None = None

    @property
    def agrees(self) -> bool:
        """Every side gives what was recorded."""
        return self.tick is None or (self.pair is None and all(map(self.is_recorded, self._run)))

    @property
    def _run(self) -> list[Outcome]:
        return [outcome for outcome in self.sides if outcome.step is not None]

    def is_recorded(self, outcome: Outcome) -> bool:
        """Whether a side gives the recorded state."""
        return outcome.result == (self.recorded_hash, None)


Progress = Callable[[float], None]  # How far the search for the bad tick is, from 0 to 1.


def explain_tape(
    path: str | os.PathLike[str],
    *,
    tick: int | None = None,
    sim: str | None = None,
    factory: Factory | None = None,
    environment: Mapping[str, str | None] | None = None,
    code: str | None = None,
    progress: Progress = lambda _: None,
) -> Explanation:
    """Explain the first bad tick of a tape, or the one that is given.

    sim: module:factory, which other processes can import; factory: what that names, or None for a registered world.
    environment, code: the other side; what differs from the recorded environment by default.

    Raises SideFailedError if a side cannot be run, MissingTickError if the tick or the one before is not on the tape,
    UnfitSimulationError and UnknownWorldError as make_simulation does.
    """
    asked = bool(environment) or code is not None
    with Tape(path) as tape, Laboratory(Path(path), sim) as laboratory:
        now, others, notes = _first_sides(tape, environment or {}, code)
        laboratory.warm_up([now, *others])
        if tick is None:
            tried = [now, *others, *(() if asked else map(_seeded, SEEDS[:2]))]
            tick, problems = _find_tick(laboratory, tried, progress)
            if tick is None:
                is_whole = tape.status == "intact" and not problems and not tape.check_blocks()
                proved = None if is_whole else laboratory.prove(now)
                return Explanation(None, 0, [], None, [], None, [], None, [], notes, proved=proved)
            notes += [f"before this tick some could not be verified: {problem}" for problem in problems]
        elif tick < 0:
            tick += tape.last_tick + 1
        if not tape.first_tick < tick <= tape.last_tick:
            raise MissingTickError(tick, f"steps lead to ticks {tape.first_tick + 1:,} to {tape.last_tick:,}")
        recorded_hash = tape.state_hash(tick)
        laboratory.warm_up([now, *others])
        before = _state_before(tape, factory, laboratory, [now, *others], tick)
        stages = _stages(tape, now, others, tick)
        outcomes, pair = _find_pair(laboratory, stages, tick, before, recorded_hash, asked=asked)
        told = pair if pair is not None else outcomes
        notes += [one.step.note for one in told if one.step is not None and one.step.note is not None]
        notes += [f"{one.side.label}: {one.why_not}" for one in outcomes if one.why_not is not None]
        notes = list(dict.fromkeys(notes))
        if pair is not None:
            return _explained(tick, recorded_hash, outcomes, pair, notes)
        explanation = Explanation(tick, recorded_hash, outcomes, None, [], None, [], None, [], notes)
        return explanation if explanation.agrees else _unexplained(tape, factory, explanation)


# --- which sides


def _first_sides(
    tape: Tape, environment: Mapping[str, str | None], code: str | None
) -> tuple[Side, list[Side], list[str]]:
    """The present side, the one that was asked for or recorded if it is another one, and what must be said of it."""
    recorded: dict[str, Any] = tape.meta.get("environment") or {}
    present = describe_environment()
    notes = [
        f"recorded with {name} {recorded[name]}, here it is {present[name]}: what that changes cannot be tried"
        for name in _VERSIONS
        if name in recorded and recorded[name] != present[name]
    ]
    asked: dict[str, str | None] = dict(environment)
    words = [f"{name}={value}" if value is not None else f"{name} unset" for name, value in asked.items()]
    if code is not None:
        words.append(f"the code in {code}")
    if not asked and code is None and recorded:
        asked = {
            name: recorded.get(name)
            for name in _SWITCHES
            if recorded.get(name) != present.get(name) and not (name == _SEED and _fixed_seed(recorded) is None)
        }
        words = [f"{name}={value}" if value is not None else f"{name} unset" for name, value in asked.items()]
        words = [f"as recorded, {', '.join(words)}"] if words else []
    other = [Side(", ".join(words), asked, code)] if words else []
    return Side("now") if environment or code is not None else _present_side(recorded), other, notes


def _present_side(recorded: Mapping[str, Any]) -> Side:
    """The present environment; with another hash seed than the recorded one, if it leaves the seed to chance."""
    if _fixed_seed(recorded) is None or _fixed_seed(os.environ) is not None:
        return Side("now")
    seed = "0" if recorded[_SEED] != "0" else SEEDS[0]
    return Side(f"now, {_SEED}={seed}", {_SEED: seed})


def _fixed_seed(environment: Mapping[str, Any]) -> str | None:
    """The hash seed that an environment sets; None if each process draws one."""
    seed = environment.get(_SEED)
    return None if seed in ("", "random") else seed


def _find_tick(laboratory: Laboratory, tried: list[Side], progress: Progress) -> tuple[int | None, list[str]]:
    """The first tick that is bad on any side, in the order in which sides are tried; why others could not be verified."""
    problems: list[str] = []
    for number, side in enumerate(tried):
        found = laboratory.search(side, lambda done, number=number: progress((number + done) / len(tried)))  # type: ignore[misc]
        if found.first_bad is not None:
            return found.first_bad, found.problems
        problems += found.problems
    return None, problems


def _seeded(seed: str) -> Side:
    return Side(f"{_SEED}={seed}", {_SEED: seed})


def _state_before(
    tape: Tape, factory: Factory | None, laboratory: Laboratory, sides: list[Side], tick: int
) -> Snapshot:
    """The state at tick - 1, with the recorded hash: made here, or else on one of the sides."""
    cursor = Cursor(tape, make_simulation(tape, factory))
    try:
        cursor.seek(tick - 1)
        return cursor.state.snapshot()
    except MismatchError:
        for side in (*sides, *(_seeded(seed) for seed in SEEDS)):
            found = laboratory.state(side, tick - 1)
            if found is not None:
                return found
    raise SideFailedError(
        f"tick {tick:,}: the state before it is not the recorded one either, on any side: an earlier tick is the "
        "first bad one (without --tick it is looked for)"
    )


Stage = tuple[list[Side], list[int | None]]  # Sides to run side by side, and from where their instances start.


def _find_pair(
    laboratory: Laboratory, stages: Iterable[Stage], tick: int, before: Snapshot, recorded_hash: int, *, asked: bool
) -> tuple[list[Outcome], tuple[Outcome, Outcome] | None]:
    """Run sides until two differ, the recorded one among them if possible; asked: or until the first ones are right."""
    outcomes: list[Outcome] = []
    chosen = None
    for sides, starts in stages:
        outcomes += laboratory.trace(sides, tick, before, starts)
        chosen = _choose(outcomes, recorded_hash)
        asked_and_right = asked and all(one.result == (recorded_hash, None) for one in outcomes)
        if chosen is not None or asked_and_right:
            break
    return outcomes, chosen


def _stages(tape: Tape, now: Side, others: list[Side], tick: int) -> Iterator[Stage]:
    """What to run, the cheapest first."""
    starts = [place.tick for place in tape.keyframes if place.tick < tick - 1]
    near: list[int | None] = [start for start in _doubling(starts) if tick - start <= NEAR_TICKS]
    if others:
        yield [now, *others], [None]
        if near:
            yield [now], near
    else:
        yield [now], [None, *near]
    yield [attrs.evolve(now, label=f"{now.label}, in another process"), _seeded(SEEDS[0])], [None]
    yield [_seeded(seed) for seed in SEEDS[1:]], [None]
    far: list[int | None] = [start for start in _doubling(starts) if start not in near]
    if far:
        yield [now], far


def _doubling(starts: list[int]) -> list[int]:
    """Of ascending ticks the last one, the second to last, the fourth to last and so on, and the first."""
    distances = [1]
    while distances[-1] < len(starts):
        distances.append(min(2 * distances[-1], len(starts)))
    return [starts[-distance] for distance in distances] if starts else []


def _choose(outcomes: list[Outcome], recorded_hash: int) -> tuple[Outcome, Outcome] | None:
    """Two that differ; the first gives the recorded state, if any does."""
    run = [outcome for outcome in outcomes if outcome.result is not None]
    right = [outcome for outcome in run if outcome.result == (recorded_hash, None)]
    wrong = [outcome for outcome in run if outcome.result != (recorded_hash, None)]
    if right and wrong:
        return right[0], wrong[0]
    first = run[0] if run else None
    other = next((outcome for outcome in run if first is not None and outcome.result != first.result), None)
    return (first, other) if first is not None and other is not None else None


# --- what is said of them


def _explained(
    tick: int, recorded_hash: int, outcomes: list[Outcome], pair: tuple[Outcome, Outcome], notes: list[str]
) -> Explanation:
    first, second = pair[0].step, pair[1].step
    assert first is not None
    assert second is not None
    fields = []
    if first.state is not None and second.state is not None:
        for name in dict.fromkeys([*first.state, *second.state]):
            both = [state[name] if name in state.layout.slots else None for state in (first.state, second.state)]
            lanes = compare_lanes(both[0], both[1]) if both[0] is not None and both[1] is not None else None
            if lanes is None or lanes.count:
                fields.append(FieldOfTwo(name, lanes))
    alignment = Alignment(first.trace, second.trace)
    limits = {step.trace.limited for step in (first, second)} - {None}
    notes += sorted(map(str, limits))
    place = place_between([field.name for field in fields], first.phases, second.phases)
    return Explanation(tick, recorded_hash, outcomes, pair, fields, find_cause(alignment), [], None, [], notes, place)


def _unexplained(tape: Tape, factory: Factory | None, explanation: Explanation) -> Explanation:
    """All sides agree, and not with the tape: what the tape itself tells, and which lines have to do with that."""
    present = next(outcome for outcome in explanation.sides if outcome.step is not None)
    assert present.step is not None
    assert explanation.tick is not None
    fields: list[FieldDifference] = []
    known_tick, notes, place = None, list(explanation.notes), DesyncPlace()
    if present.step.state is not None:
        place = place_of(tape.frame(explanation.tick), present.step.state, present.step.phases)
        try:
            cursor = Cursor(tape, make_simulation(tape, factory))
            finding = find_desync(cursor, explanation.tick, present.step.state.hash())
            fields, known_tick = finding.differences, finding.compared_tick
            notes += [finding.note] if finding.note is not None else []
        except RecordingError as error:
            notes.append(f"what the next keyframe tells cannot be had: {error}")
    names = {f"s:{name}" for name in place.fields or [difference.field for difference in fields]}
    writers: dict[Place, list[str]] = {}
    for record in present.step.trace.records:
        written = [name for name in record.after if name.startswith("s:") and (name in names or not names)]
        if written:
            line = Place(record.path, record.line, record.function, "")
            kept = writers.setdefault(line, [])
            kept += [name[2:] for name in written if name[2:] not in kept]
    sources = {line.path: Source(line.path) for line in writers}
    told = [
        (attrs.evolve(line, text=sources[line.path].statement_text(line.line)), kept) for line, kept in writers.items()
    ]
    return attrs.evolve(explanation, known_fields=fields, known_tick=known_tick, writers=told, notes=notes, place=place)
