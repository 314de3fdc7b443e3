"""replay explain runs lines of the program before the step where they give values outside the state what these were."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

from recorder.ambient.outside.code_parts.places import Place
from replayer import verify_tape
from replayer.diagnose.explain.lines_run.run_lines import RunBefore
from replayer.diagnose.explain.statements.isolated_trials import run_wholly, trials_of
from replayer.diagnose.explain.statements.kept_value import KeptValue
from replayer.diagnose.explain.statements.values_then import values_then
from replayer.playback.make_simulation import make_simulation
from replayer.tape.plain_state import snapshot_to_plain
from replayer.tape.tape import Tape

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


class Bell:
    """A simulation whose step adds what stands in the module; it can be told to hang, write and ask."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(hash=lambda: self.total)
        self.total, self.strokes = 0, 1

    def step(self, _: object) -> None:
        self.total += self.strokes


def test_a_trial_without_an_end_is_ended_whatever_it_does() -> None:
    trials = trials_of(Bell(), None, 7)  # type: ignore[arg-type]
    assert trials is not None

    def for_ever() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGTERM})
        while True:
            pass

    assert attrs.evolve(trials, limit_s=0.5).run(for_ever) is None


def test_nothing_of_a_trial_is_seen_outside_and_what_was_refused_proves_nothing() -> None:
    trials = trials_of(Bell(), None, 7)  # type: ignore[arg-type]
    assert trials is not None
    ours, theirs = socket.socketpair()
    table = sqlite3.connect("ships.db")
    table.execute("create table ships (name)")
    table.commit()

    def swallowed() -> str:
        with suppress(OSError):
            os.mkfifo("pipe")
        return "ran"

    def entered() -> str:
        table.execute("insert into ships values ('barge')")
        table.commit()
        return "ran"

    def rang() -> int:
        return ours.send(b"x")

    with open("log.txt", "w") as log, ours, theirs:  # noqa: PTH123
        log.write("begun")
        log.flush()
        assert trials.run(lambda: log.write("more") and log.flush()) is None
        assert trials.run(swallowed) is None
        assert trials.run(entered) is None
        assert trials.run(rang) is None
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
    assert Path("log.txt").read_text() == "begun"
    assert table.execute("select * from ships").fetchall() == []
    table.close()
    assert not Path("pipe").exists()


def test_a_file_that_a_line_writes_and_may_read_again_proves_nothing_and_a_log_of_the_step_is_no_harm() -> None:
    trials = trials_of(Bell(), None, 7)  # type: ignore[arg-type]
    assert trials is not None

    def logs() -> None:
        Path("log.txt").open("a").close()

    assert trials.run(lambda: logs() or "ran") == "ran"
    assert trials.run(lambda: run_wholly(logs) or "ran") is None
    assert not Path("log.txt").exists()


def test_nothing_is_tried_where_the_program_calls_compiled_libraries_itself() -> None:
    assert trials_of(Bell(), None, 7) is not None  # type: ignore[arg-type]
    assert trials_of(Bell(), None, 1) is None  # type: ignore[arg-type]  # It gives the recorded state by itself.
    # This file is one of the program as well.
    Path("bells.py").write_text("from ctypes import cdxx".replace("x", "l"))
    Path("harbour.py").write_text("import bells\n\nclass Bell:\n    pass\n")
    bell = type("Louder", (Bell,), {"__module__": "harbour"})()
    importlib.import_module("harbour").Louder = type(bell)
    assert trials_of(bell, None, 7) is None


@pytest.mark.seldom(0.5)
def test_of_two_values_that_are_needed_together_none_is_named_alone() -> None:
    """The tape has a digest of the one; with that alone as noted the step gives another state."""
    recorded('harbour.TOLLS["barge"] = 5; bells.listen("docked", clerk.note)', "import bells")
    run_before = found()
    assert run_before is not None
    assert {one.partition(" ")[0] for one in run_before.values} == {"TOLLS", "heard"}
    assert (run_before.is_as_noted, run_before.is_by_values) == (False, True)


@pytest.mark.seldom(0.5)
def test_a_value_that_cannot_be_put_back_is_not_named_as_the_cause() -> None:
    """That the step could not be run without it is not the same as that it gives another state then."""
    refuses = """
class Kept(type):
    def __setattr__(cls, name, value):
        if getattr(cls, "draught", 4) != 4:
            raise AttributeError(name)
        type.__setattr__(cls, name, value)


class Ship(metaclass=Kept):"""
    text = HARBOUR.replace("\nclass Ship:", refuses).replace("Ship.draught < self.depth", "True")
    Path("harbour.py").write_text(text)
    Path("season.py").write_text(
        "import os\n\nimport harbour\n\n\ndef launch():\n    harbour.Ship.draught = 9\n    os.environ['NOISE_OF_A_TEST'] = '3'\n"
    )
    recorded("season.launch()", "import season")
    run_before = found()
    assert run_before is None or not run_before.is_by_values


class Held:
    """An object without a dict."""

    __slots__ = ("depth",)

    def __init__(self) -> None:
        self.depth = 3


class Stubborn(dict[str, int]):
    """A dict that does not let itself be cleared."""

    def clear(self) -> None:
        raise RuntimeError


def content_of(value: Any) -> Any:
    if isinstance(value, Held):
        return value.depth
    return [content_of(one) for one in value] if isinstance(value, tuple | list) else repr(value)


def test_what_was_changed_in_place_is_seen_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(sys.modules[__name__], "HARBOUR", "HARBOUR", __file__, __name__, __file__)
    values = [np.arange(4.0), bytearray(b"abc"), Held(), [Held()], Stubborn(a=1), {"a": [1]}, ((),), deque([1])]
    values[6] = ([2],)

    def change(value: Any) -> None:
        if isinstance(value, tuple | list):
            inner = value[0]
            change(inner) if isinstance(inner, Held) else inner.append(3)
        elif isinstance(value, Held):
            value.depth = 4
        elif isinstance(value, deque):
            value.append(2)
        else:
            value["a" if isinstance(value, dict) else 0] = 65

    for value in values:
        monkeypatch.setattr(sys.modules[__name__], "HARBOUR", value)
        kept, before = KeptValue(place), content_of(value)
        assert not kept.is_other()
        change(value)
        assert kept.is_other()
        kept.put_back()
        assert not kept.is_other()
        assert content_of(value) == before


@pytest.mark.seldom(0.3)
def test_explain_names_the_value_and_the_line() -> None:
    recorded("tourists.arrive()", "import tourists")
    # A process of its own: this one finds the modules of other tests, which call compiled libraries.
    command = [str(Path(sys.executable).with_name("replay")), "explain", "run.tape", "--sim", "harbour:Harbour"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("cause: "))
    assert lines[place] == (
        "cause: a value outside the state, heard (bells.py:4): where it is as it was when the recording began, the step gives "
        "the recorded state, and without that another one"
    )
    assert lines[place + 2].split() == ["tourists.py:14", "arrive():", "bells.listen('docked',", "wave)"]
    (told,) = [line for line in lines if line.startswith("  the code: ")]
    assert told.endswith("of that, only heard (bells.py:4) was tested")
    assert not any("the cause is not known" in line for line in lines)
