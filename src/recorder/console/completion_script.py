"""The script with which the tab key completes the commands and options of a program in a shell."""

from __future__ import annotations

import sys
from typing import Literal

from cyclopts import App

Shell = Literal["bash", "zsh", "fish"]


def print_script(app: App, name: str, shell: Shell) -> None:
    """Print the script for a program of this name, as it is: it is for a shell."""
    script = app.generate_completion(prog_name=name, shell=shell)
    if shell == "zsh":  # Read by eval, its first line, #compdef, is a comment.
        script += f"\n(( $+functions[compdef] )) && compdef _cyclopts_{name} {name}"
    sys.stdout.write(f"{script}\n")
