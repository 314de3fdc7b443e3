"""A round: the order of its stages, inputs as messages in each form, and a scenario around a simulation."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from staging import SavedRing, Tally, given_to, happened, staged, told, totals
from tiny_roles import Ring

from sim import ConfigError
from sim.kernel.simulation import restore


def test_the_order_of_a_round() -> None:
    """Round 4 has an event of every stage, in the defined order."""
    plain = {
        "network": {
            "links": [{"from": "a", "to": "b", "latency_ms": 2}, {"from": "b", "to": "c", "latency_ms": 1}],
        },
        "environment": {"bodies": [{"role": "a", "dx": 1}]},
        "reconfigurations": [
            {"id": "k", "kind": "link", "from": "c", "to": "a", "enabled": False, "trigger": {"at_tick": 4}}
        ],
        "adversaries": [
            {"id": "x", "kind": "crash", "role": "c", "duration": 3, "budget": {"total": 1}},
            {"id": "y", "kind": "timing_disturbance", "ticks": 3, "senders": ["a"], "budget": {"total": 1}},
            {
                "id": "z",
                "kind": "withholding",
                "senders": ["b"],
                "trigger": {"at_tick": 4},
                "budget": {"total": 1},
            },
        ],
        "properties": [{"name": "early", "kind": "always", "when": "tick < 4"}],
    }
    lines, simulation = happened(plain, 4, Ring("abc", capacity=1), without=())

    # Sent: 0 and 1 in tick 1 by a and b, 2 and 3, 4 and 5, then 6, 7 and 8, for c recovers. 0 is held until tick 4; 1
    # is in c's buffer, 3 and 5 wait for room in it.
    assert [line for line in lines if line.startswith("4 ")] == [
        "4 reconfigured k operation=0 action=link effect=pure cost=0 step=3 roles=['a', 'c'] links=[['c', 'a']]",
        "4 recovered role=c",
        "4 activated z 0/1 withholding",
        "4 under_way a>b 0 +2",
        "4 retried b>c 3",
        "4 retried b>c 5",
        "4 sent a>b 6",
        "4 received b<a 2",
        "4 sent b>c 7",
        "4 received c<b 1",
        "4 sent c>a 8",
        "4 under_way a>b 6 +2",
        "4 withheld z b>c 7",
        "4 consumed z 1/0 withheld",
        "4 exhausted z 1/0 withheld",
        "4 diagnostic z budget_exhaustion",
        "4 diagnostic z fairness",
        "4 cut c>a 8",
        "4 sample a [0.0] step=4",
        "4 sample b [2.0] step=4",
        "4 sample c [1.0] step=4",
        f"4 moved role=a place=[{4 << 16}, 0]",
        "4 violation property=early details=tick < 4 does not hold: it is 4",
    ]
    assert totals(simulation) == [0, 2, 1]


def test_there_is_a_sample_before_the_first_round() -> None:
    """Each role has a sample at step 0."""
    assert [told(event) for event in staged({}).events()] == ["sample a [0.0] step=0", "sample b [0.0] step=0"]


def test_surroundings_stand_between_adversaries_and_network() -> None:
    """A held message is judged at the tick of its release; a message lost there never reaches the network."""
    plain = {
        "network": {"latency_ms": 1},
        "environment": {
            "reach": 2,
            "bodies": [{"role": "a"}, {"role": "b", "dx": 1}],
        },
        "adversaries": [{"id": "x", "kind": "timing_disturbance", "ticks": 3, "budget": {"total": 1}}],
    }
    lines, _ = happened(plain, 4, without=("sent", "sample", "moved"))

    assert [line for line in lines if " x " not in line or " delayed x " in line] == [
        "1 delayed x a>b 0 +3",
        "2 under_way a>b 1 +1",
        "3 received b<a 1",
        "3 under_way a>b 2 +1",
        "4 unreachable a>b 0",
        "4 received b<a 2",
        "4 unreachable a>b 3",
    ]


# --- inputs as messages


def late(ticks: int, **more: Any) -> dict[str, Any]:
    """A scenario that delays the first message by this many ticks."""
    return {"adversaries": [{"id": "x", "kind": "timing_disturbance", "ticks": ticks, "budget": {"total": 1}} | more]}


WITHHELD = {"adversaries": [{"id": "x", "kind": "withholding", "budget": {"total": 1}}]}
LIST = {"inputs": "list", "roles": ["p", "q"]}
ONE = {"inputs": "one"}
BY_ROLE = {"inputs": "by_role", "roles": ["p", "q"]}


@pytest.mark.parametrize(
    ("plain", "inputs", "expected"),
    [
        (LIST, [{"q": [3], "p": [1, 2], "": [0]}, None, [7, 8], {}], [[0, 1, 2, 3], [], [7, 8], []]),
        (LIST | WITHHELD, [[7], {"": [8]}, {"p": [1], "q": [2]}], [[7], [8], [2]]),
        (LIST | late(1), [{"p": [1], "q": [2], "": [0]}, {"q": [3], "": [4]}], [[0, 2], [4, 1, 3]]),
        (ONE, [5, None, [1, 2], {"x": 1}], [5, None, [1, 2], {"x": 1}]),
        (ONE | {"idle": 9}, [5, None], [5, 9]),
        (ONE | {"idle": 9} | WITHHELD, [5, 6], [9, 6]),
        (ONE | {"idle": 9} | late(1), [5, 6, None], [9, 6, 9]),  # 5 is superseded by 6.
        (ONE | {"idle": 9} | late(1), [5, None, None], [9, 5, 9]),
        ({"roles": ["p", "q"]}, [{"p": 1, "q": 2}], [{"p": 1, "q": 2}]),
        (BY_ROLE | WITHHELD, [{"q": 2, "p": 1}, {"p": 3, "q": 4}], [{"p": None, "q": 2}, {"p": 3, "q": 4}]),
        (BY_ROLE | late(1), [{"p": 1, "q": 2}, {"q": 4}], [{"p": None, "q": 2}, {"p": 1, "q": 4}]),
        (BY_ROLE | late(1), [{"p": 1, "q": 2}, {"p": 3}], [{"p": None, "q": 2}, {"p": 3, "q": None}]),
    ],
)
def test_the_inputs_of_a_world(plain: dict[str, Any], inputs: list[Any], expected: list[Any]) -> None:
    """Inputs in each form, unchanged, withheld and late."""
    assert given_to(plain, inputs) == expected


def story(plain: dict[str, Any], inputs: list[Any], world: Any = None) -> list[str]:
    """The lines of all events but samples."""
    lines, _ = happened(plain, len(inputs), world or Tally(), inputs=lambda tick: inputs[tick - 1], without=("sample",))
    return lines


def test_inputs_are_sent_and_received() -> None:
    """Inputs are messages of their roles to the world, with events for triggers and properties."""
    assert story(LIST | late(1, labels=["eat"]), [{"p": [{"kind": "eat"}], "q": [2], "": [0]}, None]) == [
        "1 activated x 0/1 timing_disturbance",
        "1 sent p>world 0 eat",
        "1 sent q>world 1 input",
        "1 received world<q 1",
        "1 delayed x p>world 0 eat +1",
        "1 consumed x 1/0 delayed",
        "1 exhausted x 1/0 delayed",
        "1 diagnostic x budget_exhaustion",
        "1 diagnostic x fairness",
        "2 received world<p 0",
    ]


def test_inputs_trigger_and_are_watched() -> None:
    """A withheld input is sent and never received; an input of p triggers the adversary in the next round."""
    trigger = {"on_event": {"kind": "sent", "role": "p"}}
    plain = {
        "adversaries": [{"id": "x", "kind": "withholding", "budget": {"total": 1}, "trigger": trigger}],
        "properties": [{"name": "live", "kind": "send_recv_liveness", "bound": 2}],
    }
    lines = story(LIST | plain, [{"q": [1]}, {"p": [2]}, {"q": [3]}, None, None, None])

    assert [line for line in lines if "activated" in line or "withheld x" in line or "violation" in line] == [
        "3 activated x 0/1 withholding",
        "3 withheld x q>world 2 input",
        "5 violation property=live details=3 messages were sent 2 ticks ago or before, 2 were received",
    ]


def test_a_crashed_role_sends_nothing() -> None:
    """Its inputs are suppressed and never arrive."""
    crash = {"id": "x", "kind": "crash", "role": "p", "duration": 1, "budget": {"total": 1}}
    plain = LIST | {"adversaries": [crash]}
    inputs = [{"p": [1], "q": [2]}, {"p": [3]}]

    assert given_to(plain, inputs) == [[2], [3]]
    assert [line for line in story(plain, inputs) if "world" in line] == [
        "1 suppressed p>world 0 input",
        "1 sent q>world 1 input",
        "1 received world<q 1",
        "2 sent p>world 2 input",
        "2 received world<p 2",
    ]


def test_a_delegated_role_sends_as_its_target() -> None:
    """Inputs of p count as q's, and the later of two is used."""
    plain = BY_ROLE | {"reconfigurations": [{"id": "k", "kind": "delegation", "from": "p", "to": "q"}]}

    assert given_to(plain, [{"p": 1}, {"p": 1, "q": 2}]) == [{"p": None, "q": 1}, {"p": None, "q": 2}]


