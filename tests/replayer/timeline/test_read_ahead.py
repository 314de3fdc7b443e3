"""What a process reads and compiles before it forks: its copies have it, and nothing of it differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from optional_packages import needs

import recorder
from recorder.processes.fork_pool import ForkPool
from recorder.processes.inline_pool import InlinePool
from recorder.processes.pool import results_in_order
from replayer import Tape
from replayer.playback.make_simulation import import_adapters
from replayer.timeline.intervals import _verify_and_tell, list_intervals, make_for_copies, run_each, run_intervals
from sim.adapters.capture.plan import step_plan
from sim.kernel.memory.made_code import MADE_MAX, MadeCode, made_code, make_again, note_made

from small_worlds import Walkers, record


def test_each_delta_is_the_live_state_whoever_changed_one_before(tmp_path: Path) -> None:
    """More keyframes than are kept, read forwards, backwards, and twice."""
    path = tmp_path / "run.tape"
    live = record(path, Walkers(), [None] * 120, keyframe_interval_ticks=3, full_every=10, trial_ms=0)
    with Tape(path) as tape:
        places = tape.keyframes
        assert sum(not place.is_full for place in places) > 32
        for place in (*places, *reversed(places), places[1], places[1]):
            snapshot = tape.snapshot(place)
            assert snapshot.arena.tobytes() == live[place.tick]
            assert snapshot.arena.ctypes.data % 64 == 0
            if not place.is_full:  # That of a full one is the baseline of others, and left alone.
                snapshot.arena.flags.writeable = True  # As those who apply changes to it do.
                snapshot.arena[:] = 0


def test_what_one_copy_compiled_the_next_ones_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("gymnasium")
    import gymnasium

    path = tmp_path / "run.tape"
    with recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True, keyframe_interval_ticks=5) as env:
        env.reset(seed=1)
        for _ in range(20):
            if env.step(1)[2]:
                env.reset()
    monkeypatch.setattr("sim.kernel.memory.made_code._made", list[MadeCode]())
    step_plan._maker.cache_clear()
    with Tape(path) as tape:
        import_adapters(tape)
        intervals = list_intervals(tape)
        fresh = make_for_copies(tape, None).simulation
        pool = ForkPool(1)
        told = [made for _, made in run_each(tape, None, intervals, 1, _ignore, _verify_and_tell, pool, fresh)]
        assert all(told)  # Each copy compiled what it needed, since this process did not.
        results = list(run_intervals(tape, None, intervals, 1, _ignore, pool, fresh))
        assert [result.proved for result in results] == [(one.place.tick, one.final_tick) for one in intervals]
        assert all(result.values is not None and result.values.proved for result in results)
        told = [made for _, made in run_each(tape, None, intervals, 1, _ignore, _verify_and_tell, pool, fresh)]
        assert not any(told)


def test_no_more_is_noted_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.kernel.memory.made_code._made", list[MadeCode]())
    for number in range(2 * MADE_MAX):
        note_made(divmod, (number, 1))
    assert len(made_code()) == MADE_MAX
    make_again(made_code())


def test_something_is_done_before_each_item_is_given_to_a_process() -> None:
    done: list[int] = []
    results = results_in_order(InlinePool(), lambda item, _: (item, len(done)), [3, 4], name=str, before=done.append)
    assert list(results) == [(3, 1), (4, 2)]
    assert done == [3, 4]


def _ignore(_: int) -> None:
    pass
