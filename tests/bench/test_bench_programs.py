"""The benches run, at their smallest: no test depends on a time, but they must not rot."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "tools/bench"


def run(folder: Path, program: str, *arguments: str, figures: bool = True) -> Any:
    """Run a program of the benches in a folder; its JSON."""
    more = ["--json", "figures.json", "--markdown", "page.md"] if figures else []
    done = subprocess.run(
        [sys.executable, BENCH / program, *arguments, *more], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "figures.json").read_text())["figures"] if figures else done.stdout


def lacks(*names: str) -> bool:
    """Whether one of these packages is not installed."""
    return any(importlib.util.find_spec(name) is None for name in names)


@pytest.mark.seldom(0.15)
def test_every_way_that_is_installed_keeps_what_was(tmp_path: Path) -> None:
    """Each peer's states, read back, are those that were recorded, or the way is named as failed; so is one not there."""
    groups = run(
        tmp_path, "peer_costs.py", "--only", "states-S", "--rounds", "1", "--slice", "20", "--plot", "pictures"
    )
    (states,) = groups
    named = {row["way"] for row in states["rows"]} | set(states["absent"])

    assert {"no recorder", "ours", "MCAP zstd", "GSD", "LMDB lz4", "SQLite lz4", "blosc2", "zarr"} <= named
    assert all("is not installed" in why for group in groups for why in group["absent"].values()), groups
    assert all(row["reading a tick, ms"] is not None for row in states["rows"] if row["way"] != "no recorder")
    assert (tmp_path / "pictures/peers-states.svg").stat().st_size > 0


@pytest.mark.long
def test_states_now_and_then(tmp_path: Path) -> None:
    """Keyframes are told apart; ours are reached by steps in between."""
    few = ("--ways", "ours", "no recorder", "store", "pickle", "--rounds", "1", "--slice", "300")
    for group in run(tmp_path, "peer_costs.py", "--only", "inputs-S", *few):
        rows = {row["way"]: row for row in group["rows"]}
        assert set(rows) == {"ours", "no recorder", "hash + encode + store", "pickle + lz4"}, group["absent"]
        assert rows["ours"]["reading a tick, ms"] is not None
        assert rows["pickle + lz4"]["keyframe, µs"] is not None


@pytest.mark.seldom(0.15)
def test_plain_objects(tmp_path: Path) -> None:
    """A game in three ways, verified; each line of the targets has its limit."""
    smallest = ("--quick", "--only", "units-200", "CartPole", "--rounds", "1", "--slice", "5")
    found = run(tmp_path, "objects.py", *smallest)

    games = [row for row in found["rows"] if "units" in row]
    assert [row["changing"] for row in games] == ["10 %", "births"]
    assert all(row["plain, µs"] < row["recorded, µs"] and row["pickle, µs"] > 0 for row in games)
    assert [line["limit"] for line in found["targets"]] == ["1.5", "3", "5"]
    assert "| 200 units, 10 % changing |" in (tmp_path / "page.md").read_text()


@pytest.mark.long
def test_verifying_plain_objects(tmp_path: Path) -> None:
    """The CPU time of the command and of the plain run."""
    (row,) = run(tmp_path, "objects.py", "--quick", "--only", "verify", "--rounds", "1", "--slice", "4")["rows"]
    assert row["verify, CPU s"] > row["plain run, CPU s"] > 0


REPLAYED = """
import workloads
for name in ("S", "M", "G"):
    world = workloads.make(name)
    world.step([])
    kept = world.state.snapshot()
    hashes = []
    for _ in range(2):
        world.state.restore(kept)
        world.after_restore()
        for _ in range(3):
            world.step([])
        hashes.append(world.state.hash())
    assert hashes[0] == hashes[1] != kept.hash(), name
"""


def test_workloads_go_on_from_a_state_as_they_did() -> None:
    """All of what the next step reads is in the state, the random generator, too."""
    subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(BENCH)!r})\n{REPLAYED}"], check=True)


@pytest.mark.long
@pytest.mark.skipif(lacks("gymnasium"), reason="gymnasium is not installed")
def test_peers_of_one_kind_of_world(tmp_path: Path) -> None:
    """CartPole: alone, ours and Minari, or why not."""
    (group,) = run(tmp_path, "peer_costs.py", "--only", "CartPole", "--rounds", "1", "--slice", "20")
    assert {row["way"] for row in group["rows"]} | set(group["absent"]) == {"alone", "ours", "Minari"}
    assert all("is not installed" in why for why in group["absent"].values()), group


@pytest.mark.long
def test_scaling(tmp_path: Path) -> None:
    """Each curve has its points and slopes, and a picture."""
    found = run(tmp_path, "scaling.py", "--quick", "--only", "length", "--plot", "pictures")
    assert len(found["length"]["points"]) == 3
    assert {row["figure"] for row in found["length"]["slopes"]} >= {"file, MB", "open, ms", "recording, MB"}
    assert (tmp_path / "pictures/scaling-length.svg").stat().st_size > 0


