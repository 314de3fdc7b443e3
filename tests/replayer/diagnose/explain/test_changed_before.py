"""replay explain after a change between two steps that was not noted: the change is searched, and proved by the step."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder, record
from replayer import verify_tape
from replayer.diagnose.explain.before_step.changeable_values import ValuePlace
from replayer.diagnose.explain.before_step.changed_before import _attributes
from replayer.diagnose.explain.before_step.changed_containers import _order_at_keyframe, _orders_of_dict
from replayer.diagnose.explain.before_step.changing_lines import changing_lines
from replayer.diagnose.explain.before_step.program_code import program_code
from replayer.diagnose.explain.before_step.tried_changes import Case, Found, try_changes
from replayer.playback.make_simulation import make_simulation
from replayer.tape.tape import Tape

from oracle.command_lines import run

TICKS, AT = 60, 24
MODULE = '''
import random

import numpy as np
from sim import Field, Schema, State


class Crate:
    def __init__(self, mark, weight):
        self.mark, self.weight, self.is_open = mark, weight, False


class Crane:
    def __init__(self):
        self.x, self.y, self.reach = 0.0, 0.0, 1.5


class Purse:
    def __init__(self):
        self.coins = 40


class Quay:
    def __init__(self):
        self.rng = random.Random(3)
        self.crates = [Crate(mark, self.rng.uniform(1, 9)) for mark in "dbfaec"]
        self.crane, self.purse = Crane(), Purse()
        self.calls, self.lifted, self.seen = [], "", 0

    @property
    def heaviest(self):
        self.crates.sort(key=lambda crate: -crate.weight)
        return self.crates[0]

    def step(self):
        self.seen += 1
        for place, crate in enumerate(self.crates):
            crate.weight *= 1 + place * self.rng.gauss(0, 0.01)
        if self.crates:
            self.lifted = self.crates[0].mark + "".join(crate.mark for crate in self.crates if crate.is_open)
        self.purse.coins += self.rng.randint(-1, 2)
        if self.seen % 4 == 0:
            self.calls.append(f"ship {self.seen}")


class Tide:
    def __init__(self):
        self.state = State(Schema(Field("depth", "f8", (6,)), Field("gate", "i8", (3,))))

    def step(self, inputs):
        self.state["depth"][:] += 0.25 + self.state["gate"][1]


class Desk:
    def __init__(self):
        self.papers, self.count = ["c", "a", "b"], 0

    def step(self, inputs):
        self.count += len(self.papers[0]) + ord(self.papers[0])

    def save(self):
        return repr((self.papers, self.count)).encode()

    def load(self, saved):
        self.papers, self.count = eval(saved)


ticks = 0


class Bell:
    """Every 25th tick of the process, not of the object, it gives one more: the state does not hold that."""

    def __init__(self):
        self.purse = Purse()

    def step(self):
        global ticks
        ticks += 1
        if ticks % 25 == 0:
            self.purse.coins += 7
        self.purse.coins += 1
'''
UI = """
import random


def autosave(quay):
    crates = quay.crates
    crates.sort(key=lambda crate: crate.mark)


def show_calls(quay):
    quay.calls.clear()


def sparks(quay):
    return [quay.rng.random() for _ in range(3)]


def follow(quay, x, y):
    quay.crane.x = x
    quay.crane.y = y


def tip(quay):
    quay.purse.coins += 250


def tidy(quay):
    for crate in quay.crates:
        crate.weight = round(crate.weight, 2)


def sink(quay):
    quay.crates[:] = [crate for crate in quay.crates if crate.mark != "f"]


def deal(quay):
    random.Random(8).shuffle(quay.crates)


def open_all(quay):
    for crate in quay.crates:
        crate.is_open = True


def say(quay):
    quay.calls.append("saved")
