"""``replay check`` from a user's folder: its output and exit code, and no traceback."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replayer.commands.main import main

from oracle.command_lines import run

WALKERS = """
from sim import Field, Schema, State

class Sound:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8")))

    def step(self, inputs):
        self.state["x"][()] += 1 + len(inputs or ())

class Leaky(Sound):
    memo = None

    def step(self, inputs):
        self.memo = (self.memo or 0) + 1
        self.state["x"][()] += self.memo

class Hungry(Sound):
    def step(self, inputs):
        self.state["x"][()] += inputs[0]

def broken():
    raise RuntimeError("no seed")

def number():
    return 5
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder with a user's module of a name that no other test has imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "walkers", raising=False)
    Path("walkers.py").write_text(WALKERS)


Replay = Callable[..., tuple[int, str, str]]


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str]) -> Replay:
    """Run the command: exit code, output, and errors."""

    def run_check(*words: str) -> tuple[int, str, str]:
        code = run(main, shlex.join(["check", *words]))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_check


def test_a_simulation_without_hidden_state_exits_with_0(replay: Replay) -> None:
    """One line states the ticks and restores."""
    code, printed, errors = replay("walkers:Sound", "--ticks", "40", "--period", "5")

    assert (code, errors) == (0, "")
    assert printed == (
        "walkers:Sound: no hidden state seen in 40 ticks, 16 restores into fresh and used instances\n"
        "  1 trajectory of 40 ticks, repeated, loaded and recorded: the same states and results\n"
    )


def test_hidden_state_exits_with_1_and_fits_on_a_screen(replay: Replay) -> None:
    """The name of the attribute, proved, with the tick and the values."""
    code, printed, errors = replay("walkers:Leaky")

    assert (code, errors) == (1, "")
    assert "walkers:Leaky: HIDDEN STATE, first seen at tick 1\n" in printed
    assert "Leaky.memo (attribute): absent in the live run, 5 for the copy; proved" in printed
    assert len(printed.splitlines()) < 24
    assert max(map(len, printed.splitlines())) < 140


def test_json_says_the_same(replay: Replay) -> None:
    """One object with names, hashes and rows."""
    code, printed, _ = replay("walkers:Leaky", "--json")
    facts = json.loads(printed)

    assert code == 1
    assert (facts["ok"], facts["first_bad"], facts["simulation"]) == (False, 1, "walkers:Leaky")
    assert facts["suspects"][0]["name"] == "Leaky.memo"
    assert facts["findings"][0]["fields"][0] == {
        "field": "x",
        "rows": 1,
        "first_rows": [[0]],
        "live": [1],
        "restored": [6],
        "note": None,
    }


def test_inputs_come_from_a_file(replay: Replay) -> None:
    """A simulation that needs inputs gets them; without them one line states where it raised."""
    lines = [json.dumps({"tick": tick, "inputs": [tick]}) for tick in range(1, 31)]
    Path("inputs.ndjson").write_text("\n".join(lines))

    assert replay("walkers:Hungry", "--ticks", "30", "--inputs", "inputs.ndjson")[0] == 0
    code, printed, errors = replay("walkers:Hungry")
    assert (code, printed) == (2, "")
    assert errors == (
        "error: tick 1: the step raised TypeError: 'NoneType' object is not subscriptable (walkers.py:20)\n"
    )


@pytest.mark.seldom(0.15)
def test_a_shipped_scenario_is_checked_by_its_name(replay: Replay) -> None:
    """With its own inputs, and with further ones from a file."""
    assert replay("quiet-meadow", "--ticks", "10")[0] == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["walkers:Nobody"], "walkers:Nobody: module 'walkers' has no attribute 'Nobody'"),
        (["no_walkers.py:Sound"], "no_walkers.py:Sound: there is no file no_walkers.py in "),
        (["nowhere:Sound"], "nowhere:Sound: No module named 'nowhere'"),
        (["walkers:broken"], "making the simulation raised RuntimeError: no seed (walkers.py:23)"),
        (["walkers:number"], "int is not a simulation: expected .state"),
        (["walkers"], "walkers is neither a scenario file nor a shipped scenario"),
        (["walkers:Sound", "--ticks", "0"], 'Invalid value "0" for --ticks. Must be >= 1.'),
        (["walkers:Sound", "--inputs", "none.ndjson"], "none.ndjson: No such file or directory"),
        ([], "SIMULATION is missing"),
    ],
)
def test_a_mistake_gives_one_line_and_exit_code_2(replay: Replay, words: list[str], line: str) -> None:
    """The line states the mistake; there is no traceback."""
    code, printed, errors = replay(*words)

    assert (code, printed) == (2, "")
    assert errors.startswith(f"error: {line}")
    assert errors.count("\n") == 1