class Choosy(Tally):
    """Accepts only numbers. It has its own state: a simulation in the save/load form cannot have ``accepts``."""

    def __init__(self) -> None:
        from sim import Blob, Schema, State

        super().__init__()
        self.state = State(Schema(Blob("log")))

    def step(self, inputs: Any) -> int:
        self.state.set_blob("log", self.state.blob("log") + json.dumps(inputs).encode() + b"\n")
        return 7

    def accepts(self, item: Any) -> bool:
        return isinstance(item, int)


def test_an_input_that_the_world_does_not_accept_is_dropped() -> None:
    """The older input, which it would have replaced, then counts."""
    simulation = staged(ONE | {"idle": 0} | late(1), Choosy())
    lines = []
    for inputs in (5, "no", None):
        simulation.step(inputs)
        lines += [
            told(event) for event in simulation.events() if event["kind"] in {"invalid", "superseded", "received"}
        ]

    assert lines == ["invalid agent>world 1 input", "received world<agent 0"]
    assert simulation.state.blob("log") == b"0\n5\n0\n"


@pytest.mark.parametrize(
    ("plain", "inputs"),
    [
        (LIST, {"r": [1]}),
        (LIST, {"p": 1}),
        (LIST, {"p": {"kind": "eat"}}),
        (LIST, {"p": "eat"}),
        (LIST, {"": 5}),
        (LIST, 5),
        (BY_ROLE, {"": 1}),
        (BY_ROLE, [1]),
        (BY_ROLE, 5),
    ],
)
def test_inputs_of_a_different_form_are_refused(plain: dict[str, Any], inputs: Any) -> None:
    """A refusal changes nothing: valid inputs can follow."""
    late_inputs, valid = {"p": [1]} if plain is LIST else {"p": 1}, [] if plain is LIST else {}
    simulation, undisturbed = (staged(plain | late(1), Tally()) for _ in range(2))
    for each in (simulation, undisturbed):
        each.step(late_inputs)

    with pytest.raises(ValueError, match=r"^expected inputs by role, "):
        simulation.step(inputs)
    for each in (simulation, undisturbed):
        each.step(valid)

    assert simulation.state.arena.tobytes() == undisturbed.state.arena.tobytes()
    assert simulation.events() == undisturbed.events()


