"""Hashes of texts, and the order of sets of texts, which differ between processes as long as no seed is set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from recorder.ambient.outside.outside_read import TEXT_HASH, OutsideRead
from recorder.environment import describe_environment
from replayer.desync.finding import TestedCause
from replayer.desync.sets.set_use import is_known_set

if TYPE_CHECKING:
    from replayer.tape.tape import Tape

HASH_SEED = "PYTHONHASHSEED"


def hashes_of_texts(tape: Tape, sets: str | None, reads: Iterable[OutsideRead]) -> list[TestedCause]:
    """Report what depends on the hash seed as not tested, unless the seeds are known, or the step has none of it.

    Copies of one process hash texts alike: a set of texts has the same order in all of them. sets: the result of set_use. reads:
    of the step.
    """
    hashed = list(dict.fromkeys(read.place for read in reads if read.kind == TEXT_HASH))
    if sets is None and not hashed:
        return []
    recorded, present = tape.meta.get("environment"), describe_environment()
    environments = recorded if isinstance(recorded, dict) else {}, present
    seeds = [environment.get(HASH_SEED, "random") for environment in environments]
    if "random" not in seeds or seeds[0] != seeds[1]:
        return []  # A different seed is reported as a different environment.
    causes = []
    if hashed:
        what = f"the step takes the hash of a text (at {', '.join(hashed)})"
        causes.append(_not_tested("hashes of texts, which differ between processes", what))
    if sets is not None and (not hashed or is_known_set(sets)):
        causes.append(_not_tested("the iteration order of sets of texts, which differs between processes", sets))
    return causes


def _not_tested(cause: str, known: str) -> TestedCause:
    found = (
        f"not tested: {HASH_SEED} was not set, and the runs here hash texts alike; {known}; "
        "replay certify --factor hash-seed tries others"
    )
    return TestedCause(cause, found, suspicious=None)
