"""Small repositories, made with git itself, of a simulation whose history is written by a test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

FLOCK = """
from sim import Field, Schema, State


class Flock:
    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8", (8,))))

    def step(self, inputs):
        self.state["tick"][()] += 1
        self.state["x"][:] += inputs or 1
"""
WRONG = FLOCK + '        if self.state["tick"] == 17:\n            self.state["x"][3] += 5\n'
BROKEN = "import a_module_that_is_missing\n" + FLOCK
RAISING = FLOCK + '        if self.state["tick"] == 9:\n            raise RuntimeError("not finished")\n'


class History:
    """A repository in a folder; each commit is an hour later than the one before."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._hours = 0
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        """Run git in the repository, without the settings of the user, and return what it prints."""
        date = f"2026-01-{1 + self._hours // 24:02}T{self._hours % 24:02}:00:00+00:00"
        variables = {
            **os.environ,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in _IDENTITY.items()},
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
        }
        finished = subprocess.run(
            ["git", *words], cwd=self.folder, env=variables, capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout.strip()

    def commit(self, subject: str, **files: str) -> str:
        """Write files, commit everything and return the id. files: by path, in which __ is for / and _py for .py."""
        for name, text in files.items():
            path = self.folder / name.replace("__", "/").replace("_py", ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self._hours += 1
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def merge(self, branch: str, subject: str) -> str:
        """Merge a branch and return the id."""
        self._hours += 1
        self.git("merge", "--quiet", "--no-ff", "-m", subject, branch)
        return self.git("rev-parse", "HEAD")

    def untouched(self) -> tuple[str, ...]:
        """What no command may change: the checkout, the index, branches, settings, and git's list of work trees."""
        files = [self.folder / ".git" / name for name in ("index", "HEAD", "config")]
        return (
            *(file.read_bytes().hex() for file in files),
            *(self.git(*words) for words in (("status", "--porcelain"), ("branch", "-v"), ("worktree", "list"))),
            str(sorted(path.name for path in (self.folder / ".git").iterdir())),
        )


_IDENTITY = {"NAME": "A Tester", "EMAIL": "tester@example.org"}
