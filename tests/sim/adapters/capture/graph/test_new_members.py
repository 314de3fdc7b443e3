"""New objects in a set get their numbers in an order that is the same in every process, whatever they hash by."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from sim.adapters.find_adapter import adapt
from sim.adapters.plain_object.adapter import fields


@dataclass(frozen=True, slots=True)
class Event:
    """Hashes by a text or a date, which differ from process to process."""

    what: Any


class Calendar:
    """A step adds events to a set or a frozenset."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.t = 0
        self.events: Any = set()

    def step(self, _: Any) -> None:
        """Ten new events."""
        self.t += 1
        days = [dt.date(2026, self.t, day) for day in range(1, 11)]
        makers = {"text": str, "date": lambda day: day, "frozenset": lambda day: frozenset({str(day), day})}
        new = {Event(makers[self.kind](day)) for day in days}
        self.events = frozenset(new) if self.t % 2 else new


def digest(kind: str) -> str:
    """The hashes of some states."""
    simulation = adapt(Calendar(kind), fields())
    hashes = []
    for _ in range(3):
        simulation.step(None)
        hashes.append(simulation.state.hash())
    return repr(hashes)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["text", "date", "frozenset"])
@pytest.mark.seldom(0.15)
def test_members_are_numbered_alike_in_every_process(kind: str) -> None:
    """With other hashes of texts and dates the arena has the same bytes."""
    code = f"import sys; from {__name__} import digest; print(digest(sys.argv[1]))"
    found = set()
    for hash_seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        finished = subprocess.run(
            [sys.executable, "-c", code, kind], capture_output=True, text=True, check=False, env=environment
        )
        assert finished.returncode == 0, finished.stderr
        found.add(finished.stdout)
    assert len(found) == 1
