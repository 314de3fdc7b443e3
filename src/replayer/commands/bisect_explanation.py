"""One process of ``replay bisect``: explain the first bad tick of the first bad commit, with the code of its parent as A.

``python -P -m replayer.commands.bisect_explanation JOB``, in the work tree of the bad commit. JOB is a JSON object: the tape,
how it is shown, the simulation, the tick, the work trees of the parent and of the bad commit, and the files that differ between
them. JSON objects are written to standard output, one a line: what begins, and last the explanation, or why there is none.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, BinaryIO

from recorder.errors import RecordingError
from recorder.factory_spec import load_factory
from recorder.processes.interpreter import answer_alone_on_stdout, begin_as_python, take_arguments
from recorder.processes.pool import WorkerDiedError
from replayer.commands.explain import explanation_lines
from replayer.commands.explain_facts import explanation_facts
from replayer.diagnose.explain.explain import explain_tape
from replayer.playback.work_tree import WorkTree, common_name, import_from_work_tree
from sim.kernel.registry import ConfigError, UnknownWorldError


def main(job: dict[str, Any]) -> int:
    """Run the process; the exit code is 0 if a result was printed."""
    begin_as_python()
    good, bad = map(WorkTree.from_plain, job["trees"])
    answer = answer_alone_on_stdout()
    import_from_work_tree(bad.checkout, bad.tree, bad.folders)
    try:
        said = _explained(job, good, bad, answer)
    except (
        RecordingError,
        ConfigError,
        UnknownWorldError,
        WorkerDiedError,
        RuntimeError,
        ValueError,
        OSError,
    ) as error:
        said = {"why_not": " ".join(str(error).split()) or type(error).__name__}
    _say(answer, _of_commits(said, good, bad))
    return 0


def _explained(job: dict[str, Any], good: WorkTree, bad: WorkTree, answer: BinaryIO) -> dict[str, Any]:
    factory = load_factory(job["sim"]) if job["sim"] else None
    explanation = explain_tape(
        job["tape"],
        tick=job["tick"],
        sim=job["sim"],
        factory=factory,
        on_stage=lambda stage: _say(answer, {"stage": stage}),
        seen=f"under {bad.commit}",
        trees=(good, bad),
        changed=[(str(good.tree / name), str(bad.tree / name)) for name in job["changed"]],
    )
    # Files of this tree are shown by their paths in the repository from here on.
    os.chdir(bad.tree)
    lines = explanation_lines(f"{job['shown']} under {good.commit} and {bad.commit}", explanation)
    facts = explanation_facts(job["tape"], explanation)
    del facts["tape"]
    return {"lines": lines, "facts": facts}


def _say(answer: BinaryIO, said: dict[str, Any]) -> None:
    answer.write(json.dumps(said).encode() + b"\n")
    answer.flush()


def _of_commits(said: Any, good: WorkTree, bad: WorkTree) -> Any:
    """Name files of the work trees, which are removed, by their paths in the repository, and the trees by their commits."""
    match said:
        case dict():
            return {name: _of_commits(value, good, bad) for name, value in said.items()}
        case list():
            return [_of_commits(value, good, bad) for value in said]
        case str():
            common = str(bad.tree.with_name(common_name(bad.tree)))
            for tree, name in ((str(good.tree), good.commit), (str(bad.tree), bad.commit), (common, "the repository")):
                said = said.replace(f"{tree}{os.sep}", "").replace(tree, name)
            return said
        case _:
            return said


if __name__ == "__main__":
    sys.exit(main(json.loads(take_arguments()[0])))
