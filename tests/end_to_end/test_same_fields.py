"""Resume and replay give one answer to one question: does this simulation have the fields of the tape?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging import staged

import recorder
import replayer
from recorder import Recorder
from recorder.scenarios import resume_checkpoint
from recorder.scenarios.checkpoints import write_checkpoint
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.timeline.verify import verify_tape
from sim import Blob, Field, Schema, State, Table


class Fields:
    """A simulation of given entries; its step counts."""

    def __init__(self, *entries: Any) -> None:
        self.state = State(Schema(Field("tick", "i8"), *entries))

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - there are none
        self.state["tick"][...] += 1


class Growing(Fields):
    """One whose table and blob have outgrown their first room by tick 3."""

    def __init__(self, *, room: int = 2) -> None:
        super().__init__(Table("t", Field("x", "i8"), capacity=room), Blob("b", capacity=room))

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        self.state.add_rows("t", 9)
        self.state.set_blob("b", bytes(range(int(self.state["tick"]) * 9)))


class Trail:
    """Saves an array that grows, and from tick 2 on a field more."""

    def __init__(self) -> None:
        self.trail = np.zeros(1)

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - there are none
        self.trail = np.append(self.trail, 1.0)

    def save(self) -> dict[str, Any]:
        more = {"late": np.int64(1)} if len(self.trail) > 2 else {}
        return {"trail": self.trail, **more}

    def load(self, saved: dict[str, Any]) -> None:
        self.trail = saved["trail"].copy()


class OtherTrail(Trail):
    """Saves under another name."""

    def save(self) -> dict[str, Any]:
        return {"path": self.trail}


def by_resume(path: Path, make: Callable[[], Any]) -> None:
    """Resume the tape with another instance."""
    recorder.resume(path, make()).close()


def by_seek(path: Path, make: Callable[[], Any]) -> None:
    """Replay to a tick between keyframes."""
    with replayer.open(path, world=make) as timeline:
        timeline.seek(2)


def by_verify(path: Path, make: Callable[[], Any]) -> None:
    """Verify the tape."""
    assert verify_tape(path, make).ok


WAYS = [by_resume, by_seek, by_verify]

REFUSED = {
    "6 rows for 5": (Field("x", "i8", (5,)), Field("x", "i8", (6,)), "x: expected shape (5,), got shape (6,)"),
    "other shape of one size": (
        Field("x", "i8", (2, 3)),
        Field("x", "i8", (3, 2)),
        "x: expected shape (2, 3), got shape (3, 2)",
    ),
    "number for array of one": (Field("x", "i8"), Field("x", "i8", (1,)), "x: expected shape (), got shape (1,)"),
    "other dtype": (Field("x", "i8", (5,)), Field("x", "f8", (5,)), "x: expected int64, got float64"),
    "other rows": (
        Field("x", "i8", (5, 2), row_axes=1),
        Field("x", "i8", (5, 2)),
        "x: expected rows of (2,), got rows of ()",
    ),
    "other name": (
        Field("x", "i8"),
        Field("y", "i8"),
        "x: expected by the tape, missing in the simulation; y: not on the tape",
    ),
    "column of other shape": (
        Table("t", Field("x", "i8", (2,))),
        Table("t", Field("x", "i8", (3,))),
        "t.x: expected rows of shape (2,), got rows of shape (3,)",
    ),
    "column more": (
        Table("t", Field("x", "i8")),
        Table("t", Field("x", "i8"), Field("y", "i8")),
        "t.y: not on the tape",
    ),
    "column less": (
        Table("t", Field("x", "i8"), Field("y", "i8")),
        Table("t", Field("x", "i8")),
        "t.y: expected by the tape, missing in the simulation",
    ),
    "blob for a field": (Field("x", "u1", (256,)), Blob("x"), "x: expected a field, got a blob"),
    "column of another table": (
        Table("t.a", Field("x", "i8")),
        Table("t", Field("a.x", "i8")),
        "t.a.x: expected a column of table t.a, got a column of table t",
    ),
}

ACCEPTED = {
    "same": ([Field("x", "i8", (5,))], [Field("x", "i8", (5,))]),
    "other order": ([Field("x", "i8"), Field("y", "f8", (3,))], [Field("y", "f8", (3,)), Field("x", "i8")]),
    "other hot fields": ([Field("x", "i8"), Field("y", "i8")], [Field("x", "i8"), Field("y", "i8", hot=True)]),
    "other room": (
        [Table("t", Field("x", "i8"), capacity=4), Blob("b", capacity=8)],
        [Table("t", Field("x", "i8"), capacity=64), Blob("b", capacity=2)],
    ),
}


def record(path: Path, simulation: Any) -> None:
    """Three ticks, each with a keyframe: what the last one holds has grown."""
    with Recorder(path, simulation, keyframe_interval_ticks=1) as tape:
        for _ in range(3):
            tape.step(None)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.share(0.22)
def test_different_fields_are_refused_by_name(tmp_path: Path, way: Any, case: str) -> None:
    """In the same words everywhere: what was expected, what was found, what to do."""
    recorded, present, text = REFUSED[case]
    path = tmp_path / "run.tape"
    record(path, Fields(recorded))
    before = path.read_bytes()

    with pytest.raises((TypeError, UnfitSimulationError)) as caught:
        way(path, lambda: Fields(present))

    start = "the simulation has different fields than the tape: "
    assert str(caught.value).startswith(start + text)
    assert str(caught.value).endswith(
        "; make the simulation as it was made for the recording: the same version, the same sizes"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ACCEPTED)
@pytest.mark.share(0.22)
def test_what_a_step_cannot_see_may_differ(tmp_path: Path, way: Any, case: str) -> None:
    """Order, hot fields and room come from the tape."""
    recorded, present = ACCEPTED[case]
    record(tmp_path / "run.tape", Fields(*recorded))

    way(tmp_path / "run.tape", lambda: Fields(*present))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [Growing, lambda: Growing(room=128), Trail])
def test_what_has_grown_is_accepted(tmp_path: Path, way: Any, make: Any) -> None:
    """A fresh simulation has less room than the last keyframe, and what it saves may be of any shape."""
    first = make if make is Trail else Growing
    record(tmp_path / "run.tape", first())

    way(tmp_path / "run.tape", make)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_saved_inside_a_scenario_may_grow_too(tmp_path: Path, way: Any) -> None:
    """The scenario's own state lies next to it and decides nothing."""
    record(tmp_path / "run.tape", staged({"roles": ["a"]}, Trail()))

    way(tmp_path / "run.tape", lambda: staged({"roles": ["a"]}, Trail()))


