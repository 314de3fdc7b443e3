"""Tell a process that waits from one that has work to do and no processor, by what the kernel says of its threads."""

from __future__ import annotations

from pathlib import Path

_PROCESSES = Path("/proc")


def work_while_asleep(process: int) -> tuple[tuple[int, int, str], ...] | None:
    """What all threads of a process, and of the processes that it started, have worked, if all of them are asleep.

    Return None if one of them runs, is ready to run, waits for a disk, or cannot be seen. Equal results some time apart
    say that nothing of it ran in between. Linux only.
    """
    found: list[tuple[int, int, str]] = []
    waiting = [process]
    while waiting:
        one = waiting.pop()
        try:
            for thread in sorted((_PROCESSES / str(one) / "task").iterdir()):
                state = (thread / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
                if state == "Z":
                    continue  # It has ended.
                if state != "S":
                    return None
                # proc(5): nanoseconds on a processor, those of waiting for one, and how often it got one.
                found.append((one, int(thread.name), (thread / "schedstat").read_text(encoding="ascii")))
                waiting += map(int, (thread / "children").read_text(encoding="ascii").split())
        except (OSError, ValueError, IndexError):
            return None
    return tuple(found)
