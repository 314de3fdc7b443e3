"""Plain Python objects: the named attributes are the state; pickle is used only with trust=True."""

from __future__ import annotations

import enum
import random
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from sim.adapters import NoAdapterError, NotCapturedError, adapt, fields

from small_worlds import Walkers


class Mood(enum.Enum):
    CALM = 1
    WILD = 2


class Life:
    """A grid, a view of it, a time, a generator, and attributes that are not state."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(4)
        self.grid = self.rng.integers(0, 2, (6, 6))
        self.row = self.grid[2]
        self.t = 0
        self.speed = 0.0
        self.mood = Mood.CALM
        self.names = ["a"]
        self.cache: dict[int, int] = {}

    def step(self, inputs: Any) -> int:
        self.t += 1
        self.cache[self.t] = 1
        self.grid = np.roll(self.grid, int(inputs or 0)) if self.t % 40 == 0 else self.grid
        self.row = self.grid[2]
        self.row[self.t % 6] += self.rng.integers(0, 3, dtype=np.uint32)
        self.speed = -self.speed if self.t % 3 else self.speed + (self.t % 5 == 0) * 0.5
        self.mood = Mood.WILD if self.t % 4 == 0 else Mood.CALM
        if self.t % 9 == 0:
            self.names.append(str(self.t))
        return self.t


WHAT = fields("grid", "row", "t", "speed", "mood", "names", rng="rng")


def history(life: Life) -> Any:
    """The named attributes as plain data."""
    return life.grid.tolist(), life.row.tolist(), life.t, repr(life.speed), life.mood, list(life.names)


def record_life(path: Path, **choices: Any) -> list[Any]:
    """Record 200 steps, and return the live object's attributes at each tick."""
    life = Life()
    recorded = recorder.record(life, path, WHAT, quiet=True, keyframe_interval_ticks=32, **choices)
    live = [history(life)]
    with recorded:
        for tick in range(200):
            assert recorded.step(tick % 3) == tick + 1
            live.append(history(life))
    return live


def test_an_object_with_named_fields_is_recorded_and_sought(tmp_path: Path) -> None:
    """Every named attribute is restored, and the view still shares its memory."""
    live = record_life(tmp_path / "run.tape")
    with replayer.open(tmp_path / "run.tape", world=Life) as run:
        for tick in (150, 3, 64, 199, 40):
            run.seek(tick)
            life = run.simulation.subject
            assert history(life) == live[tick]
            assert np.shares_memory(life.row, life.grid)
        assert run.verify().ok
        assert run.state["Life.t"] == 40


def test_a_field_that_is_missing_is_found_by_the_replay(tmp_path: Path) -> None:
    """Without the generator the replay diverges from the run: a desync, not a silent difference."""
    recorded = recorder.record(Life(), tmp_path / "run.tape", fields("grid", "row", "t"), quiet=True,
                               keyframe_interval_ticks=32, trial_ms=0)  # fmt: skip
    for _ in range(100):
        recorded.step(0)
    recorded.close()
    with replayer.open(tmp_path / "run.tape", world=Life) as run:
        assert run.verify().first_bad == 33


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (fields("grit"), "Life has no attribute grit"),
        (fields("t", rng="t"), "Life.t: expected a random generator, got int"),
        (
            fields("t", step="advance"),
            r'Life has no method advance\(\): name the one .* step="step"; it has the methods step$',
        ),
    ],
)
def test_mistakes_are_one_clear_line(what: Any, message: str, tmp_path: Path) -> None:
    """A refusal writes nothing."""
    with pytest.raises(TypeError, match=message):
        recorder.record(Life(), tmp_path / "run.tape", what)
    assert not list(tmp_path.iterdir())


class HalfInSlots:
    """An object with an attribute in a slot, which is not in its dict."""

    __slots__ = ("__dict__", "x")

    def __init__(self) -> None:
        self.x, self.y = 1, 2

    def step(self, _: Any) -> None:
        self.x += self.y


def test_attributes_in_slots_are_never_left_out_silently(tmp_path: Path) -> None:
    """fields() captures all attributes, and those in slots cannot be captured."""
    for trust in (False, True):
        with pytest.raises(NotCapturedError, match=r"HalfInSlots.x \(in __slots__\)"):
            recorder.record(HalfInSlots(), tmp_path / "run.tape", fields(), trust=trust)
    assert not list(tmp_path.iterdir())


def test_an_object_has_no_inputs_since_a_reset(tmp_path: Path) -> None:
    """The level inputs_only is refused, and is not offered for a value that cannot be saved."""
    with pytest.raises(ValueError, match=r"^level='inputs_only' is not available: an object has no reset"):
        recorder.record(Life(), tmp_path / "run.tape", WHAT, level="inputs_only")
    with pytest.raises(NotCapturedError, match=r"Or leave out .*ignore=.* or give it \.save\(\)") as refused:
        recorder.record(Waiting(), tmp_path / "run.tape", fields())
    assert "inputs_only" not in str(refused.value)
    assert not list(tmp_path.iterdir())


class OnlySlots:
    __slots__ = ("x",)

    def step(self) -> None:
        self.x = 1


