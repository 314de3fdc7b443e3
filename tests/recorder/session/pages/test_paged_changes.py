"""Changes found by written pages equal those of a scan, for any writes and any other consumers."""

from __future__ import annotations

import errno
import gc
import os
import threading
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replayer
from recorder import Recorder
from recorder.format.blocks.full_keyframe import gather_changes
from recorder.session.change_source import find_source
from recorder.session.pages import page_watch as written_pages
from recorder.session.pages.page_watch import PageReader
from recorder.session.pages.paged_row_changes import PagedChanges, bytes_in, ranges_of, rows_in
from recorder.session.pages.paged_tick_changes import PagedTicks
from recorder.session.pages.userfaultfd import PAGE_BYTES, WriteWatch, obstacle
from recorder.session.pages.watch_cost import (
    BACKOFF_MAX,
    BACKOFF_MIN,
    WATCHED_KEYFRAMES_BYTES_MIN,
    WATCHED_TICKS_BYTES_MIN,
    WatchCost,
)
from replayer.timeline.verify import verify_tape
from sim import Blob, Field, Schema, State, Table
from sim.kernel.changes.row_changes import MarkedChanges, ScannedChanges
from sim.kernel.changes.tick_changes import ScannedTicks
from sim.kernel.schema import make_layout

from keyframe_payloads import encode_delta
from oracle.watched_memory import open_descriptors, watched_bytes

pytestmark = pytest.mark.share(0.22)  # Of the cases of each test; different ones in each run.

needs_kernel = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
FIELDS = st.tuples(
    st.sampled_from(["u1", "<u2", "<i4", "<f8"]),
    st.integers(0, 3 * PAGE_BYTES),
    st.sampled_from([(), (3,), (8,), (700,)]),
)
# A write: where in the arena, as a share of it, moved to the border of a page or not; how much; of which value.
WRITES = st.tuples(
    st.floats(0, 1), st.sampled_from([None, -1, 0, 1]), st.integers(1, 2 * PAGE_BYTES), st.integers(0, 2)
)


def make_state(fields: list[tuple[str, int, tuple[int, ...]]]) -> State:
    """Make a state of these fields: type, approximate bytes, shape of a row."""
    entries = []
    for number, (dtype, size, row) in enumerate(fields):
        count = size // int(np.dtype(dtype).itemsize * np.prod(row, dtype=int))
        entries.append(Field(f"field{number}", dtype, (count, *row), row_axes=len(row)))
    return State(Schema(*entries))


