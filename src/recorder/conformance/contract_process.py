"""The other process of a conformance trial: run the inputs of a request, return the hashes and the steps' results."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import msgpack

from recorder.adapted.first_trial import returned_names
from recorder.conformance.contract_checks import adapter_of_simulation, simulation_from
from recorder.factory_spec import load_factory
from recorder.processes.interpreter import answer_alone_on_stdout, begin_as_python
from recorder.trial.returned import leaves_of
from sim.kernel.plain_data import decode_plain


def factory_at(file: str, name: str) -> Any:
    """Return the factory of the simulation: ``module:factory`` if file is empty, else a name in the file.

    Raises any exception of the import.
    """
    if not file:
        return load_factory(name)
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    factory: Any = module
    for attribute in name.split("."):
        factory = getattr(factory, attribute)
    return factory().make if isinstance(factory, type) and hasattr(factory, "make") else factory


def main() -> None:
    """Read a request from stdin, write hashes and results to stdout, both as MessagePack."""
    begin_as_python()
    answer = answer_alone_on_stdout()
    request = msgpack.unpackb(sys.stdin.buffer.read())
    sys.path[:] = request["path"]
    make = factory_at(*request["location"])
    answers = []
    for seed, inputs in request["runs"]:
        made = make(seed=seed) if request["is_seeded"] else make()
        simulation = simulation_from(made, request["step"], request["ignore"])
        names = returned_names(adapter_of_simulation(simulation))
        hashes, results = [simulation.state.hash()], []
        for encoded in inputs:
            results.append(leaves_of(simulation.step(decode_plain(encoded)), names))  # type: ignore[func-returns-value]
            hashes.append(simulation.state.hash())
        answers.append([hashes, results])
    with answer:
        answer.write(msgpack.packb(answers))


if __name__ == "__main__":
    main()
