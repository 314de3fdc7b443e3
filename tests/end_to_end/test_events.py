"""Events from the simulation to the table: recorded, through kills, rings and repairs, and rebuilt where lost."""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from telling_worlds import Chest, Nursery, Silent, births, told_live

import recorder
import replayer.commands.main
from recorder import DesyncError, MissingTickError, Recorder, SimulationFailedError
from recorder.format.blocks.events_block import encode_events, encode_tick
from recorder.format.limits import EVENTS_RAW_BYTES, PIECE_RAW_BYTES
from recorder.format.segments.segment_encoder import Piece, make_piece
from recorder.session.outputs.tick_output import OutputCollector
from recorder.storage.file_names import segment_path
from replayer import Tape
from replayer.diagnose.hidden_state.readers import reader_names
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.playback.rebuild_events import rebuild_events
from replayer.repair.repair import repair_tape
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State
from sim.kernel.plain_data import PlainEncoder, encode_plain
from sim.kernel.simulation import as_simulation

from oracle.command_lines import assert_one_line, run
from oracle.crashes import Moment, lay_out, record_until, watch_recording, watch_resuming
from oracle.hostile_tapes import Still, frames, full, meta, write_tape
from oracle.repair_runs import destroy
from oracle.second_checks import CheckedTape, events_of
from oracle.second_reader import EVENTS, FRAMES, Reader, unpack

pytestmark = pytest.mark.share(0.18)

TICKS = 40
TRUTH = told_live(Nursery, births, TICKS)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in its own folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def record(path: str = "a.tape", ticks: int = TICKS, make: Any = Nursery, **settings: Any) -> None:
    """Record a nursery."""
    with Recorder(path, make(), **{"keyframe_interval_ticks": 7, "full_every": 3} | settings) as tape:
        for tick in range(1, ticks + 1):
            tape.step(births(tick))


def listed(told: Iterable[tuple[int, Any]]) -> str:
    """Return ticks and events as text, which also compares arrays, NaN and types."""
    return repr(list(told))


def truth(ticks: Iterable[int] = range(TICKS + 1)) -> str:
    """Return the true events of these ticks."""
    return listed((tick, event) for tick in ticks for event in TRUTH[tick])


def assert_told(
    path: str | Path = "a.tape", missing: Iterable[tuple[int, int]] = (), first: int = 0, last: int = TICKS
) -> None:
    """Check that the tape has the true events of all ticks but these, and that all of them can be rebuilt."""
    lost = {tick for one, two in missing for tick in range(one, two + 1)}
    with Tape(path) as tape:
        assert tape.missing_event_ticks() == list(missing)
        assert listed(tape.events()) == truth(tick for tick in range(first, last + 1) if tick not in lost)
        assert listed(rebuild_events(tape, Nursery)) == truth(range(first, last + 1))
        assert listed(rebuild_events(tape, Nursery, stored=False)) == truth(range(first, last + 1))


SETTINGS: list[dict[str, Any]] = [
    {}, {"split": 700}, {"deterministic": True}, {"durability": "none"}, {"durability": "block", "sync": "block"},
    {"blame": "phases"},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS[:-1], ids=str)
def test_each_tick_has_its_events(settings: dict[str, Any]) -> None:
    """Including the start; the second reader finds the same, and ticks without events are listed as empty."""
    record(**settings)
    assert_told()
    assert verify_tape("a.tape", Nursery).ok
    with Tape("a.tape") as tape:
        assert (tape.check_blocks(), tape.status, tape.has_events) == ([], "intact", True)
        for first, last in [(0, 0), (5, 5), (6, 23), (38, 99), (50, 60), (9, 8)]:
            assert listed(tape.events(first, last)) == truth(range(first, min(last, TICKS) + 1))
            assert listed(rebuild_events(tape, Nursery, first, last)) == truth(range(first, min(last, TICKS) + 1))
    found = events_of(CheckedTape(Path("a.tape")).blocks)
    assert repr(found) == repr(TRUTH)
    assert [tick for tick, events in found.items() if not events]  # Otherwise those would not be shown.


