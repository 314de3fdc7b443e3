"""What a step reads of the outside world is noted, with the line of the user's code; nothing is changed by it."""

from __future__ import annotations

import builtins
import concurrent.futures
import datetime as dt
import hashlib
import importlib
import inspect
import os
import queue
import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import curious_worlds
import numpy as np
import pytest

from recorder.ambient.outside.outside_read import CLOCK, CONTENT_BYTES_MAX, OutsideRead, content_fact, fact_of
from recorder.ambient.outside.own_code import OwnCode
from recorder.ambient.outside.process_facts import process_facts
from recorder.ambient.outside.read_watch import READS_MAX, ReadWatch
from recorder.processes.fork_call import in_a_copy

HOLDERS: tuple[Any, ...] = (builtins, time, os, random, dt, np.random, curious_worlds)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files that the worlds read."""
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(CONFIG)
    Path("numbers.txt").write_text(NUMBERS)
    Path("units").mkdir()
    for name in "cab":
        Path("units", name).touch()
    monkeypatch.setenv("RATE", "2")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def read_by(name: str) -> list[OutsideRead]:
    """What a step of a world reads; watched in a copy of the process, which keeps the audit hook."""

    def watched() -> dict[str, Any]:
        world = getattr(curious_worlds, name)()
        watch = ReadWatch(OwnCode(world))
        before = [dict(vars(holder)) for holder in HOLDERS]
        get_item = type(os.environ).__getitem__
        with watch.watching():
            world.step()
        assert [dict(vars(holder)) for holder in HOLDERS] == before
        assert type(os.environ).__getitem__ is get_item
        world.step()  # No longer watched.
        return {"reads": [read.to_plain() for read in watch.reads]}

    return [OutsideRead.from_plain(plain) for plain in in_a_copy(watched)["reads"]]


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


NUMBERS = "1 2 3\n"
CONFIG = '{"rate": 3}'
NAMES = b"a\0b\0c"
SEEN: dict[str, tuple[str, str, str | None]] = {
    "ReadsFile": ("file", "config.json", f"11 {digest(CONFIG.encode())}"),
    "ReadsArray": ("file", "numbers.txt", f"6 {digest(NUMBERS.encode())}"),
    "ReadsVariable": ("variable", "RATE", digest(b"2")),
    "ReadsZone": ("time zone", "datetime.fromtimestamp", "UTC/UTC UTC+0"),
    "ReadsLocalTime": ("time zone", "time.localtime", "UTC/UTC UTC+0"),
    "ReadsLocale": ("locale", "locale.localeconv", process_facts()["locale"]),
    "ReadsClock": ("clock", "time.time", None),
    "ReadsImportedClock": ("clock", "time.perf_counter", None),
    "ReadsDate": ("clock", "datetime.now", None),
    "DrawsUuid": ("entropy", "uuid.uuid4", None),
    "DrawsSecret": ("entropy", "secrets.randbelow", None),
    "SeedsItself": ("entropy", "a seed from the system", None),
    "DrawsRandom": ("generator", "random.random", None),
    "DrawsNumPy": ("generator", "np.random.rand", None),
    "CountsProcessors": ("threads", "os.cpu_count", str(os.cpu_count())),
    "CountsThreads": ("threads", "threading.active_count", None),
    "StartsThread": ("threads", "threading.start", None),
    "TakesId": ("identity", "id", None),
    "AsksForProcess": ("identity", "os.getpid", None),
    "AsksForFolder": ("contact", "os.getcwd", None),
    "CollectsGarbage": ("contact", "gc.collect", None),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", SEEN)
def test_each_kind_of_read_is_noted_with_its_line(name: str) -> None:
    kind, what, fact = SEEN[name]
    lines, first = inspect.getsourcelines(getattr(curious_worlds, name))
    found = [read for read in read_by(name) if (read.kind, read.name) == (kind, what)]
    assert [(read.fact, Path(read.path).name) for read in found] == [(fact, "curious_worlds.py")]
    assert first < found[0].line < first + len(lines)
    assert found[0].place == f"curious_worlds.py:{found[0].line}"


@pytest.mark.parametrize("name", ["ListsFolder", "WalksFolder"])
def test_folders_have_their_names_and_their_order(name: str) -> None:
    (read,) = [read for read in read_by(name) if read.kind == "folder"]
    listed = "\0".join(os.listdir("units")).encode()  # noqa: PTH208
    assert (read.name, read.fact) == ("units", f"3 {digest(NAMES)} {digest(listed)}")


def test_a_path_that_is_tested_and_read_is_noted_as_both() -> None:
    reads = {(read.kind, read.fact) for read in read_by("ReadsPath")}
    changed = ("time of change", str(Path("config.json").stat().st_mtime_ns))
    assert reads == {("attributes", "file of 11 bytes"), ("file", content_fact("config.json")), changed}


def test_all_variables_are_noted_if_all_are_read() -> None:
    reads = {read.name: read.fact for read in read_by("ReadsAllVariables")}
    assert reads == {name: digest(value.encode()) for name, value in os.environ.items()}


@pytest.mark.parametrize("seed", [None, "", "random", "7"])
def test_the_hash_of_a_text_has_the_seed_as_its_fact(seed: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    (read,) = read_by("HashesText")
    assert (read.kind, read.fact) == ("hash of text", "PYTHONHASHSEED=7" if seed == "7" else None)


def test_what_the_library_and_the_import_system_read_is_not_noted() -> None:
    assert read_by("Sound") == []


def test_a_variable_that_is_not_set_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RATE")
    assert [(read.name, read.fact) for read in read_by("ReadsVariable")] == [("RATE", "unset")]


def test_values_are_those_that_the_originals_return() -> None:
    """A watched step leaves the state that an unwatched one does."""

    def after(*, watched: bool) -> float:
        def run() -> dict[str, Any]:
            total = 0.0
            for name in (
                "ReadsFile",
                "ReadsArray",
                "ListsFolder",
                "ReadsVariable",
                "ReadsZone",
                "DrawsRandom",
                "Sound",
            ):
                random.seed(5)
                world = getattr(curious_worlds, name)()
                if watched:
                    with ReadWatch(OwnCode(world)).watching():
                        world.step()
                else:
                    world.step()
                total += float(world.state["x"])
            return {"total": total}

        return float(in_a_copy(run)["total"])

    assert after(watched=True) == after(watched=False)


def test_no_more_reads_are_kept_than_the_limit() -> None:
    """The limit, and one more; a read that is known counts."""

    def reading(count: int) -> Any:
        return compile("\n".join(f"os.getenv('A{number}')" for number in range(count)), "game.py", "exec")

    def watched() -> dict[str, Any]:
        watch, found = ReadWatch(lambda file: file == "game.py"), []
        with watch.watching():
            for count in (READS_MAX, READS_MAX + 1):
                exec(reading(count), {"os": os})
                found.append([watch.is_full, len(watch.reads), watch.reads[0].count])
        return {"found": found}

    assert in_a_copy(watched) == {"found": [[False, READS_MAX, 1], [True, READS_MAX, 2]]}


def reads_of(text: str) -> list[tuple[str, str, str | None]]:
    """What lines of a program read: kind, name and fact."""

    def watched() -> dict[str, Any]:
        watch = ReadWatch(lambda file: file == "game.py")
        with watch.watching():
            exec(compile(text, "game.py", "exec"), {"os": os, "Path": Path})
        return {"reads": [[read.kind, read.name, read.fact] for read in watch.reads]}

    return [(kind, name, fact) for kind, name, fact in in_a_copy(watched)["reads"]]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Path('night.txt').exists()", "attributes"),
        ("os.path.isfile('night.txt')", "attributes"),
        ("os.access('night.txt', os.R_OK)", "attributes"),
        ("try: os.stat(path='night.txt')\nexcept OSError: pass", "attributes"),
        ("try: open('night.txt')\nexcept OSError: pass", "file"),
        ("try: os.listdir('night.txt')\nexcept OSError: pass", "folder"),
    ],
)
def test_what_is_not_there_is_read_as_well(text: str, kind: str) -> None:
    """That there is no such file is an answer, on which a step may depend."""
    assert reads_of(text) == [(kind, "night.txt", "absent")]


def test_a_path_below_another_folder_is_not_noted_as_one_of_this_folder() -> None:
    below = "folder = os.open('units', os.O_RDONLY)\nos.stat('a', dir_fd=folder)"
    assert "a" not in {name for _, name, _ in reads_of(below)}


def test_what_a_step_has_written_itself_is_no_read_from_outside() -> None:
    """Of a file that it emptied. One to which it adds has what was there before."""
    assert reads_of("Path('own.txt').write_text('a'); Path('own.txt').read_text()") == []
    own = "file = Path('config.json').open('a'); file.write('b'); file.close()\nPath('config.json').read_text()"
    assert [(kind, name) for kind, name, _ in reads_of(own)] == [("file", "config.json")]


def test_a_file_that_could_not_be_opened_for_writing_is_not_the_steps_own() -> None:
    """The audit event comes before the file is opened: what is read there afterwards was there before."""
    os.utime("config.json", (1e9, 1e9))
    refused = "try: open('config.json/', 'w')\nexcept OSError: pass\nPath('config.json').read_text()"
    assert [(kind, name) for kind, name, _ in reads_of(refused)] == [("file", "config.json")]
    assert reads_of("Path('config.json').write_text('a'); Path('config.json').read_text()") == []


def test_facts_of_files(tmp_path: Path) -> None:
    """Contents, up to the limit and one byte more; what is no file; what is missing."""
    path = tmp_path / "file"
    for size in (0, CONTENT_BYTES_MAX, CONTENT_BYTES_MAX + 1):
        path.write_bytes(b"x" * size)
        assert content_fact(str(path)) == f"{size} {digest(b'x' * min(size, CONTENT_BYTES_MAX))}"
    before = content_fact(str(path))
    path.write_bytes(b"x" * CONTENT_BYTES_MAX + b"yz")  # Only the size tells.
    assert content_fact(str(path)) != before
    assert fact_of("file", str(tmp_path / "no")) == fact_of("folder", str(tmp_path / "no")) == "absent"
    assert fact_of("attributes", str(tmp_path)) == "folder"
    assert fact_of("file", str(tmp_path)) is None
    assert fact_of("file", "a\0b") is fact_of("folder", "a\0b") is fact_of("attributes", "a\0b") is None
    assert fact_of("folder", str(path)) is None
    assert fact_of("clock", "time.time") is None


def test_asking_for_the_settings_of_the_process_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    facts = process_facts()
    assert facts == process_facts()
    assert (facts["TZ"], facts["OMP_NUM_THREADS"], facts["time_zone"]) == ("UTC", "3", "UTC/UTC UTC+0")
    assert "MKL_NUM_THREADS" not in facts
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    assert process_facts()["time_zone"] == "JST/JST UTC+9"


ARGUMENTS = """
import argparse
import sys


