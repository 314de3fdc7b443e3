"""Let the kernel tell which pages of some memory were written: userfaultfd's asynchronous write protection.

All pages are write-protected. The first write to one costs a fault, in which the kernel lifts that page's protection and
goes on: nobody has to answer. PAGEMAP_SCAN then tells the pages without protection, and protects them again as it does
so. It is there from Linux 6.7 on, for any user, where no filter of system calls forbids it.

Invariants:
    1. A page that has been written since it was last protected is among those that are told; others may be.
    2. Memory is watched no longer than it lives, and as it was before once it is not.
    3. A forked child never asks: what it inherits watches its parent's memory.
"""

from __future__ import annotations

import errno
import functools
import mmap
import os
import platform
import struct
import sys
import weakref
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Pages = npt.NDArray[np.int64]

PAGE_BYTES = mmap.PAGESIZE
POINTER_BYTES = 8
REGIONS_MAX = 4096  # That one call tells; there are as many calls as it takes.

# The kernel's interface: linux/userfaultfd.h and linux/fs.h, the same on the processors named here.
_USERFAULTFD_CALLS = {"x86_64": 323, "aarch64": 282, "riscv64": 282, "loongarch64": 282}
_USER_MODE_ONLY = 1  # No faults of the kernel's own are to be handled: what any user may ask for.
_API_VERSION = 0xAA
_FEATURE_WP_ASYNC = 1 << 15  # Implies that pages which were never touched are watched, too.
_MODE_WP = 1 << 1
_UFFDIO_API, _UFFDIO_REGISTER, _UFFDIO_UNREGISTER = 0xC018AA3F, 0xC020AA00, 0x8010AA01
_PAGEMAP_SCAN = 0xC0606610
_SCAN_PROTECTS, _SCAN_IS_STRICT = 1 << 0, 1 << 1  # Strict: fails where something is not watched.
_PAGE_IS_WRITTEN = 1 << 1
_SCAN_ARGUMENTS = struct.Struct("=12Q")
_WALK_END_PLACE = 4  # Of the arguments, where a scan has come to.


