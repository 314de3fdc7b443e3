"""Shards of a world as actors of an engine: processes of this machine, or actors of Ray on any machine of a cluster.

All messages between shards go through this process, which passes them on without reading them.

Invariants:
    1. A shard answers each order with its messages to the others, any number of times, and then with a piece or an error.
    2. When a shard is lost, or fails in a step, all are ended: the others may have advanced, or wait for its messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from recorder.cluster.actor_engine import Actor, ActorEngine, Channel, Message
from sim.kernel.state import Snapshot
from sim.sharding import Exchange, Piece, Shard, ShardLostError, ShardPlan, Stripes
from sim.sharding.slow_shards import SLOW_S, slow_shard_text

_LOOK_S = 0.2  # Between two looks at shards that have not answered.


class ShardActors:
    """Runs each shard by an actor; see sim.sharding.ShardEngine. The plan must be of a module, to be pickled."""

    def __init__(
        self, engine: ActorEngine, *, on_notice: Callable[[str], None] = lambda _: None, slow_s: float = SLOW_S
    ) -> None:
        """engine: starts the actors. on_notice: takes a sentence about a shard without an answer for slow_s seconds."""
        self._engine, self._notify, self._slow_s = engine, on_notice, slow_s
        self._actors: list[Actor] = []
        self._stripes = Stripes((0, 0), 0)

    @property
    def process_ids(self) -> list[int]:
        """The ids of the processes, by number of the shard; empty before the first step."""
        return [actor.process_id for actor in self._actors]

    def start(self, plan: ShardPlan, stripes: Stripes) -> None:
        """See ShardEngine. Raises ShardLostError if an actor does not start."""
        self.close()
        self._stripes = stripes
        for number in range(stripes.count):
            try:
                self._actors.append(self._engine.start(run_shard, (plan, stripes, number)))
            except OSError as error:
                self.close()
                raise ShardLostError(number, f"of {stripes.count} did not start: {error}") from None

    def load(self, whole: Snapshot) -> None:
        """See ShardEngine."""
        self._order("load", whole)

    def step(self, inputs: Any) -> list[Piece]:
        """See ShardEngine."""
        return self._order("step", inputs)

    def close(self) -> None:
        """See ShardEngine."""
        for actor in self._actors:
            actor.end()
        self._actors = []

    def _order(self, do: str, content: Any) -> list[Any]:
        """Give all shards an order, pass their messages on, and return their answers. Raises as step does."""
        try:
            messages: list[Message] = [{"do": do, "content": _packed(content)}] * len(self._actors)
            while (answers := self._ask(messages)) and any(answer["kind"] == "messages" for answer in answers):
                messages = _passed_on(answers)
        except BaseException:
            self.close()
            raise
        return [ForkingPickler.loads(answer["content"]) for answer in answers]

    def _ask(self, messages: list[Message]) -> list[Message]:
        """Send each shard a message and return their answers. Raises ShardLostError, and what a shard raised."""
        for number, message in enumerate(messages):
            try:
                self._actors[number].send(message)
            except OSError:
                raise self._lost(number) from None
        answers: dict[int, Message] = {}
        begun_s, is_named = time.monotonic(), False
        while len(answers) < len(self._actors):
            waiting = {actor: number for number, actor in enumerate(self._actors) if number not in answers}
            for actor in self._engine.wait(list(waiting), _LOOK_S):
                number = waiting[actor]
                try:
                    answers[number] = actor.receive()
                except EOFError:
                    raise self._lost(number) from None
                if answers[number]["kind"] == "failed":
                    raise ForkingPickler.loads(answers[number]["content"])
            waited_s = time.monotonic() - begun_s
            if waited_s >= self._slow_s and answers and not is_named:  # Else none waits for another one.
                is_named = True
                for number in set(waiting.values()) - answers.keys():
                    self._notify(slow_shard_text(number, self._stripes, self._actors[number].process_id, waited_s))
        return [answers[number] for number in range(len(self._actors))]

    def _lost(self, number: int) -> ShardLostError:
        code = self._actors[number].end()
        how = "was lost" if code is None else f"ended with exit code {code}"
        return ShardLostError(number, f"of {len(self._actors)} {how}")


def _passed_on(answers: list[Message]) -> list[Message]:
    """The messages to each shard, out of those from each. Raises RuntimeError if not all have sent some."""
    if any(answer["kind"] != "messages" for answer in answers):
        made = max(answer["made"] for answer in answers if answer["kind"] == "messages") - 1
        raise RuntimeError(f"after {made} exchanges some shards wait for messages that others do not send")
    outboxes = [answer["content"] for answer in answers]
    return [{"do": "exchange", "content": list(inbox)} for inbox in zip(*outboxes, strict=True)]


def run_shard(channel: Channel, plan: ShardPlan, stripes: Stripes, number: int) -> None:
    """Be a shard until the one that started it is gone."""
    shard = plan.shard(number, stripes)
    while True:
        order = channel.receive()
        try:
            answer = _carry_out(channel, shard, number, order)
        except EOFError:
            raise
        except Exception as error:  # noqa: BLE001 - any exception is raised again where the shards were started
            answer = {"kind": "failed", "content": _packed_error(error)}
        channel.send(answer)


def _carry_out(channel: Channel, shard: Shard, number: int, order: Message) -> Message:
    content = ForkingPickler.loads(order["content"])
    if order["do"] == "load":
        shard.load(content)
        return {"kind": "done", "content": _packed(None)}
    _exchange_all(channel, shard.step(content), number)
    return {"kind": "done", "content": _packed(shard.piece())}


def _exchange_all(channel: Channel, step: Exchange, number: int) -> None:
    """Make a step with all of its exchanges. What a shard sends to itself stays here."""
    outbox, made = next(step, None), 0
    while outbox is not None:
        made += 1
        sent = [None if other == number else _packed(message) for other, message in enumerate(outbox)]
        channel.send({"kind": "messages", "content": sent, "made": made})
        received = channel.receive()["content"]
        inbox = [
            outbox[number] if other == number else ForkingPickler.loads(message)
            for other, message in enumerate(received)
        ]
        try:
            outbox = step.send(inbox)
        except StopIteration:
            return


def _packed(value: Any) -> bytes:
    """The bytes of a value. Ray itself would give the receiver arrays that cannot be written."""
    return bytes(ForkingPickler.dumps(value))


def _packed_error(error: Exception) -> bytes:
    try:
        packed = _packed(error)
        ForkingPickler.loads(packed)
    except Exception:  # noqa: BLE001 - a class of its own may refuse in any way
        return _packed(RuntimeError(f"{type(error).__name__}: {error}"))
    return packed
