"""The server of the page without a browser: who is refused, what is answered, what travels over the WebSocket."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import needs
from waiting import wait_until

import replayer

from small_worlds import record
from viewed_worlds import (
    EXTRA_TICK,
    FROGS,
    HEIGHT,
    HOSTILE,
    TICKS,
    WIDTH,
    DriftingPond,
    Game,
    Pond,
    pond_at,
    record_ponds,
)

needs("starlette", "httpx2", "websockets", "uvicorn")

from starlette.testclient import TestClient  # noqa: E402
from starlette.websockets import WebSocketDisconnect  # noqa: E402

from replayer.diagnose.compare.tape_diff import diff_tapes  # noqa: E402
from replayer.report.tape_facts import tape_facts  # noqa: E402
from replayer.view.access_guard import is_loopback  # noqa: E402
from replayer.view.difference_frames import DifferenceFrames  # noqa: E402
from replayer.view.page_session import PageSession  # noqa: E402
from replayer.view.server import ViewServer  # noqa: E402
from replayer.view.states.frame_encoding import EncodedTick  # noqa: E402
from replayer.view.viewed_tape import ViewedTape  # noqa: E402
from replayer.view.worker.page_jobs import ViewSelection  # noqa: E402

from oracle.second_reader import FRAMES, FULL, Reader  # noqa: E402

WAIT_S = 60  # For a message.
PORT, TOKEN = 8123, "a-token-of-this-test"
HOST = f"127.0.0.1:{PORT}"
BASE = f"http://{HOST}"
SOCKET = f"ws://{HOST}/frames"


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """As record_ponds makes them."""
    return record_ponds(tmp_path_factory.mktemp("view"))


@pytest.fixture(scope="module")
def client(tapes: list[Path]) -> Iterator[TestClient]:
    """A browser that was given the address with the token."""
    others = [tapes[1], None]
    viewed = [ViewedTape(side, path, "viewed_worlds:Pond", others[side], 1 << 20) for side, path in enumerate(tapes)]
    with TestClient(ViewServer(viewed).app("127.0.0.1", PORT, TOKEN), base_url=BASE) as opened:
        assert opened.get(f"/?token={TOKEN}").status_code == 200
        yield opened


class Page:
    """A connected page, which reads frames by the bytes of frame_encoding's docstring."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self._waiting = ThreadPoolExecutor(1)
        self.name = self.message("hello")["page"]

    def receive(self) -> dict[str, Any]:
        """The next message of any kind; a server that sends none is an error, and no endless wait."""
        received: dict[str, Any] = self._waiting.submit(self.socket.receive).result(WAIT_S)
        return received

    def message(self, kind: str) -> dict[str, Any]:
        """The next message of a kind; others are skipped."""
        while True:
            received = self.receive()
            if "text" in received and (found := json.loads(received["text"]))["kind"] == kind:
                return dict(found)

    def frame(self, side: int, tick: int) -> dict[str, Any]:
        """The next frame of a tape for a tick, without previews."""
        return self.frames(side, {tick})[tick]

    def frames(self, side: int, ticks: set[int]) -> dict[int, dict[str, Any]]:
        """The next frames of a tape for some ticks, in any order."""
        frames: dict[int, dict[str, Any]] = {}
        while frames.keys() < ticks:
            received = self.receive()
            if received.get("bytes") is None:
                continue
            data = received["bytes"]
            _, found, flags, count, _, asked, shown, state_hash = struct.unpack_from("<BBBBIQQQ", data)
            if found == side and asked in ticks and not flags & 1:
                frames[asked] = {"flags": flags, "shown": shown, "hash": state_hash, "layers": count, "body": data[32:]}
        return frames

    def look(self, *layers: str, difference: bool = False, curves: tuple[str, ...] = ()) -> None:
        self.socket.send_text(json.dumps({"op": "look", "layers": layers, "difference": difference, "curves": curves}))

    def seek(self, tick: int, *, drag: bool = False) -> None:
        self.socket.send_text(json.dumps({"op": "seek", "id": 1, "tick": tick, "drag": drag}))


