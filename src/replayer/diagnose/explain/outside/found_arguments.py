"""The arguments that the program had when it was recorded, found by their digests in the texts of the program itself.

A tape has a digest of each argument. The options of a program stand in its code, as do most of their values; what has a noted
digest is the argument. The step is run with all of them: whether they matter is the test.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from recorder.ambient.outside.code_parts.places import counts
from recorder.ambient.outside.loaded_modules import file_of
from recorder.ambient.outside.outside_note import OutsideNote
from recorder.ambient.outside.outside_read import ARGUMENTS, ARGUMENTS_NAME, OutsideRead, argument_digest
from replayer.diagnose.explain.variants import Replaced, Variant, VariantOutcome

SEARCH_S = 3.0
_PLACES_MAX = 3
_GROUPS_MAX = 8  # Of options with their values, each of which is left out once.
_FILES_MAX = 200
_SOURCE_BYTES_MAX = 1 << 20
_TEXT_CHARS_MAX = 200
_PREFIX_CHARS_MIN = 3  # Of an option that is shortened, as argparse allows.
_OPTIONS_MAX, _VALUES_MAX = 200, 2000  # That are joined, as in --speed=3.
_WHOLE_MAX = 100_000  # Seeds are whole numbers.

Run = Callable[[Sequence[Variant]], list[VariantOutcome]]


def with_arguments(
    now: Variant, reads: Iterable[OutsideRead], imported: Iterable[OutsideRead], note: OutsideNote
) -> list[Variant]:
    """The variant whose program has the arguments of the recording; none if it had none, or their texts are not found.

    now: the present variant, which has no arguments. reads, imported: of the step, and of the user's modules on import.
    """
    digests = note.arguments()
    texts = found_texts(digests, _folders()) if digests else None
    if texts is None:
        return []
    where = _places("read at", reads) or _places("read on import at", imported)
    what = f"the arguments of the program ({ARGUMENTS_NAME}{where})"
    shown = shlex.join(texts)
    how = f"they are as recorded, {shown}"
    replaced = Replaced(what, how, arguments=texts, as_recorded=((ARGUMENTS, ARGUMENTS_NAME),))
    return [attrs.evolve(now, label=f"the arguments as recorded: {shown}", replaced=replaced)]


def _places(how: str, reads: Iterable[OutsideRead]) -> str:
    """The lines that read the arguments, the first ones; empty without any."""
    places = list(dict.fromkeys(read.place for read in reads if read.kind == ARGUMENTS))
    more = " and others" if len(places) > _PLACES_MAX else ""
    return f", {how} {', '.join(places[:_PLACES_MAX])}{more}" if places else ""


def with_fewer_arguments(found: VariantOutcome, run: Run) -> Variant | None:
    """The variant that has only the arguments that the recorded state needs; None if it needs all of them.

    found: the outcome of with_arguments, which gives the recorded state.
    """
    assert found.variant.replaced is not None
    groups, kept = _groups(found.variant.replaced.arguments), list[tuple[str, ...]]()
    for place, group in enumerate(groups if len(groups) <= _GROUPS_MAX else ()):
        rest = [*kept, *groups[place + 1 :]]
        if not rest or run([_having(found.variant, rest)])[0].result != found.result:
            kept.append(group)
    return None if not kept or kept == groups else _having(found.variant, kept)


def _having(variant: Variant, groups: Sequence[tuple[str, ...]]) -> Variant:
    assert variant.replaced is not None
    own = tuple(itertools.chain(*groups))
    replaced = attrs.evolve(
        variant.replaced, how=f"{variant.replaced.how} ({shlex.join(own)} alone is enough)", arguments=own
    )
    return attrs.evolve(variant, label=f"of the arguments as recorded: {shlex.join(own)}", replaced=replaced)


def _groups(arguments: Iterable[str]) -> list[tuple[str, ...]]:
    """Each option with what follows it, which may be its value."""
    groups = list[tuple[str, ...]]()
    for one in arguments:
        if groups and groups[-1][0].startswith("-") and not one.startswith("-"):
            groups[-1] = (*groups[-1], one)
        else:
            groups.append((one,))
    return groups


def found_texts(digests: Sequence[str], folders: Iterable[str]) -> tuple[str, ...] | None:
    """The texts that have these digests; None if one of them is not found. folders: of the program's files."""
    missing, found, end_s = set(digests), dict[str, str](), time.monotonic() + SEARCH_S
    for number, text in enumerate(_texts(list(folders))):
        try:
            digest = argument_digest(text)
        except UnicodeEncodeError:  # Half of a character: no argument.
            continue
        if digest in missing:
            found[digest] = text
            missing.remove(digest)
        if not missing:
            return tuple(found[one] for one in digests)
        if number % 1024 == 0 and time.monotonic() > end_s:
            break
    return None


def _texts(folders: Sequence[str]) -> Iterator[str]:
    """Texts that an argument may have, the likeliest ones first."""
    words = dict[str, None]()
    for source in _sources(folders):
        new = [text for text in _texts_of(source) if text not in words]
        words.update(dict.fromkeys(new))
        yield from new
    for folder in folders:
        with contextlib.suppress(OSError):
            yield from os.listdir(folder)  # noqa: PTH208 - the names alone
    yield from map(str, range(_WHOLE_MAX))
    yield from (str(-number) for number in range(1, 1000))
    yield from (
        f"{number / scale:.{digits}f}" for digits, scale in ((1, 10), (2, 100), (3, 1000)) for number in range(5000)
    )
    options = [word for word in words if word.startswith("-")]
    for option in options:
        yield from (option[:length] for length in range(_PREFIX_CHARS_MIN, len(option)))
    values = [word for word in words if not word.startswith("-")][:_VALUES_MAX]
    values += [*map(str, range(1000)), *(f"{number / 10:.1f}" for number in range(100))]
    for option, value in itertools.product(options[:_OPTIONS_MAX], values):
        yield f"{option}={value}" if option.startswith("--") else f"{option}{value}"


def _texts_of(source: str) -> Iterator[str]:
    """The constants of a source, their words, and the options that libraries make of names."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                yield from (text, *text.split()) if len(text) <= _TEXT_CHARS_MAX else ()
            case ast.Constant(value=bool()):
                continue
            case ast.Constant(value=int() | float() as number):
                with contextlib.suppress(ValueError):  # More digits than Python prints.
                    yield str(number)
            case ast.arg(arg=name) | ast.Name(id=name) | ast.FunctionDef(name=name):
                option = name.strip("_").replace("_", "-")
                yield from (name, f"--{option}", f"--no-{option}")


def _sources(folders: Iterable[str]) -> Iterator[str]:
    files = (f"{folder}/{name}" for folder in folders for name in _python_files(folder))
    for file in itertools.islice(files, _FILES_MAX):
        with contextlib.suppress(OSError), open(file, encoding="utf-8", errors="replace") as source:  # noqa: PTH123
            yield source.read(_SOURCE_BYTES_MAX)


def _python_files(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(".py"))  # noqa: PTH208
    except OSError:
        return []


def _folders() -> list[str]:
    """The folders of the user's modules, those that were loaded last first; the program that was recorded is often beside them."""
    files = [file_of(module) for name, module in reversed(list(sys.modules.items())) if counts(name)]
    return list(dict.fromkeys(str(Path(file).absolute().parent) for file in files if file is not None))
