"""The memory that the kernel watches for writes, and the descriptors that are open, as the kernel reports them."""

from __future__ import annotations

import gc
import re
from pathlib import Path


def watched_bytes() -> int:
    """The sizes of the mappings with the flag uw, userfaultfd's write protection, after unused ones are collected."""
    gc.collect()
    account = Path("/proc/self/smaps").read_text()
    mappings = re.findall(r"^Size: +(\d+) kB.*?^VmFlags:([^\n]*)", account, re.MULTILINE | re.DOTALL)
    return sum(int(size) * 1024 for size, flags in mappings if " uw" in flags)


def open_descriptors() -> int:
    """The number of descriptors of the kinds that watching uses, after unused ones are closed."""
    gc.collect()
    found = 0
    for place in Path("/proc/self/fd").iterdir():
        try:
            name = str(place.readlink())
        except FileNotFoundError:
            continue  # The descriptor of the folder, or that of a different thread.
        found += name.endswith(("[userfaultfd]", "/pagemap"))
    return found