@pytest.mark.long
def test_whole_ticks(tmp_path: Path) -> None:
    """Three ways on one world."""
    rows = run(tmp_path, "ticks.py", "--only", "numpy-30", "--quick", "--slice", "20", "--plot", "pictures")
    assert [row["way"] for row in rows] == ["no recorder", "ours", "naive thread"]


@pytest.mark.seldom(0.15)
def test_what_users_wait_for(tmp_path: Path) -> None:
    """Each line has what was measured, and what is wanted."""
    rows = run(tmp_path, "felt.py", "--quick", "--only", "start", "refresh")
    assert [row[""] for row in rows] == ["V4"] * 4 + ["V14"] * 2
    assert all(row["measured"] and row["wanted"] and row["met"] in ("yes", "**no**") for row in rows)


@pytest.mark.long
def test_the_table_of_targets(tmp_path: Path) -> None:
    """Each line has the limit of the target, and if it is met."""
    done = subprocess.run(
        [sys.executable, BENCH / "targets.py", "--quick", "--only", "T3", "T10", "--json", "lines.json"],
        cwd=tmp_path,
        check=True,
    )
    lines = json.loads((tmp_path / "lines.json").read_text())
    assert done.returncode == 0
    assert [line["target"] for line in lines] == ["T3"] * 8 + ["T10"]
    assert all(line["limit"] and isinstance(line["met"], bool) for line in lines)


@pytest.mark.seldom(0.15)
def test_the_page_is_made_between_its_marks(tmp_path: Path) -> None:
    """A section is replaced, what stands around it stays; docs/performance.md has all sections."""
    page = tmp_path / "page.md"
    marks = "<!-- {0}: made by tools/bench/page.py -->\n{1}<!-- end of {0} -->\n"
    page.write_text("before\n" + marks.format("profile", "old\n") + "after\n")
    run(tmp_path, "page.py", "--only", "profile", "--quick", "--page", str(page), "--json", "figures", figures=False)

    text = page.read_text()
    assert text.startswith("before\n<!-- profile: made by tools/bench/page.py -->\n")
    assert text.endswith("<!-- end of profile -->\nafter\n")
    assert "old" not in text
    assert "| stage |" in text
    for what in ("inputs to MessagePack", "hash of the whole state", "the frame into the journal", "the rest"):
        assert what in text, "a stage that Recorder.step no longer calls"

    real = (BENCH.parents[1] / "docs/performance.md").read_text()
    for name in ("felt", "targets", "profile", "ticks", "scaling", "peers", "objects"):
        assert real.count(f"<!-- {name}: made by tools/bench/page.py -->\n") == 1
        assert real.count(f"<!-- end of {name} -->\n") == 1


@pytest.mark.seldom(0.15)
def test_forks_and_copies(tmp_path: Path) -> None:
    """Each kind has its figures."""
    subprocess.run([sys.executable, BENCH / "forks.py", "--quick", "--json", "figures.json"], cwd=tmp_path, check=True)
    rows = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert [row["kind"] for row in rows] == ["State", "CartPole", "objects"]
    assert all(row["fork and steps, µs"] > 0 for row in rows)


@pytest.mark.seldom(0.15)
def test_shrinking(tmp_path: Path) -> None:
    """The same inputs are left as by delta debugging, for fewer steps."""
    lines = run(tmp_path, "shrinking.py", "--ticks", "300", figures=False).splitlines()

    assert len(lines) == 3
    for line in lines:
        counts = [int(count.replace(",", "")) for count in re.findall(r"(?:debugging|shrink) ([\d,]+)", line)]
        assert line.endswith("the same: True")
        assert counts[0] > 3 * counts[1]


@pytest.mark.seldom(0.15)
def test_sharding(tmp_path: Path) -> None:
    """The path, the processes and the state of one size."""
    rows = [{"engine": "pipes", "shards": 2, "bytes": size, "processor": 1, "least": size} for size in (1, 9)]
    (tmp_path / "exchanges.json").write_text(json.dumps({"rows": rows}))
    run(tmp_path, "sharding.py", "--quick", "--exchanges", "exchanges.json", "--json", "sharding.json", figures=False)
    (result,) = json.loads((tmp_path / "sharding.json").read_text())["results"]
    assert {kind: [*result[kind]] for kind in ("path", "processes", "state")} == {
        "path": ["2"], "processes": ["2"], "state": ["2"],
    }  # fmt: skip


@pytest.mark.seldom(0.15)
def test_shard_exchanges(tmp_path: Path) -> None:
    """Pipes and actors, for each number of shards and size."""
    few = ("--shards", "2", "--bytes", "10", "100", "--steps", "4")
    run(tmp_path, "shard_exchanges.py", *few, "--json", "exchanges.json", figures=False)
    rows = json.loads((tmp_path / "exchanges.json").read_text())["rows"]
    assert [(row["engine"], row["bytes"]) for row in rows] == [
        ("pipes", 10), ("actors", 10), ("pipes", 100), ("actors", 100),
    ]  # fmt: skip