def write(state: State, writes: list[tuple[float, int | None, int, int]]) -> None:
    """Write without a mark: bytes of one value, at any offset that belongs to a field."""
    address = state.arena.ctypes.data
    for share, beside, length, value in writes:
        place = int(share * max(0, len(state.arena) - 1))
        if beside is not None:
            place = max(0, (address + place) // PAGE_BYTES * PAGE_BYTES - address + beside)
        for slot in state.layout.slots.values():
            begin, end = max(place, slot.offset), min(place + length, slot.offset + slot.size_bytes)
            state.arena[begin:end] = value  # Nothing for an end before the beginning.


def as_lists(rows: Any) -> dict[str, list[int]]:
    """Return rows as plain lists."""
    return {name: numbers.tolist() for name, numbers in rows.items()}


@settings(deadline=None, max_examples=40)
@given(
    fields=st.lists(FIELDS, min_size=1, max_size=4),
    rounds=st.lists(st.tuples(st.lists(WRITES, max_size=4), st.booleans()), min_size=1, max_size=5),
    keeps=st.booleans(),
)
@needs_kernel
def test_keyframes_are_those_of_a_scan(fields: list[Any], rounds: list[Any], *, keeps: bool) -> None:
    """In each round, all rows that a scan finds are reported, ascending, with the same bytes."""
    state = make_state(fields)
    paged, scanned = PagedChanges(state), ScannedChanges(state)
    if keeps:
        paged._watch_cost = Unworried()
    baseline = state.snapshot()
    for source in (paged, scanned):
        source.reset(baseline)
    assert as_lists(scanned.changed_rows()) == {}
    for writes, is_full in rounds:
        write(state, writes)
        truth, told = as_lists(scanned.changed_rows()), as_lists(paged.changed_rows())
        assert all(set(rows) <= set(told.get(name, [])) for name, rows in truth.items())
        assert all(rows == sorted(set(rows)) for rows in told.values())
        ways = [scanned.changed_rows(), paged.changed_rows(), paged.changed_fields()]
        with mock.patch.multiple("recorder.session.pages.paged_row_changes", LOOKUP_COSTS_BYTES=0, ROW_COSTS_BYTES=0):
            ways.append(paged.changed_fields())  # Fields as small as these would otherwise be copied completely.
        made = [gather_changes(state.arena, state.layout, way) for way in ways]
        payloads = {bytes(encode_delta(1, state.hash(), changes, baseline)) for changes in made}
        assert len(payloads) == 1
        if is_full:
            baseline = state.snapshot()
            scanned.reset(baseline)
            paged.reset(baseline if paged.needs_baseline else None)
    paged.close()


class Unworried(WatchCost):
    """Finds every watch worth it."""

    def is_worth_it(self, cost: int, saved: int) -> bool:  # noqa: ARG002 - whatever it costs
        """Return True."""
        return True


@settings(deadline=None, max_examples=40)
@given(
    fields=st.lists(FIELDS, min_size=1, max_size=4),
    rounds=st.lists(st.tuples(st.lists(WRITES, max_size=4), st.booleans()), max_size=8),
    keeps=st.booleans(),
)
@needs_kernel
def test_ticks_are_those_of_a_scan(fields: list[Any], rounds: list[Any], *, keeps: bool) -> None:
    """The words and their values are the same, tick by tick, also after a reset."""
    state = make_state(fields)
    paged, scanned = PagedTicks(state), ScannedTicks(state)
    if keeps:
        paged._watch_cost = Unworried()
    for writes, begins in rounds:
        write(state, writes)
        if begins:
            paged.reset(state)
            scanned.reset(state)
        ours, theirs = paged.take(state), scanned.take(state)
        assert ours.numbers.tolist() == theirs.numbers.tolist()
        assert ours.values.tolist() == theirs.values.tolist()
        assert ours.numbers.dtype == theirs.numbers.dtype
    paged.close()


@settings(deadline=None, max_examples=200)
@given(
    page_count=st.integers(1, 9),
    lead=st.sampled_from([0, 64, PAGE_BYTES - 64]),
    tail=st.sampled_from([0, 64, PAGE_BYTES - 64]),
    fields=st.lists(FIELDS, min_size=1, max_size=4),
    chosen=st.sets(st.integers(0, 8)),
)
def test_rows_of_pages_against_brute_force(
    page_count: int, lead: int, tail: int, fields: list[Any], chosen: set[int]
) -> None:
    """Byte by byte: a row is reported if one of its bytes lies in a written page, or outside of complete pages."""
    slots = make_state(fields).layout.slots
    pages = sorted(number for number in chosen if number < page_count)
    size = lead + page_count * PAGE_BYTES + tail
    ranges = ranges_of(np.array(pages, np.int64), lead, page_count, size)
    written = np.zeros(size, np.bool_)
    written[:lead] = written[size - tail :] = True
    for number in pages:
        written[lead + number * PAGE_BYTES : lead + (number + 1) * PAGE_BYTES] = True
    inside = [slot for slot in slots.values() if slot.size_bytes and slot.offset + slot.size_bytes <= size]
    for slot, byte_count in zip(inside, bytes_in(inside, *ranges), strict=True):
        its = written[slot.offset : slot.offset + slot.size_bytes]
        assert byte_count == its.sum()
        truth = its.reshape(slot.row_count, -1).any(axis=1)
        first, counts = rows_in(slot, *ranges)
        told = [row for begin, count in zip(first, counts, strict=True) for row in range(begin, begin + count)]
        assert told == np.flatnonzero(truth).tolist()


class Drifting:
    """1.9 MB without marks: a field of small rows, one of large rows, one that never changes, a table that grows."""

    def __init__(self, *, is_dense: bool = False) -> None:
        self.state = State(
            Schema(
                Field("tick", "i8", hot=True),
                Field("cells", "i4", (300_000,)),
                Field("rows", "u2", (2_000, 60), row_axes=1),
                Field("still", "f8", (60_000,)),
                Table("ants", Field("age", "i8"), capacity=4),
                Blob("text", capacity=3),
            )
        )
        self.state["still"][:] = np.arange(60_000)
        self.is_dense = is_dense

    def step(self, _: Any) -> None:
        """Write some values; grow the table from time to time, which moves everything."""
        state = self.state
        tick = int(state["tick"]) + 1
        state["tick"][...] = tick
        state["cells"][tick * 7919 % 290_000 :][:500] += tick
        state["rows"][tick * 31 % 2_000, 7] = tick
        if self.is_dense:
            state["cells"][::500] += tick
        if tick % 9 == 0:
            new = state.add_rows("ants", 2)
            state["ants.age"][new] = tick
        if tick % 13 == 0:
            state.set_blob("text", b"word " * tick)


class Replacing(Drifting):
    """Replaces its State object from time to time."""

    def step(self, inputs: Any) -> None:
        """Replace the state, or restore it, and step."""
        tick = int(self.state["tick"])
        if tick % 7 == 6:
            fresh = State(self.state.layout.schema, self.state.layout.capacities)
            fresh.restore(self.state.snapshot())
            self.state = fresh
        elif tick % 5 == 4:
            self.state.restore(self.state.snapshot())
        super().step(inputs)


MAKERS = {"few": Drifting, "many": lambda: Drifting(is_dense=True), "replaced": Replacing}


def tape_of(path: Path, make: Any, ticks: int = 40, **settings: Any) -> dict[int, bytes]:
    """Record and return the live states."""
    live = {}
    with Recorder(path, make(), keyframe_interval_ticks=3, full_every=3, sync="never", **settings) as tape:
        for tick in range(1, ticks + 1):
            tape.step()
            live[tick] = tape.simulation.state.arena.tobytes()
    return live


@pytest.mark.parametrize("mode", ["events", "changes"])
@pytest.mark.parametrize("kind", MAKERS)
@needs_kernel
@pytest.mark.seldom(0.18)
def test_recordings_are_those_of_a_scan(tmp_path: Path, kind: str, mode: Any) -> None:
    """Equal byte for byte, with keyframes and ticks watching the same arena; the states are the live ones."""
    before = watched_bytes()
    paths = {way: tmp_path / f"{way}.tape" for way in ("pages", "scan")}
    for way, path in paths.items():
        live = tape_of(path, MAKERS[kind], changes=way, mode=mode, deterministic=True)
    assert paths["pages"].read_bytes() == paths["scan"].read_bytes()
    with replayer.open(paths["pages"], MAKERS[kind]) as run:
        for tick in (40, 3, 17, 36, 8):
            assert run[tick].arena.tobytes() == live[tick]
    assert verify_tape(paths["pages"], MAKERS[kind]).ok
    gc.collect()
    assert watched_bytes() == before


@pytest.mark.parametrize("after", [0, 1, 2, 7, 20])
@needs_kernel
def test_a_kernel_that_stops_reporting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The recording continues with scans, and is the same."""
    tape_of(tmp_path / "scan.tape", Drifting, changes="scan", mode="changes", deterministic=True)
    told, calls = WriteWatch.written, [0]

    def fail(self: WriteWatch, *, protect: bool = True) -> Any:
        calls[0] += 1
        if calls[0] > after:
            raise OSError(errno.EPERM, "ceased")
        return told(self, protect=protect)

    monkeypatch.setattr(WriteWatch, "written", fail)
    tape_of(tmp_path / "pages.tape", Drifting, changes="pages", mode="changes", deterministic=True)
    assert calls[0] > after
    assert (tmp_path / "pages.tape").read_bytes() == (tmp_path / "scan.tape").read_bytes()


@needs_kernel
def test_a_baseline_that_the_writer_has_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """While pages are known, the next full state reuses its memory: after a failure it is no longer compared."""
    state = State(Schema(Field("x", "i8", (5_000,))))
    source, baseline = PagedChanges(state), state.snapshot()
    source.reset(baseline)
    state["x"][2_000] = baseline.arena.flags.writeable = 1
    baseline.arena[:] = state.arena
    monkeypatch.setattr(PageReader, "look", lambda _: None)
    assert as_lists(source.changed_rows()) == {"x": list(range(5_000))}
    assert source.changed_fields() == {"x": None}
    assert source.needs_baseline
    source.close()


@needs_kernel
@pytest.mark.seldom(0.15)
def test_two_consumers_and_a_third_that_goes() -> None:
    """Each gets everything since it last asked, in any order; the last one to close ends the watch."""
    before = watched_bytes()
    arena = np.zeros(64 * PAGE_BYTES, np.uint8)
    readers = [PageReader.open(arena) for _ in range(3)]
    assert watched_bytes() - before == readers[0].page_count * PAGE_BYTES
    random = np.random.default_rng(3)
    since: list[set[int]] = [set(range(readers[0].page_count)) for _ in readers]  # What changed before is unknown.
    for turn in range(200):
        page = int(random.integers(0, readers[0].page_count))
        arena[readers[0].lead_bytes + page * PAGE_BYTES] += 1
        for pages in since:
            pages.add(page)
        who, takes = int(random.integers(0, 3 if turn < 100 else 2)), bool(random.integers(0, 2))
        assert (readers[who].take() if takes else readers[who].look()).tolist() == sorted(since[who])
        if takes:
            since[who].clear()
        if turn == 100:
            readers[2].close()
            assert readers[2].look() is None
    readers[0].close()
    readers[0].close()
    assert watched_bytes() > before
    readers[1].close()
    assert watched_bytes() == before
    assert not len(written_pages._shared)


@needs_kernel
def test_writes_of_threads_are_not_lost() -> None:
    """Threads write while pages are read: all reports together hold exactly what they wrote."""
    arena = np.zeros(400 * PAGE_BYTES, np.uint8)
    first, second = PageReader.open(arena), PageReader.open(arena)
    first.take()
    second.take()
    done = threading.Event()

    def work(number: int) -> None:
        for page in range(number, first.page_count, 8):
            arena[first.lead_bytes + page * PAGE_BYTES + number] = 1

    def ask() -> None:
        while not done.is_set():
            seen.update(second.take().tolist())

    seen: set[int] = set()
    told: set[int] = set()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(0, 8, 2)]
    asking = threading.Thread(target=ask)
    for thread in (asking, *threads):
        thread.start()
    while any(thread.is_alive() for thread in threads):
        told.update(first.take().tolist())
    done.set()
    asking.join()
    told.update(first.take().tolist())
    seen.update(second.take().tolist())
    truth = {page for page in range(first.page_count) if page % 8 % 2 == 0}
    assert told == seen == truth
    first.close()
    second.close()


def test_watch_cost_backs_off_twice_as_long_each_time() -> None:
    """Each backoff ends with a trial; one that is worth it makes the next backoff short again."""
    watch_cost = WatchCost()
    assert watch_cost.is_worth_it(3, 3)
    lengths = []
    for _ in range(10):
        assert not watch_cost.backing_off
        assert not watch_cost.is_worth_it(4, 3)
        rounds = 1
        while not watch_cost.backoff_over():
            assert watch_cost.backing_off
            rounds += 1
        lengths.append(rounds)
    assert lengths == [min(BACKOFF_MIN * 2**number, BACKOFF_MAX) for number in range(10)]
    assert watch_cost.is_worth_it(0, 0)
    assert not watch_cost.is_worth_it(1, 0)
    assert [watch_cost.backoff_over() for _ in range(BACKOFF_MIN)] == [False] * (BACKOFF_MIN - 1) + [True]


@pytest.mark.seldom(0.15)
@needs_kernel
def test_a_watch_that_is_not_worth_it_ends_and_is_tried_again() -> None:
    """Ticks that write everything are scanned, without faults; once they write little they are watched again."""
    state = State(Schema(Field("x", "i8", (100_000,))))
    before = watched_bytes()
    ticks, keyframes, oracle = PagedTicks(state), PagedChanges(state), ScannedTicks(state)

    def tick(rows: Any) -> bool:
        state["x"][rows] += 1
        assert ticks.take(state).numbers.tolist() == oracle.take(state).numbers.tolist()
        return watched_bytes() > before

    assert tick(slice(1))
    assert [tick(slice(None)) for _ in range(2 * BACKOFF_MIN)] == [False] * BACKOFF_MIN + [True] + [False] * (
        BACKOFF_MIN - 1
    )
    assert [tick(slice(5)) for _ in range(3 * BACKOFF_MIN)][-BACKOFF_MIN:] == [True] * BACKOFF_MIN

    ticks.close()
    keyframes.reset(state.snapshot())
    assert watched_bytes() > before
    assert not keyframes.needs_baseline
    state["x"][:] += 1
    assert keyframes.changed_fields() == {"x": None}
    keyframes.reset(None)
    assert keyframes.needs_baseline
    assert watched_bytes() == before
    for _ in range(BACKOFF_MIN):
        assert keyframes.changed_fields() == {"x": None}
        keyframes.reset(state.snapshot())
    assert not keyframes.needs_baseline
    state["x"][50_000] += 1
    assert 50_000 in keyframes.changed_fields()["x"]
    for _ in range(4):  # Savings before a baseline count only for that one.
        keyframes.changed_fields()
    keyframes.reset(None)
    assert not keyframes.needs_baseline
    assert 50_000 not in keyframes.changed_rows()["x"]
    state["x"][:] += 1
    keyframes.changed_fields()
    keyframes.reset(None)
    assert keyframes.needs_baseline
    keyframes.close()
    assert watched_bytes() == before


class Sized:
    """A state of about this size, without marks."""

    def __init__(self, size_bytes: int) -> None:
        self.state = State(Schema(Field("x", "i8", (size_bytes // 8,)), Table("ants", Field("age", "i8"), capacity=4)))

    def step(self, rows: int) -> None:
        """Write one number, and let the table grow."""
        self.state["x"][-1] += 1
        if rows:
            self.state.add_rows("ants", rows)


class Saving:
    """A simulation of this size with save and load."""

    def __init__(self) -> None:
        self.x = np.zeros(WATCHED_KEYFRAMES_BYTES_MIN, np.uint8)

    def step(self, _: Any) -> None:
        """Write one number."""
        self.x[5] += 1

    def save(self) -> dict[str, Any]:
        """Return the complete state."""
        return {"x": self.x}

    def load(self, saved: dict[str, Any]) -> None:
        """Restore the complete state."""
        self.x = saved["x"]


@pytest.mark.parametrize(
    ("make", "mode", "is_watched"),
    [
        (lambda: Sized(WATCHED_KEYFRAMES_BYTES_MIN), "events", True),
        (lambda: Sized(WATCHED_KEYFRAMES_BYTES_MIN // 2), "events", False),
        (lambda: Sized(WATCHED_TICKS_BYTES_MIN), "changes", True),
        (lambda: Sized(WATCHED_TICKS_BYTES_MIN // 2), "changes", False),
        (Saving, "events", False),
        (Saving, "changes", False),
    ],
    ids=["large", "small", "large, changes", "small, changes", "save and load", "save and load, changes"],
)
@needs_kernel
@pytest.mark.seldom(0.18)
def test_the_automatic_choice(tmp_path: Path, make: Any, mode: Any, *, is_watched: bool) -> None:
    """Large unmarked states are watched, also those that grow large later; the watch ends at close."""
    before = watched_bytes()
    with Recorder(tmp_path / "run.tape", make(), mode=mode, keyframe_interval_ticks=2, full_every=2) as tape:
        for _ in range(5):
            tape.step(0)
            assert (watched_bytes() > before) == is_watched
        if isinstance(tape.simulation, Sized):
            tape.step(len(tape.simulation.state.arena) // 8)
            for _ in range(4):
                tape.step(0)
            assert watched_bytes() - before >= WATCHED_TICKS_BYTES_MIN
    assert watched_bytes() == before
    assert verify_tape(tmp_path / "run.tape", make).ok


def test_marked_states_are_not_watched() -> None:
    """Marks are preferred; the message for a wrong word lists "marks"."""

    class Marking(Sized):
        marks_writes = True

    assert find_source(Marking(WATCHED_KEYFRAMES_BYTES_MIN), "auto").whole is MarkedChanges
    with pytest.raises(ValueError, match="expected changes to be auto, marks, scan, pages or audit, got 'page'"):
        find_source(Sized(100), "page")  # type: ignore[arg-type]


@needs_kernel
def test_a_forked_child_of_a_recording(tmp_path: Path) -> None:
    """The child has its own state, which is not watched, and exits; the parent's recording is right."""
    path = tmp_path / "run.tape"
    live = {}
    with Recorder(path, Drifting(), changes="pages", mode="changes", keyframe_interval_ticks=5) as tape:
        for tick in range(1, 21):
            tape.step()
            live[tick] = tape.simulation.state.arena.tobytes()
            if tick in (6, 12):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    child = os.fork()
                if child == 0:
                    tape.simulation.step(None)
                    tape.simulation.state.arena[:] = 0
                    del tape
                    os._exit(watched_bytes() != 0)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with replayer.open(path, Drifting) as run:
        assert all(run[tick].arena.tobytes() == arena for tick, arena in live.items())


@needs_kernel
def test_a_forked_child_may_watch_what_it_has(tmp_path: Path) -> None:
    """The inherited readers know nothing and their descriptors are closed; a new one reports the child's own writes."""
    arena = np.zeros(9 * PAGE_BYTES, np.uint8)
    reader = PageReader.open(arena)
    reader.take()
    assert open_descriptors() >= 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        written_pages._lock.acquire()  # As if held by a thread that does not exist in the child.
        child = os.fork()
    if child == 0:
        try:
            closed = not open_descriptors()
            own = PageReader.open(arena)
            own.take()
            arena[own.lead_bytes + 2 * PAGE_BYTES] = 1
            found = (closed, reader.take(), own.take().tolist(), reader.close(), own.close())
            (tmp_path / "found").write_text(repr(found))
        finally:
            os._exit(0)
    written_pages._lock.release()
    os.waitpid(child, 0)
    assert (tmp_path / "found").read_text() == "(True, None, [2], None, None)"
    arena[reader.lead_bytes + 5 * PAGE_BYTES] = 1
    assert reader.take().tolist() == [5]
    reader.close()


@pytest.mark.seldom(0.15)
@needs_kernel
def test_no_descriptor_stays_open_after_many_recorders(tmp_path: Path) -> None:
    """No descriptor stays open after recorders that were closed or garbage-collected, and no fork registration."""
    gc.collect()
    before, descriptors = watched_bytes(), open_descriptors()
    world = Sized(5 * PAGE_BYTES)
    for number in range(15):
        path = tmp_path / f"{number}.tape"
        with Recorder(path, world, changes="pages", mode="changes", durability="none", sync="never") as tape:
            tape.step(0)
            assert watched_bytes() > before
        path.unlink()
    assert (watched_bytes(), open_descriptors()) == (before, descriptors)
    sources = [make(world.state) for make in (PagedChanges, PagedTicks)]
    sources[0].reset(world.state.snapshot())
    assert watched_bytes() > before
    sources.clear()
    assert (watched_bytes(), open_descriptors()) == (before, descriptors)


@needs_kernel
@pytest.mark.seldom(0.15)
def test_a_new_arena_counts_as_all_written() -> None:
    """A new arena, with a different layout or the same, has unknown changes until the source is reset."""
    state = State(Schema(Field("x", "i8", (3_000,)), Table("ants", Field("age", "i8"), capacity=4)))
    before, earlier = watched_bytes(), state.snapshot()
    keyframes, ticks = PagedChanges(state), PagedTicks(state)
    keyframes.reset(None)
    assert not keyframes.needs_baseline
    state.add_rows("ants", 5)
    for _ in range(2):
        assert keyframes.needs_baseline
        assert set(keyframes.changed_fields().values()) == {None}
        assert as_lists(keyframes.changed_rows())["x"] == list(range(3_000))
        assert ticks.take(state) is None
        state.restore(earlier)  # The earlier layout, in its own memory.
    state.restore(earlier)
    keyframes.reset(state.snapshot())
    ticks.reset(state)
    assert watched_bytes() > before
    state["x"][2_000] = 5
    assert 2_000 in as_lists(keyframes.changed_rows())["x"]
    assert 0 < len(as_lists(keyframes.changed_rows())["x"]) < 3_000
    assert 5 in ticks.take(state).values
    keyframes.close()
    ticks.close()
    assert watched_bytes() == before


def test_layouts_of_nothing() -> None:
    """A state without a byte, or without a complete page, is scanned."""
    for schema in (Schema(Field("none", "i8", (0,))), Schema(Field("few", "i8", (5,)))):
        state = State(schema)
        assert state.layout.hash_seed == make_layout(schema, None).hash_seed
        paged = PagedChanges(state)
        paged.reset(state.snapshot())
        assert paged.needs_baseline
        assert paged.changed_rows() == {}
        ticks = PagedTicks(state)
        assert ticks.take(state).numbers.tolist() == []
        ticks.close()
        paged.close()
