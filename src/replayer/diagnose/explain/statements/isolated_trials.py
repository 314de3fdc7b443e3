"""Runs of code of the program as tests: each in a copy of this process that changes nothing outside of itself and ends in time."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs

from recorder.processes.fork_call import in_a_copy
from recorder.processes.isolated_fork import NotIsolatedError, Send, ensure_can_isolate, run_isolated
from recorder.processes.isolation.refused_calls import denied, opened_nowhere
from replayer.diagnose.explain.before_step.program_code import files_of_program
from sim.kernel.simulation import Simulation, subject_of

LIMIT_S = 3.0  # Of a trial, with STEPS times as long as the step takes. Code that is tried may have no end.
STEPS = 20
_LOADING = (b"DLL", b"cdll", b"LoadLibrary", b"load_library", b"dlopen", b"pythonapi")
_NAMES = re.compile(rb"\w+")

Result = TypeVar("Result")


class SpoiledError(Exception):
    """What was run is not what the program does: a part of it was kept from what it would do outside."""


@attrs.frozen(eq=False)
class StepTrials:
    """What a simulation gives in a copy that is not isolated, so that it is known what the isolation changes.

    Attributes:
        control: the hash of the state that the step gives there.
        limit_s: the time that a trial has.
    """

    control: int
    limit_s: float

    def run(self, work: Callable[[], Result]) -> Result | None:
        """What work returns in an isolated copy; None if it was refused something, or raised, died, or took too long."""

        def sent(send: Send) -> None:
            result = work()
            send((result, denied()))

        try:
            ended = run_isolated(sent, self.limit_s)
        except OSError:
            return None
        if ended.exit_code != 0 or len(ended.messages) != 1:
            return None
        result, reason = ended.messages[0]
        return result if reason is None else None


def trials_of(simulation: Simulation, inputs: Any, recorded_hash: int) -> StepTrials | None:
    """The trials for a step; None where nothing may be tried.

    So if copies would share something, the step gives the recorded state by itself, or the isolation changes what it gives.
    """
    try:
        ensure_can_isolate()
    except NotIsolatedError:
        return None
    if _has_libraries(simulation):
        return None
    try:
        # As every variant of the step is run.
        plain = in_a_copy(lambda: _timed(simulation, inputs))
    except RuntimeError:
        return None
    trials = StepTrials(int(plain["hash"], 16), LIMIT_S + STEPS * plain["took_s"])
    now = trials.run(lambda: step_hash(simulation, inputs))
    return trials if now == trials.control != recorded_hash else None


def step_hash(simulation: Simulation, inputs: Any) -> int:
    """The hash of the state after the step. Raises what the step raises."""
    simulation.step(inputs)
    return int(simulation.state.hash())


def run_wholly(code: Callable[[], None]) -> None:
    """Run code of the program, in a trial. Raises SpoiledError if a file that it writes led nowhere: it may read that again."""
    was = opened_nowhere()
    code()
    if opened_nowhere() and not was:
        raise SpoiledError


def _timed(simulation: Simulation, inputs: Any) -> dict[str, Any]:
    begin_s = time.monotonic()
    state_hash = step_hash(simulation, inputs)
    return {"hash": f"{state_hash:x}", "took_s": time.monotonic() - begin_s}


def _has_libraries(simulation: Simulation) -> bool:
    """Return True if a file of the program names what loads compiled libraries: nothing reports what calls of these do.

    Files of other folders count if a file that counts has their name.
    """
    subject = subject_of(simulation)
    paths = files_of_program(subject)
    own = getattr(sys.modules.get(type(subject).__module__), "__file__", None)
    folder = Path(own).parent if own else Path("/")
    waiting = [path for path in paths if Path(path).is_relative_to(folder)]
    others = [path for path in paths if path not in waiting]
    while waiting:
        text = b""
        with contextlib.suppress(OSError):
            text = Path(waiting.pop()).read_bytes()
        if any(word in text for word in _LOADING):
            return True
        words = set(_NAMES.findall(text))
        named = [path for path in others if _module_name(Path(path)).encode() in words]
        others = [path for path in others if path not in named]
        waiting += named
    return False


def _module_name(path: Path) -> str:
    return path.stem if path.stem != "__init__" else path.parent.name
