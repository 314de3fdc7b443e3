"""The pages that the kernel reports are those that were written; nothing is left behind; failures are detected."""

from __future__ import annotations

import errno
import gc
import os
import re
import subprocess
import sys
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.session.change_source import find_source
from recorder.session.pages import userfaultfd as write_watch
from recorder.session.pages.page_watch import PageReader
from recorder.session.pages.userfaultfd import PAGE_BYTES, WriteWatch, is_filtered, obstacle

from oracle.watched_memory import open_descriptors, watched_bytes
from small_worlds import Herd

needs_kernel = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
PLACES = st.tuples(st.integers(0, 12), st.sampled_from([0, 1, 7, 8, -1, -8, 2048]), st.integers(1, 3 * PAGE_BYTES))


def make_memory(page_count: int, shift: int = 64) -> np.ndarray[Any, Any]:
    """Make zeroed memory that begins shift bytes after a page's first, with this many complete pages and a bit."""
    memory = np.zeros((page_count + 4) * PAGE_BYTES, np.uint8)
    start = -memory.ctypes.data % PAGE_BYTES + shift
    return memory[start : start + page_count * PAGE_BYTES + (PAGE_BYTES - shift if shift else 0) + 128]


def pages_of(watch: WriteWatch, written: list[tuple[int, int]]) -> list[int]:
    """The oracle: return the complete pages that ranges of bytes, begin and end, touch."""
    found = set()
    for begin, end in written:
        for place in range(begin, end):
            number = (place - watch.lead_bytes) // PAGE_BYTES
            if place >= watch.lead_bytes and number < watch.page_count:
                found.add(number)
    return sorted(found)


def in_child(act: Any) -> int:
    """Return the exit status of a forked child that calls act and does not clean up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os._exit(act())
        except BaseException:  # noqa: BLE001 - the parent sees that it was something else
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_kernel_with_it_is_detected() -> None:
    """A kernel with userfaultfd is detected: a mistake of ours must not skip all of these tests."""
    version = (
        tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) if sys.platform == "linux" else (0, 0)
    )
    if version < (6, 7) or os.uname().machine != "x86_64" or not Path("/dev/userfaultfd").exists() or is_filtered():
        pytest.skip("userfaultfd with PAGEMAP_SCAN is Linux 6.7 and later")
    assert obstacle() is None


@needs_kernel
@settings(deadline=None, max_examples=60)
@given(
    page_count=st.integers(1, 12),
    shift=st.sampled_from([0, 64, 2048, 4032]),
    touched=st.booleans(),
    rounds=st.lists(st.tuples(st.lists(PLACES, max_size=4), st.booleans()), max_size=5),
)
def test_exactly_the_written_pages_are_reported(
    page_count: int, shift: int, rounds: list[tuple[list[tuple[int, int, int]], bool]], *, touched: bool
) -> None:
    """Writes at page borders, across pages and in untouched memory are reported until protected again."""
    memory = make_memory(page_count, shift)
    if touched:
        memory[:] = 1
    watch = WriteWatch(memory)
    assert watch.lead_bytes == -memory.ctypes.data % PAGE_BYTES
    pending: list[tuple[int, int]] = []
    for places, protect in rounds:
        for page, beside, length in places:
            begin = (watch.lead_bytes + page * PAGE_BYTES + beside) % len(memory)
            end = min(begin + length, len(memory))
            memory[begin:end] += 1
            pending.append((begin, end))
        assert watch.written(protect=protect).tolist() == pages_of(watch, pending)
        if protect:
            pending = []
    watch.close()


@needs_kernel
def test_an_equal_value_is_a_write_and_reading_is_none() -> None:
    """The kernel does not compare values."""
    memory = make_memory(8)
    memory[:] = 1
    watch = WriteWatch(memory)
    assert memory.sum() == len(memory)
    assert watch.written().tolist() == []
    memory[watch.lead_bytes + 3 * PAGE_BYTES] = 1
    assert watch.written().tolist() == [3]
    watch.close()


@needs_kernel
def test_writes_of_the_kernel_and_of_threads(tmp_path: Path) -> None:
    """Data that a system call reads into memory counts as written, and so do writes of other threads."""
    memory = make_memory(8)
    watch = WriteWatch(memory)
    (tmp_path / "content").write_bytes(b"x" * 100)
    with (tmp_path / "content").open("rb", buffering=0) as file:
        begin = watch.lead_bytes + 3 * PAGE_BYTES - 50
        assert file.readinto(memory[begin : begin + 100]) == 100
    assert watch.written().tolist() == [2, 3]

    def write() -> None:
        memory[watch.lead_bytes + 5 * PAGE_BYTES] = 7

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert watch.written().tolist() == [5]
    watch.close()


@needs_kernel
def test_large_memory_of_huge_pages() -> None:
    """In 16 MB, which the system may hold in pages of 2 MB, single pages are reported, round after round."""
    memory = np.ones(16 << 20, np.uint8)
    watch = WriteWatch(memory)
    random = np.random.default_rng(1)
    for count in (1, 50, 1000, 3):
        pages = np.unique(random.integers(0, watch.page_count, count))
        memory[watch.lead_bytes + pages * PAGE_BYTES + random.integers(0, PAGE_BYTES)] += 1
        assert watch.written().tolist() == pages.tolist()
    watch.close()


@needs_kernel
def test_more_regions_than_one_call_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is repeated until all regions are read."""
    monkeypatch.setattr(write_watch, "REGIONS_MAX", 2)
    memory = make_memory(40)
    watch = WriteWatch(memory)
    odd = np.arange(1, 40, 2)
    memory[watch.lead_bytes + odd * PAGE_BYTES] = 1
    assert watch.written(protect=False).tolist() == odd.tolist()
    assert watch.written().tolist() == odd.tolist()
    assert watch.written().tolist() == []
    watch.close()


