"""The texts and numbers that the user's code names: what a variable of the environment may have had."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.parties.differences.module_files import is_installed
from replayer.diagnose.parties.party import Made

TEXT_CHARS_MAX = 40
NUMBERS_MAX = 100  # Of a value that no code names: the numbers up to this one are tried on the digest.
_WORDS = ("true", "false", "True", "False", "yes", "no", "on", "off")


def constants_of(node: ast.AST) -> Iterator[str]:
    """The texts and numbers in a part of a module, as the value of a variable may have them."""
    described = {id(one.value) for one in ast.walk(node) if isinstance(one, ast.Expr)}  # Docstrings.
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and id(one) not in described and type(one.value) in (str, int, float):
            text = str(one.value)
            if 0 < len(text) <= TEXT_CHARS_MAX and "\0" not in text:
                yield text


def texts_of(made: Made) -> Iterator[str]:
    """What the value of a variable may be: what the user's modules name, and what is common."""
    texts = [*_WORDS, *map(str, range(NUMBERS_MAX + 1))]
    for file in dict.fromkeys(made.modules.values()):
        if file.endswith(".py") and not is_installed(file) and Path(file).is_file():
            texts += constants_of(SourceFile(file).tree)
    yield from dict.fromkeys(texts)
