"""The messages that the code can raise, found in its source, as Markdown.

A message is the text of an exception or a warning. What the code puts into it is shown as ``…``.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
WORDS_MIN = 3  # Shorter ones say nothing without their place.
AREAS = {  # By the beginning of the path; the first that fits.
    "Scenarios and worlds": ("sim/scenario", "sim/worlds", "recorder/scenarios", "sim/kernel/registry"),
    "Your simulation: its state, its step, its adapter": ("sim",),
    "Recording": (
        "recorder/session",
        "recorder/trial",
        "recorder/adapted",
        "recorder/reopen",
        "recorder/writer",
        "recorder/recording",
    ),
    "Tapes and their files": (
        "recorder/format",
        "recorder/storage",
        "recorder/location",
        "recorder/upload",
        "recorder/errors",
    ),
    "The commands record": ("recorder/commands", "recorder/console", "recorder/runs"),
    "Other parts of recorder": ("recorder", "simulation"),
    "Data sets": ("replayer/datasets",),
    "Questions, branches, smaller runs": (
        "replayer/search",
        "replayer/branches",
        "replayer/reduction",
        "replayer/reshape",
    ),
    "Desyncs": (
        "replayer/diagnose",
        "replayer/desync",
        "replayer/timeline",
        "replayer/playback",
        "replayer/regression",
    ),
    "The page, pictures and exports": ("replayer/view", "replayer/export", "replayer/report"),
    "The commands replay": ("replayer/commands",),
    "Other parts of replayer": ("replayer",),
}


def all_messages() -> str:
    """Return a list of all messages by area, each with the class of its exception."""
    by_area: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for path, kind, text in messages():
        by_area[area_of(path)].add((text, kind))
    parts = []
    for area in AREAS:
        lines = [
            f"- `{_as_code(text)}` ({kind})"
            for text, kind in sorted(by_area[area], key=lambda one: one[0].lstrip("…").casefold())
        ]
        parts.append(f"### {area}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def area_of(path: str) -> str:
    """Return the area of a file of src."""
    return next(area for area, begins in AREAS.items() if path.startswith(begins))


def messages() -> tuple[tuple[str, str, str], ...]:
    """Return all messages of the source: the file, the class of the exception, and the text with … for what varies."""
    return _read_source()[0]


def templates() -> frozenset[str]:
    """Return every text of the source, with … for what is put into it, in single spaces."""
    return _read_source()[1]


@cache
def _read_source() -> tuple[tuple[tuple[str, str, str], ...], frozenset[str]]:
    """Return messages and templates: to parse the source takes longest."""
    found: list[tuple[str, str, str]] = []
    texts: set[str] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                kind = _last_name(node.func)
                if kind.endswith(("Error", "Warning")) or kind in {"warn_user", "warn"}:
                    found += [(name, _shown_kind(kind, node), text) for text in _texts(node) if _is_sentence(text)]
            elif isinstance(node, ast.JoinedStr | ast.Constant):
                texts |= {_as_code(text) for text in _variants(node)}
    return tuple(found), frozenset(texts)


def _shown_kind(kind: str, call: ast.Call) -> str:
    if kind not in {"warn_user", "warn"}:
        return kind
    named = [_last_name(argument) for argument in call.args if _last_name(argument).endswith("Warning")]
    return named[0] if named else "warning"


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _texts(call: ast.Call) -> Iterator[str]:
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        if isinstance(argument, ast.JoinedStr | ast.Constant | ast.BinOp | ast.IfExp):
            yield from _variants(argument)


def _variants(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.IfExp():
            yield from _variants(node.body)
            yield from _variants(node.orelse)
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        case ast.BinOp(op=ast.Add()):
            yield "".join(next(_variants(side), "…") for side in (node.left, node.right))


def _is_sentence(text: str) -> bool:
    return len([word for word in text.replace("…", " ").split() if word.strip(".,:;'\"()").isalpha()]) >= WORDS_MIN


def _as_code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())