@needs_kernel
@pytest.mark.seldom(0.18)
def test_nothing_is_left_behind() -> None:
    """No descriptor, watched memory or memory leak remains: after close, a second close, or garbage collection."""
    gc.collect()
    before, descriptors = watched_bytes(), open_descriptors()
    for number in range(1000):
        memory = make_memory(3)
        watch = WriteWatch(memory)
        if number % 2:
            watch.close()
            watch.close()
    freed = weakref.ref(memory)
    assert watched_bytes() == before
    del memory, watch
    assert freed() is None
    memory = make_memory(3)
    watch = WriteWatch(memory)
    assert watched_bytes() == before + 3 * PAGE_BYTES
    del watch
    assert (watched_bytes(), open_descriptors()) == (before, descriptors)
    memory[:] = 1
    WriteWatch(memory).close()  # The memory can be watched again.


@needs_kernel
def test_memory_lives_as_long_as_it_is_watched() -> None:
    """Otherwise other memory at the same address would be watched."""
    memory = make_memory(3)
    watch, freed = WriteWatch(memory), weakref.ref(memory)
    del memory
    gc.collect()
    assert freed() is not None
    watch.close()
    assert freed() is None


@needs_kernel
def test_what_cannot_be_watched() -> None:
    """Memory without a complete page, memory that is already watched, a closed watch."""
    with pytest.raises(ValueError, match="expected memory with a complete page of"):
        WriteWatch(np.zeros(PAGE_BYTES // 2, np.uint8))
    memory = make_memory(3)
    descriptors = open_descriptors()
    watch = WriteWatch(memory)
    with pytest.raises(OSError, match="busy"):
        WriteWatch(memory)
    watch.close()
    with pytest.raises(OSError, match="closed"):
        watch.written()
    assert open_descriptors() == descriptors


@needs_kernel
def test_a_forked_child_does_its_parent_no_harm() -> None:
    """The child is refused; it may write, close and exit: the parent's reports hold only the parent's writes."""
    memory = make_memory(8)
    watch = WriteWatch(memory)
    memory[watch.lead_bytes + 2 * PAGE_BYTES] = 1

    def act() -> int:
        memory[:] = 3
        with pytest.raises(OSError, match="belongs to a different process"):
            watch.written()
        watch.close()
        fresh = WriteWatch(memory)  # The child's own copy of the memory.
        memory[fresh.lead_bytes + PAGE_BYTES] = 1
        return 0 if fresh.written().tolist() == [1] else 1

    assert in_child(act) == 0
    memory[watch.lead_bytes + 4 * PAGE_BYTES] = 1
    assert watch.written().tolist() == [2, 4]
    assert memory[0] == 0
    watch.close()


@needs_kernel
def test_a_child_that_lives_on_does_not_keep_the_watch() -> None:
    """The child has the descriptors, too; the parent's close still ends the watch."""
    before, memory = watched_bytes(), make_memory(8)
    watch = WriteWatch(memory)
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(theirs)
        os.read(ours, 1)  # Until the parent is done.
        os._exit(0)
    watch.close()
    assert watched_bytes() == before
    WriteWatch(memory).close()
    os.close(theirs)
    os.close(ours)
    os.waitpid(child, 0)


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize(
    ("name", "number", "why"),
    [
        ("_open_userfaultfd", errno.ENOSYS, "Function not implemented"),
        ("_open_userfaultfd", errno.EPERM, "Operation not permitted"),
        ("_control", errno.EINVAL, "Invalid argument"),
        ("_control", errno.ENOTTY, "Inappropriate ioctl"),
        ("written", errno.EPERM, "does not report"),
    ],
)
def test_a_kernel_without_it_is_detected(monkeypatch: pytest.MonkeyPatch, name: str, number: int, why: str) -> None:
    """Each call may fail: a reason is given, no descriptor stays open, no state is watched, "pages" is refused."""

    def fail(*_: Any, **keywords: Any) -> Any:
        if name == "written" and keywords.get("protect", True):  # Not the first one, by which a watch begins.
            return np.zeros(0, np.int64)
        raise OSError(number, os.strerror(number))

    descriptors = open_descriptors()
    monkeypatch.setattr(WriteWatch if name == "written" else write_watch, name, fail)
    found = obstacle.__wrapped__()
    assert found is not None
    if sys.platform == "linux" and obstacle() is None:
        assert why in found
        assert open_descriptors() == descriptors
    monkeypatch.setattr("recorder.session.pages.page_watch.obstacle", lambda: found)
    monkeypatch.setattr(write_watch, "obstacle", lambda: found)
    assert PageReader.open(make_memory(8)) is None
    with pytest.raises(ValueError, match=r'changes="pages": the kernel does not .*; use "scan"'):
        find_source(Herd(), "pages")


def test_a_kernel_that_reports_wrong_pages_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial compares the reported pages with those that were written."""
    if obstacle() is not None:
        pytest.skip(str(obstacle()))
    monkeypatch.setattr(WriteWatch, "written", lambda _, protect=True: np.array([1, 2] if protect else []))
    assert "reports the wrong pages as written" in str(obstacle.__wrapped__())


FILTERED = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
# Load the call's number; userfaultfd is answered with EPERM, all other calls are let through.
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, {call}), (0x06, 0, 0, 0x00050000 | 1), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0
from recorder.session.pages.userfaultfd import is_filtered, obstacle
from recorder.session.change_source import find_source
from sim.kernel.changes.row_changes import ScannedChanges
class Unmarked: pass
assert is_filtered()
assert find_source(Unmarked(), "auto").whole is ScannedChanges
print(obstacle())
"""


@needs_kernel
def test_under_a_filter_of_system_calls(tmp_path: Path) -> None:
    """Nothing is tried automatically, as filters may kill the caller; "pages" fails with "not permitted"."""
    import platform

    call = write_watch._USERFAULTFD_CALLS[platform.machine()]
    script = tmp_path / "filtered.py"
    script.write_text(FILTERED.format(call=call))
    finished = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert finished.stdout == "the kernel does not watch memory here: userfaultfd: Operation not permitted\n", finished


def test_whether_there_is_a_filter_is_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """If /proc cannot be read, a filter is assumed."""
    is_filtered.cache_clear()
    if Path("/proc/self/status").exists():
        assert is_filtered() == ("Seccomp:\t2" in Path("/proc/self/status").read_text())
    monkeypatch.setattr(write_watch.Path, "read_text", lambda *_: (_ for _ in ()).throw(FileNotFoundError()))
    is_filtered.cache_clear()
    assert is_filtered()
    is_filtered.cache_clear()
