"""Questions of a page about the whole run: answered as by brute force; a branch is that of a plain loop, beside its parent."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs
from waiting import wait_until

import replayer

from small_worlds import record
from viewed_worlds import TICKS, Pond, inputs_of_pond, pond_at

needs("starlette", "httpx2", "websockets", "uvicorn")

from starlette.testclient import TestClient  # noqa: E402

from replayer.view.listening import ViewRequest, pages_of  # noqa: E402
from replayer.view.questions.page_questions import BranchQuestion  # noqa: E402
from replayer.view.questions.question_desk import _Asker, remove_tape  # noqa: E402
from replayer.view.viewed_tape import ViewedTape  # noqa: E402

PORT, TOKEN, WAIT_S = 8123, "a-token-of-this-test", 60
BASE = f"http://127.0.0.1:{PORT}"
SIM = "viewed_worlds:Pond"


class Asking:
    """A connected page that asks."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._waiting, self._count = socket, ThreadPoolExecutor(1), 0

    def send(self, **message: Any) -> None:
        self._socket.send_text(json.dumps({"op": "ask", **message}))

    def ask(self, **question: Any) -> dict[str, Any]:
        """The answer to a question; its progress is skipped."""
        self._count += 1
        self.send(id=self._count, side=question.pop("side", 0), question=question)
        while True:
            received = self._waiting.submit(self._socket.receive).result(WAIT_S)
            message = json.loads(received.get("text") or "{}")
            if message.get("kind") == "answer" and message["id"] == self._count and "facts" in message:
                return dict(message["facts"])


def asked(client: TestClient, path: str = "/frames") -> Any:
    """The socket of a page."""
    client.get(f"/?token={TOKEN}")
    client.get(path.replace("frames", "api/info"))
    return client.websocket_connect(f"ws://127.0.0.1:{PORT}{path}", headers={"origin": BASE})


def serve(tmp_path: Path, **request: Any) -> TestClient:
    """The pages of the tape of a pond."""
    path = tmp_path / "pond.tape"
    if not path.exists():
        record(path, Pond(), inputs_of_pond(TICKS), keyframe_interval_ticks=20)
    server = pages_of(ViewRequest([path], SIM, **request))
    return TestClient(server.app("127.0.0.1", PORT, TOKEN), base_url=BASE)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[tuple[TestClient, Asking, Path]]:
    """A page of a pond."""
    with serve(tmp_path) as client, asked(client) as socket:
        yield client, Asking(socket), tmp_path


@pytest.mark.seldom(0.15)
def test_find_and_who_are_those_of_brute_force(page: tuple[TestClient, Asking, Path]) -> None:
    """The next tick, the one before, all of them; the last change of a cell and the one before that. Mistakes are one line."""
    _, asking, _ = page
    ponds = [pond_at(tick) for tick in range(TICKS + 1)]
    holds = [tick for tick, pond in enumerate(ponds) if pond.state["water"].max() % 2 == 1]
    find = {"what": "find", "condition": "water.max() % 2 == 1", "tick": 25}
    assert asking.ask(**find, way="next")["tick"] == next(tick for tick in holds if tick > 25)
    assert asking.ask(**find, way="before")["tick"] == [tick for tick in holds if tick < 25][-1]
    every = asking.ask(**find, way="all")
    assert [tick for first, last in every["ranges"] for tick in range(first, last + 1)] == holds
    assert every["text"] == [f"holds at {len(holds)} of ticks 0 to {TICKS}"]
    none = asking.ask(what="find", condition="water.max() > 1000", way="next", tick=10)
    assert (none["tick"], none["text"]) == (None, [f"holds at no tick of ticks 11 to {TICKS}"])
    assert asking.ask(**(find | {"tick": TICKS}), way="next")["text"] == [f"there is no tick after tick {TICKS}"]

    cell = [int(pond.state["water"][4, 3]) for pond in ponds]
    changes = [tick for tick in range(1, TICKS + 1) if cell[tick] != cell[tick - 1]]
    who = {"what": "who", "value": "water", "row": [4, 3], "entity": None}
    last = asking.ask(**who, tick=TICKS)
    assert last["tick"] == changes[-1]
    assert last["title"].startswith(f"water[4, 3]: {cell[changes[-1] - 1]} → {cell[changes[-1]]} at tick")
    assert any("viewed_worlds.py" in line for line in last["text"])
    assert asking.ask(**who, tick=last["earlier"])["tick"] == changes[-2]
    for question, why in (
        (find | {"condition": "water.max( >", "way": "next"}, "water.max( >"),
        (find | {"condition": "fire > 3", "way": "all"}, "fire"),
        (find | {"condition": "__import__('os')", "way": "all"}, "__import__"),
        (find | {"tick": 999, "way": "next"}, "there is no tick 999: the tape has ticks 0 to 60"),
        (who | {"value": "nothing", "tick": 3}, "nothing"),
        (who | {"row": ["x"], "tick": 3}, "this is no question that can be answered"),
        ({"what": "else"}, "this is no question that can be answered"),
    ):
        error = asking.ask(**question)["error"]
        assert why in error
        assert "\n" not in error


