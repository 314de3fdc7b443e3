"""Damage and a missing seal have one exit code in all commands; the worst finding wins: 1, then 4, then 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder
from replayer.status import worst_code
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State

import small_worlds
from oracle.command_lines import assert_one_line, run


class Declared:
    """A simulation with a write contract, which it keeps or violates."""

    writes = frozenset({"x"})

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8", (20,)), Field("y", "i8")))

    def step(self, inputs: Any) -> None:
        self.state["x"][:] += inputs


class Undeclared(Declared):
    """Writes y, too."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        self.state["y"][()] += 0


class Other(Declared):
    """A different version of the code."""

    def step(self, inputs: Any) -> None:
        super().step(inputs + (self.state["x"][0] == 7))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with an intact tape, one that lacks its end, one with a flipped bit, and one that differs."""
    monkeypatch.chdir(tmp_path)
    for world in (Declared, Undeclared, Other):
        monkeypatch.setattr(small_worlds, world.__name__, world, raising=False)
    for name, made in (("sound", Declared()), ("other", Other())):
        with Recorder(f"{name}.tape", made, keyframe_interval_ticks=10) as tape:
            for _ in range(60):
                tape.step(1)
    data = bytearray(Path("sound.tape").read_bytes())
    Path("cut.tape").write_bytes(data[:-60])
    data[len(data) // 2] ^= 1
    Path("flipped.tape").write_bytes(data)


SIM = "--sim small_worlds:"


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        (f"verify TAPE {SIM}Declared", (0, 3, 4, 1)),
        (f"drift TAPE {SIM}Declared", (0, 3, 4, 1)),
        (f"contracts TAPE {SIM}Declared", (0, 3, 4, 1)),
        (f"contracts TAPE {SIM}Undeclared", (1, 1, 1, 1)),
        ("diff sound.tape TAPE", (0, 3, 4, 1)),
        ("diff TAPE sound.tape --json", (0, 3, 4, 1)),
        ("diff other.tape TAPE", (1, 1, 1, 0)),
    ],
)
@pytest.mark.seldom(0.18)
def test_one_rule_for_all_commands(line: str, codes: tuple[int, ...]) -> None:
    """For an intact tape, one that is not sealed, a damaged one, one that differs."""
    tapes = ("sound.tape", "cut.tape", "flipped.tape", "other.tape")
    assert tuple(run(replayer.commands.main.main, line.replace("TAPE", tape)) for tape in tapes) == codes


def test_a_difference_is_worse_than_damage_and_that_worse_than_no_seal() -> None:
    """In any order of the tapes."""
    assert [worst_code(codes) for codes in ((), (0, 3), (3, 4, 0), (4, 3, 1), (0, 0))] == [0, 3, 4, 1, 0]


@pytest.mark.parametrize("output", ["no/d.png", "sound.tape/d.png"])
@pytest.mark.seldom(0.15)
def test_one_document_is_printed_where_the_picture_cannot_be_drawn(
    output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """For programs only the error; for people the difference, which took its time, and then the error."""
    with Recorder("fed.tape", Declared()) as tape:
        for tick in range(60):
            tape.step(1 + (tick == 30))
    line = f"diff sound.tape fed.tape {SIM}Declared"
    assert run(replayer.commands.main.main, f"{line} --json -o d.png") == 1
    assert json.loads(capsys.readouterr().out)["course_of"] == "rows"
    assert run(replayer.commands.main.main, f"{line} --json -o {output}") == 2
    assert set(json.loads(capsys.readouterr().out)) == {"error", "exit_code"}
    assert run(replayer.commands.main.main, f"{line} -o {output}") == 2
    captured = capsys.readouterr()
    assert "first different at tick 31" in captured.out
    assert captured.err.count("\n") == 1


def test_a_dump_and_a_tape_are_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The line names what could be compared instead."""
    dump = verify_tape("sound.tape", Other, dump_folder=Path()).dump_path
    for pair in (f"{dump} sound.tape", f"sound.tape {dump}"):
        assert run(replayer.commands.main.main, f"diff {pair}") == 2
        assert_one_line(
            capsys.readouterr(),
            f"got the dump {dump} and the tape sound.tape; the dump contains the tape {dump}/reproduction",
        )


def test_a_series_says_what_it_was_counted_by(capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty rows of one field differ: without the states it is unknown if that is more than at the beginning."""
    assert run(replayer.commands.main.main, "diff sound.tape other.tape") == 1
    assert "trend: bounded by the number of fields, " in capsys.readouterr().out
    assert run(replayer.commands.main.main, "diff sound.tape other.tape --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["course"], facts["course_of"]) == ("bounded", "fields")
