"""Listing: filters, orders, statistics, pictures, tapes of other origins, damage, mistakes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpora import change, copy_of_corpus, duel_folder, generate, rows  # noqa: F401 - a fixture

import recorder.commands.main
import replayer.commands.main
from recorder import Recorder
from recorder.corpus import Corpus, Run, glance
from recorder.corpus.run_statistics import statistics_of

from oracle.command_lines import assert_one_line, run
from small_worlds import Walkers

RUNS = Path("runs")


@pytest.fixture(autouse=True)
def corpus(
    duel_folder: Path,  # noqa: ARG001, F811
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> Path:
    """Runs of two scenarios; in one of them some runs end before the last tick."""
    change("short", full=60, gift_every=2, ticks=35)
    lines = [
        "heaps.toml --seeds 0..1 --player left=push,random --player right=random,idle",
        "short.toml --seeds 0..11 --player left=lazy,push --player right=lazy",
    ]
    made = copy_of_corpus("two-scenarios", lines, tmp_path_factory)
    capsys.readouterr()
    return made


def ls(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    """Run ``replay ls runs`` and return what it prints."""
    assert run(replayer.commands.main.main, f"ls runs {line}") == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return str(captured.out)


FILTERS: dict[str, Callable[[Run], Any]] = {
    "--scenario short": lambda one: one.scenario == "short",
    "--world duel": lambda _: True,
    "--world meadow": lambda _: False,
    "--seed 0..3": lambda one: one.seed in range(4),
    "--seed 11,1": lambda one: one.seed in {1, 11},
    "--player left=push": lambda one: one.policies.get("left") == "push",
    "--player left --player right=idle": lambda one: one.policies.get("right") == "idle",
    "--player middle": lambda _: False,
    "--won left": lambda one: one.players[0].score > one.players[1].score,
    "--won right": lambda one: one.players[0].score < one.players[1].score,
    "--reason full": lambda one: max(result.score for result in one.players) >= 60 and one.scenario == "short",
    "--quality scripted": lambda one: set(one.policies.values()) <= {"push", "lazy"},
    "--quality idle,random": lambda one: bool({"idle", "random"} & set(one.policies.values())),
    "--status 'not checked'": lambda _: True,
    "--status corrupt": lambda _: False,
    "--min-ticks 35": lambda one: one.ticks >= 35,
    "--scenario short --seed 0..5 --won left": lambda one: (
        one.scenario == "short" and one.seed < 6 and one.players[0].score > one.players[1].score
    ),
    '--where "ticks < 30 or seed % 3 = 1"': lambda one: one.ticks < 30 or one.seed % 3 == 1,
    "--where \"tape IN (SELECT tape FROM players WHERE player = 'left' AND score > 100)\"": lambda one: (
        one.players[0].score > 100
    ),
    '--where "(SELECT inputs FROM quality q WHERE q.tape = runs.tape) > 20 -- many"': lambda one: (
        one.quality.inputs > 20
    ),
}


@pytest.mark.parametrize("line", FILTERS)
@pytest.mark.parametrize("index", ["believed", "gone"])
@pytest.mark.share(0.22)
def test_filters(line: str, index: str, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each filter is compared with a filter over all runs, with and without an index."""
    wanted = [str(one.path) for one in Corpus.open(RUNS) if FILTERS[line](one)]
    if index == "gone":
        (corpus / "index.sqlite").unlink()
    assert ls(f"{line} --paths -j 1", capsys).splitlines() == wanted
    if "False" not in line and line.split(maxsplit=1)[0] in {"--won", "--seed", "--quality", "--reason", "--where"}:
        assert 0 < len(wanted) < 32


def test_a_line_for_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A line has scenario, players, end, quality, size and status of the run."""
    lines = ls("--seed 0 --scenario heaps", capsys).splitlines()
    assert lines[0].startswith("runs: 4 runs, 160 ticks, ")
    assert lines[1].split() == [
        "tape",
        "run",
        "scenario",
        "seed",
        "ticks",
        "players",
        "ended",
        "by",
        "quality",
        "size",
        "status",
    ]
    (one,) = (line for line in lines if "left=push-right=idle" in line)
    found = Corpus.open(RUNS).select(scenario="heaps", seeds=[0], players={"left": "push", "right": "idle"}).runs[0]
    left, right = (f"{result.score:g}" for result in found.players)
    assert one.split() == [
        *("heaps-seed-0-left=push-right=idle.tape", found.run_id[:8], "heaps", "0", "40"),
        *("left=push", "won", f"{left},", "right=idle", "lost", right),
        *("ticks", "idle", "2.5", "kB", "not", "checked"),
    ]


def test_a_reason_that_is_a_code_is_explained_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Below the table, in the words of the recording; words that differ from run to run are left to `info`."""
    for number, (code, text) in enumerate([("Z1", "as asked"), ("Z1", "as asked"), ("cut", "at 3"), ("cut", "at 4")]):
        with Recorder(f"runs/heaps-ended-{number}.tape", Walkers()) as tape:
            tape.close({"reason": code, "text": text, "ticks": 0})
    out = ls("", capsys)
    assert out.count("as asked") == 1
    assert "\n  ended by Z1: as asked\n" in out
    assert "ended by cut" not in out