"""
Change = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "quay.py").write_text(MODULE)
    (tmp_path / "quay_ui.py").write_text(UI)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("quay", "quay_ui"):
        sys.modules.pop(name, None)
    yield
    for name in ("quay", "quay_ui"):
        sys.modules.pop(name, None)


def recorded(change: Change, *, keyframes: int = 10) -> None:
    """A quay is recorded, and changed between the steps to the ticks AT and AT + 1."""
    quay = importlib.import_module("quay").Quay()
    with record(quay, "run.tape", quiet=True, keyframe_interval_ticks=keyframes, between_steps=False) as live:
        for tick in range(1, TICKS + 1):
            live.step()
            if tick == AT:
                change(importlib.import_module("quay_ui"), quay)


def tried(name: str = "Quay", seconds: float = 20.0) -> Found:
    """What is found for the first wrong tick of the tape."""
    factory = getattr(importlib.import_module("quay"), name)
    finding = verify_tape("run.tape", factory).findings[0]
    assert finding.tick == AT + 1
    assert finding.before is not None
    with Tape("run.tape") as tape:
        frame, state_hash = tape.frame(finding.tick), tape.state_hash(finding.tick)
        case = Case(
            lambda: make_simulation(tape, factory), finding.before, finding.compared_states, frame.inputs, state_hash
        )
        return try_changes(case, seconds)


@pytest.mark.share(0.3)
@pytest.mark.parametrize(
    ("change", "text", "line"),
    [
        (lambda ui, quay: ui.autosave(quay), "Quay.crates sorted by mark", "autosave"),
        (lambda ui, quay: ui.show_calls(quay), "Quay.calls emptied", "show_calls"),
        (lambda ui, quay: ui.sparks(quay), "Quay.rng with 6 more words of 32 bits drawn", "sparks"),
        (
            lambda ui, quay: ui.follow(quay, 3.5, -2.0),
            "Quay.crane.x 3.5 in place of 0.0; Quay.crane.y -2.0 in place of 0.0",
            "follow",
        ),
        (lambda ui, quay: ui.tip(quay), "Quay.purse.coins ", "tip"),
        (lambda ui, quay: ui.tidy(quay), "Quay.crates[…].weight rounded to 2 digits", "tidy"),
        (lambda ui, quay: ui.sink(quay), "Quay.crates without the items that the keyframe lacks", "sink"),
        (lambda ui, quay: ui.deal(quay), "Quay.crates in the order of the keyframe", "deal"),
        (lambda ui, quay: ui.say(quay), "Quay.calls with 'saved' appended", "say"),
        (lambda _, quay: quay.heaviest, "Quay.crates sorted by weight, largest first", "Quay.heaviest"),
    ],
    ids=["sorted", "emptied", "draws", "two values", "more", "rounded", "fewer", "shuffled", "appended", "property"],
)
def test_a_change_between_two_steps_is_found_by_the_recorded_hash(change: Change, text: str, line: str) -> None:
    recorded(change)
    found = tried()
    assert found.texts[0].startswith(text), found
    code = program_code(importlib.import_module("quay").Quay(), "step")
    assert line in {one.function for one in changing_lines(code, found.names).of_others}


def test_a_constant_of_the_code_is_tried_where_no_keyframe_follows() -> None:
    recorded(lambda ui, quay: ui.open_all(quay), keyframes=1000)
    assert tried().texts == ("Quay.crates[…].is_open True in all of them",)
    Path("run.tape").unlink()
    recorded(lambda ui, quay: ui.tip(quay), keyframes=1000)
    assert [text.partition(" ")[0] for text in tried().texts] == ["Quay.purse.coins"]


def test_orders_of_large_containers_are_found_in_time() -> None:
    """The places of 100,000 keys are looked up, not searched: that took minutes."""
    before, then = dict.fromkeys(range(100000), 0), dict.fromkeys(reversed(range(100000)), 0)
    place = ValuePlace((("attribute", "bag"),), before, then, before)
    texts = [text for text, _ in _orders_of_dict(place)]
    assert "in the order of the keyframe" in texts
    items = ValuePlace((("attribute", "row"),), list(before), list(then), list(before))
    assert _order_at_keyframe(items) == list(reversed(range(100_000)))


def test_what_no_candidate_gives_is_not_claimed() -> None:
    def twist(_: Any, quay: Any) -> None:
        for crate in quay.crates:
            crate.weight += random.Random(crate.mark).random()

    recorded(twist, keyframes=1000)
    found = tried(seconds=2.0)
    assert found.texts == ()
    assert found.tried > 10


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("Tide", lambda tide: tide.state["gate"].__setitem__(1, 2), "Tide.state['gate'][1] 2 in place of 0"),
        ("Tide", lambda tide: tide.state["depth"].__setitem__(4, 9.5), "Tide.state['depth'][4] 9.5 in place of 6.0"),
        ("Desk", lambda desk: desk.papers.sort(), "Desk.papers ['a', 'b', 'c'] in place of ['c', 'a', 'b']"),
    ],
)
def test_a_simulation_with_a_state_of_its_own(name: str, change: Callable[[Any], Any], text: str) -> None:
    made = getattr(importlib.import_module("quay"), name)()
    with Recorder("run.tape", made, keyframe_interval_ticks=10, trial_ms=0, between_steps=False) as tape:
        for tick in range(1, TICKS + 1):
            tape.step(None)
            if tick == AT:
                change(made)
    assert tried(name).texts[0] == text


@pytest.mark.seldom(0.3)
def test_explain_names_the_change_and_the_lines_that_make_such_changes(capsys: pytest.CaptureFixture[str]) -> None:
    recorded(lambda ui, quay: ui.follow(quay, 3.5, -2.0))
    assert run(replayer.commands.main.main, "explain run.tape --sim quay:Quay") == 1
    lines = capsys.readouterr().out.splitlines()
    assert (
        "  changed between tick 24 and 25, outside of the step, or at first in the step by something that neither the state nor "
        "the inputs hold: Quay.crane.x 3.5 in place of 0.0; Quay.crane.y -2.0 in place of 0.0: with that change the step gives "
        "the recorded state, and without it another one"
    ) in lines
    place = lines.index(
        "  lines of the code, not seen to be of the step, that change an attribute or a variable of this name:"
    )
    assert [line.split() for line in lines[place + 1 : place + 3]] == [
        ["quay_ui.py:19", "follow():", "quay.crane.x", "=", "x"],
        ["quay_ui.py:20", "follow():", "quay.crane.y", "=", "y"],
    ]


@pytest.mark.seldom(0.3)
def test_explain_names_the_lines_of_a_change_that_the_recorder_saw(capsys: pytest.CaptureFixture[str]) -> None:
    """Then nothing is tried."""
    module, ui = importlib.import_module("quay"), importlib.import_module("quay_ui")
    made = module.Quay()
    with record(made, "run.tape", quiet=True, keyframe_interval_ticks=10) as live:
        for tick in range(TICKS):
            live.step()
            if tick == 2:
                ui.follow(made, 3.5, -2.0)
    assert run(replayer.commands.main.main, "explain run.tape --sim quay:Quay") == 1
    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.endswith(", as the recorder saw live"))
    assert "outside of the step: Quay.crane" in lines[place]
    assert lines[place + 1].endswith(", that change an attribute or a variable of this name:")
    assert lines[place + 2].split()[:2] == ["quay_ui.py:19", "follow():"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Game.orders", "orders"),
        ("order of League.teams", "teams"),
        ("Game.ships['a.b'].hulls[3]", "hulls"),
        ("energy", "energy"),
        ("Game.bag: 1 in place of 2", "bag"),
        ("a value that the tape does not name", None),
    ],
)
def test_attributes_in_names_of_changes(text: str, name: str | None) -> None:
    assert _attributes([text, text]) == ([] if name is None else [name])


@pytest.mark.seldom(0.3)
def test_what_the_step_may_do_itself_is_not_said_to_be_outside_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The change is made in the step, by a number that the module keeps: no run here can have it."""
    module = importlib.import_module("quay")
    module.ticks = 1  # What the process had done before.
    with record(module.Bell(), "run.tape", quiet=True, keyframe_interval_ticks=10, between_steps=False) as live:
        for _ in range(TICKS):
            live.step()
    assert run(replayer.commands.main.main, "explain run.tape --sim quay:Bell") == 1
    out = capsys.readouterr().out
    assert "outside of the step:" not in out
    assert (
        "  changed between tick 23 and 24, outside of the step, or at first in the step by something that neither the state nor "
        "the inputs hold: Bell.purse.coins 70 in place of 63: with that change the step gives the recorded state, and without "
        "it another one; lines that the step may run and that change an attribute or a variable of this name: quay.py:"
    ) in out
    assert "    ! hidden state, as replay check searches it: " in out


