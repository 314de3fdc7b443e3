"""Verification restores each keyframe and proves its values: each planted fault is found by the proof that can see it."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from recorder import Recorder
from recorder.errors import RecordingWarning, SimulationFailedError
from recorder.exit_codes import DIFFERS
from replayer.commands.verify import verify as verify_command
from replayer.report.report_text import print_report
from replayer.timeline.verify import VerificationReport, verify_tape
from sim import Field, Schema, State
from sim.adapters import adapt, fields
from sim.adapters.capture import captured_state, recapture, unpack
from sim.adapters.capture.digest.value_digest import METHOD
from sim.adapters.capture.graph.cells import cell_writer

TICKS, INTERVAL = 40, 10


class Game:
    """Numbers, texts, flags in a list, an array and generators; its step reads all of them."""

    def __init__(self) -> None:
        self.tick = 0
        self.hp = 100.0
        self.name = "begin"
        self.flags = [False, False]
        self.grid = np.zeros((3, 3))
        self.random = random.Random(7)
        self.numbers = np.random.default_rng(7)

    def step(self, inputs: Any) -> float:  # noqa: ARG002 - it has no inputs
        self.tick += 1
        self.hp -= self.random.random()
        self.flags = [*self.flags[1:], self.tick % 3 == 0]
        self.grid[self.tick % 3] += self.numbers.random(3)
        if self.tick % 6 == 0:
            self.name = f"{self.name[-1]} {self.tick}"
        return self.hp


def record_game(path: Path, **options: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        simulation = adapt(Game(), fields())
        with Recorder(path, simulation, **{"keyframe_interval_ticks": INTERVAL, **options}) as tape:
            for _ in range(TICKS):
                tape.step(None)
        statistics = tape.statistics()
    assert all(issubclass(one.category, RecordingWarning) for one in caught)
    return statistics, [str(one.message) for one in caught]


def printed(path: Path, report: VerificationReport, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_report(path, report)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_keyframe_is_proved(tmp_path: Path, jobs: int, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.tape"
    statistics, _ = record_game(path, full_every=3)
    report = verify_tape(path, Game, jobs=jobs)

    assert statistics.capture_faults == 0
    assert (report.ok, report.proved_keyframes, report.wrong_keyframes) == (True, 5, [])
    assert printed(path, report, capsys) == [
        f"{path}: all 41 ticks match the recording; 5 keyframes restore its values"
    ]


def test_a_tape_without_digests_verifies_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An older recorder made it; the line is the older one."""
    path = tmp_path / "run.tape"
    monkeypatch.setattr("recorder.session.recorder.digest_maker", lambda _: None)
    record_game(path)
    with replayer.Tape(path) as tape:
        assert {tape.recording.value_digest(place) for place in tape.keyframes} == {b""}
    report = verify_tape(path, Game)

    assert (report.ok, report.proved_keyframes, report.wrong_keyframes) == (True, 0, [])
    assert printed(path, report, capsys) == [f"{path}: all 41 ticks match the recording"]


def test_a_digest_by_another_method_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.tape"
    with monkeypatch.context() as patched:
        patched.setattr("sim.adapters.capture.digest.value_digest.METHOD", b"\xff")
        record_game(path)
    report = verify_tape(path, Game)

    assert METHOD != b"\xff"
    assert (report.ok, report.proved_keyframes) == (True, 0)


# --- faults of the code that captures and restores


