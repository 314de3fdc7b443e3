"""replay explain with two tapes: the time zone, variables and random generators that the programs of the parties set themselves."""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer.commands.main
from recorder.processes.seeds.process_generators import all_states, is_same_state, put_states
from replayer.diagnose.parties.differences.set_factors import set_factors
from replayer.diagnose.parties.party import SET_HERE, Made, Party
from replayer.diagnose.parties.set_values.set_lines import SetLines
from replayer.diagnose.parties.set_values.set_settings import GENERATORS, ZONE, put_settings, settings_here

from oracle.command_lines import run
from project_paths import SOURCES

KIOSK = """
import os, random, time
import numpy as np

random.seed(3)


class Kiosk:
    def __init__(self):
        self.day, self.coins, self.hour = 0, 5, 0

    def step(self):
        self.day += 1
        if self.day == 4:
            self.coins += random.randrange(1000)
        if self.day == 7:
            self.hour = time.localtime(0).tm_hour


def plain():
    np.random.seed(1)
    return Kiosk()


def elsewhere():
    np.random.seed(2)
    os.environ["KIOSK_SIGN"] = "open"
    os.environ["TZ"] = "KSK-9"
    time.tzset()
    return Kiosk()


def lucky():
    random.seed(4)
    random.random()
    return elsewhere()
"""
RECORD = """
import sys, recorder, kiosk_set
kiosk = recorder.record(getattr(kiosk_set, sys.argv[2])(), sys.argv[1], trial_ms=0)
for _ in range(8):
    kiosk.step()
kiosk.close()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A game whose factories set what a whole process has. Afterwards this process has its own again."""
    (tmp_path / "kiosk_set.py").write_text(KIOSK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCES), str(tmp_path)]))
    monkeypatch.delenv("KIOSK_SIGN", raising=False)
    monkeypatch.setenv("TZ", "UTC0")
    states = all_states()
    yield tmp_path
    put_states(states)
    monkeypatch.undo()
    time.tzset()
    sys.modules.pop("kiosk_set", None)


def explained(capsys: pytest.CaptureFixture[str], other: str) -> dict[str, Any]:
    for tape, name in (("a.tape", "plain"), ("b.tape", other)):
        subprocess.run([sys.executable, "-c", RECORD, tape, name], check=True)
    command = f"explain a.tape b.tape --sim kiosk_set:plain --other-sim kiosk_set:{other} --json"
    assert run(replayer.commands.main.main, command) == 1
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


@pytest.mark.long
def test_a_seed_that_a_factory_gives_is_the_cause_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Not the draw after it; in A the import of the module seeded. A generator from which the step does not draw is left out."""
    facts = explained(capsys, "lucky")
    [cause] = facts["causes"]
    assert (facts["tick"], cause["kind"], cause["name"]) == (4, "setting", "the generator of the module random")
    assert "(set at kiosk_set.py:5)" in cause["first"]
    assert "(set at kiosk_set.py:34)" in cause["second"]
    tested = {one["name"]: one["decides"] for one in facts["tested"]}
    assert tested == {cause["name"]: True, ZONE: False, 'os.environ["KIOSK_SIGN"]': False}


@pytest.mark.long
def test_a_time_zone_that_a_factory_sets_is_the_cause_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """And the variable that it sets besides has no effect."""
    facts = explained(capsys, "elsewhere")
    [cause] = facts["causes"]
    assert (facts["tick"], cause["kind"], cause["name"]) == (7, "setting", ZONE)
    assert cause["first"] == "TZ=UTC0, in use: UTC UTC+0"
    assert cause["second"] == "TZ=KSK-9, in use: KSK UTC+9 (set at kiosk_set.py:29)"


def test_what_a_process_has_set_can_be_put_in_place() -> None:
    """In the state that a draw leaves, too."""
    time.tzset()
    kiosk = importlib.import_module("kiosk_set")
    before = settings_here()
    kiosk.lucky()
    np.random.normal()  # noqa: NPY002 - that of the process
    after, states = settings_here(), all_states()
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {ZONE, 'os.environ["KIOSK_SIGN"]', *list(GENERATORS)[:2]}
    drawn = random.random(), np.random.normal(), time.localtime(0).tm_hour  # noqa: NPY002
    put_settings({name: before.get(name) for name in changed})
    assert (time.localtime(0).tm_hour, os.environ["TZ"], os.environ.get("KIOSK_SIGN")) == (0, "UTC0", None)
    put_settings({name: after[name] for name in changed})
    assert all(is_same_state(state, states[name]) for name, state in all_states().items())
    assert (random.random(), np.random.normal(), time.localtime(0).tm_hour) == drawn  # noqa: NPY002
    assert (drawn[2], os.environ["KIOSK_SIGN"]) == (9, "open")


def test_a_time_zone_that_is_named_but_not_in_use_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program has set TZ and not called tzset()."""
    monkeypatch.setattr("replayer.diagnose.parties.set_values.set_settings._BEGAN", {"TZ": "UTC0"})
    time.tzset()
    monkeypatch.setenv("TZ", "KSK-9")
    named = settings_here()[ZONE]
    time.tzset()
    assert time.localtime(0).tm_hour == 9
    put_settings({ZONE: named})
    assert (time.localtime(0).tm_hour, os.environ["TZ"]) == (0, "KSK-9")
    with pytest.raises(ValueError, match="the time zone MOON UTC\\+3 cannot be set here"):
        put_settings({ZONE: ["UTC0", "0" * 8, "MOON UTC+3"]})


def test_the_line_that_set_a_generator_is_one_that_seeds_it() -> None:
    """Draws change it as well, also many of them."""
    random_name, numpy_name, *_ = GENERATORS
    lines = SetLines([random_name, numpy_name], [])
    with lines:
        kiosk = importlib.import_module("kiosk_set")
        kiosk.plain()
    np.random.rand(5000)  # noqa: NPY002 - that of the process
    random.random()
    assert lines.places() == {
        random_name: "set at kiosk_set.py:5",
        numpy_name: "set at kiosk_set.py:21",
    }
    random.seed(9)
    assert set(lines.places()) == {numpy_name}


def test_the_value_of_a_variable_is_shown_only_if_the_program_names_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a secret that a file holds. A process that has not changed it has what it got from outside."""
    monkeypatch.setenv("KIOSK_SIGN", "given")
    parties = Party("A", folder / "a.tape", folder / "a.tape"), Party("B", folder / "b.tape", folder / "b.tape")
    modules = {"kiosk_set": str(folder / "kiosk_set.py")}
    made = [Made("kiosk_set:Kiosk", {}, modules, {}, [], "3.11")] * 2
    texts = []
    for value in ("open", "a secret"):
        settings: dict[str, Any] = {'os.environ["KIOSK_SIGN"]': value, **dict.fromkeys(GENERATORS, value)}
        made[1] = Made("kiosk_set:Kiosk", {}, modules, {}, [], "3.11", settings=settings)
        [factor] = set_factors(parties, (made[0], made[1]))
        texts.append(factor.texts)
        assert factor.give(parties[1], 0).settings == {'os.environ["KIOSK_SIGN"]': "given"}
    assert texts == [(SET_HERE, "open"), (SET_HERE, SET_HERE)]