def test_a_simulation_without_events_costs_nothing() -> None:
    """No block, no entry in META, no bytes: the tape equals that of the simulation before it had events."""
    record(make=Silent, deterministic=True)
    blocks = CheckedTape(Path("a.tape")).blocks
    assert "event_stream" not in unpack(blocks[0].payload)[0]
    assert EVENTS not in {block.kind for block in blocks}
    assert OutputCollector.of(Silent()) is None
    with Tape("a.tape") as tape:
        assert (tape.has_events, list(tape.events()), tape.missing_event_ticks()) == (False, [], [])
        assert listed(rebuild_events(tape, Nursery)) == truth()  # The simulation has gained events since.
        with pytest.raises(UnfitSimulationError, match="Silent has no events"):
            list(rebuild_events(tape, Silent))
    record("b.tape", deterministic=True, run_id=bytes(16))
    record("c.tape", deterministic=True, run_id=bytes(16), make=Silent)
    told, silent = (Reader(Path(name).read_bytes()).blocks for name in ("b.tape", "c.tape"))
    assert [(b.kind, b.payload) for b in told if b.kind in (FRAMES, 3, 4)] == [
        (b.kind, b.payload) for b in silent if b.kind in (FRAMES, 3, 4)
    ]


def test_equal_runs_give_equal_bytes() -> None:
    """With deterministic=True, for any scheduling of the thread."""
    for name in ("a.tape", "b.tape"):
        record(name, deterministic=True)
    assert Path("a.tape").read_bytes() == Path("b.tape").read_bytes()


def test_a_simulation_that_saves_and_loads() -> None:
    """Its own events() is called; a tick's events are also returned from a used simulation."""
    with Recorder("a.tape", Chest(), keyframe_interval_ticks=5) as tape:
        for tick in range(1, 21):
            tape.step(tick)
    live = told_live(Chest, lambda tick: tick, 20)
    expected = listed((tick, event) for tick in live for event in live[tick])
    with Tape("a.tape") as found:
        assert listed(found.events()) == listed(rebuild_events(found, Chest, stored=False)) == expected
    assert "events" in reader_names(as_simulation(Chest()))


# --- losses


def test_a_ring_keeps_the_events_of_its_ticks() -> None:
    """As it keeps the frames; a tape that is written out keeps them, too."""
    with Recorder("a.tape", Nursery(), keyframe_interval_ticks=3, keep=9) as tape:
        for tick in range(1, TICKS + 1):
            tape.step(births(tick))
        first, last = tape.write_out("b.tape")
    for name in ("a.tape", "b.tape"):
        with Tape(name) as found:
            assert (found.first_tick, found.last_tick, first > 20) == (first, last, True)
            assert found.missing_event_ticks() == []
            assert listed(found.events()) == truth(range(first, TICKS + 1))
            assert listed(rebuild_events(found, Nursery)) == truth(range(first, TICKS + 1))
            # The step to the first tick is not on the tape: its events are read, and cannot be rebuilt.
            assert listed(rebuild_events(found, Nursery, stored=False)) == truth(range(first + 1, TICKS + 1))


def test_a_repair_takes_them_over() -> None:
    """Intact ones are copied; the new tape marks the others as missing."""
    record()
    assert repair_tape("a.tape", "b.tape", Nursery).complete
    assert_told("b.tape")
    data = bytearray(Path("a.tape").read_bytes())
    third = [block for block in Reader(bytes(data)).blocks if block.kind == EVENTS][2]
    data[third.offset + 80] ^= 1
    Path("a.tape").write_bytes(data)
    report = repair_tape("a.tape", "c.tape", Nursery)
    assert [kind for kind, _ in report.lost_optional] == ["EVENTS"]
    assert_told("c.tape", [(8, 14)])