def frames_waiting(session: PageSession) -> list[tuple[int, int, int]]:
    """Of the frames that wait for a page: flags, tick asked and tick shown."""
    waiting = []
    while not session._queue.empty():
        _, _, flags, _, _, asked, shown, _ = struct.unpack_from("<BBBBIQQQ", session._queue.get_nowait())
        waiting.append((flags, asked, shown))
    return waiting


@pytest.fixture
def page(client: TestClient) -> Iterator[Page]:
    """A connected page."""
    with client.websocket_connect(SOCKET, headers={"origin": BASE}) as socket:
        yield Page(socket)


def water_of(frame: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The first layer's values, decoded."""
    _, _, steps, width, height, _, low, high = struct.unpack_from("<HBBIIIdd", frame["body"])
    codes = np.frombuffer(frame["body"], np.uint8, width * height, 32).reshape(height, width)
    decoded: np.ndarray[Any, Any] = low + codes / steps * (high - low)
    return decoded


# --- who is refused


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:8124", "", "a@127.0.0.1:8123"]
)
def test_a_host_that_is_not_ours_is_refused(client: TestClient, host: str) -> None:
    """A page that reaches this server under its own name (DNS rebinding) gets nothing, cookie or not."""
    for path in ("/", "/f/main.js", "/api/info", f"/?token={TOKEN}"):
        answer = client.get(path, headers={"host": host})
        assert (answer.status_code, answer.text) == (403, "refused: host\n")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8123", "http://127.0.0.1:8124"])
def test_a_request_of_another_site_is_refused(client: TestClient, origin: str) -> None:
    """By HTTP and by WebSocket; a WebSocket without an origin is refused, too."""
    assert client.get("/api/info", headers={"origin": origin}).text == "refused: origin\n"
    for headers in ({"origin": origin}, {}):
        with pytest.raises(WebSocketDisconnect) as refusal, client.websocket_connect(SOCKET, headers=headers):
            pass
        assert (refusal.value.code, refusal.value.reason) == (1008, "refused: origin")


def test_without_the_token_nothing_is_served(client: TestClient) -> None:
    """Nor with another one; the token counts at the page's own address only."""
    stranger = TestClient(client.app, base_url=BASE)
    for path in (
        "/",
        "/?token=",
        "/?token=wrong",
        "/f/main.js",
        f"/f/main.js?token={TOKEN}",
        f"/api/info?token={TOKEN}",
    ):
        answer = stranger.get(path, follow_redirects=False)
        assert (answer.status_code, answer.text) == (403, "refused: token\n")
    with pytest.raises(WebSocketDisconnect) as refusal, stranger.websocket_connect(SOCKET, headers={"origin": BASE}):
        pass
    assert refusal.value.reason == "refused: token"


def test_the_token_becomes_a_cookie_and_leaves_the_address(client: TestClient) -> None:
    """One that scripts cannot read, and that no other site makes the browser send."""
    answer = TestClient(client.app, base_url=BASE).get(f"/?token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"replay-view-{PORT}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_each_answer_forbids_scripts_in_the_page_and_requests_elsewhere(client: TestClient) -> None:
    """Refusals included."""
    for path, host in (("/", HOST), ("/f/main.js", HOST), ("/api/info", HOST), ("/nothing", HOST), ("/", "evil")):
        policy = client.get(path, headers={"host": host}).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert client.get(path, headers={"host": host}).headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "name", ["../server.py", "..%2fserver.py", "%2e%2e/server.py", "/etc/passwd", "one.tape", "__init__.py", ""]
)
def test_no_file_but_those_of_the_page_is_served(client: TestClient, name: str) -> None:
    """No path comes from a request."""
    answer = client.get(f"/f/{name}")
    assert answer.status_code == 404
    assert "import" not in answer.text


