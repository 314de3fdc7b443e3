"""A tape that is being recorded, on the page: its head is followed, and nothing that watches changes the recording."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from optional_packages import needs
from waiting import wait_until

from recorder import Recorder

from project_paths import ROOT
from viewed_worlds import TICKS, MeasuredPond, inputs_of_pond, pond_at

needs("starlette", "httpx2", "websockets", "uvicorn")

from starlette.testclient import TestClient  # noqa: E402
from starlette.websockets import WebSocketDisconnect  # noqa: E402

from replayer.tape.tape import Tape  # noqa: E402
from replayer.view.difference_frames import DifferenceFrames  # noqa: E402
from replayer.view.listening import ViewRequest, pages_of  # noqa: E402
from replayer.view.live.growing_marks import GrowingMarks  # noqa: E402
from replayer.view.mark_index import MarkIndex  # noqa: E402
from replayer.view.page_session import UNSEEN_MAX, PageSession  # noqa: E402
from replayer.view.states.frame_encoding import EncodedTick  # noqa: E402
from replayer.view.viewed_tape import Head, ViewedTape  # noqa: E402
from replayer.view.worker.tape_marks import mark_parts  # noqa: E402

PORT, TOKEN, WAIT_S, HEAD = 8123, "a-token-of-this-test", 60, 8
BASE = f"http://127.0.0.1:{PORT}"
PROGRAM = "from replayer.commands.main import main; main()"
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests/support")])


class Page:
    """A connected page, which paints what it gets."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._waiting = socket, ThreadPoolExecutor(1)
        self.heads: list[int] = []
        self.name = ""

    def send(self, op: str, **more: Any) -> None:
        self._socket.send_text(json.dumps({"op": op, **more}))

    def _receive(self) -> tuple[dict[str, Any] | None, bytes]:
        received = self._waiting.submit(self._socket.receive).result(WAIT_S)
        text = received.get("text")
        return (json.loads(text), b"") if text is not None else (None, received.get("bytes") or b"")

    def stream_message(self) -> dict[str, Any]:
        """The next message of the stream for programs."""
        _, data = self._receive()
        message: dict[str, Any] = msgpack.unpackb(data)
        return message

    def message(self, kind: str) -> dict[str, Any]:
        """The next message of a kind."""
        while True:
            message, _ = self._receive()
            if message is not None and message["kind"] == kind:
                return message

    def frame(self, tick: int, flag: int = 0) -> tuple[int, int]:
        """Tick shown and hash of the next frame for a tick that has a flag. Each head on the way is painted."""
        while True:
            _, data = self._receive()
            if not data:
                continue
            _, _, flags, _, _, asked, shown, state_hash = struct.unpack_from("<BBBBIQQQ", data)
            if flags & HEAD:
                self.heads.append(asked)
                self.send("seen")
            if asked == tick and flags & flag == flag and not flags & 1:
                return shown, state_hash


@contextlib.contextmanager
def recording(path: Path, ticks: int, **options: Any) -> Iterator[Recorder]:
    """A recorder whose first ticks have been recorded."""
    with Recorder(path, MeasuredPond(), keyframe_interval_ticks=20, **options) as recorder:
        step_to(recorder, ticks)
        yield recorder


def step_to(recorder: Recorder, tick: int) -> None:
    """Record up to a tick."""
    for inputs in inputs_of_pond(TICKS)[recorder.tick : tick]:
        recorder.step(inputs)


@contextlib.contextmanager
def watching(
    path: Path, pages: int = 1, delay_ticks: int = 0, sim: str = "viewed_worlds:Pond"
) -> Iterator[tuple[TestClient, list[Page]]]:
    """`replay view --live` of a tape, and connected pages that look at its water."""
    wait_until(lambda: has_keyframe(path))
    server = pages_of(ViewRequest([path], sim, cache_bytes=1 << 20, is_live=True, delay_ticks=delay_ticks))
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(TestClient(server.app("127.0.0.1", PORT, TOKEN), base_url=BASE))
        client.get(f"/?token={TOKEN}")
        opened = []
        for _ in range(pages):
            socket = client.websocket_connect(f"ws://127.0.0.1:{PORT}/frames", headers={"origin": BASE})
            opened.append(Page(stack.enter_context(socket)))
            opened[-1].name = opened[-1].message("hello")["page"]
            opened[-1].send("look", layers=["water"], difference=False, curves=["water"])
        yield client, opened


