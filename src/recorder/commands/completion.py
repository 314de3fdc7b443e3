"""The command ``record completion``: a script with which the tab key completes commands and options in a shell."""

from __future__ import annotations

import sys
from typing import Literal

import recorder.commands.main


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script with which the tab key completes the commands and options of record.

    Try:
    eval "$(record completion bash)"                       in ~/.bashrc
    record completion zsh > ~/.zfunc/_record               a folder of $fpath
    record completion fish > ~/.config/fish/completions/record.fish

    Parameters
    ----------
    shell
        The shell that the script is for.
    """
    script = recorder.commands.main.load([]).generate_completion(prog_name="record", shell=shell)
    if shell == "zsh":  # Read by eval, its first line, #compdef, is a comment.
        script += "\n(( $+functions[compdef] )) && compdef _cyclopts_record record"
    sys.stdout.write(f"{script}\n")  # As it is: it is for a shell.