def test_the_page_has_no_script_or_style_inside(client: TestClient) -> None:
    """The policy would block them; and each file that it names is served."""
    text = client.get("/").text
    assert "<style" not in text
    assert " style=" not in text
    assert "onclick" not in text
    named = [part.split('"')[0] for part in text.split("/f/")[1:]]
    assert named
    for name in named:
        assert client.get(f"/f/{name}").status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])
def test_only_loopback_is_loopback(host: str) -> None:
    """All else needs a token that was chosen."""
    assert not is_loopback(host)
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))


# --- what is answered


def test_a_seek_shows_the_state_of_the_tick(page: Page) -> None:
    """Its hash and its values are those of a plain run; points are where the frogs are."""
    page.look("water")
    for tick in (0, 41, 7, 60, 59):
        page.seek(tick)
        frame, truth = page.frame(0, tick), pond_at(tick)
        assert (frame["shown"], frame["hash"]) == (tick, truth.state.hash())
        water = truth.state["water"]
        assert np.abs(water_of(frame) - water).max() <= max(1, np.ptp(water)) / 255
        kind, count = struct.unpack_from("<II", frame["body"], 32 + HEIGHT * WIDTH)
        places = struct.unpack_from(f"<{3 * count}f", frame["body"], 40 + HEIGHT * WIDTH)
        assert (kind, count) == (0, FROGS)
        assert list(places[::3]) == [x + 0.5 for x in truth.state["frogs.x"].tolist()]


def test_a_newer_seek_replaces_older_ones(page: Page) -> None:
    """Of a drag over many ticks the last one arrives, whatever was skipped."""
    page.look("water")
    for tick in range(60):
        page.seek(tick, drag=True)
    page.seek(23)
    assert page.frame(0, 23)["hash"] == pond_at(23).state.hash()


def test_a_drag_shows_the_nearest_tick_that_is_known(tapes: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """At once one of the same keyframe interval, then nearer ones as they come, and nothing that is further."""
    monkeypatch.setattr(ViewedTape, "seek", lambda *_, **__: None)  # No process: the test says what arrives.
    tape = ViewedTape(0, tapes[0], None, None, 10**9)
    tape.facts = {"first": 0, "last": TICKS, "layers": ["water"], "curves": []}
    tape.marks.add({"keyframe_ticks": np.array([0, 20, 40, 60])})
    session = PageSession([tape], DifferenceFrames())
    session.take('{"op": "look", "layers": ["water"], "difference": false, "curves": []}')
    look = ViewSelection(("water",))

    def arrives(tick: int) -> list[tuple[int, int, int]]:
        tape.cache.look_at(tick, look)
        tape.cache.put(tick, EncodedTick(tick, tick, {"water": b"x"}, b"", {}))
        session.reached(0, tick)
        return frames_waiting(session)

    for known in (5, 19, 41):
        assert arrives(known) == []
    for goal, drag, shown in ((30, True, []), (10, True, [(1, 10, 5)]), (19, True, [(2, 19, 19)]), (12, False, [])):
        session.take(json.dumps({"op": "seek", "id": 1, "tick": goal, "drag": drag}))
        assert frames_waiting(session) == shown
    session.take('{"op": "seek", "id": 1, "tick": 33, "drag": true}')
    assert [arrives(tick) for tick in (20, 45, 25, 22, 33)] == [
        [(1, 33, 20)],
        [(1, 33, 45)],
        [(1, 33, 25)],
        [],
        [(0, 33, 33)],
    ]


def test_a_block_is_played_and_ticks_outside_of_the_tape_are_not_asked_for(page: Page) -> None:
    """Ticks beyond the end are the last one."""
    page.look("water")
    page.socket.send_text(json.dumps({"op": "block", "ticks": [12, 11, 10]}))
    for tick, frame in page.frames(0, {10, 11, 12}).items():
        assert frame["hash"] == pond_at(tick).state.hash()
    page.seek(10**15)
    assert page.frame(0, TICKS)["hash"] == pond_at(TICKS).state.hash()


def test_a_difference_marks_the_one_cell_that_differs(page: Page) -> None:
    """Byte 128 is equal; before the extra drop all cells are."""
    page.look("water", difference=True)
    for tick, cells in ((EXTRA_TICK - 1, []), (EXTRA_TICK, [[2, 1]])):
        page.seek(tick)
        frame = page.frame(2, tick)
        codes = np.frombuffer(frame["body"], np.uint8, HEIGHT * WIDTH, 32).reshape(HEIGHT, WIDTH)
        assert np.argwhere(codes != 128).tolist() == cells


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", "{}", '{"op": "seek"}', '{"op": "seek", "id": 1, "tick": -1, "drag": false}',
     '{"op": "seek", "id": 1, "tick": "5", "drag": false}', '{"op": "block", "ticks": [true]}', "[" * 5000,
     '{"op": "look", "layers": ["../x", 5], "difference": false, "curves": [null, "rng"]}'],
)  # fmt: skip
def test_a_message_that_is_not_understood_is_dropped(page: Page, text: str) -> None:
    """The page goes on to be served."""
    page.socket.send_text(text)
    page.look("water")
    page.seek(5)
    assert page.frame(0, 5)["layers"] == 1


