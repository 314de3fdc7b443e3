"""Build the sdist and, from it, the wheel; use the wheel in a new environment; run tests from the unpacked sdist.

    make test-wheel

1. The sdist holds every file that git tracks. The wheel, which is built from the sdist, holds every file below src and
   its metadata, and nothing else.
2. In a new virtual environment, outside of the checkout, the installed wheel records the shipped scenario, seeks and
   verifies. The command that it prints for a missing package is run and helps.
3. The unpacked sdist collects all of its tests and runs some: the golden tapes, the extras, the README. They
   run in the environment of this script, where the packages for tests must be installed.

It prints a line for each step. The first one that fails ends it with an exception and exit code 1.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMAND_S_MAX = 300  # Installing packages from a slow index is the longest of them.
TESTS_MIN = 3000  # Fewer would mean that a folder was left out.
SAMPLE = ["tests/recorder/format/test_golden_tapes.py", "tests/sim/test_extras.py", "README.md"]
README_SEEK = "state hash: 8feafa14481f3172, as recorded"  # The README shows the same tick of the same scenario.


def main() -> None:
    """Run all steps in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="test-wheel-") as name:
        folder = Path(name).resolve()
        run(folder, sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT)
        (wheel,) = (folder / "dist").glob("*.whl")
        (sdist,) = (folder / "dist").glob("*.tar.gz")
        unpacked = check_sdist(sdist, folder)
        check_wheel(wheel, unpacked)
        use_wheel(wheel, folder)
        run_tests(unpacked)


def check_sdist(sdist: Path, folder: Path) -> Path:
    """Unpack it and compare it with what git tracks. Return the folder of the unpacked sources."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    held = files_below(unpacked) - {"PKG-INFO"}
    has_git = (ROOT / ".git").exists()  # This script runs in an unpacked sdist, too.
    if has_git:
        tracked = run(ROOT, "git", "ls-files", "-z").split("\0")[:-1]
        expect_same(held, {path for path in tracked if (ROOT / path).exists()}, f"{sdist.name} and git")
    print(f"sdist: {len(held):,} files{', those that git tracks' if has_git else ''}")
    return unpacked


def check_wheel(wheel: Path, unpacked: Path) -> None:
    """Compare it with the sources, data files included, and read its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    info = metadata.removesuffix("METADATA")
    files = {name for name in names if not name.startswith(info)}
    expect_same(files, files_below(unpacked / "src"), f"{wheel.name} and src")
    data = sorted(name for name in files if not name.endswith(".py"))
    for needed in ("sim/py.typed", "recorder/py.typed", "replayer/py.typed"):
        assert needed in files, needed
    scenarios = [name for name in data if name.endswith(".toml")]
    assert any(name.endswith("/quiet-meadow.toml") for name in scenarios), data
    assert f"{info}licenses/LICENSE" in names, names
    for line in ("License-Expression: MIT", *(f"Classifier: {classifier}" for classifier in PROJECT["classifiers"])):
        assert line in text.splitlines(), line
    print(
        f"wheel: {len(files):,} files of src, {len(scenarios)} scenarios and {len(data) - len(scenarios)} other data files"
    )


def use_wheel(wheel: Path, folder: Path) -> None:
    """Install it into a new environment; record, seek and verify there."""
    venv, work = folder / "venv", folder / "work"
    work.mkdir()
    run(work, ROOT / "tools" / "make_venv.sh", venv, PYTHON=sys.executable)
    run(work, venv / "bin" / "pip", "install", "--quiet", wheel)
    bin_first = f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def shell(line: str, code: int = 0) -> str:
        return run(work, "sh", "-c", line, code=code, PATH=bin_first)

    homes = shell(
        "python -c 'import recorder, replayer, sim; print(recorder.__file__, replayer.__file__, sim.__file__)'"
    )
    assert all(Path(home).is_relative_to(venv) for home in homes.split()), homes
    version = shell("record --version").strip()
    assert version == PROJECT["version"], version
    shell("record run quiet-meadow --ticks 900 --output run.tape")
    sought = shell("replay seek run.tape --tick 700")
    assert README_SEEK in sought, sought
    verified = shell("replay verify run.tape").strip()
    assert verified == "run.tape: all 901 ticks match the recording", verified
    print(f"installed {version}: {verified}")

    refused = shell("replay export run.tape --events -o events.parquet", code=2)
    hint = re.search(r"error: writing Parquet needs pyarrow: (pip install 'pyarrow\S+')$", refused.strip())
    assert hint, refused
    shell(hint[1])
    shell("replay export run.tape --events -o events.parquet")
    assert (work / "events.parquet").read_bytes().startswith(b"PAR1")
    print(f"missing package: the command it prints helps: {hint[1]}")
    for extra in PROJECT["optional-dependencies"].keys() - {"all"}:
        command = shell(f"python -c 'from sim.extras import install_command as command; print(command(\"{extra}\"))'")
        named = {package_name(word) for word in shlex.split(command)[2:]}
        assert named == {package_name(word) for word in PROJECT["optional-dependencies"][extra]}, (extra, command)


def run_tests(unpacked: Path) -> None:
    """Collect all tests of the unpacked sdist and run some, with its own sources."""
    source = str(unpacked / "src")
    home = run(unpacked, sys.executable, "-c", "import recorder; print(recorder.__file__)", PYTHONPATH=source).strip()
    assert Path(home).is_relative_to(unpacked), home
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    listed = run(unpacked, *pytest, "--collect-only", PYTHONPATH=source)
    collected = re.search(r"^(?:(\d+)/)?(\d+) tests collected", listed, re.MULTILINE)
    assert collected, listed[-2000:]
    assert int(collected[2]) >= TESTS_MIN, collected[0]
    print(f"sdist: {collected[0]}")
    passed = run(unpacked, *pytest, *SAMPLE, PYTHONPATH=source).strip().splitlines()[-1]
    assert re.fullmatch(r"\d+ passed\b.*", passed), passed
    print(f"sdist: {passed}: {' '.join(SAMPLE)}")


def package_name(requirement: str) -> str:
    """Return the requirement with its extras and without its bounds, whose order a build may change."""
    return re.split(r"[<>=!~]", requirement)[0]


def files_below(folder: Path) -> set[str]:
    """Return the relative paths of all files. Compiled modules are not part of a distribution."""
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in paths}


def expect_same(held: set[str], expected: set[str], what: str) -> None:
    """Raise AssertionError with the files that only one of the two sets has."""
    assert held == expected, f"{what} differ: missing {sorted(expected - held)}, too many {sorted(held - expected)}"


def run(folder: Path, *command: str | Path, code: int = 0, **environment: str) -> str:
    """Return the stdout of a command, and for expected failures its stderr.

    Raises AssertionError for a different exit code. PYTHONPATH of this process is left out: it could hide what was
    installed.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    words: Sequence[str] = [str(word) for word in command]
    finished = subprocess.run(
        words, cwd=folder, env={**inherited, **environment}, capture_output=True, text=True, check=False,
        timeout=COMMAND_S_MAX,
    )  # fmt: skip
    assert finished.returncode == code, (
        f"expected exit code {code}, got {finished.returncode}: {' '.join(words)}\n{finished.stdout}{finished.stderr}"
    )
    return finished.stdout + (finished.stderr if code else "")


if __name__ == "__main__":
    main()
