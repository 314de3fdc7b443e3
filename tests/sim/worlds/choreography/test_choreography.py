"""Tiny protocols, round by round, computed by hand: events, buffers, choices, faults, schedulers, routers, sessions."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from sim.kernel.messages import Message, MessageWorld
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.protocol.bounds import Measures, report, total
from sim.worlds.choreography.protocol.builder import again, branch, choice, loop, protocol, send
from sim.worlds.choreography.q32 import ONE

ALL = {"policy": "round_robin", "concurrency": 9}


def make(*steps: dict[str, Any], roles: Sequence[str] = ("A", "B"), **more: Any) -> Choreography:
    """A choreography of these steps, in which all roles advance in each round."""
    return Choreography({"protocol": protocol(roles, *steps), "scheduler": ALL, **more})


def event(kind: str, role: str, session: int = 0, **more: Any) -> dict[str, Any]:
    """An event with the keys of every event."""
    return {"kind": kind, "role": role, "session": session, **more}


def short(world: Choreography) -> list[str]:
    """The events of the last step, as "role kind label"."""
    return [" ".join(filter(None, (event["role"], event["kind"], event.get("label")))) for event in world.events()]


def rounds(world: Choreography, count: int) -> list[list[str]]:
    """The events of the next steps, in short form."""
    lines = []
    for _ in range(count):
        world.step(None)
        lines.append(short(world))
    return lines


def test_one_message_from_its_opening_to_its_close() -> None:
    """Every event has exactly the expected keys."""
    world = make(send("A", "B", "hello", payload="number", constant=7))
    assert isinstance(world, MessageWorld)
    assert world.events() == ()
    assert world.ended() is None
    world.step({"order": ["A"]})
    assert list(world.events()) == [
        event("opened", "A"),
        event("sent", "A", to="B", label="hello", message=0, payload=7),
        event("halted", "A"),
    ]
    assert world.buffered_count() == 1
    world.step({"order": ["A", "B"]})
    assert list(world.events()) == [
        event("opened", "B"),
        {"kind": "received", "role": "B", "session": 0, "from": "A", "label": "hello", "message": 0, "payload": 7},
        event("halted", "B"),
        event("closed", "B"),
    ]
    assert world.ended() == ("halted", "all roles have halted")
    assert world.telemetry() == {
        "roles.waiting": 0,
        "roles.running": 0,
        "roles.halted": 2,
        "roles.faulted": 0,
        "messages": 1,
        "buffered": 0,
        "productive_steps": 2,
    }
    world.step(None)
    assert world.events() == ()


def test_a_choice_is_chosen_and_offered() -> None:
    """A branch may carry a payload."""
    world = make(choice("A", "B", branch("yes"), branch("no", payload="text", constant="sorry"), schedule=["no"]))
    world.step(None)
    assert [one for one in world.events() if "label" in one] == [
        event("chose", "A", to="B", label="no", message=0, payload="sorry"),
        {"kind": "offered", "role": "B", "session": 0, "from": "A", "label": "no", "message": 0, "payload": "sorry"},
    ]


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_buffer_holds_its_capacity_and_not_one_more(capacity: int) -> None:
    """At the limit the sender waits; it continues when a message is received."""
    world = make(loop("l", send("A", "B", "x", payload="number"), times=4), buffer_capacity=capacity)
    for sent in range(1, 6):
        world.step({"order": ["A"]})
        assert world.buffered_count() == min(sent, capacity)
        assert int(world.state["message_count"]) == min(sent, capacity)
    world.step({"order": ["B", "A"]})
    assert short(world)[1:3] == ["B received x", "A sent x"]
    assert world.buffered_count() == capacity
    late = Message(99, "A", "B", "x", 0)
    before = world.state.arena.tobytes()
    assert not world.deliver(late)
    assert world.state.arena.tobytes() == before
    world.step({"order": ["B"]})
    assert world.deliver(late)
    assert world.buffered_count() == capacity


def test_payloads_are_made_from_registers_constants_and_the_counter() -> None:
    """Each type, with the registers of the receiver after it."""
    registers = [{"role": "A", "values": ["1.5", "-2"]}, {"role": "B", "values": []}]
    world = make(
        send("A", "B", "m"),
        send("A", "B", "m", payload="number", register=3, into=0),
        send("A", "B", "m", payload="boolean", register=2, into=2),
        send("A", "B", "m", payload="fixed", register=3),
        send("A", "B", "m", payload="text", constant="hé"),
        send("A", "B", "m", payload="vector", into=2),
        send("A", "B", "m", payload="vector", constant=["0.5", 1]),
        send("A", "B", "m", payload="pair", first={"payload": "number"}, second={"payload": "fixed"}, into=2),
        send("A", "B", "m", payload="number"),
        initial=registers,
    )
    kept = []
    payloads = []
    for _ in range(9):
        world.step({"order": ["A", "B"]})
        payloads.append(next(one["payload"] for one in world.events() if one["kind"] == "received"))
        kept.append([number / ONE for number in world.state["roles.registers"][1].tolist()])
    half, minus = ONE * 3 // 2, -2 * ONE
    assert payloads == [
        None, -2, True, {"fixed": minus}, "hé", {"vector": [half, minus]}, {"vector": [ONE // 2, ONE]},
        {"pair": [0, {"fixed": half}]}, 1,
    ]  # fmt: skip
    assert kept == [
        [0, 0, 0, 0], [-2, 0, 0, 0], [-2, 0, 1, 0], [-2, -2, 1, 0], [-2, -2, 1, 0], [-2, -2, 1.5, -2],
        [-2, 0.5, 1.5, -2], [-2, 0.5, 0, 1.5], [-2, 1, 0, 1.5],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("comparison", "than", "taken"),
    [
        ("<", 2, "r"),
        ("<", "2.0000000003", "l"),
        ("<=", 2, "l"),
        ("==", 2, "l"),
        (">=", 2, "l"),
        (">", 2, "r"),
        (">", "1.5", "l"),
    ],
)
def test_a_choice_by_a_register(comparison: str, than: Any, taken: str) -> None:
    """The first branch if the comparison is true, else the second; at the limit and next to it."""
    when = {"register": 2, "is": comparison, "than": than}
    world = make(choice("A", "B", branch("l"), branch("r"), when=when), initial=[{"role": "A", "values": [2]}])
    world.step(None)
    assert f"A chose {taken}" in short(world)


def test_a_random_choice_follows_weights_and_seed() -> None:
    """Three to one in 800 random draws, which depend on the seed and not on earlier random draws."""
    steps = loop("l", choice("A", "B", branch("l", again("l"), weight=3), branch("r", again("l"))))

    def drawn(seed: int, ticks: int = 800) -> list[str]:
        world = make(steps, seed=seed)
        return [line.split()[-1] for lines in rounds(world, ticks) for line in lines if "chose" in line]

    counts = Counter(drawn(1))
    assert 540 <= counts["l"] <= 660
    assert counts["r"] == 800 - counts["l"]
    assert drawn(1, 50) == drawn(1)[:50] != drawn(2, 50)


def test_a_message_against_the_protocol_faults_only_the_role() -> None:
    """An unknown label, and payloads of a wrong type, each with its reason; the session closes when all have stopped."""
    for put, reason in (
        (Message(5, "A", "B", "y", None), "'x' was expected, found the label 'y'"),
        (Message(5, "A", "B", "x", "many"), "a number was expected, found 'many'"),
        (Message(5, "A", "B", "x", True), "a number was expected, found 'True'"),
        (Message(5, "A", "B", "x", 1 << 63), f"a number was expected, found '{1 << 63}'"),
    ):
        world = make(send("A", "B", "x", payload="number"))
        world.router = lambda _sent: None
        assert world.deliver(put)
        world.step(None)
        assert world.events()[-2:] == (
            {
                **event("faulted", "B"),
                "from": "A",
                "label": put.label,
                "message": 5,
                "payload": put.payload,
                "reason": reason,
            },
            event("closed", "B"),
        )
        assert world.ended() == ("halted", "all roles have halted, 1 of them by a fault")
        world.step(None)
        assert world.events() == ()


@pytest.mark.parametrize(
    ("carried", "payload", "reason"),
    [
        ({}, 0, "no payload was expected, found '0'"),
        ({"payload": "boolean", "constant": True}, 1, "a boolean was expected, found '1'"),
        ({"payload": "text", "constant": ""}, "x" * 1001, f"a text was expected, found '{'x' * 60}'"),
        (
            {"payload": "fixed"},
            {"fixed": 1 << 63},
            f"a fixed-point number was expected, found '{{'fixed': {1 << 63}}}'",
        ),
        ({"payload": "fixed"}, {"fixed": 1, "x": 1}, "a fixed-point number was expected, found "),
        ({"payload": "vector"}, {"vector": [1]}, "a vector of 2 was expected, found "),
        ({"payload": "vector"}, {"vector": [1, 2, 3]}, "a vector of 2 was expected, found "),
        ({"payload": "vector"}, {"vector": [1, None]}, "a vector of 2 was expected, found "),
        (
            {"payload": "pair", "first": {}, "second": {"payload": "number"}},
            {"pair": [None, "x"]},
            "a number was expected",
        ),
        ({"payload": "pair", "first": {}, "second": {}}, {"pair": [None]}, "a pair of no payload and no payload was"),
    ],
)
def test_a_payload_of_a_different_type_is_a_fault(carried: dict[str, Any], payload: Any, reason: str) -> None:
    """Each type, also at its limits."""
    world = make(send("A", "B", "x", **carried))
    world.router = lambda sent: Message(sent.number, "A", "B", "x", payload)
    world.step(None)
    fault = next(one for one in world.events() if one["kind"] == "faulted")
    assert fault["role"] == "B"
    assert fault["reason"].replace('"', "'").startswith(reason)
    assert not any(one["kind"] == "received" for one in world.events())


def test_a_router_stands_between_sender_and_buffer() -> None:
    """It is called in the step; it may change a message, or keep it for a later delivery."""
    world = make(*(send("A", "B", "x", payload="number", constant=number) for number in range(3)))
    routed: list[Message] = []

    def route(message: Message) -> Message | None:
        routed.append(message)
        return None if message.number == 1 else Message(message.number, "A", "B", "x", message.payload + 10)

    world.router = route
    for _ in range(3):
        world.step({"order": ["A"]})
    assert routed == [Message(number, "A", "B", "x", number) for number in range(3)]
    assert world.buffered_count() == 2
    assert world.deliver(routed[1])
    payloads = []
    for _ in range(3):
        world.step({"order": ["B"]})
        payloads += [one["payload"] for one in world.events() if one["kind"] == "received"]
    assert payloads == [10, 12, 1]


def test_a_redirecting_router_and_unexpected_deliveries_are_refused() -> None:
    """These are programming errors; the message names the roles."""
    world = make(send("A", "B", "x"))
    for sender, receiver in (("B", "A"), ("A", "Z"), ("Z", "B")):
        with pytest.raises(ValueError, match=f"the protocol has no messages from '{sender}' to '{receiver}'"):
            world.deliver(Message(0, sender, receiver, "x"))
    with pytest.raises(ValueError, match="is not plain data"):
        world.deliver(Message(0, "A", "B", "x", object()))
    with pytest.raises(ValueError, match="expected one of the roles A, B, got 'Z'"):
        world.sample("Z")
    world.router = lambda sent: Message(0, "B", "A", sent.label)
    with pytest.raises(ValueError, match="elsewhere"):
        world.step(None)


def test_paused_roles_do_nothing_for_one_step() -> None:
    """This is so even if the order names them; then they continue."""
    world = make(loop("l", send("A", "B", "x"), times=3))
    world.paused = frozenset({"A"})
    world.step({"order": ["A", "B"]})
    assert short(world) == ["B opened"]
    assert world.paused == frozenset()
    world.step({"order": ["A", "B"]})
    assert short(world) == ["A opened", "A sent x", "B received x"]


@pytest.mark.parametrize(
    "wrong",
    [{"order": ["Z"]}, {"order": ["A", "A"]}, {"order": "A"}, {"order": [1]}, {"order": ["A"], "x": 1}, {"x": 1}, "A", 1,
     [{"order": ["A"]}, {"order": ["B"]}], [1]],
)  # fmt: skip
def test_a_wrong_order_is_refused_and_changes_nothing(wrong: Any) -> None:
    """A refusal changes nothing: the next step is that of an undisturbed run."""
    world = make(send("A", "B", "x"))
    before = world.state.arena.tobytes()
    with pytest.raises(ValueError, match="order"):
        world.step(wrong)
    assert world.state.arena.tobytes() == before
    world.step([{"order": ["A"]}])
    assert short(world) == ["A opened", "A sent x", "A halted"]


def test_empty_inputs_are_equal() -> None:
    """None, and the empty inputs that the commands send."""
    worlds = [make(send("A", "B", "x")) for _ in range(3)]
    for world, inputs in zip(worlds, (None, [], {}), strict=True):
        world.step(inputs)
    assert len({world.state.arena.tobytes() for world in worlds}) == 1


def advanced(
    policy: str, ticks: int, *, concurrency: int = 1, priorities: Sequence[int] = (), roles: str = "ABC"
) -> str:
    """The roles that send in each round, as letters; A, B … each send to a role of their own and can always advance."""
    names = [*roles, *(role.lower() for role in roles)]
    steps = [loop(f"l{role}", send(role, role.lower(), "x"), times=1000) for role in roles]
    scheduler = {"policy": policy, "concurrency": concurrency, "priorities": [*priorities, *priorities]}
    world = make(*steps, roles=names, scheduler=scheduler, buffer_capacity=1000)
    senders = []
    for _ in range(ticks):
        world.paused = frozenset(role.lower() for role in roles)
        world.step(None)
        senders.append("".join(one["role"] for one in world.events() if one["kind"] == "sent"))
    return " ".join(senders)


@pytest.mark.seldom(0.15)
def test_each_policy_by_hand() -> None:
    """Three roles that can always advance."""
    assert advanced("cooperative", 4) == "A A A A"
    assert advanced("round_robin", 7) == "A B C A B C A"
    assert advanced("round_robin", 4, concurrency=2) == "AB CA BC AB"
    assert advanced("round_robin", 2, concurrency=9) == "ABC ABC"
    assert advanced("priority_aging", 6) == "A B C A B C"
    assert advanced("priority_aging", 6, priorities=[3, 1, 1]) == "A A A B C A"  # Ties go to A.
    assert advanced("priority_token_weighted", 8, priorities=[2, 1, 1]) == "A B C A A B C A"
    assert advanced("priority_token_weighted", 4, priorities=[2, 1, 1], concurrency=2) == "AB AC AB AC"
    assert advanced("progress_aware", 6) == "A B C A B C"


def test_some_policies_skip_roles_that_cannot_advance() -> None:
    """B waits for C, which is last: cooperative and progress-aware lose no round; round robin does."""
    steps = send("C", "B", "x"), send("B", "A", "y")
    for policy, expected in (
        ("cooperative", ["C opened", "C sent x", "C halted", "B opened", "B received x"]),
        ("progress_aware", ["C opened", "C sent x", "C halted", "B opened", "B received x"]),
        ("round_robin", ["A opened", "B opened"]),
    ):
        world = make(*steps, roles="ABC", scheduler={"policy": policy})
        assert functools.reduce(operator.iadd, rounds(world, 2), []) == expected


def test_sessions_run_in_parallel_in_one_state() -> None:
    """Each session has its names and closes alone; message numbers are common to all."""
    world = make(send("A", "B", "x", payload="number"), sessions=2)
    assert list(world.roles) == ["A.0", "B.0", "A.1", "B.1"]
    world.step({"order": ["A.1", "A.0"]})
    assert [one for one in world.events() if one["kind"] == "sent"] == [
        event("sent", "A.1", 1, to="B.1", label="x", message=0, payload=0),
        event("sent", "A.0", 0, to="B.0", label="x", message=1, payload=0),
    ]
    world.step({"order": ["B.1"]})
    assert world.events()[-1] == event("closed", "B.1", 1)
    assert world.ended() is None
    world.step(None)
    assert world.ended()


def test_progress_by_hand() -> None:
    """W = 2 × depth + buffered, at each step of a protocol of two messages."""
    world = make(send("A", "B", "x"), send("A", "B", "y"), buffer_capacity=1)
    assert world.progress() == {
        "initial_w": 8,
        "depth_budget": 4,
        "remaining_w": 8,
        "consumed": 0,
        "productive_steps": 0,
        "critical_capacity_phase": "below",
        "buffer_capacity": 2,
        "buffer_phase": "below",
    }
    for order, left in ((["A"], 7), (["A"], 7), (["B"], 4), (["A"], 3), (["B"], 0)):
        world.step({"order": order})
        assert world.progress()["remaining_w"] == left
    assert (world.progress()["consumed"], world.progress()["productive_steps"]) == (8, 4)


def test_the_critical_capacity_phase_classifies_productive_steps_against_the_initial_depth_budget() -> None:
    """Below until the last step of the longest way, then at; a shorter branch stays below; unsupported without an end."""
    world = make(send("A", "B", "x"), send("A", "B", "y"), buffer_capacity=1)
    seen = []
    while not world.ended():
        world.step(None)
        progress = world.progress()
        seen.append((progress["productive_steps"], progress["critical_capacity_phase"]))
    assert seen[-1] == (4, "at")
    assert {phase for steps, phase in seen if steps < 4} == {"below"}
    short = make(choice("A", "B", branch("long", send("A", "B", "x")), branch("short"), schedule=["short"]))
    while not short.ended():
        short.step(None)
    assert (short.progress()["depth_budget"], short.progress()["productive_steps"]) == (4, 2)
    assert short.progress()["critical_capacity_phase"] == "below"
    endless = make(loop("l", send("A", "B", "x"), again("l")))
    assert endless.progress()["critical_capacity_phase"] == "unsupported"


@pytest.mark.parametrize(("productive", "phase"), [(3, "below"), (4, "at"), (5, "above"), (9, "above")])
def test_more_productive_steps_than_the_depth_budget_are_above(productive: int, phase: str) -> None:
    """No role of this world makes more steps than its protocol has: only a report of other figures is above."""
    measures = Measures(depths=((2, 1, 0), (2, 1, 0)), buffer_capacity=1)
    one = report(measures, places=[2, 2], sessions=1, buffered=0, productive=productive, capacity=1)
    assert (one["depth_budget"], one["critical_capacity_phase"]) == (4, phase)
    other = report(measures, places=[0, 0], sessions=1, buffered=0, productive=0, capacity=1)
    both = total([one, other], 1)
    assert both["critical_capacity_phase"] == ("above" if productive > 8 else "below")


def test_progress_of_an_endless_protocol() -> None:
    """Figures without a bound are None; productive steps are counted."""
    world = make(loop("l", send("A", "B", "x"), send("B", "A", "y"), again("l")))
    rounds(world, 3)
    none = dict.fromkeys(("initial_w", "depth_budget", "remaining_w", "consumed", "buffer_capacity"))
    phases = dict.fromkeys(("critical_capacity_phase", "buffer_phase"), "unsupported")
    assert world.progress() == {**none, "productive_steps": 4, **phases}


def test_a_capacity_that_takes_too_long_to_find_is_unknown() -> None:
    """The depths are known, the capacity is None."""
    steps = [choice("A", "B", branch("l", send("A", "B", "x")), branch("r")) for _ in range(14)]
    progress = make(*steps).progress()
    assert (progress["depth_budget"], progress["buffer_capacity"], progress["buffer_phase"]) == (
        56,
        None,
        "unsupported",
    )