def test_marks_are_those_of_the_tape_and_of_replay_diff(client: TestClient, page: Page, tapes: list[Path]) -> None:
    """Events by kind, inputs, keyframes, the first difference with its fields."""
    tracks = {}
    while not tracks.get("complete"):
        tracks = client.get(f"/api/tracks?first=0&last={TICKS}&bins=5000").json()
        if not tracks["complete"]:
            page.message("marks")  # More is known now.
    with replayer.open(tapes[0], Pond) as run, replayer.open(tapes[1], Pond) as second:
        events = list(run.tape.events())
        truth = diff_tapes(run.tape, second.tape)
        keyframes = [place.tick for place in run.tape.keyframes]
    assert [tick for tick, count in enumerate(tracks["keyframes"]) if count] == keyframes
    assert [tick for tick, count in enumerate(tracks["inputs"]) if count] == [10, 20, 30, 40, 50, 60]
    assert sum(tracks["event_counts"].values()) == len(events)
    assert [tick for tick, count in enumerate(tracks["events"]["jump"]) if count] == [
        tick for tick, event in events if event["kind"] == "jump"
    ]
    assert (tracks["difference"]["first"], tracks["difference"]["inputs"]) == (EXTRA_TICK, EXTRA_TICK)
    assert truth.first_bad == EXTRA_TICK
    assert tracks["difference"]["fields"] == list(truth.ticks[0].fields or ())
    assert [tick for tick, count in enumerate(tracks["differences"]) if count] == [one.tick for one in truth.ticks]
    jump = client.get(f"/api/jump?kind=difference&tick={EXTRA_TICK - 5}").json()
    assert jump == {"tick": EXTRA_TICK}


