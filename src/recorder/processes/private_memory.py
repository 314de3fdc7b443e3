"""Memory that this process shares with others, and private copies of it at the same addresses. Linux only."""

from __future__ import annotations

import ctypes
import mmap


def shared_mappings() -> list[tuple[int, int, str]]:
    """The memory that this process shares with others and can write to: start, end, path."""
    found = []
    with open("/proc/self/maps", "rb") as file:  # noqa: PTH123 - a Path's open would be slower than the reading
        for line in file:
            span, permissions, _, _, _, *path = line.split(maxsplit=5)
            if permissions[1:2] == b"w" and permissions[3:4] == b"s":
                start, _, end = span.partition(b"-")
                found.append((int(start, 16), int(end, 16), b"".join(path).strip().decode(errors="replace")))
    return found


def make_private(start: int, end: int) -> None:
    """Replace shared memory by a private copy at the same addresses."""
    content = ctypes.string_at(start, end - start)
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    fixed = 0x10  # MAP_FIXED of linux/mman.h, which the module mmap does not have.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | fixed
    mapped = library.mmap(start, end - start, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if mapped != start:
        raise OSError(ctypes.get_errno(), "shared memory cannot be made private")
    ctypes.memmove(start, content, len(content))