CODE = """
class Game:
    def __init__(self):
        self.bag, self.hooks = [], [lambda game: game.bag.pop()]
        self.hooks.append(on_hit)

    def step(self):
        self.turn()
        for hook in self.hooks:
            hook(self)

    def turn(self):
        self.gold += 1

    def script(self):
        yield
        self.mana = 3


def on_hit(game):
    game.life -= 1


def autosave(game):
    save = game.bag
    save.sort()
    game.rank = 4


def table(rows, points, unseen_moon):
    rows.sort()
    points[0] += 1
    unseen_moon = 3
"""


@pytest.mark.parametrize(
    ("name", "of_others", "of_step"),
    [
        ("gold", [], ["Game.turn"]),
        # Given to something by its name, in a lambda, and in a generator: the step may run them, as it is not seen here.
        ("life", ["on_hit"], []),
        ("bag", ["autosave", "Game.__init__.<lambda>"], []),
        ("mana", ["Game.script"], []),
        ("rank", ["autosave"], []),
        ("rows", ["table"], []),
        ("points", ["table"], []),
        ("unseen_moon", [], []),
        ("none", [], []),
    ],
)
def test_which_lines_the_step_may_run(tmp_path: Path, name: str, of_others: list[str], of_step: list[str]) -> None:
    (tmp_path / "quay.py").write_text(CODE)
    found = changing_lines(program_code(importlib.import_module("quay").Game(), "step"), [name])
    assert [one.function for one in found.of_others] == of_others
    assert [one.function for one in found.of_step] == of_step