def true_becomes_false(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture and recapture write True inside a list as False: equal bytes, another value."""
    monkeypatch.setattr(cell_writer, "TRUE", cell_writer.FALSE)


def array_is_not_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load leaves the array as the fresh object has it."""
    restore = unpack._Restoring._restore

    def changed(self: Any, layer: str, attribute: Any, attributes: dict[str, Any]) -> None:
        before = attributes[attribute.name].copy() if attribute.name == "grid" else None
        restore(self, layer, attribute, attributes)
        if before is not None:
            attributes["grid"] = before

    monkeypatch.setattr(unpack._Restoring, "_restore", changed)


def generator_is_not_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load leaves the state of the generator as it is."""
    monkeypatch.setattr(unpack, "set_pcg_words", lambda *_: None)


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, bool]] = {
    "flags": (true_becomes_false, "Game.flags[", False),
    "grid": (array_is_not_restored, "Game.grid", True),
    "numbers": (generator_is_not_restored, "Game.numbers.bit_generator", True),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.seldom(0.15)
def test_a_value_that_is_restored_wrongly_is_found_by_its_digest(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its path, from a replay that loads nothing. The other proof is switched off."""
    plant, path_start, is_seen_by_capture = FAULTS[name]
    plant(monkeypatch)
    path = tmp_path / "run.tape"
    record_game(path)
    if is_seen_by_capture:
        assert recaptured_ticks(path, monkeypatch)
    monkeypatch.setattr(recapture.ProvedSimulation, "recapture", None)
    report = verify_tape(path, Game)

    assert not report.ok
    truth = Game()
    for _ in range(report.wrong_keyframes[0].tick):
        truth.step(None)
    fresh = vars(Game())[name]
    assert repr(vars(truth)[name]) != repr(fresh) or name == "numbers", "the first wrong keyframe holds another value"
    assert all(values.differing and not values.recaptured for values in report.wrong_keyframes)
    first = report.wrong_keyframes[0]
    assert first.path is not None
    assert first.path.startswith(path_start)
    lines = printed(path, report, capsys)
    assert f"  keyframe at tick {first.tick} restores to other values: {first.path}" in lines
    assert "all 41 ticks match" not in lines[0]


def recaptured_ticks(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ticks of the keyframes that only the second proof finds."""
    with monkeypatch.context() as patched:
        patched.setattr("replayer.timeline.keyframe_values.find_path", lambda *_: None)
        return [found.tick for found in verify_tape(path, Game).wrong_keyframes if found.recaptured]


def test_only_keyframes_with_other_values_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """True is among the flags of the ticks 10, 30 and 40, and of no other keyframe's."""
    path = tmp_path / "run.tape"
    game, wrong = Game(), []
    for tick in range(1, TICKS + 1):
        game.step(None)
        if tick % INTERVAL == 0 and any(game.flags):
            wrong.append(tick)
    true_becomes_false(monkeypatch)
    record_game(path)
    report = verify_tape(path, Game)

    assert [values.tick for values in report.wrong_keyframes] == wrong
    assert 0 < len(wrong) < 4
    assert report.proved_keyframes == 5 - len(wrong)


class Half:
    """Two numbers; a load forgets one, whose digest is blind to it. Nothing but a new capture finds that."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8"), Field("y", "i8")))
        self.x = self.y = 0

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - it has no inputs
        self.x += 1
        self.state["x"][...], self.state["y"][...] = self.x, self.y

    def after_restore(self) -> None:
        self.x = int(self.state["x"])

    def value_digest(self) -> bytes:
        return b"digest %d" % self.x

    def recapture(self) -> list[str]:
        differing = [name for name in ("x", "y") if self.state[name] != getattr(self, name)]
        for name in differing:
            self.state[name][...] = getattr(self, name)
        return differing


class Odd(Half):
    """It starts with another number than its factory gives in a replay."""

    def __init__(self) -> None:
        super().__init__()
        self.y = 5


def test_a_value_that_the_digest_does_not_see_is_found_by_capturing_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.tape"
    with Recorder(path, Odd(), keyframe_interval_ticks=INTERVAL) as tape:
        for _ in range(TICKS):
            tape.step(None)
    report = verify_tape(path, Half)

    assert not report.ok
    found = [(values.tick, values.differing, values.recaptured) for values in report.wrong_keyframes]
    assert found[0] == (0, False, ("y",))
    lines = printed(path, report, capsys)
    assert (
        "  keyframe at tick 0 restores to other values: y (their digest is equal, and capturing them again gives "
        "other bytes)"
    ) in lines


@pytest.mark.parametrize("member", ["value_digest", "recapture"])
def test_a_simulation_that_raises_when_it_is_proved_is_named(tmp_path: Path, member: str) -> None:
    path = tmp_path / "run.tape"
    with Recorder(path, Half(), keyframe_interval_ticks=INTERVAL) as tape:
        tape.step(None)

    def fail(_: Any) -> None:
        raise KeyError(member)

    with pytest.raises(SimulationFailedError, match=rf"tick 0.*{member}.*KeyError"):
        verify_tape(path, type("Failing", (Half,), {member: fail}))


# --- the recording


def blind_to_hp(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number is not looked at after a step: the capture finds the one that it knows each time."""
    look_and_write = captured_state.CapturedState.pack

    def changed(self: Any) -> None:
        packer = self._packer
        attributes = vars(packer._objects["Game"])
        now = attributes["hp"]
        attributes["hp"] = packer._plan.value(packer._numbers["hp", id(attributes)])
        try:
            look_and_write(self)
        finally:
            attributes["hp"] = now

    monkeypatch.setattr(captured_state.CapturedState, "pack", changed)


def first_stale_tick() -> int:
    """The first tick of a run at which the state does not hold the number of the object."""
    simulation = adapt(Game(), fields())
    return next(
        tick
        for tick in range(1, TICKS + 1)
        if simulation.step(None) is not None and simulation.state["Game.hp"] != simulation.subject.hp
    )


def states_at_keyframes(path: Path) -> dict[int, tuple[float, str]]:
    """What each keyframe restores into a fresh object."""
    restored = {}
    with replayer.Tape(path) as tape:
        for place in tape.keyframes:
            simulation = adapt(Game(), fields())
            simulation.state.restore(tape.snapshot(place))
            simulation.after_restore()
            restored[place.tick] = (simulation.subject.hp, simulation.subject.name)
    return restored


def truth_at(ticks: list[int]) -> dict[int, tuple[float, str]]:
    game, found = Game(), {}
    for tick in range(TICKS + 1):
        if tick in ticks:
            found[tick] = (game.hp, game.name)
        game.step(None)
    return found


def test_a_change_that_was_not_noticed_is_repaired_at_the_keyframe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each keyframe restores what a plain loop kept. The ticks between do not verify."""
    path = tmp_path / "run.tape"
    with monkeypatch.context() as patched:
        blind_to_hp(patched)
        statistics, texts = record_game(path)

    ticks = list(range(0, TICKS + 1, INTERVAL))
    assert states_at_keyframes(path) == truth_at(ticks)
    stale = ticks[1:]
    assert statistics.capture_faults == len(stale)
    assert ["at tick 10 the recorded state differed from Game.hp in the object" in text for text in texts] == [True]
    with replayer.Tape(path) as tape:
        assert [place.tick for place in tape.keyframes if place.is_full] == [0, *stale]
    assert not verify_tape(path, Game).ok


def test_an_audit_finds_the_change_at_its_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From that tick on, each one has a keyframe that restores what a plain loop kept."""
    path = tmp_path / "run.tape"
    with monkeypatch.context() as patched:
        blind_to_hp(patched)
        stale = first_stale_tick()
        statistics, texts = record_game(path, changes="audit")

    assert [f"at tick {stale} the recorded state differed from Game.hp" in text for text in texts] == [True]
    with replayer.Tape(path) as tape:
        ticks = [place.tick for place in tape.keyframes]
    assert ticks[:2] == [0, stale]
    assert statistics.capture_faults == len(set(ticks) - {0}) > TICKS // 2
    assert states_at_keyframes(path) == truth_at(ticks)


def test_an_audit_of_a_right_capture_finds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    statistics, texts = record_game(path, changes="audit")

    assert (statistics.capture_faults, texts) == (0, [])
    assert verify_tape(path, Game).ok


def test_a_tape_with_a_wrong_digest_cannot_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in Python nor on the command line, whose exit code is that of a difference."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "game_of_verify.py").write_text(
        "class Game:\n    def __init__(self):\n        self.x = 0\n    def step(self, inputs):\n        self.x += 1\n"
    )
    import game_of_verify  # type: ignore[import-not-found]

    simulation = adapt(game_of_verify.Game(), fields())
    right = simulation.value_digest
    with monkeypatch.context() as patched:
        patched.setattr(
            recapture.ProvedSimulation,
            "value_digest",
            lambda *_: bytes([*right()[:-1], right()[-1] ^ (simulation.subject.x == 20)]),
        )
        with recorder.Recorder("run.tape", simulation, keyframe_interval_ticks=INTERVAL) as tape:
            for _ in range(TICKS):
                tape.step(None)
    report = verify_tape("run.tape", game_of_verify.Game)
    code = verify_command(Path("run.tape"), sim="game_of_verify:Game", jobs=1)
    lines = capsys.readouterr().out.splitlines()
    json_code = verify_command(Path("run.tape"), sim="game_of_verify:Game", jobs=1, as_json=True)
    facts = json.loads(capsys.readouterr().out)

    assert (report.ok, report.first_bad, report.proved_keyframes) == (False, None, 4)
    text = "keyframe at tick 20 restores to other values: unknown ones, since no replay from the start gives the recorded ones"
    assert [str(values) for values in report.wrong_keyframes] == [text]
    assert (code, json_code) == (DIFFERS, DIFFERS)
    assert lines == ["run.tape: intact; 41 of 41 ticks match the recording", f"  {text}"]
    assert (facts["ok"], facts["proved_keyframes"], facts["wrong_keyframes"][0]["text"]) == (False, 4, text)
