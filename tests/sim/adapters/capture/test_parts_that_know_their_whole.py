"""A part that refers to the recorded object, or to another part of it, keeps the way in which it is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import recorder
import replayer
from recorder.conformance.contract_checks import Subject, check_run


class Hero:
    """A part that knows its game, and another part."""

    def __init__(self, game: Any, near: Any) -> None:
        self.game, self.near, self.hp = game, near, 5


class Game:
    """Its hero turns to another object at some ticks, and back."""

    def __init__(self) -> None:
        self.ticks = 0
        self.rival = Hero(self, None)
        self.hero = Hero(self, self.rival)

    def step(self, _: Any = None) -> None:
        """One tick."""
        self.ticks += 1
        self.hero.hp += 1
        if self.ticks == 4:
            self.hero.near = Hero(self.hero, self)
            self.extra = 1.5
        if self.ticks == 8:
            self.hero.near = self.rival
        if self.ticks == 10:
            self.hero.game = self.rival
        self.hero.near.hp += 10


def facts(game: Game) -> Any:
    """The numbers, and which objects are the same one."""
    parts = [game, game.hero, game.rival, game.hero.near, game.hero.game, game.rival.game, game.hero.near.game]
    return (
        game.ticks,
        game.hero.hp,
        game.rival.hp,
        game.hero.near.hp,
        [[one is part for one in parts] for part in parts],
    )


def test_a_recorder_changes_nothing_of_how_such_a_part_is_saved() -> None:
    """No trial of the check of a level shows a difference."""
    subject = Subject(Game)

    assert check_run(subject, subject.live(0, 12)) == []


def test_a_seek_gives_what_a_plain_loop_had(tmp_path: Path) -> None:
    """Also where such an attribute refers to another object at some ticks."""
    plain, live = Game(), recorder.record(
        Game(), tmp_path / "run.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=3
    )  # fmt: skip
    truth = [facts(plain)]
    for _ in range(14):
        plain.step()
        live.step()
        truth.append(facts(plain))
    live.close()
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        for tick in (12, 3, 9, 5, 0, 14, 6):
            run.seek(tick)
            assert facts(run.subject) == truth[tick], tick
        assert run.verify(jobs=1).ok
