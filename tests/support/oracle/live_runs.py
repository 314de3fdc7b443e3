"""Runs that are observed while they are recorded, and the comparison with the result of the second reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recorder import Recorder
from replayer import Tape
from replayer.datasets.plan import split_of
from replayer.datasets.request import Request

from oracle.second_checks import CheckedTape, field_of

Live = dict[int, tuple[int, bytes, dict[str, np.ndarray]]]  # By tick: state hash, arena, fields.


def look_at(state: Any) -> tuple[int, bytes, dict[str, np.ndarray]]:
    """The hash, arena and fields of a state now."""
    return state.hash(), state.arena.tobytes(), {name: state[name].copy() for name in state}


def record_live(path: Path, simulation: Any, inputs: list[Any], **settings: Any) -> Live:
    """Record a run; return hash, arena and fields of the live state at every tick."""
    with Recorder(path, simulation, **settings) as tape:
        live = {0: look_at(tape.simulation.state)}
        for tick, given_inputs in enumerate(inputs, start=1):
            tape.step(given_inputs)
            live[tick] = look_at(tape.simulation.state)
    return live


def assert_agrees(found: CheckedTape, live: Live, inputs: list[Any], first_tick: int = 0) -> None:
    """Assert that the second reader finds, from first_tick on, the live run."""
    frames = list(found.frames())
    last_tick = first_tick + len(frames)
    assert [(tick, state_hash) for tick, state_hash, _ in frames] == [
        (tick, live[tick][0]) for tick in range(first_tick + 1, last_tick + 1)
    ]
    assert repr([given_inputs for _, _, given_inputs in frames]) == repr(inputs[first_tick:last_tick])
    for number, keyframe in enumerate(found.keyframes()):
        state_hash, arena, fields = live[keyframe.tick]
        assert number or (keyframe.tick, keyframe.is_full) == (first_tick, True)
        assert (keyframe.state_hash, keyframe.arena) == (state_hash, arena)
        assert [name for name in keyframe.layout if name != "#counts"] == list(fields)
        for name, values in fields.items():
            field = field_of(keyframe, name)
            assert field.dtype == values.dtype
            assert field[: len(values)].tobytes() == values.tobytes() if values.ndim else field == values


def assert_whole(found: CheckedTape, live: Live, inputs: list[Any], interval_ticks: int, full_every: int) -> None:
    """Assert that it is a sealed tape of the complete run, with keyframes where they were requested."""
    assert_agrees(found, live, inputs)
    assert [frame[0] for frame in found.frames()] == list(range(1, len(inputs) + 1))
    keyframes = list(found.keyframes())
    assert [keyframe.tick for keyframe in keyframes] == list(range(0, len(inputs) + 1, interval_ticks))
    assert all(keyframe.is_full for number, keyframe in enumerate(keyframes) if number % full_every == 0)
    assert (found.seal["final"], found.seal["last_tick"]) == (True, len(inputs))


def splitting_seed(tapes: Sequence[Path], splits: Sequence[tuple[str, float]], *counts: int) -> int:
    """The first seed with which this many of the runs are in each split; run ids are random."""
    if not splits:
        return 0
    runs = []
    for path in tapes:
        with Tape(path) as tape:
            runs.append(tape.run_id)
    assert sum(counts) == len(runs)
    for seed in range(10_000):
        names = [split_of(run, Request(splits=tuple(splits), seed=seed)) for run in runs]
        if [names.count(name) for name, _ in splits] == list(counts):
            return seed
    raise AssertionError(f"no seed splits {len(runs)} runs into {counts}")
