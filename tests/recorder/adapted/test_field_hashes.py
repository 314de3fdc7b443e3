"""Per-field hashes of recorded objects and environments: what frames hold, and what a finding says."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import recorder
from replayer import Tape, verify_tape
from replayer.desync.object_diff import shown_fields
from replayer.timeline.verify import VerificationReport

from oracle.second_checks import CheckedTape, field_hashes

BAD_TICK = 23


class Unit:
    def __init__(self) -> None:
        self.hp = 100.0
        self.tags = {"scout"}


class Game:
    """A unit loses health at each step."""

    mistake = 0.0

    def __init__(self) -> None:
        self.rng = random.Random(5)
        self.units = [Unit() for _ in range(6)]
        self.turn = 0

    def step(self, order: int = 0) -> int:
        self.turn += 1
        self.units[order].hp -= self.rng.random() + (self.mistake if self.turn == BAD_TICK else 0.0)
        return self.turn


class Edited(Game):
    """Another version of the game, which goes wrong at one tick."""

    mistake = 1e-9


Edited.__name__, Edited.__qualname__ = Game.__name__, Game.__qualname__  # The same class for the tape.


def record_game(path: Path, **options: Any) -> None:
    """Sixty steps."""
    game = recorder.record(Game(), path, quiet=True, trial_ms=0, **options)
    with recorder.tape_of(game):
        for tick in range(60):
            game.step(tick % 6)


def record_cart(path: Path, **options: Any) -> list[Any]:
    """A reset and 25 steps; the states of the ticks."""
    gymnasium = pytest.importorskip("gymnasium")
    env = recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True, trial_ms=0, **options)
    env.reset(seed=2)
    states = [None, tuple(env.unwrapped.state)]
    for step in range(25):
        env.step(step % 2)
        states.append(tuple(env.unwrapped.state))
    env.close()
    return states


def frames_with_hashes(path: Path) -> tuple[int, int]:
    """How many frames have per-field hashes, of how many frames."""
    with Tape(path) as tape:
        frames = [tape.frame(tick) for tick in range(1, tape.last_tick + 1)]
    return sum(bool(frame.field_hashes) for frame in frames), len(frames)


def shown(report: VerificationReport) -> list[str] | None:
    """The fields that differ at the first divergent tick, as the report names them."""
    fields = report.findings[0].place.fields
    return None if fields is None else list(shown_fields(fields))


@pytest.mark.parametrize(("make", "options"), [(record_game, {}), (record_cart, {"blame": "fields"})])
def test_record_and_environments_have_per_field_hashes(tmp_path: Path, make: Any, options: dict[str, Any]) -> None:
    """Each frame has them, and they are those of a second reader's states; an environment has them on request."""
    path = tmp_path / "run.tape"
    make(path, keyframe_interval_ticks=1, **options)
    with Tape(path) as tape:
        for keyframe in CheckedTape(path).keyframes():
            if keyframe.tick:
                assert tape.frame(keyframe.tick).field_hashes == field_hashes(keyframe), keyframe.tick
    assert frames_with_hashes(path) == ((60, 60) if make is record_game else (26, 26))


def test_environments_have_none_by_default(tmp_path: Path) -> None:
    """A step of an environment may take microseconds, and a frame eight bytes. Objects can do without, too."""
    record_cart(tmp_path / "cart.tape")
    assert frames_with_hashes(tmp_path / "cart.tape") == (0, 26)
    record_cart(tmp_path / "auto.tape", blame="auto")
    assert frames_with_hashes(tmp_path / "auto.tape") == (0, 26)
    record_game(tmp_path / "game.tape", blame="none")
    assert frames_with_hashes(tmp_path / "game.tape") == (0, 60)


def test_objects_with_very_many_attributes_have_none_by_default(tmp_path: Path) -> None:
    """Their hashes would cost as much as all else; on request they are there."""
    for count, blame, expected in ((50, "auto", (5, 5)), (150, "auto", (0, 5)), (150, "fields", (5, 5))):
        many = Game()
        vars(many).update({f"a{number}": number for number in range(count)})
        path = tmp_path / f"{count}-{blame}.tape"
        game = recorder.record(many, path, quiet=True, trial_ms=0, blame=blame)
        with recorder.tape_of(game):
            for _ in range(5):
                game.step()
        assert frames_with_hashes(path) == expected


def test_a_resumed_object_keeps_its_choice(tmp_path: Path) -> None:
    """The frames after the resume are as those before it."""
    for blame, expected in (("none", (0, 63)), ("auto", (63, 63))):
        path = tmp_path / f"{blame}.tape"
        record_game(path, blame=blame)
        with recorder.resume(path, Game()) as tape:
            game = recorder.object_of(tape)
            for order in range(3):
                game.step(order)
        assert frames_with_hashes(path) == expected


def test_a_finding_names_the_fields_of_an_object_at_its_own_tick(tmp_path: Path) -> None:
    """Without the hashes they are known at the next keyframe only."""
    for blame, fields in (("auto", ["values of Unit objects"]), ("none", None)):
        path = tmp_path / f"{blame}.tape"
        record_game(path, blame=blame)
        report = verify_tape(path, Edited, tests_causes=False)
        assert report.findings[0].tick == BAD_TICK
        assert shown(report) == fields


def test_a_finding_names_the_fields_of_an_environment_at_its_own_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cart that is elsewhere after one step than it was in the recording."""
    pytest.importorskip("gymnasium")
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    path = tmp_path / "cart.tape"
    bad_state = record_cart(path, blame="fields")[BAD_TICK]
    original = CartPoleEnv.step

    def step(self: Any, action: Any) -> Any:
        result: Any = original(self, action)
        if tuple(self.state) == bad_state:
            self.state = self.state + 1e-9
        return result

    monkeypatch.setattr(CartPoleEnv, "step", step)
    report = verify_tape(path, tests_causes=False)
    assert report.findings[0].tick == BAD_TICK
    assert shown(report) == ["CartPoleEnv.state"]
