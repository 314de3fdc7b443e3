"""Environments over Box2D, whose state cannot be saved: they are refused by name, or recorded with inputs_only."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.ambient.value_kinds import kind_of
from recorder.conformance.contract_checks import FRESH, USED, Subject, check_run
from recorder.testing import SimulationContract
from replayer.commands.check_adapter import check_level
from sim.adapters import NotCapturedError, adapt
from sim.adapters.capture.survey import type_name

gymnasium = pytest.importorskip("gymnasium")

import environments as zoo  # noqa: E402
from gymnasium_runs import last_result, record_run  # noqa: E402


class Unplaced(type):
    """Makes classes without a module, as SWIG does."""

    @property
    def __module__(cls) -> str:  # type: ignore[override]
        raise AttributeError("__module__")


class Pointer(metaclass=Unplaced):
    """Stands for an address from C code."""

    __slots__ = ()
    __swig_destroy__ = None


class WithAPointer(zoo.Drift):
    def __init__(self) -> None:
        super().__init__()
        self.world = Pointer()


def test_classes_without_a_module_are_named_and_not_a_traceback(tmp_path: Path) -> None:
    """SWIG makes such classes; the refusal lists the options."""
    assert type_name(Pointer()) == "Pointer"
    with pytest.raises(NotCapturedError, match=r"WithAPointer.world \(Pointer\).*level='inputs_only'"):
        recorder.record(WithAPointer(), tmp_path / "run.tape")


class Proxy:
    """A C++ object as SWIG wraps it: its attributes are addresses."""

    __swig_destroy__ = None

    def __init__(self) -> None:
        self.this = 1234


def test_a_swig_object_is_never_put_into_a_different_simulation() -> None:
    """The trial would end the process."""
    assert kind_of(Proxy) == "opaque"
    assert kind_of(Pointer) == "opaque"


class Engine:
    """A world that remembers the previous episode, and that cannot be saved."""

    __slots__ = ("heat", "lock")


class WarmWorld(zoo.Drift):
    """Makes its world once, not at each reset."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()
        self.engine.heat = 0.0
        self.engine.lock = threading.Lock()

    def step(self, action: Any) -> Any:
        self.engine.heat += 0.25
        self.x[1] += self.engine.heat
        return super().step(action)


def test_a_world_that_outlives_a_reset_does_not_keep_inputs_only() -> None:
    """The message of the load names the possible cause."""
    subject = Subject(lambda: adapt(WarmWorld(), level="inputs_only"))
    found = check_run(subject, subject.live(1, 120))
    assert {FRESH, USED} & {one.trial for one in found}
    assert "something outlives a reset" in " ".join(map(str, found))


def lander() -> Any:
    return gymnasium.make("LunarLander-v3")


def walker() -> Any:
    return gymnasium.make("BipedalWalker-v3")


def new_worlds() -> Any:
    """The wrapper of docs/adapt.md."""
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
def test_with_a_new_world_each_episode_is_reproduced_by_its_inputs(make: Any, tmp_path: Path) -> None:
    """LunarLander makes a new world; BipedalWalker does with a wrapper. Ticks in any order, in one used instance."""
    pytest.importorskip("Box2D")
    results = record_run(tmp_path / "run.tape", make(), 300, 1, level="inputs_only", keyframe_interval_ticks=40)
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        assert len(run.episodes) > 1
        assert run.verify().ok
        for tick in (290, 31, 230, 120, 121):
            run.seek(tick)
            assert last_result(run.simulation) == results[tick - 1]


def test_a_world_that_is_used_again_shows_in_the_replay(tmp_path: Path) -> None:
    """BipedalWalker reuses its world: a seek reports this, and never shows a walk that differs from the recorded one."""
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
def test_check_reports_the_environments_that_keep_their_level() -> None:
    """Eight seeds with complete episodes; trying the suspects ends no process."""
    pytest.importorskip("Box2D")
    for make, kept in ((walker, False), (new_worlds, True)):
        subject = Subject(lambda make=make: adapt(make(), level="inputs_only"))
        assert check_level(subject, subject.simulation(), ticks=250, seeds=3).ok is kept
