"""A plain object is recorded, killed, resumed, checked and replayed as its user meets it: the tape knows its step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from sim.adapters import adapt

COUNTER = """
import os
import random
import recorder

class Counter:
    def __init__(self, size=3):
        self.random = random.Random(size)
        self.counts = [0] * size

    def advance(self, number=1):
        self.counts[self.random.randrange(len(self.counts))] += number
        return sum(self.counts)
"""
KILLED = """
if __name__ == "__main__":
    counter = recorder.record(Counter(7), "counter.tape", step="advance", quiet=True)
    for tick in range(20):
        counter.advance(tick)
    os.kill(os.getpid(), 9)
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of this Python in a folder."""
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )


def replay(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command replay in a folder."""
    return run(folder, "-c", "import sys; from replayer.commands.main import main; sys.exit(main())", *arguments)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder of a recording of a class of the script itself, made with an argument, which ended by kill -9."""
    (tmp_path / "counting.py").write_text(COUNTER + KILLED)
    assert run(tmp_path, "counting.py").returncode == -signal.SIGKILL
    return tmp_path


@pytest.mark.seldom(0.15)
def test_a_killed_recording_of_a_class_of_the_script(killed: Path) -> None:
    """The name of its step is needed nowhere again."""
    assert (
        "all 21 ticks match the recording"
        in replay(killed, "verify", "counter.tape", "--sim", "counting:Counter").stdout
    )
    assert replay(killed, "seek", "counter.tape", "--tick", "11", "--sim", "counting:Counter").returncode == 0
    checked = replay(killed, "check", "counting:Counter", "--inputs", "counter.tape", "--ticks", "20")
    assert "counting:Counter: no hidden state seen in 20 ticks" in checked.stdout

    program = """
import recorder
from counting import Counter
counter = recorder.object_of(recorder.resume("counter.tape", Counter(7)))
print(counter.advance(5), counter.tape.tick)
counter.close()
"""
    resumed = run(killed, "-c", program)
    assert resumed.stdout == "195 21\n", resumed.stderr
    assert (
        "all 22 ticks match the recording"
        in replay(killed, "verify", "counter.tape", "--sim", "counting:Counter").stdout
    )


@pytest.mark.seldom(0.18)
def test_check_takes_the_name_of_a_step(tmp_path: Path) -> None:
    """In this process and in the other one; without it, the message names the option."""
    (tmp_path / "counting.py").write_text(COUNTER)
    named = replay(tmp_path, "check", "counting:Counter", "--step", "advance", "--ticks", "20", "--seeds", "1")
    assert named.stdout.startswith("counting:Counter: level exact kept on 1 run of 20 ticks\n"), named.stderr
    (tmp_path / "inputs.jsonl").write_text('{"tick": 5, "inputs": 3}\n')
    for options in ([], ["--inputs", "inputs.jsonl"]):
        refused = replay(tmp_path, "check", "counting:Counter", *options)
        assert refused.returncode == 2
        assert refused.stderr.endswith(
            'Counter has no method step(): name the one that makes a step as step="advance"; it has the methods advance '
            "(here: --step advance)\n"
        )


def test_check_reports_hidden_state_of_an_object_with_the_inputs_of_a_tape(tmp_path: Path) -> None:
    """The module of its class is searched, as without a tape."""
    source = COUNTER.replace("import recorder\n", "HITS = [0]\n").replace(
        "+= number", "+= number + HITS[0] % 2; HITS[0] += 1"
    )
    (tmp_path / "hiding.py").write_text(source)
    program = """
import recorder
from hiding import Counter
with recorder.record(Counter(), "run.tape", step="advance", trial_ms=0, quiet=True) as counter:
    for tick in range(30):
        counter.advance(tick)
