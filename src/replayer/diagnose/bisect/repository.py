"""The user's git repository: its commits, and a temporary work tree for one of them.

Invariant: the user's checkout, index, branches and configuration stay as they are. What git notes about a work tree is
removed together with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from recorder.processes.deferred_interrupts import interrupts_held_back

# Set for programs that git itself starts, such as hooks: they would make git use another repository or index.
_VARIABLES_OF_GIT = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_GRAFT_FILE"),
)
_ID_LENGTH = 10  # Of a commit's id as people read it.


class RepositoryError(RuntimeError):
    """Git is missing, or it refused a command; the message is one line."""


@attrs.frozen
class Commit:
    """A commit as people know it.

    Attributes:
        id: all of its hexadecimal digits.
        author_date: in ISO 8601, with the time zone of the author.
        subject: the first line of its message.
    """

    id: str
    author_date: str
    subject: str

    @property
    def short_id(self) -> str:
        """The first digits of its id."""
        return self.id[:_ID_LENGTH]


class Repository:
    """A git repository with a checkout.

    Attributes:
        root: the folder of the checkout.
        folder: the folder in it that was named, relative to root.
    """

    def __init__(self, path: Path) -> None:
        """path: the checkout, or a folder in it. Raises RepositoryError."""
        program = shutil.which("git")
        if program is None:
            raise RepositoryError("git was not found: install it, or add its folder to PATH")
        if not path.is_dir():
            raise RepositoryError(f"{path}: expected the folder of a git repository")
        self._git = program
        self.root = path.resolve()
        try:
            self.root = Path(self._line("rev-parse", "--show-toplevel")).resolve()
        except RepositoryError as error:
            raise RepositoryError(f"{path}: expected the checkout of a git repository (git: {error})") from None
        self.folder = path.resolve().relative_to(self.root)

    def commit(self, revision: str) -> Commit:
        """Return the commit that the user names, in any way that git knows. Raises RepositoryError."""
        try:
            number = self._line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except RepositoryError:
            raise RepositoryError(f"{self.root}: unknown commit {revision!r}") from None
        return self._described(number)

    def _described(self, number: str) -> Commit:
        fields = (
            self._run("show", "--no-show-signature", "--no-patch", "--format=%H%x00%aI%x00%s", number)
            .rstrip("\n")
            .split("\0")
        )
        return Commit(*fields)

    def ensure_ancestor(self, good: Commit, bad: Commit) -> None:
        """Raise RepositoryError unless bad comes after good, with a commit to name instead if there is one."""
        bases = self._run("merge-base", "--all", good.id, bad.id, codes=(0, 1)).split()
        if good.id in bases and good.id != bad.id:
            return
        shown = f"expected a good commit before the bad one, got {good.short_id} and {bad.short_id}"
        if good.id == bad.id:
            raise RepositoryError(f"{shown}, which are the same")
        if bad.id in bases:
            raise RepositoryError(
                f"{shown}, which comes before it: exchange --good and --bad; the tape has to verify under the earlier one"
            )
        if bases:
            raise RepositoryError(
                f"{shown}, on another branch: try --good {bases[0][:_ID_LENGTH]}, from which both come"
            )
        raise RepositoryError(f"{shown}, which have no common history")

    def candidates(self, bad: str, good: Sequence[str]) -> list[str]:
        """The commits that may be the first bad one, best to try first: each try halves them. The last one is bad."""
        lines = self._run("rev-list", "--bisect-all", bad, "--not", *good).splitlines()
        return [line.partition(" ")[0] for line in lines]

    def oldest_first(self, bad: str, good: Sequence[str]) -> list[Commit]:
        """The commits up to bad that good ones do not contain, none before its parents."""
        numbers = self._run("rev-list", "--topo-order", "--reverse", bad, "--not", *good).split()
        return [self._described(number) for number in numbers]

    def described(self, number: str) -> Commit:
        """Return a commit by its complete id."""
        return self._described(number)

    def parents(self, commit: Commit) -> list[Commit]:
        """The commits that a commit was made from, the first parent first."""
        return [
            self._described(number)
            for number in self._line("show", "--no-patch", "--no-show-signature", "--format=%P", commit.id).split()
        ]

    def changed_files(self, commit: Commit) -> list[str]:
        """The files that a commit changed; for a merge, compared with its first parent."""
        shown = self._run(
            *(
                "show",
                "--no-show-signature",
                "--diff-merges=first-parent",
                "--format=",
                "--name-only",
                "--no-renames",
                "-z",
            ),
            commit.id,
        )
        return [name for name in shown.split("\0") if name]

    def files_between(self, first: Commit, second: Commit) -> list[str]:
        """The files that differ between two commits."""
        shown = self._run("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", first.id, second.id)
        return [name for name in shown.split("\0") if name]

    def has_earlier_commits(self, file: Path) -> bool:
        """Return True if a file is in the repository, and the commit that is checked out has a parent."""
        is_kept = bool(self._run("ls-files", "-z", "--", str(file)))
        return is_kept and len(self._run("rev-list", "--max-count=2", "HEAD").split()) > 1

    def has_uncommitted_changes(self) -> bool:
        """Return True if tracked files differ from the commit that is checked out."""
        return bool(self._run("status", "--porcelain", "--untracked-files=no").strip())

    @contextmanager
    def work_tree(self, commit: Commit, folder: Path) -> Iterator[Path]:
        """Check a commit out into a new folder inside of folder; it is removed at the end, also after an interrupt.

        No hooks of the user are run. Raises RepositoryError.
        """
        tree = folder / f"{folder.name}-{commit.short_id}"  # Git keeps its notes under the last part of the path.
        try:
            with interrupts_held_back():
                self._run("-c", f"core.hooksPath={os.devnull}", "worktree", "add", "--detach", str(tree), commit.id)
            yield tree
        finally:
            with interrupts_held_back():
                self._remove(tree)

    def _remove(self, tree: Path) -> None:
        if not tree.exists():
            return
        try:
            # Twice: also one with changes, which the simulation may have written, and one that git has locked.
            self._run("worktree", "remove", "--force", "--force", str(tree))
        except RepositoryError:  # The simulation may have damaged the tree itself.
            shutil.rmtree(tree, ignore_errors=True)
            notes = Path(self._line("rev-parse", "--git-common-dir"))
            shutil.rmtree(self.root / notes / "worktrees" / tree.name, ignore_errors=True)

    def _line(self, *words: str) -> str:
        return self._run(*words).rstrip("\n")

    def _run(self, *words: str, codes: Sequence[int] = (0,)) -> str:
        """Return what a command of git prints. codes: its exit codes that are no failure. Raises RepositoryError."""
        variables = {name: value for name, value in os.environ.items() if name not in _VARIABLES_OF_GIT}
        finished = subprocess.run(  # noqa: S603 - git, with ids of commits and with what the user named
            [self._git, "-C", str(self.root), *words],
            env={**variables, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},  # No refresh of the user's index.
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,  # The terminal's Ctrl-C must not stop git in the middle of a removal.
            check=False,
        )
        if finished.returncode not in codes:
            said = [line for line in finished.stderr.decode(errors="replace").splitlines() if line.strip()]
            reasons = [line for line in said if line.startswith(("fatal: ", "error: "))] or said[-1:]
            code = finished.returncode
            raise RepositoryError(reasons[0] if reasons else f"git {words[0]} failed with exit code {code}")
        return os.fsdecode(finished.stdout)
