"""A desync from its dump: as recorded and as replayed, side by side; findings as marks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from tiny_roles import Ring

import replayer
from recorder.scenarios import run_with_scenario
from replayer.commands.main import main
from replayer.desync.dump.dump_source import dump_source
from replayer.view.finding_folder import findings_beside, read_finding
from replayer.view.mark_index import MarkIndex
from replayer.view.worker.finding_cursors import make_cursor
from replayer.view.worker.page_jobs import ViewSelection
from replayer.view.worker.tape_marks import mark_parts

from oracle.command_lines import run
from small_worlds import record
from viewed_worlds import DriftingPond, Pond, inputs_of_pond

TICKS, INTERVAL = 60, 20


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dump of a pond whose code has changed, next to its tape."""
    folder = tmp_path_factory.mktemp("finding")
    record(folder / "pond.tape", Pond(), inputs_of_pond(TICKS), keyframe_interval_ticks=INTERVAL)
    with replayer.Timeline(folder / "pond.tape", DriftingPond, dump_folder=folder) as run:
        run.verify()
    (found,) = (path for path in folder.iterdir() if path.is_dir())
    return found


def recorded_at(tick: int) -> Pond:
    """The pond as it was recorded, by a plain loop."""
    pond = Pond()
    for inputs in inputs_of_pond(TICKS)[:tick]:
        pond.step(inputs)
    return pond


def replayed_at(tick: int) -> Pond:
    """The changed pond, by a plain loop from the keyframe before the tick."""
    start = max(0, tick - 1) // INTERVAL * INTERVAL
    pond = DriftingPond()
    pond.state.restore(recorded_at(start).state.snapshot())
    for inputs in inputs_of_pond(TICKS)[start:tick]:
        pond.step(inputs)
    return pond


def first_bad(interval_start: int) -> int:
    """The first tick of an interval that differs."""
    return next(
        tick
        for tick in range(interval_start + 1, TICKS + 2)
        if replayed_at(tick).state.hash() != recorded_at(tick).state.hash()
    )


@pytest.mark.parametrize("order", ["up", "down"])
@pytest.mark.seldom(0.18)
def test_each_side_shows_its_own_states(dump: Path, order: str) -> None:
    """Where only a hash is recorded, the last tick that agrees is shown, and said to be another tick."""
    tape = dump.parent / "pond.tape"
    recorded, replayed = (make_cursor(tape, DriftingPond, role) for role in ("recorded", "replayed"))
    bad = {start: first_bad(start) for start in range(0, TICKS, INTERVAL)}
    assert bad[0] == read_finding(dump).tick
    assert read_finding(dump).compared_tick == INTERVAL
    ticks = range(TICKS + 1)
    look = ViewSelection(("water",), exact=True)
    for tick in ticks if order == "up" else reversed(ticks):
        assert recorded.walk(tick, lambda: False)
        snapshot, shown = recorded.state(tick)
        start = tick // INTERVAL * INTERVAL
        is_known = tick == start or tick < bad[start]
        assert shown == (tick if is_known else bad[start] - 1)
        assert snapshot.hash() == recorded_at(shown).state.hash()
        assert recorded.encode(snapshot, shown, look).shown == shown

        assert replayed.walk(tick, lambda: False)
        snapshot, shown = replayed.state(tick)
        assert (shown, snapshot.hash()) == (tick, replayed_at(tick).state.hash())


def test_recorded_changes_give_each_recorded_state(tmp_path: Path) -> None:
    """A tape with the changes of each tick has all states, whatever the simulation does."""
    tape = tmp_path / "pond.tape"
    record(tape, Pond(), inputs_of_pond(TICKS), keyframe_interval_ticks=INTERVAL, mode="changes")
    recorded = make_cursor(tape, DriftingPond, "recorded")
    for tick in (0, 11, 12, 19, 20, 45, TICKS):
        recorded.walk(tick, lambda: False)
        snapshot, shown = recorded.state(tick)
        assert (shown, snapshot.hash()) == (tick, recorded_at(tick).state.hash())


