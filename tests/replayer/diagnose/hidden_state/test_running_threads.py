"""A thread that runs between the steps may change values at any time: what then differs is not called hidden state."""

from __future__ import annotations

import json
import threading
from typing import Any

from replayer import SyncTest


class Exchange:
    """Its price is not saved; a listener of the market runs in a thread, and waits."""

    def __init__(self) -> None:
        self.price, self.total = 1, 0
        self.is_over = threading.Event()
        threading.Thread(target=self.is_over.wait, daemon=True, name="listener").start()

    def step(self, _: Any) -> None:
        """Let the price and the total grow."""
        self.price += 1
        self.total += self.price

    def save(self) -> bytes:
        """The total alone."""
        return json.dumps(self.total).encode()

    def load(self, saved: bytes) -> None:
        """Bring back the total."""
        self.total = json.loads(saved)


class Quiet(Exchange):
    """As that, without the thread."""

    def __init__(self) -> None:
        self.price, self.total = 1, 0


def test_an_attribute_is_proved_where_no_thread_runs_and_suspected_where_one_does() -> None:
    """The note names the thread."""
    quiet, busy = SyncTest(Quiet, ticks=6, period_ticks=2).run(), SyncTest(Exchange, ticks=6, period_ticks=2).run()

    assert [(one.name, one.proved) for one in quiet.suspects] == [("Quiet.price", True)]
    assert [(one.name, one.proved) for one in busy.suspects] == [("Exchange.price", False)]
    assert busy.notes == ["threads run between the steps, such as listener: they may change values at any time"]
