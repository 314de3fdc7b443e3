"""Rules about the source tree that a program can check."""

from __future__ import annotations

import ast
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from project_paths import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))
LINES_MAX = 400
FUNCTION_LINES_MAX = 75  # Including long docstrings of public functions.
ENTRIES = {"__init__", "__main__"}  # Of a package, not modules of their own.
FOLDER_MODULES_MAX = 14  # Folders of commands are exempt.
DUMPING_GROUNDS = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core", "manager"}


def shown(path: Path) -> str:
    """Return a path as a test's name."""
    return str(path.relative_to(ROOT))


class Outline(NamedTuple):
    """What the rules ask of a file. It is parsed once for all of them; the tree, which is large, is not kept."""

    docstring: str | None
    line_count: int
    function_lines: list[tuple[int, str]]
    public_classes: list[str]
    imports: list[tuple[str, list[str]]]  # A module, and the names that are imported from it.


@cache
def outline(path: Path) -> Outline:
    """Parse a file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    functions, imports = [], []
    for node in statements(tree):
        match node:
            case ast.FunctionDef():
                functions.append(((node.end_lineno or 0) - node.lineno, node.name))
            case ast.Import():
                imports += [(alias.name, []) for alias in node.names]
            case ast.ImportFrom(module=str(module)):
                imports.append((module, [alias.name for alias in node.names]))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    return Outline(ast.get_docstring(tree), text.count("\n"), functions, classes, imports)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a node at any depth, without their expressions, which are most of a tree."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, part, ())
        for one in inner if isinstance(inner, list) else ():  # The body of a lambda is an expression.
            yield one
            yield from statements(one)


def test_no_statement_is_left_out() -> None:
    """A walk through the whole tree finds the same ones."""
    walked = [ast.parse(path.read_text(encoding="utf-8")) for path in (Path(__file__), Path(ast.__file__))]
    for tree in walked:
        found = {node for node in statements(tree) if isinstance(node, ast.stmt)}
        assert found == {node for node in ast.walk(tree) if isinstance(node, ast.stmt)}
        assert len(found) > 100


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_a_file_has_one_job_and_says_it(path: Path) -> None:
    """A module has a docstring, at most 400 lines, a telling name, and no function of more than 75 lines."""
    found = outline(path)

    assert found.docstring
    assert found.line_count <= LINES_MAX
    assert path.stem not in DUMPING_GROUNDS
    assert [name for lines, name in found.function_lines if lines > FUNCTION_LINES_MAX] == []


def modules() -> dict[str, Path]:
    """Return all modules by their full names; a package stands for its __init__."""
    parts = {path: path.relative_to(ROOT / "src").with_suffix("").parts for path in SOURCES}
    return {".".join(part[:-1] if part[-1] == "__init__" else part): path for path, part in parts.items()}


def test_a_folder_holds_at_most_14_modules() -> None:
    """Folders of commands may hold more."""
    counts = Counter(path.parent for path in SOURCES if path.stem not in ENTRIES and path.parent.name != "commands")

    assert {shown(folder): count for folder, count in counts.items() if count > FOLDER_MODULES_MAX} == {}


def test_a_file_name_means_one_thing() -> None:
    """It occurs once. In folders of worlds, adapters, commands or configurations the folder tells them apart."""
    files = defaultdict(list)
    for path in SOURCES:
        folders = path.relative_to(ROOT / "src").parts[:-1]
        is_of_a_kind = folders[:2] in {("sim", "worlds"), ("sim", "adapters")} or folders[-1:] in {
            ("commands",),
            ("config",),
        }
        if path.stem not in ENTRIES and not is_of_a_kind:
            files[path.stem].append(shown(path))

    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}


def test_a_public_class_name_means_one_thing() -> None:
    """One class has it, or users get several from different packages: sim.adapters.Report, replayer.Report."""
    lists = tomllib.loads((ROOT / "tests/end_to_end/public_names.toml").read_text(encoding="utf-8"))
    offered = Counter(
        name
        for package in ("sim", "recorder", "replayer")
        for name in {
            name
            for part in ("public", "documented")
            for module, names in lists[part].items()
            for name in names.split()
            if module.partition(".")[0] == package
        }
    )
    classes = defaultdict(list)
    for path in SOURCES:
        for name in outline(path).public_classes:
            classes[name].append(shown(path))

    assert len(offered) > 10
    assert {name: paths for name, paths in classes.items() if len(paths) > max(1, offered[name])} == {}


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules that a module imports, including those in functions and for type checkers."""
    for module, names in outline(path).imports:
        if module in known:
            inner = [f"{module}.{name}" for name in names]
            yield from (one if one in known else module for one in inner or [module])


