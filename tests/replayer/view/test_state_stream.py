"""The stream of states for other programs: a client of docs/view.md rebuilds each state of a plain run."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from optional_packages import needs

import recorder
import replayer

from viewed_worlds import TICKS, Game, Pond, inputs_of_pond

needs("starlette", "uvicorn", "websockets")

from replayer.view.live.state_stream import (  # noqa: E402
    StreamedState,
    change_between,
    encode_change,
    encode_state,
    merged_changes,
    streamed_state,
)
from replayer.view.live.stream_session import StreamSession  # noqa: E402


def apply(state: dict[str, np.ndarray[Any, Any]], data: bytes, values: dict[str, Any] | None = None) -> dict[str, Any]:
    """Take a message as the client in docs/view.md does; returns the message. values: of objects."""
    message: dict[str, Any] = msgpack.unpackb(data)
    if values is not None:
        for path in message.get("gone_values", ()):
            values.pop(path, None)
        values.update(message["values"])
    for name in message.get("gone", ()):
        state.pop(name, None)
    for name, field in message["fields"].items():
        state[name] = np.frombuffer(field["data"], field["dtype"]).reshape(field["shape"]).copy()
    for name, cells in message.get("cells", {}).items():
        flat = state[name].reshape(-1)
        flat[np.frombuffer(cells["at"], "<u4")] = np.frombuffer(cells["data"], flat.dtype)
    return message


def same(state: dict[str, np.ndarray[Any, Any]], truth: dict[str, np.ndarray[Any, Any]]) -> bool:
    """Return True if both have the same fields, bit for bit."""
    return state.keys() == truth.keys() and all(
        array.shape == truth[name].shape and array.tobytes() == truth[name].tobytes() for name, array in state.items()
    )


ARRAYS = st.sampled_from(
    [
        np.zeros((2, 3)),
        np.array([[1.0, 0.0, -0.0], [np.nan, 2.0, 3.0]]),
        np.array([[1.0, 0.0, 0.0], [np.nan, 2.0, 4.0]]),
        np.zeros((0,)),
        np.arange(9, dtype=np.int32),
        np.array(5, np.uint8),
        np.array(6, np.uint8),
        np.array([True, False]),
    ]
)
FIELDS = st.dictionaries(st.sampled_from(["a", "b"]), ARRAYS)
VALUES = st.sampled_from(["calm", "angry", np.array(3), np.array(3.5), np.array(True), np.array([1, 2]), np.arange(3)])
PATHS = st.dictionaries(st.sampled_from(["hp", "units[1].hp", "gold['red']"]), VALUES)


@given(st.lists(st.tuples(FIELDS, PATHS), min_size=2, max_size=5))
def test_changes_give_the_next_state_and_merged_ones_the_last(
    both: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    """Whatever fields and values come, go, grow or change; merged from either end."""
    states, paths = [fields for fields, _ in both], [values for _, values in both]
    plain = [{path: one if isinstance(one, str) else one.tolist() for path, one in known.items()} for known in paths]
    streamed = [StreamedState(tick, tick, *one) for tick, one in enumerate(both)]
    changes = [change_between(one, other) for one, other in itertools.pairwise(streamed)]
    seen: dict[str, np.ndarray[Any, Any]] = {}
    values: dict[str, Any] = {}
    apply(seen, encode_state(streamed[0]), values)
    for change, fields, expected in zip(changes, states[1:], plain[1:], strict=True):
        apply(seen, encode_change(change), values)
        assert same(seen, fields)
        assert repr(sorted(values.items())) == repr(sorted(expected.items()))
    forward = changes[0]
    for change in changes[1:]:
        forward = merged_changes(forward, change)
    backward = changes[-1]
    for change in changes[-2::-1]:
        backward = merged_changes(change, backward)
    for merged in (forward, backward):
        skipping: dict[str, np.ndarray[Any, Any]] = {}
        values = {}
        apply(skipping, encode_state(streamed[0]), values)
        message = apply(skipping, encode_change(merged), values)
        assert repr(sorted(values.items())) == repr(sorted(plain[-1].items()))
        assert (message["before"], message["tick"]) == (0, len(states) - 1)
        assert same(skipping, states[-1])


def test_a_slow_program_skips_ticks_and_misses_nothing() -> None:
    """One that takes no message meanwhile gets one change for all ticks; one that joins later begins with a state."""

    async def run() -> None:
        slow, late, pond = StreamSession(), StreamSession(), Pond()
        before = streamed_state(0, pond.state.snapshot())
        slow.take(before)
        seen: dict[str, np.ndarray[Any, Any]] = {}
        for tick, inputs in enumerate(inputs_of_pond(TICKS), start=1):
            pond.step(inputs)
            after = streamed_state(tick, pond.state.snapshot())
            for session in (slow, late):
                session.take(change_between(before, after))
            if tick == 40:
                late.take(after)
            before = after
        slow.end(TICKS, "ended")
        messages = [apply(seen, data) for data in [await slow.next_message(), await slow.next_message()] if data]
        assert [message["tick"] for message in messages] == [0, TICKS]
        assert same(seen, dict(before.fields))
        assert messages[-1]["hash"] == f"{pond.state.hash():016x}"
        assert msgpack.unpackb(await slow.next_message() or b"") == {"kind": "end", "tick": TICKS, "why": "ended"}
        assert await slow.next_message() is None
        joined: dict[str, np.ndarray[Any, Any]] = {}
        ticks = [apply(joined, await late.next_message() or b"")["tick"] for _ in range(2)]
        assert ticks == [40, TICKS]
        assert same(joined, dict(before.fields))

    asyncio.run(run())


def test_objects_are_streamed_by_the_paths_of_their_values(tmp_path: Path) -> None:
    """Numbers as numbers, texts as texts, equal to the attributes of a plain run; an array that is a field comes once."""
    path, plain, values = tmp_path / "game.tape", Game(), dict[str, Any]()
    played: Any = recorder.record(Game(), path, quiet=True)
    with played as game:
        for _ in range(5):
            game.step()
    with replayer.open(path, Game) as run:
        before = None
        for tick in range(6):
            run.seek(tick)
            after = streamed_state(tick, run.state.snapshot())
            apply({}, encode_state(after) if before is None else encode_change(change_between(before, after)), values)
            expected = {f"units[{number}].hp": unit.hp for number, unit in enumerate(plain.units)}
            assert {path: value for path, value in values.items() if path.startswith("units")} == expected
            assert (values["turn"], type(values["turn"]), values["note"]) == (tick, int, plain.note)
            before = after
            plain.step()
