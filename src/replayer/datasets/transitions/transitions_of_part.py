"""Replay a part of an environment's tape and yield its transitions.

Invariants:
    1. A transition belongs to the part in whose ticks it ends, and so to exactly one.
    2. The transitions of a part do not depend on where other parts begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from recorder.format.recording.tick_gaps import merged
from replayer.datasets.plan import DatasetPart, TapeInput, ranges_of
from replayer.datasets.request import ExtractionError, Request
from replayer.datasets.transitions.agent_stream import AgentStream
from replayer.datasets.transitions.made_environment import open_environment
from replayer.datasets.transitions.streams import EpisodesOnTape, ParallelStream, SingleStream, Stream, TurnsStream
from replayer.datasets.transitions.transition import EnvironmentFacts, Transition
from replayer.datasets.transitions.vector_stream import VectorStream
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory
from replayer.playback.sampled_states import Missing, Walker
from replayer.tape.environment_calls import EnvironmentCall, call_of
from replayer.tape.tape import Tape
from replayer.value_text import tick_range
from sim.kernel.simulation import Simulation, inner_of


def transitions_of_part(
    part: DatasetPart,
    source: TapeInput,
    request: Request,
    facts: EnvironmentFacts,
    tape: Tape,
    simulation: Simulation,
    *,
    factory: Factory | None,
    missing: list[Missing],
    problems: list[str],
    on_progress: Callable[[int], None],
) -> Iterator[Transition]:
    """Yield the transitions that end in the part, in the order in which they end. Fills missing and problems.

    simulation: the environment, as it was made. factory: makes another one. on_progress: called with the ticks done.
    Raises ExtractionError.
    """
    stream = _stream(facts, simulation, request)
    cursor = Cursor(tape, simulation)
    inputs: list[Any] = [None]

    def on_step(given: Any, _: Any) -> None:
        inputs[0] = given
        if isinstance(stream, AgentStream):
            assert cursor.tick is not None
            stream.prepare(cursor.tick, given)

    walker = Walker(cursor, on_step)
    first = part.ticks.start
    range_first = next(begin for begin, end in ranges_of(source, request) if begin <= first <= end)
    unknown: list[int] = []
    for tick, follows in walker.samples(range(start_tick(facts, source, first), part.last + 1)):
        made: Iterator[Transition] = iter(())
        if follows:
            is_own = facts.kind == "agents"
            made = stream.advance(EnvironmentCall(tick, "step") if is_own else call_of(tick, inputs[0]))
        else:
            stream.begin(tick)
            if walker.missing and walker.missing[-1].last_tick == tick - 1:  # What ends here began in a lost tick.
                walker.missing[-1] = attrs.evolve(walker.missing[-1], last_tick=tick)
        for row in made:
            if tick > first and row.tick >= range_first and (request.agents is None or row.agent in request.agents):
                yield row
        if tick > first and not stream.is_known:
            unknown.append(tick)
        on_progress(max(0, tick - first))
    if facts.kind == "agents":
        asked = f"agent_ {'functions' if request.agent_functions else 'methods'} of {facts.name}"
        _ensure_methods_only_read(walker.missing, start_tick(facts, source, first), asked, tape, factory)
    missing += [one for one in walker.missing if one.last_tick >= first]
    problems += [
        f"transitions in {source.name} that end at {tick_range(first_tick, last_tick)} are left out: the beginning of "
        "their episode is not on the tape"
        for first_tick, last_tick in merged([(tick, tick) for tick in unknown])
    ]


def start_tick(facts: EnvironmentFacts, source: TapeInput, first: int) -> int:
    """The tick from which a part that begins at first has to be replayed, to know the numbers of its episodes."""
    if facts.kind == "vector":
        return source.first_tick
    if facts.kind == "turns":
        return max((episode.first_tick for episode in facts.episodes if episode.first_tick <= first), default=first)
    return first


def _ensure_methods_only_read(
    missing: Sequence[Missing], start: int, asked: str, tape: Tape, factory: Factory | None
) -> None:
    """Raise ExtractionError if a state differs only where the methods of the agents are asked: they changed it."""
    differing = next((one.first_tick for one in missing if one.is_desync), None)
    if differing is None:
        return
    with open_environment(tape, factory) as unasked:
        samples = Walker(Cursor(tape, unasked), lambda *_: None).samples(range(start, differing + 1))
        is_as_recorded = any(tick == differing for tick, _ in samples)
    if is_as_recorded:
        raise ExtractionError(
            f"the state at tick {differing:,} is as recorded if the {asked} are not called, and differs if "
            "they are: they may only read the simulation; copy what they change, and its random generators"
        )


def _stream(facts: EnvironmentFacts, simulation: Simulation, request: Request) -> Stream:
    episodes, inner, with_info = EpisodesOnTape(facts), inner_of(simulation), request.info
    if facts.kind == "agents":
        return AgentStream(facts, simulation, episodes, request)
    if facts.kind == "vector":
        return VectorStream(facts, inner, with_info=with_info)
    if facts.kind == "turns":
        return TurnsStream(facts, inner, episodes, with_info=with_info)
    one_step = SingleStream if facts.kind == "single" else ParallelStream
    return one_step(facts, inner, episodes, with_info=with_info)
