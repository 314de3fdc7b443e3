"""Explain a bad tick; where no line is known to be the cause, run what check and certify would, for a limited time."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Collection
from typing import Any, Self

import attrs

from recorder.ambient.outside.outside_read import VARIABLE
from recorder.location.tape_location import Location, tape_location
from recorder.processes.interpreter import (
    PythonProcess,
    end_all,
    last_line,
    module_program,
    start_python,
    with_module_path,
)
from recorder.text import counted
from recorder.trial.processor_share import slower
from replayer.desync.finding import TestedCause
from replayer.desync.outside_comparison import EQUAL
from replayer.diagnose.certify.arithmetic import describe_arithmetic
from replayer.diagnose.certify.matrix import HASH_SEED_VARIABLE, make_matrix, present_cell
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.explain import OnStage, explain_tape
from replayer.diagnose.explain.variants import Variant
from replayer.tape.tape import Tape

CHECK_S = 2.5  # Of the search for hidden state: all answers stand in five seconds. A period that has begun is finished.
CHECK_S_MAX = 20.0  # Then its process is ended, wherever it is; later on a busy machine.
BUSY_MAX = 3.0
FACTORS = ("simd", "threads", "blas-kernel")  # Hash seeds are among the variants of every explanation.
SUSPECTS_SHOWN = 3
ENVIRONMENTS = "another environment, as replay certify tries them"
HIDDEN = "hidden state, as replay check searches it"


def investigate(
    path: str | os.PathLike[str], *, sim: str | None = None, on_stage: OnStage = lambda _: None, **how: Any
) -> Explanation:
    """Explain a tick of a tape, and test further causes if no line is named.

    Parameters and exceptions as those of explain_tape.
    """
    with _Check(tape_location(path), sim) as check:
        environments: list[Variant] | None = None

        def last_variants() -> list[Variant]:
            nonlocal environments
            check.start()  # It runs while they do.
            environments = _environments(path)
            return environments

        explanation = explain_tape(path, sim=sim, on_stage=on_stage, last_variants=last_variants, **how)
        cause = explanation.cause
        is_known = cause is not None and cause.kind != "unseen" and not explanation.is_open
        if is_known or explanation.tick is None:
            return explanation
        if (
            explanation.memory_runs
            or explanation.run_before is not None
            or explanation.other_values is not None
            or (explanation.agrees and not explanation.is_seen)
        ):
            return explanation
        if explanation.between is not None and explanation.between.suspicious and not explanation.is_maybe_in_step:
            return explanation
        on_stage(f"tick {explanation.tick:,}: hidden state is searched")
        check.start()
        tested = [_environments_tested(explanation, environments)] if environments is not None else []
        hidden = check.result(explanation.tick, _as_recorded(explanation))
        if hidden.suspicious is False and (explanation.pair is None or _is_hidden(explanation)):
            # What made the recording another run than all those made here is in none of the search's runs either.
            hidden = attrs.evolve(hidden, suspicious=None)
        return attrs.evolve(explanation, tested=[*explanation.tested, *tested, hidden])


def _is_hidden(explanation: Explanation) -> bool:
    """Return True if an instance that ran on gives another state than one that was put into the state before the step.

    Something outside the state makes the difference: a search that does not see it refutes nothing.
    """
    variants = [outcome.variant for outcome in explanation.pair or ()]
    return len({variant.start for variant in variants}) > 1


def _environments(path: str | os.PathLike[str]) -> list[Variant]:
    """The environments of replay certify that can be tried here, but for other hash seeds."""
    with Tape(path) as tape:
        recorded = tape.meta.get("environment")
    recorded = recorded if isinstance(recorded, dict) else {}
    present = present_cell(recorded)
    cells = make_matrix(present, describe_arithmetic(), recorded, factors=FACTORS)
    variants = []
    for cell in cells:
        if cell.why_not is None and not cell.is_present:
            changes = {name: value for name, value in cell.changes.items() if name != HASH_SEED_VARIABLE}
            words = ", ".join(
                f"{name}={value}" if value is not None else f"{name} unset" for name, value in changes.items()
            )
            variants.append(Variant(f"{cell.factor} {cell.level}: {words}", changes))
    return variants


def _environments_tested(explanation: Explanation, environments: list[Variant]) -> TestedCause:
    labels = {variant.label for variant in environments}
    tried = [outcome for outcome in explanation.ran if outcome.variant.label in labels]
    if not tried:
        return TestedCause(ENVIRONMENTS, "not tested: this machine can vary none of their settings", suspicious=None)
    here = explanation.ran[0].result
    same = all(outcome.result == here for outcome in tried)
    what = "error" if here is not None and here[1] is not None else "state"
    found = (
        f"the step to tick {explanation.tick:,} with {counted(len(tried), 'other setting')}: "
        f"{f'the same {what} as here' if same else 'none gives the recorded state, and not all the same one'}"
    )
    return TestedCause(ENVIRONMENTS, found, suspicious=False if same else None)


def _as_recorded(explanation: Explanation) -> frozenset[str]:
    """The environment variables that the step reads, and that have the values of the recording."""
    return frozenset(one.name for one in explanation.outside if one.kind == VARIABLE and one.result == EQUAL)


def _without(finding: dict[str, Any], as_recorded: Collection[str]) -> dict[str, Any]:
    """A finding without its suspects that are as they were recorded: a step may read them, and differs by something else."""
    variables = finding.get("variables") or [None] * len(finding["suspects"])
    suspects = [
        one for one, name in zip(finding["suspects"], variables, strict=True) if name not in as_recorded or name is None
    ]
    return finding | {"suspects": suspects, "equal": [name for name in variables if name in as_recorded]}


def hidden_found(findings: list[dict[str, Any]], tick: int, as_recorded: Collection[str] = ()) -> TestedCause:
    """What the search found, as its process tells it: what shows later than the tick that is explained says nothing of it.

    as_recorded: environment variables that have the values of the recording.
    """
    findings = [_without(one, as_recorded) for one in findings]
    equal = list(dict.fromkeys(name for one in findings for name in one["equal"]))
    findings = [one for one in findings if one["suspects"] or not one["equal"]]
    if not findings:
        found = f"none was seen but that the step reads {', '.join(equal)}, as when the recording began"
        return TestedCause(HIDDEN, found, suspicious=None)
    before = [one for one in findings if one["tick"] <= tick]
    told = before or findings
    suspects = "; ".join(list(dict.fromkeys(name for one in told for name in one["suspects"]))[:SUSPECTS_SHOWN])
    found = "; ".join(one["text"] for one in told) + (f"; suspects: {suspects}" if suspects else "")
    if not before:
        found = f"none was seen up to tick {tick:,}; later than this tick: {found}"
        return TestedCause(HIDDEN, found, suspicious=None)
    if not any(one["is_known"] for one in told):
        return TestedCause(HIDDEN, f"{found}; the cause of that is not known", suspicious=None)
    others = sorted({one["tick"] for one in told} - {tick})
    if others:
        ticks = ", ".join(f"{one:,}" for one in others)
        found = f"{found}; shown of tick {ticks}: whether it makes tick {tick:,} differ is not tested"
    return TestedCause(HIDDEN, found, suspicious=True, is_of_tick=len(others) < len({one["tick"] for one in told}))


class _Check:
    """The search for hidden state in a process of its own; a context manager that ends it."""

    def __init__(self, path: Location, sim: str | None) -> None:
        self._arguments = [os.fspath(path), sim or "", str(CHECK_S)]
        self._process: PythonProcess | None = None
        self._started_s = 0.0
        self._limit_s = CHECK_S_MAX

    def start(self) -> None:
        """Start the process, unless it was started."""
        if self._process is None:
            program = module_program("replayer.diagnose.investigation.check_process", self._arguments)
            self._started_s = time.monotonic()
            self._limit_s = CHECK_S_MAX * min(BUSY_MAX, slower())
            self._process = start_python(program, environment=with_module_path(), stdin=subprocess.DEVNULL)

    def result(self, tick: int, as_recorded: Collection[str]) -> TestedCause:
        """Wait for the result, for some time after the start. tick: the one that is explained."""
        assert self._process is not None
        try:
            rest_s = max(0.0, self._started_s + self._limit_s - time.monotonic())
            output, errors = self._process.communicate(timeout=rest_s)
        except subprocess.TimeoutExpired:
            why = f"not tested: no result after {self._limit_s:.0f} s"
            return TestedCause(HIDDEN, why, suspicious=None)
        if self._process.returncode:
            return TestedCause(HIDDEN, f"not tested: {last_line(errors) or 'its process died'}", suspicious=None)
        facts: dict[str, Any] = json.loads(output)
        if "why_not" in facts:
            return TestedCause(HIDDEN, f"not tested: {facts['why_not']}", suspicious=None)
        if not facts["findings"]:
            ticks, restores = counted(facts["ticks"], "tick"), counted(facts["restores"], "restore")
            found = f"{ticks} from the start, {restores} into fresh and used instances: none was seen"
            # A run that ends before the tick says nothing about what its step reads.
            return TestedCause(HIDDEN, found, suspicious=False if facts["ticks"] >= tick else None)
        return hidden_found(facts["findings"], tick, as_recorded)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            end_all([self._process])
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
