"""What a run depends on that no value shows: the addresses of objects, and threads, by their order or by what they change meanwhile.

A period is repeated with two sets of stand-ins. If it has one end with the first set and another one with the second, each time the
same, it depends on what they stand for. By chance alone, copies may all end alike, or each in its own way. The repetitions with one
set have different places in memory: what decides by these, such as a set of objects, shows no order of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from recorder.ambient.outside.outside_read import IDENTITY, THREADS
from recorder.processes.fork_call import in_a_copy
from replayer.desync.ordered_threads import ordered_count
from replayer.desync.stand_ins import SWITCHED, use_stand_ins
from replayer.diagnose.hidden_state.report import Suspect

# With each of the two sets there is a run for each: so many objects of many sizes are made before it.
PADDINGS = (0, 401, 1009)
RUNS = len(PADDINGS)
RACE = "threads at the same time"
KINDS = {
    IDENTITY: ("the addresses of objects", "addresses", "by id() or hash()"),
    THREADS: ("the order in which threads end", "order of threads", "of those that a step starts"),
}


def dependences(repeat: Callable[[], Any], is_own: Callable[[str], bool]) -> list[Suspect]:
    """What the ends of repetitions depend on, each in a copy of this process; none where such a copy dies or hangs.

    repeat: repeats the period with a copy of the simulation, and returns its end. is_own: tells the user's files.
    """

    def ends(kind: str, number: int) -> set[str]:
        def work(padding: int) -> dict[str, Any]:
            if kind != THREADS:  # What they change meanwhile may differ as well, or by chance not.
                use_stand_ins([THREADS], is_own)
            use_stand_ins([kind], is_own, number)
            kept = [bytearray(size) for size in range(padding)]
            end = repr(repeat())
            return {"end": end, "ordered": ordered_count(), "padding": len(kept)}

        done = [in_a_copy(partial(work, padding)) for padding in PADDINGS]
        if kind == THREADS and number != SWITCHED and min(one["ordered"] for one in done) < 2:
            return set()  # There was no order.
        return {one["end"] for one in done}

    found = []
    for kind, (name, title, how) in KINDS.items():
        try:
            first, second = ends(kind, 0), ends(kind, 1)
            # A run that ends in one of two ways by chance would pass once in 32 times.
            if first != second and len(first) == len(second) == 1:
                first, second = first | ends(kind, 0), second | ends(kind, 1)
        except RuntimeError:
            continue
        if len(first) == len(second) == 1 and first != second:
            runs = 2 * RUNS
            detail = (
                f"{how}; with two sets of stand-ins the run ends in two ways, each the same in {runs} of {runs} runs"
            )
            found.append(Suspect(name, title, detail, proved=True))
        elif kind == THREADS and len(first) == 1 and first == second and (raced := _raced(ends, first)) is not None:
            found.append(raced)
    return found


def _raced(ends: Callable[[str, int], set[str]], ordered: set[str]) -> Suspect | None:
    """That threads run at the same time, if the period ends in another way then. ordered: its end with each of two orders."""
    try:
        switched = ends(THREADS, SWITCHED)
        # What decides may be something else, and the two orders may have ended alike by chance.
        if not switched - ordered or ends(THREADS, 0) | ends(THREADS, 1) != ordered:
            return None
    except RuntimeError:
        return None
    runs = 4 * RUNS
    detail = (
        f"of those that a step starts; where they run one after another, in two orders, the run ends in one way in {runs} of {runs} "
        "runs, and where Python switches often among them, in another one"
    )
    return Suspect("threads that run at the same time", RACE, detail, proved=True)