@pytest.mark.parametrize("key", ["seed", "ticks", "bytes", "finished", "inputs", "quality"])
def test_order(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs are sorted by a key, ascending or descending; no run is lost."""
    tiers = ("unrated", "idle", "random", "scripted", "human")

    def value(one: Run) -> Any:
        assert one.quality is not None
        keys = {"bytes": one.size_bytes, "finished": one.changed_ns, "inputs": one.quality.inputs}
        return {**keys, "seed": one.seed, "ticks": one.ticks, "quality": tiers.index(one.quality.tier)}[key]

    known = {str(one.path): value(one) for one in Corpus.open(RUNS)}
    up = [known[path] for path in ls(f"--sort {key} --paths", capsys).splitlines()]
    down = [known[path] for path in ls(f"--sort {key} --reverse --paths", capsys).splitlines()]
    assert up == sorted(known.values())
    assert down == sorted(known.values(), reverse=True)


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON output has all facts of each run."""
    found = json.loads(ls("--json --seed 3", capsys))
    assert found["folder"] == "runs"
    assert [one["path"] for one in found["runs"]] == [str(one.path) for one in Corpus.open(RUNS).select(seeds=[3])]
    one = found["runs"][0]
    assert one["players"][0]["policy"] == "lazy"
    assert set(one["quality"]) == {"tier", "inputs", "ticks_with_inputs"}
    assert {"run_id", "scenario", "seed", "ticks", "state_hash", "status", "reason", "finished", "error"} < set(one)


def test_statistics(capsys: pytest.CaptureFixture[str]) -> None:
    """The statistics equal counts by hand."""
    runs = list(Corpus.open(RUNS))
    found = json.loads(ls("--stats --json", capsys))["statistics"]
    assert (found["runs"], found["ticks"]) == (32, sum(one.ticks or 0 for one in runs))
    assert found["size_bytes"] == sum(one.path.stat().st_size for one in runs)
    assert found["scenarios"] == {"heaps": 8, "short": 24}
    assert found["ends"] == {reason: sum(one.reason == reason for one in runs) for reason in ("full", "ticks")}
    assert found["tiers"] == {"idle": 4, "random": 4, "scripted": 24}
    lengths = sorted(one.ticks or 0 for one in runs)
    assert found["lengths"]["0"] == lengths[0]
    assert found["lengths"]["1"] == lengths[-1]
    assert found["lengths"]["0.5"] == (lengths[15] + lengths[16]) / 2
    assert found["inputs"] == sum(one.quality.inputs for one in runs if one.quality)
    assert found["inputs_per_tick"] == found["inputs"] / found["ticks"]
    for standing in found["standings"]:
        own = [
            result
            for one in runs
            for result in one.players
            if (result.player, result.policy) == (standing["player"], standing["policy"])
        ]
        counts = [sum(result.outcome == outcome for result in own) for outcome in ("won", "drew", "lost")]
        assert [standing["won"], standing["drawn"], standing["lost"]] == counts
        assert (standing["runs"], sum(counts)) == (len(own), len(own))
        assert standing["score_mean"] == pytest.approx(sum(result.score for result in own) / len(own))
    assert sum(one["won"] for one in found["standings"]) == sum(one.winner is not None for one in runs)

    text = ls("--stats", capsys)
    assert "  quality: idle 4, random 4, scripted 24\n" in text
    assert "  scenarios: heaps 8, short 24\n" in text
    assert statistics_of([]).inputs_per_tick is None
    assert ls("--stats --world meadow", capsys) == "runs: 0 runs, 0 ticks, 0 bytes\n"


@pytest.mark.parametrize("line", ["--world meadow", "--stats --json"])
def test_a_picture(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture is drawn for any selection, including an empty one."""
    said = ls(f"{line} --plot drawn.png", capsys)
    assert Path("drawn.png").read_bytes().startswith(b"\x89PNG")
    assert "drawn.png" in said


def test_the_picture_shows_the_numbers() -> None:
    """The lengths and heights of the bars equal shares and counts."""
    from replayer.commands.ls_plot import draw_corpus

    runs = Corpus.open(RUNS).runs
    found = statistics_of(runs)
    outcomes, lengths, inputs, quality = draw_corpus(runs, found, "runs").axes
    bars = [bar.get_width() for bar in outcomes.patches]
    shares = [[getattr(one, kind) / one.decided for one in found.standings] for kind in ("won", "drawn", "lost")]
    assert bars == pytest.approx([share for kind in shares for share in kind])
    assert sum(bar.get_height() for bar in inputs.patches) == 32
    assert [bar.get_height() for bar in quality.patches] == [0, 4, 4, 24, 0]
    assert [text.get_text() for text in lengths.get_legend().get_texts()] == ["full", "ticks"]


def test_tapes_of_other_origin(capsys: pytest.CaptureFixture[str]) -> None:
    """Added tapes are copied with all of their files and indexed; a rebuilt index has them, too."""
    line = "run heaps.toml --seed 70 --player left=push -q -o other.tape --split 1kB --ticks 300 --keyframe-interval 20"
    assert run(recorder.commands.main.main, line) == 0
    files = sorted(Path().glob("other.tape*"))
    assert len(files) > 1
    capsys.readouterr()
    assert ls("--add other.tape --seed 70 --paths -j 1", capsys) == "runs/other.tape\n"
    assert [path.read_bytes() for path in sorted(RUNS.glob("other.tape*"))] == [path.read_bytes() for path in files]
    assert run(replayer.commands.main.main, "verify runs/other.tape -j 1") == 0
    (found,) = Corpus.open(RUNS).select(seeds=[70])
    assert (found.source, found.winner, found.ticks, found.size_bytes) == (
        "recorded",
        "left",
        300,
        sum(path.stat().st_size for path in files),
    )
    before = rows(RUNS)
    capsys.readouterr()
    ls("--rebuild -j 1", capsys)
    assert rows(RUNS) == before
    ls("--add runs/other.tape -j 1", capsys)  # It exists already.
    assert rows(RUNS) == before
    assert (
        generate("heaps.toml --seeds 70 --ticks 40 --player left=push -j 1") == 0
    )  # The added tape does not disturb it.

    Path("other.tape").write_bytes(b"another one")
    capsys.readouterr()
    assert run(replayer.commands.main.main, "ls runs --add other.tape --paths") == 2
    assert_one_line(capsys.readouterr(), "error: runs/other.tape: exists already: rename the tape")
    assert rows(RUNS)["runs"][-1][0] == before["runs"][-1][0]


def test_a_tape_that_is_being_recorded_is_not_added(capsys: pytest.CaptureFixture[str]) -> None:
    """A copy would be incomplete."""
    from recorder import Recorder

    from small_worlds import Walkers

    with Recorder("live.tape", Walkers()) as tape:
        tape.step(None)
        tape.flush()
        assert run(replayer.commands.main.main, "ls runs --add live.tape --paths") == 2
        assert_one_line(capsys.readouterr(), "error: live.tape is being recorded: add it after its run has ended")
        Path("recordings").mkdir()
        Path("live.tape").rename("recordings/live.tape")
        assert run(replayer.commands.main.main, "ls --paths") == 3
        tape.flush()
        with pytest.warns(recorder.RecordingWarning, match=r"was moved .* continues as .*recordings/live\.tape"):
            tape.step(None)
    assert capsys.readouterr().out == "recordings/live.tape\n"
    assert not Path("live.tape").exists()
    assert run(replayer.commands.main.main, "ls") == 0


def _damage_in_frames(content: bytes) -> bytes:
    """Change one byte where headers and index do not show it."""
    probe = Path("probe.tape")
    for place in range(600, len(content), 20):
        probe.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        if glance(probe).status == "corrupt":
            return probe.read_bytes()
    raise AssertionError("nothing shows")


@pytest.mark.parametrize(
    ("damage", "code", "status"),
    [
        (lambda content: content[:-500], 3, "incomplete"),
        (_damage_in_frames, 4, "corrupt"),
        (lambda _: b"", 5, "unreadable"),
        (lambda _: b"\x1b[2J no tape", 5, "unreadable"),
    ],
)
@pytest.mark.parametrize("options", ["", "--stats -j 1", "--json", "--won left -j 1", "--rebuild -j 1", "--paths"])
def test_damaged_tapes(
    damage: Callable[[bytes], bytes], code: int, status: str, options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are listed with their damage; the exit code is that of the worst tape; all other tapes are listed, too."""
    path = RUNS / "heaps-seed-0-left=push-right=idle.tape"
    path.write_bytes(damage(path.read_bytes()))
    unknown_winner = options.startswith("--won") and status != "corrupt"
    out = ls(options, capsys, code=0 if unknown_winner else code)
    assert "\x1b" not in out
    if options == "":
        assert sum(line.endswith(status) for line in out.splitlines()) == 1
        assert out.splitlines()[0].startswith("runs: 32 runs, ")
    assert ls("--status 'not checked' --paths", capsys).count("\n") == 31
    assert ls(f"--status {status} --paths -j 1", capsys, code).splitlines() == [str(path)]


def test_an_api() -> None:
    """A corpus can be iterated over and selected from."""
    found = Corpus.open("runs")
    assert len(found) == 32
    short = found.select(scenario="short", won="left")
    assert [one.scenario for one in short] == ["short"] * len(short)
    assert short.paths() == [one.path for one in short]
    assert all(path.is_file() for path in short.paths())
    assert list(short.select(min_ticks=10**9)) == []


def test_a_folder_is_made_for_added_tapes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its index has the tape then. A tape that cannot be added leaves no folder behind."""
    tape, folder = min(Path("runs").glob("*.tape")).resolve(), tmp_path / "new"
    assert run(replayer.commands.main.main, f"ls {folder} --add {tape}") == 0
    assert "1 run" in capsys.readouterr().out
    assert (folder / tape.name).read_bytes() == tape.read_bytes()
    assert run(replayer.commands.main.main, f"ls {tmp_path}/other --add {tmp_path}/nowhere.tape") == 2
    assert not (tmp_path / "other").exists()
    capsys.readouterr()


MISTAKES = {
    "ls nowhere": "there is no folder nowhere; make one with: record generate … -o nowhere",
    "ls": "there is no folder recordings; make one with: record run quiet-meadow",
    "ls heaps.toml": "there is no folder heaps.toml",
    "ls runs --seed a": "--seed a: expected a range such as 0..9",
    "ls runs --seed 9..1": "seed: expected at least one value",
    "ls runs --player left=": "--player left=: expected NAME or NAME=POLICY",
    "ls runs --player left --player left=push": "--player left=push: left was given already",
    "ls runs --quality good": "--quality good: expected some of unrated, idle, random, scripted, human",
    "ls runs --status fine": "--status fine: expected some of not checked, incomplete, corrupt, unreadable",
    "ls runs --min-ticks -1": "--min-ticks",
    "ls runs --sort age": "--sort",
    "ls runs --stats --paths": "--paths prints only paths",
    "ls runs --plot runs.txt": "runs.txt: expected a name that ends in .png, .svg, .pdf",
    "ls runs --plot nowhere/a.png": "nowhere/a.png: No such file or directory",
    "ls runs --add nowhere.tape": "nowhere.tape: No such file or directory",
    "ls runs --add heaps.toml": "heaps.toml: expected a name that ends in .tape: rename the tape",
    "ls runs --where 'age > 1'": "--where age > 1: no such column: age",
    "ls runs --where '1 = 1; DROP TABLE runs'": 'near ";": syntax error',
    "ls runs --where 'load_extension(1)'": "not authorized",
    "ls runs --where 'tape IN (SELECT name FROM pragma_database_list)'": "not authorized",
    "ls runs --where 'length(zeroblob(1000000000)) > 1'": "too big",
    "ls runs --where ''": "syntax error",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes(line: str, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each mistake gives one line and exit code 2; tapes and index are unchanged."""
    before = {path: path.read_bytes() for path in corpus.iterdir()}
    assert run(replayer.commands.main.main, line) == 2
    captured = capsys.readouterr()
    assert MISTAKES[line] in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""
    assert {path: path.read_bytes() for path in corpus.iterdir()} == before


def test_a_condition_that_never_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """A condition that runs too long is stopped."""
    endless = "(WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r)"
    assert run(replayer.commands.main.main, f"ls runs --paths --where {shlex.quote(endless)}") == 2
    assert_one_line(capsys.readouterr(), "it takes too long")