class WriteWatch:
    """Watches the whole pages of some memory.

    Attributes:
        lead_bytes: from the memory's beginning to its first whole page.
        page_count: how many whole pages there are.
    """

    def __init__(self, memory: Bytes) -> None:
        """Raises OSError if the kernel does not watch this memory, ValueError if it has no whole page."""
        address = memory.ctypes.data
        self.lead_bytes = -address % PAGE_BYTES
        self.page_count = (len(memory) - self.lead_bytes) // PAGE_BYTES
        if self.page_count < 1:
            raise ValueError(f"{len(memory)} bytes without a whole page of {PAGE_BYTES}")
        self._begin, size_bytes = address + self.lead_bytes, self.page_count * PAGE_BYTES
        self._end = self._begin + size_bytes
        self._regions = np.empty((min(REGIONS_MAX, self.page_count // 2 + 1), 3), np.int64)  # Begin, end, kind.
        self._told_at = self._regions.ctypes.data
        self._owner = os.getpid()
        descriptor = _open_userfaultfd()
        try:
            self._page_map = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(descriptor)
            raise
        # The memory is among what is released, so that it lives until then (invariant 2).
        given = (memory, self._owner, descriptor, self._page_map, self._begin, size_bytes)
        self.close = weakref.finalize(self, _release, *given)  # Once, whoever calls it.
        try:
            _control(descriptor, _UFFDIO_REGISTER, struct.pack("=4Q", self._begin, size_bytes, _MODE_WP, 0))
            self.written()
        except OSError:
            self.close()
            raise

    def written(self, *, protect: bool = True) -> Pages:
        """The numbers, ascending, of the pages that were written since they were protected.

        protect: them again. Raises OSError if the kernel no longer tells, as in a forked child.
        """
        if not self.close.alive or os.getpid() != self._owner:
            raise OSError(errno.EBADF, "the watch is closed, or another process's")
        place, told = self._begin, list[npt.NDArray[np.int64]]()
        while place < self._end:
            count, place = self._scan(place, protect=protect)
            told.append(self._regions[:count, :2] - self._begin)
        bounds = (told[0] if len(told) == 1 else np.concatenate(told)) // PAGE_BYTES
        lengths = bounds[:, 1] - bounds[:, 0]
        before = np.cumsum(lengths) - lengths  # Pages of the regions before each one.
        return np.repeat(bounds[:, 0] - before, lengths) + np.arange(int(lengths.sum()))

    def _scan(self, place: int, *, protect: bool) -> tuple[int, int]:
        """How many regions one call tells from place on, and where it has come to."""
        flags = _SCAN_IS_STRICT | (_SCAN_PROTECTS if protect else 0)
        vector, kinds = (self._told_at, len(self._regions)), (0, _PAGE_IS_WRITTEN, 0, _PAGE_IS_WRITTEN)
        asked = _SCAN_ARGUMENTS.pack(_SCAN_ARGUMENTS.size, flags, place, self._end, 0, *vector, 0, *kinds)
        count, answer = _control(self._page_map, _PAGEMAP_SCAN, asked)
        reached = _SCAN_ARGUMENTS.unpack(answer)[_WALK_END_PLACE]
        if reached <= place:
            raise OSError(errno.EIO, "a scan of pages that does not come on")
        return count, reached


def _open_userfaultfd() -> int:
    number = _USERFAULTFD_CALLS.get(platform.machine())
    if sys.platform != "linux" or number is None or struct.calcsize("P") != POINTER_BYTES:
        raise OSError(errno.ENOSYS, "no userfaultfd on this system")
    try:
        import ctypes  # noqa: PLC0415 - only large states pay for it, and some Pythons are without it
    except ImportError:
        raise OSError(errno.ENOSYS, "no system calls from this Python") from None
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.syscall(ctypes.c_long(number), ctypes.c_int(os.O_CLOEXEC | os.O_NONBLOCK | _USER_MODE_ONLY))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), f"userfaultfd: {os.strerror(ctypes.get_errno())}")
    try:
        _control(descriptor, _UFFDIO_API, struct.pack("=3Q", _API_VERSION, _FEATURE_WP_ASYNC, 0))
    except OSError:
        os.close(descriptor)
        raise
    return int(descriptor)


def _control(descriptor: int, request: int, argument: bytes) -> tuple[int, bytes]:
    """One ioctl: what it returns, and its argument afterwards. Raises OSError."""
    import fcntl  # noqa: PLC0415 - there is none on Windows

    memory = bytearray(argument)
    return fcntl.ioctl(descriptor, request, memory, True), bytes(memory)


def _release(memory: Bytes, owner: int, descriptor: int, page_map: int, begin: int, size_bytes: int) -> None:  # noqa: ARG001 - see invariant 2
    """Watch no more. A child closes what it has of it, and leaves its parent's memory as it is."""
    try:
        if os.getpid() == owner:
            _control(descriptor, _UFFDIO_UNREGISTER, struct.pack("=2Q", begin, size_bytes))
    except OSError:
        pass  # It was not registered, or is not any more.
    finally:
        os.close(descriptor)
        os.close(page_map)


@functools.cache
def obstacle() -> str | None:
    """Why the kernel does not watch memory here; None if it does, which is tried out on a few pages, once."""
    memory = np.frombuffer(mmap.mmap(-1, 4 * PAGE_BYTES), np.uint8)
    try:
        watch = WriteWatch(memory)
    except OSError as error:
        return f"the kernel does not watch memory here: {error.strerror}"
    try:
        memory[[PAGE_BYTES, 4 * PAGE_BYTES - 1]] = 1
        told = [watch.written(protect=False).tolist(), watch.written().tolist(), watch.written().tolist()]
    except OSError as error:
        return f"the kernel does not tell which pages were written: {error.strerror}"
    finally:
        watch.close()
    if told != [[1, 3], [1, 3], []]:
        return f"the kernel tells of other pages than those that were written: {told}"
    return None


@functools.cache
def is_filtered() -> bool:
    """Whether a filter of system calls is on: some filters end the process that makes a call they do not know."""
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
    except OSError:
        return True  # Not Linux, or one that hides more than this.
    return "\nSeccomp:\t2" in status