def test_no_modules_import_each_other() -> None:
    """Neither directly nor in circles; imports in functions and under TYPE_CHECKING count."""
    known = modules()
    graph = {name: {other for other in imported(path, known) if other != name} for name, path in known.items()}
    assert sum(map(len, graph.values())) > 1000
    circle: list[str] = []
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        circle = error.args[1]
    assert circle == [], "each is imported by the one after it"


def test_import_contracts_have_no_exceptions() -> None:
    """pyproject.toml ignores no import in any contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]

    assert len(contracts) > 10
    assert [one["name"] for one in contracts if "ignore_imports" in one] == []


@pytest.mark.parametrize("path", [p for p in SOURCES if "sim/worlds" in str(p)], ids=shown)
def test_worlds_use_nothing_that_differs_between_machines(path: Path) -> None:
    """No set is iterated, no hash() or id() is used, no float dtype and no transcendental function appears."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in {"hash", "id"}, ast.unparse(node)
            assert not re.search(r"\b(sin|cos|exp|log|sqrt|power|random\.(?!words))\w*$", name), ast.unparse(node)
        if isinstance(node, ast.For | ast.comprehension):
            assert not isinstance(node.iter, ast.Set | ast.SetComp), ast.unparse(node.iter)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not re.fullmatch(r"[<|]?f[248]", node.value), node.value


IMPORTING = """
import signal, sys, threading, os
before = ({s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}, threading.active_count(), dict(os.environ))
import recorder, replayer, sim
after = ({s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}, threading.active_count(), dict(os.environ))
assert before == after
assert "pickle" not in {m.split(".")[0] for m in sys.modules if m.startswith(("sim", "recorder", "replayer"))}
assert not {"rich", "cyclopts", "cattrs", "gymnasium"} & set(sys.modules), "only the commands need these"
"""


def test_importing_has_no_side_effects() -> None:
    """Importing the packages starts no thread, sets no signal handler and loads no package that only commands need."""
    subprocess.run([sys.executable, "-c", IMPORTING], check=True)


def test_the_tests_that_the_pages_name_exist() -> None:
    """Each test that a page names for a promise is defined."""
    named = {
        name
        for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "SPEC.md", ROOT / "README.md"]
        for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))
    }
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^\s*def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }

    assert len(named) > 10
    assert named <= defined


def test_the_pythons_in_the_metadata_are_those_that_are_tested() -> None:
    """The classifiers name the versions that tools/test_pythons.sh runs, and no others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    script = (ROOT / "tools" / "test_pythons.sh").read_text(encoding="utf-8")
    (versions,) = re.findall(r"^for version in (.+); do$", script, re.MULTILINE)
    named = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["classifiers"]]

    assert [found[1] for found in named if found] == versions.split()
    assert project["requires-python"] == f">={versions.split()[0]}"


def test_the_architecture_page_has_one_line_for_each_folder() -> None:
    """Its tables hold every folder of src with the first line of that package's docstring."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `((?:sim|recorder|replayer)/[\w/]+)` \| (.+) \|$", page, re.MULTILINE))
    rooms = {
        str(path.parent.relative_to(ROOT / "src")): str(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))))
        for path in (ROOT / "src").rglob("__init__.py")
        if path.parent.parent != ROOT / "src"
    }

    assert listed == {room: text.splitlines()[0].replace("``", "`") for room, text in rooms.items()}


