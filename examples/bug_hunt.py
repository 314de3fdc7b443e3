"""A bug hunt: a ferry replays to other states than it was recorded with. Where, why, in which line?

Run it in an empty folder: python bug_hunt.py. Each answer is found by the library; nothing here knows the bug.
"""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import recorder
import replayer
from replayer.diagnose import explain_tape
from sim.adapters import adapt, fields

FARES: dict[str, int] = {}  # The bug: a cache, which no keyframe holds, and which outlives a change of the price.


class Ferry:
    """Cars arrive, wait, cross and pay. The price rises when the queue is long."""

    def __init__(self, seed: int = 4) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a game
        self.queue: list[str] = []
        self.price, self.money, self.hour = 10, 0, 0

    def sail(self, arrivals: int = 0) -> None:
        """An hour: cars arrive, and the first six cross."""
        self.hour += 1
        self.queue += [self.random.choice(["car", "bus", "lorry"]) for _ in range(arrivals)]
        if len(self.queue) > 12:
            self.price += 1
        crossing, self.queue = self.queue[:6], self.queue[6:]
        self.money += sum(self.fare(kind) for kind in crossing)

    def fare(self, kind: str) -> int:
        """Return what a vehicle pays."""
        if self.hour % 50 == 1:
            FARES.clear()
        if kind not in FARES:
            FARES[kind] = self.price * {"car": 1, "bus": 3, "lorry": 5}[kind]
        return FARES[kind]


def play() -> None:
    """Record 200 hours.

    The trial before a recording would refuse this ferry by the name of FARES. It is off, so that there is a bug to hunt.
    """
    ferry = recorder.record(Ferry(), "ferry.tape", step="sail", quiet=True, trial_ms=0, keyframe_interval_ticks=40)
    with recorder.tape_of(ferry):
        for hour in range(200):
            ferry.sail(hour * 7 % 15)


def adapted() -> Any:
    """Make the ferry as the recorder sees it: SyncTest takes simulations with a state."""
    return adapt(Ferry(), fields(step="sail"))


def hunt() -> None:
    """Ask where, why, and in which line."""
    print("Does it replay?")
    report = replayer.verify_tape("ferry.tape", Ferry)
    finding = report.findings[0]
    print(f"  no: tick {finding.tick} differs; all before it are as recorded")

    print("Which line?")
    explanation = explain_tape("ferry.tape", finding=finding, sim="bug_hunt:Ferry", factory=Ferry)
    assert explanation.cause is not None
    place = explanation.cause.place
    print(f"  {place.name} in {place.function}: {place.text}")
    for value in explanation.cause.outside:
        print(
            f"  it reads {value.name}, which is not in the state: {value.first} in the recorded run, {value.second} after a load"
        )

    print("Is that the cause?")
    checked = replayer.SyncTest(adapted, inputs=lambda tick: tick * 7 % 15, ticks=120).run()
    for suspect in checked.findings[0].suspects:
        print(f"  {suspect.name}: {'proved' if suspect.proved else 'suspected'}")


if __name__ == "__main__":
    if sys.argv[1:] == ["play"]:
        play()
    else:
        # The game was played by another program, as usual: its FARES are gone.
        subprocess.run([sys.executable, __file__, "play"], check=True)  # noqa: S603 - this program
        sys.modules["bug_hunt"] = sys.modules["__main__"]
        hunt()
