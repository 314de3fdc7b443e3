"""The other process of a contract's trial: makes the simulation, runs it with what it is told, and says the hashes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import msgpack

from recorder.conformance.contract_checks import simulation_from
from recorder.factory_spec import load_factory
from recorder.processes.interpreter import begin_as_python
from sim.kernel.plain_data import decode_plain


def factory_at(file: str, name: str) -> Any:
    """What makes the simulation: ``module:factory`` if there is no file, else a name in the file.

    Raises what importing it raises.
    """
    if not file:
        return load_factory(name)
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found().make if isinstance(found, type) and hasattr(found, "make") else found


def main() -> None:
    """Read from stdin, write to stdout: MessagePack."""
    begin_as_python()
    told = msgpack.unpackb(sys.stdin.buffer.read())
    sys.path[:] = told["path"]
    make = factory_at(*told["place"])
    answers = []
    for inputs in told["runs"]:
        simulation = simulation_from(make())
        hashes = [simulation.state.hash()]
        for encoded in inputs:
            simulation.step(decode_plain(encoded))
            hashes.append(simulation.state.hash())
        answers.append(hashes)
    sys.stdout.buffer.write(msgpack.packb(answers))


if __name__ == "__main__":
    main()
