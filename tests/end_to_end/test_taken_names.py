"""Something else has the name of one of our packages: one line says what, wherever that is noticed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import simulation_flight_recorder_names
from simulation_flight_recorder_names import BEGINS

from project_paths import ROOT

HIDING = [
    ("sim.py", "recorder", "recorder"),
    ("sim.py", "replayer", "recorder"),
    ("recorder.py", "replayer", "replayer"),
    ("replayer.py", "recorder", "recorder"),
]


def run(*words: str, folder: Path, path: Path | None = None) -> tuple[int, str, str]:
    """Run Python in a folder; return its exit code and what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    finished = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return finished.returncode, finished.stdout, finished.stderr


@pytest.mark.parametrize(("file", "importing", "asker"), HIDING)
def test_a_file_that_hides_a_package_is_named_in_one_line(
    tmp_path: Path, file: str, importing: str, asker: str
) -> None:
    """A script next to it, python -m and the commands end with that line; a program may catch the ImportError."""
    (tmp_path / file).write_text("x = 1\n")
    (tmp_path / "script.py").write_text(f"import {importing}\n")
    (tmp_path / "trying.py").write_text(
        f"try:\n    import {importing}\nexcept ImportError as error:\n    print(error)\n"
    )
    line = f"{tmp_path / file} hides the package {file[:-3]!r} that {asker} needs: give that file another name\n"

    assert run("script.py", folder=tmp_path) == (1, "", f"ImportError: {line}")
    assert run("-m", importing, "--help", folder=tmp_path) == (2, "", f"error: {line}")
    assert run("trying.py", folder=tmp_path) == (0, line, "")
    command = "import simulation_flight_recorder as program; program.replay()"
    by_command = line.replace(f"{asker} needs", "this command needs")
    assert run("-P", "-c", command, folder=tmp_path, path=tmp_path) == (2, "", f"error: {by_command}")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder of installed packages: ours, and another distribution that lists a package sim."""
    folder = tmp_path / "site-packages"
    for package in BEGINS:
        shutil.copytree(ROOT / "src" / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (ROOT / "src").glob("*.py"):
        shutil.copy(file, folder)
    facts = folder / "other_simulator-1.2.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: other-simulator\nVersion: 1.2\n")
    (facts / "RECORD").write_text("sim/__init__.py,,\n")
    return folder


@pytest.mark.parametrize("owner", ["the distribution 'other-simulator'", "another distribution"])
@pytest.mark.seldom(0.18)
def test_a_distribution_that_overwrites_a_package_is_named(installed: Path, tmp_path: Path, owner: str) -> None:
    """Where none lists that file, the line says that another one has."""
    (installed / "sim/__init__.py").write_text("State = None\n")
    if owner == "another distribution":
        shutil.rmtree(installed / "other_simulator-1.2.dist-info")
    line = (
        f"{owner} has overwritten the package 'sim' of simulation-flight-recorder: "
        "uninstall it, then install ours again\n"
    )
    command = "import simulation_flight_recorder as program; program.replay()"

    assert run("-c", "import recorder", folder=tmp_path, path=installed) == (1, "", f"ImportError: {line}")
    assert run("-c", command, folder=tmp_path, path=installed) == (2, "", f"error: {line}")


def test_a_package_whose_file_was_removed_is_named(installed: Path, tmp_path: Path) -> None:
    """As after the other distribution was uninstalled."""
    (installed / "sim/__init__.py").unlink()
    code, _, printed = run("-c", "import recorder", folder=tmp_path, path=installed)

    assert code == 1
    assert printed == (
        f"ImportError: {installed}/sim/__init__.py is missing, perhaps since another distribution was uninstalled: "
        "install simulation-flight-recorder again\n"
    )


@pytest.mark.parametrize("package", BEGINS)
def test_each_package_begins_as_is_expected_of_it(package: str) -> None:
    """Otherwise it would be taken for an overwritten one."""
    start = Path(simulation_flight_recorder_names.__file__).with_name(package) / "__init__.py"
    assert start.read_bytes().startswith(BEGINS[package])
