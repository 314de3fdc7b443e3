"""Sets whose order no restore brings back: those that a step uses are named, and of the others it is told."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trapped_games import Creature

from recorder import record
from recorder.trial.trial import try_simulation
from recorder.trial.trial_report import TrialReport
from sim.adapters import adapt
from sim.kernel.simulation import as_simulation

BUDGET_MS = 4000.0  # Far more than needed: a busy machine must not change a result.

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="a trial needs Linux"),
    pytest.mark.filterwarnings("ignore:.*saw no step"),
    pytest.mark.tried,
]


def tried(subject: Any) -> TrialReport:
    """Try an object as it is, or by its own save and load."""
    return try_simulation(as_simulation(subject) if hasattr(subject, "save") else adapt(subject), BUDGET_MS)


class Colour(enum.Enum):
    """Hashes by the names of its members, so differently in each process."""

    RED = enum.auto()
    GREEN = enum.auto()
    BLUE = enum.auto()
    BLACK = enum.auto()
    WHITE = enum.auto()


class Flags:
    """A step mixes the colours that are out, in their order."""

    def __init__(self) -> None:
        self.x = 0
        self.out = set(Colour)

    def step(self, _: Any) -> None:
        """Take the order."""
        for colour in self.out:
            self.x = (self.x * 31 + colour.value) % 1_000_003


def test_a_set_of_members_of_an_enumeration_is_named_if_a_step_uses_its_order() -> None:
    """Their hashes are those of their names. By the hash seed, a restore in the same process has another order, or has it not."""
    (finding,) = tried(Flags()).findings
    assert finding.causes in {("Flags.out",), ("Flags.out (order of a set)",)}


class Harbour:
    """Adds up what is in its sets: numbers, objects, texts, and objects that cannot be moved or came too late to be."""

    def __init__(self) -> None:
        self.total = 0
        self.boats = [Creature(place) for place in range(7)]
        self.numbers = {3, 900, 17}
        self.moored = set(self.boats[:5])
        self.names = {"ada", "bo", "cy"}
        self.crew = frozenset(self.boats[2:6])

    def step(self, _: Any) -> None:
        """What no order changes."""
        self.total += sum(boat.place for boat in self.moored) + len(self.names) + (self.boats[2] in self.crew)


def test_an_order_that_is_not_saved_is_told_and_is_no_reason_for_a_warning(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is then said to be complete. The order of a set of numbers is saved."""
    monkeypatch.setattr("recorder.trial.trial.OVERTIME_S", 20.0)  # On a busy machine, too.
    report = tried(Harbour())
    assert not report.findings
    objects = "(a set of objects that hash by their memory addresses: Creature)"
    assert report.orders == (
        f"the order of Harbour.moored is not saved {objects}: no step tried depends on it",
        "the order of Harbour.names is not saved (a set of texts): no step tried depends on it",
        f"the order of Harbour.crew is not saved {objects}: no other order was tried",
    )
    record(Harbour(), tmp_path / "harbour.tape", step="step").close()
    printed = capsys.readouterr().err
    assert "exact in the steps tried: Harbour captured\n" in printed
    assert all(f"; {text}" in printed for text in report.orders)


def test_without_time_to_look_for_sets_nothing_is_said_to_be_complete(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: Any) -> None:
        raise TimeoutError

    monkeypatch.setattr("recorder.trial.trial.find_set_orders", late)
    report = tried(Harbour())
    assert report.orders == ()
    record(Harbour(), tmp_path / "harbour.tape", step="step").close()
    assert (
        "exact in the steps tried: Harbour captured; no attribute of these objects, and of what they hold, is left out"
        in capsys.readouterr().err
    )


class KeepsOrder:
    """Its own save keeps the order of its set: another one may not."""

    def __init__(self) -> None:
        self.listed = ["ada", "bo", "cy"]
        self.names = set(self.listed)
        self.x = 0

    def save(self) -> dict[str, Any]:
        """The order too."""
        return {"names": ",".join(self.listed).encode(), "x": np.int64(self.x)}

    def load(self, saved: dict[str, Any]) -> None:
        """In that order."""
        self.listed = saved["names"].decode().split(",")
        self.names, self.x = set(self.listed), int(saved["x"])

    def step(self, _: Any) -> None:
        """Use no order."""
        self.x += len(self.names)


def test_of_a_save_of_the_users_own_no_order_is_said_to_be_missing() -> None:
    """What it saves is not known."""
    report = tried(KeepsOrder())
    assert not report.findings
    assert not report.orders
