"""The pages of the site without building it: the navigation names each, their links lead somewhere, nothing goes stale."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import pytest

from project_paths import ROOT

sys.path.append(str(ROOT / "tools/site"))

from command_parts import PROGRAMS, commands_of

DOCS = ROOT / "docs"
ROOT_PAGES = [ROOT / name for name in ("README.md", "SPEC.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES = [*ROOT_PAGES, *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def shown(path: Path) -> str:
    """Return a page as a test's name."""
    return str(path.relative_to(ROOT))


def test_the_navigation_names_every_page() -> None:
    """Each page of docs/ is in mkdocs.yml, alone or with its folder, and each that is named exists."""
    settings = (ROOT / "tools/site/mkdocs.yml").read_text(encoding="utf-8")
    entries = re.findall(r"^ +- (?:[^:\n]+: )?([\w/-]+(?:\.md|/))$", settings.partition("\nnav:")[2], re.MULTILINE)
    folders = {entry for entry in entries if entry.endswith("/")}
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    named = {entry for entry in entries if entry.endswith(".md")} - {
        "index.md",
        "SPEC.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
    }

    assert len(named) > 30
    assert named - pages == set()
    assert {page for page in pages - named if not page.startswith(tuple(folders))} == set(), "add it to mkdocs.yml"


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        found.add(anchor if anchor not in found else f"{anchor}-1")
    for program in re.findall(r"<!-- site: commands (\w+) -->", text):
        found |= set(re.findall(r"^## .* \{ #(\w+) \}$", commands_of(program), re.MULTILINE))
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_links_lead_somewhere(page: Path) -> None:
    """Each link of a page to a file of the repository leads to one that exists, and to a heading that it has."""
    dead = []
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z0-9]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_reference_has_every_command_with_its_examples_and_options(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And so has the help: every line of a docstring that begins with the program's name is printed."""
    import importlib

    from recorder.console.app import run_app

    main = importlib.import_module(PROGRAMS[program])
    sections = dict(
        re.findall(rf"^## {program} (\w+) .*?\n(.*?)(?=^## |\Z)", commands_of(program), re.MULTILINE | re.DOTALL)
    )
    app = main.load([])

    assert list(sections) == list(main.COMMANDS)
    for name, target in main.COMMANDS.items():
        module, _, function = target.partition(":")
        doc = getattr(importlib.import_module(module), function).__doc__
        examples = re.findall(rf"^\s*(?:Example: )?({program} .+)$", doc, re.MULTILINE)
        assert run_app(app, [name, "--help"]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        options = {
            option
            for argument in app[name].assemble_argument_collection()
            for option in argument.names
            if option.startswith("-")
        }
        assert examples, name
        assert [one for one in examples if " ".join(one.split()) not in printed or one not in sections[name]] == []
        assert [one for one in options if not re.search(rf"`[^`]*(?<!\w){one}\b", sections[name])] == [], name
