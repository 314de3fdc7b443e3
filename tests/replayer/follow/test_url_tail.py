"""A tape at a URL is followed while its files arrive; the truth is what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from counted_store import CountedStore, empty, put

from recorder.errors import RecordingError
from recorder.format.blocks.frame import Frame
from recorder.location.tape_url import TapeUrl
from recorder.storage.file_names import segment_path
from replayer.follow.tail import Ended, KeyframeSeen, Missed, Seen
from replayer.follow.url_tail import UrlTail
from replayer.timeline.live_verify import LiveVerifier

from small_worlds import Walkers, record

INPUTS: list[Any] = [[(2, tick % 5)] if tick % 7 == 0 else None for tick in range(90)]
URL = TapeUrl("counted://runs/parts.tape")


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[list[Path]]:
    """The files of a tape, in their order; the store is empty."""
    empty()
    tape = tmp_path / "parts.tape"
    record(tape, Walkers(1), INPUTS, keyframe_interval_ticks=10, split=500, deterministic=True, trial_ms=0)
    found = [tape]
    while (following := segment_path(tape, len(found))).exists():
        found.append(following)
    assert len(found) > 3
    yield found
    empty()


def ticks_of(items: list[Seen]) -> list[int]:
    return [item.tick for item in items if isinstance(item, Frame)]


def test_each_tick_comes_once_when_its_file_is_there(parts: list[Path]) -> None:
    """With its inputs, and the keyframes; the end comes with the last file."""
    put(parts[0].name, parts[0].read_bytes())
    seen: list[Seen] = []
    with UrlTail(URL) as tail:
        for path in parts[1:]:
            seen += tail.news()
            assert ticks_of(seen) == list(range(1, len(ticks_of(seen)) + 1))
            assert not isinstance(seen[-1], Ended)
            before = len(seen)
            assert list(tail.news()) == []
            put(path.name, path.read_bytes())
            seen += tail.news()
            assert len(seen) > before
        assert list(tail.news()) == []
    assert ticks_of(seen) == list(range(1, 91))
    assert [item.inputs for item in seen if isinstance(item, Frame)] == [
        None if inputs is None else [list(one) for one in inputs] for inputs in INPUTS
    ]
    assert [item.tick for item in seen if isinstance(item, KeyframeSeen)] == list(range(0, 91, 10))
    assert isinstance(seen[-1], Ended)


def test_following_waits_for_files_and_ends(parts: list[Path]) -> None:
    """Each wait brings the next file."""
    waiting = list(parts)
    put(waiting[0].name, waiting.pop(0).read_bytes())

    def wait(_: float) -> None:
        put(waiting[0].name, waiting.pop(0).read_bytes())

    with UrlTail(URL) as tail:
        seen = list(tail.follow(wait=wait))
    assert (ticks_of(seen), waiting) == (list(range(1, 91)), [])


def test_files_that_a_ring_has_dropped_are_missed(parts: list[Path]) -> None:
    """Between two calls the first files went, and the last ones came."""
    put(parts[0].name, parts[0].read_bytes())
    with UrlTail(URL) as tail:
        before = ticks_of(list(tail.news()))
        for path in parts[1:]:
            put(path.name, path.read_bytes())
        CountedStore().rm_file("/runs/parts.tape.1")
        after = list(tail.news())
    missed = [(one.first_tick, one.last_tick) for one in after if isinstance(one, Missed)]
    lost = [tick for first, last in missed for tick in range(first, last + 1)]
    assert lost
    assert sorted([*before, *lost, *ticks_of(after)]) == list(range(1, 91))


def test_a_run_that_was_continued_before_what_was_read_is_an_error(parts: list[Path], tmp_path: Path) -> None:
    """The same run with other inputs: its ticks are not those that were printed."""
    for path in parts[:3]:
        put(path.name, path.read_bytes())
    with UrlTail(URL) as tail:
        last = ticks_of(list(tail.news()))[-1]
        other = tmp_path / "other.tape"
        record(other, Walkers(2), INPUTS, keyframe_interval_ticks=10, split=500, deterministic=True, trial_ms=0)
        empty()
        put("parts.tape", other.read_bytes())
        for number in range(1, 5):
            put(f"parts.tape.{number}", segment_path(other, number).read_bytes())
        with pytest.raises(RecordingError, match=rf"runs/parts\.tape: tick {last} is not what it was"):
            list(tail.news())


def test_a_tape_is_verified_while_its_files_arrive(parts: list[Path]) -> None:
    """Each interval once; the last one when the recording is closed."""
    put(parts[0].name, parts[0].read_bytes())
    checks = []
    with LiveVerifier(URL, Walkers) as verifier:
        for path in parts[1:]:
            checks += verifier.poll()
            assert not verifier.is_over
            put(path.name, path.read_bytes())
        checks += verifier.poll()
        assert verifier.is_over
    assert [(one.first_tick, one.last_tick, one.finding, one.problem) for one in checks] == [
        (first, first + 10, None, None) for first in range(0, 90, 10)
    ]
