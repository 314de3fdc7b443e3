"""A simulation's own methods layers, points and render: what they return is shown, and nothing they do reaches the run."""

from __future__ import annotations

import random
import struct
import tomllib
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import recorder
import replayer
from replayer.view.states.frame_encoding import EncodedTick
from replayer.view.worker.page_jobs import ViewSelection
from replayer.view.worker.view_cursor import ViewCursor
from replayer.view.worker.view_facts import view_facts
from sim import Field, Schema, State
from sim.worlds.meadow import WORLD, Meadow

from oracle.command_lines import TINY
from small_worlds import record

TICKS = 12


class Ant:
    """A plain object with all three methods; each of them also spoils the object, and draws random numbers."""

    render_mode = "rgb_array"

    def __init__(self) -> None:
        self.at = 0
        self.trail = [0] * 12

    def step(self) -> None:
        self.trail[self.at] += 1
        self.at = (self.at + 5) % 12

    def spoil(self) -> None:
        self.at, self.trail = 99, [-1] * 12
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002 - as users do

    def layers(self) -> dict[str, Any]:
        shown = {"trail": np.array(self.trail).reshape(3, 4)}
        self.spoil()
        return shown

    def points(self) -> dict[str, Any]:
        shown = {"ant": [[self.at % 4 + 0.5, self.at // 4 + 0.5, self.trail[self.at]]], "none": []}
        self.spoil()
        return shown

    def render(self) -> Any:
        picture = np.full((2, 2, 3), self.at, np.uint8)
        self.spoil()
        return picture


class SavedAnt(Ant):
    """The same by save and load."""

    def save(self) -> dict[str, Any]:
        return {"at": np.array(self.at), "trail": np.array(self.trail)}

    def load(self, saved: Any) -> None:
        self.at, self.trail = int(saved["at"]), saved["trail"].tolist()

    def step(self, _: Any = None) -> None:  # type: ignore[override]
        super().step()


class ArenaAnt:
    """The same with a State; its layer is a view of the state, which points() overwrites."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("trail", "i8", (3, 4)), Field("at", "i8")))

    def step(self, _: Any) -> None:
        at = int(self.state["at"])
        self.state["trail"].reshape(-1)[at] += 1
        self.state["at"][...] = (at + 5) % 12

    def layers(self) -> dict[str, Any]:
        return {"own trail": self.state["trail"]}

    def points(self) -> dict[str, Any]:
        at = int(self.state["at"])
        self.state["trail"][...] = -7
        return {"ant": np.array([[at % 4 + 0.5, at // 4 + 0.5]])}


def truth_at(tick: int) -> Ant:
    """An ant that was stepped by a plain loop."""
    ant = Ant()
    for _ in range(tick):
        ant.step()
    return ant


def record_ant(path: Path, kind: type[Any]) -> None:
    """A tape of TICKS steps."""
    if kind is Ant:
        with recorder.record(Ant(), path) as played:
            for _ in range(TICKS):
                played.step()
    else:
        record(path, kind(), [None] * TICKS, keyframe_interval_ticks=5)


def values_of(encoded: EncodedTick, name: str) -> np.ndarray[Any, Any]:
    """A layer's bytes, decoded by the layout of frame_encoding."""
    _, kind, steps, width, height, size, low, high = struct.unpack_from("<HBBIIIdd", encoded.layers[name])
    codes = np.frombuffer(encoded.layers[name], np.uint8, size, 32)
    return codes.reshape(height, width, 3) if kind == 1 else low + codes.reshape(height, width) / steps * (high - low)


def points_of(encoded: EncodedTick) -> dict[int, list[tuple[float, ...]]]:
    """The points by the number of their kind."""
    found, at = {}, 0
    while at < len(encoded.points):
        kind, count = struct.unpack_from("<II", encoded.points, at)
        found[kind] = [struct.unpack_from("<fff", encoded.points, at + 8 + 12 * row) for row in range(count)]
        at += 8 + 12 * count
    return found


@pytest.mark.parametrize("kind", [Ant, SavedAnt, ArenaAnt])
def test_they_are_seen_and_the_run_stays_as_recorded(tmp_path: Path, kind: type[Any]) -> None:
    """In any order of ticks, although each call changes the state and both generators of random numbers."""
    record_ant(tmp_path / "run.tape", kind)
    cursor = ViewCursor(tmp_path / "run.tape", kind)
    layer, has_picture = ("own trail", False) if kind is ArenaAnt else ("trail", True)
    assert cursor.shown.names[: 1 + has_picture] == [*(["picture"] if has_picture else []), layer]
    generators = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[union-attr]  # noqa: NPY002
    for tick in (0, TICKS, 7, 6, 7, 1):
        truth = truth_at(tick)
        assert cursor.walk(tick, lambda: False)
        snapshot, shown = cursor.state(tick)
        encoded = cursor.encode(snapshot, shown, ViewSelection(tuple(cursor.shown.names), exact=True))
        assert encoded.state_hash == cursor.run.tape.state_hash(tick)
        assert encoded.exact[layer].reshape(-1).tolist() == truth.trail
        ((x, y, size),) = points_of(encoded)[0]
        assert (x, y) == (truth.at % 4 + 0.5, truth.at // 4 + 0.5)
        assert np.isnan(size) if kind is ArenaAnt else size == truth.trail[truth.at]
        if has_picture:
            assert (values_of(encoded, "picture") == truth.at).all()
        assert cursor.run.state.hash() == cursor.run.tape.state_hash(tick)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == generators  # type: ignore[union-attr]  # noqa: NPY002
    assert cursor.shown.problems == {}


class Shared(Ant):
    """One object for all who ask for it."""

    @classmethod
    def make(cls) -> Shared:
        """The object."""
        if not hasattr(cls, "one"):
            cls.one = cls()
        return cls.one


def test_a_factory_that_returns_one_object_is_restored(tmp_path: Path) -> None:
    """The copy is then the run's own object: the next seek puts it back."""
    with recorder.record(Shared(), tmp_path / "run.tape") as played:
        for _ in range(TICKS):
            played.step()
    cursor = ViewCursor(tmp_path / "run.tape", Shared.make)
    for tick in (3, 4, 9, 2):
        snapshot, shown = cursor.state(tick)
        encoded = cursor.encode(snapshot, shown, ViewSelection(("trail",)))
        assert encoded.state_hash == cursor.run.tape.state_hash(tick)
        assert values_of(encoded, "trail").reshape(-1).round().tolist() == truth_at(tick).trail


class Wrong:
    """Counts steps; what the methods return is chosen by a test."""

    returned: Any = None

    def __init__(self) -> None:
        self.count = 0
        self.grid = np.zeros((4, 4))

    def step(self) -> None:
        self.count += 1
        self.grid[0, 0] = self.count

    def layers(self) -> Any:
        if self.count == 3:
            raise ZeroDivisionError("no\nday")
        return self.returned


@pytest.mark.parametrize(
    ("returned", "first", "said"),
    [
        ({"heat": [[1, 2], [3, 4]]}, 3, "layers() raised ZeroDivisionError: no day (test_user_hooks.py:"),
        ([1, 2], 0, "layers(): expected a mapping of names to arrays, got list"),
        ({"heat": [1, 2]}, 0, "layers(): 'heat': expected numbers of two dimensions, got (2,) int64"),
        ({"heat": [[1, 2], [3]]}, 0, "layers(): 'heat': "),
        ({"heat": [["a", "b"]]}, 0, "layers(): 'heat': expected numbers of two dimensions, got (1, 2) str"),
        ({"x" * 201: [[1]]}, 0, "layers(): expected names of at most 200 characters"),
        ({7: [[1]]}, 0, "layers(): expected names of at most 200 characters, got 7"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returned: Any, first: int, said: str
) -> None:
    """With its tick; fields are shown all the same."""
    monkeypatch.setattr(Wrong, "returned", returned)
    with recorder.record(Wrong(), tmp_path / "run.tape") as played:
        for _ in range(5):
            played.step()
    cursor = ViewCursor(tmp_path / "run.tape", Wrong)
    assert "Wrong.grid" in cursor.shown.names
    for tick in range(6):
        snapshot, shown = cursor.state(tick)
        encoded = cursor.encode(snapshot, shown, ViewSelection(tuple(cursor.shown.names), exact=True))
        assert encoded.exact["Wrong.grid"][0, 0] == tick
        if "heat" in cursor.shown.names:
            assert (encoded.layers["heat"] == b"") == (tick == 3)
    ((tick, why),) = cursor.shown.problems.values()
    assert tick == first
    assert why.startswith(said)
    assert "\n" not in why
    assert view_facts(cursor)["hook_problems"] == [[tick, why]]


class Unrelated:
    """Has all three names for its own purposes."""

    def __init__(self) -> None:
        self.layers = 3
        self.points = 10
        self.grid = np.zeros((4, 4))

    def step(self) -> None:
        self.points += 1

    def render(self, surface: Any) -> None:
        raise AssertionError(f"it needs a surface, not {surface}")


class Window(Unrelated):
    """Draws into a window when asked."""

    def render(self) -> None:  # type: ignore[override]
        raise AssertionError("a window would open")


@pytest.mark.parametrize("kind", [Unrelated, Window])
def test_other_members_of_these_names_are_left_alone(tmp_path: Path, kind: type[Any]) -> None:
    """Attributes, methods with parameters, and a render() that has no render_mode = "rgb_array"."""
    with recorder.record(kind(), tmp_path / "run.tape") as played:
        for _ in range(3):
            played.step()
    cursor = ViewCursor(tmp_path / "run.tape", kind)
    assert cursor.shown.names == [f"{kind.__name__}.grid"]
    assert not cursor.shown.has_picture
    assert cursor.shown.problems == {}
    cursor.encode(*cursor.state(2), ViewSelection(tuple(cursor.shown.names)))
    assert cursor.shown.problems == {}


def test_a_world_makes_only_the_layers_that_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each equals the one among all layers."""
    config = tomllib.loads(TINY)
    tape = tmp_path / "run.tape"
    record(tape, Meadow(config), [[]] * 5)
    with replayer.open(tape) as opened:
        config, snapshot = opened.tape.meta["world"]["config"], opened.at(5)
    every = WORLD.layers(config, snapshot)  # type: ignore[misc]
    assert len(every) > 3
    for name, values in every.items():
        assert np.array_equal(WORLD.layer(config, snapshot, name), values)  # type: ignore[misc]
    asked: list[str] = []

    def layer(config: Any, snapshot: Any, name: str) -> Any:
        asked.append(name)
        return WORLD.layer(config, snapshot, name)  # type: ignore[misc]

    world = attrs.evolve(WORLD, layer=layer)
    monkeypatch.setattr("replayer.view.states.shown_layers.world_of", lambda _: world)
    cursor = ViewCursor(tape, None)
    name = list(every)[2]
    encoded = cursor.encode(*cursor.state(5), ViewSelection((name,), exact=True))
    assert asked == [name]
    assert np.array_equal(encoded.exact[name], every[name])
