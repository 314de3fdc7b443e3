"""A cause is not proved where copies that nothing is restored to are equal to the live run as well, by chance."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

import leaky_worlds
import pytest

from recorder.ambient.ambient_diff import Candidate
from replayer import SyncTest
from replayer.diagnose.hidden_state import trials
from replayer.diagnose.hidden_state.trials import TrialOutcome, Trials


class Played(Trials):
    """Trials whose runs have scripted ends: the numbers of the first bad step, or None."""

    def __init__(self, plain: Iterable[int | None], restored: Iterable[int | None]) -> None:
        self._plain, self._restored = iter(plain), iter(restored)

    def run(self, *arguments: Any, **_: Any) -> TrialOutcome:
        """The next end."""
        return TrialOutcome(next(self._restored if arguments[2:] else self._plain))

    def _candidates(self, *_: Any) -> list[Candidate]:
        return [Candidate("module bank: pool", "module global", "None live", ())]

    def _lines_run(self, *_: Any) -> dict[Any, None]:
        return {}


@pytest.mark.parametrize(
    ("plain", "restored", "is_proved"),
    [
        (itertools.repeat(3), [None], True),  # Each copy ends in the same way: one is enough.
        (itertools.cycle([3, None]), [None, None, 3], False),
        (itertools.cycle([3, 4]), itertools.repeat(None), True),  # A clock decides, and it is given.
    ],
)
def test_where_copies_end_in_different_ways_a_cause_must_make_them_equal_each_time(
    monkeypatch: pytest.MonkeyPatch, plain: Any, restored: Any, *, is_proved: bool
) -> None:
    """Such as floats that are added in the order in which threads end."""
    monkeypatch.setattr(trials, "lines_naming", lambda *_: [])
    suspects, _ = Played(plain, restored).suspects(None, "fresh", TrialOutcome(3))  # type: ignore[arg-type]
    assert [one.proved for one in suspects] == ([True] if is_proved else [False])


class Lazy(leaky_worlds.One):
    """Makes its generator at the first draw, with a seed from the system, which a used instance does not read again."""

    rng: random.Random | None = None

    def draw(self) -> int:
        """A number, from tick 10 on."""
        if self.state["tick"] < 10:
            return 1
        if self.rng is None:
            self.rng = random.Random(random.SystemRandom().getrandbits(64))
        return self.rng.randrange(10**6)


def test_what_a_used_instance_no_longer_reads_is_not_called_without_effect() -> None:
    """The seed of the live run is given to an instance that takes it."""
    report = SyncTest(Lazy, ticks=30).run()

    assert {(one.name, one.kind, one.proved) for one in report.suspects} == {("random.getrandbits", "entropy", True)}
    assert [one.without_effect for one in report.findings] == [[], []]
    assert all(one.suspects and one.suspects[0].proved for one in report.findings)