def has_keyframe(path: Path) -> bool:
    """Return True once the first keyframe is on the disk."""
    with Tape(path) as tape:
        return bool(tape.keyframes)


def truth_at(tick: int) -> int:
    """The hash of a plain run."""
    return pond_at(tick).state.hash()


@pytest.mark.seldom(0.15)
def test_pages_follow_the_head_and_see_the_end(tmp_path: Path) -> None:
    """Each head has the hash of a plain run; one page looks back meanwhile; in the end it is a page as any other."""
    path = tmp_path / "run.tape"
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(recording(path, 7))
        client, (follower, other) = stack.enter_context(watching(path, 2))
        assert client.get("/api/info").json()["tapes"][0]["live"] == "recording"
        for page in (follower, other):
            page.send("follow", on=True)
        for tick in (7, 8, 31):
            step_to(recorder, tick)
            for page in (follower, other):
                assert page.frame(tick, HEAD) == (tick, truth_at(tick))
        other.send("follow", on=False)
        other.send("seek", id=1, tick=3, drag=False)
        assert other.frame(3) == (3, truth_at(3))
        step_to(recorder, 40)
        assert follower.frame(40, HEAD) == (40, truth_at(40))
        assert other.message("grown")["last"] <= 40
        assert 40 not in other.heads
        other.send("follow", on=True)
        assert other.frame(40, HEAD) == (40, truth_at(40))
        step_to(recorder, TICKS)
        recorder.close({"reason": "done"})
        facts = follower.message("recording")["facts"]
        assert (facts["live"], facts["being_written"], facts["sealed"]) == ("ended", False, True)
        assert facts["outcome"] == {"reason": "done"}
        follower.send("seek", id=2, tick=TICKS, drag=False)
        assert follower.frame(TICKS) == (TICKS, truth_at(TICKS))
        wait_until(lambda: client.get("/api/info").json()["tapes"][0]["status"] == "intact")
        shown = client.get("/api/tracks", params={"first": 0, "last": TICKS, "bins": TICKS + 1}).json()
        assert [tick for tick, count in enumerate(shown["keyframes"]) if count] == [0, 20, 40, 60]
        assert [tick for tick, count in enumerate(shown["inputs"]) if count] == [10, 20, 30, 40, 50, 60]


@pytest.mark.seldom(0.15)
def test_a_program_gets_each_state_of_the_run(tmp_path: Path) -> None:
    """The stream begins with a state; with the changes of each tick, it is that of a plain run. Then comes the end."""
    path, state, hashes = tmp_path / "run.tape", dict[str, Any](), dict[int, str]()
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(recording(path, 5))
        client, _ = stack.enter_context(watching(path, 0))
        client.get("/api/info")
        client.cookies.clear()  # A program has none.
        bearer = {"authorization": f"Bearer {TOKEN}"}
        for headers in ({}, {"authorization": "Bearer wrong"}, bearer | {"origin": "http://evil.example"}):
            with (
                pytest.raises(WebSocketDisconnect) as refusal,
                client.websocket_connect(f"ws://127.0.0.1:{PORT}/stream", headers=headers),
            ):
                pass
            assert refusal.value.code == 1008
        page = Page(stack.enter_context(client.websocket_connect(f"ws://127.0.0.1:{PORT}/stream", headers=bearer)))
        while (message := page.stream_message())["kind"] != "end":
            apply_message(state, message)
            hashes[message["tick"]] = message["hash"]
            assert state["water"].tobytes() == pond_at(message["tick"]).state["water"].tobytes()
            assert state["frogs.energy"].tobytes() == pond_at(message["tick"]).state["frogs.energy"].tobytes()
            if message["tick"] == recorder.tick and not recorder.is_closed:
                step_to(recorder, recorder.tick + 7)
                if recorder.tick == TICKS:
                    recorder.close()
    assert message == {"kind": "end", "tick": TICKS, "why": "ended"}
    assert min(hashes) <= 5
    assert hashes[TICKS] == f"{truth_at(TICKS):016x}"
    assert hashes == {tick: f"{truth_at(tick):016x}" for tick in hashes}


