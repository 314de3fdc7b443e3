"""Options that several subcommands of replay share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(name="--json", negative="")]
Sim = Annotated[str | None, Parameter(name="--sim")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"])]
DumpFolder = Annotated[Path | None, Parameter(name="--dump-folder")]
