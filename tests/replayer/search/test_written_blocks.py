"""WRITES blocks: who skips intervals by the marks of the simulation, and is right where a write has no mark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from watched_runs import INTERVAL, TICKS, Marking, last_change, random_questions, recorded

import recorder
import replayer
from recorder.format.blocks.block import BlockKind
from recorder.format.segments.block_location import optional_blocks
from replayer.commands.main import main
from replayer.report.last_write_text import write_lines
from replayer.search.lookup.lookup import LookupWarning
from sim import Field, Schema, State


@pytest.mark.parametrize("full_every", [1, 4])
def test_the_last_write_is_that_of_a_plain_loop(tmp_path: Path, full_every: int) -> None:
    """Of cells and of rows that come and go. How many intervals the questions can skip depends on what was drawn."""
    seed = random.randrange(1 << 20)
    path = tmp_path / "run.tape"
    states = recorded(path, seed, full_every=full_every)
    skipped = 0
    with replayer.open(path, Marking) as run:
        assert writes_blocks(run.tape) == TICKS // INTERVAL
        for field, row, at in random_questions(states, seed):
            found = run.last_write(field, row, at=at, line=False)
            assert found.tick == last_change(states, field, row, at), (seed, field, row, at)
            skipped += found.skipped_intervals
        never = run.last_write("cells", 30, line=False)
    assert skipped > 0, seed
    assert never.tick is None
    assert never.intervals - never.skipped_intervals <= 4  # The table has grown in the others.


def writes_blocks(tape: replayer.Tape) -> int:
    """The number of WRITES blocks of a tape."""
    return sum(block.entry.kind == BlockKind.WRITES for block in optional_blocks(tape.segments))


def test_a_write_without_a_mark_is_found(tmp_path: Path) -> None:
    """The value differs at both ends, so the marks are not believed: one warning, and the right tick."""
    path = tmp_path / "run.tape"
    forgets_at = 3 * INTERVAL + 7
    recorded(path, 1, forgets_at, full_every=1)
    with replayer.open(path, lambda: Marking(forgets_at)) as run, pytest.warns(LookupWarning, match="no step marked"):
        assert run.last_write("cells", 39, line=False).tick == forgets_at


def test_a_cut_has_the_blocks_of_its_ticks_and_a_branch_none_that_go_beyond(tmp_path: Path) -> None:
    """They are facts about steps: a copy that continues with others must not have them."""
    path, part = tmp_path / "run.tape", tmp_path / "part.tape"
    recorded(path, 2)
    with pytest.raises(SystemExit) as ended:
        main(["cut", str(path), "--ticks", "60..130", "-o", str(part)])
    assert not ended.value.code
    with replayer.Tape(part) as tape:
        assert writes_blocks(tape) == 3  # To ticks 80, 100 and 120: the one to 140 goes beyond.


def test_a_simulation_without_marks_is_refused(tmp_path: Path) -> None:
    """One line, and no file."""

    class Plain:
        def __init__(self) -> None:
            self.state = State(Schema(Field("steps", "i8")))

        def step(self, inputs: Any) -> None:  # noqa: ARG002 - the signature of a step
            self.state["steps"][...] += 1

    with pytest.raises(ValueError, match=r"does not mark what it writes.*replay index"):
        recorder.Recorder(tmp_path / "run.tape", Plain(), writes=True)
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_tape_goes_on_with_its_blocks(tmp_path: Path) -> None:
    """The option is one of the tape's, and the first block begins after the last tick."""
    path = tmp_path / "run.tape"
    recorded(path, 3)
    with recorder.resume(path, Marking()) as tape:
        for number in range(2 * INTERVAL):
            tape.step({"cells": [[20, number]], "born": False, "dies": False})
    with replayer.open(path, Marking) as run:
        assert writes_blocks(run.tape) == TICKS // INTERVAL + 2
        assert run.last_write("cells", 20, line=False).tick == TICKS + 2 * INTERVAL
        assert run.last_write("cells", 30, line=False).tick is None


def test_what_rests_on_marks_alone_is_not_called_proved(tmp_path: Path) -> None:
    """A write without a mark that goes again leaves equal ends: the answer says what it rests on."""

    class Flickering(Marking):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            tick = int(self.state["steps"])
            if tick == 3:
                self.state.set("cells", 39, 1)
            if tick in (32, 34):
                self.state["cells"][39] = 7 if tick == 32 else 1

    path, nothing = tmp_path / "run.tape", {"cells": [], "born": False, "dies": False}
    with recorder.Recorder(path, Flickering(), keyframe_interval_ticks=10, writes=True, trial_ms=0) as tape:
        for _ in range(50):
            tape.step(nothing)
    with replayer.open(path, world=Flickering) as run:
        found = run.last_write("cells", 39)
        assert (found.tick, found.skipped_by_marks, found.is_proved) == (3, 4, False)
        assert run.last_write("cells", 39, at=8).is_proved
    plain = Flickering()
    values = [0]
    for _ in range(50):
        plain.step(nothing)
        values.append(int(plain.state["cells"][39]))
    assert [tick for tick in range(1, 51) if values[tick] != values[tick - 1]] == [3, 32, 34]  # What marks do not tell.

    line = write_lines(found, 0)[-1]
    assert line.endswith(
        "4 of 5 intervals skipped, 4 of them by the simulation's marks: a write without a mark is not seen there"
    )
