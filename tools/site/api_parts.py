"""The public names of a module as directives of mkdocstrings, which makes a reference of their docstrings."""

from __future__ import annotations

import posixpath
import re
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
LIST = Path(__file__).parents[2] / "tests/end_to_end/public_names.toml"


def members_of(module: str) -> str:
    """Return a directive for each public name of a module."""
    return "\n\n".join(f"::: {module}.{name}\n\n{_example_line(module, name)}" for name in public_names(module))


def _example_line(module: str, name: str) -> str:
    """A line that leads to the first page with code that uses a name, which the tests run; "" if there is none."""
    found = example_of(module, name)
    if found is None:
        return ""
    page, code = found
    title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f"Example, from [{title}]({posixpath.relpath(page.relative_to(DOCS), 'reference')}): `{code}`"


@cache
def example_of(module: str, name: str) -> tuple[Path, str] | None:
    """Return the first page with Python code that uses a public name, and a line of that code."""
    is_meant = re.compile(
        rf"\b{re.escape(module)}\.{name}\b|^from (?:sim|recorder|replayer)[\w.]* import .*\b{name}\b", re.MULTILINE
    )
    for page, block in _blocks():
        if is_meant.search(block):
            code = [line.partition("  #")[0].strip() for line in block.splitlines()]
            lines = [line for line in code if re.search(rf"\b{name}\b", line) and "`" not in line]
            uses = [line for line in lines if not line.startswith(("from ", "import ", "#"))]
            if uses or lines:
                return page, (uses or lines)[0]
    return None


@cache
def _blocks() -> tuple[tuple[Path, str], ...]:
    """The blocks of Python in the pages, those for readers who begin first."""
    pages = [page for folder in ("tutorial", "guides", ".") for page in sorted((DOCS / folder).glob("*.md"))]
    fences = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return tuple((page, block) for page in pages for block in fences.findall(page.read_text(encoding="utf-8")))


def public_names(module: str) -> list[str]:
    """Return the names of a module that programs may import: what it offers, and what is promised to stay.

    Errors come last.
    """
    lists = tomllib.loads(LIST.read_text(encoding="utf-8"))
    promised = {**lists["public"], **lists["documented"]}.get(module, "").split()
    names = {*promised, *getattr(import_module(module), "__all__", [])}
    return sorted(names, key=lambda name: (name.endswith(("Error", "Warning")), name.casefold()))
