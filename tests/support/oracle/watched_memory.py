"""What of this process the kernel holds open, and watches for writes, by its own account."""

from __future__ import annotations

import gc
import re
from pathlib import Path


def watched_bytes() -> int:
    """The sizes of the mappings with the flag uw, userfaultfd's write protection; less what nobody refers to any more."""
    gc.collect()
    account = Path("/proc/self/smaps").read_text()
    mappings = re.findall(r"^Size: +(\d+) kB.*?^VmFlags:([^\n]*)", account, re.MULTILINE | re.DOTALL)
    return sum(int(size) * 1024 for size, flags in mappings if " uw" in flags)


def open_descriptors() -> int:
    """How many there are of those that watching takes; what nobody refers to any more is closed before."""
    gc.collect()
    found = 0
    for place in Path("/proc/self/fd").iterdir():
        try:
            name = str(place.readlink())
        except FileNotFoundError:
            continue  # That of the folder itself, or another thread's.
        found += name.endswith(("[userfaultfd]", "/pagemap"))
    return found
