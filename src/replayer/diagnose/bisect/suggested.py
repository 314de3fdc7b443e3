"""The command that searches the commit which changed a simulation, where its code is in a git repository."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from replayer.diagnose.bisect.repository import Repository, RepositoryError


def bisect_command(path: str, sim: str | None) -> str | None:
    """The command for a tape, with a word in the place of the good commit; None if no search of the present folder can answer.

    path: as a shell reads it. sim: module:factory; None for a registered world.
    """
    module = (sim or "").partition(":")[0]
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return None
    try:
        repository = Repository(Path())
        source = Path(file).resolve()
        if not source.is_relative_to(repository.root) or not repository.has_earlier_commits(source):
            return None
    except RepositoryError:
        return None
    folder = source.parents[module.count(".") + (source.name == "__init__.py")]
    own = {Path(one).resolve() for one in ("", *os.environ.get("PYTHONPATH", "").split(os.pathsep))}
    where = "" if folder in own else f" --path {shlex.quote(str(folder.relative_to(repository.root)))}"
    command = f"replay bisect {path} --good COMMIT --bad HEAD --sim {shlex.quote(sim or '')}{where}"
    return f"{command}  # COMMIT: one under which it was recorded; finds the first bad commit"