@pytest.mark.seldom(0.18)
def test_spectators_see_the_run_later(tmp_path: Path) -> None:
    """The page shows nothing of the last ticks: not by following, seeking, describing or from marks; in the end, all of it."""
    path = tmp_path / "run.tape"
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(recording(path, 45))
        recorder.flush()
        client, (page,) = stack.enter_context(watching(path, 1, delay_ticks=15))
        page.send("follow", on=True)
        assert page.frame(30, HEAD) == (30, truth_at(30))
        assert client.get("/api/info").json()["tapes"][0]["last"] == 30
        bearer = {"authorization": f"Bearer {TOKEN}"}
        program = Page(stack.enter_context(client.websocket_connect(f"ws://127.0.0.1:{PORT}/stream", headers=bearer)))
        assert program.stream_message()["tick"] <= 30
        page.send("seek", id=1, tick=40, drag=False)
        assert page.frame(30) == (30, truth_at(30))
        described = client.get("/api/detail", params={"page": page.name, "tick": 40, "part": "tick"}).json()
        assert described["tick"] == 30
        wait_until(lambda: marks_of(client, "keyframes") == [0, 20])
        assert marks_of(client, "inputs") == [10, 20, 30]
        wait_until(lambda: 30 in known_ticks(client))
        assert max(known_ticks(client)) == 30
        step_to(recorder, TICKS)
        assert page.frame(TICKS - 15, HEAD) == (TICKS - 15, truth_at(TICKS - 15))
        while (message := program.stream_message())["tick"] < TICKS - 15:
            pass
        assert (message["tick"], message["hash"]) == (TICKS - 15, f"{truth_at(TICKS - 15):016x}")
        recorder.close()
        assert page.message("recording")["facts"]["live"] == "ended"
        wait_until(lambda: marks_of(client, "keyframes") == [0, 20, 40, 60])
        page.send("seek", id=2, tick=TICKS, drag=False)
        assert page.frame(TICKS) == (TICKS, truth_at(TICKS))


def known_ticks(client: TestClient) -> list[int]:
    """The ticks whose water is known: from telemetry, or computed while the cache was filled."""
    return [tick for tick, _ in known_points(client, 0, TICKS)]


def known_points(client: TestClient, first: int, last: int) -> list[tuple[int, float]]:
    """The points of the curve of the water between two ticks."""
    query: dict[str, str | int] = {"name": "water", "first": first, "last": last, "bins": 99}
    found = client.get("/api/curve", params=query).json()["points"]
    return [(tick, value) for tick, value in found if first <= tick <= last and value is not None]


def marks_of(client: TestClient, kind: str, name: str | None = None, first: int = 0, last: int = TICKS) -> list[int]:
    """The ticks that have a mark. name: the kind of events, of which a tick comes once for each."""
    found = client.get("/api/tracks", params={"first": first, "last": last, "bins": TICKS + 1}).json()[kind]
    if name is not None:
        return [first + at for at, count in enumerate(found[name]) for _ in range(count)]
    return [first + tick for tick, count in enumerate(found) if count]


def apply_message(state: dict[str, Any], message: dict[str, Any]) -> None:
    """Take a message of the stream, as the client in docs/view.md does."""
    for name, field in message["fields"].items():
        state[name] = np.frombuffer(field["data"], field["dtype"]).reshape(field["shape"]).copy()
    for name, cells in message.get("cells", {}).items():
        flat = state[name].reshape(-1)
        flat[np.frombuffer(cells["at"], "<u4")] = np.frombuffer(cells["data"], flat.dtype)