@pytest.mark.parametrize("place", [0, 80])
def test_each_damaged_block_costs_its_own_ticks(place: int) -> None:
    """Damage in its header and damage in its content."""
    record()
    data = Path("a.tape").read_bytes()
    for block in (one for one in Reader(data).blocks if one.kind == EVENTS):
        first, count = unpack(block.payload)[0]
        Path("a.tape").write_bytes(
            data[: block.offset + place] + bytes([data[block.offset + place] ^ 64]) + data[block.offset + place + 1 :]
        )
        assert_told(missing=[(first, first + count - 1)])


@pytest.mark.seldom(0.18)
def test_cut_at_any_byte() -> None:
    """Reported events are true, all others are marked missing and can be rebuilt if there are frames."""
    record(ticks=20)
    data = Path("a.tape").read_bytes()
    seen = set()
    for end in range(700, len(data), 23):
        Path("a.tape").write_bytes(data[:end])
        with Tape("a.tape") as tape:
            if not tape.keyframes:
                assert tape.missing_event_ticks() == []
                continue
            missing, last = tape.missing_event_ticks(), tape.last_tick
        seen.add((tuple(missing), last))
        assert_told(missing=missing, last=last)
        assert len(missing) <= 1
        assert all(ticks[1] == last for ticks in missing)
    assert len(seen) > 5


def record_and_die(ticks: int) -> None:
    """Record in a process that is killed by SIGKILL, with everything from the last keyframe on unwritten."""
    child = os.fork()
    if child == 0:
        tape = Recorder("a.tape", Nursery(), keyframe_interval_ticks=7, full_every=3)
        record_until(tape, births, ticks, 10)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_killed_and_resumed() -> None:
    """Only the ticks that the journal saved are without events, before and after the resume."""
    record_and_die(33)
    with Tape("a.tape") as tape:
        journal = tape.journal_ticks
        assert journal in (3, 5, 10, 12)  # Since the last flush at 30, or a keyframe, depending on the thread.
    assert_told(missing=[(34 - journal, 33)], last=33)
    with recorder.resume("a.tape", Nursery(seed=5)) as again:
        record_until(again, births, TICKS, 100)
    assert_told(missing=[(34 - journal, 33)])
    CheckedTape(Path("a.tape"))
    with recorder.resume("a.tape", Nursery()) as again:
        assert again.tick == TICKS
    assert_told(missing=[(34 - journal, 33)])