def ask():
    return [sys.argv[1:], "--rough" in sys.argv, list(sys.argv), len(sys.argv), parsed().seed, sys.argv == []]


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default=3)
    return parser.parse_args()


def unread():
    return sys.version
"""


def test_the_arguments_of_the_program_are_noted_where_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a digest of those after its name, which may hold a secret; a step that reads none of them has none on its tape."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["play.py", "--seed=s3cret"])
    (tmp_path / "read_arguments.py").write_text(ARGUMENTS)
    module = importlib.import_module("read_arguments")

    def watched() -> dict[str, Any]:
        watch = ReadWatch(lambda path: path.endswith("read_arguments.py"))
        with watch.watching():
            module.unread()
            before = list(watch.reads)
            answers = module.ask()
            sys.argv.append("--more")
        reads = [[read.kind, read.name, read.line, read.fact] for read in watch.reads]
        return {"before": before, "answers": answers, "reads": reads, "after": [type(sys.argv).__name__, sys.argv]}

    found = in_a_copy(watched)
    assert found["before"] == []
    assert found["answers"] == [["--seed=s3cret"], False, ["play.py", "--seed=s3cret"], 2, "s3cret", False]
    fact = digest(b"--seed=s3cret")
    own = [read for read in found["reads"] if read[0] == "arguments"]
    assert own == [["arguments", "sys.argv", line, fact] for line in (7, 11, 13)]
    assert found["after"] == ["list", ["play.py", "--seed=s3cret", "--more"]]


OPTIONAL = """
def ask():
    try:
        import not_there_at_all
    except ImportError:
        pass
    import graphlib
    import there_since_now
