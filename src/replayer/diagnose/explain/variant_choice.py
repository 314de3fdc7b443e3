"""Choose the variants of a step to run, their order, and the two outcomes to compare; search a tick with variants."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder.ambient.outside.outside_note import KEY as OUTSIDE
from recorder.ambient.outside.outside_note import decode_note
from recorder.ambient.outside.process_facts import (
    CPU_FEATURES,
    FLAG_VARIABLES,
    FLAGS,
    VARIABLES,
    process_facts,
    recorded_flags,
)
from recorder.environment import describe_environment
from recorder.factory_spec import Factory
from replayer.desync.finding import Finding
from replayer.desync.outside_comparison import setting_text
from replayer.diagnose.explain.values.process_settings import recorded_settings
from replayer.diagnose.explain.variants import Trees, Variant, VariantFailedError, VariantOutcome, VariantRunner
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import make_simulation
from replayer.tape.noted_outside import noted_at
from replayer.tape.tape import Tape
from sim.kernel.state import Snapshot

NEAR_TICKS = 1500  # A used instance starts at most this far back, until other processes have been tried.
NEVER_RESTORED = -1  # In place of a tick to start from: an instance as it was made, into which no state is loaded.
SEEDS = ("1", "2", "3")  # Of Python's hash; that of the present variant is 0, or the user's own.
SEED = "PYTHONHASHSEED"
SWITCHES = (SEED, "NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS")
VERSIONS = ("python", "numpy", "machine", "system")

Progress = Callable[[float], None]  # From 0 to 1.
Stage = tuple[list[Variant], list[int | None]]  # Variants to run side by side, and from where their instances start.


def first_variants(
    tape: Tape, environment: Mapping[str, str | None], code: str | None, trees: Trees | None = None
) -> tuple[Variant, list[Variant], list[str]]:
    """The present variant, the requested or recorded one if it differs, and notes on them.

    trees: of two commits, after which the variants are named; nothing else differs then.
    """
    recorded: dict[str, Any] = tape.meta.get("environment") or {}
    present = describe_environment()
    notes = [
        f"recorded with {name} {recorded[name]}, this process has {present[name]}: the effect of that cannot be tested"
        for name in VERSIONS
        if name in recorded and recorded[name] != present[name]
    ]
    noted, here = decode_note(tape.meta.get(OUTSIDE)).process or {}, process_facts()
    if CPU_FEATURES in noted and noted[CPU_FEATURES] != here.get(CPU_FEATURES):
        text = setting_text(CPU_FEATURES, noted[CPU_FEATURES], here.get(CPU_FEATURES))
        notes.append(f"another processor, {text}: the effect of that cannot be tested")
    if trees is not None:
        return Variant(trees[1].commit), [Variant(trees[0].commit, code=str(trees[0].tree))], notes
    present_variant = Variant("now") if environment or code is not None else _present_variant(recorded)
    if not environment and code is None:
        return present_variant, _as_noted(tape, noted, "as recorded"), notes
    words = [f"{name}={value}" if value is not None else f"{name} unset" for name, value in environment.items()]
    if code is not None:
        words.append(f"the code in {code}")
    return present_variant, [Variant(", ".join(words), dict(environment), code)] if words else [], notes


def changed_variants(tape: Tape, tick: int, others: Sequence[Variant]) -> list[Variant]:
    """The variants with the settings of the process as they were in the recording at a tick, where they had been changed.

    Two if a change may have come before the step or after it. Those that others have, or this process, are left out.
    """
    at = noted_at(tape, tick)
    if not (at.unsure or at.seen):
        return []
    labels = [f"as recorded up to tick {one.after:,}" for one in at.unsure[:1]]
    labels += [f"as recorded at tick {max([one.tick for one in at.unsure] or at.seen.values()):,}"]
    known, found = [(one.environment, one.settings) for one in others], list[Variant]()
    for label, process in zip(labels, at.processes(), strict=True):
        found += [one for one in _as_noted(tape, process, label) if (one.environment, one.settings) not in known]
    return found


def _as_noted(tape: Tape, noted: Mapping[str, str], label: str) -> list[Variant]:
    """The variant with the environment of the recording and noted settings; none if this process has those."""
    recorded: dict[str, Any] = tape.meta.get("environment") or {}
    here, variables = process_facts(), dict[str, str | None]()
    if recorded:
        variables = recorded_switches(recorded, describe_environment())
        # A program that was run with -O has its flag, and no variable.
        told_by_flags = FLAG_VARIABLES.values() if FLAGS in noted else ()
        names = [name for name in VARIABLES if name not in told_by_flags]
        variables |= {name: noted.get(name) for name in names if noted and noted.get(name) != here.get(name)}
        variables |= recorded_flags(noted.get(FLAGS))
    settings = recorded_settings(noted, folder_of(tape))
    words = [f"{name}={value}" if value is not None else f"{name} unset" for name, value in variables.items()]
    words = [f"{label}, {', '.join(words)}"] if words else []
    if settings:
        words = [*(words or [label]), *(f"{name} as recorded" for name in settings)]
    return [Variant(", ".join(words), variables, settings=settings, is_recorded=True)] if words else []


def folder_of(tape: Tape) -> Path | None:
    """The folder of a tape; None for one that is no file of this machine."""
    path = getattr(tape, "path", None)
    return path.absolute().parent if isinstance(path, Path) else None


def recorded_switches(recorded: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, str | None]:
    """The variables with which a tape was recorded, where they differ from the present ones; None for one to unset."""
    return {
        name: str(recorded[name]) if recorded.get(name) is not None else None
        for name in SWITCHES
        if recorded.get(name) != present.get(name) and not (name == SEED and fixed_seed(recorded) is None)
    }


def seeded(seed: str) -> Variant:
    """The present code and environment with a fixed seed of Python's hash."""
    return Variant(f"{SEED}={seed}", {SEED: seed})


