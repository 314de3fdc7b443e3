"""Descriptions of tapes: compared with the live run, and for tapes of any origin and in any condition."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duel_world
import pytest
from corpora import change, duel_folder, generate  # noqa: F401 - a fixture

import recorder
import recorder.commands.main
import recorder.commands.run_loop
import replayer
import replayer.commands.main
from recorder import Recorder
from recorder.corpus import PlayerResult, Quality, examine, glance
from recorder.corpus.inspect_tape import count_inputs
from recorder.corpus.run import outcomes_of, tier_of
from recorder.runs.scores import plain_scores
from sim.scenario.config.identity import scenario_hash

from oracle.command_lines import run
from small_worlds import Walkers

pytestmark = pytest.mark.usefixtures("duel_folder")


def recorded(name: str, line: str) -> Path:
    """Make a tape with record run."""
    assert run(recorder.commands.main.main, f"run {line} -q -o {name}.tape") == 0
    return Path(f"{name}.tape")


@pytest.mark.parametrize("policy", duel_world.POLICIES)
def test_a_recorded_run(policy: str) -> None:
    """All facts of the index, compared with an unrecorded run of the same inputs."""
    change("gifts", gift_every=4, full=70)
    line = f"gifts.toml --seed 8 --ticks 60 --player left={policy} --player right=random"
    found = examine(recorded("one", line))

    config = {"world": "duel", "name": "gifts", "seed": 8, "ticks": 40, "gift_every": 4, "full": 70}
    live = duel_world.Duel(config)
    players = [duel_world._play(config, "left", policy), duel_world._play(config, "right", "random")]
    gifts = duel_world._inputs(config)
    sent, tick = [], 0
    while tick < 60 and live.ended() is None:
        tick += 1
        own = [one for play in players for one in play(tick, live.state)]
        live.step(gifts(tick) + own)
        sent.append(len(own))

    assert (found.scenario, found.world, found.version, found.seed) == ("gifts", "duel", 1, 8)
    assert (found.first_tick, found.ticks) == (0, tick)
    assert found.state_hash == f"{live.state.hash():016x}"
    assert found.reason == ("full" if tick < 60 else "ticks")
    left, right = live.state["heaps"].tolist()
    outcomes = {True: ("won", "lost"), False: ("lost", "won")}[left > right]
    assert found.players == (
        PlayerResult("left", policy, left, outcomes[0]),
        PlayerResult("right", "random", right, outcomes[1]),
    )
    tier = "idle" if policy == "idle" else "random"
    assert found.quality == Quality(tier, sum(sent), sum(count > 0 for count in sent))
    assert found.size_bytes == Path("one.tape").stat().st_size
    assert (found.status, found.sealed, found.ended, found.error, found.source) == (
        "not checked",
        True,
        True,
        None,
        "recorded",
    )


def unscored(monkeypatch: pytest.MonkeyPatch, name: str, line: str) -> Path:
    """Make a tape as record run did before it wrote scores."""
    with monkeypatch.context() as patched:
        patched.setattr(recorder.commands.run_loop, "end_with_scores", lambda _, end: end)
        return recorded(name, line)


def test_a_glance_reads_headers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A glance differs from an examination only in the quality, and in scores that are not on the tape."""
    tape = unscored(monkeypatch, "one", "heaps.toml --player left=push")
    at_once, read = glance(tape), examine(tape)
    assert at_once.quality is None
    assert [one.score for one in at_once.players] == [None, None]
    assert (at_once.run_id, at_once.ticks, at_once.state_hash) == (read.run_id, read.ticks, read.state_hash)
    assert [one.outcome for one in read.players] == ["won", "lost"]

    assert generate("heaps.toml --player left=push --player right=push -j 1") == 0
    (tape,) = Path("runs").glob("*.tape")
    at_once, read = glance(tape), examine(tape)
    assert at_once.players == read.players
    assert read.players[0].score is not None


def test_record_run_and_resume_write_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scores on the tape are those that the world computes from its last state; a glance has them."""
    tape = recorded("one", "heaps.toml --player left=push --ticks 20")
    computed = examine(unscored(monkeypatch, "two", "heaps.toml --player left=push --ticks 20")).players
    assert computed[0].score is not None
    assert glance(tape).players == computed

    assert run(recorder.commands.main.main, "resume one.tape --ticks 30 -q") == 0
    longer = examine(unscored(monkeypatch, "three", "heaps.toml --player left=push --ticks 30")).players
    assert glance(tape).players == longer != computed


def test_a_run_whose_scores_raise_is_sealed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ended well: its tape says so, without scores, and a line says what the world raised."""

    def no_scores(*_: Any) -> dict[str, float]:
        raise ZeroDivisionError("no heap")

    with monkeypatch.context() as patched:
        patched.setattr("recorder.runs.outcome.scores_of", no_scores)
        found = glance(recorded("one", "heaps.toml --player left=push"))
    assert (found.sealed, found.ended, found.error) == (True, True, None)
    assert {player.score for player in found.players} == {None}
    assert "warning: the end is written without scores: ZeroDivisionError: no heap" in capsys.readouterr().err


