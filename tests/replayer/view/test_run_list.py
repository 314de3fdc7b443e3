"""The list of the runs of a folder: what it shows, what is opened from it, and what never is."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from optional_packages import needs
from waiting import wait_until

from recorder import Recorder

from small_worlds import Walkers, record
from viewed_worlds import TICKS, Pond, inputs_of_pond

needs("starlette", "httpx2", "websockets", "uvicorn")

from starlette.testclient import TestClient  # noqa: E402
from starlette.websockets import WebSocketDisconnect  # noqa: E402

from recorder.corpus.corpus import Corpus  # noqa: E402
from replayer.view.listening import ViewRequest, pages_of  # noqa: E402
from replayer.view.listing.listed_runs import folder_name  # noqa: E402
from replayer.view.listing.run_pages import OPEN_MAX, RunPages  # noqa: E402

PORT, TOKEN = 8123, "a-token-of-this-test"
BASE = f"http://127.0.0.1:{PORT}"
STRANGE = "a b#ü.tape"


class Measured(Pond):
    """A pond with two figures; the first never changes."""

    def telemetry(self) -> dict[str, int]:
        """Figures of the tick."""
        return {"frogs": self.state.count("frogs"), "water": int(self.state["water"].sum())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ponds, one with a strange name, a damaged, a torn, and no tape; next to the folder lies another tape."""
    found = tmp_path_factory.mktemp("list") / "runs"
    found.mkdir()
    for name in ("measured.tape", STRANGE):
        record(found / name, Measured(), inputs_of_pond(TICKS), keyframe_interval_ticks=20)
    content = (found / "measured.tape").read_bytes()
    (found / "torn.tape").write_bytes(content[: len(content) // 2])
    damaged = bytearray(content)
    damaged[len(content) // 2 : len(content) // 2 + 64] = bytes(64)
    (found / "damaged.tape").write_bytes(damaged)
    (found / "none.tape").write_text("hello")
    (found / "notes.txt").write_text("secret")
    record(found.parent / "outside.tape", Walkers(), [None] * 3)
    (found / "link.tape").symlink_to(found.parent / "outside.tape")
    return found


@contextlib.contextmanager
def client_of(folder: Path) -> Iterator[tuple[TestClient, RunPages]]:
    """A browser that was given the address of a folder."""
    pages = pages_of(ViewRequest([], "viewed_worlds:Pond", folder=folder, arguments=["replay", "view", str(folder)]))
    assert isinstance(pages, RunPages)
    with TestClient(pages.app("127.0.0.1", PORT, TOKEN), base_url=BASE) as client:
        assert "runs.js" in client.get(f"/?token={TOKEN}").text
        yield client, pages


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[tuple[TestClient, RunPages]]:
    """As client_of."""
    with client_of(folder) as found:
        yield found


def rows_of(client: TestClient) -> dict[str, dict[str, Any]]:
    """The list by name."""
    return {row["name"]: row for row in client.get("/api/runs").json()["runs"]}


def test_it_lists_the_runs_that_ls_lists(opened: tuple[TestClient, RunPages], folder: Path) -> None:
    """With their statuses, damaged ones among them, and nothing else of the folder."""
    client, _ = opened
    rows, runs = rows_of(client), {run.tape: run for run in Corpus.open(folder)}
    assert rows.keys() == runs.keys()
    for name, run in runs.items():
        assert (rows[name]["ticks"], rows[name]["size"]) == (run.ticks, run.size_bytes)
    assert rows["measured.tape"]["ticks"] == TICKS
    assert {name: row["status"] for name, row in rows.items() if name != "damaged.tape"} == {
        "measured.tape": "not checked",
        STRANGE: "not checked",
        "link.tape": "not checked",
        "torn.tape": "incomplete",
        "none.tape": "unreadable",
    }
    assert rows["none.tape"]["error"] == "this is not a tape"


def test_a_run_is_opened_by_its_name(opened: tuple[TestClient, RunPages]) -> None:
    """Its processes start then, and its frames come by its own WebSocket. A strange name is a name like any other."""
    client, pages = opened
    key = quote(STRANGE)
    assert STRANGE not in pages.open_runs
    assert client.get(f"/run/{key}", follow_redirects=False).headers["location"] == f"{key}/"
    assert "main.js" in client.get(f"/run/{key}/").text
    assert pages.open_runs[-1] == STRANGE
    facts = client.get(f"/run/{key}/api/info").json()
    assert (facts["tapes"][0]["last"], facts["folder"]) == (TICKS, "runs")
    with client.websocket_connect(f"ws://127.0.0.1:{PORT}/run/{key}/frames", headers={"origin": BASE}) as socket:
        assert "hello" in socket.receive_text()


@pytest.mark.parametrize(
    "key",
    [
        "../outside.tape",
        "..%2foutside.tape",
        "%2e%2e%2foutside.tape",
        "link.tape",
        "notes.txt",
        "..",
        ".",
        "",
        "nothing.tape",
        "measured.tape%00",
        "%2Ftmp%2Fx.tape",
    ],
)
def test_nothing_outside_of_the_list_is_opened(opened: tuple[TestClient, RunPages], key: str) -> None:
    """No path that leads out of the folder, no link, no other file: by HTTP, WebSocket, or as a small curve."""
    client, pages = opened
    before = list(pages.open_runs)
    assert client.get(f"/run/{key}/api/info").status_code == 404
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect(f"ws://127.0.0.1:{PORT}/run/{key}/frames", headers={"origin": BASE}),
    ):
        pass
    for sketch in client.get(f"/api/sketches?run={key}").json().values():
        assert sketch["points"] == []
    assert pages.open_runs == before


def test_a_damaged_run_is_listed_as_such_once_it_was_read(opened: tuple[TestClient, RunPages]) -> None:
    """Its index hides the damage from a list; the page of the run reads all blocks."""
    client, _ = opened
    client.get("/run/damaged.tape/api/info")
    wait_until(lambda: rows_of(client)["damaged.tape"]["status"] == "corrupt")
    assert "not a tape" in client.get("/run/none.tape/api/info").json()["tapes"][0]["refused"]


def test_a_small_curve_shows_a_figure_that_changes(opened: tuple[TestClient, RunPages]) -> None:
    """Its values are those of a plain run; a figure can be named."""
    client, _ = opened
    pond, truth = Measured(), {}
    for tick, inputs in enumerate(inputs_of_pond(TICKS), start=1):
        pond.step(inputs)
        truth[tick] = pond.telemetry()
    for query, figure in (("", "water"), ("&figure=frogs", "frogs"), ("&figure=gone", "water")):
        sketch = client.get(f"/api/sketches?run=measured.tape{query}").json()["measured.tape"]
        assert (sketch["figure"], sketch["figures"]) == (figure, ["frogs", "water"])
        assert sketch["points"][-1][0] == TICKS
        assert all(value == truth[tick][figure] for tick, value in sketch["points"] if tick)


@pytest.mark.seldom(0.18)
def test_a_run_that_is_being_recorded_is_followed(tmp_path: Path) -> None:
    """The list says so, and its page is the one of replay view --live."""
    with Recorder(tmp_path / "run.tape", Measured()) as recorder, client_of(tmp_path) as (client, _):
        for inputs in inputs_of_pond(TICKS)[:9]:
            recorder.step(inputs)
        recorder.flush()
        wait_until(lambda: rows_of(client)["run.tape"]["status"] == "being recorded")
        tape = client.get("/run/run.tape/api/info").json()["tapes"][0]
        assert (tape["live"], tape["last"]) == ("recording", 9)


@pytest.mark.seldom(0.18)
def test_the_processes_of_a_few_runs_are_kept(folder: Path, tmp_path: Path) -> None:
    """A further run takes the place of the one that no page shows for longest; one that a page shows keeps its place."""
    many = tmp_path / "many"
    many.mkdir()
    names = [f"{number}.tape" for number in range(OPEN_MAX + 2)]
    for name in names:
        shutil.copy(folder / "none.tape", many / name)
    with client_of(many) as (client, pages):
        for name in names:
            client.get(f"/run/{name}/")
        assert pages.open_runs == names[2:]
        client.get(f"/run/{names[2]}/")
        client.get(f"/run/{names[0]}/")
        assert pages.open_runs == [*names[4:], names[2], names[0]]


@pytest.mark.seldom(0.18)
def test_new_runs_come_into_the_list(folder: Path, tmp_path: Path) -> None:
    """A run that is added later can be opened, one that is removed leaves the list."""
    changing = tmp_path / "changing"
    changing.mkdir()
    shutil.copy(folder / "measured.tape", changing / "first.tape")
    with client_of(changing) as (client, _):
        assert list(rows_of(client)) == ["first.tape"]
        (changing / "first.tape").rename(changing / "second.tape")
        wait_until(lambda: list(rows_of(client)) == ["second.tape"])
        assert client.get("/run/second.tape/api/info").json()["tapes"][0]["last"] == TICKS
        changing.rename(tmp_path / "away")
        wait_until(lambda: client.get("/api/runs").json()["error"] is not None)


def test_a_folder_that_is_named_by_dots_is_shown_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`replay view .` has the title of the folder; the root has its path."""
    runs = tmp_path / "my runs" / "deep"
    runs.mkdir(parents=True)
    monkeypatch.chdir(runs)
    named = [folder_name(Path(name)) for name in (".", "..", "../..", "../deep", "/")]
    assert named == ["deep", "my runs", tmp_path.name, "deep", "/"]
