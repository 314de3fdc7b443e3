"""replay explain runs lines of the program before the step where they give values outside the state what these were."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import replayer.commands.main
from recorder.processes.fork_call import in_a_copy
from replayer import verify_tape
from replayer.diagnose.explain.lines_run.run_lines import RunBefore
from replayer.diagnose.explain.statements import guarded
from replayer.diagnose.explain.statements.values_then import values_then
from replayer.playback.make_simulation import make_simulation
from replayer.tape.plain_state import snapshot_to_plain
from replayer.tape.tape import Tape

from oracle.command_lines import run

HARBOUR = """
import os

import bells

TOLLS = {"barge": 2, "ferry": 3}
names = []
wind = 1


class Ship:
    draught = 4

    def __init__(self, kind):
        self.kind, self.paid, self.waited = kind, 0, 0


class Harbour:
    depth = 6

    def __init__(self):
        self.ships, self.day, self.noise = [Ship("barge"), Ship("ferry")], 0, 0

    def step(self):
        self.day += 1
        for ship in self.ships:
            ship.waited += wind
            if self.day % 4 == 0:
                ship.paid += TOLLS[ship.kind] if Ship.draught < self.depth else 0
                bells.ring("docked", ship)
        if self.day % 4 == 0:
            self.noise += int(os.environ.get("NOISE_OF_A_TEST", "0"))


def set_wind(strength):
    global wind
    wind = strength
"""
BELLS = """
from collections import defaultdict

heard = defaultdict(list)


def listen(name, function):
    heard[name].append(function)


def ring(name, *what):
    for function in heard[name]:
        function(*what)
"""
# Each in the recorded process alone.
OTHERS = {
    "season": """
import os

import harbour


def winter():
    harbour.TOLLS["barge"] = 5


def deepen(by):
    harbour.Harbour.depth = by


def storm():
    harbour.names.append("Grace")
    os.environ["NOISE_OF_A_TEST"] = "3"
""",
    "tourists": """
import bells


def wave(ship):
    ship.waited += 10


def shout(ship):
    pass


def arrive():
    bells.listen("docked", wave)
    bells.listen("docked", shout)
    bells.listen("sunk", shout)
""",
    "pilots": """
import bells


@lambda function: bells.listen("docked", function)
def guide(ship):
    ship.paid -= 1
""",
}
RECORD = """
import sys

import harbour
import recorder
{imports}


class Clerk:
    def __init__(self):
        self.seen = 0

    def note(self, ship):
        ship.paid += 2


def play(live):
    for day in range(12):
        live.step()


def main():
    clerk = Clerk()
    {line}
    with recorder.record(harbour.Harbour(), "run.tape", quiet=True, keyframe_interval_ticks=10) as live:
        play(live)


if __name__ == "__main__":
    main()
"""


@pytest.fixture(autouse=True)
def _program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {"harbour": HARBOUR, "bells": BELLS, **OTHERS}.items():
        Path(f"{name}.py").write_text(text)
    yield
    for name in ("harbour", "bells", *OTHERS, "record_it"):
        sys.modules.pop(name, None)


def recorded(line: str, imports: str = "") -> None:
    """A tape of another process, which ran a line before."""
    Path("record_it.py").write_text(RECORD.format(line=line, imports=imports))
    subprocess.run([sys.executable, "record_it.py"], check=True, timeout=60)


def found() -> RunBefore | None:
    """What is found for the first wrong tick."""
    factory = importlib.import_module("harbour").Harbour
    finding = verify_tape("run.tape", factory).findings[0]
    assert finding.before is not None
    with Tape("run.tape") as tape:
        job = {"tick": finding.tick, "before": snapshot_to_plain(finding.before)}
        result = values_then(tape, job, lambda: make_simulation(tape, factory))["found"]
    return None if result is None else RunBefore.from_plain(result)


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    ("line", "imports", "value", "lines", "others"),
    [
        ("season.winter()", "import season", "TOLLS", {"season.py", "winter"}, 0),
        ("season.deepen(3)", "import season", "Harbour.depth", {"record_it.py", "main"}, 0),
        ("harbour.Ship.draught = 9", "", "Ship.draught", {"record_it.py", "main"}, 0),
        ("tourists.arrive()", "import tourists", "heard", {"tourists.py", "arrive"}, 2),
        ("pass", "import pilots", "heard", {"record_it.py", ""}, 0),
    ],
    ids=["item", "argument", "class", "listeners", "import"],
)
def test_the_line_that_gives_a_value_of_then_is_found_by_the_recorded_hash(
    line: str, imports: str, value: str, lines: set[str], others: int
) -> None:
    recorded(line, imports)
    run_before = found()
    assert run_before is not None
    assert [one.partition(" ")[0] for one in run_before.values] == [value]
    (place,) = run_before.lines
    assert {Path(place.path).name, place.function} == lines
    assert (run_before.is_as_noted, run_before.is_by_values, len(run_before.others)) == (True, True, others)


@pytest.mark.seldom(0.5)
def test_a_value_that_the_tape_has_no_digest_of_is_tested_by_the_step_alone() -> None:
    recorded('bells.listen("docked", clerk.note)', "import bells")
    run_before = found()
    assert run_before is not None
    assert [one.text for one in run_before.lines] == ["bells.listen('docked', clerk.note)"]
    assert (run_before.is_as_noted, run_before.is_by_values) == (False, True)


@pytest.mark.seldom(0.5)
def test_a_value_of_then_that_makes_no_difference_is_not_named_as_the_cause() -> None:
    recorded("season.storm()", "import season")
    run_before = found()
    assert run_before is not None
    assert run_before.is_as_noted
    assert not run_before.is_by_values  # The line does it, by something else.
    Path("run.tape").unlink()
    recorded('harbour.names.append("Grace"); import os; os.environ["NOISE_OF_A_TEST"] = "3"')
    assert found() is None


@pytest.mark.seldom(0.5)
def test_what_a_line_would_do_outside_of_its_process_is_refused() -> None:
    lines = 'for kind in ["barge"]:\n        harbour.TOLLS[kind] = 5\n        open("log.txt", "a").close()'
    Path("season.py").write_text(OTHERS["season"].replace('harbour.TOLLS["barge"] = 5', lines))
    recorded("season.winter()", "import season")
    Path("log.txt").unlink()
    assert found() is None
    assert not Path("log.txt").exists()


def test_a_line_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "SECONDS_MAX", 0.2)

    def for_ever() -> dict[str, bool]:
        with guarded.ended_by_a_clock():
            while True:
                time.sleep(0.01)

    with pytest.raises(RuntimeError, match="died"):
        in_a_copy(for_ever)


@pytest.mark.seldom(0.3)
def test_explain_names_the_value_and_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    recorded("tourists.arrive()", "import tourists")
    assert run(replayer.commands.main.main, "explain run.tape --sim harbour:Harbour") == 1
    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("cause: "))
    assert lines[place] == (
        "cause: a value outside the state, heard (bells.py:4): where it is as it was when the recording began, the step gives "
        "the recorded state, and without that another one"
    )
    assert lines[place + 2].split() == ["tourists.py:14", "arrive():", "bells.listen('docked',", "wave)"]
    (told,) = [line for line in lines if line.startswith("  the code: ")]
    assert told.endswith("of that, only heard (bells.py:4) was tested")
    assert not any("the cause is not known" in line for line in lines)
