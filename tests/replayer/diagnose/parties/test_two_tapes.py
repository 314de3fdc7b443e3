"""replay explain with two tapes: parties that differ in one planted thing, in several, in nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from git_histories import History

import recorder.commands.main
import replayer.commands.main
from recorder import Recorder
from replayer.diagnose.parties import party_runner
from replayer.diagnose.parties.party import Party
from replayer.diagnose.parties.party_runner import PartyAnswer, PartyRun
from replayer.diagnose.parties.told.tape_seeds import try_seeds
from sim import Field, Schema, State

from oracle.command_lines import TINY, assert_one_line, run
from project_paths import SOURCES

GAME = """
import os
import random

import lib
import numpy as np
from sim import Field, RandomStream, Schema, State


class Game:
    count = 0

    def __init__(self, rate=0.5, name="x", start=0):
        self.state = State(Schema(Field("tick", "i8"), Field("x", "f8", (20,)), Field("rng", "u8", (4,))))
        self.state["x"][3] = start
        self.rate = rate
        self.name = name

    def step(self, inputs):
        self.state["tick"][()] += 1
        food = RandomStream(self.state["rng"]).integers(1, 9, 20)
        if self.state["tick"] > 20:
            self.state["x"][:] += self.digested(food)
        if inputs is not None:
            self.state["x"][inputs] += 1

    def digested(self, food):
        share = lib.scale(food / 16)
        return share * self.rate


def fast():
    return Game(rate=0.75, name="fast")


def late():
    return Game(start=4)


class Remembering(Game):
    def step(self, inputs):
        self.state["tick"][()] += 1
        Remembering.count += inputs is not None
        if self.state["tick"] == 25:
            self.state["x"][1] = Remembering.count


class Drawing(Game):
    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] == 15:
            self.state["x"][1] = random.random()


class Scripted(Game):
    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] == 15:
            with open("script") as file:
                text = file.read()
            with open("script", "w") as file:
                file.write(text[1:])
            self.state["x"][1] = int(text[0])


def scripted():
    return Scripted(rate=0.75)


class Deaf(Game):
    def step(self, inputs):
        self.state["tick"][()] += 1


class Sets(Game):
    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] == 15:
            for word in {"oak", "elm", "birch", "lime", "ash"}:
                self.state["x"][2] = self.state["x"][2] * 0.7 + len(word)


class Shelved(Game):
    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] == 15:
            self.state["x"][hash("oak") % 16] += 1


class Moody(Game):
    def step(self, inputs):
        self.state["tick"][()] += 1
        self.state["x"][1] = len(os.environ.get("MOOD", "")) * (self.state["tick"] > 7)


class Late(Game):
    def step(self, inputs):
        self.state["tick"][()] += 1
        if self.state["tick"] > 17:
            style = os.environ.get("STYLE") or "plain"
            self.state["x"][1] = {"plain": 1, "round": 2}.get(style, 100 * len(style))


class Calling(Game):
    def __init__(self, table):
        super().__init__()
        self.table = table

    def step(self, inputs):
        self.state["tick"][()] += 1
        self.state["x"][1] = self.table(self.state["tick"])


def same_table():
    return Calling(lambda tick: tick)


def other_table():
    return Calling(lambda tick: tick + (tick == 9))
