"""The names of a recorded object and of its step, what is refused, and the classes that a later replay can import."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded_games import Base, Game, Plain, recorded

import recorder
import replayer
from recorder.errors import RecordingWarning
from sim.adapters import NotCapturedError, adapt, fields

PROGRAMS = Path(__file__).parents[4] / "src"


def test_the_object_has_one_name_live_and_in_a_replay(tmp_path: Path) -> None:
    game = Game()
    live = recorded(tmp_path / "run.tape", game)
    with recorder.tape_of(live) as tape:
        assert live.subject is game
        assert tape.subject is game
        tape.subject.advance()
    assert tape.is_closed
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        with pytest.raises(ValueError, match="seek first"):
            _ = run.subject
        run.seek(1)
        assert type(run.subject) is Game
        assert run.subject is run.simulation.subject
    with pytest.raises(TypeError, match=r"^expected an object that recorder\.record\(\) returned, got Game$"):
        recorder.tape_of(game)


class OnlyAdvance:
    def __init__(self) -> None:
        self.t = 0

    def advance(self, inputs: Any) -> None:
        self.t += inputs or 1


def test_a_name_for_the_step_is_all_that_is_needed(tmp_path: Path) -> None:
    """The name step leads to it, too, if the object has none; a simulation takes None for a step that needs inputs."""
    subject = recorder.record(OnlyAdvance(), tmp_path / "run.tape", step="advance", quiet=True)
    subject.advance(5)
    subject.step(4)
    subject.step(None)
    subject.close()
    with replayer.open(tmp_path / "run.tape", world=OnlyAdvance) as run:
        assert run.verify().ok
        assert run[3]["OnlyAdvance.t"] == 10
    simulation = adapt(OnlyAdvance(), step="advance")
    simulation.step(None)
    assert simulation.subject.t == 1


@pytest.mark.parametrize(
    ("subject", "choices", "message"),
    [
        (OnlyAdvance, {}, r"^OnlyAdvance has no method step\(\): name the one .* it has the methods advance$"),
        (OnlyAdvance, {"step": "t"}, r"^OnlyAdvance has no method t\(\): .*methods advance$"),
        (OnlyAdvance, {"what": fields(step="go")}, r"^OnlyAdvance has no method go\(\)"),
        (Game, {"step": "run it"}, r"^Game has no method run it\(\): .*methods advance, explicit, itself, run$"),
        (Plain, {"step": ""}, r"^Plain has no method \(\)"),
    ],
)
def test_a_wrong_name_of_the_step_is_refused_with_the_right_ones(
    subject: Any, choices: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match=message):
        recorder.record(subject(), tmp_path / "run.tape", **choices)
    assert not list(tmp_path.iterdir())


class Later:
    async def step(self) -> None:
        """Runs when it is awaited."""

    def parts(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize("step", ["step", "parts"])
def test_a_step_that_runs_later_is_refused(step: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=rf"^Later\.{step}: expected a method that makes a step when it is called"):
        recorder.record(Later(), tmp_path / "run.tape", step=step)


def test_a_name_for_the_step_of_an_adapted_object_is_refused(tmp_path: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(TypeError, match=r"^step='advance': expected no name for OrderEnforcing, .*adapter gymnasium"):
        recorder.record(gymnasium.make("CartPole-v1", disable_env_checker=True).env, tmp_path / "x", step="advance")


# --- mistakes


def test_a_recording_without_a_step_says_so(tmp_path: Path) -> None:
    """Once, when it is closed, and the tape is sealed nevertheless."""
    game = recorded(tmp_path / "run.tape")
    with pytest.warns(RecordingWarning, match=r"run\.tape saw no step: use the object that record\(\) returned"):
        game.close()
    game.close()
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        assert run.last_tick == 0
    with contextlib.suppress(KeyError), recorded(tmp_path / "two.tape"):  # Its end has a reason of its own.
        raise KeyError


class Caterpillar(Base):
    def step(self) -> None:
        self.ticks += 1
        if self.ticks == 3:
            self.__class__ = Game


def test_an_object_that_changes_its_class_ends_the_recording_with_the_ticks_before(tmp_path: Path) -> None:
    subject = recorder.record(Caterpillar(), tmp_path / "run.tape", quiet=True)
    subject.step()
    subject.step()
    with pytest.raises(NotCapturedError, match="class was Caterpillar when its recording began, and is now Game"):
        subject.step()
    subject.close()
    with replayer.open(tmp_path / "run.tape", world=Caterpillar) as run:
        assert run.verify().ok
        assert run.last_tick == 2


class Hand(list):  # type: ignore[type-arg]
    def step(self) -> None:
        self.append(1)


class Luck(random.Random):
    def step(self) -> None:
        self.random()


@pytest.mark.parametrize(("kind", "base"), [(Hand, "list"), (Luck, "Random")])
def test_content_that_is_not_in_attributes_is_refused(kind: Any, base: str, tmp_path: Path) -> None:
    """It was left out silently."""
    with pytest.raises(
        NotCapturedError, match=rf"^{kind.__name__} is a {base}, whose content is not in its attributes"
    ):
        recorder.record(kind(), tmp_path / "run.tape")
    assert not list(tmp_path.iterdir())


class Prickly:
    """Reading most of it raises."""

    def __init__(self) -> None:
        self.t = 0

    @property
    def area(self) -> int:
        raise ZeroDivisionError("no area yet")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    def step(self) -> None:
        self.t += 1


def test_attributes_that_raise_when_they_are_read_are_not_read(tmp_path: Path) -> None:
    subject = recorder.record(Prickly(), tmp_path / "run.tape", quiet=True)
    subject.step()
    with pytest.raises(ZeroDivisionError, match="no area yet"):
        _ = subject.area
    with pytest.raises(RuntimeError, match="no such"):
        _ = subject.such
    subject.step()
    subject.tape.close()
    with replayer.open(tmp_path / "run.tape", world=Prickly) as run:
        assert run.verify().ok
        run.seek(1)
        assert run.subject.t == 1


# --- scripts

SCRIPT = """
import enum
import recorder

