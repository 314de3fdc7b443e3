"""Choose the mode for a simulation: run its first second without recording, and measure both modes.

A seek in mode "events" repeats steps, in mode "changes" it applies their changes. So mode "changes" is chosen if
applying changes is much faster than stepping, and capturing them does not slow the simulation too much.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import attrs
import lz4.block

from recorder.format.blocks.changes_block import ChangeEncoder, decode_changes
from recorder.format.blocks.large.change_planes import many_changes_payload
from recorder.session.change_source import find_source
from recorder.settings import ChangeTracking, Mode
from sim.kernel.changes.many_changes import ManyChanges
from sim.kernel.changes.row_changes import UnmarkedWriteError
from sim.kernel.changes.tick_changes import TickChanges, TickSource, flat_words
from sim.kernel.exactness import Level, level_of
from sim.kernel.simulation import as_simulation
from sim.kernel.state import State

REHEARSAL_S = 1.0
TICKS_MAX = 300  # The default interval between two keyframes.
TICKS_OF_A_BLOCK = 50
WORTH_IT = 4.0  # Least ratio of stepping to applying changes; below it the stored bytes are not worth it.
COST_SHARE_MAX = 0.5  # Greatest share of a step that capturing its changes may take.


@attrs.frozen
class ModeChoice:
    """A mode, and the reason for the choice.

    Attributes:
        mode: "events" or "changes".
        why: the reason in one sentence.
    """

    mode: Mode
    why: str


@attrs.define
class _Measured:
    step_s: float = 0.0
    take_s: float = 0.0
    apply_s: float = 0.0
    stored_bytes: int = 0
    ticks: int = 0


def choose_mode(make: Callable[[], Any], inputs: Callable[[int, State], Any], changes: ChangeTracking) -> ModeChoice:
    """Run a simulation for a second, or TICKS_MAX ticks, and choose its mode.

    make: returns a fresh simulation, which is discarded. Raises any exception of make.
    """
    simulation = as_simulation(make())
    if level_of(simulation) is Level.INPUTS_ONLY:
        return ModeChoice("events", "its states are derived from the inputs alone")
    measured = _measure(simulation, inputs, changes)
    if not measured.ticks:
        return ModeChoice("events", "it completed no step in the trial run")
    step_us, take_us, apply_us = (
        1e6 * seconds / measured.ticks for seconds in (measured.step_s, measured.take_s, measured.apply_s)
    )
    times = f"a step takes {step_us:,.0f} µs, applying its changes {apply_us:,.0f} µs"
    cost = f"capturing them costs {take_us:,.0f} µs and {measured.stored_bytes / measured.ticks:,.0f} bytes a tick"
    worth_it = step_us >= WORTH_IT * apply_us and take_us <= COST_SHARE_MAX * step_us
    return ModeChoice("changes" if worth_it else "events", f"{times}; {cost}")


def _measure(simulation: Any, inputs: Callable[[int, State], Any], changes: ChangeTracking) -> _Measured:
    measured = _Measured()
    source = find_source(simulation, changes).ticks(simulation.state)
    encoder = _encoder(source, simulation.state)
    waiting: list[TickChanges] = []
    begun_s = time.monotonic()
    for tick in range(1, TICKS_MAX + 1):
        step_inputs = inputs(tick, simulation.state)
        start_s = time.perf_counter()
        simulation.step(step_inputs)
        stepped_s = time.perf_counter()
        taken = _take(source, simulation.state)
        measured.take_s += time.perf_counter() - stepped_s
        measured.step_s += stepped_s - start_s
        measured.ticks += 1
        if taken is None:  # The layout changed: measure the ticks before and after it only.
            source.reset(simulation.state)
            encoder, waiting = _encoder(source, simulation.state), []
        else:
            if waiting and isinstance(taken, ManyChanges):  # A block of its own.
                _weigh(measured, encoder, waiting, simulation.state)
                waiting = []
            waiting.append(taken)
        if len(waiting) == TICKS_OF_A_BLOCK or isinstance(taken, ManyChanges):
            _weigh(measured, encoder, waiting, simulation.state)
            waiting = []
        if time.monotonic() - begun_s > REHEARSAL_S:
            break
    if waiting:
        _weigh(measured, encoder, waiting, simulation.state)
    source.close()
    return measured


def _encoder(source: TickSource, state: State) -> ChangeEncoder:
    return ChangeEncoder(state.layout, None if source.knows_earlier else state.arena)


def _take(source: Any, state: State) -> TickChanges | None:
    try:
        return source.take(state)  # type: ignore[no-any-return]
    except UnmarkedWriteError:
        return None  # The recording will report it.


def _weigh(measured: _Measured, encoder: ChangeEncoder, waiting: list[TickChanges], state: State) -> None:
    """Add the stored size of these changes, and the time to apply them."""
    (many, *_) = waiting
    payload = (
        many_changes_payload(encoder, 1, many).joined() if isinstance(many, ManyChanges) else encoder.encode(1, waiting)
    )
    stored = lz4.block.compress(bytes(payload))
    measured.stored_bytes += len(stored)
    words = flat_words(state.arena.copy(), state.layout)
    start_s = time.perf_counter()
    decode_changes(lz4.block.decompress(stored), 1, 0).apply(words, 1, len(waiting))
    measured.apply_s += time.perf_counter() - start_s
