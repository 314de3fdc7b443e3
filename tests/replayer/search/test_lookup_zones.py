"""What zones rule out does not hold: beside a plain loop over the states of random worlds, and random conditions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from varied_worlds import Varied, random_condition

import recorder
import replayer
from replayer.search.expressions import Expression, parse_expression
from replayer.search.lookup.interval_facts import IntervalFacts
from replayer.search.lookup.make_lookup import Measured, measured_intervals
from replayer.search.lookup.possible import may_hold
from replayer.search.search_errors import ExpressionError, UndefinedError
from replayer.search.state_values import StateValues
from sim.kernel.state import Snapshot

TICKS, INTERVAL, CONDITIONS = 96, 16, 1500


def plain_run(seed: int) -> list[Snapshot]:
    """The states of a run that nothing records."""
    world = Varied(seed)
    states = [world.state.snapshot()]
    for _ in range(TICKS):
        world.step(None)
        states.append(world.state.snapshot())
    return states


def answer(condition: Expression, tick: int, state: Snapshot) -> Any:
    """True or False; the error if there is no answer."""
    try:
        return condition.holds(StateValues(tick, state, {}))
    except (ExpressionError, UndefinedError) as error:
        return error


def recorded_facts(path: Path, seed: int) -> list[IntervalFacts]:
    """The facts of a recorded run."""
    with recorder.Recorder(path, Varied(seed), keyframe_interval_ticks=INTERVAL) as tape:
        for _ in range(TICKS):
            tape.step(None)
    with replayer.open(path, Varied) as run:
        report = Measured()
        facts = list(measured_intervals(run.tape, run.counted_cursor(), report))
        assert report.missing == []
        assert report.simulated == TICKS
    return facts


@pytest.mark.parametrize("batch_ticks", [2, 5, 512])
@pytest.mark.seldom(0.15)
def test_what_is_ruled_out_is_false_at_each_tick(
    tmp_path: Path, batch_ticks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False, and not an error, nor without a value; and some conditions are ruled out."""
    monkeypatch.setattr("replayer.search.lookup.make_lookup.BATCH_TICKS_MAX", batch_ticks)
    seed = random.randrange(1 << 20)
    chance = random.Random(seed)
    states, facts = plain_run(seed), recorded_facts(tmp_path / "varied.tape", seed)
    assert [(one.first_tick, one.last_tick) for one in facts] == [
        *((start, start + INTERVAL - 1) for start in range(0, TICKS, INTERVAL)),
        (TICKS, TICKS),
    ]
    asked = ruled_out = 0
    while asked < CONDITIONS:
        try:
            condition = parse_expression(text := random_condition(chance))
        except ExpressionError:
            continue
        asked += 1
        for one in facts:
            ticks = range(one.first_tick, one.last_tick + 1)
            if not may_hold(condition.tree, ticks, one.zones):
                ruled_out += 1
                for tick in ticks:
                    assert answer(condition, tick, states[tick]) is False, (seed, text, tick)
    assert ruled_out > CONDITIONS // 4, seed


def test_changed_rows_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    """Exactly these, in intervals of one layout; of others, everything may have changed."""
    seed = random.randrange(1 << 20)
    states, facts = plain_run(seed), recorded_facts(tmp_path / "varied.tape", seed)
    for one in facts:
        steps = range(one.first_tick + 1, min(one.last_tick + 1, TICKS) + 1)
        assert (one.changed.first_step, one.changed.last_step) == (steps.start, steps.stop - 1)
        layouts = {states[tick].layout.hash_seed for tick in range(one.first_tick, steps.stop)}
        assert one.changed.layout == (layouts.pop() if len(layouts) == 1 else None), seed
        if one.changed.layout is None:
            continue
        for name, slot in states[one.first_tick].layout.slots.items():
            rows = {row for tick in steps for row in differing(states[tick - 1], states[tick], name)}
            bits = one.changed.bits.get(name, b"")
            found = {row for row in range(slot.row_count) if row >> 3 < len(bits) and bits[row >> 3] >> (row & 7) & 1}
            assert found == rows, (seed, name)


def differing(before: Snapshot, after: Snapshot, name: str) -> list[int]:
    """The flat rows of a field whose bytes differ."""
    slot = after.layout.slots[name]
    if not slot.row_bytes:
        return []
    parts = [state.arena[slot.offset : slot.offset + slot.size_bytes].tobytes() for state in (before, after)]
    size = slot.row_bytes
    return [
        row
        for row in range(slot.row_count)
        if parts[0][row * size : (row + 1) * size] != parts[1][row * size : (row + 1) * size]
    ]
