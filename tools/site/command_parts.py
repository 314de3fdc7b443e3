"""The commands of ``record`` and ``replay`` as Markdown, from the same definitions as their ``--help``."""

from __future__ import annotations

import re
from importlib import import_module

from cyclopts import App

PROGRAMS = {"record": "recorder.commands.main", "replay": "replayer.commands.main"}
_EXAMPLE = re.compile(r"^(?:Examples?: *)?((?:record|replay) .+)$")

_BEFORE_ARGUMENTS = re.compile(r"^.*?(?= (?:\[|--|[A-Z]))|^.*")  # The name of what is running and of the function.


def commands_of(program: str) -> str:
    """Return a section for each command of a program, in the order of its help."""
    main = import_module(PROGRAMS[program])
    app = main.load([])
    return "\n\n".join(_section(program, name, app[name]) for name in main.COMMANDS)


def _section(program: str, name: str, command: App) -> str:
    text = command.generate_docs(output_format="markdown", heading_level=2)
    lines = text.splitlines()
    usage = lines.index("```console") + 1
    lines[usage] = f"{program} {name}{_BEFORE_ARGUMENTS.sub('', lines[usage])}"
    lines[usage] = re.sub(r"\[ARGS(?:\.\.\.)?\]", _optional_arguments(command), lines[usage])
    heading = [f"## {program} {name} {{ #{name} }}"]
    return "\n".join(heading + _with_examples_as_code(lines[1:])).replace(" *[default: False]*", "")


def _optional_arguments(command: App) -> str:
    """Return the arguments that may be left out, as a usage line names them."""
    names = []
    for argument in command.assemble_argument_collection():
        kind = argument.field_info.kind
        if not argument.required and kind is not kind.KEYWORD_ONLY:
            names.append(f"[{argument.name}{'...' if kind is kind.VAR_POSITIONAL else ''}]")
    return " ".join(names)


def _with_examples_as_code(lines: list[str]) -> list[str]:
    """Return the lines with example commands, which the help prints as they are, in a block of code."""
    made: list[str] = []
    inside = in_fence = False
    for line in lines:
        if line.startswith("```"):
            in_fence = not in_fence
        match = None if in_fence else _EXAMPLE.match(line)
        if match and not inside:
            made += ["", "```shell"]
        elif inside and not match:
            made += ["```", ""]
        inside = match is not None
        if line.strip() in {"Examples:", "Example:", "Try:"}:
            continue
        made.append(match[1] if match else line)
    return [*made, "```"] if inside else made