def stages(tape: Tape, now: Variant, others: list[Variant], tick: int) -> Iterator[Stage]:
    """The stages of variants to run, the cheapest first."""
    starts = [place.tick for place in tape.keyframes if place.tick < tick - 1]
    near: list[int | None] = [start for start in _doubling(starts) if tick - start <= NEAR_TICKS]
    if tape.first_tick == 0 and tick <= NEAR_TICKS:
        near.insert(0, NEVER_RESTORED)  # It alone is known to keep what the recorded run kept.
    if others:
        yield [now, *others], [None]
        if near:
            yield [now], near
            # What the other code has kept up to there, such as results of functools.cache, is in no keyframe.
            yield [one for one in others if one.code is not None], near
    else:
        yield [now], [None, *near]
    yield [attrs.evolve(now, label=f"{now.label}, in a new process"), seeded(SEEDS[0])], [None]
    yield [seeded(seed) for seed in SEEDS[1:]], [None]
    far: list[int | None] = [start for start in _doubling(starts) if start not in near]
    if far:
        yield [now], far


def choose_pair(outcomes: list[VariantOutcome], recorded_hash: int) -> tuple[VariantOutcome, VariantOutcome] | None:
    """Choose two outcomes that differ; the first gives the recorded state, if any does."""
    run = [outcome for outcome in outcomes if outcome.result is not None]
    recorded = [outcome for outcome in run if outcome.result == (recorded_hash, None)]
    recorded.sort(key=lambda outcome: not outcome.variant.is_never_restored)
    different = [outcome for outcome in run if outcome.result != (recorded_hash, None)]
    if recorded and different:
        kept = recorded[0].variant
        if kept.code != different[0].variant.code and kept.start != different[0].variant.start:
            same = [one for one in different if one.variant.start == kept.start and one.variant.code != kept.code]
            return recorded[0], (same or different)[0]  # Only the code shall differ.
        changed = different[0].variant
        alike = [one for one in recorded if one.variant.start == changed.start]
        return (alike if alike and _is_elsewhere(changed, recorded) else recorded)[0], different[0]
    first = run[0] if run else None
    other = next((outcome for outcome in run if first is not None and outcome.result != first.result), None)
    return (first, other) if first is not None and other is not None else None


def _is_elsewhere(changed: Variant, recorded: list[VariantOutcome]) -> bool:
    """Return True if a variant has another environment or other settings: nothing else shall differ in the pair, then."""
    return all(
        (one.variant.environment, one.variant.settings) != (changed.environment, changed.settings) for one in recorded
    )


def _present_variant(recorded: Mapping[str, Any]) -> Variant:
    """The present environment; if it sets no hash seed, with a different one from the recorded seed."""
    if fixed_seed(recorded) is None or fixed_seed(os.environ) is not None:
        return Variant("now")
    seed = "0" if recorded[SEED] != "0" else SEEDS[0]
    return Variant(f"now, {SEED}={seed}", {SEED: seed})


def fixed_seed(environment: Mapping[str, Any]) -> str | None:
    """The hash seed that an environment sets; None if each process draws one."""
    seed = environment.get(SEED)
    return None if seed in ("", "random") else seed


def _doubling(starts: list[int]) -> list[int]:
    """The last of ascending ticks, the second to last, the fourth to last and so on, and the first."""
    distances = [1]
    while distances[-1] < len(starts):
        distances.append(min(2 * distances[-1], len(starts)))
    return [starts[-distance] for distance in distances] if starts else []


def find_tick(runner: VariantRunner, variants: list[Variant], progress: Progress) -> tuple[int | None, list[str]]:
    """The first bad tick on any variant, in the order of the variants, and why ticks could not be verified."""
    problems: list[str] = []
    for number, variant in enumerate(variants):
        result = runner.search(variant, lambda done, number=number: progress((number + done) / len(variants)))  # type: ignore[misc]
        if result.first_bad is not None:
            return result.first_bad, result.problems
        problems += result.problems
    return None, problems


def state_before(
    tape: Tape, factory: Factory | None, runner: VariantRunner, variants: list[Variant], tick: int
) -> Snapshot:
    """The state at tick - 1, with the recorded hash: made in this process, or else on one of the variants."""
    cursor = Cursor(tape, make_simulation(tape, factory))
    try:
        cursor.seek(tick - 1)
        return cursor.state.snapshot()
    except MismatchError:
        for variant in (*variants, *(seeded(seed) for seed in SEEDS)):
            snapshot = runner.state(variant, tick - 1)
            if snapshot is not None:
                return snapshot
    raise VariantFailedError(
        f"tick {tick:,}: no variant gives the recorded state of the tick before it: an earlier tick is the first bad "
        "one; omit --tick to search for it"
    )


def ensure_finding_of(finding: Finding, tape: Tape, tick: int | None) -> None:
    """Raise ValueError if a finding is of another tape, or of another tick than the one that was asked for."""
    if tick not in (None, finding.tick):
        raise ValueError(f"expected a finding of tick {tick}, got one of tick {finding.tick}")
    if tape.state_hash(finding.tick) != finding.expected_hash:
        raise ValueError(
            f"the finding is of a different tape: {tape.path} has a different hash at tick {finding.tick:,}"
        )