def test_a_tick_is_described(client: TestClient, page: Page) -> None:
    """Inputs, events, fields and rows as in a plain run, with what changed in the tick."""
    truth, before = pond_at(20), pond_at(19)

    def described(**query: object) -> dict[str, Any]:
        parameters = {"tick": 20, "page": page.name, **query}
        return dict(client.get("/api/detail", params={key: str(value) for key, value in parameters.items()}).json())

    tick = described(part="tick")
    assert (tick["hash"], tick["recorded_hash"]) == (f"{truth.state.hash():016x}",) * 2
    assert tick["inputs"] == [{"x": 3, "y": 4, "drops": 5}]
    hostile = [event for event in tick["events"] if event["kind"] != "jump"]
    assert hostile[0]["where"] == HOSTILE.replace("\u202e", "\\u202e")

    fields = {field["name"]: field["changed"] for field in described(part="fields")["fields"]}
    for name in ("water", "rained", "frogs.energy"):
        assert fields[name] == int((truth.state[name] != before.state[name]).sum())

    rows = described(part="tables", table="frogs", sort="energy", descending=1, filter="id >= 2")["table"]
    ids = next(column for column in rows["columns"] if column["name"] == "id")["values"]
    energies = truth.state["frogs.energy"]
    assert sorted(ids) == [2, 3, 4, 5]
    assert [energies[number - 1] for number in ids] == sorted(energies[1:], reverse=True)
    assert described(part="tables", table="frogs", filter="; drop")["table"]["problem"]
    assert described(part="tables", table="../x")["table"] is None

    assert described(layer="water", x=3, y=4)["cell"] == str(truth.state["water"][4, 3])
    assert described(layer="water", x=99, y=4)["cell"] is None


def test_a_curve_of_a_field_is_computed_on_the_way(client: TestClient, page: Page) -> None:
    """The sum of the field at each tick of the tape, as the cache fills."""
    page.look("water", curves=("water", "rained"))
    page.seek(3)
    truth = {name: [[t, float(pond_at(t).state[name].sum())] for t in range(TICKS + 1)] for name in ("water", "rained")}
    points: dict[str, Any] = {}
    for _ in range(100):  # The first messages may be about what was filled before.
        page.message("fill")
        for name in truth:
            points[name] = client.get(f"/api/curve?name={name}&first=0&last={TICKS}&bins=500").json()["points"]
        if points == truth:
            break
    assert points == truth
    assert client.get("/api/curve?name=nothing&first=0&last=9&bins=5").json() == {"points": []}
    answer = client.get("/curves.csv?name=rained&name==1%2B1&first=9&last=10")
    assert answer.headers["content-disposition"] == 'attachment; filename="curves.csv"'
    heading, *lines = answer.text.splitlines()
    assert heading == "tick,A rained,A =1+1,B rained,B =1+1"
    found = [line.split(",")[:3] for line in lines]
    assert found == [[str(tick), str(float(pond_at(tick).state["rained"])), ""] for tick in (9, 10)]


@pytest.mark.parametrize(
    "query", ["", "first=x&last=9", "first=0&last=99999999999999999999999", "first=0&last=9&bins=-5", "first=9&last=0"]
)
def test_numbers_of_requests_are_bounded(client: TestClient, query: str) -> None:
    """Nonsense gets an answer of a bounded size, or a refusal, and no error."""
    for path in ("tracks", "curve", "jump"):
        answer = client.get(f"/api/{path}?{query}")
        assert answer.status_code in {200, 400}
        assert len(answer.content) < 100_000


def test_a_detail_needs_a_connected_page(client: TestClient) -> None:
    """No one else makes the simulation run."""
    assert client.get("/api/detail?tick=5&page=unknown").status_code == 400


def test_what_a_page_that_has_gone_still_asks_is_no_mistake(client: TestClient) -> None:
    """A page may ask before it notices that its connection is lost: it is told so, and its browser notes no error."""
    with client.websocket_connect(SOCKET, headers={"origin": BASE}) as socket:
        name = Page(socket).name
    answer = wait_until(
        lambda: answer if (answer := client.get(f"/api/detail?tick=5&page={name}").json()).get("gone") else None
    )
    assert answer == {"gone": True}


# --- tapes of other kinds


