"""Files and folders are written atomically: with a failing disk, a kill at each step, and names that are taken."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recorder.storage.atomic_file import atomic_file, publish_file, write_file
from recorder.storage.atomic_folder import publish_folder, write_folder

OLD, NEW = b"the older one", b"the newer one, which is longer"
FILES = {"a.txt", "b.txt"}
STEPS = ("open", "fsync", "rename", "replace", "link", "unlink", "mkdir", "rmdir")


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder; None for folders."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def fill(part: Path) -> None:
    """Write the two files of a folder."""
    (part / "a.txt").write_bytes(NEW)
    (part / "b.txt").write_bytes(OLD)


def replaced() -> None:
    """Write a file over an existing one."""
    write_file("x.txt", NEW, existing="replace")


def refusing() -> None:
    """Write a file that must not exist yet."""
    write_file("y.txt", NEW, existing="refuse")


def published() -> None:
    """Publish a file that was written under a temporary name."""
    publish_file(Path("mine.tmp"), Path("x.txt"))


def folder_written() -> None:
    """Write a folder."""
    write_folder(Path("d"), fill, files=FILES)


def folder_published() -> None:
    """Publish a folder that was filled under a temporary name."""
    publish_folder(Path("mine"), Path("d"))


def prepare(work: Callable[[], None], folder: Path) -> Path:
    """Go into a new folder with the older file, and the files that the caller has written under temporary names."""
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    Path("x.txt").write_bytes(OLD)
    if work is published:
        Path("mine.tmp").write_bytes(NEW)
    if work is folder_published:
        Path("mine").mkdir()
        fill(Path("mine"))
    return folder


BEFORE = {"x.txt": OLD}
FOLDER = {"d": None, "d/a.txt": NEW, "d/b.txt": OLD}
AFTER: dict[Callable[[], None], dict[str, bytes | None]] = {
    replaced: {"x.txt": NEW},
    refusing: {**BEFORE, "y.txt": NEW},
    published: {"x.txt": NEW},
    folder_written: {**BEFORE, **FOLDER},
    folder_published: {**BEFORE, **FOLDER},
}
OWN = re.compile(r"mine(\.tmp|/.*)?")  # The caller's files under temporary names.


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new current folder, with an older file."""
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_bytes(OLD)
    return tmp_path


@contextmanager
def at_step(number: int, action: Callable[[], None], *, after: bool) -> Iterator[list[str]]:
    """At the call of this number that changes the disk, also run an action; yield the calls so far."""
    calls: list[str] = []
    real = {name: getattr(os, name) for name in STEPS}

    def patched(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            calls.append(name)
            if len(calls) - 1 == number and not after:
                action()
            own = len(calls) - 1
            try:
                return real[name](*arguments, **more)
            finally:
                if own == number and after:
                    action()

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, patched(name))
        yield calls


def step_count(work: Callable[[], None]) -> int:
    """The number of calls that change the disk."""
    with at_step(-1, lambda: None, after=False) as calls:
        work()
    return len(calls)


def raising(error: BaseException) -> Callable[[], None]:
    """A function that raises an error."""

    def action() -> None:
        raise error

    return action


# --- a failing disk


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("work", AFTER, ids=lambda work: work.__name__)
def test_a_failure_at_each_step_leaves_nothing(tmp_path: Path, work: Any, error: type[BaseException]) -> None:
    """Whichever call fails, the new file is complete or absent, without a temporary one; and a retry works."""
    prepare(work, tmp_path / "counted")
    count = step_count(work)
    assert count >= 4
    for number in range(count):
        here = prepare(work, tmp_path / str(number))
        failure = OSError(errno.ENOSPC, "No space left on device") if error is OSError else error()
        found: list[BaseException] = []
        with at_step(number, raising(failure), after=False) as calls:
            try:
                work()
            except (OSError, KeyboardInterrupt) as caught:
                found.append(caught)
        assert all(type(one) is error for one in found)
        assert all(getattr(one, "filename", "d") in {"x.txt", "y.txt", "d"} for one in found)
        left = {name: content for name, content in tree(here).items() if not OWN.fullmatch(name)}
        assert left in (BEFORE, AFTER[work]), calls[number]
        assert left == AFTER[work] or found, calls[number]
        if left == BEFORE:
            work()
            assert tree(here) == AFTER[work]