@pytest.mark.parametrize("settings", [{}, {"split": 700}, {"durability": "block"}], ids=str)
def test_killed_at_every_operation(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    """The events on the tape are true, before the resume and to the end of the run after it."""
    with monkeypatch.context() as patched:
        settings = {"keyframe_interval_ticks": 5, "full_every": 2} | settings
        moments = watch_recording(patched, Nursery, births, 16, **settings)
    resumed = 0
    for moment in moments[::13]:
        resumed += resume_after(moment, Path.cwd())
    assert resumed > 2


def resume_after(moment: Moment, folder: Path) -> bool:
    """Check the tape after a kill, resume it to the end, check again; return True if it could be resumed."""
    path = lay_out(moment.image.files(), folder)
    try:
        with Tape(path) as tape:
            missing, last = tape.missing_event_ticks(), tape.last_tick
    except (MissingTickError, recorder.UnreadableError):
        return False
    assert_told(path, missing, last=last)
    watch, again = watch_resuming(moment, lambda: Nursery(seed=9))
    with again:
        record_until(again, births, 20, 3)
    path = lay_out(watch.files, folder)
    assert_told(path, missing, last=20)
    CheckedTape(path)
    return True


def test_frames_that_are_lost() -> None:
    """Ticks that no step leads to have no events to rebuild; those around them have."""
    record()
    data = bytearray(Path("a.tape").read_bytes())
    for kind in (EVENTS, FRAMES):
        block = next(one for one in Reader(bytes(data)).blocks if one.kind == kind and one.first_tick == 15)
        data[block.offset + 3] ^= 1
    Path("a.tape").write_bytes(data)
    with Tape("a.tape") as tape:
        assert tape.missing_event_ticks() == [(15, 21)]
        rebuilt = rebuild_events(tape, Nursery)
        assert listed(next(rebuilt) for _ in range(sum(len(TRUTH[tick]) for tick in range(15)))) == truth(range(15))
        with pytest.raises(MissingTickError, match="tick 15"):
            next(rebuilt)
        assert listed(rebuild_events(tape, Nursery, first=22)) == truth(range(22, TICKS + 1))


def test_what_cannot_be_made_again() -> None:
    """A different simulation is detected by the hashes, at the start and later; one that raises is named."""
    record()
    with Tape("a.tape") as tape:
        with pytest.raises(MissingTickError, match=r"tick 0: .* a fresh simulation starts in a different state"):
            list(rebuild_events(tape, lambda: Nursery(2), stored=False))

        class Other(Nursery):
            def step(self, inputs: Any) -> None:
                super().step(inputs)
                self.state["n"][()] += self.state["n"] == 20

        assert listed(rebuild_events(tape, Other, 2, 18, stored=False)) == truth(range(2, 19))
        with pytest.raises(DesyncError, match="tick 19"):
            list(rebuild_events(tape, Other, stored=False))

        class Mute(Nursery):
            def events(self) -> Any:
                raise RuntimeError("no words")

        with pytest.raises(SimulationFailedError, match="no words"):
            list(rebuild_events(tape, Mute, 5, 6, stored=False))
        assert listed(rebuild_events(tape, Mute)) == truth()  # Nothing is missing, so no simulation is used.


# --- invalid events


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ([{"kind": "a", "x": {1}}], TypeError, "events() of Wrong, tick 3: set is not plain data"),
        ({"kind": "a"}, TypeError, "events() of Wrong, tick 3: expected a list of events, got dict"),
        ([{"kind": "a", "x": 1 << 64}], ValueError, "events() of Wrong, tick 3: 18446744073709551616 does not fit"),
    ],
)
def test_events_that_are_none_end_the_recording(wrong: Any, error: type[Exception], message: str) -> None:
    """As an exception of the step does: the tape ends, sealed, at the tick before."""

    class Wrong(Nursery):
        def events(self) -> Any:
            return wrong if self.state["n"] == 4 else super().events()

    tape = Recorder("a.tape", Wrong())
    for tick in range(1, 3):
        tape.step(births(tick))
    with pytest.raises(error) as caught:
        tape.step(births(3))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    with pytest.raises(SimulationFailedError):
        tape.step(0)
    tape.close()
    assert_told(last=2)


def test_at_the_start_nothing_is_left() -> None:
    """A simulation whose first events are invalid is refused, and no file is left."""

    class Wrong(Nursery):
        def events(self) -> Any:
            return 5

    with pytest.raises(TypeError, match=r"events\(\) of Wrong, tick 0: expected a list of events, got int"):
        Recorder("a.tape", Wrong())
    assert list(Path().iterdir()) == []


