"""Ask the kernel which pages of a memory area were written, by userfaultfd's asynchronous write protection.

All pages are write-protected. The first write to a page costs a fault, in which the kernel lifts its protection and
continues: no process has to handle it. PAGEMAP_SCAN then reports the pages without protection and protects them again.
Available to any user from Linux 6.7 on, unless a filter of system calls forbids it.

Invariants:
    1. Every page that was written since it was last protected is reported; others may be.
    2. A watch ends before its memory does, and leaves the memory as it was before.
    3. A forked child never asks: the watch that it inherits is of its parent's memory.
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
REGIONS_MAX = 4096  # Reported by one call; the call is repeated for more.

# The kernel's interface: linux/userfaultfd.h and linux/fs.h, the same on the processors named here.
_USERFAULTFD_CALLS = {"x86_64": 323, "aarch64": 282, "riscv64": 282, "loongarch64": 282}
_USER_MODE_ONLY = 1  # Without faults inside the kernel, which need privileges.
_API_VERSION = 0xAA
_FEATURE_WP_ASYNC = 1 << 15  # Implies that pages which were never touched are also watched.
_MODE_WP = 1 << 1
_UFFDIO_API, _UFFDIO_REGISTER, _UFFDIO_UNREGISTER = 0xC018AA3F, 0xC020AA00, 0x8010AA01
_PAGEMAP_SCAN = 0xC0606610
_SCAN_PROTECTS, _SCAN_IS_STRICT = 1 << 0, 1 << 1  # Strict: fails if part of the range is not watched.
_PAGE_IS_WRITTEN = 1 << 1
_SCAN_ARGUMENTS = struct.Struct("=12Q")
_WALK_END_INDEX = 4  # Of the argument that receives the end of a scan.


class WriteWatch:
    """Watches the complete pages of a memory area.

    Attributes:
        lead_bytes: from the beginning of the memory to its first complete page.
        page_count: the number of complete pages.
    """

    def __init__(self, memory: Bytes) -> None:
        """Raises OSError if the kernel does not watch this memory, ValueError if it has no complete page."""
        address = memory.ctypes.data
        self.lead_bytes = -address % PAGE_BYTES
        self.page_count = (len(memory) - self.lead_bytes) // PAGE_BYTES
        if self.page_count < 1:
            raise ValueError(f"expected memory with a complete page of {PAGE_BYTES} bytes, got {len(memory)} bytes")
        self._begin, size_bytes = address + self.lead_bytes, self.page_count * PAGE_BYTES
        self._end = self._begin + size_bytes
        self._regions = np.empty((min(REGIONS_MAX, self.page_count // 2 + 1), 3), np.int64)  # Begin, end, kind.
        self._regions_address = self._regions.ctypes.data
        self._owner = os.getpid()
        descriptor = _open_userfaultfd()
        try:
            self._page_map = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(descriptor)
            raise
        # The finalizer refers to the memory, which therefore lives as long as the watch (invariant 2).
        resources = (memory, self._owner, descriptor, self._page_map, self._begin, size_bytes)
        self.close = weakref.finalize(self, _release, *resources)  # Runs only once.
        try:
            _control(descriptor, _UFFDIO_REGISTER, struct.pack("=4Q", self._begin, size_bytes, _MODE_WP, 0))
            self.written()
        except OSError:
            self.close()
            raise

    def written(self, *, protect: bool = True) -> Pages:
        """Return the numbers, ascending, of the pages that were written since they were protected.

        protect: protect them again. Raises OSError if the kernel no longer reports pages, as in a forked child.
        """
        if not self.close.alive or os.getpid() != self._owner:
            raise OSError(errno.EBADF, "the watch is closed, or belongs to a different process")
        address, regions = self._begin, list[npt.NDArray[np.int64]]()
        while address < self._end:
            count, address = self._scan(address, protect=protect)
            regions.append(self._regions[:count, :2] - self._begin)
        bounds = (regions[0] if len(regions) == 1 else np.concatenate(regions)) // PAGE_BYTES
        lengths = bounds[:, 1] - bounds[:, 0]
        before = np.cumsum(lengths) - lengths  # Pages of the regions before each one.
        return np.repeat(bounds[:, 0] - before, lengths) + np.arange(int(lengths.sum()))

    def _scan(self, begin: int, *, protect: bool) -> tuple[int, int]:
        """Scan from the address begin on; return the number of regions that one call reports, and where it ended."""
        flags = _SCAN_IS_STRICT | (_SCAN_PROTECTS if protect else 0)
        vector, kinds = (self._regions_address, len(self._regions)), (0, _PAGE_IS_WRITTEN, 0, _PAGE_IS_WRITTEN)
        request = _SCAN_ARGUMENTS.pack(_SCAN_ARGUMENTS.size, flags, begin, self._end, 0, *vector, 0, *kinds)
        count, answer = _control(self._page_map, _PAGEMAP_SCAN, request)
        end = _SCAN_ARGUMENTS.unpack(answer)[_WALK_END_INDEX]
        if end <= begin:
            raise OSError(errno.EIO, "the scan of pages makes no progress")
        return count, end


def _open_userfaultfd() -> int:
    number = _USERFAULTFD_CALLS.get(platform.machine())
    if sys.platform != "linux" or number is None or struct.calcsize("P") != POINTER_BYTES:
        raise OSError(errno.ENOSYS, "no userfaultfd on this system")
    try:
        import ctypes  # noqa: PLC0415 - only large states need it, and some Pythons lack it
    except ImportError:
        raise OSError(errno.ENOSYS, "this Python has no ctypes") from None
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
    """Make one ioctl; return its result, and its argument afterwards. Raises OSError."""
    import fcntl  # noqa: PLC0415 - missing on Windows

    memory = bytearray(argument)
    return fcntl.ioctl(descriptor, request, memory, True), bytes(memory)


def _release(memory: Bytes, owner: int, descriptor: int, page_map: int, begin: int, size_bytes: int) -> None:  # noqa: ARG001 - see invariant 2
    """End the watch. A forked child only closes its descriptors, and leaves its parent's memory watched."""
    try:
        if os.getpid() == owner:
            _control(descriptor, _UFFDIO_UNREGISTER, struct.pack("=2Q", begin, size_bytes))
    except OSError:
        pass  # It was never registered, or no longer is.
    finally:
        os.close(descriptor)
        os.close(page_map)


@functools.cache
def obstacle() -> str | None:
    """Return the reason why the kernel does not watch memory here; None if it does. Tried once, on a few pages."""
    memory = np.frombuffer(mmap.mmap(-1, 4 * PAGE_BYTES), np.uint8)
    try:
        watch = WriteWatch(memory)
    except OSError as error:
        return f"the kernel does not watch memory here: {error.strerror}"
    try:
        memory[[PAGE_BYTES, 4 * PAGE_BYTES - 1]] = 1
        reported = [watch.written(protect=False).tolist(), watch.written().tolist(), watch.written().tolist()]
    except OSError as error:
        return f"the kernel does not report which pages were written: {error.strerror}"
    finally:
        watch.close()
    if reported != [[1, 3], [1, 3], []]:
        return f"the kernel reports the wrong pages as written: {reported}"
    return None


@functools.cache
def is_filtered() -> bool:
    """Return True if a filter of system calls is active: some filters kill a process that makes an unknown call."""
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
    except OSError:
        return True  # Not Linux, or a system that hides /proc.
    return "\nSeccomp:\t2" in status