def test_one_needs_one_role() -> None:
    """With two roles, the sender of the value would be unknown."""
    with pytest.raises(ConfigError, match=r'^inputs: expected one role with "one", got 2$'):
        staged({"inputs": "one", "roles": ["p", "q"]}, Tally())


def test_a_late_message_is_a_copy_of_the_sent_one() -> None:
    """A driver reuses one array, another sends tuples: both arrive as a tape would return them."""
    action = np.zeros(2, np.int64)
    simulation = staged(ONE | late(2), Tally())
    arrived = []
    for tick in range(1, 4):
        action[:] = tick
        simulation.step(action if tick < 3 else None)
        arrived.append(json.loads(simulation.state.blob("log").splitlines()[-1]))

    assert arrived == [None, [2, 2], [1, 1]]
    types = []

    class Types(Tally):
        """Notes the types of its inputs."""

        def step(self, inputs: Any) -> int:
            types.append(type(inputs))
            return super().step(inputs)

    simulation = staged(ONE | late(1), Types())
    for inputs in ((1, 2), None):
        simulation.step(inputs)
    assert types == [type(None), list]


# --- around a simulation


def test_a_failed_step_leaves_nothing_after_a_restore() -> None:
    """The world raises during a round; restoring also removes the messages that had arrived."""

    class Fragile(Tally):
        """Raises on the input "break"."""

        def step(self, inputs: Any) -> int:
            if inputs and "break" in inputs:
                raise ZeroDivisionError
            return super().step(inputs)

    def run(*, breaks: bool) -> list[bytes]:
        simulation = staged(LIST | late(1), Fragile())
        simulation.step({"p": [1]})
        snapshot = simulation.state.snapshot()
        if breaks:
            with pytest.raises(ZeroDivisionError):
                simulation.step({"": ["break"]})
            restore(simulation, snapshot)
        states = []
        for _ in range(3):
            simulation.step({"q": [2]})
            states.append(simulation.state.arena.tobytes())
        return states

    assert run(breaks=True) == run(breaks=False)