class Loud:
    """Emits many events, as views that the next step changes."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("n", "i8")))
        self._told = [{"kind": "noise", "sound": np.zeros(20_000, "u1"), "n": 0}]

    def step(self, inputs: int) -> None:
        self.state["n"][()] += 1
        self._told[0]["sound"] = np.full(inputs, int(self.state["n"]) % 256, "u1")
        self._told[0]["n"] = int(self.state["n"])

    def events(self) -> Any:
        return self._told


def test_many_events() -> None:
    """Blocks also end by the size of events; more than a block in one tick is split when it is copied."""
    sizes = [50_000] * 12 + [3_000_000, 0, 0, 100_000]
    with Recorder("a.tape", Loud(), keyframe_interval_ticks=1000, durability="block", deterministic=True) as tape:
        for size in sizes:
            tape.step(size)
    recorder.storage.tape_copy.copy_run("a.tape", "b.tape", None)
    for name in ("a.tape", "b.tape"):
        with Tape(name) as found:
            assert [(tick, event["n"], event["sound"].sum()) for tick, event in found.events()] == [
                (tick, tick, tick * ([20_000, *sizes][tick] if tick else 0)) for tick in range(17)
            ]
            assert found.missing_event_ticks() == []
        assert {*events_of(CheckedTape(Path(name)).blocks)} == {*range(17)}
    blocks = [block for block in Reader(Path("a.tape").read_bytes()).blocks if block.kind == EVENTS]
    assert all(block.raw <= EVENTS_RAW_BYTES + 64 or unpack(block.payload)[0][1] == 1 for block in blocks[1:])
    copied = [block for block in Reader(Path("b.tape").read_bytes()).blocks if block.kind == EVENTS]
    assert max(block.raw for block in copied) == PIECE_RAW_BYTES


def told(first: int, count: int, values: dict[int, str], *, header: int | None = None) -> Piece:
    """Make an EVENTS block with one event for each of these ticks."""
    encoder = PlainEncoder()
    encoded = [encode_tick(encoder, tick, [{"kind": kind}]) for tick, kind in values.items()]
    return make_piece(EVENTS, encode_events(first, count, encoded), first if header is None else header)


def test_hostile_tapes() -> None:
    """Blocks with valid checksums that lie or overlap: each tick is reported at most once, and nothing raises."""
    junk = [b"", b"\xc1", b"hello", encode_plain([5, 0]), encode_plain([2, 5, 6]), b"\x91" * 3000, bytes(5 << 20)]
    pieces = [
        *full(0), frames(1, 9), *(make_piece(EVENTS, one, 2) for one in junk), told(3, 4, {3: "a", 5: "b"}),
        told(5, 2, {5: "c", 6: "d"}), told(8, 1, {8: "e"}, header=7), told(1, 1, {1: "f"}), told(9, 9000, {9: "g", 15: "h"}),
        told((1 << 64) - 2, 1, {}), make_piece(EVENTS, encode_plain([(1 << 64) - 1, 2]), (1 << 64) - 1),
    ]  # fmt: skip
    write_tape(Path("a.tape"), pieces, meta(event_stream=True))
    with Tape("a.tape") as tape:
        expected = [(1, "f"), (3, "a"), (5, "c"), (6, "d"), (9, "g"), (15, "h")]
        assert [(tick, event["kind"]) for tick, event in tape.events()] == expected
        assert tape.missing_event_ticks() == [(0, 0), (2, 2), (7, 8)]
        for first in range(12):
            for last in range(first, 12):
                inside = [one for one in expected if first <= one[0] <= last]
                assert [(tick, event["kind"]) for tick, event in tape.events(first, last)] == inside
        with pytest.raises(UnfitSimulationError):
            list(rebuild_events(tape, Still))
    assert run(replayer.commands.main.main, "info a.tape --json") == 0
    assert run(replayer.commands.main.main, "export a.tape --events -o t.ndjson") == 3


def test_more_than_a_block_may_hold() -> None:
    """Such a block is not assembled, even if each tick's own events would fit."""
    sizes = {3: 3 << 20, 4: 3 << 20}
    encoded = [encode_tick(PlainEncoder(), tick, [{"kind": "a", "x": bytes(size)}]) for tick, size in sizes.items()]
    payloads = [encode_events(3, 2, encoded), encode_events(3, 2, encoded[:1])]
    for payload, missing in zip(payloads, ([(0, 9)], [(0, 2), (5, 9)]), strict=True):
        write_tape(Path("a.tape"), [*full(0), frames(1, 9), make_piece(EVENTS, payload, 3)])
        with Tape("a.tape") as tape:
            assert tape.missing_event_ticks() == missing


def test_an_index_that_lies() -> None:
    """The blocks are then found by their headers."""
    record()
    with Tape("a.tape") as tape:
        for segment in tape.segments:
            for part in segment.parts:
                rows = part.load().columns
                rows["offset"] = rows["offset"] + np.where(
                    (rows["kind"] == EVENTS) & (rows["first_tick"] > 20), 8, 0
                ).astype(rows["offset"].dtype)
        assert listed(tape.events()) == truth()
        assert tape.recording.hopped


