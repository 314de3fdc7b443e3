"""Variants of a step in which one thing that it reads of the outside world is replaced: a file, a time, a variable.

What was recorded is not known: the tape has digests at most. A file that is missing or empty, a variable that is not set and a
time that the recording noted can be tried. Which of them gives the recorded state is the test.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import attrs

from recorder.ambient.outside.code_parts.machine_code import has_stored_machine_code
from recorder.ambient.outside.outside_note import OutsideNote
from recorder.ambient.outside.outside_read import (
    ABSENT,
    ATTRIBUTES,
    CHANGED,
    FILE,
    FOLDER,
    THREADS,
    UNSET,
    VARIABLE,
    OutsideRead,
)
from replayer.desync.outside_comparison import EQUAL, compare_reads, noted_fact, other_entries, shown_entries
from replayer.diagnose.explain.outside.told_counts import COUNTS
from replayer.diagnose.explain.variants import Replaced, Variant, VariantOutcome

# Processes in which a replacement must give the recorded state; more if the step differs from run to run as it is.
RUNS, UNSURE_RUNS = 4, 8
AT_A_TIME = 2  # Of variants that are tried one after the other: each has a process with its own copy of the state.
TRIED_MAX = 6  # Of a step that reads more, the first ones.
CACHE_FOLDER = "NUMBA_CACHE_DIR"
PYTHONS = ("PYTHON", "NPY_", "OPENBLAS", "OMP_", "MKL_", "NUMBA_", "LD_")  # Tried elsewhere, or not the user's.


def outside_variants(
    now: Variant, reads: Iterable[OutsideRead], imported: Iterable[OutsideRead], note: OutsideNote
) -> list[Variant]:
    """The variants to try for what a step reads, and what the user's modules read on import; the first TRIED_MAX.

    now: the present variant, to which each makes one change.
    """
    step_reads, variants = list(reads), dict[tuple[str, str], Variant]()
    places = {(read.kind, read.name): read.place for read in step_reads}
    equal = {(one.kind, one.name) for one in compare_reads(note, step_reads) if one.result == EQUAL}
    known = {(read.kind, read.name) for read in step_reads if _was_there(note, read)}
    listed = {os.path.abspath(read.name) for read in step_reads if read.kind == FOLDER}  # noqa: PTH100
    for read in step_reads:
        key = read.kind, read.name
        if read.kind == FOLDER:
            variants |= _with_noted_entries(now, read, note)
        # Without a file, its folder has other entries: of a step that lists them, it would be these that are tried.
        may_miss = key not in equal | known and os.path.dirname(os.path.abspath(read.name)) not in listed  # noqa: PTH100, PTH120
        # Of what cannot be inspected, os.path says that it is no file; the methods of Path raise.
        if read.kind in (FILE, ATTRIBUTES) and may_miss and os.path.isfile(read.name):  # noqa: PTH113
            what = f"{read.name} (read at {places[key]})"
            fact = note.fact(FILE, read.name, read.path)
            then = ((read.kind, read.name),) if fact == (ABSENT,) else ()
            replaced = Replaced(what, "this file is missing", missing=(read.name,), as_recorded=then)
            variants.setdefault((FILE, read.name), _replacing(now, f"{read.name} missing", replaced))
        noted = note.fact(CHANGED, read.name) if read.kind == CHANGED else None
        if noted is not None and noted[0] is not None and noted[0].isdecimal() and noted[0] != read.fact:
            what = f"the time at which {read.name} was changed (read at {read.place})"
            replaced = Replaced(what, "it is the recorded one", times_ns={read.name: int(noted[0])})
            variants.setdefault((CHANGED, read.name), _replacing(now, f"{read.name} with its recorded time", replaced))
    variants |= _with_noted_counts(now, step_reads, note)
    for read, when in [*((one, "") for one in step_reads), *((one, " on import") for one in imported)]:
        if read.kind == VARIABLE and read.name in os.environ and not read.name.startswith(PYTHONS):
            what = f"the environment variable {read.name} (read{when} at {read.place})"
            then = ((VARIABLE, read.name),) if note.fact(VARIABLE, read.name) == (UNSET,) else ()
            variant = _replacing(now, f"{read.name} not set", Replaced(what, "it is not set", as_recorded=then))
            changed = attrs.evolve(variant, environment={**now.environment, read.name: None})
            variants.setdefault((VARIABLE, read.name), changed)
    others = (one for one in step_reads if (one.kind, one.name) not in equal | known)
    return [*variants.values(), *_emptied(now, others)][:TRIED_MAX]


def without_machine_code(now: Variant, empty_folder: Callable[[], str]) -> list[Variant]:
    """The variant for which numba compiles functions that are in its cache on disk; none if it has none there."""
    if not has_stored_machine_code():
        return []
    folder = empty_folder()
    label = f"numba's cache on disk empty ({CACHE_FOLDER}=an empty folder)"
    return [attrs.evolve(now, label=label, environment={**now.environment, CACHE_FOLDER: folder})]


def _was_there(note: OutsideNote, read: OutsideRead) -> bool:
    """Return True for a file that was there when the recording began, and was not empty."""
    fact = note.fact(FILE, read.name, read.path) if read.kind in (FILE, ATTRIBUTES) else None
    return fact is not None and fact[0] is not None and fact[0] != ABSENT and not fact[0].startswith("0 ")


def _with_noted_entries(now: Variant, read: OutsideRead, note: OutsideNote) -> dict[tuple[str, str], Variant]:
    """The variant in which a folder has the entries that it had when the recording began; empty if one of them is gone."""
    new, gone = other_entries(note.entries(read.name, read.path), read.name)
    if not new or gone:
        return {}
    what = f"the entries of {read.name} (read at {read.place}; {shown_entries(new, gone)})"
    missing = tuple(os.path.join(read.name, name) for name in new)  # noqa: PTH118
    replaced = Replaced(
        what, "they are those of when the recording began", missing=missing, as_recorded=((FOLDER, read.name),)
    )
    return {(FOLDER, read.name): _replacing(now, f"{read.name} with its entries of then", replaced)}


def _with_noted_counts(now: Variant, reads: Iterable[OutsideRead], note: OutsideNote) -> dict[tuple[str, str], Variant]:
    """The variant in which functions that count processors tell the step what they told when the recording began."""
    noted = [(read, noted_fact(note, read)) for read in reads if read.name in COUNTS]
    other = {read: int(fact) for read, fact in noted if fact is not None and fact.isdecimal() and fact != read.fact}
    if not other:
        return {}
    names = " and ".join(f"{read.name} (read at {read.place})" for read in other)
    told = " and ".join(map(str, other.values()))
    replaced = Replaced(
        f"the number of processors, by {names}",
        "it is the recorded one, " + told if len(other) == 1 else f"they tell the recorded ones, {told}",
        counts={read.name: count for read, count in other.items()},
        as_recorded=tuple((read.kind, read.name) for read in other),
    )
    label = ", ".join(f"{read.name} tells {count}, as recorded" for read, count in other.items())
    return {(THREADS, "processors"): _replacing(now, label, replaced)}


def _emptied(now: Variant, reads: Iterable[OutsideRead]) -> list[Variant]:
    """The variants in which a file that the step reads is empty, and one that it does not find is there, and empty."""
    variants = dict[str, Variant]()
    for read in reads:
        if read.kind not in (FILE, ATTRIBUTES) or os.path.isdir(read.name):  # noqa: PTH112
            continue
        is_there = os.path.isfile(read.name)  # noqa: PTH113
        if is_there and (read.kind == ATTRIBUTES or read.fact is None or read.fact.startswith("0 ")):
            continue
        how = "this file is empty" if is_there else "a file is there, an empty one"
        replaced = Replaced(f"{read.name} (read at {read.place})", how, emptied=(read.name,))
        variants.setdefault(
            read.name, _replacing(now, f"{read.name} {'empty' if is_there else 'there, and empty'}", replaced)
        )
    return list(variants.values())


def _replacing(now: Variant, label: str, replaced: Replaced) -> Variant:
    return attrs.evolve(now, label=label, replaced=replaced)


def run_some(
    variants: Sequence[Variant],
    now: Variant,
    recorded_hash: int,
    earlier: Sequence[VariantOutcome],
    run: Callable[[Sequence[VariantOutcome], Sequence[Variant]], list[VariantOutcome]],
) -> list[VariantOutcome]:
    """Run variants, some at a time, up to the first one that gives the recorded state, which comes last.

    now: the present one. run: gets what was run earlier, and the variants.
    """
    outcomes = list[VariantOutcome]()
    for first in range(0, len(variants), AT_A_TIME):
        batch = [
            attrs.evolve(variant, environment={**now.environment, **variant.environment})
            for variant in variants[first : first + AT_A_TIME]
        ]
        outcomes += run([*earlier, *outcomes], batch)
        recorded = [outcome for outcome in outcomes if outcome.result == (recorded_hash, None)]
        outcomes = [outcome for outcome in outcomes if outcome.result != (recorded_hash, None)]
        runs = RUNS if len({outcome.result for outcome in earlier}) == 1 else UNSURE_RUNS
        found = repeated(recorded[0], runs, partial(run, recorded)) if recorded else None
        if found is not None:
            return [*outcomes, found]
    return outcomes


def repeated(
    outcome: VariantOutcome, runs: int, run: Callable[[Sequence[Variant]], list[VariantOutcome]]
) -> VariantOutcome | None:
    """The outcome of a variant in which something is replaced, if it is the same in so many processes; else None.

    A step that differs from run to run may give the recorded state once by chance.
    """
    variant = outcome.variant
    if variant.replaced is None:
        return outcome
    again = [attrs.evolve(variant, label=f"{variant.label}, run {number}") for number in range(2, runs + 1)]
    for first in range(0, len(again), AT_A_TIME):
        if any(one.result != outcome.result for one in run(again[first : first + AT_A_TIME])):
            return None
    return attrs.evolve(outcome, variant=attrs.evolve(variant, replaced=attrs.evolve(variant.replaced, runs=runs)))
