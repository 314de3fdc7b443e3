"""An extension of griffe: the parameters that a docstring explains in its sentences become a list; defaults are values.

The house writes ``name: what it is.`` after the summary, several to a paragraph. In a terminal that is short; on a page a
list is easier to search.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe

AFTER = re.compile(r"(?<=[.;)]) (?=(?:Raises|Returns|Yields) )")  # Sentences about all of the call, not the last name.


class ParameterLists(griffe.Extension):  # type: ignore[misc]  # Its types are not read, see pyproject.toml.
    """Rewrite the docstrings of functions and classes before they are parsed."""

    def on_function(self, *, func: Any, **_: Any) -> None:
        """Rewrite the docstring of a function, with its options if it takes those of a recording."""
        if any("OptionArguments" in str(parameter.annotation) for parameter in func.parameters):
            _take_options(func)
        _show_constants(func)
        func.overloads = None  # They are for type checkers, and have the names of constants.
        _rewrite(func, [parameter.name for parameter in func.parameters])

    def on_class(self, *, cls: Any, **_: Any) -> None:
        """Rewrite the docstring of a class, which may explain the parameters of its constructor."""
        made = cls.members.get("__init__")
        if made is not None and made.is_function:
            _rewrite(cls, [parameter.name for parameter in made.parameters])


def _take_options(func: Any) -> None:
    """Take the docstring and the parameters from the imported function, into which takes_options puts the options."""
    function: Any = importlib.import_module(func.module.path)
    for name in func.path.removeprefix(f"{func.module.path}.").split("."):
        function = getattr(function, name)
    if func.docstring is not None:
        func.docstring.value = inspect.getdoc(function)
    known = {parameter.name for parameter in func.parameters}
    func.parameters = griffe.Parameters(
        *(parameter for parameter in func.parameters if parameter.name != "options"),
        *(
            griffe.Parameter(
                name, annotation=option.annotation, kind=griffe.ParameterKind.keyword_only, default=repr(option.default)
            )
            for name, option in inspect.signature(function).parameters.items()
            if name not in known
        ),
    )


def _show_constants(func: Any) -> None:
    """Replace the names of constants among the defaults by their values: a reader does not know the module."""
    for parameter in func.parameters:
        if re.fullmatch(r"[A-Z][A-Z0-9_]+", str(parameter.default)):
            value = getattr(importlib.import_module(func.module.path), str(parameter.default))
            parameter.default = f"{value:_}" if isinstance(value, int) else repr(value)


def _rewrite(explained: Any, names: list[str]) -> None:
    if explained.docstring is not None:
        explained.docstring.value = with_list(explained.docstring.value, names)


def with_list(text: str, names: list[str]) -> str:
    """Return a docstring in which each ``name: ...`` of a parameter begins an entry of a list."""
    one = "|".join(re.escape(name.lstrip("*")) for name in names) or "(?!)"
    begins = re.compile(rf"(?:^|(?<=[.;)] )|(?<=\n))((?:{one})(?:, (?:{one}))*): (?=\S)")
    paragraphs = text.split("\n\n")
    listed = "\n\n".join(_listed(paragraph, begins) for paragraph in paragraphs)
    return re.sub(r"^(Raises|Returns|Yields) ", r"**\1** ", listed, flags=re.MULTILINE)


def _listed(paragraph: str, begins: re.Pattern[str]) -> str:
    if paragraph.lstrip().startswith(("Attributes:", "Args:", "    ", "```", ">>>")):
        return paragraph
    parts = begins.split(paragraph)
    if len(parts) == 1:
        return paragraph
    entries = [(named, " ".join(said.split())) for named, said in zip(parts[1::2], parts[2::2], strict=True)]
    last, *after = AFTER.split(entries[-1][1], maxsplit=1)
    entries[-1] = (entries[-1][0], last.strip())
    lines = [f"- {', '.join(f'`{name}`' for name in named.split(', '))}: {said}" for named, said in entries]
    return "\n\n".join(filter(None, [parts[0].strip(), "\n".join(lines), *after]))