def test_a_run_that_did_not_end_has_no_outcome() -> None:
    """A tape that is not sealed, or was closed by an exception, has no winner."""
    tape = recorded("one", "heaps.toml --player left=push")
    whole = tape.read_bytes()
    tape.write_bytes(whole[:-600])
    found = examine(tape)
    assert (found.status, found.sealed, found.ended, found.finished) == ("incomplete", False, False, "")
    assert {one.outcome for one in found.players} == {None}

    change("bad", raise_at=7)
    with pytest.raises(RuntimeError):
        run(recorder.commands.main.main, "run bad.toml -q -o bad.tape")
    found = examine(Path("bad.tape"))
    assert (found.status, found.ended, found.ticks) == ("not checked", False, 6)
    assert found.error == "RuntimeError: the heap fell over"


def test_inputs_of_unknown_origin_are_unrated() -> None:
    """Inputs of a program or of a file are unrated; only the tape's notes show that a person played."""
    with Recorder("walk.tape", Walkers(seed=1)) as tape:
        for tick in range(1, 31):
            tape.step([(0, 1), (1, 2)] if tick % 3 == 0 else None)
    found = examine(Path("walk.tape"))
    assert (found.scenario, found.world, found.seed, found.players) == (None, None, None, ())
    assert (found.quality, found.reason, found.ended) == (Quality("unrated", 20, 10), "closed", True)

    Path("in.ndjson").write_text('{"tick": 3, "inputs": [[0, 5]]}\n')
    found = examine(recorded("file", "heaps.toml --player left=push --player right=push --inputs in.ndjson"))
    assert found.quality == Quality("unrated", 81, 40)

    with Recorder("human.tape", Walkers(), notes={"players": {"ann": "human", "ben": "human"}}) as tape:
        tape.step([(0, 1)])
    assert examine(Path("human.tape")).quality == Quality("human", 1, 1)


def test_scenarios_are_known_by_their_hash() -> None:
    """The hash is that of other commands; the family is the same for all seeds."""
    with Recorder("walk.tape", Walkers(seed=1)) as tape:
        tape.step([])
    one, other = recorded("one", "heaps.toml --seed 4 --ticks 2"), recorded("other", "heaps.toml --seed 5 --ticks 2")
    found = [glance(path) for path in (Path("walk.tape"), one, other)]
    for run_found in found:
        with replayer.Timeline(run_found.path, world=Walkers) as timeline:
            assert run_found.scenario_hash == scenario_hash(timeline.tape.meta)
    assert len({run_found.scenario_hash for run_found in found}) == 3
    families = [run_found.settings.family for run_found in found if run_found.settings is not None]
    assert families[0] != families[1] == families[2]


def test_tiers() -> None:
    """The tier is that of the weakest player."""
    push, lazy, random, idle, unnamed, human = (
        PlayerResult("one", policy) for policy in ("push", "lazy", "random", "idle", None, "human")
    )
    assert tier_of([push, lazy], 5) == "scripted"
    assert tier_of([push, random], 5) == "random"
    assert tier_of([random, idle], 5) == "idle"
    assert tier_of([push, unnamed], 5) == "idle"
    assert tier_of([push, push], 0) == "idle"
    assert tier_of([human, push], 5) == "scripted"
    assert tier_of([human, human], 5) == "human"
    assert tier_of([unnamed], 5) == tier_of([], 5) == tier_of([push], 5, from_file=True) == "unrated"


def test_outcomes() -> None:
    """The highest score wins, equal scores draw; a single or incomparable score decides nothing."""
    assert outcomes_of({"a": 1, "b": 3, "c": 2}) == {"a": "lost", "b": "won", "c": "lost"}
    assert outcomes_of({"a": 3, "b": 3, "c": 2}) == {"a": "drew", "b": "drew", "c": "lost"}
    assert outcomes_of({"a": 3}) == outcomes_of({}) == outcomes_of({"a": 1, "b": math.inf}) == {}
    assert plain_scores({"a": 1, "b": "2", "c": math.nan, 4: 5, "d": True, "e": 2**4000}) == {"a": 1.0}


