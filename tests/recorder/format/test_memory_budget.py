"""The budget of memory: what headers claim is refused before memory is taken, and listing needs no state."""

from __future__ import annotations

import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

import replayer
import replayer.commands.main
from recorder import MemoryBudgetError, Recorder
from recorder.corpus import examine, glance
from recorder.format.blocks.memory_budget import OBJECTS_PER_BYTE_MAX, MemoryBudget, objects_bytes
from recorder.storage.memory_limit import VARIABLE, memory_budget, parse_size, usable_bytes
from replayer.repair.repair import repair_tape
from sim import Field, Schema, State
from sim.kernel.plain_data import decode_plain, encode_plain

from oracle.command_lines import assert_one_line, run
from oracle.hostile_tapes import frames, full, write_tape

STATE_BYTES = 64 << 20


class Large:
    """A state of zeros, which compresses two hundred and fifty times."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "u1", (STATE_BYTES,)), Field("tick", "i8", (1,))))

    def step(self, _inputs: Any) -> None:
        self.state["tick"][0] += 1


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "a.tape"
    with Recorder(path, Large()) as tape:
        for _ in range(3):
            tape.step(None)
    assert path.stat().st_size < STATE_BYTES // 200
    return path


def peak_of(action: Any) -> int:
    """The most bytes that an action has allocated at a time."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(action: Any) -> None:
    """The action exceeds the budget."""
    with pytest.raises(MemoryBudgetError):
        action()