def test_the_errors_name_the_path_that_was_given() -> None:
    """Not the temporary path, which a user has never seen."""
    cases: list[tuple[str, type[OSError], Callable[[], Any]]] = [
        ("no/such/y.txt", FileNotFoundError, lambda: write_file("no/such/y.txt", b"", existing="replace")),
        ("x.txt/y.txt", NotADirectoryError, lambda: write_file("x.txt/y.txt", b"", existing="replace")),
        (".", IsADirectoryError, lambda: write_file(".", b"", existing="replace")),
        ("x.txt", FileExistsError, lambda: write_file("x.txt", b"", existing="refuse")),
        ("x.txt/d", FileExistsError, lambda: write_folder(Path("x.txt/d"), fill, files=FILES)),
    ]
    for name, kind, call in cases:
        with pytest.raises(kind) as caught:
            call()
        assert caught.value.filename in {name, "x.txt"}
        assert ".part" not in str(caught.value)
    assert tree(Path()) == BEFORE


def test_a_file_larger_than_the_disk(folder: Path) -> None:
    """With a limit of the system, in a separate process."""

    def limited() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))
        for work in (replaced, refusing, folder_written):
            with pytest.raises(OSError, match="File too large"):
                work()
            assert tree(folder) == BEFORE

    assert in_child(limited) == 0
    assert tree(folder) == BEFORE


# --- a kill