DRAWS = """
class Den:
    def __init__(self):
        self.luck = None

    def step(self, inputs):
        self.throw()
        self.duel()
        self.luck.random()

    def throw(self):
        return self.luck.randint(1, 6)

    def hint(self):
        return max(self.throw() for _ in range(3))

    def duel(self):
        self.mark(self.throw() - self.throw())

    def mark(self, points):
        self.points = points

    def odds(self):
        return [self.duel() for _ in range(20)]

    def peek(self):
        luck = self.luck
        return luck.gauss(0, 1)


def loop(den):
    den.step(None)
"""


def test_lines_that_draw_through_a_function_of_the_step(tmp_path: Path) -> None:
    """The step runs what they call as well, but not them; that the program runs the step is no such line."""
    (tmp_path / "den.py").write_text(DRAWS)
    found = changing_lines(program_code(importlib.import_module("den").Den(), "step"), ["luck"])
    assert [(one.function, one.text) for one in found.of_others] == [
        ("Den.peek", "luck.gauss(0, 1)"),
        ("Den.odds", "self.duel(), by way of Den.throw()"),
        ("Den.hint", "self.throw(), by way of Den.throw()"),
    ]
    found = changing_lines(program_code(importlib.import_module("den").Den(), "step"), ["points"])
    assert [(one.function, one.text) for one in found.of_others] == [("Den.odds", "self.duel(), by way of Den.mark()")]
