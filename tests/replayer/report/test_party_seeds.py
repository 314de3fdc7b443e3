"""What is told of the hash seeds that were tried for two tapes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replayer.diagnose.parties.told.tape_seeds import TriedSeeds
from replayer.report.parties.party_report import party_lines


@pytest.mark.parametrize(
    ("of_tapes", "recorded", "words"),
    [
        ((None, "7"), (), "PYTHONHASHSEED=7 that of tape B, and with 0 another one, which is on neither tape"),
        (("5", None), (), "PYTHONHASHSEED=5 that of tape A, and with 0 another one, which is on neither tape"),
        (
            (None, None),
            (),
            "PYTHONHASHSEED=1 a state that is on neither tape, and with 0 another one, which is on neither tape",
        ),
        (("0", None), (0,), "PYTHONHASHSEED=1 a state that is on neither tape, and with 0 that of tape A"),
    ],
)
def test_the_seed_that_is_named_is_the_one_that_gives_the_state(
    of_tapes: tuple[str | None, str | None], recorded: tuple[int, ...], words: str
) -> None:
    """Seed 1 was the first to make a difference; a later one may be the one that gives the state of a tape."""
    assert f"  the simulation of A gives with {words}" in lines_of(TriedSeeds("1", "0", of_tapes, 16), recorded)


def lines_of(seeds: TriedSeeds, recorded: tuple[int, ...]) -> list[str]:
    """The report of two parties that give one state, of which these tapes have it."""
    difference = SimpleNamespace(
        first_tick=0,
        last_tick=9,
        first_bad=3,
        compared_ticks=10,
        inputs_tick=None,
        unreadable_ticks=0,
        ticks=[SimpleNamespace(fields=[])],
    )
    party = SimpleNamespace(tape="one.tape", sim=None, paths=[], work_tree=None, python="", environment={})
    explanation: Any = SimpleNamespace(
        difference=difference,
        parties=(party, party),
        tick=3,
        fields=[],
        seeds=seeds,
        is_recorded=recorded.__contains__,
        cause=None,
        tests=[],
        told=[],
        runs=(None, None),
        notes=[],
    )
    return party_lines(explanation, Any)  # type: ignore[arg-type]