@pytest.mark.seldom(0.15)
def test_objects_are_shown_by_paths_and_a_missing_simulation_shows_keyframes(tmp_path: Path) -> None:
    """With the class each tick, without it the keyframe before."""
    import recorder

    path = tmp_path / "game.tape"
    with recorder.record(Game(), path, keyframe_interval_ticks=4) as game:
        for _ in range(10):
            game.step()
    truth = Game()
    for _ in range(7):
        truth.step()
    for sim, shown in (("viewed_worlds:Game", 7), (None, 4)):
        viewed = ViewedTape(0, path, sim, None, 0)
        with TestClient(ViewServer([viewed]).app("127.0.0.1", PORT, TOKEN), base_url=BASE) as client:
            client.get(f"/?token={TOKEN}")
            facts = client.get("/api/info").json()["tapes"][0]
            assert (facts["problem"] is None) == (sim is not None)
            assert facts["has_object"]
            if sim is not None:  # Two values change in the fourth step; turn has further names.
                assert facts["first_curves"][:2] == ["turn", "units[1].hp"]
            with client.websocket_connect(SOCKET, headers={"origin": BASE}) as socket:
                page = Page(socket)
                found = client.get(f"/api/detail?tick=7&page={page.name}&part=object").json()
        leaves = {leaf[0]: leaf[1] for leaf in found["leaves"]}
        assert found["shown"] == shown
        assert leaves["turn"] == shown
        if sim is not None:
            assert [leaves[f"units[{number}].hp"] for number in range(3)] == [unit.hp for unit in truth.units]
            assert {leaf[0] for leaf in found["leaves"] if leaf[2]} == {"turn", "units[1].hp"}


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("kind", [FRAMES, FULL])
def test_damage_is_marked_as_replay_info_tells_it(kind: int, tmp_path: Path) -> None:
    """Status, lost ticks and keyframes, once all blocks were read; of a damaged keyframe, too."""
    path = tmp_path / "pond.tape"
    record(path, Pond(), [[]] * 300, keyframe_interval_ticks=20, full_every=1)
    content = bytearray(path.read_bytes())
    block = [one for one in Reader(bytes(content), 0).blocks if one.kind == kind][5]
    content[block.offset + 72 : block.offset + 112] = bytes(40)  # Of its payload, behind the header.
    path.write_bytes(content)
    with replayer.Tape(path) as tape:
        truth = tape_facts(tape)
    assert truth["status"] == "corrupt"
    with TestClient(
        ViewServer([ViewedTape(0, path, "viewed_worlds:Pond", None, 0)]).app("127.0.0.1", PORT, TOKEN), base_url=BASE
    ) as client:
        client.get(f"/?token={TOKEN}")
        with client.websocket_connect(SOCKET, headers={"origin": BASE}) as socket:
            page = Page(socket)
            while (facts := client.get("/api/info").json()["tapes"][0])["status"] == "not checked":
                page.message("marks")
    assert (facts["status"], facts["missing"]) == (truth["status"], truth["missing_ticks"])
    assert facts["keyframes"] == truth["full_keyframes"] + truth["delta_keyframes"]


@pytest.mark.seldom(0.15)
def test_a_desync_is_reported_at_its_tick_and_other_intervals_are_shown(tmp_path: Path) -> None:
    """The page learns the tick, and the marks have it."""
    path = tmp_path / "pond.tape"
    record(path, Pond(), [[]] * 40, keyframe_interval_ticks=20)
    with replayer.open(path, DriftingPond) as run:
        first_bad = run.verify().first_bad
    viewed = ViewedTape(0, path, "viewed_worlds:DriftingPond", None, 0)
    with TestClient(ViewServer([viewed]).app("127.0.0.1", PORT, TOKEN), base_url=BASE) as client:
        client.get(f"/?token={TOKEN}")
        with client.websocket_connect(SOCKET, headers={"origin": BASE}) as socket:
            page = Page(socket)
            page.look("water")
            page.seek(18)
            trouble = page.message("trouble")
            assert (trouble["tick"], trouble["side"]) == (first_bad, 0)
            assert client.get("/api/tracks?first=0&last=40&bins=40").json()["troubles"][0][0] == first_bad
            page.seek(20)
            truth = Pond()
            for _ in range(20):
                truth.step([])
            assert page.frame(0, 20)["hash"] == truth.state.hash()
