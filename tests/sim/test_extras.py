"""The command for a missing package in each kind of installation, printed by a bare Python process."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sim import extras

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PRINT_MESSAGE = """
import importlib.util, sys
sources, extra, *path = sys.argv[1:]
sys.path[:0] = path
spec = importlib.util.spec_from_file_location("extras", sources + "/sim/extras.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
assert not {"importlib.metadata", "tomllib"} & set(sys.modules), "only a message may load these"
print(module.missing_package("writing Parquet", "pyarrow", extra))
"""
METADATA = """Metadata-Version: 2.4
Name: simulation-flight-recorder
Version: 0.1.0
Requires-Dist: numpy>=1.26.4
Provides-Extra: parquet
Requires-Dist: pyarrow>=15; extra == 'parquet'
Provides-Extra: minari
Requires-Dist: minari[hdf5]>=0.5.4; extra == 'minari'
Requires-Dist: pillow>=10; (python_version >= "3.11") and extra == "minari"
"""
CHECKOUT = """
[project]
name = "simulation-flight-recorder"
[project.optional-dependencies]
parquet = ["pyarrow>=99"]
"""


def put_sources(folder: Path) -> Path:
    """Copy the module alone into a folder of packages."""
    (folder / "sim").mkdir(parents=True)
    shutil.copy(extras.__file__, folder / "sim" / "extras.py")
    return folder


def put_metadata(folder: Path, installer: str = "pip", direct_url: str | None = None) -> Path:
    """Write the metadata that an installer leaves next to the packages."""
    metadata = folder / "simulation_flight_recorder-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(METADATA)
    (metadata / "INSTALLER").write_text(f"{installer}\n")
    if direct_url is not None:
        (metadata / "direct_url.json").write_text(direct_url)
    return folder


def printed_message(sources: Path, *path: Path, extra: str = "parquet") -> str:
    """The message of a Python process that sees these folders and no site-packages."""
    words = [sys.executable, "-I", "-S", "-c", PRINT_MESSAGE, str(sources), extra, *map(str, path)]
    finished = subprocess.run(words, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.removesuffix("\n")


@pytest.mark.parametrize(
    "direct_url",
    [
        pytest.param(None, id="index"),
        pytest.param('{"archive_info": {}, "url": "file:///gone/a.whl"}', id="wheel file"),
        pytest.param('{"dir_info": {}, "url": "file:///gone"}', id="folder"),
    ],
)
def test_an_installation_names_the_packages_of_its_metadata(tmp_path: Path, direct_url: str | None) -> None:
    """The command needs neither an index with this distribution nor the file or folder of the installation."""
    site = put_metadata(put_sources(tmp_path / "lib"), direct_url=direct_url)

    assert printed_message(site, site) == "writing Parquet needs pyarrow: pip install 'pyarrow>=15'"
    assert printed_message(site, site, extra="minari").endswith(": pip install 'minari[hdf5]>=0.5.4' 'pillow>=10'")


def test_an_environment_of_uv_has_no_pip(tmp_path: Path) -> None:
    site = put_metadata(put_sources(tmp_path / "lib"), installer="uv")

    assert printed_message(site, site) == "writing Parquet needs pyarrow: uv pip install 'pyarrow>=15'"


def test_an_editable_installation_reads_its_checkout(tmp_path: Path) -> None:
    """Its metadata is as old as the installation, so that the checkout is read instead."""
    site, sources = put_metadata(tmp_path / "lib", installer="uv"), put_sources(tmp_path / "checkout" / "src")
    (tmp_path / "checkout" / "pyproject.toml").write_text(CHECKOUT)

    assert printed_message(sources, sources, site) == "writing Parquet needs pyarrow: uv pip install 'pyarrow>=99'"


def test_sources_on_pythonpath_read_their_checkout(tmp_path: Path) -> None:
    sources = put_sources(tmp_path / "src")
    (tmp_path / "pyproject.toml").write_text(CHECKOUT)

    assert printed_message(sources, sources) == "writing Parquet needs pyarrow: pip install 'pyarrow>=99'"


def test_the_project_of_a_user_is_not_this_checkout(tmp_path: Path) -> None:
    """A different project that holds an installed copy in its src folder is not read."""
    site = put_metadata(put_sources(tmp_path / "src"))
    (tmp_path / "pyproject.toml").write_text(CHECKOUT.replace("simulation-flight-recorder", "game"))

    assert printed_message(site, site) == "writing Parquet needs pyarrow: pip install 'pyarrow>=15'"


def test_no_command_is_invented(tmp_path: Path) -> None:
    """For copied files without metadata, or an unknown extra, the message names only the package."""
    bare = put_sources(tmp_path / "bare")
    site = put_metadata(put_sources(tmp_path / "lib"))

    assert printed_message(bare, bare) == "writing Parquet needs pyarrow"
    assert printed_message(site, site, extra="par.uet") == "writing Parquet needs pyarrow"


@pytest.mark.parametrize("extra", sorted(set(PROJECT["optional-dependencies"]) - {"all"}))
def test_every_extra_of_this_checkout_has_a_command(extra: str) -> None:
    command = extras.install_command(extra)

    assert command is not None
    assert all(package in command for package in PROJECT["optional-dependencies"][extra])
    assert extras.DISTRIBUTION not in command
