"""The command ``record completion``: a script with which the tab key completes commands and options in a shell."""

from __future__ import annotations

import recorder.commands.main
from recorder.console.completion_script import Shell, print_script


def completion(shell: Shell, /) -> None:
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
    print_script(recorder.commands.main.load([]), "record", shell)
