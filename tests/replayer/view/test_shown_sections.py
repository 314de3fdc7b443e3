"""The page of replay view shows the figures, events and sections that functions gave while a game was recorded."""

from __future__ import annotations

from pathlib import Path

import recorder
from replayer.view.worker.tick_details import TickDetails
from replayer.view.worker.view_cursor import ViewCursor


class Game:
    def __init__(self) -> None:
        self.turn = 0

    def step(self) -> None:
        self.turn += 1


def test_the_details_of_a_tick_have_events_and_sections_of_functions(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    with recorder.record(
        Game(),
        path,
        quiet=True,
        telemetry=lambda game: {"double": 2 * game.turn},
        events=lambda game: [{"kind": "turn", "n": game.turn}],
        aux=lambda game: {"camera": {"x": game.turn // 2}, "script": bytes(300)},
    ) as recorded:
        for _ in range(9):
            recorded.step()

    cursor = ViewCursor(path, Game)
    facts = TickDetails(cursor).describe(7, {}, lambda: False)

    assert facts is not None
    assert facts["events"] == [{"kind": "turn", "n": 7}]
    assert facts["summary"] == {"aux camera": "{'x': 3}", "aux script": f"300 bytes, {bytes(16).hex()}…"}
    cursor.run.close()
