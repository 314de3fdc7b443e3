"""Run the code in README and docs as tests: each page in an empty folder, block after block.

A ``python`` block is executed. One with a title (``python title="game.py"``) is a file that the reader saves: it is
saved, and not executed. An ``output`` block after a block that was executed holds what it must print. A ``console`` block is a session:
the output of each command after ``$`` must match the lines below it. ``...`` matches any text, since times, sizes and
ids differ from run to run. ``<!--- skip: start if(lacks("polars"), reason="…") -->`` skips blocks if a package is not
installed, up to ``<!--- skip: end -->``. ``<!--- continues: 1-record.md -->`` gives a page the files that the reader
saved on another page; ``<!--- runs: play.py -->`` runs one of them, as the reader did there.

A run of the folder takes a part of the pages, each run other ones; a page that is named is always run, and ``-m ""`` runs all.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import random
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import warm_python
from sybil import Document, Region, Sybil
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser, SkipParser
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer, FencedCodeBlockLexer

PLUGIN = "simulation_flight_recorder_pytest"  # Installed, it is found by its entry point; a checkout may be newer.
# A thread of OpenBLAS that has nothing to do waits for work by a loop of 25 ms: in these tests, for nearly all of its time.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # Its logarithm, of processor cycles.

SESSION_S_MAX = 120  # A command in the docs that takes longer has hung.
STARTED_SHARE = 0.05  # Of the commands: they start as a user's do.
PRINTS_CODE = '; echo "exit code $?"'
QUOTED = re.compile(r"""'[^']*'|"[^"$`\\!]*\"""")
NEEDS_SHELL = re.compile(r"[][|&;<>()$`*?~#{}!'\"\\]")
PAGES_PART = 1 / 5  # Of the pages in a run: all of them take some five minutes of processor time.

PAGES_SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs the same pages again."""
    parser.addoption("--pages-seed", type=int, metavar="N", help="Run the pages that a run took which printed N.")
    parser.addoption(
        "--pages-part", metavar="I/N", help="Of the pages that a run takes, run every Nth, from the Ith on."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed of the pages. All workers of a run get the one of the run."""
    given = getattr(config, "workerinput", {}).get("pages_seed", config.option.pages_seed)
    config.stash[PAGES_SEED] = random.SystemRandom().randrange(1 << 32) if given is None else given


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the seed to a worker of pytest-xdist."""
    node.workerinput["pages_seed"] = node.config.stash[PAGES_SEED]


def pytest_report_header(config: pytest.Config) -> str:
    """Print the seed."""
    return f"pages: --pages-seed {config.stash[PAGES_SEED]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the pages of a folder whose turn it is not."""
    if config.option.markexpr != "not long":
        return
    named = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    pages = sorted({item.path for item in items if item.path.suffix == ".md"} - named)
    draw = random.Random(config.stash[PAGES_SEED])  # noqa: S311 - no secret
    left_out = set(draw.sample(pages, int(len(pages) * (1 - PAGES_PART))))
    config.hook.pytest_deselected(items=[item for item in items if item.path in left_out])
    items[:] = [item for item in items if item.path not in left_out]
    if config.option.pages_part is not None:
        part = pages_of_part({item.path for item in items} - named, config.option.pages_part) | named
        config.hook.pytest_deselected(items=[item for item in items if item.path not in part])
        items[:] = [item for item in items if item.path in part]


def pages_of_part(pages: Iterable[Any], part: str) -> set[Any]:
    """Return every Nth page from the Ith on; part is I/N."""
    first, count = map(int, part.split("/"))
    return set(sorted(pages)[first::count])


def compare(expected: str, printed: str) -> str | None:
    """Return None if printed matches expected, in which ``...`` matches anything; else a description of the difference."""
    pattern = ".*?".join(re.escape(part) for part in expected.strip().split("..."))
    if re.fullmatch(pattern, printed.strip(), re.DOTALL):
        return None
    return f"expected:\n{expected}\nprinted:\n{printed}"


def run_python(example: Example) -> None:
    """Execute a block in the page's namespace and keep its output there."""
    printed = io.StringIO()
    code = compile("\n" * (example.line + example.parsed.line_offset) + example.parsed, example.path, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, example.namespace)  # noqa: S102 - executing the documentation is the point
    example.namespace["printed"] = printed.getvalue()


def check_output(example: Example) -> str | None:
    """Compare an output block with the output of the Python block before it."""
    return compare(str(example.parsed), example.namespace["printed"])