@pytest.mark.parametrize("way", WAYS)
def test_another_programs_saves_are_refused(tmp_path: Path, way: Any) -> None:
    """If each side has a field that the other lacks, that is not a field that came or went."""
    record(tmp_path / "run.tape", Trail())

    with pytest.raises((TypeError, UnfitSimulationError), match="path: not on the tape"):
        way(tmp_path / "run.tape", OtherTrail)


def test_many_differences_are_counted(tmp_path: Path) -> None:
    """The message stays one line that can be read."""
    record(tmp_path / "run.tape", Fields(*(Field(f"f{number}", "i8") for number in range(9))))

    with pytest.raises(TypeError, match=r"f3: expected by the tape, missing in the simulation; 5 more; make"):
        by_resume(tmp_path / "run.tape", Fields)


def test_a_checkpoint_asks_the_same(tmp_path: Path) -> None:
    """As ValueError, which is what a checkpoint of something else raises."""
    written = write_checkpoint(tmp_path, staged({"roles": ["a"]}, Fields(Field("x", "i8", (5,)))), 0)

    with pytest.raises(ValueError, match=r"x: expected shape \(5,\), got shape \(6,\)"):
        resume_checkpoint(written, staged({"roles": ["a"]}, Fields(Field("x", "i8", (6,)))))
