"""Verify a tape under one commit: in a work tree and a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder.processes.interpreter import Finished, PythonProcess, finish, module_program, start_python
from replayer.diagnose.bisect.repository import Commit, Repository
from replayer.diagnose.bisect.search import BisectError, TriedCommit
from replayer.playback.work_tree import WorkTree, moved_path


@attrs.frozen
class CommitRunner:
    """Tries commits; see TriedCommit.

    Attributes:
        repository: of the user.
        folder: an empty folder outside of the checkout, for the work trees.
        program: the module that verifies and prints the result, see commands/bisect_process.py.
        tape: the tape.
        sim: module:factory; None for a registered world.
        paths: folders of modules, relative to the root of the repository.
        python: the interpreter.
        jobs: the number of processes that simulate at once.
    """

    repository: Repository
    folder: Path
    program: str
    tape: Path
    sim: str | None = None
    paths: Sequence[str] = ()
    python: str = sys.executable
    jobs: int = 1

    def verify(self, commit: Commit) -> TriedCommit:
        """Verify the tape under a commit.

        Raises BisectError if the interpreter cannot be started, or none of the commit's modules is imported;
        RepositoryError.
        """
        with self.repository.work_tree(commit, self.folder) as tree:
            finished = self._run(self.of_tree(commit, tree.resolve()))
        facts = _facts(finished)
        if facts is None:
            return TriedCommit(commit, "skipped", _end_text(finished))
        if "elsewhere" in facts:
            raise BisectError(
                f"no module of the repository is used: {facts['elsewhere']}; name the folder of its modules, relative to "
                f"{self.repository.root}, with --path"
            )
        if "unfit" in facts:
            return TriedCommit(commit, "skipped", facts["unfit"])
        return TriedCommit(
            commit,
            "good" if facts["same"] else "bad",
            None,
            facts["status"],
            facts["first_bad"],
            tuple(facts["fields"]),
            tuple(facts["lines"]),
            facts["is_form"],
        )

    def of_tree(self, commit: Commit, tree: Path) -> WorkTree:
        """Where a process of a commit runs that is checked out. tree: resolved."""
        place = place_in_tree(self.repository, tree, self.paths, self.sim)
        folders = (*(str(tree / path) for path in self.paths), *place.folders)
        return WorkTree(commit.short_id, self.repository.root, tree, place.folder, folders, place.module_path)

    def start(
        self, program: str, arguments: Sequence[str], tree: WorkTree, stderr: int = subprocess.PIPE
    ) -> PythonProcess:
        """Start a process of a work tree. program: its module. Raises BisectError."""
        try:
            return start_python(
                module_program(program, arguments),
                interpreter=self.python,
                environment={"PYTHONPATH": tree.module_path},
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                folder=tree.folder,
            )
        except OSError as error:
            raise BisectError(f"--python {self.python}: {error.strerror}") from None

    def _run(self, tree: WorkTree) -> Finished:
        given = [str(self.tape.absolute()), self.sim or "", str(self.jobs), str(tree.checkout), str(tree.tree)]
        return finish(self.start(self.program, [*given, *tree.folders], tree))


@attrs.frozen
class PlaceInTree:
    """Where a process of a work tree runs, as the present one runs in the checkout.

    Attributes:
        folder: its current folder.
        folders: the folders in which --sim is searched.
        module_path: PYTHONPATH for it and for the processes that it starts.
    """

    folder: Path
    folders: tuple[str, ...]
    module_path: str


def place_in_tree(repository: Repository, tree: Path, paths: Sequence[str], sim: str | None) -> PlaceInTree:
    """Return the place of a process in a work tree. paths: folders of modules, relative to its root."""
    root, here = repository.root, Path.cwd().resolve()
    is_inside = here.is_relative_to(root)
    folder = tree / (here.relative_to(root) if is_inside else repository.folder)
    if not folder.is_dir():  # The commit does not have it yet.
        folder = tree
    folders: tuple[str, ...] = ()
    if sim is not None:  # As load_factory imports it: from the current folder.
        folders = (str(folder),) if is_inside else (str(folder), str(here))
    kept = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    # Absolute, because the process has another current folder.
    moved = [moved_path(str(Path(path).absolute()), root, tree) for path in kept]
    return PlaceInTree(folder, folders, os.pathsep.join([*(str(tree / path) for path in paths), *moved]))


def _facts(finished: Finished) -> dict[str, Any] | None:
    try:
        facts = json.loads(finished.output) if finished.exit_code == 0 else None
    except ValueError:
        return None
    return facts if isinstance(facts, dict) else None


def _end_text(finished: Finished) -> str:
    if finished.exit_code < 0:
        return f"its process was ended by {signal.Signals(-finished.exit_code).name}"
    return finished.last_words or f"its process ended with exit code {finished.exit_code}"