def test_an_object_without_attributes_in_a_dict_is_refused(tmp_path: Path) -> None:
    """The message lists the options."""
    with pytest.raises(NoAdapterError, match=r"no adapter for .*OnlySlots, and it has no __dict__.*\.save\(\)"):
        recorder.record(OnlySlots(), tmp_path / "run.tape")
    with pytest.raises(
        NoAdapterError, match=r"^Walkers has its state in a sim\.State: record it with recorder\.Recorder"
    ):
        recorder.record(Walkers(), tmp_path / "run.tape")
    assert not list(tmp_path.iterdir())


# --- pickle


class Agent:
    __slots__ = ("name", "x")

    def __init__(self, name: str) -> None:
        self.name, self.x = name, 0


class Crowd:
    def __init__(self) -> None:
        self.agents = [Agent(f"agent {number}") for number in range(3)]
        self.first = self.agents[0]
        self.random = random.Random(1)

    def step(self, _: Any) -> None:
        agent = self.random.choice(self.agents)
        agent.x += 1
        if agent.x > 5:
            self.agents.append(Agent("agent 0"))
            agent.x = 0
        self.first.x += 1


class EzPickle:
    """Like Gymnasium's EzPickle: only the constructor's arguments are pickled."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Engine(EzPickle):
    __slots__ = ("speed",)


class WithEngine:
    def __init__(self) -> None:
        self.engine = Engine()

    def step(self, _: Any) -> None:
        self.engine.speed = getattr(self.engine, "speed", 0) + 1


class Waiting:
    """Holds a generator, whose position no program can read."""

    def __init__(self) -> None:
        self.turns = [0, 1, 2], (one for one in range(3))

    def step(self, _: Any) -> None:
        next(self.turns[1], None)


def test_objects_in_lists_are_restored_with_their_sharing(tmp_path: Path) -> None:
    """Without pickle, and so without the user's trust: by their attributes."""
    crowd = Crowd()
    recorded = recorder.record(crowd, tmp_path / "run.tape", fields(), quiet=True, keyframe_interval_ticks=20)
    live = []
    for _ in range(90):
        recorded.step(None)
        live.append([(agent.name, agent.x) for agent in crowd.agents])
    recorded.close()

    with replayer.open(tmp_path / "run.tape", world=lambda: adapt(Crowd(), fields())) as run:
        for tick in (77, 21, 90):
            run.seek(tick)
            found = run.simulation.subject
            assert [(agent.name, agent.x) for agent in found.agents] == live[tick - 1]
            assert found.first is found.agents[0]
        assert run.verify().ok


def test_an_object_that_pickle_saves_in_part_is_saved_by_its_attributes(tmp_path: Path) -> None:
    """EzPickle keeps only the arguments that an object was made with."""
    subject = WithEngine()
    recorded = recorder.record(subject, tmp_path / "run.tape", fields(), quiet=True)
    for _ in range(5):
        recorded.step(None)
    recorded.close()
    with replayer.open(tmp_path / "run.tape", world=lambda: adapt(WithEngine(), fields())) as run:
        for tick in (4, 1):
            run.seek(tick)
            assert run.subject.engine.speed == tick


class Namespaced:
    """Settings without a class of their own, as an attribute and in a list."""

    def __init__(self) -> None:
        self.settings = types.SimpleNamespace(speed=2)
        self.bodies = [types.SimpleNamespace(x=0), types.SimpleNamespace(x=1, tag="b")]

    def step(self, _: Any) -> None:
        """Move everything."""
        for body in self.bodies:
            body.x += self.settings.speed


def test_simple_namespaces_are_saved(tmp_path: Path) -> None:
    """Their dict is a member of their class, as a slot is."""
    with recorder.record(Namespaced(), tmp_path / "run.tape", quiet=True) as recorded:
        for _ in range(5):
            recorded.step(None)
    with replayer.open(tmp_path / "run.tape", world=Namespaced) as run:
        run.seek(3)
        assert run.subject.bodies == [types.SimpleNamespace(x=6), types.SimpleNamespace(x=7, tag="b")]
        assert run.verify().ok


def test_pickle_is_imported_in_one_module_behind_one_function() -> None:
    """Only make_pickler gives access to the loads of pickle_trusted.py.

    kept_start.py reads what the same object wrote, and takes no bytes from anywhere.
    """
    source = Path(sys.modules["sim.adapters.capture.pickle_trusted"].__file__ or "").read_text(encoding="utf-8")
    others = [path for path in Path(recorder.__file__).parents[1].rglob("*.py") if path.name != "pickle_trusted.py"]
    importing = [path for path in others if "import pickle" in path.read_text(encoding="utf-8")]

    assert "import pickle" in source
    assert [path.name for path in importing] == ["kept_start.py"]
    assert importing[0].read_text(encoding="utf-8").count("_Unpickler(io.BytesIO(self._pickle)") == 1
    assert importing[0].read_text(encoding="utf-8").count("_Unpickler(") == 2, "its class, and that one call"
    assert [path.name for path in others if "make_pickler" in path.read_text(encoding="utf-8")] == ["find_adapter.py"]
