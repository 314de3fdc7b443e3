"""One program that gets the states of a recording: what waits for it.

Between two messages that it takes, changes are merged: a slow program skips ticks, and nothing piles up.
"""

from __future__ import annotations

import asyncio

from replayer.view.live.state_stream import (
    StreamedChange,
    StreamedState,
    encode_change,
    encode_end,
    encode_state,
    merged_changes,
)


class StreamSession:
    """One program. Used in one event loop."""

    def __init__(self) -> None:
        self._state: StreamedState | None = None  # Not sent yet.
        self._change: StreamedChange | None = None  # Not sent yet: what follows the last message.
        self._tick: int | None = None  # Of the state or change that came last.
        self._end: tuple[int, str] | None = None
        self._news = asyncio.Event()

    @property
    def waits_for_state(self) -> bool:
        """True until the complete state has come that it begins with."""
        return self._tick is None

    def take(self, message: StreamedState | StreamedChange) -> None:
        """Take the complete state, if it waits for one; take a change, if it follows what is known."""
        if isinstance(message, StreamedState):
            if not self.waits_for_state:
                return
            self._state = message
        elif message.before != self._tick:
            return
        else:
            self._change = message if self._change is None else merged_changes(self._change, message)
        self._tick = message.tick
        self._news.set()

    def end(self, tick: int, why: str) -> None:
        """The recording is over."""
        self._end = tick, why
        self._news.set()

    async def next_message(self) -> bytes | None:
        """The next message, waiting for one; None after the last."""
        while True:
            if self._state is not None:
                state, self._state = self._state, None
                return encode_state(state)
            if self._change is not None:
                change, self._change = self._change, None
                return encode_change(change)
            if self._end is not None:
                (tick, why), self._end = self._end, (-1, "")
                return encode_end(tick, why) if why else None
            self._news.clear()
            await self._news.wait()
