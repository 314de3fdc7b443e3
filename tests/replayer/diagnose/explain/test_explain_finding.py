"""A finding of verify is explained without verifying again, as the number of processes shows."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import replayer.commands.main
from recorder import Recorder
from replayer import verify_tape
from replayer.diagnose import explain_tape

from oracle.command_lines import assert_one_line, run
from project_paths import SOURCES

pytestmark = pytest.mark.share(0.18)

BAD_TICK = 28
MODULE = """
import os
from sim import Field, Schema, State


class Plain:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8", (4,))))

    def step(self, inputs):
        self.state["x"][:] += 1


class LateEdit(Plain):
    def step(self, inputs):
        self.state["x"][:] += 2 if self.state["x"][0] == 27 else 1


class Hidden(Plain):
    def __init__(self):
        super().__init__()
        self.count = 0

    def step(self, inputs):
        self.count += 1
        self.state["x"][:] += self.count


class Dying(Plain):
    def step(self, inputs):
        if self.state["x"][0] == 27:
            os._exit(9)
        super().step(inputs)


class Talking(Plain):
    def step(self, inputs):
        print("a step", flush=True)
        super().step(inputs)
"""
# Python imports a module of this name when it starts: so the processes of the variants count their forks as well.
COUNTING = """
import os

fork = os.fork


def counted_fork():
    with open(os.environ["FORKS"], "ab", buffering=0) as file:
        file.write(b".")
    return fork()


os.fork = counted_fork
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of simulations, with a tape of the first one in the present folder; forks are counted in a file."""
    (tmp_path / "finding_variants.py").write_text(MODULE)
    (tmp_path / "sitecustomize.py").write_text(COUNTING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setenv("FORKS", str(tmp_path / "forks"))
    monkeypatch.setattr(os, "fork", os.fork)  # monkeypatch restores it.
    exec(COUNTING, {})
    import finding_variants  # type: ignore[import-not-found]

    record("late.tape", finding_variants.Plain())
    yield finding_variants
    sys.modules.pop("finding_variants", None)


def record(path: str, simulation: Any) -> None:
    """Record thirty ticks, with a keyframe every ten."""
    with Recorder(path, simulation, keyframe_interval_ticks=10) as tape:
        for _ in range(30):
            tape.step()


def forks_of(work: Callable[[], Any]) -> tuple[Any, int]:
    """The result of work, and the number of forks for it, in this process and in those that it started."""
    counts = Path(os.environ["FORKS"])
    counts.write_bytes(b"")
    return work(), counts.stat().st_size


@pytest.mark.seldom(0.15)
def test_verified_ticks_are_not_verified_again(module: Any) -> None:
    """Explaining a finding costs as many processes as explaining its tick; without one, the tape is verified once."""
    how: dict[str, Any] = {"sim": "finding_variants:LateEdit", "factory": module.LateEdit}
    # explain tests the causes itself: without a finding, it verifies the tape without that.
    report, verifying = forks_of(lambda: verify_tape("late.tape", module.LateEdit, tests_causes=False))
    [finding] = report.findings
    of_tick, explaining = forks_of(lambda: explain_tape("late.tape", tick=BAD_TICK, **how))
    of_finding, with_finding = forks_of(lambda: explain_tape("late.tape", finding=finding, **how))
    of_tape, alone = forks_of(lambda: explain_tape("late.tape", **how))

    assert verifying >= 3  # One for each interval, and those that investigate the bad tick.
    assert explaining > 0
    assert with_finding == explaining
    assert alone == verifying + explaining
    for explanation in (of_tick, of_finding, of_tape):
        assert (explanation.tick, explanation.agrees, explanation.known_tick) == (BAD_TICK, False, 30)
        assert [difference.field for difference in explanation.known_fields] == ["x"]


@pytest.mark.seldom(0.15)
def test_an_intact_tape_is_verified_once_by_each_variant(module: Any) -> None:
    """In this process and with two other hash seeds: as many processes as there are intervals, each time."""
    how: dict[str, Any] = {"sim": "finding_variants:Plain", "factory": module.Plain}
    report, verifying = forks_of(lambda: verify_tape("late.tape", module.Plain))
    explanation, forks = forks_of(lambda: explain_tape("late.tape", **how))

    assert report.ok
    assert (explanation.tick, explanation.agrees) == (None, True)
    assert forks == 3 * verifying


def test_a_finding_of_something_else_is_refused(module: Any) -> None:
    """A finding of a tick other than the requested one, and of a different tape."""
    [finding] = verify_tape("late.tape", module.LateEdit).findings
    with pytest.raises(ValueError, match="expected a finding of tick 7, got one of tick 28"):
        explain_tape("late.tape", tick=7, finding=finding, sim="finding_variants:LateEdit", factory=module.LateEdit)
    other = attrs.evolve(finding, expected_hash=finding.expected_hash ^ 1)
    with pytest.raises(ValueError, match="the finding is of a different tape"):
        explain_tape("late.tape", finding=other, sim="finding_variants:LateEdit", factory=module.LateEdit)


@pytest.mark.usefixtures("module")
def test_a_step_that_ends_its_process_is_one_line(capfd: Any) -> None:
    """The search runs steps in separate processes; the message names the one that died."""
    assert run(replayer.commands.main.main, "explain late.tape --sim finding_variants:Dying") == 2
    assert_one_line(capfd.readouterr(), "simulated ticks 20 to 30 died with exit code 9")


@pytest.mark.usefixtures("module")
@pytest.mark.seldom(0.15)
def test_the_prints_of_a_simulation_are_not_part_of_the_output() -> None:
    """In a separate process, whose standard output is a pipe that the processes of the steps share."""
    program = "import sys, replayer.commands.main as it; sys.argv[0] = 'replay'; it.main()"
    command = [sys.executable, "-c", program, "explain", "late.tape", "--sim", "finding_variants:Talking", "--json"]
    path = os.pathsep.join([str(Path.cwd()), str(SOURCES)])
    finished = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["agrees"] is True
    assert b"a step" in finished.stderr


@pytest.mark.seldom(0.15)
def test_a_difference_that_no_variant_shows_is_noted(module: Any) -> None:
    """This process makes a different simulation from the variants, as if it diverged by chance."""
    explanation = explain_tape("late.tape", sim="finding_variants:Plain", factory=module.LateEdit)
    assert (explanation.tick, explanation.agrees) == (BAD_TICK, True)
    assert (
        explanation.notes[-1] == "tick 28 has a different hash when it is verified in this process, and on no variant"
    )


@pytest.mark.seldom(0.5)
@pytest.mark.usefixtures("module")
def test_the_dump_of_verify_is_explained(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its tick on the tape, without verifying again; without the tape by the reproduction in the dump."""
    main = replayer.commands.main.main
    assert run(main, "verify late.tape --sim finding_variants:LateEdit") == 1
    assert capsys.readouterr().out.endswith(
        "\nnext: replay explain late.tape --tick 28 --sim finding_variants:LateEdit\n"
    )
    monkeypatch.setattr("replayer.diagnose.explain.explain.verify_tape", None)
    explain = "explain late.desync-28 --sim finding_variants:LateEdit"
    assert run(main, f"{explain} --json") == 1
    of_dump = json.loads(capsys.readouterr().out)
    assert (of_dump["tape"], of_dump["tick"], of_dump["known_tick"]) == ("late.tape", BAD_TICK, 30)

    assert run(main, f"{explain} --tick 27") == 2
    assert_one_line(capsys.readouterr(), "late.desync-28 is the dump of tick 28, got --tick 27")


