"""A tape of older code verifies against newer code through a field map; a change of behaviour is named all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.exit_codes import DIFFERS, SAME, USAGE
from replayer.commands.main import main
from replayer.playback.field_map import FieldMapError
from sim import Blob, Field, Schema, State, Table

TICKS, INTERVAL = 70, 10
GOOD = """
[renamed]
gold = "treasury"
"units.hp" = "army.health"
units = "army"

[added]
"army.rank" = 0
turns = "new"
strength = 0.0
"""


class Old:
    """As it was recorded."""

    def __init__(self) -> None:
        self.state = State(
            Schema(
                Field("gold", "i4"),
                Table("units", Field("id", "i8"), Field("hp", "i2"), capacity=2),
                Field("heat", "f8", (3,)),
                Blob("note", 4),
            )
        )

    def step(self, inputs: Any) -> None:
        """Earn, recruit, fight."""
        state = self.state
        state["gold"][...] += inputs
        state["heat"][inputs % 3] += 0.1 * inputs
        if inputs % 4 == 0:
            row = state.add_rows("units", 2)
            state["units.id"][row], state["units.hp"][row] = int(state["gold"]), 3
        elif inputs % 4 == 1 and state.count("units"):
            state.truncate_rows("units", state.count("units") - 1)
        state["units.hp"][:] -= inputs % 2
        state.set_blob("note", b"n" * (inputs * 3))


class New:
    """The same, with other names, another order, wider numbers and three fields more."""

    def __init__(self, taxes: int = 0, health: str = "i8", shape: tuple[int, ...] = (3,)) -> None:
        self.taxes = taxes
        self.state = State(
            Schema(
                Field("strength", "f8"),
                Blob("note", 4),
                Field("heat", "f8", shape),
                Table("army", Field("rank", "i8"), Field("health", health), Field("id", "i8"), capacity=2),
                Field("turns", "i8"),
                Field("treasury", "i8"),
            )
        )
        self.state["turns"][...] = 1

    def step(self, inputs: Any) -> None:
        """Earn, recruit, fight; and keep a figure that is derived."""
        state = self.state
        state["turns"][...] += 1
        state["treasury"][...] += inputs - (self.taxes if state["treasury"] > 100 else 0)
        state["heat"][inputs % 3] += 0.1 * inputs
        if inputs % 4 == 0:
            row = state.add_rows("army", 2)
            state["army.id"][row], state["army.health"][row] = int(state["treasury"]), 3
        elif inputs % 4 == 1 and state.count("army"):
            state.truncate_rows("army", state.count("army") - 1)
        state["army.health"][:] -= inputs % 2
        state.set_blob("note", b"n" * (inputs * 3))
        state["strength"][...] = float(state["army.health"].sum())


def taxing() -> New:
    """Newer code that behaves differently once there is gold."""
    return New(taxes=1)


def flat() -> New:
    """Newer code in which a field has another shape."""
    return New(shape=(4,))


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """A tape of the older code."""
    path = tmp_path / "old.tape"
    with recorder.Recorder(path, Old(), keyframe_interval_ticks=INTERVAL) as recording:
        for tick in range(TICKS):
            recording.step(tick * 7 % 6)
    return path


def written(folder: Path, text: str) -> Path:
    """A field map."""
    path = folder / "fields.toml"
    path.write_text(text)
    return path


def test_renamed_reordered_and_added_fields_verify(tape: Path, tmp_path: Path) -> None:
    """Each tick has the recorded hash, from each keyframe on; and a seek gives the old fields."""
    factory = replayer.with_field_map(New, written(tmp_path, GOOD), tape)
    report = replayer.verify_tape(tape, factory)
    assert (report.ok, report.verified_ticks) == (True, TICKS + 1)
    old = Old()
    for tick in range(45):
        old.step(tick * 7 % 6)
    with replayer.open(tape, factory) as run:
        run.seek(45)
        assert {name: run.state[name].tolist() for name in run.state} == {
            name: old.state[name].tolist() for name in old.state
        }
        assert run.simulation.inner.state["turns"] == 1 + 45 % INTERVAL  # As in a new simulation at each keyframe.


def test_another_behaviour_is_named(tape: Path, tmp_path: Path) -> None:
    """The first tick, and the field as the tape calls it."""
    plain, tick = New(taxes=1), 0
    old = Old()
    while int(plain.state["treasury"]) == int(old.state["gold"]):
        plain.step(tick * 7 % 6)
        old.step(tick * 7 % 6)
        tick += 1
    factory = replayer.with_field_map(taxing, written(tmp_path, GOOD), tape)
    report = replayer.verify_tape(tape, factory)
    assert report.first_bad == tick
    assert "gold" in (report.findings[0].place.fields or [])


@pytest.mark.seldom(0.15)
def test_the_command(tape: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the map it verifies, without it the fields that differ are named."""
    sim = ["--sim", f"{__name__}:New"]
    path = str(written(tmp_path, GOOD))
    assert status(["verify", str(tape), *sim, "--map", path, "--json"]) == SAME
    assert json.loads(capsys.readouterr().out)["verified_ticks"] == TICKS + 1
    assert status(["verify", str(tape), *sim]) == USAGE
    capsys.readouterr()
    assert status(["verify", str(tape), "--sim", f"{__name__}:taxing", "--map", path]) == DIFFERS
    assert "gold" in capsys.readouterr().out
    assert status(["verify", str(tape), *sim, "--map", path, "--fast"]) == USAGE
    assert status(["verify", str(tape), *sim, "--map", str(tmp_path / "none.toml")]) == USAGE
    assert capsys.readouterr().err.count("\n") == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[renamed", "not a TOML file"),
        ("fields = 3", "expected the tables"),
        ("renamed = 3", r"expected a table \[renamed\]"),
        ("[renamed]\ngold = 3", "expected the name of a field, got 3"),
        ('[added]\nturns = "old"', "expected a number, true, false"),
        (GOOD.replace('turns = "new"', "turns = 0.5"), r"\[added\] turns: a field of \S+ cannot hold 0.5"),
        (GOOD.replace('turns = "new"', "turns = nan"), r"\[added\] turns: a field of \S+ cannot hold nan"),
        (GOOD.replace('turns = "new"', f"turns = {1 << 62}0"), r"\[added\] turns: a field of \S+ cannot hold"),
        (GOOD.replace("gold =", "golt ="), "golt: no field on the tape; did you mean gold"),
        (GOOD.replace("turns =", "turn ="), "turn: no field in the simulation; did you mean turns"),
        (GOOD.replace('gold = "treasury"', ""), "gold: fields of the tape that the simulation does not have"),
        (GOOD.replace("strength = 0.0", ""), "strength: fields of the simulation that the tape does not have"),
        (GOOD.replace('gold = "treasury"', 'gold = "heat"'), "two fields of the tape are one field"),
        (GOOD + "heat = 1.0", "the tape has this field"),
        (GOOD.replace('gold = "treasury"', 'gold = "turns"').replace("turns = ", "treasury = "), "verifies or differs"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(tape: Path, tmp_path: Path, text: str, expected: str) -> None:
    """One line that names the file and the field; a wrong but possible map gives a desync and no error."""
    path = written(tmp_path, text)
    if expected == "verifies or differs":
        assert replayer.verify_tape(tape, replayer.with_field_map(New, path, tape)).first_bad is not None
        return
    with pytest.raises(FieldMapError, match=expected) as refused:
        replayer.with_field_map(New, path, tape)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value).removeprefix(str(path)) or "TOML" in expected


def test_fields_of_other_shapes_are_refused(tape: Path, tmp_path: Path) -> None:
    """Their values do not fit."""
    with pytest.raises(FieldMapError, match=r"heat has shape \(3,\) on the tape"):
        replayer.with_field_map(flat, written(tmp_path, GOOD), tape)


def status(words: list[str]) -> int:
    """Run a command line and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)
