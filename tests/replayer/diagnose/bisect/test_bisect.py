"""The first bad commit of a user's repository, compared with what ``git bisect run`` finds in the same history."""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from git_histories import BROKEN, FLOCK, RAISING, WRONG, History
from waiting import wait_until

import recorder
import replayer.commands.main
from recorder import Recorder
from replayer.commands.bisect_process import _path_hint
from replayer.diagnose.bisect.repository import Commit, Repository
from replayer.diagnose.bisect.search import TriedCommit, search
from replayer.diagnose.bisect.suggested import bisect_command

from oracle.command_lines import assert_one_line, run

if shutil.which("git") is None:
    pytest.skip("git is not installed", allow_module_level=True)


def record(history: History, tape: Path, module: str = "flock.py") -> Path:
    """Record a tape of the Flock that is checked out."""
    names: dict[str, Any] = {"__name__": "flock"}
    exec((history.folder / module).read_text(), names)
    with Recorder(tape, names["Flock"](), keyframe_interval_ticks=10, durability="none") as recorder:
        for _ in range(40):
            recorder.step(2)
    return tape


def twelve_commits(history: History) -> dict[str, str]:
    """One wrong commit on a side branch, a merge of it, one that does not import and one that raises."""
    ids = {"first": history.commit("Birds", flock_py=FLOCK, notes="1")}
    record(history, history.folder.parent / "run.tape")
    for number in range(2, 5):
        ids[f"good {number}"] = history.commit(f"Notes {number}", notes=str(number))
    history.git("checkout", "--quiet", "-b", "side")
    ids["side"] = history.commit("Side notes", side="1")
    ids["wrong"] = history.commit("Birds turn at tick 17", flock_py=WRONG)
    history.git("checkout", "--quiet", "main")
    ids["broken"] = history.commit("A missing module", flock_py=BROKEN)
    ids["raising"] = history.commit("Not finished", flock_py=RAISING)
    ids["mended"] = history.commit("Finished", flock_py=FLOCK)
    ids["merge"] = history.merge("side", "Merge the side")
    ids["later"] = history.commit("Notes 5", notes="5")
    ids["last"] = history.commit("Notes 6", notes="6")
    return ids


@pytest.mark.seldom(0.18)
def test_the_first_bad_commit_is_named_with_its_tick_and_values(
    capsys: pytest.CaptureFixture[str], history: History, temporary: Path
) -> None:
    """Among twelve commits with a merge; nothing of the user's checkout changes, and nothing is left behind."""
    ids = twelve_commits(history)
    before = history.untouched()
    assert run(replayer.commands.main.main, f"bisect ../run.tape --good {ids['first']} --sim flock:Flock") == 1
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == f"the first bad commit is {ids['wrong']}"
    assert lines[1] == "  author date: 2026-01-01T06:00:00+00:00"
    assert lines[2] == "  subject:     Birds turn at tick 17"
    assert lines[3] == "  files:       flock.py"
    assert lines[4] == f"../run.tape under {ids['wrong'][:10]}: desync at tick 17"
    assert "fields that differ at tick 17: x" in lines[5]
    assert any("[3] recorded 40, replayed 45" in line for line in lines)
    assert lines[lines.index("  flock.py:12 in Flock.step (B)") + 1] == '      if self.state["tick"] == 17:'
    assert lines[-1] == f"next: git show {ids['wrong'][:10]}"
    progress = printed.err.splitlines()
    assert progress[0] == f"{ids['first'][:10]} 2026-01-01 Birds: verifies"
    assert progress[1] == f"{ids['last'][:10]} 2026-01-01 Notes 6: desync at tick 17"
    assert len(progress) <= 7
    assert history.untouched() == before
    assert list(temporary.iterdir()) == []


BIRDS = """
class Birds:
    def __init__(self):
        self.ages = [0, 0, 0]

    def step(self, inputs):
        self.ages[:] = [age + 1 for age in self.ages]
"""


