"""At the level inputs_only: what outlives a reset is restored if it can be saved, and otherwise verify names it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import trapped_environments as traps

import recorder
import replayer
from recorder.errors import RecordingWarning
from recorder.exit_codes import SAME
from recorder.processes.fork_call import in_a_copy
from replayer.commands.main import main
from replayer.regression.golden_tapes import compare_golden, record_golden
from replayer.report.report_text import print_report
from replayer.timeline.live_verify import LiveVerifier
from replayer.timeline.verify import verify_tape
from sim.adapters import adapt
from sim.kernel.simulation import restore

EPISODE = 8
BUDGET_MS = 4000  # Far more than needed: a busy machine must not change a result.


def play(env: Any, calls: int, look: Callable[[], Any] = lambda: None) -> list[Any]:
    """Play with a reset at every eighth call; what look returns after each call."""
    seen = []
    for tick in range(calls):
        env.reset(seed=tick) if tick % EPISODE == 0 else env.step(tick % 2)
        seen.append(look())
    return seen


def recorded(tmp_path: Path, kind: Any, look: Callable[[Any], Any] = lambda _: None, **options: Any) -> Any:
    """Record an environment of the kind; the path of the tape, and what look returned after each call."""
    path, inner = tmp_path / "run.tape", kind()
    options = {"trial_ms": 0, "quiet": True, "keyframe_interval_ticks": 5} | options
    env = recorder.record(inner, path, level="inputs_only", **options)
    seen = play(env, 43, lambda: copy.deepcopy(look(inner)))
    env.close()
    return path, seen


def code(command: list[str]) -> object:
    """The exit code of replay."""
    with pytest.raises(SystemExit) as ended:
        main(command)
    return ended.value.code


def values(env: Any) -> Any:
    return env.history, env.counts, env.nested["random"].getstate()


@pytest.mark.seldom(0.15)
def test_values_that_can_be_saved_and_outlive_a_reset_are_restored(tmp_path: Path) -> None:
    """Lists, iterators and generators in containers; in any order of seeks, by fresh and by used instances."""
    path, seen = recorded(tmp_path, traps.History, values)
    with replayer.open(path, world=traps.History) as run:
        for tick in (30, 7, 42, 41, 9, 40):
            run.seek(tick)
            assert repr(values(run.subject)) == repr(seen[tick - 1])
        assert run.verify().ok
        assert run.verify().proved_keyframes == 8


def test_a_value_that_cannot_be_saved_and_outlives_a_reset_does_not_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named by its path, although every step returned what it returned in the recorded run."""
    path, _ = recorded(tmp_path, traps.Heats)
    report = verify_tape(path, world=traps.Heats)
    assert not report.ok
    assert report.first_bad is None
    print_report(path, report)
    assert "keyframe at tick 10 restores to other values: Heats.engine.heat" in capsys.readouterr().out


def test_a_variable_around_a_function_that_outlives_a_reset_does_not_verify(tmp_path: Path) -> None:
    """The digest reads the variables of closures, too."""
    path, _ = recorded(tmp_path, traps.CountsInClosure)
    report = verify_tape(path, world=traps.CountsInClosure)
    assert str(report.wrong_keyframes[0]) == (
        "keyframe at tick 10 restores to other values: CountsInClosure.count's variable number[0]"
    )


