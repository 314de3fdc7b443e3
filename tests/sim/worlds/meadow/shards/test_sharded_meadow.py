"""A meadow in shards is the meadow of one process: arena, events, ledger and figures at every tick."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sharded_runs import SideBySide

from sim_strategies import meadow_inputs, meadows


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.data(), st.integers(1, 40))
def test_any_meadow_with_any_inputs_and_any_cuts(data: st.DataObject, ticks: int) -> None:
    """Players, defences, wind, droughts; stripes of any height from the halo on."""
    plain = data.draw(meadows())
    height = plain["grid"]["height"]
    cuts = [0]
    while height - cuts[-1] >= 4 and data.draw(st.sampled_from((True, True, True, False))):
        cuts.append(data.draw(st.integers(cuts[-1] + 2, height - 2)))
    side_by_side = SideBySide(plain, 1, cuts=[*cuts, height])
    for _ in range(ticks):
        side_by_side.step(data.draw(st.lists(meadow_inputs(plain), max_size=4)))
        if len(side_by_side.one.state["swarms.id"]) > 200:
            break