def test_listing_needs_no_state(large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Opening, checking every block, info and ls take a small part of what the state takes."""

    def listed() -> None:
        with replayer.open(large, Large) as timeline:
            assert timeline.last_tick == 3
            assert timeline.tape.check_blocks() == []
            assert timeline.tape.status == "intact"
        assert run(replayer.commands.main.main, f"info {large} --json") == 0
        assert glance(large).state_hash

    assert peak_of(listed) < STATE_BYTES // 4
    assert json.loads(capsys.readouterr().out)["status"] == "intact"


@pytest.mark.seldom(0.18)
def test_a_state_above_the_budget_is_refused_before_it_takes_memory(
    large: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Python, on the command line and by the environment; at the state's size it is read."""
    with replayer.open(large, Large, memory_bytes=STATE_BYTES) as timeline:
        place = timeline.tape.keyframes[0]
        assert peak_of(lambda: refused(lambda: timeline.tape.snapshot(place))) < STATE_BYTES // 4
        with pytest.raises(MemoryBudgetError) as caught:
            timeline.seek(1)
    assert (caught.value.budget_bytes, caught.value.need_bytes > STATE_BYTES) == (STATE_BYTES, True)
    with replayer.open(large, Large, memory_bytes=caught.value.need_bytes) as timeline:
        assert timeline.seek(3).tick == 3

    here = f"{__name__}:Large"
    monkeypatch.syspath_prepend(Path(__file__).parent)
    assert run(replayer.commands.main.main, f"seek {large} --tick 1 --sim {here} --memory 60MB") == 2
    assert_one_line(capsys.readouterr(), "the budget is 60,000,000: if you trust the tape, raise it with --memory, ")
    assert run(replayer.commands.main.main, f"seek {large} --tick 1 --sim {here} --memory=1GiB") == 0
    monkeypatch.setenv(VARIABLE, "60MB")
    assert run(replayer.commands.main.main, f"verify {large} -j 1 --sim {here}") == 2
    assert "the budget is 60,000,000" in capsys.readouterr().err
    assert run(replayer.commands.main.main, f"info {large}") == 0


@pytest.mark.parametrize(
    "inputs",
    [
        b"\xdc\xff\xff" + b"\x80" * 65535,
        b"\xdc\xff\xff" + b"\x81\x00\x00" * 65535,
        b"\xdd\x00\x01\x00\x00" + b"\x90" * 65536,
    ],
    ids=["maps", "pairs", "lists"],
)
def test_objects_are_counted_before_they_are_made(tmp_path: Path, inputs: bytes) -> None:
    """A few bytes of MessagePack make many of Python objects: refused by what they would take."""
    write_tape(tmp_path / "a.tape", [*full(0), frames(1, 1, inputs)])
    made = peak_of(lambda: decode_plain(inputs))
    assert made > 30 * len(inputs)
    with replayer.Tape(tmp_path / "a.tape", memory_bytes=made // 2) as tape:
        assert peak_of(lambda: refused(lambda: tape.frame(1))) < made // 8
    with replayer.Tape(tmp_path / "a.tape", memory_bytes=4 * made) as tape:
        assert len(tape.frame(1).inputs) >= 65535


def size_of(value: Any) -> int:
    """The bytes of a value and all in it, as CPython states them."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(size_of(key) + size_of(inner) for key, inner in value.items())
    return size + sum(map(size_of, value)) if isinstance(value, list) else size


PLAIN = [
    None, True, 0, -3, 127, 128, -1 << 40, 1 << 63, 1.5, "", "a" * 40, "ä€😀" * 9, "😀" + "a" * 300, b"", b"x" * 70_000, [], {},
    [[[]]], [1.5] * 40, list(range(70_000)), {str(n): n for n in range(20)}, {n: [] for n in range(70_000)}, [{} for _ in range(99)], [{1: 2}] * 99,
    np.zeros((3, 4)), np.int64(3), np.arange(70_000, dtype=np.int8), "b" * 70_000, ["x"] * 9,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PLAIN)))
def test_the_count_is_an_upper_bound(number: int) -> None:
    """At least what the objects take, at most some times as much, and never above the bound for all bytes."""
    encoded = encode_plain(PLAIN[number])
    counted = objects_bytes(encoded, 1 << 60)
    assert counted <= OBJECTS_PER_BYTE_MAX * len(encoded)
    taken = size_of(decode_plain(encoded))
    small = 28 * len(PLAIN[number]) if isinstance(PLAIN[number], list | dict) else 40  # Small integers exist already.
    assert counted >= taken - small
    assert counted <= 4 * taken + 600


def test_bytes_that_are_no_messagepack_end_the_count() -> None:
    """The decoder reports them."""
    assert objects_bytes(b"\xc1" * 9, 1 << 60) < 99
    assert objects_bytes(msgpack.packb([1] * 9)[:3], 1 << 60) < 999
    MemoryBudget(None).ensure(1 << 60, "anything")


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("500MB", 500 * 10**6), ("2GiB", 2 << 30), ("1.5 kb", 1500), ("7B", 7)]
)
def test_sizes(text: str, size: int) -> None:
    """Decimal and binary units, or bytes."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "12x", "-3", "0", "nan", "inf", "1e999GB", "MB"])
def test_what_is_no_size(text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, whether it was given or is in the environment."""
    with pytest.raises(ValueError, match="expected a size"):
        parse_size(text)
    assert run(replayer.commands.main.main, f"info nothing.tape --memory='{text}'") == 2
    assert_one_line(capsys.readouterr(), "error: --memory: expected a size")
    monkeypatch.setenv(VARIABLE, text)
    assert run(replayer.commands.main.main, "info nothing.tape") == 2
    assert_one_line(capsys.readouterr(), f"error: {VARIABLE}: expected a size")


def test_the_default_is_a_quarter_of_what_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A given limit comes first, then the environment."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert memory_budget().bytes_max == usable_bytes() // 4
    monkeypatch.setenv(VARIABLE, "1MB")
    assert memory_budget().bytes_max == 10**6
    assert memory_budget(77).bytes_max == 77
    with pytest.raises(ValueError, match="memory_bytes: expected at least 1, got 0"):
        memory_budget(0)


def test_a_lack_of_memory_is_no_damage(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a tape is not listed as corrupt, and a repair ends instead of losing what is there."""
    write_tape(tmp_path / "a.tape", [*full(0), frames(1, 1, b"\xdc\xff\xff" + b"\x80" * 65535)])
    monkeypatch.setenv(VARIABLE, "1MB")
    run_of_tape = examine(tmp_path / "a.tape")
    assert run_of_tape.status == "not checked"
    assert "the budget is 1,000,000" in (run_of_tape.error or "")
    assert (glance(large).status, examine(large).error) == ("not checked", None)
    refused(lambda: repair_tape(large, tmp_path / "new.tape", Large))
    assert not (tmp_path / "new.tape").exists()