# --- the commands


def test_info_counts_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Their number, and the ticks without them; nothing for a tape without events."""
    record_and_die(33)
    assert run(replayer.commands.main.main, "info a.tape --json") == 3
    facts = json.loads(capsys.readouterr().out)
    (missing,) = facts["missing_event_ticks"]
    assert missing[1] == 33
    assert facts["events"] == sum(len(TRUTH[tick]) for tick in range(missing[0]))
    assert run(replayer.commands.main.main, "info a.tape") == 3
    lines = capsys.readouterr().out.splitlines()
    assert f"  events: {facts['events']}" in lines
    assert f"  without events: ticks {missing[0]} to 33; replayer.rebuild_events rebuilds them" in lines
    record("b.tape", make=Silent)
    assert run(replayer.commands.main.main, "info b.tape --json") == 0
    assert "events" not in json.loads(capsys.readouterr().out)
    assert run(replayer.commands.main.main, "info b.tape") == 0
    assert "events" not in capsys.readouterr().out


def test_tables_of_every_form_agree(capsys: pytest.CaptureFixture[str]) -> None:
    """One row per event; nested values are a list in NDJSON and text elsewhere; no further file is left."""
    record()
    total = sum(map(len, TRUTH.values()))
    for name in ("t.csv", "t.ndjson", "t.parquet"):
        assert run(replayer.commands.main.main, f"export a.tape --events -o {name}") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"t.{form}: {total} events" for form in ("csv", "ndjson", "parquet")
    ]
    lines = [json.loads(line) for line in Path("t.ndjson").read_text().splitlines()]
    assert [line["tick"] for line in lines] == [tick for tick, events in TRUTH.items() for _ in events]
    assert lines[0] == {"tick": 0, "kind": "made", "seed": 1}
    first_death = next(line for line in lines if line["kind"] == "death")
    tick = first_death["tick"]
    assert first_death["pair"] == [tick + 1, None]
    assert first_death["ages"] == TRUTH[tick][-1]["ages"].tolist()
    assert next(line for line in lines if line["kind"] == "birth")["of"]["names"] == ["ö", "ff00"]
    columns = ["tick", "kind", *dict.fromkeys(key for line in lines for key in line if key not in ("tick", "kind"))]
    with Path("t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table("t.parquet")
    assert list(rows[0]) == table.column_names == columns
    types = {name: str(table.schema.field(name).type) for name in columns}
    assert types == dict.fromkeys(columns, "int64") | dict.fromkeys(("kind", "of", "ages", "pair", "big"), "string")
    for line, row, record_ in zip(lines, rows, table.to_pylist(), strict=True):
        for name in columns:
            value = line.get(name)
            nested = isinstance(value, list | dict) or name == "big"
            text = json.dumps(value, ensure_ascii=False) if nested and value is not None else value
            assert record_[name] == text
            assert row[name] == ("" if value is None else str(text))
    assert sorted(path.name for path in Path().iterdir()) == ["a.tape", "t.csv", "t.ndjson", "t.parquet"]
    assert run(replayer.commands.main.main, "export a.tape --events -o t.csv --json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "path": "t.csv", "rows": total, "columns": columns, "missing_event_ticks": [],
    }  # fmt: skip


def test_what_columns_become(capsys: pytest.CaptureFixture[str]) -> None:
    """A column of one type keeps it; mixed types become text of JSON."""

    class Mixed(Nursery):
        def events(self) -> Any:
            return [
                {
                    "kind": "a",
                    "flag": True,
                    "number": 1,
                    "half": 0.5,
                    "text": "x",
                    "mixed": 1,
                    "long": 1 << 60,
                    "none": None,
                },
                {"kind": "b", "flag": None, "number": -2, "half": 2, "text": "", "mixed": "1", "long": 3},
                {"kind": "c", "mixed": False},
            ]

    with Recorder("a.tape", Mixed()):
        pass
    assert run(replayer.commands.main.main, "export a.tape --events -o t.parquet") == 0
    assert pq.read_table("t.parquet").to_pylist() == [
        {"tick": 0, "kind": "a", "flag": True, "number": 1, "half": 0.5, "text": "x", "mixed": "1", "long": 1 << 60, "none": None},
        {"tick": 0, "kind": "b", "flag": None, "number": -2, "half": 2.0, "text": "", "mixed": '"1"', "long": 3, "none": None},
        {"tick": 0, "kind": "c", "flag": None, "number": None, "half": None, "text": None, "mixed": "false", "long": None, "none": None},
    ]  # fmt: skip
    capsys.readouterr()


def test_missing_events_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3; the available events are written."""
    record_and_die(33)
    assert run(replayer.commands.main.main, "export a.tape --events -o t.ndjson") == 3
    shown = capsys.readouterr()
    with Tape("a.tape") as tape:
        ((first, last),) = tape.missing_event_ticks()
    assert shown.err == f"  not on the tape: the events of ticks {first} to {last}\n"
    assert len(Path("t.ndjson").read_text().splitlines()) == sum(len(TRUTH[tick]) for tick in range(first))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("export a.tape -o t.csv", "expected --telemetry, --events or --aux"),
        ("export a.tape --telemetry --events -o t.csv", "expected --telemetry, --events or --aux"),
        (
            "export a.tape --events -o t.xls",
            "t.xls: expected a name that ends in .csv, .ndjson, .jsonl, .parquet, .rrd, .mcap",
        ),
        ("export silent.tape --events -o t.csv", "silent.tape has no events: its simulation has no events()"),
        ("export a.tape --events -o no/t.csv", "no/t.csv: No such file or directory"),
        ("export many.tape --events -o t.csv", "many.tape: the events have more than 4096 different keys"),
    ],
)
def test_mistakes_get_one_line(capsys: pytest.CaptureFixture[str], line: str, text: str) -> None:
    """Exit code 2, and no file."""

    class Many(Nursery):
        def events(self) -> Any:
            return [{"kind": "a"} | {f"k{n}": n for n in range(5000)}]

    record(ticks=3)
    record("silent.tape", ticks=1, make=Silent)
    record("many.tape", ticks=1, make=Many)
    assert run(replayer.commands.main.main, line) == 2
    assert_one_line(capsys.readouterr(), text)
    assert not list(Path().glob("t.*"))