def test_the_files_that_the_architecture_page_names_exist() -> None:
    """Each file and folder named on the page is found in src."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:sim|recorder|replayer)/[\w/]+(?:\.py|/))`", page)

    assert len(named) > 10
    assert [name for name in named if not (ROOT / "src" / name).exists()] == []


def test_the_drawings_of_the_architecture_page_name_what_exists() -> None:
    """Each file is found in src, each function in a file, and each method or attribute in a file next to its class."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawings = "\n".join(re.findall(r"^```\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    files = re.findall(r"(?:recorder|replayer)/[\w/]+\.py", drawings)
    functions = re.findall(r"^ +([a-z]+_\w+) ", drawings, re.MULTILINE)
    members = re.findall(r"\b([A-Z]\w+)\.(\w+)", drawings)

    assert min(map(len, (files, functions, members))) > 2
    assert [name for name in files if not (ROOT / "src" / name).exists()] == []
    assert [name for name in functions if not any(f"\ndef {name}(" in text for text in texts.values())] == []
    for name, member in members:
        folders = [path.parent for path, text in texts.items() if re.search(rf"^class {name}\b", text, re.MULTILINE)]
        near = [text for path, text in texts.items() if any(path.is_relative_to(folder) for folder in folders)]
        assert any(re.search(rf"def {member}\(|self\.{member}\b", text) for text in near), f"{name}.{member}"


# Words that were given up, each with the words to write instead: an engineer of the field would not use them, or would
# take them for something else. The files of ALLOWED may contain some, for the reason given there.
GIVEN_UP = {
    r"parts from|part(?:ed|ing) (?:from|at)": "diverges from",
    r"gone on with|go(?:es|ing)? on with": "continue, resume",
    r"comes? upon": "applies to, meets",
    r"whoever|(?<![:'])nobody|somebody": "the caller, no one, or the passive",
    r"(?:can|could) (?:not )?be had": "is available",
    r"that there (?:is|are) not": "unknown, missing",
    r"passed over": "skipped",
    r"takes? down": "capture, record",
    r"(?<!what )w(?:as|ere) expected": "expected …, got …",
    r"belongs? into": "belongs to",
    r"(?<!there )(?:is|are) no (?:tape|part|simulation|number)": "is not a …",
    r"now this, now that": "non-deterministic",
    r"as many as go": "as fast as possible",
    r"in the midst of": "during",
    r"anew": "again, rebuilt",
    r"foreign simulation": "your simulation, or a simulation of another package",
    r"of (?:yours|one's own)": "your own",
    r"(?<!\")lanes?(?!\")": "elements",
    r"outside of the state": "hidden state, outside the state",
    r"(?:recorder|replayer|sim)[./](?:thrift|courses|going_on|raised|shown|aside|apart|wholeness|choosing|outlets)": "-",
}
ALLOWED = {
    "tests/test_tidy.py": "the list itself",
    "CHANGELOG.md": "names that earlier versions had",
    # The reasons of events and the notes of an adapter are recorded on tapes, and hashed: they stay as they are.
    "src/sim/worlds/choreography/protocol/payload.py": "the reason of an event",
    "src/sim/worlds/choreography/run/interpreter.py": "the reason of an event",
    "src/sim/adapters/mujoco/adapter.py": "a note in META",
    "tests/sim/worlds/choreography/test_choreography.py": "the same reasons",
}


def test_words_that_were_given_up_do_not_come_back() -> None:
    """Source, tests, tools and docs contain none of them; GIVEN_UP has the words to write instead."""
    own: list[Path] = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith((".", "build"))]  # An environment is large.
        own += [Path(folder, name) for name in files if name.endswith((".py", ".md", ".sh", ".ksy"))]
    own = [path for path in own if not path.name.startswith((".", "build"))]
    assert Path(__file__) in own
    any_of_them = re.compile(rf"\b(?:{'|'.join(GIVEN_UP)})\b", re.IGNORECASE)
    found = []
    for path in own:
        name = str(path.relative_to(ROOT))
        if name in ALLOWED or not any_of_them.search(path.read_text(encoding="utf-8")):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found += [
                f"{name}:{number}: {match[0]}: write {instead}"
                for words, instead in GIVEN_UP.items()
                for match in re.finditer(rf"\b(?:{words})\b", line, re.IGNORECASE)
            ]
    assert found == []


def test_the_changelog_says_each_thing_once() -> None:
    """A merge of two lines about one change keeps both, and their figures differ."""
    unreleased = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]
    begins = [line[:60] for line in unreleased.splitlines() if line.startswith("- ")]
    assert sorted({begin for begin in begins if begins.count(begin) > 1}) == []
