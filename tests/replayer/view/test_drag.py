"""A drag over ticks that are not in the cache: the walk goes on from where it has come to, and shows that place."""

from __future__ import annotations

from multiprocessing import Pipe
from pathlib import Path

import pytest
from optional_packages import needs

from viewed_worlds import TICKS, Pond, pond_at, record_ponds

needs("starlette", "websockets", "uvicorn")

from replayer.view.difference_frames import DifferenceFrames  # noqa: E402
from replayer.view.page_session import PageSession  # noqa: E402
from replayer.view.states.frame_encoding import EncodedTick  # noqa: E402
from replayer.view.viewed_tape import ViewedTape  # noqa: E402
from replayer.view.worker import tape_process, view_cursor  # noqa: E402
from replayer.view.worker.page_jobs import SeekJob, ShownTick, ViewSelection  # noqa: E402

LOOK = ViewSelection(("water",))


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a pond, with keyframes every 20 ticks."""
    return record_ponds(tmp_path_factory.mktemp("drag"))[0]


def test_a_preview_does_not_move_the_cursor_back(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From tick 45 to 58, thirteen steps: the state at 45 is shown on the way, not that of the keyframe at 40."""
    monkeypatch.setattr(view_cursor, "AT_HAND_TICKS", 0)
    monkeypatch.setattr(view_cursor, "NEAR_TICKS", 0)
    steps: list[int] = []

    class Counted(Pond):
        def step(self, inputs: list[int]) -> None:
            steps.append(len(steps))
            super().step(inputs)

    page, process = Pipe()

    def make() -> view_cursor.ViewCursor:
        return view_cursor.ViewCursor(tape, Counted)

    reader = make()
    reader.walk(45, lambda: False)
    steps.clear()
    tape_process._TapeProcess(process, reader, make)._seek(SeekJob("page", 58, LOOK, is_drag=True))
    sent = [page.recv(), page.recv()]
    assert [type(one) for one in sent] == [ShownTick, ShownTick]
    assert [(one.tick, one.encoded.shown, one.encoded.state_hash) for one in sent] == [
        (58, tick, pond_at(tick).state.hash()) for tick in (45, 58)
    ]
    assert len(steps) == 13


def test_the_keyframe_is_shown_where_the_cursor_is_not_on_the_way(tape: Path) -> None:
    """After the tick, or before the keyframe."""
    reader = view_cursor.ViewCursor(tape, Pond)
    for here, tick, start in ((45, 58, 45), (58, 45, 40), (5, 25, 20), (20, 39, 20), (40, 40, 40), (TICKS, 60, 60)):
        reader.walk(here, lambda: False)
        assert reader.start_of(tick) == start


def test_what_an_older_wish_brings_is_shown_if_it_is_nearer(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pointer was at 50 when the tape's process sent tick 44, and is at 52 when that arrives."""
    monkeypatch.setattr(ViewedTape, "seek", lambda *_, **__: None)  # No process: the test says what arrives.
    viewed = ViewedTape(0, tape, None, None, 10**9)
    viewed.facts = {"first": 0, "last": TICKS, "layers": ["water"], "curves": []}
    session = PageSession([viewed], DifferenceFrames())
    session.take('{"op": "look", "layers": ["water"], "difference": false, "curves": []}')
    viewed.cache.look_at(50, LOOK)

    class Audience:
        def preview(self, side: int, page: str, tick: int, encoded: EncodedTick) -> None:
            assert page == session.name
            session.preview(side, tick, encoded)

        def reached(self, side: int, tick: int) -> None:
            session.reached(side, tick)

    viewed._audience = Audience()  # type: ignore[assignment]
    session.take('{"op": "seek", "id": 1, "tick": 52, "drag": true}')
    shown = []
    for tick in (44, 41, 47):
        sent = EncodedTick(tick, tick, {"water": b"x"}, b"", {})
        viewed._reached(ShownTick(50, sent, LOOK, {}, session.name))
        while not session._queue.empty():
            message = session._queue.get_nowait()
            assert isinstance(message, bytes)
            shown.append(
                (message[2] & 1, int.from_bytes(message[8:16], "little"), int.from_bytes(message[16:24], "little"))
            )
    assert shown == [(1, 52, 44), (1, 52, 47)]
