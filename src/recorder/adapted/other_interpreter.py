"""Restore a tried simulation in a new interpreter, with a different PYTHONHASHSEED, and run it on there.

Only what an adapter can rebuild from plain data can be tried so. It takes a second or two.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgpack
import numpy as np

from recorder.adapted.named_differences import differing_paths
from recorder.processes.interpreter import (
    answer_alone_on_stdout,
    begin_as_python,
    end_all,
    module_program,
    start_python,
)
from recorder.trial.trajectory import Trajectory, restore_and_follow
from sim.adapters.interface.adapter_registry import adapter_named
from sim.kernel.schema import schema_from_plain, schema_to_plain
from sim.kernel.simulation import as_simulation
from sim.kernel.state import Snapshot, State

LIMIT_S = 20.0


def continue_elsewhere(
    described: Mapping[str, Any], level: str, run: Trajectory, names: Sequence[str]
) -> tuple[bool, str | None]:
    """Continue the run in another interpreter: True if it could, and the first difference, if there is one.

    described: the adapter's entry in META.
    """
    start = min((tick for tick in run.states if tick), default=0)
    request = msgpack.packb({
        "path": sys.path,
        "adapter": described["name"],
        "subject": described["subject"],
        "ignored": list(described.get("ignored", ())),
        "level": level,
        "start": start,
        "states": {tick: _to_plain(state) for tick, state in run.states.items()},
        "inputs": run.inputs,
        "hashes": run.hashes,
        "results": run.results,
        "unstable": sorted(run.unstable),
        "names": list(names),
    })  # fmt: skip
    seed = "0" if os.environ.get("PYTHONHASHSEED") != "0" else "1"
    variables = {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = start_python(module_program(__name__), environment=variables, is_own_session=True)
    try:
        output, _ = process.communicate(request, LIMIT_S)
    except subprocess.TimeoutExpired:
        return False, None
    finally:
        end_all([process])
    if process.returncode:
        return False, None
    was_tried, different = msgpack.unpackb(output)
    return was_tried, different


def _to_plain(snapshot: Snapshot) -> list[Any]:
    layout = snapshot.layout
    return [schema_to_plain(layout.schema), dict(layout.capacities), bytes(np.asarray(snapshot.arena))]


def _from_plain(plain: Sequence[Any]) -> Snapshot:
    schema, capacities, content = plain
    state = State(schema_from_plain(schema), capacities)
    state.arena[:] = np.frombuffer(content, np.uint8)
    return state.snapshot()


def _continue(request: Mapping[str, Any]) -> tuple[bool, str | None]:
    adapter = adapter_named(request["adapter"])
    rebuilt = adapter.rebuild(request["subject"])
    if rebuilt is None:
        return False, None
    adapted = adapter.adapt(rebuilt, level=request["level"], ignore=tuple(request["ignored"]), pickler=None)
    states = {tick: _from_plain(plain) for tick, plain in request["states"].items()}
    run = Trajectory(
        0, request["inputs"], request["hashes"], request["results"], states, unstable=frozenset(request["unstable"])
    )
    different = restore_and_follow(as_simulation(adapted), run, request["start"], tuple(request["names"]))
    if different is not None and different.states is not None:
        different = attrs.evolve(different, fields=differing_paths(*different.states, different.fields))
    return True, None if different is None else str(different)


def main() -> None:
    """Read a request from stdin, write the difference to stdout, both as MessagePack; stdout is the answer's alone."""
    begin_as_python()
    answer = answer_alone_on_stdout()
    request = msgpack.unpackb(sys.stdin.buffer.read(), strict_map_key=False)
    sys.path[:] = request["path"]
    with answer:
        answer.write(msgpack.packb(_continue(request)))


if __name__ == "__main__":
    main()