"""
OTHER_GAME = GAME.replace("food / 16", "food / 17")
RECORD = """
import sys, recorder, game
with recorder.Recorder(sys.argv[2], getattr(game, sys.argv[1])(), deterministic=sys.argv[3] == "bare") as tape:
    for tick in range(30):
        tape.step()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two versions of a game and of a package that it imports; no hash seed is set."""
    (tmp_path / "game.py").write_text(GAME)
    for name, text in (("other", OTHER_GAME), ("unused", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("game.py" if text else "nothing.py")).write_text(text)
    for version, power in (("1.0", 1), ("1.1", 2)):
        package = tmp_path / f"lib-{version}" / "lib"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f'__version__ = "{version}"\nfrom lib.inner import scale\n')
        (package / "inner.py").write_text(f"def scale(x):\n    return x**{power}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCES), str(tmp_path / "lib-1.0")]))
    monkeypatch.syspath_prepend(tmp_path / "lib-1.0")
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    yield tmp_path
    for name in ("game", "lib", "lib.inner"):
        sys.modules.pop(name, None)


def made(name: str, source: str = GAME, power: int = 1) -> Any:
    """Make a simulation of the game, as a module with this source makes it beside this version of the package."""
    lib = types.ModuleType("lib")
    lib.scale = lambda x: x**power  # type: ignore[attr-defined]
    before, sys.modules["lib"] = sys.modules.get("lib"), lib
    names: dict[str, Any] = {"__name__": "game"}
    exec(source, names)
    if before is None:
        del sys.modules["lib"]
    else:
        sys.modules["lib"] = before
    return names[name]()


def record(tape: str, simulation: Any, inputs: Mapping[int, Any] | None = None) -> None:
    """Record thirty ticks in this process."""
    with Recorder(tape, simulation, keyframe_interval_ticks=7, trial_ms=0) as recording:
        for tick in range(1, 31):
            recording.step((inputs or {}).get(tick))


def record_apart(tape: str, name: str, kind: str = "full", **environment: str) -> None:
    """Record thirty ticks in a separate process; kind "bare": the tape does not state its environment."""
    paths = os.pathsep.join([str(Path.cwd()), os.environ["PYTHONPATH"]])
    command = [sys.executable, "-c", RECORD, name, tape, kind]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths, **environment}, check=True)


def explained(capsys: pytest.CaptureFixture[str], arguments: str, code: int = 1) -> Any:
    """The JSON of two tapes."""
    assert run(replayer.commands.main.main, f"explain a.tape b.tape {arguments} --json") == code
    return json.loads(capsys.readouterr().out)


def causes(facts: Any) -> list[tuple[str, str]]:
    return [(cause["kind"], cause["name"]) for cause in facts["causes"]]


@attrs.frozen
class Planted:
    """One difference between two parties.

    Attributes:
        record: makes b.tape.
        arguments: of the command.
        tick: the first differing one.
        causes: kind and name of each.
        text: of the line; None if none is known.
        sim: of a.tape.
        first: makes a.tape, if it is not the plain game.
    """

    record: Callable[[], None]
    arguments: str
    tick: int
    causes: list[tuple[str, str]]
    text: str | None
    sim: str = "Game"
    first: Callable[[], None] | None = None


PLANTED = {
    "an argument": Planted(
        lambda: record("b.tape", made("fast")), "--other-sim game:fast", 21, [("argument", "rate")],
        "return share * self.rate",
    ),
    "code": Planted(
        lambda: record("b.tape", made("Game", OTHER_GAME)), "--other-code other", 21, [("module", "game")],
        "share = lib.scale(food / 16)",
    ),
    "a package": Planted(
        lambda: record("b.tape", made("Game", power=2)), "--other-path lib-1.1", 21, [("module", "lib.inner")], "return x**1",
    ),
    "inputs": Planted(
        lambda: record("b.tape", made("Game"), {17: 4}), "", 17, [("inputs", "tick 17")], "if inputs is not None:"
    ),
    "remembered inputs": Planted(
        lambda: record("b.tape", made("Remembering"), {23: 4}), "", 25, [("inputs", "tick 23")],
        'self.state["x"][1] = Remembering.count', "Remembering",
    ),
    "the beginning": Planted(
        lambda: record("b.tape", made("late")), "--other-sim game:late", 0, [("argument", "start")], None
    ),
    "two at once": Planted(
        lambda: record("b.tape", made("fast", OTHER_GAME)), "--other-sim game:fast --other-path other", 21,
        [("together", "")], "share = lib.scale(food / 16)",
    ),
    "a factory": Planted(
        lambda: record("b.tape", made("other_table")), "--other-sim game:other_table", 9, [("factory", "--sim")],
        'self.state["x"][1] = self.table(self.state["tick"])', "same_table",
    ),
    "a variable": Planted(
        lambda: record_apart("b.tape", "Moody", MOOD="good"), "--env MOOD=good", 8, [("variable", "MOOD")],
        'self.state["x"][1] = len(os.environ.get("MOOD", "")) * (self.state["tick"] > 7)', "Moody",
    ),
    "a stated hash seed": Planted(
        lambda: record_apart("b.tape", "Sets", PYTHONHASHSEED="1"), "", 15, [("variable", "PYTHONHASHSEED")],
        'for word in {"oak", "elm", "birch", "lime", "ash"}:', "Sets",
        lambda: record_apart("a.tape", "Sets", PYTHONHASHSEED="0"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.sample(1)
@pytest.mark.seldom(0.18)
def test_what_two_parties_differ_in_is_named(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The tick, the line, and the one difference that alone turns each party into the other."""
    planted = PLANTED[name]
    if planted.first is not None:
        planted.first()
    else:
        record("a.tape", made(planted.sim))
    planted.record()

    facts = explained(capsys, f"--sim game:{planted.sim} {planted.arguments}")
    assert (facts["tick"], causes(facts)) == (planted.tick, planted.causes)
    assert (facts["line"] or {}).get("text") == planted.text
    assert [party["as_recorded"] for party in facts["parties"]] == [True, True]
    assert facts["not_deterministic"] == []
    assert facts["hash_seed"] is None
    assert [test["why_not"] for test in facts["tested"] if test["why_not"]] == []
    unread = ["not compared, because they are no plain data: the arguments table"]
    assert facts["notes"] == (unread if name == "a factory" else [])