@pytest.mark.parametrize("resumed_at", [None, 29, 30])
def test_the_first_tick_of_a_ring(resumed_at: int | None) -> None:
    """Its events are on the tape, though the file with its frame has gone; if they are damaged, the tick is named."""
    with Recorder("a.tape", Nursery(), keyframe_interval_ticks=3, full_every=3, keep=9) as tape:
        record_until(tape, births, resumed_at or TICKS, 100)
    if resumed_at is not None:
        with recorder.resume("a.tape", Nursery()) as tape:
            record_until(tape, births, TICKS, 100)
    with Tape("a.tape") as ring:
        first = ring.first_tick
        assert first > 4
        assert TRUTH[first] or resumed_at  # Otherwise the test would not show them.
        # A resume does not know the events of the tick that it begins with.
        assert ring.missing_event_ticks() == ([] if first != resumed_at else [(first, first)])
        known = first + (first == resumed_at)
        assert listed(ring.events()) == truth(range(known, TICKS + 1))
        assert listed(rebuild_events(ring, Nursery)) == truth(range(known, TICKS + 1))
        if first == resumed_at:
            return
        segment = ring.segments[1]
    file = segment_path("a.tape", segment.number)
    (block,) = (
        block for block in Reader(file.read_bytes()).blocks if block.kind == EVENTS and block.first_tick == first
    )
    file.write_bytes(destroy(file.read_bytes(), block, "payload"))
    with Tape("a.tape") as ring:
        assert ring.missing_event_ticks() == [(first, first)]
        assert listed(ring.events()) == truth(range(first + 1, TICKS + 1))