@pytest.mark.seldom(0.18)
def test_a_branch_is_recorded_and_shown_beside_its_parent(page: tuple[TestClient, Asking, Path]) -> None:
    """It is the run of a plain loop with these inputs; before the fork its side shows the parent's ticks."""
    client, asking, folder = page
    extra: dict[str, Any] = {"tick": 33, "inputs": [{"x": 1, "y": 2, "drops": 1}]}
    branch = {"what": "branch", "at": 30, "until": 50}
    made = asking.ask(**branch, inputs=json.dumps(extra))
    assert (made["name"], made["at"], made["first_different"]) == ("pond-at-30.tape", 30, 33)
    assert made["text"] == ["ticks 30 to 50", "the same to tick 32, first different at tick 33"]
    plain = Pond()
    for tick, inputs in enumerate(inputs_of_pond(50), start=1):
        plain.step(extra["inputs"] if tick == 33 else inputs)
    with replayer.open(folder / "pond-at-30.tape", Pond) as run:
        assert run.at(50).hash() == plain.state.hash()

    address = f"/{made['address']}"
    facts = client.get(f"{address}api/info").json()
    assert [(tape["name"], tape["first"], tape["last"]) for tape in facts["tapes"]] == [
        ("pond.tape", 0, TICKS),
        ("pond-at-30.tape", 0, 50),
    ]
    assert facts["command"].split()[:2] == ["replay", "view"]
    with asked(client, f"{address}frames") as socket:
        name = next(found["page"] for found in iter(lambda: json.loads(socket.receive()["text"]), None))
        for tick, inputs in ((12, []), (30, inputs_of_pond(30)[29]), (33, extra["inputs"])):
            query = {"side": 1, "page": name, "tick": tick, "part": "tick"}
            found = client.get(f"{address}api/detail", params=query).json()
            assert (found["shown"], found["inputs"]) == (tick, inputs)
            assert found["hash"] == found["recorded_hash"]
            assert (found["hash"] == f"{pond_at(tick).state.hash():016x}") == (tick < 33)
    assert client.get("/beside/9/").status_code == 404

    again = asking.ask(**branch, inputs="")
    assert (again["name"], again["first_different"]) == ("pond-at-30-2.tape", None)
    before = sorted(path.name for path in folder.iterdir())
    for question, why in (
        (branch | {"inputs": "{"}, 'inputs, line 1: expected {"tick": 5'),
        (branch | {"inputs": '{"tick": 20, "inputs": []}'}, "tick 20 is not one of the branch, 31 to 50"),
        (branch | {"inputs": "", "until": 61}, "there is no tick 61"),
        (branch | {"inputs": "", "at": 50}, "expected a later last tick"),
        (branch | {"inputs": '{"tick": 40, "inputs": [{"x": 99}]}'}, "inputs: the step to tick 40"),
    ):
        assert why in asking.ask(**question)["error"]
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.seldom(0.15)
def test_a_branch_that_is_opened_alone_leads_to_its_parent(tmp_path: Path) -> None:
    """If that is there."""
    with serve(tmp_path) as client, asked(client) as socket:
        Asking(socket).ask(what="branch", at=30, until=50, inputs="")
    server = pages_of(ViewRequest([tmp_path / "pond-at-30.tape"], SIM))
    with TestClient(server.app("127.0.0.1", PORT, TOKEN), base_url=BASE) as client:
        client.get(f"/?token={TOKEN}")
        facts = client.get("/api/info").json()
        assert (facts["tapes"][0]["first"], facts["tapes"][0]["parent"]["name"]) == (30, "pond.tape")
        beside = client.get(f"/{facts['beside']}api/info").json()
        assert [tape["name"] for tape in beside["tapes"]] == ["pond.tape", "pond-at-30.tape"]
    (tmp_path / "pond.tape").unlink()
    server = pages_of(ViewRequest([tmp_path / "pond-at-30.tape"], SIM))
    with TestClient(server.app("127.0.0.1", PORT, TOKEN), base_url=BASE) as client:
        client.get(f"/?token={TOKEN}")
        facts = client.get("/api/info").json()
        assert (facts["beside"], facts["tapes"][0]["parent"]["path"]) == (None, None)


