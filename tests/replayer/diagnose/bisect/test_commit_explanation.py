"""What the first bad commit changed: its tick, run with the code of its parent and with its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from git_histories import History

import replayer.commands.main
from replayer.diagnose.bisect.commit_explanation import explain_commit
from replayer.diagnose.bisect.commit_run import CommitRunner
from replayer.diagnose.bisect.repository import Commit, Repository
from replayer.diagnose.bisect.search import Bisection, SuspectCommit, TriedCommit

from oracle.command_lines import run

if shutil.which("git") is None:
    pytest.skip("git is not installed", allow_module_level=True)

PRICES = """
from pathlib import Path

LIST = Path(__file__).resolve().parent / "list.txt"
TOLL = 3


def toll(carts):
    text = str(LIST)
    return carts * TOLL + int(Path(text).read_text())
"""
MARKET = """
from prices import toll


class Stall:
    def __init__(self):
        self.coins = 50


class Market:
    def __init__(self):
        self.hour, self.stalls = 0, [Stall(), Stall()]

    def advance(self):
        self.hour += 1
        if self.hour == 6:
            self.stalls[1].coins -= toll(2)
"""
# An installed finder with fixed paths, as some tools make for a package that is edited in place.
FINDER = """
import importlib.util, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in ("market", "prices"):
            return importlib.util.spec_from_file_location(name, f"SRC/{name}.py")
