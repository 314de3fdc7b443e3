"""Each kind of mistake in a choreography gets one line, which names the key."""

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


def steps(*protocol_steps: dict[str, Any]) -> dict[str, Any]:
    """A choreography of A and B."""
    return {"protocol": protocol(["A", "B"], *protocol_steps)}


def message(**carried: Any) -> dict[str, Any]:
    """A choreography of one message."""
    return steps(send("A", "B", "x", **carried))


def valid(**more: Any) -> dict[str, Any]:
    """A valid choreography with further keys."""
    return {**steps(X), **more}


REFUSED: dict[str, dict[str, Any]] = {
    "protocol: this key is missing": {},
    "protocol.roles: expected 1 to 64 roles, got 0": {"protocol": protocol([])},
    "protocol.roles[1]: A is used twice": {"protocol": protocol(["A", "A"], X)},
    "protocol.roles[0]: expected a name of letters, digits, '_' and '-', got 'A.0'": {"protocol": protocol(["A.0"], X)},
    "protocol.roles[2]: C takes part in no step": {"protocol": protocol(["A", "B", "C"], X)},
    "protocol.steps[0].from: expected one of the roles A, B, got 'Z'": steps(send("Z", "B", "x")),
    "protocol.steps[0].to: expected one of the roles A, B, got 'Z'": steps(send("A", "Z", "x")),
    "protocol.steps[0].to: A sends to itself": steps(send("A", "A", "x")),
    "protocol.steps[0].to: this key is missing": steps({"send": "x", "from": "A"}),
    "protocol.steps[0].send: expected a name of letters, digits, '_' and '-', got 'a b'": steps(send("A", "B", "a b")),
    "protocol.steps[0]: expected one of the keys send, choice, loop, continue, end, got none": steps({}),
    "protocol.steps[0]: expected one of the keys send, choice, loop, continue, end, got send, loop": steps(
        {**X, "loop": "l"}
    ),
    "protocol.steps[0].times: not with send": steps({**X, "times": 2}),
    "protocol.steps[0].payload: not with choice; put it into a branch": steps(
        choice("A", "B", branch("l"), payload="number")
    ),
    "protocol.steps[0].choice: expected one of the roles A, B, got 'Z'": steps(choice("Z", "B", branch("l"))),
    "protocol.steps[0].to: A sends the choice to itself": steps(choice("A", "A", branch("l"))),
    "protocol.steps[0].branches: expected at least one branch": steps(choice("A", "B")),
    "protocol.steps[0].branches[1].label: the label l is used twice": steps(choice("A", "B", branch("l"), branch("l"))),
    "protocol.steps[0].branches[0].steps[1].to: B sends to itself": steps(
        choice("A", "B", branch("l", X, send("B", "B", "y")))
    ),
    "protocol.steps[0].schedule[1]: expected one of l, r, got 'm'": steps(
        choice("A", "B", branch("l"), branch("r"), schedule=["l", "m"])
    ),
    "protocol.steps[0].schedule: expected at least one label": steps(choice("A", "B", branch("l"), schedule=[])),
    "protocol.steps[0].when: expected two branches, got 1": steps(
        choice("A", "B", branch("l"), when={"register": 2, "is": "<", "than": 0})
    ),
    "protocol.steps[0].when: not with schedule": steps(
        choice("A", "B", branch("l"), branch("r"), schedule=["l"], when={"register": 2, "is": "<", "than": 0})
    ),
    "protocol.steps[0].when.is: expected one of <, <=, ==, >=, >, got '!='": steps(
        choice("A", "B", branch("l"), branch("r"), when={"register": 2, "is": "!=", "than": 0})
    ),
    "protocol.steps[0].when.than: expected a decimal number, got 'much'": steps(
        choice("A", "B", branch("l"), branch("r"), when={"register": 2, "is": "<", "than": "much"})
    ),
    "protocol.steps[0].when.register: expected a register from 0 to 3, got 4": steps(
        choice("A", "B", branch("l"), branch("r"), when={"register": 4, "is": "<", "than": 0})
    ),
    "protocol.steps[0].branches[0].weight: expected an integer from 1 to 65536, got 0": steps(
        choice("A", "B", branch("l", weight=0))
    ),
    "protocol.steps[1].continue: expected a loop around this step (none), got 'l'": steps(X, again("l")),
    "protocol.steps[0].steps[1].continue: expected a loop around this step (l), got 'm'": steps(
        loop("l", X, again("m"))
    ),
    "protocol.steps[0].steps[1].continue: the loop l has times and repeats automatically": steps(
        loop("l", X, again("l"), times=2)
    ),
    "protocol.steps[0]: expected times, or a step continue = 'l' inside the loop": steps(loop("l", X)),
    "protocol.steps[0].steps: expected a send or a choice in the loop l": steps(loop("l", again("l"))),
    "protocol.steps[0].steps: expected at least one step": steps(loop("l", times=2)),
    "protocol.steps[0].times: expected an integer from 1 to 10000, got 0": steps(loop("l", X, times=0)),
    "protocol.steps[1].loop: a second loop l: rename one": steps(loop("l", X, times=1), loop("l", X, times=1)),
    "protocol.steps[1]: this step is never reached": steps(loop("l", X, again("l")), X),
    "protocol.steps[2]: this step is never reached": steps(X, end(), X),
    "protocol.steps[1].end: expected true, got False": steps(X, {"end": False}),
    "protocol.steps[0].payload: expected one of unit, number, boolean, fixed, text, vector, pair, got 'float'": (
        message(payload="float")
    ),
    "protocol.steps[0].constant: expected a number, got '1'": message(payload="number", constant="1"),
    "protocol.steps[0].constant: expected a number, got 'True'": message(payload="number", constant=True),
    "protocol.steps[0].constant: expected a decimal number, got 'x'": message(payload="fixed", constant="x"),
    "protocol.steps[0].constant: expected a list of decimals, got 3": message(payload="vector", constant=3),
    "protocol.steps[0].constant: this key is missing: a text needs it": message(payload="text"),
    "protocol.steps[0].counter: only with payload = 'number'": message(payload="fixed", counter=True),
    "protocol.steps[0].register: not with constant": message(payload="number", constant=0, register=0),
    "protocol.steps[0].register: expected a register from 0 to 3, got 9": message(payload="fixed", register=9),
    "protocol.steps[0].registers[1]: expected a register from 0 to 3, got -1": message(
        payload="vector", registers=[0, -1]
    ),
    "protocol.steps[0].into: expected a register from 0 to 3, got 'x'": message(payload="fixed", into="x"),
    "protocol.steps[0].into: a vector of 2 does not fit into the registers from 3 on": message(
        payload="vector", into=3
    ),
    "protocol.steps[0].second: this key is missing": message(payload="pair", first={}),
    "protocol.steps[0].first.register: expected a register from 0 to 3, got 7": message(
        payload="pair", first={"payload": "fixed", "register": 7}, second={}
    ),
    "sessions: expected an integer from 1 to 1000, got 0": valid(sessions=0),
    "buffer_capacity: expected an integer from 1 to 65536, got 0": valid(buffer_capacity=0),
    "registers: expected at least 5, got 4": valid(registers=4, initial=[{"role": "A", "values": [1, 2, 3]}]),
    "initial[0].role: expected one of the roles A, B, got 'Z'": valid(initial=[{"role": "Z", "values": []}]),
    "initial[0].values[1]: expected a decimal number, got 'x'": valid(initial=[{"role": "A", "values": [1, "x"]}]),
    "initial[1].role: A has two tables of registers: remove one": valid(initial=[{"role": "A", "values": []}] * 2),
    "initial[0]: not with field, which sets the registers itself": valid(
        field=MEAN, initial=[{"role": "A", "values": []}]
    ),
    "scheduler.policy: expected one of cooperative, round_robin, priority_aging, priority_token_weighted, "
    "progress_aware, got 'fair'": valid(scheduler={"policy": "fair"}),
    "scheduler.concurrency: expected an integer from 1 to 4096, got 0": valid(scheduler={"concurrency": 0}),
    "scheduler.priorities: expected one for each of 2 roles, got 1": valid(scheduler={"priorities": [1]}),
    "field.kind: expected one of mean_field, hamiltonian, continuum, got 'x'": valid(field={**MEAN, "kind": "x"}),
    "field.beta: expected a decimal number, got 'x'": valid(field={**MEAN, "beta": "x"}),
    "field.step: expected a decimal above 0, got 0": valid(field={**MEAN, "step": 0}),
    "field.mass: not with kind = 'mean_field'": valid(field={**MEAN, "mass": 1}),
    "field.initial_state: expected 2 shares, got 1": valid(field={**MEAN, "initial_state": [1]}),
    "field.initial_state: expected shares of at least 0 with sum 1, got 0.6, 0.5": valid(
        field={**MEAN, "initial_state": ["0.6", "0.5"]}
    ),
    "field.positions[1]: expected a decimal number, got 'x'": valid(field={**SPRING, "positions": [0, "x"]}),
    "field.momenta: expected one for each of 2 roles, got 3": valid(field={**SPRING, "momenta": [0, 0, 0]}),
    "field.k: this key is missing": valid(field={key: value for key, value in SPRING.items() if key != "k"}),
    "tempo: unknown key; known keys: protocol, sessions, choreographies, buffer_capacity, registers, initial, scheduler, field, "
    "world, name, seed, ticks": valid(tempo=1),
}


@pytest.mark.parametrize("line", REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_a_mistake_gets_one_line_that_names_the_key(line: str) -> None:
    """The message equals the line, literally."""
    with pytest.raises(ConfigError) as caught:
        Choreography(REFUSED[line])
    assert str(caught.value) == line


def test_levels_of_steps_have_a_limit() -> None:
    """64 levels are read, 65 are not."""
    step = X
    for number in range(64):
        step = loop(f"l{number}", step, times=1)
    Choreography(steps(step))
    with pytest.raises(ConfigError, match="expected at most 64 levels of steps, got 65"):
        Choreography(steps(loop("outermost", step, times=1)))