@pytest.mark.sample(1)
@pytest.mark.parametrize("request_more", [{"host": "0.0.0.0"}, {"delay_ticks": 5}])
@pytest.mark.seldom(0.18)
def test_who_is_not_at_this_machine_or_sees_later_writes_nothing(tmp_path: Path, request_more: dict[str, Any]) -> None:
    """A branch is refused; questions are answered."""
    with serve(tmp_path, **request_more) as client, asked(client) as socket:
        asking = Asking(socket)
        assert "replay branch" in asking.ask(what="branch", at=30, until=50, inputs="")["error"]
        assert asking.ask(what="find", condition="tick == 7", way="next", tick=3)["tick"] == 7
    assert [path.name for path in tmp_path.iterdir()] == ["pond.tape"]


@pytest.mark.seldom(0.5)
def test_a_question_that_is_not_wanted_any_more_ends(tmp_path: Path) -> None:
    """A newer question, a cancelled one and a page that goes end its process; a branch under way leaves no tape."""
    with serve(tmp_path) as client, asked(client) as socket:
        asking = Asking(socket)
        asking.send(id=91, side=0, question={"what": "find", "condition": "water.max() > 900", "way": "all", "tick": 0})
        asking.send(id=92, side=0, question={"what": "branch", "at": 30, "until": 60, "inputs": ""})
        asking.send(id=93, question=None)
        assert asking.ask(what="find", condition="tick == 7", way="next", tick=3)["tick"] == 7
        asking.send(id=94, side=0, question={"what": "who", "value": "water", "row": [0, 0], "entity": None, "tick": 9})
    wait_until(lambda: not [one for one in threading.enumerate() if "_end_slowly" in one.name])
    complete = [replayer.Tape(path).sealed for path in tmp_path.glob("*.tape")]
    assert all(complete)


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_branch_whose_process_was_killed_is_removed_unless_it_is_complete(
    tmp_path: Path, *, is_complete: bool
) -> None:
    """A process ends with the thread that started it: with that of the server, in a notebook, it cannot clean up."""
    target = tmp_path / "pond-at-30.tape"
    record(target, Pond(), inputs_of_pond(30))
    if not is_complete:
        with target.open("r+b") as file:
            file.truncate(target.stat().st_size - 40)
    assert replayer.Tape(target).sealed == is_complete

    async def ask_and_go() -> None:
        heard: list[object] = []
        asker = _Asker(ViewedTape(0, tmp_path / "pond.tape", None, None, 0), lambda _, message: heard.append(message))
        asker.ask(BranchQuestion(30, 60, {}, target))
        asker._process.kill()
        asker._process.join()
        asker.end()

    asyncio.run(ask_and_go())
    wait_until(lambda: not [one for one in threading.enumerate() if "_end_slowly" in one.name])
    assert target.exists() == is_complete


def test_the_files_of_a_branch_that_was_cut_off_are_removed(tmp_path: Path) -> None:
    """Its further files and its journal, too, and nothing else."""
    path = tmp_path / "pond-at-9.tape"
    for name in (
        "pond-at-9.tape",
        "pond-at-9.tape.1",
        "pond-at-9.tape.12",
        "pond-at-9.tape.journal",
        "pond-at-9.tape.x",
    ):
        (tmp_path / name).write_bytes(b"some")
    for _ in range(2):
        remove_tape(path)
        assert [one.name for one in tmp_path.iterdir()] == ["pond-at-9.tape.x"]