sys.meta_path.append(Finder())
"""
FILES = {"src__market_py": MARKET, "src__prices_py": PRICES, "src__list.txt": "0"}


@pytest.fixture
def market(history: History, monkeypatch: pytest.MonkeyPatch) -> str:
    """A repository whose first commit, which is returned, made run.tape; its modules are found by a finder."""
    good = history.commit("A market", **FILES)
    folder = history.folder.parent / "installed"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(FINDER.replace("SRC", str(history.folder / "src")))
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    script = "import recorder, market, sys; game = market.Market()\n"
    script += "with recorder.record(game, sys.argv[1], step='advance', trial_ms=0) as played:\n"
    script += "    for _ in range(9): played.advance()\n"
    subprocess.run([sys.executable, "-B", "-c", script, str(history.folder.parent / "run.tape")], check=True)
    return good


def test_values_and_line_are_named_as_in_the_repository(
    capsys: pytest.CaptureFixture[str], history: History, market: str, temporary: Path
) -> None:
    """Each version runs with all of its modules. A value that holds the path of a work tree is no difference of the commits."""
    parent = history.commit("Notes", notes="1")
    bad = history.commit("A higher toll", src__prices_py=PRICES.replace("TOLL = 3", "TOLL = 4"))
    before = history.untouched()
    line = f"bisect ../run.tape --good {market} --sim market:Market"
    assert run(replayer.commands.main.main, line) == 1
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[0] == f"the first bad commit is {bad}"
    assert lines[3] == "  files:       src/prices.py"
    explained = lines[
        lines.index(f"../run.tape under {parent[:10]} and {bad[:10]}: tick 6 differs between two variants") :
    ]
    assert explained[1] == "  stalls[1].coins: A 44, B 42"
    assert "cause: the two versions of the code differ in this line" in explained
    assert explained[explained.index("  src/prices.py:5 (B)") + 1] == "      TOLL = 4"
    assert "  tested: with TOLL of A alone, B gives the state of A" in explained
    assert "LIST" not in printed
    assert str(temporary) not in printed
    assert "replay-bisect-" not in printed
    assert any(one.startswith(f"  A  {parent[:10]}: hash ") and one.endswith(", as recorded") for one in explained)
    assert any(one.startswith(f"  B  {bad[:10]}: hash ") for one in explained)
    assert history.untouched() == before
    assert list(temporary.iterdir()) == []


@pytest.mark.seldom(0.4)
def test_a_file_that_the_commit_changed_is_exchanged(
    capsys: pytest.CaptureFixture[str], history: History, market: str
) -> None:
    """No line of code differs, and each version reads its own file: of the commit's files, this one decides."""
    bad = history.commit("A fee", **{"src__list.txt": "5", "src__notes.txt": "cheap"})
    assert run(replayer.commands.main.main, f"bisect ../run.tape --good {market} --sim market:Market --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["compared_with"], facts["first_bad_commits"][0]["commit"]) == (market, bad)
    cause = facts["explanation"]["cause"]
    assert (cause["kind"], cause["file"], cause["line"], cause["text"]) == ("file", "src/list.txt", 1, "0")
    assert (cause["other"]["file"], cause["other"]["text"]) == ("src/list.txt", "5")
    assert facts["explanation"]["functions"]["names"] == ["src/list.txt"]
    assert "replay-bisect-" not in json.dumps(facts)


@pytest.mark.seldom(0.4)
def test_a_merge_is_compared_with_a_parent_that_verifies(
    capsys: pytest.CaptureFixture[str], history: History, market: str
) -> None:
    """Each side of the merge is sound alone."""
    history.git("checkout", "--quiet", "-b", "side")
    side = history.commit(
        "Late carts",
        src__prices_py=PRICES.replace("carts * TOLL", "carts * (TOLL + late)").replace("TOLL = 3", "TOLL, late = 3, 0"),
    )
    history.git("checkout", "--quiet", "main")
    main = history.commit("Another fair", src__market_py=MARKET.replace("toll(2)", "toll(2, )"))
    merge = history.merge("side", "Merge the side")
    (history.folder / "src" / "prices.py").write_text(PRICES.replace("TOLL = 3", "TOLL = 8"))
    history.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    bad = history.git("rev-parse", "HEAD")
    assert bad != merge
    assert run(replayer.commands.main.main, f"bisect ../run.tape --good {market} --sim market:Market --json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["first_bad_commits"][0]["commit"] == bad
    assert facts["compared_with"] == main != side
    assert facts["explanation"]["cause"]["line"] == 5


def test_it_can_be_left_out_or_ended(
    capsys: pytest.CaptureFixture[str], history: History, market: str, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    """What the search found is printed all the same; Ctrl-C ends the command as ever."""
    bad = history.commit("A higher toll", src__prices_py=PRICES.replace("TOLL = 3", "TOLL = 4"))
    main, line = replayer.commands.main.main, f"bisect ../run.tape --good {market} --sim market:Market"
    start, started = CommitRunner.start, list[str]()

    def interrupted(self: CommitRunner, program: str, *rest: Any) -> Any:
        started.append(program)
        if program.endswith("explanation"):
            raise KeyboardInterrupt
        return start(self, program, *rest)

    monkeypatch.setattr(CommitRunner, "start", interrupted)
    assert run(main, f"{line} --no-explain") == 1
    without = capsys.readouterr().out.splitlines()
    assert not any("explanation" in one for one in started)
    assert without[0] == f"the first bad commit is {bad}"
    assert run(main, line) == 130
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert "  not explained: interrupted" in lines
    assert [one for one in lines if "not explained" not in one] == without
    assert printed.err.endswith("interrupted\n")
    assert list(temporary.iterdir()) == []


def commits(history: History) -> tuple[Repository, Commit, Commit]:
    """A repository of two commits, with both."""
    first, second = history.commit("One", notes="1"), history.commit("Two", notes="2")
    repository = Repository(history.folder)
    return repository, repository.commit(first), repository.commit(second)


def bisection(good: Commit, bad: Commit, first_bad: int | None) -> Bisection:
    """A search that found the second of two commits."""
    tried = [TriedCommit(good, "good"), TriedCommit(bad, "bad", first_bad=first_bad)]
    return Bisection(tried, [SuspectCommit(bad, (), None)], tried[1])


@pytest.mark.parametrize("verdict", ["bad", "skipped"])
def test_a_parent_that_was_not_tried_is_tried(history: History, verdict: Any) -> None:
    """The search takes it for good if a commit after it is; where it is not, nothing is compared with it."""
    repository, good, bad = commits(history)
    found, asked = bisection(good, bad, 3), list[Commit]()

    def verify(commit: Commit) -> TriedCommit:
        asked.append(commit)
        return TriedCommit(commit, verdict)

    found.tried.pop(0)
    runner: Any = SimpleNamespace(repository=repository, verify=verify)
    explained = explain_commit(runner, found, "a_program", lambda _: None)
    assert asked == [good]
    assert explained.why_not == f"the tape verifies under no parent of {bad.short_id}"
    assert explained.facts is None


def test_what_is_not_explained_has_a_reason(history: History, tmp_path: Path, temporary: Path) -> None:
    """No tick that differs; a process that dies."""
    repository, good, bad = commits(history)
    runner = CommitRunner(repository, temporary, "a_program", tmp_path / "run.tape")
    explained = explain_commit(runner, bisection(good, bad, None), "a_program", lambda _: None)
    assert explained.why_not == "no tick is known to differ"
    explained = explain_commit(runner, bisection(good, bad, 3), "no_such_program", lambda _: None)
    assert explained.good == good
    assert explained.why_not is not None
    assert explained.why_not.startswith("its process died: ")
    assert "no_such_program" in explained.why_not
