"""The index of messages: each with what it means and what to do, by the area of the code that it comes from.

A message is in one of three parts. Either docs/reference/messages.md has a section about it, or messages.toml has an
entry for its cause, or its own words say what to do. The rule for the last is ``is_plain``.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from message_parts import AREAS, area_of, messages

ENTRIES = Path(__file__).with_name("messages.toml")
PAGE = Path(__file__).parents[2] / "docs/reference/messages.md"
ORDER = (  # Of the areas on the page: what most users meet first.
    "Recording",
    "Your simulation: its state, its step, its adapter",
    "The commands record",
    "The commands replay",
    "Tapes and their files",
    "Desyncs",
    "Questions, branches, smaller runs",
    "Data sets",
    "The page, pictures and exports",
    "Scenarios and worlds",
    "Other parts of recorder",
    "Other parts of replayer",
)

# Verbs that begin an advice. Read aloud after a colon, a semicolon or a comma: "…: give one of them".
_VERBS = (
    "add|ask|bring|build|call|change|choose|close|compare|continue|copy|correct|declare|define|delete|do|draw|exchange|extract|give|go"
    "|import|install|iterate|index|keep|leave|let|look|make|merge|move|name|omit|open|override|pass|permit|pip install|put|read|record|refer"
    "|remove|rename|repair|repeat|restore|return|run|say|send|set|start|step|swap|take|try|upload|use|write"
)
_ADVICE = re.compile(rf"(?:^|[:;,.(] |: … |, (?:or|and) |\bor )(?:{_VERBS})\b", re.IGNORECASE)
_EXPECTED = re.compile(r"\bexpected\b|\bneeds (?:one of|at least)\b")  # What is accepted; mostly with what was found.
_COMMAND = re.compile(
    r"\b(?:replay (?:verify|check|repair|find|branch|diff|cut|info)|record (?:scenarios|batch|run))\b"
)
_CHOICES = re.compile(  # What there is, of which one is to be named.
    r"[;:] (?:known keys|the fields are|the attributes are|the layers are|there are|it has|the tape has(?: ticks)?|[a-z]+s): …|did you mean"
    r"|[;:] (?:the fields are|the attributes are|the layers are|there are|it has|the tape has(?: ticks)?) …"
)

Message = tuple[str, str, str]  # The file, the class and the text.


def is_plain(text: str) -> bool:
    """Return True if the words of a message say what to do.

    They do if they have an imperative ("give one of them"), say what was expected, name a command that tells more, or list
    what there is.
    """
    return any(pattern.search(text) for pattern in (_ADVICE, _EXPECTED, _COMMAND, _CHOICES))


@cache
def entries() -> tuple[dict[str, Any], ...]:
    """Return the entries of messages.toml: title, text, and messages, classes or files."""
    return tuple(tomllib.loads(ENTRIES.read_text(encoding="utf-8"))["entry"])


@cache
def sections() -> Mapping[str, str]:
    """Return the messages that messages.md explains, with the anchors of their sections."""
    headings = re.findall(r"^### `(.+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {_one_dot(text): re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-") for text in headings}


@cache
def entry_of(message: Message) -> int | None:
    """Return the number of the entry about a message: the one that has its text, else the first with its class and file.

    A message that gives an advice itself belongs to no class of others, unless the entry has ``with_advice``.
    """
    path, kind, text = message
    if text in _by_text():
        return _by_text()[text]
    of_kind = (number for number in _by_kind() if _has_kind(entries()[number], path, kind))
    return next((one for one in of_kind if "with_advice" in entries()[one] or not _ADVICE.search(text)), None)


@cache
def _by_text() -> dict[str, int]:
    return {text: number for number, entry in enumerate(entries()) for text in entry.get("messages", ())}


@cache
def _by_kind() -> tuple[int, ...]:
    return tuple(number for number, entry in enumerate(entries()) if "classes" in entry or "files" in entry)


def _has_kind(entry: Mapping[str, Any], path: str, kind: str) -> bool:
    return kind in entry.get("classes", [kind]) and path.startswith(tuple(entry.get("files", [""])))


def section_of(text: str) -> str | None:
    """Return the anchor of the section of messages.md about a message."""
    return sections().get(_one_dot(text))


def unexplained() -> list[Message]:
    """Return the messages that no section and no entry is about, and whose words do not say what to do."""
    return [one for one in messages() if not (section_of(one[2]) or entry_of(one) is not None or is_plain(one[2]))]


def stale() -> list[str]:
    """Return the texts, classes and files of messages.toml that no message has, and titles of entries without any."""
    found = messages()
    known = {text for _, _, text in found}
    lost = [text for entry in entries() for text in entry.get("messages", ()) if text not in known]
    for number, entry in enumerate(entries()):
        used = [one for one in found if entry_of(one) == number]
        lost += [f"{entry['title']}: no message"] * (not used)
        kinds = {kind for _, kind, _ in used}
        lost += [f"{entry['title']}: {kind}" for kind in entry.get("classes", ()) if kind not in kinds]
        lost += [
            f"{entry['title']}: {path}"
            for path in entry.get("files", ())
            if not any(one[0].startswith(path) for one in used)
        ]
    return lost


def message_index() -> str:
    """Return all messages by area as Markdown: those with an explanation first, then those whose words say what to do."""
    groups: dict[str, dict[str, dict[str, set[str]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
    for message in messages():
        path, kind, text = message
        number = entry_of(message)
        title = "" if section_of(text) or number is None else entries()[number]["title"]
        groups[area_of(path)][title][text].add(kind)
    _bring_together(groups)
    texts = {entry["title"]: entry["text"] for entry in entries()}
    order = [entry["title"] for entry in entries()]
    parts = []
    for area in ORDER:
        titles = sorted((title for title in groups[area] if title), key=order.index)
        parts.append(f"## {area}")
        parts += [f"### {title}\n\n{texts[title]}\n\n{_lines(groups[area][title])}" for title in titles]
        plain = groups[area].get("")
        parts += [f"### Their words say what to do {{ #plain-{_anchor(area)} }}\n\n{_lines(plain)}"] if plain else []
    return "\n\n".join(parts)


def _bring_together(groups: dict[str, dict[str, dict[str, set[str]]]]) -> None:
    """Put all messages of an entry into the area that has most of them: a cause is explained once."""
    for title in {title for titles in groups.values() for title in titles if title}:
        home = max(AREAS, key=lambda area: len(groups[area].get(title, ())))
        for area in AREAS:
            if area != home:
                for text, kinds in groups[area].pop(title, {}).items():
                    groups[home][title][text] |= kinds


def _lines(texts: Mapping[str, set[str]]) -> str:
    """Return a list of messages with their classes, and a link for those that messages.md explains."""
    lines = []
    for text in sorted(texts, key=lambda one: one.lstrip("…").casefold()):
        anchor = section_of(text)
        link = f": [what to do](messages.md#{anchor})" if anchor else ""
        lines.append(f"- `{as_code(text)}` ({', '.join(sorted(texts[text]))}){link}")
    return "\n".join(lines)


def as_code(text: str) -> str:
    """Return a message as it can stand between backquotes, in one line."""
    return " ".join(text.replace("`", "'").split())


def _one_dot(text: str) -> str:
    return re.sub("…+", "…", text)


def _anchor(area: str) -> str:
    return re.sub(r"[^a-z]+", "-", area.lower()).strip("-")
