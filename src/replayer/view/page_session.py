"""One page that looks at the tapes: what it wants, and what is on its way to it.

Who is slow loses the oldest messages, never the newest, and asks again for what it still wants.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from recorder.location.tape_location import Location
from replayer.view.difference_frames import DifferenceFrames
from replayer.view.questions.question_desk import QuestionDesk
from replayer.view.states.frame_encoding import CACHED, HEAD, OTHER_TICK, PREVIEW, EncodedTick, encode_head
from replayer.view.viewed_tape import Head, ViewedTape
from replayer.view.worker.page_jobs import ViewSelection

LAYERS_MAX, CURVES_MAX, BLOCK_TICKS_MAX = 12, 8, 64
QUEUE_MAX = 400
UNSEEN_MAX = 2  # One is painted while the next is on its way.
TICK_MAX = 2**63 - 1
DIFFERENCE_SIDE = 2


class Branches(Protocol):
    """Where branches are shown beside their parents."""

    def add(self, parent: Location, branch: Location) -> str:
        """Where the page of both is, relative to this one."""


class PageSession:
    """One page.

    Attributes:
        name: random; it names the page in the messages of the processes.
    """

    def __init__(
        self, tapes: Sequence[ViewedTape], differences: DifferenceFrames, branches: Branches | None = None
    ) -> None:
        """branches: where the branches are shown that the page records; None if it may record none."""
        self.name = secrets.token_hex(8)
        self._writes = branches is not None
        self._desk = QuestionDesk(self.announce, branches.add if branches is not None else lambda *_: "")
        self._tapes, self._differences = tapes, differences
        self._look = ViewSelection()
        self._request = 0
        self._wanted: set[tuple[int, int]] = set()  # Side and tick.
        self._dragged: dict[int, int] = {}  # By side the tick that a drag is at, and is not shown yet.
        self._nearest: dict[int, int] = {}  # By side, how far from it the tick is that was sent in its place.
        self._follows = False
        self._head: tuple[int, Head] | None = None  # The newest that was not sent, with its side.
        self._unseen = 0  # Heads that were sent, and which the page has not painted yet.
        self._queue: asyncio.Queue[str | bytes] = asyncio.Queue(QUEUE_MAX)

    async def next_message(self) -> str | bytes:
        """The next message for the page; waits for one."""
        return await self._queue.get()

    def announce(self, message: Mapping[str, Any]) -> None:
        """Send JSON."""
        self._put(json.dumps(message))

    def take(self, text: str) -> None:
        """Obey a message of the page. One that is not understood is dropped: it is not from our page."""
        try:
            match json.loads(text):
                case {"op": "look", "layers": list(layers), "difference": bool(difference), "curves": list(curves)}:
                    self._look_at(layers, curves, difference=difference)
                case {"op": "seek", "id": int(request), "tick": int(tick), "drag": bool(drag)} if _is_tick(tick):
                    self._seek(request, tick, is_drag=drag)
                case {"op": "follow", "on": bool(on)}:
                    self._follow(on=on)
                case {"op": "seen"}:
                    self._unseen = max(0, self._unseen - 1)
                    self._send_head()
                case {"op": "ask", "id": int(number), "side": 0 | 1 as side, "question": dict(question)}:
                    self._ask(number, self._tapes[min(side, len(self._tapes) - 1)], question)
                case {"op": "ask", "question": None}:
                    self._desk.cancel()
                case {"op": "block", "ticks": [*ticks]} if all(map(_is_tick, ticks)):
                    self._play(ticks[:BLOCK_TICKS_MAX])
        except (ValueError, RecursionError):
            return

    def reached(self, side: int, tick: int) -> None:
        """A tick of a tape is in its cache."""
        if (side, tick) in self._wanted or (DIFFERENCE_SIDE, tick) in self._wanted:
            self._send_wanted(tick, 0)
        self._approach(side, tick)

    def head(self, side: int, head: Head) -> None:
        """The newest tick of a tape that is being recorded. It takes the place of one that could not be sent yet."""
        if self._follows:
            self._head = side, head
            self._send_head()

    def close(self) -> None:
        """The page has gone."""
        self._follow(on=False)
        self._desk.close()

    def _ask(self, number: int, tape: ViewedTape, question: dict[str, Any]) -> None:
        """Look for the answer to a question about all ticks of a tape, as far as the page may know them."""
        if tape.facts is None or tape.role is not None:
            why = "the two sides of a desync are one tape: ask on the page of the tape itself"
            self.announce({"kind": "answer", "id": number, "facts": {"error": why}})
            return
        ticks = int(tape.facts["first"]), int(tape.facts["last"])
        self._desk.ask(number, tape, ticks, question, writes=self._writes)

    def _follow(self, *, on: bool) -> None:
        self._follows, self._head, self._unseen = on, None, 0
        for tape in self._tapes:
            newest = tape.follow(self.name, self._look if on else None)
            if newest is not None and on:
                self.head(tape.side, newest)

    def _send_head(self) -> None:
        """Send the newest head, unless the page has not painted those before: it is slow, and skips what comes meanwhile."""
        if self._head is None or self._unseen >= UNSEEN_MAX:
            return
        side, head = self._head
        self._head = None
        if any(name not in head.encoded.layers for name in self._look.layers):
            return  # It was made for what the page looked at before.
        self._unseen += 1
        self._send(side, head.tick, head.encoded, HEAD)
        told = {"tick": head.tick, "figures": dict(head.figures), "events": [*head.events.items()]}
        self.announce({"kind": "head", "side": side, **told})

    def preview(self, side: int, tick: int, encoded: EncodedTick) -> None:
        """Show a keyframe on the way, if nothing nearer is shown."""
        distance = abs(encoded.shown - tick)
        if (side, tick) in self._wanted and distance < self._nearest.get(side, TICK_MAX):
            self._nearest[side] = distance
            self._send(side, tick, encoded, PREVIEW)

    def _approach(self, side: int, tick: int | None) -> None:
        """Show a tick of the cache in place of the one that a drag is at, if it is nearer than what is shown."""
        goal = self._dragged.get(side)
        if tick is None or goal is None or (side, goal) not in self._wanted:
            return
        encoded = self._tapes[side].cache.get(tick, self._look)
        if encoded is not None and encoded.shown == tick:
            self.preview(side, goal, encoded)

    def _look_at(self, layers: list[Any], curves: list[Any], *, difference: bool) -> None:
        known = {name for tape in self._tapes for name in (tape.facts or {}).get("layers", [])}
        offered = {name for tape in self._tapes for name in (tape.facts or {}).get("curves", [])}
        self._look = ViewSelection(
            tuple(name for name in layers if isinstance(name, str) and name in known)[:LAYERS_MAX],
            difference and len(self._tapes) > 1,
            tuple(name for name in curves if isinstance(name, str) and name in offered)[:CURVES_MAX],
        )
        if self._follows:
            self._follow(on=True)

    def _seek(self, request: int, tick: int, *, is_drag: bool) -> None:
        self._wanted.clear()
        self._dragged.clear()
        self._nearest.clear()
        self._request = request
        for tape in self._tapes:
            here = self._want(tape, tick)
            tape.seek(self.name, here, self._look, is_drag=is_drag)
            if is_drag and tape.cache.get(here, self._look) is None:
                self._dragged[tape.side] = here
                self._approach(tape.side, tape.near(here))
        for here in {tape.clamp(tick) for tape in self._tapes}:
            self._send_wanted(here, CACHED)

    def _play(self, ticks: list[int]) -> None:
        for tape in self._tapes:
            mine = list(dict.fromkeys(self._want(tape, tick) for tick in ticks))
            tape.play(self.name, mine, self._look)
        for tick in ticks:
            self._send_wanted(tick, CACHED)

    def _want(self, tape: ViewedTape, tick: int) -> int:
        here = tape.clamp(tick)
        self._wanted.add((tape.side, here))
        if self._look.exact and here == tick:
            self._wanted.add((DIFFERENCE_SIDE, here))
        return here

    def _send_wanted(self, tick: int, flags: int) -> None:
        """Send what is there of a tick that is wanted, and the difference once both sides have it."""
        found = [tape.cache.get(tick, self._look) for tape in self._tapes]
        for side, encoded in enumerate(found):
            if encoded is not None and (side, tick) in self._wanted:
                self._wanted.discard((side, tick))
                self._send(side, tick, encoded, flags)
        if (DIFFERENCE_SIDE, tick) in self._wanted and all(encoded is not None for encoded in found):
            self._wanted.discard((DIFFERENCE_SIDE, tick))
            both = [one for one in found if one is not None]
            # Where another tick stands for one that cannot be shown, the two are of different ticks.
            layers = self._differences.layers(tick, self._look, both) if len({one.shown for one in both}) == 1 else []
            self._put(
                b"".join([encode_head(DIFFERENCE_SIDE, flags, len(layers), self._request, tick, tick, 0), *layers])
            )

    def _send(self, side: int, tick: int, encoded: EncodedTick, flags: int) -> None:
        if encoded.shown != tick and not flags & PREVIEW:
            flags |= OTHER_TICK
        layers = [layer for name in self._look.layers if (layer := encoded.layers.get(name))]
        head = encode_head(side, flags, len(layers), self._request, tick, encoded.shown, encoded.state_hash)
        self._put(b"".join([head, *layers, encoded.points]))

    def _put(self, message: str | bytes) -> None:
        if self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(message)


def _is_tick(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TICK_MAX
