"""The power fails at any system call of a real recording: what was acknowledged is there, and nothing false is read.

tools/campaigns/disk_cuts.py runs the same checks for any time.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from recorder.storage.tape_files import TapeFile

from disk.cut_programs import RECORDINGS, SMALL
from disk.cut_promises import Cuts
from disk.file_calls import Call, Calls
from disk.folder_cuts import FOLDERS
from disk.power_model import Disk
from disk.traced import compare

ALL = 10_000  # More states than there are after any call of a small recording.
CALLS = 40  # At which the power is cut, where it is not all of them.
FURTHER = 0.04  # The share of states that are also resumed or repaired, which takes ten times as long.


def cuts_in(folder: Path, states_max: int, calls_max: int | None = None) -> tuple[Cuts, int]:
    """Power cuts, and the seed that decides about them."""
    seed = random.randrange(1 << 32)
    return Cuts(folder, states_max, random.Random(seed), FURTHER, calls_max), seed


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SMALL)
def test_every_state_after_every_call(tmp_path: Path, name: str) -> None:
    """All states that a power cut may leave of a small recording."""
    cuts, seed = cuts_in(tmp_path, ALL)
    broken = next(cuts.recording(SMALL[name]), None)
    assert broken is None, f"{broken} (seed {seed})"
    assert cuts.whole_calls == cuts.calls > 10


@pytest.mark.seldom(0.1)
def test_every_state_is_resumed_or_repaired(tmp_path: Path) -> None:
    """All states of a small recording, each of them gone on from as well."""
    seed = random.randrange(1 << 32)
    cuts = Cuts(tmp_path, ALL, random.Random(seed), further=1)
    broken = next(cuts.recording(SMALL["small"]), None)
    assert broken is None, f"{broken} (seed {seed})"
    assert cuts.resumed == cuts.different


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", RECORDINGS)
def test_states_by_chance(tmp_path: Path, name: str) -> None:
    """Two states after some calls of a recording of each kind."""
    cuts, seed = cuts_in(tmp_path, 2, CALLS)
    broken = next(cuts.recording(RECORDINGS[name]), None)
    assert broken is None, f"{broken} (seed {seed})"
    assert cuts.different > 10


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["kill", "cut"])
@pytest.mark.parametrize("name", ["journal", "split", "each block", "deterministic"])
def test_a_resumed_session(tmp_path: Path, name: str, how: str) -> None:
    """After a kill, or a power cut, with other inputs: no tick of the run before comes back after them."""
    cuts, seed = cuts_in(tmp_path, 2, CALLS)
    broken = next(cuts.resuming(RECORDINGS[name], cuts.numbers.randint(10, 80), how), None)
    assert broken is None, f"{broken} (seed {seed})"


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.seldom(0.18)
def test_folders(tmp_path: Path, name: str) -> None:
    """Batches with their manifests, data sets, repairs: whole or not there, and they go on from there."""
    cuts, seed = cuts_in(tmp_path, 3, CALLS)  # A repair has 16 calls: with one state of each, a seed may find 5 only.
    broken = next(FOLDERS[name](cuts), None)
    assert broken is None, f"{broken} (seed {seed})"
    assert cuts.different > 5


@pytest.mark.seldom(0.1)
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not there")
@pytest.mark.parametrize("name", ["split", "removed from outside", "batch", "extraction"])
def test_strace_sees_no_further_call(tmp_path: Path, name: str) -> None:
    """What the model gets is what the program does."""
    assert compare(name, tmp_path) > 10


def test_syncs_that_do_nothing_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine can find something."""
    monkeypatch.setattr(TapeFile, "fdatasync", lambda _: None)
    assert next(Cuts(tmp_path, 3, random.Random(1), 0).recording(SMALL["small"])).what.endswith("tick 3 was durable")


def test_the_model_by_hand() -> None:
    """A file of 4,100 bytes written under a temporary name, then renamed: all that may be left, counted out."""
    disk = Disk({"a": b"old"})
    for call in [
        Call("create", 5, 0, "a.new"),
        Call("write", 5, offset=0, data=b"n" * 4100),
        Call("rename", 5, 0, "a", 0, "a.new"),
    ]:
        disk.apply(call)
    states = [state.files for state in disk.states(1000, random.Random(1))]
    zeros, page = bytes(4096), b"n" * 4096
    new = {b"", zeros, page, *(first + rest for first in (zeros, page) for rest in (bytes(4), b"nnnn"))}
    assert {frozenset(files.items()) for files in states} == {
        frozenset({("a", b"old")}),
        *(frozenset({("a", b"old"), ("a.new", content)}) for content in new),
        *(frozenset({("a", content)}) for content in new),
    }

    disk.apply(Call("sync", 5))
    assert {state.files["a"] for state in disk.states(1000, random.Random(1))} == {b"old", b"n" * 4100}
    disk.apply(Call("sync_folder", 0))
    assert [state.files for state in disk.states(1000, random.Random(1))] == [{"a": b"n" * 4100}]


def test_calls_of_other_code_are_recorded(tmp_path: Path) -> None:
    """A plain open() is found by looking; a name that goes unseen is an error."""
    (tmp_path / "there").write_bytes(b"1")
    unlink = os.unlink
    calls = Calls(tmp_path)
    with calls.recording():
        (tmp_path / "made").write_bytes(b"12")
        (tmp_path / "made").rename(tmp_path / "named")
    assert [(call.kind, call.name, call.data) for call in calls.calls] == [
        ("create", "made", b""),
        ("write", "", b"12"),
        ("rename", "named", b""),
    ]
    calls = Calls(tmp_path)
    with pytest.raises(AssertionError, match="went by a call that was not recorded"), calls.recording():
        unlink(tmp_path / "there")
