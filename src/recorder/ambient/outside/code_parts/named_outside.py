"""What the user's code names of the outside world: files and folders, variables, arguments, modules that it may do without.

The first steps of a run are watched, and a later one may read what they do not. A file that is read in the hundredth tick
stands in the code as a text as well, so its digest is noted when the recording begins, without running anything. So is
whether a module is there that a function or a try statement imports: the code goes another way where it is missing.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from recorder.ambient.outside.code_parts.places import counts, files_of
from recorder.ambient.outside.loaded_modules import file_of
from recorder.ambient.outside.outside_read import (
    ARGUMENTS,
    ARGUMENTS_NAME,
    FILE,
    FOLDER,
    IMPORT,
    UNSET,
    VARIABLE,
    argument_digest,
    arguments_fact,
    fact_of,
    quiet_module_fact,
)
from recorder.ambient.roots import content_of
from sim.kernel.simulation import Simulation, subject_of

NAMED_MAX = 128  # Facts in a note: META is repeated in each file of a tape.
ENTRIES_MAX = 48  # Of a folder whose files are noted, each.
TIME_S = 0.05  # For all of it: a recording begins after it.
FILE_BYTES_MAX = 1 << 20  # A larger one may take longer to read than all others together.
_SOURCE_BYTES_MAX = 1 << 20
# Of a text that is put together: its beginning.
_TEXT = re.compile(r"""["'](?:\.?/)?(\w[\w ./-]{0,99})(?=["'{])""")
_DATA = re.compile(
    r"[\w ./-]+\.(json|toml|ya?ml|ini|cfg|conf|csv|tsv|txt|xml|dat|bin|npy|npz|pkl|db|sav|save|map|lvl)", re.IGNORECASE
)
_VARIABLE = re.compile(r"[A-Za-z_]\w+")
# Imports that are not of the module's own level: those may be missing.
_OPTIONAL = re.compile(r"^[ \t]+(?:from[ \t]+(\w+)[\w.]*[ \t]+import\b|import[ \t]+(\w+))", re.MULTILINE)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(?:\(([\w\s,]+)|[ \t]([\w, \t]+))|import[ \t]+([\w., \t]+))",
    re.MULTILINE,
)
# Code that reads the command line, itself or by a library for that.
_ARGUMENTS = re.compile(
    r"\bargv\b|^[ \t]*(?:import|from)[ \t]+(?:argparse|getopt|optparse|click|typer|docopt|fire|absl|cyclopts|tyro|configargparse"
    r"|simple_parsing|plac|hydra)\b",
    re.MULTILINE,
)
ARGUMENTS_MAX = 32  # Of more, none is noted for itself.
_FILES_MAX = 100
_CODE = (".py", ".pyc", ".so", ".tape")  # Code is compared by itself, and a tape is what is being written.

NamedFact = tuple[str, str, str]  # The kind, the path relative to root_of() or the name, and the fact.


def named_facts(simulation: Simulation) -> list[NamedFact]:
    """The facts, arguments, variables and modules first; as many as TIME_S allows. It runs no code of the user's."""
    end_s = time.monotonic() + TIME_S
    root, found = root_of(simulation), dict[tuple[str, str], str]()
    if root is None:
        return []
    variables, modules, arguments = list[str](), list[str](), list[NamedFact]()
    for folder, source in _sources(simulation, end_s):
        modules += [one or other for one, other in _OPTIONAL.findall(source)]
        arguments = arguments or (arguments_facts(sys.argv[1:]) if _ARGUMENTS.search(source) else [])
        texts = list(dict.fromkeys(_TEXT.findall(source)))
        if "environ" in source or "getenv" in source:
            variables += [
                text for text in texts if _VARIABLE.fullmatch(text) and (text.isupper() or text in os.environ)
            ]
        bases = list(dict.fromkeys((folder, os.path.dirname(folder), os.getcwd())))  # noqa: PTH109, PTH120 - texts
        for kind, path in paths_of(bases, texts):
            if time.monotonic() > end_s or len(found) >= NAMED_MAX:
                break
            own = _relative(path, root)
            if own is not None and (kind, own) not in found and (fact := fact_of(kind, path)) is not None:
                found[kind, own] = fact
    facts = [(VARIABLE, name, fact_of(VARIABLE, name) or UNSET) for name in dict.fromkeys(variables)]
    facts += _module_facts(modules, end_s)
    return [*arguments, *facts, *((kind, path, fact) for (kind, path), fact in found.items())][:NAMED_MAX]


def arguments_facts(arguments: Sequence[str]) -> list[NamedFact]:
    """Digests of the arguments of a program after its name: of all of them, and then of each."""
    own = list(map(str, arguments))
    each = [(ARGUMENTS, str(number), argument_digest(one)) for number, one in enumerate(own, 1)]
    return [(ARGUMENTS, ARGUMENTS_NAME, arguments_fact(own)), *(each if len(each) <= ARGUMENTS_MAX else ())]


