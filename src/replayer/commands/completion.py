"""The command ``replay completion``: a script with which the tab key completes commands and options in a shell."""

from __future__ import annotations

import sys
from typing import Literal

import replayer.commands.main


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script with which the tab key completes the commands and options of replay.

    Try:
    eval "$(replay completion bash)"                       in ~/.bashrc
    replay completion zsh > ~/.zfunc/_replay               a folder of $fpath
    replay completion fish > ~/.config/fish/completions/replay.fish

    Parameters
    ----------
    shell
        The shell that the script is for.
    """
    script = replayer.commands.main.load([]).generate_completion(prog_name="replay", shell=shell)
    if shell == "zsh":  # Read by eval, its first line, #compdef, is a comment.
        script += "\n(( $+functions[compdef] )) && compdef _cyclopts_replay replay"
    sys.stdout.write(f"{script}\n")  # As it is: it is for a shell.