def in_child(work: Callable[[], None]) -> int:
    """Run an action in a child process; return its exit status as os.waitpid does."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("work", AFTER, ids=lambda work: work.__name__)
def test_a_kill_at_each_step_leaves_the_old_or_the_new(tmp_path: Path, work: Any, *, after: bool) -> None:
    """The next write removes the temporary file of a killed one."""
    number, status = 0, -1
    while status != 0:
        here = prepare(work, tmp_path / str(number))

        def killed(number: int = number) -> None:
            with at_step(number, lambda: os.kill(os.getpid(), signal.SIGKILL), after=after):
                work()

        status = in_child(killed)
        assert status in (0, signal.SIGKILL)
        left = tree(here)
        named = {name: content for name, content in left.items() if ".part" not in name and not OWN.fullmatch(name)}
        assert named in (BEFORE, AFTER[work])
        if work in (replaced, refusing) and named == BEFORE:
            work()
            assert tree(here) == AFTER[work]
        elif work in (folder_written, folder_published) and named == BEFORE:
            work()
            assert FOLDER.items() <= tree(here).items()
        number += 1
    assert number > 4


def test_only_what_was_abandoned_is_removed() -> None:
    """Not a file that an active writer has locked, nor one with a different name, nor a link."""
    lock = os.open("x.txt.00000000000000aa.part", os.O_CREAT | os.O_WRONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    kept = ["x.txt.part", "x.txt.tea.part", "x.txt.0123456789abcdef.party", "y.txt.0123456789abcdef.part"]
    for name in kept:
        Path(name).write_text("mine")
    Path("x.txt.00000000000000bb.part").symlink_to("x.txt.part")
    Path("x.txt.00000000000000cc.part").write_text("abandoned")

    replaced()

    os.close(lock)
    there = {"x.txt", "x.txt.00000000000000aa.part", "x.txt.00000000000000bb.part", *kept}
    assert {path.name for path in Path().iterdir()} == there


def test_a_folder_killed_after_its_marker_is_cleared(folder: Path) -> None:
    """Its files are removed; a file of a user stays, and the folder with it."""

    def killed(part: Path) -> None:
        fill(part)
        (part / "a.txt.0123456789abcdef.part").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(lambda: write_folder(Path("d"), killed, files=FILES) and None) == signal.SIGKILL
    (folder / "d.part" / "mine.md").write_bytes(b"mine")

    assert write_folder(Path("d"), fill, files=FILES) == Path("d")

    assert tree(folder / "d.part") == {"mine.md": b"mine"}
    assert [path.name for path in sorted(folder.iterdir())] == ["d", "d.part", "x.txt"]


# --- existing files


def test_what_comes_in_the_meantime_is_not_replaced() -> None:
    """existing="refuse" checks at the beginning and at the end."""

    def late() -> None:
        with atomic_file("y.txt", existing="refuse") as part:
            part.write_bytes(NEW)
            Path("y.txt").write_bytes(OLD)

    with pytest.raises(FileExistsError, match="a file of this name exists already"):
        late()
    assert tree(Path()) == {**BEFORE, "y.txt": OLD}


@pytest.mark.parametrize("taken", ["a file", "a folder", "an empty folder", "a broken link"])
def test_a_folder_never_takes_the_place_of_something(folder: Path, taken: str) -> None:
    """publish_folder refuses, write_folder uses the next name."""
    if taken == "a file":
        Path("d").write_bytes(OLD)
    elif taken == "a broken link":
        Path("d").symlink_to("nowhere")
    else:
        Path("d").mkdir()
        if taken == "a folder":
            Path("d/mine").write_bytes(OLD)
    Path("mine").mkdir()
    fill(Path("mine"))
    before = tree(folder)

    with pytest.raises(FileExistsError):
        publish_folder(Path("mine"), Path("d"))
    assert tree(folder) == before
    assert write_folder(Path("d"), fill, files=FILES) == Path("d-2")
    assert write_folder(Path("d"), fill, files=FILES) == Path("d-2")  # It exists already, byte for byte.
    assert {name: content for name, content in tree(folder).items() if not name.startswith("d-2")} == before


def test_a_folder_that_comes_in_the_meantime_stays(folder: Path) -> None:
    """The rename itself does not replace it either."""

    def slow(part: Path) -> None:
        fill(part)
        with at_step(-1, lambda: None, after=False):
            Path("d").mkdir()
            Path("d/mine").write_bytes(OLD)

    assert write_folder(Path("d"), slow, files=FILES) == Path("d-2")
    assert (folder / "d" / "mine").read_bytes() == OLD


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_open(mask: int) -> None:
    """A new file has them after the umask; a replaced one keeps its own."""
    Path("x.txt").chmod(0o640)
    previous = os.umask(mask)
    try:
        replaced()
        refusing()
        Path("z.txt").write_bytes(b"")
    finally:
        os.umask(previous)
    modes = {name: stat.S_IMODE(Path(name).stat().st_mode) for name in ("x.txt", "y.txt", "z.txt")}
    assert modes == {"x.txt": 0o640, "y.txt": modes["z.txt"], "z.txt": 0o666 & ~mask}


def test_a_file_that_may_not_be_written_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """As open() would refuse it, although the folder would allow a rename."""
    monkeypatch.setattr(os, "access", lambda *_: False)  # Root may write everywhere.
    with pytest.raises(PermissionError) as caught:
        replaced()
    assert caught.value.filename == "x.txt"
    assert tree(Path()) == BEFORE


@pytest.mark.parametrize("target", ["x.txt", "new.txt"])
def test_a_link_stays_a_link(target: str) -> None:
    """Its target is written, even if that does not exist yet."""
    Path("there").mkdir()
    Path("x.txt").rename("there/x.txt")
    Path("link").symlink_to(f"there/{target}")

    write_file("link", NEW, existing="replace")

    assert Path("link").is_symlink()
    assert Path("there", target).read_bytes() == NEW
    assert len(list(Path().iterdir())) == 2
    with pytest.raises(FileExistsError):
        write_file("link", NEW, existing="refuse")


def test_a_pipe_is_written_directly() -> None:
    """Nothing can replace it."""
    os.mkfifo("pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(Path("pipe").read_bytes()))
    reader.start()
    write_file("pipe", NEW, existing="replace")
    reader.join()
    assert found == [NEW]
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)


def test_writers_at_once_do_not_mix() -> None:
    """Each has its own temporary name, and does not consider those of others abandoned."""
    contents = [bytes([number]) * 100_000 for number in range(8)]
    start = threading.Barrier(8)

    def write(content: bytes) -> None:
        start.wait()
        for _ in range(10):
            write_file("x.txt", content, existing="replace")

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Path("x.txt").read_bytes() in contents
    assert [path.name for path in Path().iterdir()] == ["x.txt"]


@pytest.mark.parametrize("work", AFTER, ids=lambda work: work.__name__)
def test_all_is_on_the_disk_before_it_has_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    """Files first, then the rename, then the folder with the name."""
    order: list[str] = []
    fsync, names = os.fsync, ("rename", "replace", "link")

    def synced(descriptor: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    prepare(work, folder)
    monkeypatch.setattr(os, "fsync", synced)
    for name in names:
        real = getattr(os, name)

        def named(*arguments: Any, real: Any = real, **more: Any) -> Any:
            order.append("name")
            return real(*arguments, **more)

        monkeypatch.setattr(os, name, named)
    work()
    files = ["file", "file", "folder"] if work in (folder_written, folder_published) else ["file"]
    assert order == [*files, "name", "folder"]


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOTSUP])
def test_where_there_are_no_hard_links(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """A rename is used instead."""

    def no_links(*_: Any, **__: Any) -> None:
        raise OSError(error, "no")

    monkeypatch.setattr(os, "link", no_links)
    refusing()
    assert tree(Path()) == {**BEFORE, "y.txt": NEW}


def test_where_there_are_no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is still written; files left by others may be in use there, and stay."""

    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "no")

    Path("x.txt.0123456789abcdef.part").write_bytes(b"half")
    monkeypatch.setattr(fcntl, "flock", no_locks)
    replaced()
    assert tree(Path()) == {"x.txt": NEW, "x.txt.0123456789abcdef.part": b"half"}
