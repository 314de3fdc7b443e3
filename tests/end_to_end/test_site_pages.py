"""The pages of the site without building it: the navigation names each, their links lead somewhere, nothing goes stale."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from recorder import exit_codes
from recorder.console import app

from project_paths import ROOT

sys.path.append(str(ROOT / "tools/site"))

from api_parts import example_of, public_names
from command_parts import PROGRAMS, commands_of
from message_index import message_index
from message_parts import forget_trees, templates, unresolved

DOCS = ROOT / "docs"
ROOT_PAGES = [ROOT / name for name in ("README.md", "SPEC.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES = [*ROOT_PAGES, *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def parsed_source() -> Iterator[None]:
    """The source is parsed once for this module, and not kept for the next ones."""
    yield
    forget_trees()


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


def test_the_list_of_pages_has_every_page() -> None:
    """Of docs/ itself, with a line about it."""
    listed = set(
        re.findall(r"^- \[([\w-]+\.md)\]\(\1\): ", (DOCS / "pages.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {path.name for path in DOCS.glob("*.md")} - listed == {"pages.md", "glossary.md"}


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

    main = importlib.import_module(PROGRAMS[program])
    sections = dict(
        re.findall(rf"^## {program} (\w+) .*?\n(.*?)(?=^## |\Z)", commands_of(program), re.MULTILINE | re.DOTALL)
    )
    program_app = main.load([])

    assert list(sections) == list(main.COMMANDS)
    for name, text in sections.items():  # Without the name of the program that builds the site.
        usage = re.search(r"```console\n(.*)\n```", text)
        assert usage is not None
        assert re.fullmatch(rf"{program} {name}( (--)?\[?[\w.|-]+\]?)*", usage[1]), usage[1]
        assert " -m " not in usage[1]
        assert "ARGS" not in usage[1]
    for name, target in main.COMMANDS.items():
        module, _, function = target.partition(":")
        doc = getattr(importlib.import_module(module), function).__doc__
        examples = re.findall(rf"^\s*(?:Example: )?({program} .+)$", doc, re.MULTILINE)
        assert app.run_app(program_app, [name, "--help"]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        options = {
            option
            for argument in program_app[name].assemble_argument_collection()
            for option in argument.names
            if option.startswith("-")
        }
        assert examples, name
        assert [one for one in examples if " ".join(one.split()) not in printed or one not in sections[name]] == []
        assert [one for one in options if not re.search(rf"`[^`]*(?<!\w){one}\b", sections[name])] == [], name


MESSAGES = (DOCS / "reference/messages.md").read_text(encoding="utf-8")


@cache
def shown_texts() -> str:
    """All texts of the source, a line each: none has a line break."""
    return re.sub("…+", "…", "\n".join(templates()))


@pytest.mark.parametrize("message", re.findall(r"^### `(.+)`$", MESSAGES, re.MULTILINE))
def test_the_messages_that_are_explained_are_in_the_code(message: str) -> None:
    """Each as one text of the source, with … for what is put into it, or as the end of one."""
    assert re.sub("…+", "…", message) in shown_texts()


def test_the_table_of_classes_names_each_with_its_exit_code() -> None:
    """All public errors and warnings, and the codes that the commands end with."""
    table = dict(re.findall(r"^\| `(\w+)` \| .+ \| (\d|–) \|$", MESSAGES, re.MULTILINE))
    public = {
        name: getattr(importlib.import_module(module), name)
        for module in ("sim", "sim.adapters", "recorder", "replayer")
        for name in importlib.import_module(module).__all__
        if name.endswith(("Error", "Warning")) and name != "RecordingError"
    }
    codes = {name: "–" if issubclass(kind, Warning) else str(_code_of(kind)) for name, kind in public.items()}

    assert table == codes


def _code_of(kind: type[BaseException]) -> int:
    """Return the exit code of a command that ends with an exception of this class."""
    return next((code for base, code in app._CODES if issubclass(kind, base)), 2)


def test_the_table_of_exit_codes_is_that_of_the_code() -> None:
    """Each constant of exit_codes has a line with its name."""
    page = (DOCS / "reference/exit-codes.md").read_text(encoding="utf-8")
    listed = {
        name.replace(" ", "_").upper(): int(code)
        for code, name in re.findall(r"^\| (\d+) \| ([\w ]+) \|", page, re.MULTILINE)
    }
    assert listed == {name: value for name, value in vars(exit_codes).items() if isinstance(value, int)}


# Their texts are made from attributes, or come from a list that is told: warnings, and what another function found.
PASSED_ON = {
    "warn_user",
    "BlockingIOError",
    "MismatchError",
    "NotKnownError",
    "NotRunnableError",
    "ExpressionError",
    "NotPlainError",
    "TakenNameError",
}


def test_every_message_of_the_source_is_in_the_list() -> None:
    """Of the classes that users see; none is lost, and none of them has a line break."""
    listed = message_index()
    assert listed.count("\n- `") > 1400
    assert "- `no tape was named, and there is none in …/; …` (UsageError)" in listed
    assert "- `there is no …; there are …` (ExpressionError)" in listed, "made by a function"
    assert (
        "no attribute or field …; the attributes are …" in listed
        or "- `no attribute or field ……` (UsageError)" in listed
    )
    kinds = {re.sub(r"\(.*", "", one.partition(": ")[2], flags=re.DOTALL) for one in unresolved()}
    assert kinds <= PASSED_ON, unresolved()


@pytest.mark.parametrize(
    "module",
    [
        "sim",
        "sim.adapters",
        "recorder",
        "recorder.testing",
        "recorder.scenarios",
        "recorder.corpus",
        "replayer",
        "replayer.diagnose",
        "replayer.datasets",
    ],
)
def test_every_public_name_has_a_docstring_and_a_page(module: str) -> None:
    """Also its public methods and properties."""
    pages = " ".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("python-*.md"))
    assert f"<!-- site: api {module} -->" in pages
    lacking = []
    for name in public_names(module):
        found = getattr(importlib.import_module(module), name)
        inner = vars(found) if isinstance(found, type) else {}
        methods = {
            f"{name}.{one}": value
            for one, value in inner.items()
            if not one.startswith("_") and (inspect.isroutine(value) or isinstance(value, property))
        }
        lacking += [one for one, value in {name: found, **methods}.items() if not inspect.getdoc(value)]
    assert lacking == []


@pytest.mark.parametrize(
    ("module", "name", "page"),
    [
        ("recorder", "PeerDesyncError", "lockstep.md"),
        ("sim", "Table", None),
        ("replayer", "Tail", "durability.md"),
        ("recorder.corpus", "Corpus", None),
        ("replayer.diagnose", "ledger", "certify.md"),
    ],
)
def test_the_reference_has_lines_of_code_from_the_pages(module: str, name: str, page: str | None) -> None:
    """With the page, whose code is run by the tests."""
    found = example_of(module, name)
    assert found is not None
    assert name in found[1]
    assert "  #" not in found[1]
    assert page in (None, found[0].name)


LISTS = tomllib.loads((ROOT / "tests/end_to_end/public_names.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", sorted({*LISTS["public"], *LISTS["documented"]}))
def test_every_public_name_has_an_example(module: str) -> None:
    """A line of code of a page, which the tests run."""
    assert [name for name in public_names(module) if example_of(module, name) is None] == [], "add it to docs/names.md"


def test_the_glossary_defines_each_term_once() -> None:
    """A term has one row, in one table."""
    terms = Counter(re.findall(r"^\| \*\*(.+?)\*\*", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert len(terms) > 60
    assert [term for term, count in terms.items() if count > 1] == ["intact"]  # Of a part, and of a complete tape.