@pytest.mark.parametrize(
    ("inputs", "count"),
    [(None, 0), ([], 0), ([1, [2, 3]], 2), ((1,), 1), (7, 1), ("abc", 1), ({"a": [1, 2], "b": None, "": [4]}, 3)],
)
def test_counting_inputs(inputs: Any, count: int) -> None:
    """A list counts by its length, a table by its roles, any other value as one."""
    assert count_inputs(inputs, by_role=True) == count
    if isinstance(inputs, dict):
        assert count_inputs(inputs, by_role=False) == 1


def test_tapes_in_any_condition() -> None:
    """Truncated files, files with a changed byte and other files give a Run with that status, never an exception."""
    tape = recorded("one", "heaps.toml --player left=push --keyframe-interval 10")
    whole = tape.read_bytes()
    assert examine(tape).status == "not checked"
    for size in range(0, len(whole), 97):
        tape.write_bytes(whole[:size])
        found = examine(tape)
        assert found.status in {"incomplete", "corrupt", "unreadable"}
        assert found.status != "unreadable" or found.error
    for place in range(0, len(whole), 41):
        tape.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        assert glance(tape).status in {"not checked", "incomplete", "corrupt", "unreadable"}
        assert examine(tape).status in {"not checked", "incomplete", "corrupt", "unreadable"}
    assert examine(Path("nowhere.tape")).error == "No such file or directory"
    Path("folder.tape").mkdir()
    assert examine(Path("folder.tape")).status == "unreadable"


def test_damaged_frames_are_found_by_reading() -> None:
    """Damage that headers and index do not show is found when the inputs are read."""
    tape = recorded("one", "heaps.toml --player left=push --ticks 400")
    whole = tape.read_bytes()
    for place in range(1000, len(whole), 500):
        tape.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        if glance(tape).status == "not checked" and examine(tape).status == "corrupt":
            return
    pytest.fail("no damage was found only by reading")


def test_any_values_in_meta() -> None:
    """META may hold any value: numbers beyond the database, names that are not text, tables instead of text."""
    notes = {"players": {"a": 3, 4: "b", "c": "d"}, "ticks": 2**64 - 1, "scenario": [1], "source": {"x": 1}}
    with Recorder("odd.tape", Walkers(), notes={**notes, "inputs": None}) as tape:
        tape.step(None)
        tape.close({"reason": 7, "text": b"\xff", "scores": {"a": "x"}, "exception": {}})
    found = examine(Path("odd.tape"))
    assert (found.reason, found.text, found.error, found.scenario) == (None, None, None, None)
    assert found.policies == {"c": "d"}
    assert found.settings is not None
    assert found.settings.goal_ticks is None


def test_another_version_of_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the last state nor the agents are available: the description has only what the tape states."""
    import attrs

    tape = unscored(monkeypatch, "one", "heaps.toml --player left=push")
    with_scores = recorded("two", "heaps.toml --player left=push")
    as_installed = examine(with_scores).players
    monkeypatch.setattr(duel_world, "WORLD", attrs.evolve(duel_world.WORLD, version=2))
    found = examine(tape)
    assert found.players == (PlayerResult("left", "push"),)
    assert (found.status, found.error) == ("not checked", None)
    assert examine(with_scores).players == as_installed


def test_an_environment_and_an_object_are_known_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """By what makes the environment, and by the class; in an index that was written, too."""
    gymnasium = pytest.importorskip("gymnasium")
    env = recorder.record(gymnasium.make("CartPole-v1"), "cart.tape")
    env.reset(seed=3)
    env.close()
    with Recorder("walk.tape", Walkers()) as tape:
        tape.step([])

    assert [
        (one.simulation, one.world, one.subject) for one in map(glance, (Path("cart.tape"), Path("walk.tape")))
    ] == [
        ("CartPole-v1", None, "CartPole-v1"),
        ("small_worlds.Walkers", None, "small_worlds.Walkers"),
    ]
    for option in ("", "--rebuild", ""):
        run(replayer.commands.main.main, f"ls . {option}")
        listed = [line.split()[0:3:2] for line in capsys.readouterr().out.splitlines()[2:4]]
        assert listed == [["cart.tape", "CartPole-v1"], ["walk.tape", "small_worlds.Walkers"]]


@pytest.mark.parametrize("seeds", [(7, 8), (None, 8)])
def test_the_seed_of_an_environment_is_that_of_its_first_reset(
    seeds: tuple[int | None, int | None], tmp_path: Path
) -> None:
    """A later one is that of another episode. Without a seed, Gymnasium draws one, which is recorded."""
    gymnasium = pytest.importorskip("gymnasium")
    env = recorder.record(gymnasium.make("CartPole-v1"), tmp_path / "cart.tape", quiet=True, trial_ms=0)
    first: list[int] = []
    for seed in seeds:
        env.reset(seed=seed)
        first.append(env.unwrapped.np_random_seed)
        env.step(0)
    env.close()
    assert glance(tmp_path / "cart.tape").seed == first[0]
