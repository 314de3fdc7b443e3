"""Each kind of mistake in a choreography gets one line that names the key."""

from __future__ import annotations

from typing import Any

import pytest

from sim.kernel.registry import ConfigError
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.protocol.builder import again, branch, choice, end, loop, protocol, send

X = send("A", "B", "x")
MEAN = {"kind": "mean_field", "beta": "1.5", "species": 2, "initial_state": ["0.6", "0.4"], "step": "0.01"}
SPRING = {
    "kind": "hamiltonian",
    "k": 1,
    "mass": 1,
    "positions": [0, 1],
    "momenta": [0, 0],
    "step": "0.01",
}


def steps(*given: dict[str, Any]) -> dict[str, Any]:
    """A choreography of A and B."""
    return {"protocol": protocol(["A", "B"], *given)}


def message(**carried: Any) -> dict[str, Any]:
    """A choreography of one message."""
    return steps(send("A", "B", "x", **carried))


def whole(**more: Any) -> dict[str, Any]:
    """A good choreography with something more."""
    return {**steps(X), **more}


REFUSED: dict[str, dict[str, Any]] = {
    "protocol: this key is missing": {},
    "protocol.roles: 1 to 64 roles were expected, found 0": {"protocol": protocol([])},
    "protocol.roles[1]: two roles are called A": {"protocol": protocol(["A", "A"], X)},
    "protocol.roles[0]: a name of letters, digits, '_' and '-' was expected, found 'A.0'": {
        "protocol": protocol(["A.0"], X)
    },
    "protocol.roles[2]: C takes part in no step": {"protocol": protocol(["A", "B", "C"], X)},
    "protocol.steps[0].from: one of the roles A, B was expected, found 'Z'": steps(send("Z", "B", "x")),
    "protocol.steps[0].to: one of the roles A, B was expected, found 'Z'": steps(send("A", "Z", "x")),
    "protocol.steps[0].to: A sends to itself": steps(send("A", "A", "x")),
    "protocol.steps[0].to: this key is missing": steps({"send": "x", "from": "A"}),
    "protocol.steps[0].send: a name of letters, digits, '_' and '-' was expected, found 'a b'": steps(
        send("A", "B", "a b")
    ),
    "protocol.steps[0]: one of the keys send, choice, loop, continue, end was expected, found none": steps({}),
    "protocol.steps[0]: one of the keys send, choice, loop, continue, end was expected, found send, loop": steps(
        {**X, "loop": "l"}
    ),
    "protocol.steps[0].times: not with send": steps({**X, "times": 2}),
    "protocol.steps[0].payload: not with choice; a branch carries its own": steps(
        choice("A", "B", branch("l"), payload="number")
    ),
    "protocol.steps[0].choice: one of the roles A, B was expected, found 'Z'": steps(choice("Z", "B", branch("l"))),
    "protocol.steps[0].to: A tells itself": steps(choice("A", "A", branch("l"))),
    "protocol.steps[0].branches: at least one branch was expected": steps(choice("A", "B")),
    "protocol.steps[0].branches[1].label: two branches have the label l": steps(
        choice("A", "B", branch("l"), branch("l"))
    ),
    "protocol.steps[0].branches[0].steps[1].to: B sends to itself": steps(
        choice("A", "B", branch("l", X, send("B", "B", "y")))
    ),
    "protocol.steps[0].schedule[1]: one of l, r was expected, found 'm'": steps(
        choice("A", "B", branch("l"), branch("r"), schedule=["l", "m"])
    ),
    "protocol.steps[0].schedule: at least one label was expected": steps(choice("A", "B", branch("l"), schedule=[])),
    "protocol.steps[0].when: two branches were expected, found 1": steps(
        choice("A", "B", branch("l"), when={"register": 2, "is": "<", "than": 0})
    ),
    "protocol.steps[0].when: not together with schedule": steps(
        choice("A", "B", branch("l"), branch("r"), schedule=["l"], when={"register": 2, "is": "<", "than": 0})
    ),
    "protocol.steps[0].when.is: one of <, <=, ==, >=, > was expected, found '!='": steps(
        choice("A", "B", branch("l"), branch("r"), when={"register": 2, "is": "!=", "than": 0})
    ),
    "protocol.steps[0].when.than: 'much' is no decimal number": steps(
        choice("A", "B", branch("l"), branch("r"), when={"register": 2, "is": "<", "than": "much"})
    ),
    "protocol.steps[0].when.register: a register from 0 to 3 was expected, found 4": steps(
        choice("A", "B", branch("l"), branch("r"), when={"register": 4, "is": "<", "than": 0})
    ),
    "protocol.steps[0].branches[0].weight: a whole number from 1 to 65536 was expected, found 0": steps(
        choice("A", "B", branch("l", weight=0))
    ),
    "protocol.steps[1].continue: a loop around this step was expected (there is none), found 'l'": steps(X, again("l")),
    "protocol.steps[0].steps[1].continue: a loop around this step was expected (l), found 'm'": steps(
        loop("l", X, again("m"))
    ),
    "protocol.steps[0].steps[1].continue: the loop l has times, and goes on by itself": steps(
        loop("l", X, again("l"), times=2)
    ),
    "protocol.steps[0]: the loop l has neither times nor a step that continues it": steps(loop("l", X)),
    "protocol.steps[0].steps: nobody does anything in the loop l": steps(loop("l", again("l"))),
    "protocol.steps[0].steps: at least one step was expected": steps(loop("l", times=2)),
    "protocol.steps[0].times: a whole number from 1 to 10000 was expected, found 0": steps(loop("l", X, times=0)),
    "protocol.steps[1].loop: two loops are called l": steps(loop("l", X, times=1), loop("l", X, times=1)),
    "protocol.steps[1]: this step is never reached": steps(loop("l", X, again("l")), X),
    "protocol.steps[2]: this step is never reached": steps(X, end(), X),
    "protocol.steps[1].end: true was expected, found False": steps(X, {"end": False}),
    "protocol.steps[0].payload: one of unit, number, boolean, fixed, text, vector, pair was expected, found 'float'": (
        message(payload="float")
    ),
    "protocol.steps[0].constant: a number was expected, found '1'": message(payload="number", constant="1"),
    "protocol.steps[0].constant: a number was expected, found 'True'": message(payload="number", constant=True),
    "protocol.steps[0].constant: 'x' is no decimal number": message(payload="fixed", constant="x"),
    "protocol.steps[0].constant: a list of decimals was expected, found 3": message(payload="vector", constant=3),
    "protocol.steps[0].constant: this key is missing: what a text is made from": message(payload="text"),
    "protocol.steps[0].counter: only with payload = 'number'": message(payload="fixed", counter=True),
    "protocol.steps[0].register: not together with constant": message(payload="number", constant=0, register=0),
    "protocol.steps[0].register: a register from 0 to 3 was expected, found 9": message(payload="fixed", register=9),
    "protocol.steps[0].registers[1]: a register from 0 to 3 was expected, found -1": message(
        payload="vector", registers=[0, -1]
    ),
    "protocol.steps[0].into: a register from 0 to 3 was expected, found 'x'": message(payload="fixed", into="x"),
    "protocol.steps[0].into: a vector of 2 does not fit behind register 3": message(payload="vector", into=3),
    "protocol.steps[0].second: this key is missing": message(payload="pair", first={}),
    "protocol.steps[0].first.register: a register from 0 to 3 was expected, found 7": message(
        payload="pair", first={"payload": "fixed", "register": 7}, second={}
    ),
    "sessions: a whole number from 1 to 1000 was expected, found 0": whole(sessions=0),
    "buffer_capacity: a whole number from 1 to 65536 was expected, found 0": whole(buffer_capacity=0),
    "registers: at least 5 were expected, found 4": whole(registers=4, initial=[{"role": "A", "values": [1, 2, 3]}]),
    "initial[0].role: one of the roles A, B was expected, found 'Z'": whole(initial=[{"role": "Z", "values": []}]),
    "initial[0].values[1]: 'x' is no decimal number": whole(initial=[{"role": "A", "values": [1, "x"]}]),
    "initial[1].role: A has its registers already": whole(initial=[{"role": "A", "values": []}] * 2),
    "initial[0]: with a field, its own keys say what registers hold at first": whole(
        field=MEAN, initial=[{"role": "A", "values": []}]
    ),
    "scheduler.policy: one of cooperative, round_robin, priority_aging, priority_token_weighted, progress_aware was "
    "expected, found 'fair'": whole(scheduler={"policy": "fair"}),
    "scheduler.concurrency: a whole number from 1 to 4096 was expected, found 0": whole(scheduler={"concurrency": 0}),
    "scheduler.priorities: one for each of 2 roles was expected, found 1": whole(scheduler={"priorities": [1]}),
    "field.kind: one of mean_field, hamiltonian, continuum was expected, found 'x'": whole(field={**MEAN, "kind": "x"}),
    "field.beta: 'x' is no decimal number": whole(field={**MEAN, "beta": "x"}),
    "field.step: a decimal above 0 was expected, found 0": whole(field={**MEAN, "step": 0}),
    "field.mass: not with kind = 'mean_field'": whole(field={**MEAN, "mass": 1}),
    "field.initial_state: 2 shares were expected, found 1": whole(field={**MEAN, "initial_state": [1]}),
    "field.initial_state: shares of at least 0 that make 1 were expected": whole(
        field={**MEAN, "initial_state": ["0.6", "0.5"]}
    ),
    "field.positions[1]: 'x' is no decimal number": whole(field={**SPRING, "positions": [0, "x"]}),
    "field.momenta: one for each of 2 roles was expected, found 3": whole(field={**SPRING, "momenta": [0, 0, 0]}),
    "field.k: this key is missing": whole(field={key: value for key, value in SPRING.items() if key != "k"}),
    "tempo: there is no such key; known: protocol, sessions, buffer_capacity, registers, initial, scheduler, field, "
    "world, name, seed, ticks": whole(tempo=1),
}


@pytest.mark.parametrize("line", REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_a_mistake_gets_one_line_that_names_the_key(line: str) -> None:
    """Literally."""
    with pytest.raises(ConfigError) as caught:
        Choreography(REFUSED[line])
    assert str(caught.value) == line


def test_levels_of_steps_have_a_limit() -> None:
    """64 levels are read, 65 are not."""
    step = X
    for number in range(64):
        step = loop(f"l{number}", step, times=1)
    Choreography(steps(step))
    with pytest.raises(ConfigError, match="at most 64 levels of steps were expected"):
        Choreography(steps(loop("outermost", step, times=1)))
