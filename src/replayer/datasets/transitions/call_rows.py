"""Rows of the table of actions that tell the calls of an environment: one for each call, or for each agent that acted.

call      "step" or "reset"
action    of a step; of a Dict or Tuple a column for each part, by its path
seed, options    of a reset; options as JSON text
raised    the class of the exception, of a call that raised
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from replayer.datasets.rows.columns import AGENT
from replayer.datasets.rows.records import Row
from replayer.datasets.transitions.flat_values import flatten, joined, json_text
from replayer.datasets.transitions.transition_rows import DONE, OPTIONS, SEED
from replayer.tape.environment_calls import call_of
from replayer.value_text import to_json
from sim.kernel.simulation import Simulation, inner_of

CALL, RAISED = "call", "raised"


def rows_of_call(tick: int, inputs: Any, simulation: Simulation) -> Iterator[Row]:
    """Yield the rows of the call that leads to a tick, without run and tick.

    simulation: the environment before the call, which knows whose turn it is. Raises CorruptError, and ExtractionError as
    flatten does.
    """
    call = call_of(tick, inputs)
    row: Row = {CALL: call.kind}
    ended = {} if call.raised is None else {RAISED: call.raised}
    if call.kind == "reset":
        row |= {} if call.seed is None else {SEED: to_json(call.seed)}
        row |= {} if call.options is None else {OPTIONS: json_text(call.options)}
        yield {AGENT: ""} | row | ended
        return
    for agent, action in _by_agent(call.action, inner_of(simulation)).items():
        parts = {joined(DONE, path) if path else DONE: _plain(value.data) for path, value in flatten(action).items()}
        yield {AGENT: agent} | row | parts | ended


def _by_agent(action: Any, environment: Any) -> dict[str, Any]:
    """The action of each agent; of the agent "" where there are none."""
    is_parallel = getattr(environment, "is_parallel", None)
    if is_parallel and isinstance(action, dict):
        return {str(agent): own for agent, own in action.items()}
    agent = environment.last.agent if is_parallel is False else None
    return {"" if agent is None else str(agent): action}


def _plain(data: Any) -> Any:
    return to_json(data) if isinstance(data, np.ndarray) else data
