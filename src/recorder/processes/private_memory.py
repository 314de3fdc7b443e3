"""Memory that this process shares with others, and the same content in memory of a copy of the process. Linux only.

A forked copy of a process has memory of its own, except for what is mapped as shared. What one copy does there would
change what the next one reads, and this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import multiprocessing
import os
import weakref

import attrs
import numpy as np

OWN_WORKER = "worker of a pool of ours"  # The name of such a process.
_FIXED = 0x10  # MAP_FIXED of linux/mman.h, which the module mmap does not have.
_ours: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
_of_objects: set[int] = set()  # The addresses that the process had found of which this one is a copy.


@attrs.frozen
class _Mapping:
    """Shared memory from start up to end, at an offset of a file, which another mapping may have, too."""

    start: int
    end: int
    offset: int
    file: tuple[int, int]
    path: str

    @property
    def is_named(self) -> bool:
        """True if others can be made by its name: a file, or a block of multiprocessing.shared_memory."""
        is_without = self.path.endswith(" (deleted)") or self.path.startswith("/memfd:")
        return self.path.startswith("/") and not is_without

    @property
    def is_of_device(self) -> bool:
        return self.path.startswith("/dev/") and not self.path.startswith(("/dev/shm/", "/dev/zero"))  # noqa: S108

    def content(self) -> bytes:
        return ctypes.string_at(self.start, self.end - self.start)

    def has(self, addresses: set[int]) -> bool:
        return any(self.start <= one < self.end for one in addresses)


def shared_mappings() -> list[tuple[int, int, str]]:
    """The memory that this process shares with others and can write to: start, end, path."""
    return [(one.start, one.end, one.path) for one in _mappings()]


def _mappings() -> list[_Mapping]:
    found = []
    with open("/proc/self/maps", "rb") as file:  # noqa: PTH123 - a Path's open would be slower than the reading
        for line in file:
            span, permissions, offset, device, inode, *path = line.split(maxsplit=5)
            if permissions[1:2] == b"w" and permissions[3:4] == b"s":
                start, _, end = span.partition(b"-")
                major, _, minor = device.partition(b":")
                of_file = os.makedev(int(major, 16), int(minor, 16)), int(inode)
                text = b"".join(path).strip().decode(errors="replace")
                found.append(_Mapping(int(start, 16), int(end, 16), int(offset, 16), of_file, text))
    return found


def make_private(start: int, end: int) -> None:
    """Replace shared memory by a private copy at the same addresses."""
    content = ctypes.string_at(start, end - start)
    _map(start, end, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    ctypes.memmove(start, content, len(content))


def _map(start: int, end: int, flags: int, file: int, offset: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    mapped = library.mmap(start, end - start, mmap.PROT_READ | mmap.PROT_WRITE, flags | _FIXED, file, offset)
    if mapped != start:
        raise OSError(ctypes.get_errno(), "shared memory cannot be made private")


def keep_shared(memory: mmap.mmap) -> None:
    """Note memory of ours, such as the journal of a tape: its content is never put back."""
    _ours.add(memory)


@attrs.frozen
class SharedContent:
    """The content of shared memory at one time.

    own: what each copy of this process can have for itself. common: what other processes have, or find by its name: one
    copy at a time may write to it, and it is put back.
    """

    own: list[tuple[_Mapping, bytes]] = attrs.field(factory=list)
    common: list[tuple[_Mapping, bytes]] = attrs.field(factory=list)

    def begin_copy(self, still_shared: int) -> None:
        """In a copy of the process: have this content, except for memory at an address that stays shared."""
        files: dict[tuple[int, int], int] = {}
        for mapping, content in self.own:
            if mapping.has({still_shared}):
                continue
            # It is shared again, with what the copy itself starts, and among mappings of one file.
            if mapping.file not in files:
                files[mapping.file] = os.memfd_create("own")
            file = files[mapping.file]
            os.truncate(file, max(os.fstat(file).st_size, mapping.offset + len(content)))
            _map(mapping.start, mapping.end, mmap.MAP_SHARED, file, mapping.offset)
            ctypes.memmove(mapping.start, content, len(content))
        if files:
            _open_instead(files)
        self.put_back()

    def put_back(self) -> None:
        """Give what stays shared the content that it had."""
        for mapping, content in self.common:
            if mapping.content() != content:
                ctypes.memmove(mapping.start, content, len(content))


def _open_instead(files: dict[tuple[int, int], int]) -> None:
    """Let the open descriptors of files lead to others: multiprocessing hands memory to a new process by descriptor."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - only their names
        with contextlib.suppress(OSError):  # The descriptor that listed the others is closed.
            found = os.fstat(int(name))
            other = files.get((found.st_dev, found.st_ino))
            if other is not None:
                os.dup2(other, int(name), inheritable=False)
    for file in files.values():
        os.close(file)


def is_in_common() -> bool:
    """Return True if others than copies of this process may use memory of its objects: by a name, or as it started them."""
    try:
        mappings = _mappings()
    except OSError:  # Not Linux: nothing is known.
        return False
    is_shared = any(one.name != OWN_WORKER for one in multiprocessing.active_children())
    named = [one for one in mappings if (is_shared or one.is_named) and not one.is_of_device]
    held = _held_by_objects() if named else set()
    return any(one.has(held) for one in named)


def shared_content(*, is_common: bool) -> SharedContent:
    """The content of what this process shares now. is_common: see is_in_common."""
    try:
        mappings = [one for one in _mappings() if not one.is_of_device]
    except OSError:
        return SharedContent()
    if not is_common:
        return SharedContent(own=[(one, one.content()) for one in mappings if not one.is_named])
    held = _held_by_objects()
    # Objects that were frozen in the garbage collector are not found; memory without a name is of this program anyhow.
    common = [one for one in mappings if one.has(held) or one.path.startswith("/dev/shm/pym-")]  # noqa: S108
    return SharedContent(common=[(one, one.content()) for one in common])


def _held_by_objects() -> set[int]:
    """The addresses of mapped memory that objects of Python hold: not that of a library, which would not expect a change."""
    ours = {address for one in list(_ours) for address in _address(one)}
    _of_objects.update(
        address for one in gc.get_objects() if issubclass(type(one), mmap.mmap) for address in _address(one)
    )
    return _of_objects - ours


def _address(memory: mmap.mmap) -> list[int]:
    try:
        return [int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])]
    except ValueError:  # It is closed, or empty.
        return []