def run_console(example: Example) -> str | None:
    """Run each command of a session and compare its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ours_alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": PLUGIN}  # That of zarr imports all of it.
    variables = {**os.environ, "PATH": path, "COLUMNS": "100", **ours_alone}
    warm_python.want("commands", variables)
    warm_python.start_wanted()
    for entry in re.split(r"^\$ ", str(example.parsed), flags=re.MULTILINE)[1:]:
        command, _, expected = entry.partition("\n")
        with start_command(command, variables) as process:
            try:
                printed, _ = process.communicate(timeout=SESSION_S_MAX)
            except BaseException:
                process.kill()
                raise
        if command.endswith(PRINTS_CODE) and isinstance(process, warm_python.WarmProcess):
            printed += f"exit code {process.returncode}\n"
        difference = compare(expected, printed)
        if difference is not None:
            return f"$ {command}\n{difference}"
    return None


def start_command(command: str, variables: dict[str, str]) -> subprocess.Popen[str]:
    """Start a command in a shell; most of ours that need none as copies of an interpreter, which has imported them."""
    alone = command.removesuffix(PRINTS_CODE)
    name, *arguments = shlex.split(alone) if not NEEDS_SHELL.search(QUOTED.sub("", alone)) else [""]
    is_copy = name in {"record", "replay"} and random.SystemRandom().random() >= STARTED_SHARE
    return (warm_python.WarmProcess if is_copy else subprocess.Popen)(
        [str(warm_python.BIN / name), *arguments] if is_copy else command,
        shell=not is_copy,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


FILE_BLOCKS = FencedCodeBlockLexer(r'\w+ title="(?P<name>[^"\n]+)"')


def parse_files(document: Document) -> Iterator[Region]:
    """Find the blocks with a title."""
    for region in FILE_BLOCKS(document):
        region.parsed = (region.lexemes["name"], str(region.lexemes["source"]))
        region.evaluator = save_file
        yield region


def save_file(example: Example) -> None:
    """Save a block with a title as a file in the page's folder."""
    name, text = example.parsed
    Path(name).write_text(text, encoding="utf-8")


def continue_page(example: Example) -> None:
    """Save the files that the reader of another page has."""
    text = (Path(example.path).parent / example.parsed).read_text(encoding="utf-8")
    for region in FILE_BLOCKS(Document(text, example.parsed)):
        Path(region.lexemes["name"]).write_text(str(region.lexemes["source"]), encoding="utf-8")


def run_file(example: Example) -> None:
    """Run a program that the reader saved, and drop what it prints."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        patch("recorder.adapted.record.is_tried", lambda *_: False),  # The page that it is from has tried it.
    ):
        runpy.run_path(example.parsed, run_name="__main__")


def comment_parser(name: str, evaluator: Callable[[Example], None]) -> Callable[[Document], Iterator[Region]]:
    """Return a parser of comments of this name."""
    lexer = DirectiveInHTMLCommentLexer(name)

    def parse(document: Document) -> Iterator[Region]:
        for region in lexer(document):
            region.parsed, region.evaluator = region.lexemes["arguments"], evaluator
            yield region

    return parse


def enter_folder(namespace: dict[str, object]) -> None:
    """Change to an empty folder, so that no page sees the files of another."""
    import tempfile  # noqa: PLC0415 - only if a page is run

    namespace["lacks"] = lambda *names: any(importlib.util.find_spec(name) is None for name in names)
    namespace["folder"] = tempfile.TemporaryDirectory()
    namespace["before"] = Path.cwd()
    os.chdir(namespace["folder"].name)  # type: ignore[attr-defined]
    sys.path.insert(0, namespace["folder"].name)  # type: ignore[attr-defined]


def leave_folder(namespace: dict[str, object]) -> None:
    """Change back; remove the page's files and the modules that were imported from them."""
    folder = namespace["folder"].name  # type: ignore[attr-defined]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(folder + os.sep):
            del sys.modules[name]  # Another page may have a module of the same name.
    os.chdir(namespace["before"])  # type: ignore[arg-type]
    sys.path.remove(folder)
    namespace["folder"].cleanup()  # type: ignore[attr-defined]


# Pages about optional packages: their examples are tested only if these are installed.
PACKAGES_OF_PAGES = {
    "docs/guides/mesa.md": ("mesa",),
    "docs/guides/mujoco.md": ("mujoco",),
    "docs/adapters.md": ("pettingzoo", "pygame", "mesa", "networkx", "mujoco"),
    "docs/train.md": ("gymnasium", "pyarrow"),
    "docs/viewers.md": ("rerun", "mcap", "minari", "h5py", "PIL"),
}

pytest_collect_file = Sybil(
    parsers=[
        SkipParser(),
        parse_files,
        comment_parser("continues", continue_page),
        comment_parser("runs", run_file),
        CodeBlockParser("python", run_python),
        CodeBlockParser("output", check_output),
        CodeBlockParser("console", run_console),
    ],
    patterns=["README.md", "docs/*.md", "docs/tutorial/*.md", "docs/guides/*.md"],
    excludes=[page for page, packages in PACKAGES_OF_PAGES.items() if not all(map(find_spec, packages))],
    setup=enter_folder,
    teardown=leave_folder,
).pytest()
