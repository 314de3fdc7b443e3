"""Which phase of a step wrote a field: one that ran while it changed, and never the one after."""

from __future__ import annotations

from pathlib import Path

from asked_worlds import Garden, garden_run

import replayer
from replayer.desync.location import watched_advance


def test_what_a_step_writes_between_its_phases_is_written_by_none_of_them(tmp_path: Path) -> None:
    """The garden counts its steps before its first phase."""
    garden_run(tmp_path / "garden.tape", 3, 30, 10)
    with replayer.open(tmp_path / "garden.tape", Garden) as run:
        cursor = run.counted_cursor()
        written: dict[str, set[str]] = {"grow": set(), "weather": set()}
        for tick in range(30):
            cursor.seek(tick)
            for step in watched_advance(cursor, cursor.state.snapshot()):
                written[step.phase] |= set(step.written)

    assert "plants.energy" in written["grow"]
    assert written["weather"] == {"heat"}
    assert "steps" not in written["grow"]