"""


def test_imports_of_other_modules_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what a missing one can be compared by; Python's own modules are left out."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "optional_import.py").write_text(OPTIONAL)
    (tmp_path / "there_since_now.py").touch()
    ask = importlib.import_module("optional_import").ask

    def watched() -> dict[str, Any]:
        watch = ReadWatch(lambda path: path.endswith("optional_import.py"))
        with watch.watching():
            ask()
        return {"reads": [[read.kind, read.name, read.line, read.fact] for read in watch.reads]}

    assert in_a_copy(watched)["reads"] == [
        ["import", "not_there_at_all", 4, "absent"],
        ["import", "there_since_now", 8, "found"],
    ]


class Waiting:
    """Waits by Python's locks, and by a loop of its own."""

    def step(self) -> None:
        """Make a step."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(int).result(timeout=5)
        threading.Semaphore().acquire(timeout=5)
        queue.Queue(1).put(1, timeout=5)
        until = time.monotonic() + 0.001
        while time.monotonic() < until:
            pass


def test_the_clock_of_a_lock_is_not_noted() -> None:
    """The time does not leave the lock: verify listed it as a clock that was not compared."""

    def watched() -> dict[str, Any]:
        watch = ReadWatch(OwnCode(Waiting()))  # type: ignore[arg-type]
        with watch.watching():
            Waiting().step()
        return {"clocks": [one.name for one in watch.reads if one.kind == CLOCK]}

    assert set(in_a_copy(watched)["clocks"]) == {"time.monotonic"}