"""
    assert run(tmp_path, "-c", program).returncode == 0
    checked = replay(tmp_path, "check", "hiding:Counter", "--inputs", "run.tape")
    assert checked.returncode == 1
    assert "module hiding: HITS (module global)" in checked.stdout


class Game:
    """A game with a step of another name."""

    def __init__(self, size: int = 2) -> None:
        self.counts = [0] * size

    def advance(self, number: int = 1) -> int:
        """Make a step."""
        self.counts[0] += number
        return self.counts[0]


def test_the_forms_in_which_an_object_can_be_resumed(tmp_path: Path) -> None:
    """The object, what record() returned for one, an adapted one; a class is refused."""
    path = tmp_path / "run.tape"
    game = recorder.record(Game(4), path, step="advance", quiet=True)
    game.advance(5)
    game.close()
    for made in (Game(4), game, adapt(Game(4), step="advance")):
        tape = recorder.resume(path, made)
        tape.step(2)
        tape.close()
    with replayer.Timeline(path, world=Game) as replay_of_it:
        replay_of_it.seek(-1)
        assert replay_of_it.subject.counts == [11, 0, 0, 0]
    with pytest.raises(TypeError, match=r"^expected an instance, such as Game\(\), got the class Game$"):
        recorder.resume(path, Game)
    with pytest.raises(TypeError, match=r"^the tape does not state how to make its .*Game: pass a new one"):
        recorder.resume(path)


def test_a_resumed_object_is_used_in_its_own_place(tmp_path: Path) -> None:
    """Its step is recorded under its own name, and changes from outside are inputs."""
    path = tmp_path / "run.tape"
    with recorder.record(Game(), path, step="advance", quiet=True) as game:
        game.advance(5)
    resumed: Any = recorder.object_of(recorder.resume(path, Game()))
    resumed.counts = [7]
    assert resumed.advance(2) == 9
    resumed.close()
    with replayer.Timeline(path, world=Game) as replayed:
        replayed.seek(2)
        assert replayed.subject.counts == [9]
        assert replayed.verify().ok


def test_calls_of_a_resumed_object_itself_are_recorded(tmp_path: Path) -> None:
    """As they are by record(): the object that was passed, and the one to use in its place, are one game."""
    path = tmp_path / "run.tape"
    with recorder.record(Game(), path, step="advance", quiet=True) as game:
        game.advance(5)
    subject = Game()
    own_code = Game.advance.__code__
    tape = recorder.resume(path, subject)
    assert subject.advance(2) == 7
    tape.step(1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        subject.advance(numbers=2)  # type: ignore[call-arg]
    resumed = recorder.object_of(tape)
    assert resumed.advance() == 9
    assert subject.advance(3) == 12
    assert tape.tick == 5
    tape.close()
    assert subject.advance(100) == 112
    assert Game.advance.__code__ is own_code
    with replayer.Timeline(path, world=Game) as replayed:
        replayed.seek(-1)
        assert replayed.subject.counts == [12, 0]
        assert replayed.verify().ok


def test_a_resumed_recorder_is_not_kept_alive_by_its_object(tmp_path: Path) -> None:
    """A program that drops it leaves the object as it was."""
    path = tmp_path / "run.tape"
    with recorder.record(Game(), path, step="advance", quiet=True) as game:
        game.advance(5)
    subject = Game()
    own_code = Game.advance.__code__
    tape = recorder.resume(path, subject)
    dropped = weakref.ref(tape)
    with pytest.warns(ResourceWarning, match="never closed"):
        del tape
    assert dropped() is None
    assert Game.advance.__code__ is own_code
    assert subject.advance(1) == 6


def test_only_objects_have_an_object_to_use(tmp_path: Path) -> None:
    """A simulation is stepped by its recorder."""

    class Own:
        def save(self) -> bytes:
            return b"1"

        def load(self, saved: bytes) -> None:
            pass

        def step(self, inputs: Any) -> None:
            pass

    with recorder.Recorder(tmp_path / "run.tape", Own()) as tape, pytest.raises(TypeError, match="got one of Own: "):
        recorder.object_of(tape)


def test_a_resumed_environment_is_used_as_before(tmp_path: Path) -> None:
    """Actions that are dicts are recorded, too; the episode that was interrupted has its totals as the next ones have."""
    gymnasium = pytest.importorskip("gymnasium")

    class Moves(gymnasium.Env):  # type: ignore[misc, name-defined]
        observation_space = gymnasium.spaces.Discrete(100)
        action_space = gymnasium.spaces.Dict({"move": gymnasium.spaces.Discrete(3)})

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
            super().reset(seed=seed)
            self.place = 0
            return self.place, {}

        def step(self, action: Any) -> Any:
            self.place += int(action["move"])
            return self.place, None if self.place == 7 else 1.0, self.place > 3, False, {}

    path = tmp_path / "run.tape"
    env = recorder.record(Moves(), path, quiet=True)
    env.reset(seed=3)
    env.step({"move": 1})
    recorder.tape_of(env).close()
    resumed = recorder.object_of(recorder.resume(path, adapt(Moves())))
    assert resumed.step({"move": 2})[0] == 3
    assert resumed.step({"move": 1})[:3] == (4, 1.0, True)
    resumed.reset(seed=4)
    assert resumed.step({"move": 7})[1] is None  # Of no interest to the recorder.
    resumed.close()
    with replayer.open(path, world=lambda: adapt(Moves())) as run:
        assert run.verify().ok
        first, second = run.episodes
        assert (first.steps, first.total) == (3, 3.0)
        assert second.steps == 1
        assert second.total != second.total  # Not a number.
        assert second.terminated


def test_an_environment_is_resumed_without_being_passed(tmp_path: Path) -> None:
    """It is made from what the tape names, as for a replay."""
    gymnasium = pytest.importorskip("gymnasium")
    path = tmp_path / "run.tape"
    env = recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True)
    env.reset(seed=3)
    env.close()
    with recorder.resume(path) as tape:
        tape.step(1)
    with replayer.Timeline(path) as replayed:
        assert replayed.verify().ok
