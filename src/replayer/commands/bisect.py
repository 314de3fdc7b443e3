"""The command ``replay bisect``: the first commit of the user's repository under which a tape no longer verifies."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from recorder.console.argument_types import LocalPath, Positive
from recorder.console.output import print_json, say_on_stderr
from recorder.console.progress import progress_bar, status_line
from recorder.exit_codes import DIFFERS, UsageError
from recorder.location.tape_location import Location
from recorder.processes.pool import processor_count
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import newest_tape, ready_tape
from replayer.commands.options import Json, LocalTape, Sim
from replayer.diagnose.bisect.commit_explanation import CommitExplanation, explain_commit
from replayer.diagnose.bisect.commit_run import CommitRunner
from replayer.diagnose.bisect.repository import Commit, Repository, RepositoryError
from replayer.diagnose.bisect.search import BisectError, Bisection, SuspectCommit, TriedCommit, search
from replayer.status import STATUS_CODES
from replayer.value_text import plain_text

_FILES_SHOWN = 12
_PROCESS = "replayer.commands.bisect_process"
_EXPLANATION = "replayer.commands.bisect_explanation"


def bisect(
    tape: LocalTape | None = None,
    /,
    *,
    good: Annotated[str, Parameter(name="--good")],
    bad: Annotated[str, Parameter(name="--bad")] = "HEAD",
    sim: Sim = None,
    repo: Annotated[LocalPath | None, Parameter(name="--repo")] = None,
    path: Annotated[list[str] | None, Parameter(name="--path", negative="")] = None,
    python: Annotated[str | None, Parameter(name="--python")] = None,
    jobs: Annotated[Positive | None, Parameter(name=["--jobs", "-j"])] = None,
    explain: Annotated[bool, Parameter(name="--explain")] = True,
    as_json: Json = False,
) -> int:
    """Find the first commit of your git repository under which a tape no longer verifies.

    Examples:
    replay bisect run.tape --good v1.2 --sim walkers:Walkers
    replay bisect run.tape --good 3f2a1b0 --bad main --sim walkers:Walkers --path src
    replay bisect run.tape --good HEAD~20 --repo ../game --python ~/py312/bin/python

    Commits are tried as git bisect does, each in a temporary work tree and in a separate process; your checkout and
    index are not touched. A commit under which the simulation cannot be imported or run is skipped. The first bad tick
    of the commit that is found is explained, as replay explain does, with the code of its parent as the other version.

    Exit code: 1 the first bad commit was found, or several of which one is; 0 the tape verifies under --bad, too (3 and
    4 if it does, but is not sealed or damaged); 2 no search is possible; 5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    good
        A commit under which the tape verifies.
    bad
        A later commit, under which it does not.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    repo
        The repository, or a folder in it. By default that of the current folder.
    path
        A folder of modules in the repository, such as src; may be given several times.
    python
        The interpreter, in whose environment this package is installed. By default the one that runs this command.
    jobs
        The number of processes that re-simulate at once. By default one for each processor.
    explain
        Run the bad tick with the code of the parent and with that of the first bad commit, and name the values that
        differ and the line. It takes some seconds.
    as_json
        Print one JSON object.
    """
    tape_path = tape or newest_tape()
    with ready_tape(tape_path) as opened:
        status = opened.status
    try:
        with tempfile.TemporaryDirectory(prefix="replay-bisect-") as folder:
            repository = Repository(repo or Path())
            ends = _ends(repository, good, bad)
            is_dirty = repository.has_uncommitted_changes()
            if is_dirty:
                say_on_stderr("note: uncommitted changes are not tried: they belong to no commit")
            paths, jobs = _inside(repository, path or []), jobs or processor_count()
            runner = CommitRunner(
                repository, Path(folder).resolve(), _PROCESS, tape_path, sim, paths, _absolute(python), jobs
            )
            bisection = _search(repository, *ends, runner.verify, quiet=as_json)
            explained = _explained(runner, bisection, quiet=as_json) if explain else None
    except (RepositoryError, BisectError) as error:
        raise UsageError(f"{tape_path}: {error}" if isinstance(error, BisectError) else str(error)) from None
    _report(tape_path, bisection, explained, is_dirty=is_dirty, as_json=as_json)
    return DIFFERS if bisection.bad is not None else STATUS_CODES[bisection.tried[-1].status or status]


def _ends(repository: Repository, good: str, bad: str) -> tuple[Commit, Commit]:
    """The commits that the user named. Raises RepositoryError unless the bad one comes after the good one."""
    first, last = repository.commit(good), repository.commit(bad)
    repository.ensure_ancestor(first, last)
    return first, last


def _inside(repository: Repository, paths: list[str]) -> list[str]:
    """The folders of --path relative to the root. Raises UsageError for one that is not in the repository."""
    found = []
    for path in paths:
        here = [(base / path).resolve() for base in (Path(), repository.root)]  # As typed, or as in the repository.
        inside = [one for one in here if one.is_dir() and one.is_relative_to(repository.root)]
        if not inside:
            raise UsageError(f"expected a folder of the repository {repository.root}, got --path {path}")
        found.append(str(inside[0].relative_to(repository.root)))
    return found


def _search(
    repository: Repository, good: Commit, bad: Commit, verify: Callable[[Commit], TriedCommit], *, quiet: bool
) -> Bisection:
    """Search, with a line for each commit on stderr, and a progress bar on a terminal."""
    steps = len(repository.candidates(bad.id, [good.id])).bit_length() + 1  # Without skipped commits.
    count = 0
    with progress_bar("bisecting", steps, quiet=quiet) as show:

        def try_commit(commit: Commit) -> TriedCommit:
            nonlocal count
            tried = verify(commit)
            count += 1
            say_on_stderr(plain_text(f"{_commit_text(commit)}: {_result_text(tried)}"))
            show(min(count, steps))
            return tried

        return search(repository, good, bad, try_commit)


def _explained(runner: CommitRunner, bisection: Bisection, *, quiet: bool) -> CommitExplanation | None:
    """Explain the first bad commit, with a line of status on a terminal; None if there is none."""
    if bisection.bad is None:
        return None
    begin = f"explaining {bisection.bad.commit.short_id}"
    with status_line(begin, quiet=quiet) as show:
        return explain_commit(runner, bisection, _EXPLANATION, lambda stage: show(f"{begin}: {stage}"))


def _report(
    tape: Location, bisection: Bisection, explained: CommitExplanation | None, *, is_dirty: bool, as_json: bool
) -> None:
    """Print what was found. Raises KeyboardInterrupt if the explanation was ended by one."""
    if as_json:
        print_json(_facts(tape, bisection, explained))
    else:
        print_visible("\n".join(map(plain_text, _lines(tape, bisection, explained, is_dirty=is_dirty))))
    if explained is not None and explained.interrupt is not None:
        raise explained.interrupt


# --- for people


def _commit_text(commit: Commit) -> str:
    return f"{commit.short_id} {commit.author_date[:10]} {commit.subject}"


def _quoted(commit: Commit) -> str:
    """A commit inside of a sentence, which its subject would run into."""
    return f"{commit.short_id} of {commit.author_date[:10]} ({commit.subject!r})"


def _result_text(tried: TriedCommit) -> str:
    if tried.verdict == "good":
        return "verifies"
    if tried.verdict == "skipped":
        return f"skipped: {tried.why}"
    if tried.first_bad is not None and tried.is_form:
        return f"another hash at tick {tried.first_bad:,}, and no other value was found at the next keyframe"
    if tried.first_bad is not None:
        return f"desync at tick {tried.first_bad:,}"
    return "keyframes restore other values"


def _lines(tape: Location, bisection: Bisection, explained: CommitExplanation | None, *, is_dirty: bool) -> list[str]:
    tried, bad = bisection.tried, bisection.bad
    if bad is None:
        hint = "; the uncommitted changes were not tried: replay verify does that" if is_dirty else ""
        return [f"{tape}: verifies under {_quoted(tried[-1].commit)}, too: there is no bad commit to find{hint}"]
    if len(bisection.suspects) == 1:
        [suspect] = bisection.suspects
        lines = [f"the first bad commit is {suspect.commit.id}", *_suspect_lines(suspect)]
    else:
        lines = ["the first bad commit is one of:"]
        for suspect in bisection.suspects:
            skipped = f"; skipped: {suspect.skipped}" if suspect.skipped is not None else ""
            lines += [f"  {suspect.commit.id}{skipped}", *(f"  {line}" for line in _suspect_lines(suspect))]
    lines.append(f"{tape} under {bad.commit.short_id}: {_result_text(bad)}")
    lines += [f"  {line}" for line in bad.lines]
    if explained is not None and explained.why_not is not None:
        lines.append(f"  not explained: {explained.why_not}")
    elif explained is not None:
        lines += ["", *explained.lines, ""]
    skipped_count = sum(one.verdict == "skipped" for one in tried)
    lines.append(f"tried: {counted(len(tried), 'commit')}, {skipped_count:,} of them skipped")
    return [*lines, f"next: git show {bisection.suspects[-1].commit.short_id}"]


def _suspect_lines(suspect: SuspectCommit) -> list[str]:
    files = ", ".join(suspect.files[:_FILES_SHOWN]) or "none"
    more = len(suspect.files) - _FILES_SHOWN
    return [
        f"  author date: {suspect.commit.author_date}",
        f"  subject:     {suspect.commit.subject}",
        f"  files:       {files}{f' and {more:,} more' if more > 0 else ''}",
    ]


# --- for programs


def _facts(tape: Location, bisection: Bisection, explained: CommitExplanation | None) -> dict[str, Any]:
    bad, good = bisection.bad, explained.good if explained is not None else None
    return {
        "tape": str(tape),
        "found": len(bisection.suspects) == 1,
        "first_bad_commits": [
            {**_commit_facts(one.commit), "files": list(one.files), "skipped": one.skipped}
            for one in bisection.suspects
        ],
        "first_bad": bad.first_bad if bad is not None else None,
        "fields": list(bad.fields) if bad is not None else [],
        "values": list(bad.lines) if bad is not None else [],
        "compared_with": good.id if good is not None else None,
        "explanation": explained.facts if explained is not None else None,
        "not_explained": explained.why_not if explained is not None else None,
        "tried": [
            {**_commit_facts(one.commit), "verdict": one.verdict, "why": one.why, "first_bad": one.first_bad}
            for one in bisection.tried
        ],
    }


def _commit_facts(commit: Commit) -> dict[str, str]:
    return {"commit": commit.id, "author_date": commit.author_date, "subject": commit.subject}


def _absolute(python: str | None) -> str:
    """The interpreter, from each folder; a link is kept, since that of an environment means the environment."""
    if python is None:
        return sys.executable
    return os.path.abspath(Path(python).expanduser()) if os.sep in python else python  # noqa: PTH100 - keeps links
