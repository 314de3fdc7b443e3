"""replay explain with two tapes: environment variables that modules read while they are imported, as the tapes tell them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import replayer.commands.main
from recorder.ambient.outside.outside_note import OutsideNote
from recorder.ambient.outside.outside_read import variable_fact
from replayer.diagnose.parties.differences.factors import find_factors
from replayer.diagnose.parties.party import Made, Party
from replayer.diagnose.parties.party_runner import PartyRun
from replayer.diagnose.parties.told.told_environment import told_of, with_told
from replayer.report.parties.factor_text import factor_text

from oracle.command_lines import run
from project_paths import SOURCES

SETTINGS = """
import os

COLOUR = os.environ.get("MILL_COLOUR", "grey")
STONES = int(os.environ.get("MILL_STONES", "2"))
"""
MILL = """
from told_settings import COLOUR, STONES


class Mill:
    def __init__(self):
        self.day = self.flour = 0

    def step(self):
        self.day += 1
        if self.day > 5:
            self.flour += STONES

    def sign(self):
        return COLOUR
"""
RECORD = """
import sys, recorder
from told_mill import Mill
mill = recorder.record(Mill(), sys.argv[1])
for _ in range(12):
    mill.step()
mill.close()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A game whose settings come from the environment, and the tape of a party that has set none of them."""
    (tmp_path / "told_settings.py").write_text(SETTINGS)
    (tmp_path / "told_mill.py").write_text(MILL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCES), str(tmp_path)]))
    for name in ("MILL_STONES", "MILL_COLOUR"):
        monkeypatch.delenv(name, raising=False)
    recorded("a.tape")
    return tmp_path


def recorded(tape: str, **environment: str) -> None:
    subprocess.run([sys.executable, "-c", RECORD, tape], env={**os.environ, **environment}, check=True)


@pytest.mark.long
@pytest.mark.usefixtures("folder")
def test_a_variable_that_a_module_of_settings_reads_is_the_cause_without_being_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its value is a small number, of which the tape has the digest. What the other variable had, the state does not tell."""
    recorded("b.tape", MILL_STONES="7", MILL_COLOUR="lilac and white")
    assert run(replayer.commands.main.main, "explain a.tape b.tape --sim told_mill:Mill") == 1
    printed = capsys.readouterr().out
    assert "cause: the environment variable MILL_STONES, read at told_settings.py:5: not set in A, 7 in B" in printed
    assert "told_mill.py:12 in Mill.step" in printed
    assert "note: the simulation of B gets MILL_STONES=7 (read at told_settings.py:5)" in printed
    assert "MILL_COLOUR" not in printed


@pytest.mark.long
@pytest.mark.usefixtures("folder")
def test_a_value_that_is_not_known_is_said_to_be_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict names the variable and the line; a value that was given stays, though the tape tells another one."""
    recorded("b.tape", MILL_STONES="70007")
    assert run(replayer.commands.main.main, "explain a.tape b.tape --sim told_mill:Mill") == 1
    printed = capsys.readouterr().out
    told = "tape B was recorded with another value of the environment variable MILL_STONES (read at told_settings.py:5)"
    assert f"{told} than the simulation of B has here (not set)" in printed
    assert "next: replay explain a.tape b.tape --sim told_mill:Mill --env MILL_STONES=VALUE" in printed
    assert (
        run(replayer.commands.main.main, "explain a.tape b.tape --sim told_mill:Mill --env MILL_STONES=2 --json") == 1
    )
    facts = json.loads(capsys.readouterr().out)
    assert [(one["party"], one["name"], one["present"], one["values"]) for one in facts["told"]] == [
        (1, "MILL_STONES", "2", [])
    ]


def test_a_value_of_this_process_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a secret; those that were given are shown, and those that tapes have as they are."""
    monkeypatch.setenv("MILL_TOKEN", "x5!kz")
    monkeypatch.setenv("LANG", "C.UTF-8")
    one = party("B", MILL_STONES="2", MILL_PACE=None)
    assert one.shown_variable("MILL_TOKEN") == "set in this process"
    assert [one.shown_variable(name) for name in ("MILL_STONES", "MILL_PACE", "LANG")] == ["2", "not set", "C.UTF-8"]


def party(label: str, **environment: str | None) -> Party:
    return Party(label, Path(f"{label}.tape"), Path(f"{label}.tape"), "mill:Mill", environment=environment)


