"""One process of ``replay bisect``: verify the tape with the modules of one commit, and print the result.

``python -P -m replayer.commands.bisect_process TAPE SIM JOBS CHECKOUT TREE [FOLDER...]``, where SIM is module:factory or
empty, TREE is the work tree of the commit, and FOLDERs are put in front of the module path. One JSON object is written
to standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recorder.errors import RecordingError
from recorder.factory_spec import Factory, load_factory
from recorder.processes.interpreter import answer_alone_on_stdout, begin_as_python, take_arguments
from recorder.processes.pool import WorkerDiedError
from replayer.desync.finding import Finding
from replayer.playback.work_tree import import_from_work_tree, is_used
from replayer.report.report_text import differs_in_form_alone, where_lines
from replayer.timeline.verify import verify_tape
from sim.kernel.registry import ConfigError, UnknownWorldError


def main(arguments: Sequence[str]) -> int:
    """Run the process; the exit code is 0 if a result was printed."""
    begin_as_python()
    tape, sim, jobs, checkout, tree, *folders = arguments
    answer = answer_alone_on_stdout()
    import_from_work_tree(Path(checkout), Path(tree), folders)
    facts = _facts(Path(tape), sim, int(jobs), Path(tree))
    with answer:
        answer.write(json.dumps(facts).encode())
    return 0


def _facts(tape: Path, sim: str, jobs: int, tree: Path) -> dict[str, Any]:
    try:
        factory = load_factory(sim) if sim else None
        facts = _verified(tape, factory, jobs)
    except (RecordingError, ConfigError, UnknownWorldError, WorkerDiedError, ValueError, OSError) as error:
        why = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        return {"unfit": " ".join(why.split()) + _path_hint(sim, tree, why)}
    if is_used(tree):
        return facts
    module = sys.modules.get(sim.partition(":")[0])
    return {"elsewhere": f"{sim or 'the registered world'} is imported from {getattr(module, '__file__', 'elsewhere')}"}


def _verified(tape: Path, factory: Factory | None, jobs: int) -> dict[str, Any]:
    report = verify_tape(tape, factory, jobs=jobs)
    finding = report.findings[0] if report.findings else None
    fields = (finding.place.fields or [one.field for one in finding.differences]) if finding is not None else []
    lines = where_lines(finding) if finding is not None else []
    return {
        "same": report.first_bad is None and not report.wrong_keyframes,
        "status": report.status,
        "first_bad": report.first_bad,
        "is_form": finding is not None and _has_no_other_value(finding),
        "fields": fields,
        "lines": [*lines, *map(str, report.wrong_keyframes)],
    }


def _has_no_other_value(finding: Finding) -> bool:
    """Return True if the values at the next keyframe were compared, and none was found to differ."""
    if finding.compared_replayed is None or finding.first_value is not None:
        return False
    return not finding.differences or differs_in_form_alone(finding)


def _path_hint(sim: str, tree: Path, why: str) -> str:
    """Where the module of --sim lies in the work tree, if it was not found and is one folder below its root; "" otherwise."""
    top = sim.partition(":")[0].partition(".")[0]
    if not top or f"No module named {top!r}" not in why:
        return ""
    found = [*tree.glob(f"*/{top}.py"), *tree.glob(f"*/{top}/__init__.py")]
    return f" (it lies in {found[0].relative_to(tree).parts[0]}: try --path)" if found else ""


if __name__ == "__main__":
    sys.exit(main(take_arguments()))
