"""Options that several subcommands of replay have, and what the state of a tape means for their exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from recorder.console import CORRUPT, INCOMPLETE, SAME

STATUS_CODES = {"intact": SAME, "incomplete": INCOMPLETE, "corrupt": CORRUPT}

Json = Annotated[bool, Parameter(name="--json", negative="")]
Sim = Annotated[str | None, Parameter(name="--sim")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"])]
DumpFolder = Annotated[Path | None, Parameter(name="--dump-folder")]