def made(folder: Path, **stages: str) -> Made:
    """How a simulation was made that reads these variables at these stages, each at the line of its number."""
    (folder / "mill.py").write_text("KINDS = 'coarse', 2.5\n")
    variables = {name: (str(folder / "mill.py"), line, stage) for line, (name, stage) in enumerate(stages.items(), 1)}
    return Made("mill:Mill", {}, {"mill": str(folder / "mill.py")}, {}, [], "3", variables=variables)


def test_variables_are_told_by_the_digest_of_their_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a party that is not as recorded: numbers, what its code names, and unset ones; not those given or equal."""
    recorded_with: dict[str, str | None] = {
        "KIND": "coarse", "SPEED": "2.5", "COUNT": "12", "SECRET": "x5!kz", "MOOD": None, "SAME": "1", "GIVEN": "5", "LATE": "1",
    }  # fmt: skip
    named = tuple(("variable", name, variable_fact(value)) for name, value in recorded_with.items())
    monkeypatch.setenv("MOOD", "gloomy")
    monkeypatch.setenv("SAME", "1")
    parties = party("A"), party("B", GIVEN="6")
    own = made(tmp_path, **dict.fromkeys(recorded_with, "import") | {"LATE": "step", "UNKNOWN": "import"})
    runs = [PartyRun(None, hash_value, None, None, own) for hash_value in (1, 2)]
    notes = [OutsideNote(), OutsideNote(named=named)]
    told = told_of(parties, runs, (1, 3), notes)
    assert {one.name: one.values for one in told} == {
        "KIND": ("coarse",), "SPEED": ("2.5",), "COUNT": ("12",), "SECRET": (), "MOOD": (None,), "GIVEN": (),
    }  # fmt: skip
    first, second = with_told(parties, [one for one in told if one.values])
    assert first.environment == {}
    assert second.environment == {"GIVEN": "6", "KIND": "coarse", "SPEED": "2.5", "COUNT": "12", "MOOD": None}
    assert told_of(parties, runs, (1, 2), notes) == []
    # A party that is as recorded has what its tape tells as well: what it differs in from the other one is not this process's.
    assert [(one.party, one.name, one.values) for one in told_of(parties, runs, (1, 3), notes[::-1])][:1] == [
        (0, "KIND", ("coarse",))
    ]
    # What a step reads is tried later, unless both parties are not as recorded.
    assert [one.name for one in told_of(parties, runs, (4, 3), notes)][-1] == "LATE"


def test_a_variable_that_tapes_note_as_it_is_is_told_without_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the time zone. Of an earlier recording, which did not note all of them, nothing follows from a missing one."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("LANG", raising=False)
    parties, own = (party("A"), party("B")), made(tmp_path, TZ="import")
    runs = [PartyRun(None, hash_value, None, None, own) for hash_value in (1, 2)]
    notes = [OutsideNote(process={"LANG": "C"}), OutsideNote(process={"TZ": "Asia/Tokyo"}, watches=True)]
    told = told_of(parties, runs, (1, 3), notes)
    assert [one.text for one in told] == [
        "the simulation of A runs with LANG=C, as tape A tells",
        "the simulation of B runs with TZ=Asia/Tokyo, as tape B tells",
    ]
    assert [one.text for one in told_of(parties, runs, (1, 3), [OutsideNote(process={}, watches=True)] * 2)] == [
        f"the simulation of {label} runs with TZ not set, as tape {label} tells" for label in "AB"
    ]


def test_a_variable_that_is_not_given_has_the_value_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not said to be unset, and the other party gets it with that value; nor is a given one that equals it a difference."""
    monkeypatch.setenv("MILL_STONES", "3")
    monkeypatch.setenv("MILL_COLOUR", "red")
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    parties = party("A"), party("B", MILL_STONES="4", MILL_COLOUR="red", PYTHONHASHSEED="0")
    tape: Any = SimpleNamespace(meta={})
    own = made(tmp_path, MILL_COLOUR="import", MILL_STONES="construction")
    (factor,) = find_factors(parties, (tape, tape), (own, own), range(0))
    assert (
        factor_text(factor)
        == "the environment variable MILL_STONES, read at mill.py:2: set in this process in A, 4 in B"
    )
    assert [factor.give(parties[to], 1 - to).variable("MILL_STONES") for to in (0, 1)] == ["4", "3"]
