"""The output of replay certify for damaged tapes, and for those that no environment reproduces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder.format.blocks.block import HEADER_BYTES, BlockKind
from replayer.tape.tape import Tape

from oracle.command_lines import run
from project_paths import SOURCES

MODULE = """
import os
from sim import Field, Schema, State
from sim.adapters import adapt


class Plain:
    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("x", "f8", (4,))))

    def step(self, inputs):
        self.state["tick"][()] += 1
        self.state["x"][:] += 1
        if self.state["tick"] == 15:
            self.odd()

    def odd(self):
        pass


class Sets(Plain):
    def odd(self):
        for word in {"oak", "elm", "birch", "lime", "ash"}:
            self.state["x"][2] = self.state["x"][2] * 0.7 + len(word)
        self.state["x"][3] += "WHILE_RECORDING" in os.environ


def make_village():
    return adapt(Village())


class Village:
    def __init__(self):
        self.day, self.served = 0, []

    def step(self, inputs=None):
        self.day += 1
        if self.day == 15:
            self.served = list({"oak", "elm", "birch", "lime", "ash"})
"""
RECORD = """
import sys, recorder, words
tape = recorder.Recorder(
    "a.tape", getattr(words, sys.argv[1])(), keyframe_interval_ticks=10, sync="never", durability="block"
)
for tick in range(1, 31):
    tape.step()
    if tick % 5 == 0:
        tape.flush()
tape.close()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module; no hash seed is set."""
    (tmp_path / "words.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    yield tmp_path
    sys.modules.pop("words", None)


def record(name: str, **environment: str) -> None:
    """Record thirty ticks, five to a block, in a separate process."""
    paths = os.pathsep.join([str(Path.cwd()), str(SOURCES)])
    command = [sys.executable, "-c", RECORD, name]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths, **environment}, check=True)


def certify(capsys: Any, name: str, more: str = "--quick") -> tuple[int, str, dict[str, Any]]:
    """The exit code, the output, and the certificate."""
    code = run(replayer.commands.main.main, f"certify a.tape --sim words:{name} --factor hash-seed {more}")
    return code, capsys.readouterr().out, json.loads(Path("a.certificate.json").read_text())


def check(capsys: Any, more: str = "") -> tuple[int, str]:
    """The exit code and output of --check on the existing certificate."""
    code = run(replayer.commands.main.main, f"certify a.tape --check{more}")
    return code, capsys.readouterr().out


def offset_of(kind: int, tick: int = 0) -> int:
    """The offset of a block in the file; of the block with the frame of a tick if it holds frames."""
    with Tape("a.tape") as tape:
        tape.distrust_index()
        entries = [entry for entry in tape.segments[0].contents.entries if entry.kind == kind]
        return next(
            one.offset for one in entries if kind != BlockKind.FRAMES or one.first_tick <= tick <= one.final_tick
        )


@pytest.mark.seldom(0.15)
def test_a_damaged_tape_is_not_certified_to_be_the_same_everywhere(capsys: Any) -> None:
    """Ticks 16 to 20 cannot be read: the cells, the last lines, the certificate and --check report it; exit code 4."""
    record("Plain")
    data = bytearray(Path("a.tape").read_bytes())
    data[offset_of(BlockKind.FRAMES, 18) + HEADER_BYTES + 3] ^= 1
    Path("a.tape").write_bytes(data)

    code, output, kept = certify(capsys, "Plain")
    assert code == 4
    assert "26 of 31 ticks" in output
    assert "the same everywhere, as far as the tape can be read: it is corrupt" in output
    assert "not verified anywhere: ticks 16 to 20" in output
    assert (kept["status"], kept["same_everywhere"]) == ("corrupt", False)
    assert kept["cells"][0]["unreached_ticks"] == [[16, 20]]
    assert kept["cells"][0]["problems"]
    code, output = check(capsys)
    assert (code, "it is corrupt" in output) == (4, True)
    assert check(capsys, " --json")[0] == 4
    # A certificate of an earlier version called such a tape the same everywhere.
    Path("a.certificate.json").write_text(json.dumps(kept | {"same_everywhere": True}))
    code, output = check(capsys, " --json")
    assert (code, json.loads(output)["same_everywhere"]) == (4, False)


@pytest.mark.seldom(0.15)
def test_a_tape_without_a_seal_is_the_same_everywhere_and_reported_as_not_sealed(capsys: Any) -> None:
    """All ticks are there: exit code 3, from --check as well."""
    record("Plain")
    end = offset_of(BlockKind.END)
    Path("a.tape").write_bytes(Path("a.tape").read_bytes()[:end])

    code, output, kept = certify(capsys, "Plain")
    assert (code, kept["status"], kept["same_everywhere"]) == (3, "incomplete", True)
    assert "the same everywhere; the tape is not sealed" in output
    code, output = check(capsys)
    assert (code, "the tape is not sealed" in output) == (3, True)


@pytest.mark.seldom(0.15)
def test_environments_that_all_differ_from_the_tape_are_told_apart(capsys: Any) -> None:
    """The report shows which of them differ from the present one, and that none gives the recorded states."""
    record("Sets", WHILE_RECORDING="1")

    code, output, kept = certify(capsys, "Sets", "")
    outcomes = {(cell["factor"], cell["level"]): cell["outcome"] for cell in kept["cells"]}
    rows = {tuple(re.split(r" {2,}", row.strip())[:2]): row for row in output.splitlines() if "first at tick" in row}
    present = outcomes["present environment", "PYTHONHASHSEED=0"]
    assert code == 1
    assert {outcome == present for cell, outcome in outcomes.items() if cell[0] == "hash seed"} == {True, False}
    assert len(rows) == len(outcomes) == 6
    for cell, row in rows.items():
        if cell[0] != "present environment":
            is_present = cell == ("hash seed", "0")
            same = "this is" if is_present else "as in" if outcomes[cell] == present else "different from"
            assert row.endswith(f": {same} the present environment")
    assert "hash seed: makes a difference alone" in output
    assert "none of these environments gives the recorded states" in output


def test_values_of_objects_have_their_paths(capsys: Any) -> None:
    """As in verify, and not the names under which the library keeps them; a hash seed that is not set is said to be fixed."""
    record("make_village", PYTHONHASHSEED="0")

    code, output, kept = certify(capsys, "make_village")
    fields = [name for cell in kept["cells"] for name in cell.get("fields") or []]
    assert code == 1
    assert re.search(r"first at tick 15, fields? served\b", output)
    assert "graph." not in output
    assert not any(name.startswith("graph.") for name in fields)
    assert (
        "\n  PYTHONHASHSEED is not set here: fixed to 0 for the comparison, as each process would draw its own\n"
        in output
    )
