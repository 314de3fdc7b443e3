"""The option --engine of commands whose work other machines can do."""

from __future__ import annotations

from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.processes.engines.engine import find_engine
from recorder.processes.engines.ray_engine import RayEngine

EngineOption = Annotated[
    str | None,
    Parameter(
        name="--engine",
        help="Where the work is done: processes (the default; of this machine), ray (a Ray that is started here for this "
        "command), or ray:ADDRESS (a cluster: ray:auto, ray:10.0.0.1:6379). --jobs is then the number of items at a time; "
        "by default one for each processor. The results are the same.",
    ),
]


def engine_arguments(engine: str | None, jobs: int | None, processors: int, **more: Any) -> dict[str, Any]:
    """The arguments engine and jobs of a function, from the options --engine and --jobs. Raises EngineError.

    processors: of this machine, for its processes if --jobs is not given. more: further arguments.
    """
    found = find_engine(engine)
    if isinstance(found, RayEngine):
        return {"engine": attrs.evolve(found, workers=jobs), "jobs": 1, **more}
    return {"engine": found, "jobs": jobs or processors, **more}