def _module_facts(names: Iterable[str], end_s: float) -> Iterator[NamedFact]:
    """Whether modules are there, as far as the time allows; of Python's own nothing is said."""
    for name in dict.fromkeys(names):
        if time.monotonic() > end_s:
            return
        fact = quiet_module_fact(name) if name not in sys.stdlib_module_names else None
        if fact is not None:
            yield IMPORT, name, fact


def root_of(simulation: Simulation) -> str | None:
    """The folder that paths are relative to: that of the module, or around the package, of the simulation's class."""
    outermost = type(subject_of(simulation)).__module__.partition(".")[0]
    file = getattr(sys.modules.get(outermost), "__file__", None)
    if not isinstance(file, str):
        return None
    path = Path(os.path.abspath(file))  # noqa: PTH100 - links stay
    return str(path.parent.parent if path.stem == "__init__" else path.parent)


def named_path(path: str, reader: str, own: str) -> bool:
    """Return True if a path, read by a file of the user's code, is the noted one: relative to a folder around that file."""
    full = os.path.abspath(path)  # noqa: PTH100 - links stay
    return full == own or (full.endswith(f"/{own}") and os.path.abspath(reader).startswith(full[: -len(own)]))  # noqa: PTH100


def _sources(simulation: Simulation, end_s: float) -> Iterator[tuple[str, str]]:
    """The folder and the text of each module around the simulation's class, and of those of the user's that these import.

    A module of settings gives nothing but numbers, which do not tell where they come from. end_s: no file is read after it.
    """
    loaded = {name: file_of(module) for name, module in list(sys.modules.items())}
    packages = {
        file: str((content_of(sys.modules.get(name)) or {}).get("__package__") or "") for name, file in loaded.items()
    }
    waiting = list(dict.fromkeys(files_of(simulation)))
    for file in waiting:  # It grows by what these import.
        if time.monotonic() > end_s:
            return
        if not file.endswith(".py"):
            continue
        try:
            with open(file, encoding="utf-8", errors="replace") as source:  # noqa: PTH123
                text = source.read(_SOURCE_BYTES_MAX)
        except OSError:
            continue
        yield os.path.dirname(os.path.abspath(file)), text  # noqa: PTH100, PTH120
        imported = (loaded.get(name) for name in _imports(text, packages.get(file, "")) if counts(name))
        new = [one for one in dict.fromkeys(imported) if one is not None and one not in waiting]
        waiting += new[: max(0, _FILES_MAX - len(waiting))]


def _imports(source: str, package: str) -> Iterator[str]:
    """The full names that the statements of a source import, and those that may be modules of a package."""
    for dots, module, in_brackets, in_line, plain in _IMPORT.findall(source):
        if plain:
            yield from (one.partition(" as ")[0].strip() for one in plain.split(","))
            continue
        outer = package.split(".")[: len(package.split(".")) - len(dots) + 1] if dots else []
        full = ".".join(part for part in [*outer, module] if part)
        yield full
        yield from (f"{full}.{one.partition(' as ')[0].strip()}" for one in (in_brackets or in_line).split(","))


def paths_of(bases: Sequence[str], texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The files and folders that texts name; of a folder, its files as well; a missing file if its text looks like one."""
    present = {base: _entries(base) for base in bases}
    for text in texts:
        first, inside = text.partition("/")[0], text.rstrip("/")
        found = [f"{base}/{inside}" for base in bases if first in present[base]]
        for path in found:
            if os.path.isdir(path):  # noqa: PTH112
                yield from _folder(path)
            elif _counts(path):
                yield FILE, path
        if _DATA.fullmatch(text) and not any(os.path.exists(path) for path in found):  # noqa: PTH110
            yield FILE, f"{bases[0]}/{text}"


def _folder(path: str) -> Iterator[tuple[str, str]]:
    names = _entries(path)
    yield FOLDER, path
    if len(names) <= ENTRIES_MAX:
        yield from ((FILE, f"{path}/{name}") for name in sorted(names) if _counts(f"{path}/{name}"))


def _entries(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - the names alone
    except OSError:
        return set()


def _counts(path: str) -> bool:
    try:
        return os.path.isfile(path) and not path.endswith(_CODE) and os.path.getsize(path) <= FILE_BYTES_MAX  # noqa: PTH113, PTH202
    except OSError:
        return False


def _relative(path: str, root: str) -> str | None:
    """The path below the root; one elsewhere as it is."""
    full = os.path.abspath(path)  # noqa: PTH100 - links stay
    return full[len(root) + 1 :] if full.startswith(f"{root}/") else full