@pytest.mark.seldom(0.18)
@pytest.mark.usefixtures("module")
def test_a_dump_without_its_tape_is_explained_by_its_reproduction(capsys: Any) -> None:
    """Another tape at the path is not taken for it."""
    main = replayer.commands.main.main
    run(main, "verify late.tape --sim finding_variants:LateEdit")
    Path("late.tape").unlink()
    record("late.tape", importlib.import_module("finding_variants").Plain())
    capsys.readouterr()
    assert run(main, "explain late.desync-28 --sim finding_variants:LateEdit --json") == 1
    captured = capsys.readouterr()
    facts = json.loads(captured.out)
    assert (facts["tape"], facts["tick"]) == ("late.desync-28/reproduction.tape", BAD_TICK)
    assert (
        "note: late.tape is not here as it was recorded: late.desync-28/reproduction.tape is explained" in captured.err
    )

    finding = Path("late.desync-28/finding.json")
    finding.write_text(json.dumps({"tick": "28"}))
    assert run(main, "explain late.desync-28 --sim finding_variants:LateEdit") == 2
    assert_one_line(capsys.readouterr(), "expected the finding of replay verify")


def test_verify_names_the_check_that_finds_hidden_state(module: Any, capsys: Any) -> None:
    """With as many ticks as that needs; only for a tape with the inputs of the first tick."""
    main = replayer.commands.main.main
    with Recorder("run.tape", module.Hidden(), keyframe_interval_ticks=210, trial_ms=0) as tape:
        for _ in range(250):
            tape.step()
    assert run(main, "verify run.tape --sim finding_variants:Hidden") == 1
    *_, check, explain = capsys.readouterr().out.splitlines()
    assert explain == "      replay explain run.tape --tick 211 --sim finding_variants:Hidden  # searches the line"
    command, _, comment = check.removeprefix("next: replay ").partition("  # ")
    assert comment == "searches what it reads besides its state"
    assert command == "check finding_variants:Hidden --inputs run.tape --ticks 211"
    assert run(main, command) == 1
    assert "Hidden.count (attribute)" in capsys.readouterr().out

    run(main, "verify run.desync-211/reproduction.tape --sim finding_variants:Hidden")
    assert "next: replay check" not in capsys.readouterr().out