@pytest.mark.seldom(0.18)
def test_a_recording_whose_process_was_killed_has_stopped(tmp_path: Path) -> None:
    """The page says so, and has all of its ticks."""
    path = tmp_path / "run.tape"
    program = (
        "import sys\nfrom recorder import Recorder\nfrom viewed_worlds import Pond, inputs_of_pond\n"
        f"recorder = Recorder({str(path)!r}, Pond(), keyframe_interval_ticks=20)\n"
        "for inputs in inputs_of_pond(30): recorder.step(inputs)\nprint('ready', flush=True)\nsys.stdin.read()"
    )
    command, environment = [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": PATHS}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with watching(path) as (_, (page,)):
            page.send("follow", on=True)
            assert page.frame(30, HEAD) == (30, truth_at(30))
            process.kill()
            assert page.message("recording")["facts"]["live"] == "stopped"
            page.send("seek", id=1, tick=29, drag=False)
            assert page.frame(29) == (29, truth_at(29))


@pytest.mark.seldom(0.18)
def test_a_watcher_that_is_stopped_and_killed_changes_no_byte(tmp_path: Path) -> None:
    """Of a deterministic tape, equal to one without a watcher."""
    for name in ("watched", "alone"):
        path = tmp_path / f"{name}.tape"
        with contextlib.ExitStack() as stack:
            recorder = stack.enter_context(recording(path, 15, deterministic=True))
            if name == "watched":
                arguments = ["view", "--live", str(path), "--no-browser", "--sim", "viewed_worlds:Pond"]
                command, environment = [sys.executable, "-c", PROGRAM, *arguments], {**os.environ, "PYTHONPATH": PATHS}
                watcher = stack.enter_context(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
                assert watcher.stdout is not None
                assert watcher.stdout.readline().startswith(b"http://127.0.0.1:")
                step_to(recorder, 25)
                children = Path(f"/proc/{watcher.pid}/task/{watcher.pid}/children").read_text().split()
                assert len(children) >= 3
                for stopped in (watcher.pid, *map(int, children)):
                    os.kill(stopped, signal.SIGSTOP)
                step_to(recorder, 35)
                watcher.send_signal(signal.SIGKILL)
                watcher.wait()
            step_to(recorder, TICKS)
    alone, watched = (
        {file.name.removeprefix(name): file.read_bytes() for file in tmp_path.iterdir() if file.name.startswith(name)}
        for name in ("alone", "watched")
    )
    assert watched == alone
    for child in map(int, children):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGCONT)  # It ends then, since its parent has gone.
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_a_slow_page_skips_what_comes_meanwhile() -> None:
    """It never has more than two heads on their way, and the next one is the newest; another page gets all."""
    tape = ViewedTape(0, Path("none.tape"), None, None, 0)
    slow, quick = (PageSession([tape], DifferenceFrames()) for _ in range(2))
    for page in (slow, quick):
        page.take('{"op": "follow", "on": true}')
    for tick in range(1, 101):
        for page in (slow, quick):
            page.head(0, Head(tick, EncodedTick(tick, tick, {}, b"", {}), {}))
        quick.take('{"op": "seen"}')
        if tick == 70:
            slow.take('{"op": "seen"}')
    for _ in range(5):
        slow.take('{"op": "seen"}')
    assert heads_of(slow) == [*range(1, UNSEEN_MAX + 1), 70, 100]
    assert heads_of(quick) == list(range(1, 101))
    quick.take('{"op": "follow", "on": false}')
    quick.head(0, Head(101, EncodedTick(101, 101, {}, b"", {}), {}))
    assert heads_of(quick) == []


def heads_of(page: PageSession) -> list[int]:
    """The ticks of the frames that wait for a page."""
    waiting = []
    while not page._queue.empty():
        message = page._queue.get_nowait()
        if isinstance(message, bytes):
            waiting.append(struct.unpack_from("<BBBBIQ", message)[5])
    return waiting


def test_marks_that_are_read_while_the_tape_grows_are_those_of_the_whole_tape(tmp_path: Path) -> None:
    """Each mark once, however often they are read."""
    path, growing, complete = tmp_path / "run.tape", MarkIndex(), MarkIndex()
    with recording(path, 3, events=True) as recorder:
        wait_until(lambda: has_keyframe(path))
        with Tape(path) as tape:
            marks = GrowingMarks(tape)
            for tick in range(4, TICKS + 1, 4):
                step_to(recorder, tick)
                if tick % 16 == 0:
                    recorder.flush()
                tape.refresh()
                growing.extend(marks.added())
            recorder.close()
            tape.refresh()
            growing.extend(marks.added())
            assert marks.added() == {}
    with Tape(path) as tape:
        for part in mark_parts(tape, None):
            complete.add(part())
    before, after = (index.tracks(0, TICKS, TICKS + 1) for index in (growing, complete))
    assert sum(map(sum, after["events"].values())) > 5
    for name in ("keyframes", "inputs", "events"):
        assert before[name] == after[name]
    for one, other in zip(growing.telemetry("water") or (), complete.telemetry("water") or (), strict=True):
        assert np.array_equal(one, other)
    assert complete.telemetry("water") is not None


@pytest.mark.parametrize("names", [["one.tape", "two.tape"], ["."]])
def test_only_one_tape_can_be_followed(capsys: pytest.CaptureFixture[str], tmp_path: Path, names: list[str]) -> None:
    """Not two, and no folder."""
    import replayer.commands.main
    from recorder.console.app import run_app

    from oracle.command_lines import assert_one_line

    for name in ("one.tape", "two.tape"):
        with recording(tmp_path / name, 2):
            pass
    words = ["view", "--no-browser", "--live", *(str(tmp_path / name) for name in names)]
    assert run_app(replayer.commands.main.load(words), words) == 2
    assert_one_line(capsys.readouterr(), "--live follows one tape: name it alone")
    words = ["view", "--no-browser", str(tmp_path / "one.tape"), "--delay", "3"]
    assert run_app(replayer.commands.main.load(words), words) == 2
    assert_one_line(capsys.readouterr(), "--delay is for a run that is being recorded: add --live")


@pytest.mark.seldom(0.15)
def test_telemetry_and_events_come_with_their_tick(tmp_path: Path) -> None:
    """Before their blocks are written: those of a plain run. What the tape has then takes their place, each mark once."""
    path, plain, jumps = tmp_path / "run.tape", MeasuredPond(), list[int]()
    water = {0: plain.telemetry()["water"]}
    for tick, inputs in enumerate(inputs_of_pond(TICKS), start=1):
        plain.step(inputs)
        water[tick] = plain.telemetry()["water"]
        jumps += [tick] * sum(event["kind"] == "jump" for event in plain.events())
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(recording(path, 7, events=True))
        client, (page,) = stack.enter_context(watching(path, sim="viewed_worlds:MeasuredPond"))
        page.send("follow", on=True)
        page.frame(7, HEAD)
        for tick in range(8, 20):
            step_to(recorder, tick)
            page.frame(tick, HEAD)
            head = page.message("head")
            assert (head["tick"], head["figures"]["water"]) == (tick, water[tick])
            assert dict(head["events"]).get(tick, {}).get("jump", 0) == jumps.count(tick)
        assert dict(known_points(client, 8, 19)) == {tick: water[tick] for tick in range(8, 20)}
        assert marks_of(client, "events", "jump", 8, 19) == [tick for tick in jumps if 8 <= tick < 20]
        described = client.get("/api/detail", params={"page": page.name, "tick": 19, "part": "tick"}).json()
        assert described["events_from"] in {"step", "tape"}  # The second, if the writer was quicker.
        assert len([one for one in described["events"] if one["kind"] == "jump"]) == jumps.count(19)
        step_to(recorder, TICKS)
        recorder.close()
        assert page.message("recording")["facts"]["live"] == "ended"
        wait_until(lambda: client.get("/api/info").json()["tapes"][0]["status"] == "intact")
        assert dict(known_points(client, 0, TICKS)) == water
        assert marks_of(client, "events", "jump", 0, TICKS) == jumps


def test_what_the_tape_has_takes_the_place_of_what_was_foreseen() -> None:
    """Also if it differs; and what is foreseen late of a tick that the tape has is dropped."""
    marks = MarkIndex()
    marks.foresee({tick: {"water": tick} for tick in (1, 2, 3)}, {2: {"jump": 2}, 3: {"jump": 1}})
    assert [*map(list, marks.telemetry("water") or ())] == [[1, 2, 3], [1, 2, 3]]
    assert marks.tracks(0, 3, 4)["events"] == {"jump": [0, 0, 2, 1]}
    table = {"tick": np.array([0, 1, 2]), "water": np.array([9, 8, 7])}
    marks.extend({"telemetry": table, "event_ticks": {"jump": np.array([2])}, "events_until": 2})
    marks.foresee({2: {"water": 5}}, {2: {"jump": 9}})
    assert [*map(list, marks.telemetry("water") or ())] == [[0, 1, 2, 3], [9, 8, 7, 3]]
    assert marks.tracks(0, 3, 4)["events"] == {"jump": [0, 0, 1, 1]}
    marks.add({"telemetry": table})
    marks.add({"event_ticks": {"jump": np.array([2])}})
    assert [*map(list, marks.telemetry("water") or ())] == [[0, 1, 2], [9, 8, 7]]
    assert marks.tracks(0, 3, 4)["events"] == {"jump": [0, 0, 1, 0]}