@pytest.mark.parametrize("kind", [traps.Unsavable, traps.Cools, traps.Entangled, traps.Grows])
@pytest.mark.seldom(0.15)
def test_what_a_reset_makes_again_verifies(
    tmp_path: Path, kind: Any, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    """No sound environment is accused, by the trial or by verify; what cannot be read is named."""
    path, _ = recorded(tmp_path, kind, trial_ms=300)
    assert not recwarn.list
    report = verify_tape(path, world=kind)
    assert report.ok
    print_report(path, report)
    assert (
        "restore its values, as far as they can be read (not those of _thread.lock)"
        in capsys.readouterr().out.replace("restores", "restore")
    )


def test_an_object_of_c_code_that_outlives_a_reset_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is known of what an episode leaves in it. The one that each reset makes again is not named."""
    path, _ = recorded(tmp_path, traps.Maps)
    report = verify_tape(path, world=traps.Maps)
    assert report.ok
    print_report(path, report)
    assert "(not those of Maps.engine (outlives a reset), _thread.lock, mmap.mmap)" in capsys.readouterr().out


def test_what_is_shared_with_something_that_cannot_be_saved_stays_shared() -> None:
    """A restore that made one of the two again would part them."""
    simulation = adapt(traps.Entangled(), level="inputs_only")
    simulation.step({"reset": 1})
    simulation.step(1)
    kept = simulation.state.snapshot()
    simulation.step({"reset": 2})
    restore(simulation, kept)
    env = simulation.subject
    assert env.units[0] is env.locked[0][0]
    assert env.units == [{"health": 1}]


def test_a_used_instance_lets_go_of_what_its_last_reset_made(tmp_path: Path) -> None:
    """Before the first reset there was none of it, but a world that cannot be saved still has it."""
    path, seen = recorded(tmp_path, traps.LetsGo, lambda env: len(env.world.parts))
    with replayer.open(path, world=traps.LetsGo) as run:
        for tick in (5, 30, 4, 3):
            run.seek(tick)
            assert len(run.subject.world.parts) == seen[tick - 1] == 2


def test_a_fresh_instance_is_reset_first_if_only_a_reset_makes_what_cannot_be_saved(tmp_path: Path) -> None:
    """The second episode was recorded in an instance that had it."""
    path, seen = recorded(tmp_path, traps.Grows, lambda env: (len(env.engines), env.made.heat))
    for tick in (20, 3):
        with replayer.open(path, world=traps.Grows) as run:
            run.seek(tick)
            assert (len(run.subject.engines), run.subject.made.heat) == seen[tick - 1]


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize(
    ("kind", "named"), [(traps.Heats, "Heats.engine.heat"), (traps.CountsInClosure, "CountsInClosure.count")]
)
@pytest.mark.tried
def test_the_trial_names_what_outlives_a_reset(tmp_path: Path, kind: Any, named: str) -> None:
    """With the remedy. What the user leaves out is neither restored nor compared."""
    with pytest.warns(RecordingWarning, match=rf"{named}.*is not saved and outlives a reset.*ignore=\['{named}'\]"):
        recorded(tmp_path, kind, trial_ms=BUDGET_MS)
    (tmp_path / "run.tape").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path, _ = recorded(tmp_path, kind, trial_ms=BUDGET_MS, ignore=[named])
    assert verify_tape(path, world=lambda: adapt(kind(), level="inputs_only", ignore=[named])).ok


@pytest.mark.tried
@pytest.mark.seldom(0.15)
def test_the_trial_names_a_value_that_no_run_repeats(tmp_path: Path) -> None:
    """Such as a time; nothing is said of a restore."""
    with pytest.warns(
        RecordingWarning, match=r"ReadsClock.at differs between two equal runs .*ignore=\['ReadsClock.at'\]"
    ):
        recorded(tmp_path, traps.ReadsClock, trial_ms=BUDGET_MS)


def test_a_value_that_no_repeat_gives_again_accuses_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All ticks match, in other processes than the recorded one: that keyframes have other values is no evidence."""
    kind = traps.KeepsProcessId
    in_a_copy(lambda: {"path": str(recorded(tmp_path, kind)[0])})
    path, named = tmp_path / "run.tape", "KeepsProcessId.client.heat"
    report = verify_tape(path, world=kind)
    assert (report.ok, report.wrong_keyframes, report.not_repeated) == (True, [], named)
    print_report(path, report)
    said = f"prove nothing: {named} differed between two repeats"
    assert f"all 44 ticks match the recording; the values at 8 keyframes {said}" in capsys.readouterr().out
    sim = "trapped_environments:KeepsProcessId"
    assert code(["follow", str(path), "--sim", sim]) == SAME
    assert capsys.readouterr().out.count(said) == 8


def test_a_golden_tape_warns_of_values_that_prove_nothing(tmp_path: Path) -> None:
    """The test passes, since all ticks match, and does not do so silently."""
    kind, path, options = traps.KeepsProcessId, tmp_path / "golden.tape", {"level": "inputs_only", "quiet": True}
    in_a_copy(
        lambda: {"tick": record_golden(path, kind, lambda env: play(env, 12), keyframe_interval_ticks=5, **options)}
    )
    with pytest.warns(RecordingWarning, match=r"golden.tape: the values at 2 keyframes prove nothing: .*client.heat"):
        assert compare_golden(path, kind, lambda env: play(env, 12), keyframe_interval_ticks=5, **options) is None


def test_a_value_that_no_repeat_gives_again_hides_no_wrong_keyframe(tmp_path: Path) -> None:
    """Each keyframe is repeated: at tick 5 two repeats differ; at tick 10 they are equal, and not as recorded."""
    kind = traps.KeepsProcessIdFirst
    in_a_copy(lambda: {"path": str(recorded(tmp_path, kind)[0])})
    path, named = tmp_path / "run.tape", "KeepsProcessIdFirst.client.heat"
    report = verify_tape(path, world=kind)
    assert (report.ok, report.not_repeated, report.unrepeated_keyframes) == (False, named, 1)
    assert [one.tick for one in report.wrong_keyframes] == [10, 15, 20, 25, 30, 35, 40]
    checks = list(LiveVerifier(path, kind).poll())
    assert [one.first_tick for one in checks if one.problem] == [one.tick for one in report.wrong_keyframes]
    assert [one.first_tick for one in checks if one.not_repeated == named] == [5]


def test_nothing_is_compared_before_the_first_reset(tmp_path: Path) -> None:
    """What an environment draws without a seed when it is made, a reset with a seed draws again."""

    class DrawsWhenMade(traps.Cools):
        def __init__(self) -> None:
            super().__init__()
            self.place = {"x": np.random.default_rng().random()}

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            found = super().reset(seed=seed)
            self.place = {"x": self.np_random.random()}
            return found

    path, _ = recorded(tmp_path, DrawsWhenMade)
    assert verify_tape(path, world=DrawsWhenMade).ok


def test_no_copy_is_made_of_what_closes_something_at_its_end(tmp_path: Path) -> None:
    """The end of a copy would close the connection of the run, live and in a replay."""
    path, seen = recorded(tmp_path, traps.Connected, lambda env: env.x)
    with replayer.open(path, world=traps.Connected) as run:
        for tick in (30, 7, 42):
            run.seek(tick)
            assert run.subject.x == seen[tick - 1]
            run.simulation.step(1)  # It is connected.
    assert verify_tape(path, world=traps.Connected).ok


@pytest.mark.parametrize("name", ["Heats.engine", "Heats.lock", "Engine.heat", "Heats.engine.heat"])
def test_names_to_leave_out_of_what_cannot_be_saved(name: str) -> None:
    """They are looked for in all objects, saved or not."""
    assert adapt(traps.Heats(), level="inputs_only", ignore=[name]) is not None


@pytest.mark.parametrize("name", ["Heats.engin", "Engine.heats", "engine", "Other.heat"])
def test_a_name_to_leave_out_that_matches_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="which matches nothing"):
        adapt(traps.Heats(), level="inputs_only", ignore=[name])
