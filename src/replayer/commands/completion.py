"""The command ``replay completion``: a script with which the tab key completes commands and options in a shell."""

from __future__ import annotations

import replayer.commands.main
from recorder.console.completion_script import Shell, print_script


def completion(shell: Shell, /) -> None:
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
    print_script(replayer.commands.main.load([]), "replay", shell)