def test_the_command_runs_from_a_folder_of_the_users() -> None:
    """As a separate program: the module is found in the current folder, and the shell gets the exit code."""
    code = "import sys, replayer.commands.main; replayer.commands.main.main(sys.argv[1:])"
    finished = subprocess.run(
        [sys.executable, "-c", code, "check", "walkers:Leaky"], capture_output=True, text=True, check=False
    )

    assert (finished.returncode, finished.stderr) == (1, "")
    assert "Leaky.memo" in finished.stdout


FED = """
import numpy as np
from sim import Field, Schema, State

class Fed:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8")))
        self.dice = np.random.default_rng(5)

    def step(self, inputs):
        if isinstance(inputs, dict):
            self.state["x"][()] += inputs["arrivals"]
        elif isinstance(inputs, int) and inputs == 7:
            self.state["x"][()] += self.dice.integers(1 << 30)
        elif isinstance(inputs, str):
            raise RuntimeError(f"the step got {inputs}")
"""


def test_inputs_are_of_any_kind(replay: Replay) -> None:
    """As the step takes them: a number, an object, a text; only lists add up."""
    Path("fed.py").write_text(FED)
    Path("in.jsonl").write_text(
        '{"tick": 1, "inputs": {"arrivals": 2}}\n{"tick": 2, "inputs": [1]}\n{"tick": 2, "inputs": [2]}\n'
    )
    assert replay("fed:Fed", "--inputs", "in.jsonl", "--ticks", "12")[0] == 0
    Path("in.jsonl").write_text("".join(f'{{"tick": {tick}, "inputs": 7}}\n' for tick in range(1, 13)))
    code, output, _ = replay("fed:Fed", "--inputs", "in.jsonl", "--ticks", "12")
    assert (code, "dice" in output) == (1, True)
    Path("in.jsonl").write_text('{"tick": 3, "inputs": "grass"}\n')
    assert "the step got grass" in "".join(replay("fed:Fed", "--inputs", "in.jsonl", "--ticks", "12")[1:])
    Path("in.jsonl").write_text('{"tick": 3, "inputs": 1}\n{"tick": 3, "inputs": [1]}\n')
    code, _, output = replay("fed:Fed", "--inputs", "in.jsonl")
    assert (code, output) == (
        2,
        "error: in.jsonl, line 2: tick 3 has inputs already, and only lists add up: give one line for each tick\n",
    )
    for line in ('{"tick": 3}', '{"tick": 0, "inputs": 1}', '{"tick": 3, "inputs": 1, "more": 2}', "7"):
        Path("in.jsonl").write_text(f"{line}\n")
        code, _, output = replay("fed:Fed", "--inputs", "in.jsonl")
        assert (code, output.count("\n")) == (2, 1)


@pytest.mark.seldom(0.15)
def test_inputs_come_from_a_tape(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded inputs are used again, up to the end of the recording; without them the defect is not reached."""
    from recorder import Recorder

    Path("fed.py").write_text(FED)
    monkeypatch.delitem(sys.modules, "fed", raising=False)
    import fed  # type: ignore[import-not-found]

    with Recorder("run.tape", fed.Fed()) as tape:
        for tick in range(1, 31):
            tape.step(7 if tick > 20 else {"arrivals": 1})
    assert replay("fed:Fed")[0] == 0
    code, output, _ = replay("fed:Fed", "--inputs", "run.tape")
    assert (code, "dice" in output) == (1, True)
    code, output, _ = replay("fed:Fed", "--inputs", "run.tape", "--ticks", "20", "--json")
    assert (code, json.loads(output)["ticks"]) == (0, 20)
    with Recorder("short.tape", fed.Fed()) as tape:
        for _ in range(9):
            tape.step({"arrivals": 1})
    assert json.loads(replay("fed:Fed", "--inputs", "short.tape", "--json")[1])["ticks"] == 9
    with Recorder("long.tape", fed.Fed()) as tape:
        for _ in range(230):  # More than a check without a tape runs.
            tape.step({"arrivals": 1})
    assert json.loads(replay("fed:Fed", "--inputs", "long.tape", "--json")[1])["ticks"] == 230
