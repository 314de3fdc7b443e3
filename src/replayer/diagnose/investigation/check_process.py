"""The process that searches a simulation for hidden state, with the inputs of a tape, for a limited time.

``python -P -m replayer.diagnose.investigation.check_process TAPE SIM SECONDS``, where SIM is module:factory or empty. One
JSON object is written to standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import attrs

from recorder.errors import RecordingError
from recorder.factory_spec import Factory, load_factory
from recorder.processes.interpreter import answer_alone_on_stdout, begin_as_python, take_arguments
from replayer.diagnose.hidden_state.report import SyncReport
from replayer.diagnose.hidden_state.sync_test import SyncTest
from replayer.playback.make_simulation import make_simulation
from replayer.tape.tape import Tape
from sim.kernel.registry import ConfigError, UnknownWorldError


class _TapedFactory:
    """Makes the simulation of a tape."""

    def __init__(self, tape: Tape, factory: Factory | None) -> None:
        self._tape = tape
        self.__wrapped__ = factory  # The user's modules are searched from there.

    def __call__(self) -> Any:
        return make_simulation(self._tape, self.__wrapped__)


def main(arguments: Sequence[str]) -> int:
    """Run the process; the exit code is 0 if a result was printed."""
    begin_as_python()
    path, sim, limit_s = arguments
    answer = answer_alone_on_stdout()
    try:
        facts = _checked(path, sim, float(limit_s))
    except (RecordingError, ConfigError, UnknownWorldError, TypeError, ValueError, OSError) as error:
        facts = {"why_not": " ".join(str(error).split())}
    with answer:
        answer.write(json.dumps(facts).encode())
    return 0


def _checked(path: str, sim: str, limit_s: float) -> dict[str, Any]:
    with Tape(path) as tape:
        if tape.first_tick > 0:
            return {"why_not": f"the tape begins at tick {tape.first_tick:,}, and a new simulation at tick 0"}
        factory = _TapedFactory(tape, load_factory(sim) if sim else None)
        ticks = max(1, tape.last_tick)
        report = SyncTest(factory, lambda tick: tape.frame(tick).inputs, ticks=ticks).run(limit_s=limit_s)
    return {
        "ticks": report.tick_count,
        "restores": report.restore_count,
        "findings": [_found(attrs.evolve(report, findings=[finding])) for finding in report.findings],
    }


def _found(report: SyncReport) -> dict[str, Any]:
    """Of a report with one finding."""
    return {
        "tick": report.first_bad,
        "text": str(report.findings[0]).partition("\n")[0],
        "suspects": list(map(str, report.suspects)),
        "variables": [one.variable for one in report.suspects],
        "is_known": report.is_known,
    }


if __name__ == "__main__":
    sys.exit(main(take_arguments()))
