"""The trial of a simulation in fresh processes, each with an order of sets of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import attrs
import msgpack

from recorder.conformance.contract_checks import (
    PROCESS,
    ConformanceRun,
    ConformanceViolation,
    Subject,
    returned_differently,
)
from recorder.processes.interpreter import finish, module_program, start_python

HASH_SEEDS = ("0", "1", "2", "3")  # Of Python's hash, in fresh processes.


def check_process(subject: Subject, runs: Sequence[ConformanceRun]) -> list[ConformanceViolation]:
    """Run the same inputs in a fresh process, with a different hash seed and so a different order of sets.

    If that differs, further fresh processes run them: those that differ from each other are what is returned then. If none
    does, it is this process that differs from all of them, since it made earlier instances, or has other arguments. Raises
    RuntimeError if one cannot run the simulation.
    """
    if subject.location is None:
        return []
    seeds = [seed for seed in HASH_SEEDS if seed != os.environ.get("PYTHONHASHSEED")]
    first = _in_fresh_process(subject, runs, seeds[0])
    differing = _differing_runs(runs, first)
    if not differing:
        return []
    fresh = [
        attrs.evolve(run, hashes=hashes, results=results) for run, (hashes, results) in zip(runs, first, strict=True)
    ]
    others = (_differing_runs(fresh, _in_fresh_process(subject, runs, seed)) for seed in seeds[1:])
    apart = next((found for found in others if found), [])
    if apart:
        return [attrs.evolve(one, text=f"{one.text}; possible: the order of a set, time, chance") for one in apart]
    agree = f"{len(seeds)} fresh processes agree with each other"
    return [attrs.evolve(one, text=f"{one.text}; {agree}", fresh_agree=True) for one in differing]


def _in_fresh_process(subject: Subject, runs: Sequence[ConformanceRun], hash_seed: str) -> list[tuple[Any, Any]]:
    """The hashes and the results of runs in a new process. Raises RuntimeError."""
    request = msgpack.packb(
        {
            "location": subject.location,
            "ignore": subject.ignore,
            "path": sys.path,
            "runs": [[run.seed, run.inputs] for run in runs],
            "is_seeded": subject.is_seeded,
            "step": subject.step,
        }
    )
    variables = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = start_python(module_program("recorder.conformance.contract_process"), environment=variables)
    finished = finish(process, request)
    if finished.exit_code:
        raise RuntimeError(f"the simulation cannot run in another process: {finished.last_words or finished.exit_code}")
    answers: list[tuple[Any, Any]] = msgpack.unpackb(finished.output)
    return answers


def _differing_runs(runs: Sequence[ConformanceRun], answers: Sequence[tuple[Any, Any]]) -> list[ConformanceViolation]:
    violations = []
    for run, (hashes, results) in zip(runs, answers, strict=True):
        pairs = zip(run.hashes, hashes, strict=True)
        divergent = next((tick for tick, (expected, actual) in enumerate(pairs) if expected != actual), None)
        returned = next(
            ((tick, paths) for tick, one in enumerate(results, 1) if (paths := returned_differently(run, tick, one))),
            None,
        )
        if divergent is not None:
            text = f"state differs in another process at tick {divergent}"
            violations.append(ConformanceViolation(PROCESS, run.seed, divergent, 0, (), text))
        elif returned is not None:
            tick, paths = returned
            text = f"step {tick} returned other values in another process: {', '.join(paths)}"
            violations.append(ConformanceViolation(PROCESS, run.seed, tick, 0, (), text, paths))
    return violations