# --- nothing is accused without a proof


def test_equal_tapes_have_nothing_to_explain(capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs without an effect are a difference, as for replay diff."""
    record("a.tape", made("Game"))
    shutil.copy("a.tape", "b.tape")
    facts = explained(capsys, "--sim game:Game", code=0)
    assert (facts["same"], facts["tick"], facts["causes"], facts["compared_ticks"]) == (True, None, [], 31)
    assert run(replayer.commands.main.main, "explain a.tape b.tape") == 0
    told = "a.tape and b.tape: 31 ticks from 0 to 30, the same: there is nothing to explain\n"
    assert capsys.readouterr().out == told

    Path("b.tape").unlink()
    Path("a.tape").unlink()
    record("a.tape", made("Deaf"), {3: 1})
    record("b.tape", made("Deaf"), {5: 1})
    facts = explained(capsys, "")
    assert (facts["same"], facts["tick"], facts["inputs_tick"], facts["causes"]) == (False, None, 3, [])


@pytest.mark.seldom(0.2)
def test_a_difference_that_the_given_parties_do_not_have_is_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Both simulations give one state, that of the first tape; the next command is for the other tape."""
    record("a.tape", made("Game"))
    record("b.tape", made("fast"))
    facts = explained(capsys, "--sim game:Game")
    assert (facts["tick"], facts["causes"], facts["line"], facts["reproduced"]) == (21, [], None, False)
    assert [party["as_recorded"] for party in facts["parties"]] == [True, False]

    assert run(replayer.commands.main.main, "explain a.tape b.tape") == 1
    told = capsys.readouterr().out
    assert "the cause is not known: the step was not run by both parties" in told
    assert "note: A: the tape names no registered world" in told


def test_a_difference_before_the_first_common_tick_is_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """A ring lost the tick at which it began; no party is run."""
    record("a.tape", made("late"))
    with Recorder("b.tape", made("Game"), keep=10, keyframe_interval_ticks=5, deterministic=True, split=500) as ring:
        for _ in range(30):
            ring.step()
    facts = explained(capsys, "--sim game:late --other-sim game:Game", code=1)
    assert facts["tick"] == facts["first_tick"] > 0
    assert (facts["causes"], facts["tested"], [party["hash"] for party in facts["parties"]]) == ([], [], [None, None])
    assert run(replayer.commands.main.main, "explain a.tape b.tape --sim game:late") == 1
    assert "the states differ already at the first tick that both tapes have" in capsys.readouterr().out


@pytest.mark.seldom(0.2)
def test_dumps_of_peers_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Each holds the tape from the last agreed keyframe on."""
    host, guest = Recorder("host.tape", made("Game")), Recorder("guest.tape", made("fast"), on_desync="raise")
    with host, guest:
        for _ in range(21):
            host.step()
            guest.step()
        for recording, peer in ((host, guest), (guest, host)):
            with pytest.raises(recorder.PeerDesyncError):
                recording.report_hash(21, peer.simulation.state.hash())
    dumps = "host.peer-desync-21 guest.peer-desync-21"
    assert run(replayer.commands.main.main, f"explain {dumps} --sim game:Game --other-sim game:fast") == 1
    assert (
        "\ncause: the constructor's argument rate: 0.5 in A, 0.75 (given at game.py:33) in B\n"
        in capsys.readouterr().out
    )


@pytest.mark.seldom(0.2)
def test_a_step_that_varies_by_itself_accuses_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """The control, a process with nothing exchanged, gives another state, too: other code is not the cause."""
    record("a.tape", made("Drawing"))
    record("b.tape", made("Drawing", OTHER_GAME))
    facts = explained(capsys, "--sim game:Drawing --other-path other")
    assert (facts["tick"], facts["causes"], facts["not_deterministic"]) == (15, [], ["A", "B"])
    assert facts["line"]["operation"] == "random.random"


@pytest.mark.seldom(0.2)
def test_an_address_in_an_error_is_no_chance(capsys: pytest.CaptureFixture[str]) -> None:
    """The second party's step raises, each time with the address of another object: other code makes it do so."""
    record("a.tape", made("Game"))
    record("b.tape", made("Game", OTHER_GAME))
    Path("other/game.py").write_text(
        GAME.replace("        return share * self.rate", '        raise KeyError(f"{object()} is lost")')
    )
    facts = explained(capsys, "--sim game:Game --other-path other")
    assert "object object at 0x" in facts["parties"][1]["raised"]
    assert facts["not_deterministic"] == []
    assert ("module", "game") in causes(facts)


@attrs.frozen
class Chance:
    """Results of a step that varies by itself, in the order of its runs, with which one control accused something.

    Attributes:
        other: the simulation of b.tape.
        results: the results.
        unsteady: the parties of which it is seen.
        varying: the changed party of which it is seen.
    """

    other: str
    results: str
    unsteady: list[str]
    varying: str | None = None


BY_ARGUMENT = "0000 1111 0 1 1 0"  # A and B, each with a traced step; both again; both with the argument exchanged.
BY_SEED = "0000 0000 0000 0000 0000 0000 1111"  # A and B; from two keyframes; A with a seed.
CHANCES = {
    "an argument, B varies": Chance("scripted", BY_ARGUMENT + "0110" * 2 + "0010" + "10", ["B"]),
    "an argument, B with it varies": Chance(
        "scripted", BY_ARGUMENT + "0110" * 3 + "11", [], "B with the other one's argument rate"
    ),
    "a seed, A varies": Chance("Scripted", BY_SEED + "001" * 3 + "101", ["A"]),
    "a seed, A with it varies": Chance("Scripted", BY_SEED + "001" * 3 + "000", [], "A with PYTHONHASHSEED=1"),
    "nothing differs": Chance("Scripted", "0000 1111 0 1" + "01" * 2 + "11", ["A"]),
}


@pytest.mark.parametrize("name", CHANCES)
@pytest.mark.seldom(0.1)
def test_a_step_that_passes_a_control_by_chance_accuses_no_difference(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Only the last of several runs of one side shows that the step varies."""
    chance = CHANCES[name]
    monkeypatch.setattr(party_runner, "PROCESSES_MAX", 1)  # The processes take the results in their order.
    for tape, simulation, result in (("a.tape", "Scripted", "0"), ("b.tape", chance.other, "1")):
        Path("script").write_text(result)
        record(tape, made(simulation))
    Path("script").write_text(chance.results.replace(" ", ""))
    facts = explained(capsys, f"--sim game:Scripted --other-sim game:{chance.other}")
    assert (facts["tick"], facts["causes"], facts["hash_seed"]) == (15, [], None)
    assert (facts["not_deterministic"], facts["varying"]) == (chance.unsteady, chance.varying)
    assert Path("script").read_text() == ""


@pytest.mark.seldom(0.2)
def test_a_hash_seed_that_no_tape_states_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """With seed 1, party A gives what the second tape has."""
    for tape, seed in (("a.tape", "0"), ("b.tape", "1")):
        record_apart(tape, "Sets", "bare", PYTHONHASHSEED=seed)
    facts = explained(capsys, "--sim game:Sets")
    assert (facts["tick"], facts["causes"]) == (15, [])
    assert facts["hash_seed"] == {"value": "1", "gives_second": True}
    assert facts["line"]["text"].startswith("for word in")


@pytest.mark.seldom(0.2)
@pytest.mark.parametrize(("seeds", "tried"), [("10", ["1", "0"]), ("12", ["1", "2"]), ("96", ["9", "6"])])
def test_the_values_of_two_tapes_are_shown_as_they_were_recorded(
    capsys: pytest.CaptureFixture[str], seeds: str, tried: list[str]
) -> None:
    """Which tape's state the parties give here, with their own seed, does not matter: the seed of each tape is found."""
    indices = []
    for tape, seed in zip(("a.tape", "b.tape"), seeds, strict=True):
        record_apart(tape, "Shelved", "bare", PYTHONHASHSEED=seed)
        command = [sys.executable, "-c", "print(hash('oak') % 16)"]
        found = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True)
        indices.append(int(found.stdout))
    assert indices[0] != indices[1]

    assert run(replayer.commands.main.main, "explain a.tape b.tape --sim game:Shelved") == 1
    out = capsys.readouterr().out
    first, second = indices
    assert all(row in out for row in (f"[{first}] A 1.0, B 0.0", f"[{second}] A 0.0, B 1.0")), out
    assert (
        f"gives with PYTHONHASHSEED={tried[0]} the state of tape A, and with PYTHONHASHSEED={tried[1]} that of" in out
    )


SEEDED = Party("A", Path("a.tape"), Path("a.tape"), environment={"PYTHONHASHSEED": "0"})


@pytest.mark.parametrize(
    ("of_seeds", "recorded", "first", "of_tapes"),
    [
        ({}, (7, 8), None, None),  # No seed makes a difference.
        ({"1": 5}, (7, 8), "1", ("0", None)),
        ({"2": 5, "3": 8}, (7, 8), "2", ("0", "3")),
        ({"1": 5, "9": 8}, (7, 8), "1", ("0", "9")),
        ({"9": 8}, (7, 8), None, None),  # It is not tried, since those before it make no difference.
        ({"2": 6, "14": 8}, (6, 8), "2", ("2", "14")),
        ({"3": 5}, (6, 8), "3", (None, None)),
    ],
)
def test_the_seeds_of_two_tapes(
    of_seeds: dict[str, int], recorded: tuple[int, int], first: str | None, of_tapes: Any
) -> None:
    """A seed is said to give a tape's state only if it does; the state with the parties' own seed, 0, has the hash 7."""

    def run_seeds(parties: Sequence[Party], _: bool) -> list[PartyAnswer | None]:  # noqa: FBT001
        hashes = [of_seeds.get(str(party.environment["PYTHONHASHSEED"]), 7) for party in parties]
        return [PartyAnswer([PartyRun(None, one, None, None, None)]) for one in hashes]

    found = try_seeds(SEEDED, (7, None), [(one, None) for one in recorded], run_seeds)
    assert (
        (first, of_tapes) == (None, None) if found is None else (found[0].first, found[0].of_tapes) == (first, of_tapes)
    )
    assert found is None or found[0].changed == list(found[1])


def test_an_environment_variable_that_no_tape_notes_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """It is read from tick 18 on alone. A value that the code names is found, and another one is only named as not told."""
    record("a.tape", made("Late"))
    for value, is_found in (("round", True), ("square-cut", False)):
        record_apart("b.tape", "Late", STYLE=value)
        facts = explained(capsys, "--sim game:Late")
        assert (facts["tick"], facts["causes"]) == (18, [])
        found = facts["variable"]
        if is_found:
            assert (found["party"], found["name"], found["value"], found["present"]) == (1, "STYLE", "round", None)
            assert "style" in facts["line"]["text"]
        else:
            assert found is None
        assert facts["unnoted"].startswith("the environment variable STYLE (read at game.py:")
        assert facts["unnoted"].endswith("of which one tape tells nothing")
        Path("b.tape").unlink()


# --- where the parties come from


@pytest.mark.seldom(0.2)
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_other_party_is_a_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are named by the commit; no work tree is left."""
    history = History(tmp_path / "repository")
    old = history.commit("Old", game_py=OTHER_GAME)
    history.commit("New", game_py=GAME)
    record("repository/a.tape", made("Game"))
    record("repository/b.tape", made("Game", OTHER_GAME))
    monkeypatch.chdir(history.folder)

    assert run(replayer.commands.main.main, "explain a.tape b.tape --sim game:Game --other-commit HEAD~1") == 1
    told = capsys.readouterr().out
    assert f"cause: the module game: game.py in A, {old[:10]}:game.py in B\n" in told
    assert (
        f"{old[:10]}:game.py:{GAME[: GAME.index('food / 16')].count(chr(10)) + 1} in Game.digested (B)\n      share = lib.scale(food / 17)\n"
        in told
    )
    assert f"B  b.tape, --sim game:Game, commit {old[:10]}: hash" in told
    assert history.git("worktree", "list", "--porcelain").count("worktree ") == 1


@pytest.mark.seldom(0.2)
def test_configurations_of_a_world_are_compared_by_entry(capsys: pytest.CaptureFixture[str]) -> None:
    """The seed of the second tape makes the first world's first state that of the second."""
    Path("tiny.toml").write_text(TINY)
    for tape, seed in (("a.tape", 3), ("b.tape", 4)):
        assert run(recorder.commands.main.main, f"run tiny.toml -q --ticks 5 --seed {seed} -o {tape}") == 0
    capsys.readouterr()
    facts = explained(capsys, "")
    assert (facts["tick"], causes(facts)) == (0, [("configuration", "seed")])


class Wild:
    """Has no field of the game."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("z", "i8")))

    def step(self, _: Any) -> None:
        self.state["z"][()] += 1


def test_mistakes_give_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Tapes of different simulations, tapes without a common tick, options that need two tapes or one."""
    record("a.tape", made("Game"))
    record("wild.tape", Wild())
    with Recorder("ring.tape", made("Game"), keep=5, keyframe_interval_ticks=5, deterministic=True) as ring:
        for _ in range(100):
            ring.step()
    for line, told in {
        "a.tape wild.tape": "expected two recordings of one simulation, got game.Game with the fields",
        "a.tape ring.tape": "expected tapes with common ticks, got 0 to 30 and ",
        "a.tape missing.tape": "missing.tape",
        "a.tape --other-sim game:Game": "--other-sim, --other-path, --other-commit and --other-python need a second tape",
        "a.tape a.tape --tick 3": "--tick and --code are for one tape",
        "a.tape a.tape --other-path nowhere": "expected a folder, got --other-path nowhere",
    }.items():
        assert run(replayer.commands.main.main, f"explain {line}") in (2, 5)
        assert_one_line(capsys.readouterr(), told)


@pytest.mark.seldom(0.2)
def test_a_party_that_is_not_used_or_cannot_run_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without a module of the simulation is refused; a missing interpreter is a note."""
    record("a.tape", made("Game"))
    record("b.tape", made("fast"))
    assert run(replayer.commands.main.main, "explain a.tape b.tape --sim game:Game --other-path unused") == 2
    printed = capsys.readouterr()  # The tick is printed as soon as it is known.
    assert printed.out == "a.tape and b.tape: first different at tick 21 of 0 to 30\n"
    assert printed.err == "error: no module of the simulation is imported from --other-path unused\n"
    facts = explained(capsys, "--sim game:Game --other-python no-such-python")
    assert (facts["causes"], facts["notes"]) == ([], ["B: no-such-python: No such file or directory"])
    facts = explained(capsys, "--sim game:Game --other-sim game:Missing")
    assert facts["causes"] == []
    assert "B: game:Missing: module 'game' has no attribute 'Missing'" in facts["notes"][0]