def test_a_walk_of_the_replayed_side_can_be_ended(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a step, and it goes on later."""
    monkeypatch.setattr("replayer.view.worker.view_cursor.ASK_S", -1.0)
    replayed = make_cursor(dump.parent / "pond.tape", DriftingPond, "replayed")
    replayed.walk(1, lambda: False)
    answers = iter([False, False, True])
    assert not replayed.walk(15, lambda: next(answers))
    assert replayed.walk(15, lambda: False)
    assert replayed.state(15)[0].hash() == replayed_at(15).state.hash()


def test_the_texts_of_a_dump(dump: Path) -> None:
    """One line, the report, and what the user put beside it; no control characters."""
    finding = read_finding(dump)
    assert finding.title == f"DESYNC at tick {finding.tick}, field water"
    assert finding.report.startswith(f"# Desync at tick {finding.tick}")
    assert finding.explanation == ""
    (dump / "explain.txt").write_text("cause: \u202erain\x1b[2J", encoding="utf-8")
    try:
        assert read_finding(dump).explanation == "cause: \\u202erain\\x1b[2J"
    finally:
        (dump / "explain.txt").unlink()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"tick": "3"}', "{", '{"tick": 3, "run_id": "another"}'])
def test_only_dumps_of_the_run_are_found_beside_a_tape(dump: Path, content: str) -> None:
    """Other folders, of other runs or broken, are not."""
    tape = dump.parent / "pond.tape"
    (dump.parent / "pond.desync-999").mkdir()
    (dump.parent / "pond.desync-999/finding.json").write_text(content)
    try:
        with replayer.Tape(tape) as opened:
            found = findings_beside(tape, opened.run_id)
        source = dump_source(dump)
        assert source is not None
        title = read_finding(dump).title
        [(tick, words)] = found
        assert tick == source.tick
        written = (dump / "finding.json").stat().st_mtime
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(written))
        said = f"an earlier verify of {when}, with the code of then, found: {title}"
        assert words == f"{said}; side by side: replay view {dump.name}"
        assert findings_beside(tape, "no run") == []
    finally:
        (dump.parent / "pond.desync-999/finding.json").unlink()
        (dump.parent / "pond.desync-999").rmdir()


def test_violated_properties_are_marks(tmp_path: Path) -> None:
    """Those of a scenario, as its result has them; a world's own event of that name is none."""
    never = {"name": "noise", "seed": 2, "properties": [{"name": "few", "kind": "always", "when": "in_flight < 0"}]}
    run_with_scenario(Ring(), never, steps=5, tape=tmp_path / "a.tape")
    marks = MarkIndex()
    with replayer.Tape(tmp_path / "a.tape") as tape:
        truth = [(tick, event) for tick, event in tape.events() if event["kind"] == "violation"]
        for part in mark_parts(tape, None):
            marks.add(part())
    assert truth
    assert [tick for tick, _ in marks.findings] == [tick for tick, _ in truth]
    assert marks.findings[0][1] == f"property few is violated: {truth[0][1]['details']}"


class Shouting(Pond):
    """Its events have the name of a scenario's."""

    def events(self) -> list[dict[str, Any]]:
        return [{"kind": "violation", "property": "p", "details": "d"}]


def test_a_worlds_own_violation_is_no_finding(tmp_path: Path) -> None:
    """Without a scenario, nothing is claimed."""
    record(tmp_path / "a.tape", Shouting(), [None] * 3)
    marks = MarkIndex()
    with replayer.Tape(tmp_path / "a.tape") as tape:
        for part in mark_parts(tape, None):
            marks.add(part())
    assert marks.tracks(0, 3, 4)["event_counts"] == {"violation": 4}
    assert marks.findings == []


@pytest.fixture
def client(dump: Path) -> Iterator[Any]:
    """A browser at the page of the dump."""
    from optional_packages import needs

    needs("starlette", "httpx2", "websockets", "uvicorn")
    from starlette.testclient import TestClient

    from replayer.view.listening import ViewRequest, viewed_tapes
    from replayer.view.server import ViewServer

    finding = read_finding(dump)
    request = ViewRequest([dump.parent / "pond.tape"], "viewed_worlds:DriftingPond", finding=finding)
    app = ViewServer(viewed_tapes(request), finding).app("127.0.0.1", 8123, "a-token-of-this-test")
    with TestClient(app, base_url="http://127.0.0.1:8123") as opened:
        opened.get("/?token=a-token-of-this-test")
        yield opened


@pytest.mark.seldom(0.15)
def test_the_page_is_told_of_the_finding(client: Any, dump: Path) -> None:
    """Both sides have their role; the mark and the jump lead to the tick."""
    finding = read_finding(dump)
    info = json.loads(client.get("/api/info").text)
    assert [tape["role"] for tape in info["tapes"]] == ["recorded", "replayed"]
    assert info["finding"] == attrs.asdict(finding)
    tracks = client.get(f"/api/tracks?first=0&last={TICKS}&bins=100").json()
    assert [finding.tick, finding.title] in tracks["troubles"]
    assert client.get("/api/jump?kind=finding&tick=0").json() == {"tick": finding.tick}
    assert client.get(f"/api/jump?kind=finding&tick={finding.tick}").json() == {"tick": None}
    assert client.get(f"/api/jump?kind=finding&tick={TICKS}&back=1").json() == {"tick": finding.tick}


def test_a_verification_that_passes_names_the_dumps_that_it_did_not_find_again(
    dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that finds a desync again, and the machine's own lines, do not."""
    tape, words = str(dump.parent / "pond.tape"), "not found again: "
    assert run(main, f"verify {tape} --sim viewed_worlds:Pond -j 1") == 0
    assert f"{words}{dump.name} of 20" in capsys.readouterr().out
    folder = dump.parent / "others"
    assert run(main, f"verify {tape} --sim viewed_worlds:DriftingPond -j 1 --dump-folder {folder}") == 1
    assert words not in capsys.readouterr().out
    assert run(main, f"verify {tape} --sim viewed_worlds:Pond -j 1 --json") == 0
    assert words not in capsys.readouterr().out