def test_a_failure_while_messages_arrive_leaves_nothing_after_a_restore() -> None:
    """The failure lies between the arrival of a late message and the world's step."""

    class Moody(Choosy):
        """Raises in ``accepts`` while it is broken."""

        broken = True

        def accepts(self, item: Any) -> bool:
            if self.broken:
                raise ZeroDivisionError
            return super().accepts(item)

    world = Moody()
    simulation = staged(LIST | late(1), world)
    simulation.step({"p": [5]})
    snapshot = simulation.state.snapshot()
    with pytest.raises(ZeroDivisionError):
        simulation.step(None)
    world.broken = False
    restore(simulation, snapshot)
    simulation.step(None)
    simulation.step(None)

    assert simulation.state.blob("log") == b"[]\n[5]\n[]\n"


def test_what_the_worlds_step_returns_is_passed_on() -> None:
    """The result of the world's step is the result of the scenario's step."""
    assert [staged(ONE, Tally()).step(3), staged(ONE, Choosy()).step(3), staged({}).step(None)] == [1, 7, None]


def test_an_empty_scenario_changes_nothing() -> None:
    """The world's own fields are those of a run without one."""
    bare, around = Ring("abc"), staged({}, Ring("abc"))
    for _ in range(9):
        bare.step(None)
        around.step(None)

    assert {name: bare.state[name].tolist() for name in bare.state} == {
        name: around.state[name].tolist() for name in around.state if not name.startswith("scenario.")
    }


def test_a_save_load_world_with_messages_is_a_message_world() -> None:
    """In the save/load form, the messages of its roles are routed, not its inputs."""
    plain = {
        "network": {"latency_ms": 2, "variance": 0.5, "loss": 0.25},
        "adversaries": [
            {"id": "x", "kind": "crash", "role": "b", "duration": 3, "budget": {"total": 1}},
            {"id": "y", "kind": "corruption", "budget": {"total": 2}},
        ],
    }
    native, saved = happened(plain, 9, Ring("abc", 2), without=()), happened(plain, 9, SavedRing(2), without=())

    assert saved[0] == native[0]
    assert any("corrupted" in line for line in saved[0])
    assert totals(saved[1]) == totals(native[1])


def test_a_simulation_that_keeps_views_is_refused() -> None:
    """It would write to memory that is no longer the state."""

    class Keeping(Ring):
        """Keeps a view of its counts."""

        def __init__(self) -> None:
            super().__init__()
            self.count = self.state["count"]

    class KeepingPart(Ring):
        """Keeps a part of a view."""

        def __init__(self) -> None:
            super().__init__()
            self.first = self.state["count"][:1]

    for make in (Keeping, KeepingPart):
        with pytest.raises(TypeError) as caught:
            staged({}, make())
        assert str(caught.value) == (
            f"{make.__name__} keeps views of its state, which a scenario moves to add its fields: "
            'let each step read them again, as in self.state["x"]'
        )
