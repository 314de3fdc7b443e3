"""Steps from several threads: one after the other they are recorded, at the same time they are refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder import ConcurrentStepError, Recorder


class Game:
    """A step that waits inside, until it is told to go on."""

    def __init__(self) -> None:
        self.turns = 0
        self.seen: list[int] = []

    def advance(self, card: int = 0) -> int:
        self.turns += 1
        self.seen.append(card)
        hook()
        return self.turns


class Saved:
    """The same with save and load."""

    def __init__(self) -> None:
        self.turns = 0

    def step(self, _: Any) -> None:
        self.turns += 1
        hook()

    def save(self) -> bytes:
        return self.turns.to_bytes(4, "little")

    def load(self, data: bytes) -> None:
        self.turns = int.from_bytes(data, "little")


hook: Callable[[], None] = lambda: None  # noqa: E731 - a module's name, which tests replace


def in_thread(call: Callable[[], Any]) -> list[Any]:
    """Call in a second thread, to its end; what it returned or raised."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - handed to the test
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    return results


def test_a_second_step_at_the_same_time_is_refused_and_nothing_has_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Any] = []
    path = tmp_path / "a.tape"
    with Recorder(path, Saved()) as tape:
        tape.step(None)
        with monkeypatch.context() as patch:
            patch.setitem(globals(), "hook", lambda: results.extend(in_thread(lambda: tape.step(None))))
            tape.step(None)
        tape.step(None)
        assert tape.tick == 3
    assert [type(result) for result in results] == [ConcurrentStepError]
    assert "lock" in str(results[0])
    run = replayer.open(path, world=Saved)
    assert (run.tape.last_tick, run.verify().ok) == (3, True)


def test_a_step_that_calls_itself_through_its_recording_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Recorder(tmp_path / "a.tape", Saved()) as tape:
        refused: list[Any] = []

        def again() -> None:
            with pytest.raises(ConcurrentStepError) as raised:
                tape.step(None)
            refused.append(raised.value)

        with monkeypatch.context() as patch:
            patch.setitem(globals(), "hook", again)
            tape.step(None)
        assert len(refused) == 1
        tape.step(None)
        assert tape.tick == 2


@pytest.mark.parametrize("way", ["through the proxy", "on the object itself"])
def test_a_plain_object_is_stepped_by_one_thread_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The refused call neither reaches the object nor the arguments of the step that is under way."""
    results: list[Any] = []
    path = tmp_path / "a.tape"
    game = Game()
    with recorder.record(game, path, step="advance", quiet=True) as recorded:
        stepped = recorded if way == "through the proxy" else game
        stepped.advance(1)
        with monkeypatch.context() as patch:
            patch.setitem(globals(), "hook", lambda: results.extend(in_thread(lambda: stepped.advance(99))))
            assert stepped.advance(2) == 2
        assert stepped.advance(3) == 3
    assert [type(result) for result in results] == [ConcurrentStepError]
    assert game.seen == [1, 2, 3]
    run = replayer.open(path, world=Game)
    run.seek(3)
    assert (run.simulation.subject.seen, run.verify().ok) == ([1, 2, 3], True)


def test_steps_of_several_threads_one_after_the_other_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.tape"
    with recorder.record(Game(), path, step="advance", quiet=True) as game:
        assert [in_thread(lambda card=card: game.advance(card)) for card in range(5)] == [[1], [2], [3], [4], [5]]
    run = replayer.open(path, world=Game)
    run.seek(5)
    assert (run.simulation.subject.seen, run.verify().ok) == ([0, 1, 2, 3, 4], True)


def test_threads_that_call_at_random_leave_a_tape_of_exactly_the_calls_that_returned(tmp_path: Path) -> None:
    path, done = tmp_path / "a.tape", list[int]()
    begin = threading.Barrier(3)
    with recorder.record(Game(), path, step="advance", quiet=True) as game:

        def play(first: int) -> None:
            begin.wait()
            for card in range(first, first + 200):
                try:
                    game.advance(card)
                except ConcurrentStepError:
                    continue
                done.append(card)

        threads = [threading.Thread(target=play, args=(1000 * number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    run = replayer.open(path, world=Game)
    run.seek(run.tape.last_tick)
    assert sorted(run.simulation.subject.seen) == sorted(done)
    assert run.simulation.subject.seen == game.subject.seen
    assert run.verify().ok


def test_the_end_waits_for_a_step_of_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tick is on the tape."""
    inside, go_on = threading.Event(), threading.Event()
    tape = Recorder(tmp_path / "a.tape", Saved())

    def wait() -> None:
        inside.set()
        go_on.wait(30)

    with monkeypatch.context() as patch:
        patch.setitem(globals(), "hook", wait)
        stepping = threading.Thread(target=tape.step)
        stepping.start()
        assert inside.wait(30)
        closing = threading.Thread(target=tape.close)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
        go_on.set()
        stepping.join(30)
        closing.join(30)
    with replayer.Tape(tmp_path / "a.tape") as read:
        assert (read.last_tick, read.status) == (1, "not checked")