class Mood(enum.Enum):
    CALM, WILD = 1, 2

class Unit:
    def __init__(self):
        self.hp = 10

class Game:
    def __init__(self):
        self.units, self.leader, self.mood, self.t = [Unit(), Unit()], Unit(), Mood.CALM, 0
    def step(self):
        self.t += 1
        self.units[self.t % 2].hp -= 1
        self.leader.hp -= 1
        self.mood = Mood.WILD if self.t % 2 else Mood.CALM

def make():
    return Game()

if __name__ == "__main__":
    with recorder.record(make(), "run.tape") as game:
        for _ in range(12):
            game.step()
"""


def program(folder: Path, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROGRAMS)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


REPLAY = ("-c", "import sys; from simulation_flight_recorder import replay; sys.argv[0] = 'replay'; replay()")


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("way", [("game.py",), ("-m", "game")], ids=["script", "module"])
def test_a_tape_of_a_script_is_replayed_by_the_class_of_its_module(way: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "game.py").write_text(SCRIPT)
    made = program(tmp_path, *way)
    assert (made.returncode, made.stderr.count("\n")) == (0, 2), made.stderr  # Tried, and recorded.
    without = program(tmp_path, *REPLAY, "verify", "run.tape")
    assert "--sim game:Game" in without.stderr + without.stdout
    for factory in ("game:Game", "game:make"):
        verified = program(tmp_path, *REPLAY, "verify", "run.tape", "--sim", factory)
        assert "all 13 ticks match the recording" in verified.stdout, verified.stderr


@pytest.mark.seldom(0.15)
def test_a_class_that_no_replay_can_import_is_told_at_the_start(tmp_path: Path) -> None:
    told = program(tmp_path, text=SCRIPT.replace('"run.tape"', '"session.tape"'))
    assert (
        "session.tape: the class Game was defined in this session: a later replay cannot import it; put it"
        in told.stderr
    )

    code = "def main():\n class Local:\n  t = 0\n  def step(self): self.t = 1\n return Local()\n"
    (tmp_path / "nested.py").write_text(
        code + "import recorder\nif __name__ == '__main__': recorder.record(main(), 'x.tape').step()\n"
    )
    told = program(tmp_path, "nested.py")
    assert "x.tape: the class Local exists only inside main(): a later replay cannot import it; define" in told.stderr
