"""Explain what the first bad commit changed: its first bad tick, run with the code of its parent and with its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import attrs

from recorder.processes.interpreter import PythonProcess, end_all, last_line, lines_of
from replayer.diagnose.bisect.commit_run import CommitRunner
from replayer.diagnose.bisect.repository import Commit, RepositoryError
from replayer.diagnose.bisect.search import BisectError, Bisection
from replayer.playback.work_tree import WorkTree

OnStage = Callable[[str], None]


@attrs.frozen
class CommitExplanation:
    """What was found by running the bad tick with the code of two commits.

    Attributes:
        good: the parent, under which the tape verifies; None if there is none, or it was not searched.
        lines: for people; empty if it is not explained.
        facts: for programs, as those of replay explain; None if it is not explained.
        why_not: why it is not explained.
        interrupt: by which the user ended it.
    """

    good: Commit | None = None
    lines: tuple[str, ...] = ()
    facts: dict[str, Any] | None = None
    why_not: str | None = None
    interrupt: KeyboardInterrupt | None = None


def explain_commit(runner: CommitRunner, bisection: Bisection, program: str, on_stage: OnStage) -> CommitExplanation:
    """Explain the first bad tick of the commit that was found. program: the module that does it in the bad commit's tree.

    An interrupt ends the explanation alone: what was found before stays of use.
    """
    try:
        return _explain(runner, bisection, program, on_stage)
    except (RepositoryError, BisectError) as error:
        return CommitExplanation(why_not=str(error))
    except KeyboardInterrupt as interrupt:
        return CommitExplanation(why_not="interrupted", interrupt=interrupt)


def _explain(runner: CommitRunner, bisection: Bisection, program: str, on_stage: OnStage) -> CommitExplanation:
    bad = bisection.bad
    assert bad is not None
    if len(bisection.suspects) > 1:
        return CommitExplanation(why_not=f"the commits before {bad.commit.short_id} could not be tried")
    if bad.first_bad is None:
        return CommitExplanation(why_not="no tick is known to differ")
    good = _good_parent(runner, bisection, bad.commit, on_stage)
    if good is None:
        return CommitExplanation(why_not=f"the tape verifies under no parent of {bad.commit.short_id}")
    with ExitStack() as stack:
        # In this order, as replay explain has the other version first.
        trees = [
            runner.of_tree(one, stack.enter_context(runner.repository.work_tree(one, runner.folder)).resolve())
            for one in (good, bad.commit)
        ]
        changed = runner.repository.files_between(good, bad.commit)
        facts = _run(runner, program, bad.first_bad, trees, changed, on_stage)
    if "why_not" in facts:
        return CommitExplanation(good, why_not=facts["why_not"])
    return CommitExplanation(good, tuple(facts["lines"]), facts["facts"])


def _good_parent(runner: CommitRunner, bisection: Bisection, bad: Commit, on_stage: OnStage) -> Commit | None:
    """The first parent under which the tape verifies; the search takes those of the ones that it tried for good untried."""
    verdicts = {one.commit.id: one.verdict for one in bisection.tried}
    parents = runner.repository.parents(bad)
    for parent in parents:
        if parent.id not in verdicts:
            on_stage(f"verifying under {parent.short_id}, its parent")
            verdicts[parent.id] = runner.verify(parent).verdict
        if verdicts[parent.id] == "good":
            return parent
    return None


def _run(
    runner: CommitRunner, program: str, tick: int, trees: list[WorkTree], changed: list[str], on_stage: OnStage
) -> dict[str, Any]:
    job = {
        "tape": str(runner.tape.absolute()),
        "shown": str(runner.tape),
        "sim": runner.sim,
        "tick": tick,
        "trees": [tree.to_plain() for tree in trees],
        "changed": changed,
    }
    errors = runner.folder / "stderr"
    with errors.open("wb") as stderr:
        process = runner.start(program, [json.dumps(job)], trees[1], stderr.fileno())
    try:
        with process:
            answer = _answer(process, on_stage)
    finally:
        end_all([process])
    if answer is None:
        why = last_line(errors.read_bytes()) or f"exit code {process.returncode}"
        return {"why_not": f"its process died: {why}"}
    return answer


def _answer(process: PythonProcess, on_stage: OnStage) -> dict[str, Any] | None:
    """What a process prints last; before that it prints what it begins."""
    for line in lines_of(process):
        said = json.loads(line)
        if "stage" not in said:
            return dict(said)
        on_stage(said["stage"])
    return None
