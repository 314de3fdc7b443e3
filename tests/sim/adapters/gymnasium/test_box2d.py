"""Environments over Box2D, whose state nothing can save: refused by name, and at which level they keep what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.conformance.contract_checks import FRESH, USED, Subject, check_run
from recorder.testing import SimulationContract
from replayer.commands.check_adapter import check_level
from replayer.diagnose.hidden_state.value_kinds import kind_of
from sim.adapters import NotCapturedError, adapt
from sim.adapters.capture.survey import type_name

gymnasium = pytest.importorskip("gymnasium")

import environments as zoo  # noqa: E402
from gymnasium_runs import last_result, record_run  # noqa: E402


class Unplaced(type):
    """Makes classes that do not know their module, as SWIG does."""

    @property
    def __module__(cls) -> str:  # type: ignore[override]
        raise AttributeError("__module__")


class Pointer(metaclass=Unplaced):
    """Stands for an address that C code has given."""

    __slots__ = ()


class WithAPointer(zoo.Drift):
    def __init__(self) -> None:
        super().__init__()
        self.world = Pointer()


def test_classes_without_a_module_are_named_and_not_a_traceback(tmp_path: Path) -> None:
    """SWIG's are such; the refusal says what there is to choose."""
    assert type_name(Pointer()) == "Pointer"
    with pytest.raises(NotCapturedError, match=r"WithAPointer.world \(Pointer\).*level='inputs_only'"):
        recorder.record(WithAPointer(), tmp_path / "run.tape")


class Proxy:
    """What SWIG makes of a C++ object: its attributes are addresses."""

    __swig_destroy__ = None

    def __init__(self) -> None:
        self.this = 1234


def test_what_swig_made_is_never_put_into_another_simulation() -> None:
    """Trying whether it matters would end the process."""
    assert kind_of(Proxy) == "opaque"
    assert kind_of(Pointer) == "opaque"


class Engine:
    """A world that remembers the episode before, and that nothing saves."""

    __slots__ = ("heat",)


class WarmWorld(zoo.Drift):
    """Makes its world once, and not at each reset."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()
        self.engine.heat = 0.0

    def step(self, action: Any) -> Any:
        self.engine.heat += 0.25
        self.x[1] += self.engine.heat
        return super().step(action)


def test_a_world_that_outlives_a_reset_does_not_keep_inputs_only() -> None:
    """And the load says what may be the matter."""
    subject = Subject(lambda: adapt(WarmWorld(), level="inputs_only"))
    found = check_run(subject, subject.live(1, 120))
    assert {FRESH, USED} & {one.trial for one in found}
    assert "something outlives a reset" in " ".join(map(str, found))


def lander() -> Any:
    return gymnasium.make("LunarLander-v3")


def walker() -> Any:
    return gymnasium.make("BipedalWalker-v3")


def new_worlds() -> Any:
    """As docs/adapt.md has it."""
    box2d = pytest.importorskip("Box2D")

    class NewWorld(gymnasium.Wrapper):
        def reset(self, **arguments: Any) -> Any:
            inner = self.env.unwrapped
            inner._destroy()
            inner.world = box2d.b2World()
            return self.env.reset(**arguments)

    return NewWorld(walker())


def test_a_physics_engine_without_a_save_is_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("Box2D")
    for make in (lander, walker, lambda: gymnasium.make("CarRacing-v3")):
        with pytest.raises(NotCapturedError, match=r"world\.this \(SwigPyObject\).*level='inputs_only'"):
            recorder.record(make(), tmp_path / "run.tape")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("make", [lander, new_worlds])
def test_with_a_world_of_its_own_each_episode_is_given_again_by_its_inputs(make: Any, tmp_path: Path) -> None:
    """LunarLander makes one; BipedalWalker does with a wrapper. Any tick, in any order, in one used instance."""
    pytest.importorskip("Box2D")
    results = record_run(tmp_path / "run.tape", make(), 300, 1, level="inputs_only", keyframe_interval_ticks=40)
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        assert len(run.episodes) > 1
        assert run.verify().ok
        for tick in (290, 31, 230, 120, 121):
            run.seek(tick)
            assert last_result(run.simulation) == results[tick - 1]


def test_a_world_that_is_used_again_shows_in_the_replay(tmp_path: Path) -> None:
    """BipedalWalker's own: the recording says so, never another walk than the recorded one."""
    pytest.importorskip("Box2D")
    record_run(tmp_path / "run.tape", walker(), 300, 1, level="inputs_only", keyframe_interval_ticks=40)
    with replayer.open(tmp_path / "run.tape") as run:
        assert not run.verify().ok


@pytest.mark.long
class TestLander(SimulationContract):
    ticks = 150

    def make(self) -> Any:
        pytest.importorskip("Box2D")
        return adapt(lander(), level="inputs_only")


@pytest.mark.long
def test_check_says_which_one_keeps_its_level() -> None:
    """On eight seeds, with whole episodes; trying the suspects ends no process."""
    pytest.importorskip("Box2D")
    for make, kept in ((walker, False), (new_worlds, True)):
        subject = Subject(lambda make=make: adapt(make(), level="inputs_only"))
        assert check_level(subject, subject.simulation(), ticks=250, seeds=3).ok is kept