def test_a_commit_under_which_no_other_value_was_found_is_told_as_such(
    capsys: pytest.CaptureFixture[str], history: History
) -> None:
    """A list that replaces an equal one has another number in the saved form, which the hash of a state counts."""
    first = history.commit("Birds", birds_py=BIRDS)
    names: dict[str, Any] = {"__name__": "birds"}
    exec(BIRDS, names)
    birds = recorder.record(
        names["Birds"](), "../run.tape", step="step", trial_ms=0, quiet=True, keyframe_interval_ticks=4
    )
    for _ in range(9):
        birds.step(None)
    birds.close()
    again = history.commit("A new list", birds_py=BIRDS.replace("[:]", ""))
    assert run(replayer.commands.main.main, f"bisect ../run.tape --good {first} --sim birds:Birds") == 1
    printed = capsys.readouterr()
    found = "another hash at tick 1, and no other value was found at the next keyframe"
    assert printed.out.splitlines()[0] == f"the first bad commit is {again}"
    assert f"../run.tape under {again[:10]}: {found}" in printed.out.splitlines()
    assert printed.err.splitlines()[1] == f"{again[:10]} 2026-01-01 A new list: {found}"


@pytest.mark.seldom(0.4)
def test_as_json_it_has_the_same_facts(capsys: pytest.CaptureFixture[str], history: History, temporary: Path) -> None:
    """Stdout is the object alone. The commands also work from another folder, with --repo."""
    ids = twelve_commits(history)
    os.chdir(history.folder.parent)
    line = f"bisect run.tape --repo game --good {ids['good 4']} --bad {ids['merge']} --sim flock:Flock --json"
    assert run(replayer.commands.main.main, line) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["found"]
    assert facts["first_bad_commits"] == [
        {
            "commit": ids["wrong"],
            "author_date": "2026-01-01T06:00:00+00:00",
            "subject": "Birds turn at tick 17",
            "files": ["flock.py"],
            "skipped": None,
        }
    ]
    assert (facts["first_bad"], facts["fields"]) == (17, ["x"])
    assert (facts["compared_with"], facts["not_explained"]) == (ids["side"], None)
    explanation = facts["explanation"]
    assert (explanation["tick"], explanation["cause"]["file"], explanation["cause"]["line"]) == (17, "flock.py", 12)
    assert [one["label"] for one in explanation["sides"]] == [ids["wrong"][:10], ids["side"][:10]]
    assert [one["code"] for one in explanation["sides"]] == [None, ids["side"][:10]]
    assert [one["verdict"] for one in facts["tried"]][:2] == ["good", "bad"]
    assert list(temporary.iterdir()) == []


@pytest.mark.seldom(0.4)
def test_commits_that_cannot_be_run_are_skipped_and_named(
    capsys: pytest.CaptureFixture[str], history: History, temporary: Path
) -> None:
    """One that does not import and one whose step raises lie before the first that is known to be bad."""
    good = history.commit("Birds", flock_py=FLOCK)
    record(history, history.folder.parent / "run.tape")
    broken = history.commit("A missing module", flock_py=BROKEN)
    raising = history.commit("Not finished", flock_py=RAISING)
    bad = history.commit("Birds turn", flock_py=WRONG)
    history.commit("Notes", notes="1")
    assert run(replayer.commands.main.main, f"bisect ../run.tape --good {good} --sim flock:Flock") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "the first bad commit is one of:"
    named = [line.strip().partition("; skipped: ") for line in lines if line.strip()[:40] in (broken, raising, bad)]
    assert [number for number, _, _ in named] == [broken, raising, bad]
    assert "No module named 'a_module_that_is_missing'" in named[0][2]
    assert "RuntimeError: not finished" in named[1][2]
    assert named[2][2] == ""
    assert "tried: 5 commits, 2 of them skipped" in lines
    assert f"  not explained: the commits before {bad[:10]} could not be tried" in lines
    assert any("[3] recorded" in line for line in lines)  # What is known without it stays.
    assert list(temporary.iterdir()) == []


UNITS = """
class Unit:
    def __init__(self):
        self.hp = 100

class Game:
    def __init__(self):
        self.units, self.day = [Unit(), Unit()], 0

    def advance(self):
        self.day += 1
        self.units[0].hp -= 1
"""
INSTALLED = {
    "pth": "import sys\nsys.path.append('SRC')\n",
    "finder": """
import importlib.util, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "flock":
            return importlib.util.spec_from_file_location(name, "SRC/flock.py")
sys.meta_path.append(Finder())
""",
}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("as_installed", ["--path", "PYTHONPATH", "pth", "finder"])
@pytest.mark.seldom(0.18)
def test_modules_in_src_are_those_of_the_commit(
    capsys: pytest.CaptureFixture[str],
    history: History,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    as_installed: str,
) -> None:
    """Named by --path, on PYTHONPATH, or found by an editable install of either kind; never those of the checkout."""
    good = history.commit("Birds", src__flock_py=FLOCK)
    record(history, tmp_path / "run.tape", "src/flock.py")
    history.git("mv", "src/flock.py", "src/birds.py")
    without = history.commit("Another name for a while")
    history.git("mv", "src/birds.py", "src/flock.py")
    bad = history.commit("Birds turn", src__flock_py=WRONG)
    options = ""
    if as_installed == "--path":
        options = "--path src"
    elif as_installed == "PYTHONPATH":
        monkeypatch.setenv("PYTHONPATH", f"{history.folder / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    else:  # sitecustomize is imported by every interpreter, as the .pth files of installed packages are.
        folder = tmp_path / "installed"
        folder.mkdir()
        installed = INSTALLED[as_installed].replace("SRC", str(history.folder / "src"))
        (folder / "sitecustomize.py").write_text(installed)
        monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert run(replayer.commands.main.main, f"bisect ../run.tape --good {good} --sim flock:Flock {options}") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "the first bad commit is one of:"
    assert lines[1].startswith(f"  {without}; skipped: flock:Flock: No module named 'flock'")
    assert f"  {bad}" in lines
    assert list(temporary.iterdir()) == []


@pytest.mark.seldom(0.4)
def test_from_a_folder_of_the_checkout_the_same_folder_of_the_commit_is_used(
    capsys: pytest.CaptureFixture[str], history: History, tmp_path: Path
) -> None:
    """Also for the bad tick of a recorded object, whose values are named by their paths. Settings of git do not matter."""
    (history.folder / "game").mkdir()
    good = history.commit("Units", game__units_py=UNITS)
    history.git("config", "diff.relative", "true")
    os.chdir(history.folder / "game")
    script = "import sys; sys.path.insert(0, ''); import recorder, units; game = units.Game()\n"
    script += (
        "with recorder.record(game, sys.argv[1], step='advance', trial_ms=0, keyframe_interval_ticks=10) as played:\n"
    )
    script += "    for _ in range(20): played.advance()\n"
    subprocess.run([sys.executable, "-B", "-c", script, str(tmp_path / "run.tape")], check=True)
    bad = history.commit("Units lose more", game__units_py=UNITS.replace("-= 1", "-= 1 + (self.day == 7)"))
    assert run(replayer.commands.main.main, f"bisect ../../run.tape --good {good} --sim units:Game") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"the first bad commit is {bad}"
    assert lines[3] == "  files:       game/units.py"
    assert "desync at tick 7" in lines[4]
    assert any("units[0].hp: recorded 90, replayed 89" in line for line in lines), lines
    assert "  units[0].hp: A 93, B 92" in lines
    assert "  game/units.py:12 in Game.advance (B)" in lines  # As git names it, from whichever folder.


@pytest.mark.seldom(0.4)
def test_a_simulation_that_is_imported_from_elsewhere_is_refused(
    capsys: pytest.CaptureFixture[str], history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise every commit would give the same result: an installed copy, and the copy in src has no effect."""
    good = history.commit("Birds", src__flock_py=FLOCK)
    record(history, tmp_path / "run.tape", "src/flock.py")
    history.commit("Birds turn", src__flock_py=WRONG)
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "flock.py").write_text(FLOCK)
    line = f"bisect ../run.tape --good {good} --sim flock:Flock"
    assert run(replayer.commands.main.main, line) == 2
    assert "No module named 'flock' (it lies in src: try --path)" in capsys.readouterr().err
    assert _path_hint("flock:Flock", history.folder, "No module named 'randum'") == ""  # Of an import in flock.
    monkeypatch.setenv("PYTHONPATH", f"{installed}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert run(replayer.commands.main.main, line) == 2
    assert_one_line(capsys.readouterr(), f"flock:Flock is imported from {installed / 'flock.py'}; name the folder")
    assert run(replayer.commands.main.main, f"{line} --path src --no-explain") == 1


@pytest.mark.seldom(0.4)
def test_ends_that_do_not_fit_are_said_plainly(
    capsys: pytest.CaptureFixture[str], history: History, temporary: Path
) -> None:
    """The good one is bad, the bad one is good or cannot be run."""
    good = history.commit("Birds", flock_py=FLOCK)
    record(history, history.folder.parent / "run.tape")
    fine = history.commit("Notes", notes="1")
    bad = history.commit("Birds turn", flock_py=WRONG)
    worse = history.commit("Notes 2", notes="2")
    broken = history.commit("A missing module", flock_py=BROKEN)
    main, line = replayer.commands.main.main, "bisect ../run.tape --sim flock:Flock"
    assert run(main, f"{line} --good {good} --bad {fine}") == 0
    assert f"verifies under {fine[:10]} of 2026-01-01 ('Notes'), too: there is no bad commit" in capsys.readouterr().out
    assert run(main, f"{line} --good {bad} --bad {worse}") == 2
    captured = capsys.readouterr()
    assert f"the tape does not verify under --good {bad[:10]} (Birds turn) from tick 17 on either" in captured.err
    assert "name a commit before --bad under which it verifies" in captured.err
    assert run(main, f"{line} --good {bad} --bad {broken}") == 2
    captured = capsys.readouterr()
    assert "from tick 17 on: name a commit before --bad" in captured.err  # Not "either": it is not known.
    mended = history.commit("Birds turn back", flock_py=FLOCK)
    assert run(main, f"{line} --good {bad} --bad {mended}") == 2
    captured = capsys.readouterr()
    assert f"from tick 17 on, but under --bad {mended[:10]} (Birds turn back): name as --good a commit" in captured.err
    assert run(main, f"{line} --good {broken} --bad {mended}") == 2
    assert "A missing module" in (captured := capsys.readouterr()).err
    assert captured.err.endswith("name another one before --bad, under which it verifies\n")
    assert run(main, f"{line} --good {good} --bad {broken}") == 2
    captured = capsys.readouterr()
    assert f"the simulation cannot be run under --bad {broken[:10]} (A missing module): " in captured.err
    assert list(temporary.iterdir()) == []


def test_mistakes_get_one_line(
    capsys: pytest.CaptureFixture[str], history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Unknown commits, commits in the wrong order, no repository, no git."""
    first = history.commit("Birds", flock_py=FLOCK)
    record(history, tmp_path / "run.tape")
    history.git("checkout", "--quiet", "-b", "side")
    side = history.commit("Side", side="1")
    history.git("checkout", "--quiet", "main")
    last = history.commit("Notes", notes="1")
    main, line = replayer.commands.main.main, "bisect ../run.tape --sim flock:Flock"
    for options, text in (
        ("--good nonesuch", "unknown commit 'nonesuch'"),
        ("--good --bad", "--good needs a value"),
        (f"--good {first} --bad nonesuch", "unknown commit 'nonesuch'"),
        (f"--good {last} --bad {first}", "exchange --good and --bad"),
        (f"--good {last}", "which are the same"),
        (f"--good {side} --bad {last}", f"on another branch: try --good {first[:10]}, from which both come"),
        (f"--good {first} --repo {tmp_path}", "expected the checkout of a git repository (git: fatal: not a git"),
        (f"--good {first} --repo nowhere", "expected the folder of a git repository"),
        (f"--good {first} --path nowhere", "got --path nowhere"),
        (f"--good {first} --python nowhere/python", "nowhere/python: No such file"),
    ):
        assert run(main, f"{line} {options}") == 2
        assert_one_line(capsys.readouterr(), text)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(main, f"{line} --good {first}") == 2
    assert_one_line(capsys.readouterr(), "git was not found")


def test_uncommitted_changes_stay_and_are_noted(capsys: pytest.CaptureFixture[str], history: History) -> None:
    """Staged and unstaged ones; the tape verifies under the last commit, and not with them."""
    good = history.commit("Birds", flock_py=FLOCK, notes="1")
    record(history, history.folder.parent / "run.tape")
    history.commit("Notes", notes="2")
    (history.folder / "flock.py").write_text(WRONG)
    (history.folder / "notes").write_text("3")
    history.git("add", "notes")
    before = history.untouched()
    assert run(replayer.commands.main.main, f"bisect ../run.tape --good {good} --sim flock:Flock") == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("note: uncommitted changes are not tried")
    assert "the uncommitted changes were not tried: replay verify does that" in captured.out
    assert history.untouched() == before
    assert (history.folder / "flock.py").read_text() == WRONG


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.seldom(0.15)
def test_an_interrupt_leaves_no_work_tree(history: History, temporary: Path, sent: signal.Signals, code: int) -> None:
    """While a simulation runs that never ends; its process ends as well."""
    pid_file = history.folder.parent / "pid"
    waiting = f"import os, signal\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\nsignal.pause()\n"
    good = history.commit("Birds", flock_py=FLOCK)
    record(history, history.folder.parent / "run.tape")
    history.commit("Waits", flock_py=waiting)
    # Hooks and index variables of a hook that calls the command have no effect on it.
    (history.folder / ".git" / "hooks" / "post-checkout").write_text("#!/bin/sh\nexit 1\n")
    (history.folder / ".git" / "hooks" / "post-checkout").chmod(0o755)
    before = history.untouched()
    program = "import replayer.commands.main; replayer.commands.main.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "bisect", "../run.tape", "--good", good, "--sim", "flock:Flock"],
        env={**os.environ, "TMPDIR": str(temporary), "GIT_INDEX_FILE": str(temporary.parent / "index")},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: pid_file.exists() and pid_file.read_text() != "")
    process.send_signal(sent)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert errors.splitlines()[-1].startswith("error: ")
    assert not Path(f"/proc/{pid_file.read_text()}").exists()
    assert history.untouched() == before
    assert list(temporary.iterdir()) == []


@pytest.mark.share(0.34)
@pytest.mark.parametrize("skipped_share", [0.0, 0.2, 0.5])
def test_it_finds_what_git_bisect_finds(tmp_path: Path, skipped_share: float) -> None:
    """In a random history with merges; subjects hold the verdicts.

    With skipped commits, the wrong one is among the suspects, and git names it as well.
    """
    history, wrong = random_history(tmp_path / "repository", skipped_share)
    repository = Repository(history.folder)

    def tried(commit: Commit) -> TriedCommit:
        verdict = commit.subject.split()[0]
        return TriedCommit(commit, verdict, "said so" if verdict == "skipped" else None)  # type: ignore[arg-type]

    first, last = repository.commit("HEAD^{/good first}"), repository.commit("HEAD")
    found = search(repository, first, last, tried)
    numbers = [one.commit.id for one in found.suspects]
    assert wrong in numbers
    assert len({one.commit.id for one in found.tried}) == len(found.tried)
    skipped = {one.commit.id for one in found.tried if one.verdict == "skipped"}
    assert [number for number in numbers if number not in skipped] == [found.bad.commit.id if found.bad else None]
    assert [one.skipped is not None for one in found.suspects] == [number in skipped for number in numbers]

    history.git("bisect", "start", "HEAD", first.id)
    script = "case $(git log -1 --format=%s) in good*) exit 0;; bad*) exit 1;; *) exit 125;; esac"
    said = subprocess.run(
        ["git", "bisect", "run", "sh", "-c", script], cwd=history.folder, capture_output=True, text=True, check=False
    ).stdout
    _, some, possible = said.partition("The first bad commit could be any of:")
    assert wrong in possible if some else f"{wrong} is the first bad commit" in said
    if not skipped_share:
        assert numbers == [wrong]
        assert len(found.tried) <= 2 + 6  # Of at most 40 commits.


def random_history(folder: Path, skipped_share: float) -> tuple[History, str]:
    """Make a history of four branches; return it with the id of the commit from which all later ones are bad."""
    history = History(folder)
    history.commit("good first")
    is_bad, wrong = {"main": False}, ""
    for number in range(30):
        branch = random.choice(sorted(is_bad))
        history.git("checkout", "--quiet", branch)
        if random.random() < 0.25 and len(is_bad) < 4:
            is_bad[f"side-{number}"] = is_bad[branch]
            branch = f"side-{number}"
            history.git("checkout", "--quiet", "-b", branch)
        other = random.choice(sorted(is_bad))
        is_merge = number != 12 and random.random() < 0.3 and history.git("rev-list", f"HEAD..{other}")
        is_bad[branch] |= number == 12 or bool(is_merge and is_bad[other])
        is_skipped = random.random() < skipped_share
        subject = f"{'skipped' if is_skipped else 'bad' if is_bad[branch] else 'good'} {number}"
        made = history.merge(other, subject) if is_merge else history.commit(subject, **{f"of_{branch}": str(number)})
        wrong = made if number == 12 else wrong
    history.git("checkout", "--quiet", "main")
    for branch in sorted(set(is_bad) - {"main"}):
        if history.git("rev-list", f"HEAD..{branch}"):
            is_bad["main"] |= is_bad[branch]
            history.merge(branch, f"{'bad' if is_bad['main'] else 'good'} merge")
    history.commit("bad last")
    return history, wrong


def test_verify_suggests_the_search_in_a_repository_with_earlier_commits(
    history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not with one commit, nor of code that is not in the repository of the present folder."""
    history.commit("Birds", src__birds_of_paths_py="def flock(): ...\n", flock_of_paths_py="")
    monkeypatch.syspath_prepend(history.folder / "src")
    monkeypatch.syspath_prepend(history.folder)
    for name in ("birds_of_paths", "flock_of_paths"):
        importlib.import_module(name)
    assert bisect_command("a.tape", "birds_of_paths:flock") is None
    history.commit("More birds", notes="2")
    for sim, path in (("birds_of_paths:flock", " --path src"), ("flock_of_paths:flock", "")):
        command = bisect_command("a.tape", sim)
        assert command is not None
        assert command.startswith(f"replay bisect a.tape --good COMMIT --bad HEAD --sim {sim}{path}  # ")
    assert [bisect_command("a.tape", sim) for sim in (None, "json:loads", "unknown_birds:flock")] == [None] * 3
    (history.folder / "new_of_paths.py").write_text("")
    importlib.import_module("new_of_paths")
    assert bisect_command("a.tape", "new_of_paths:flock") is None
    monkeypatch.chdir(tmp_path)
    assert bisect_command("a.tape", "birds_of_paths:flock") is None
