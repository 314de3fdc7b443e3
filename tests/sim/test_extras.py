"""The command for a missing package, as each kind of installation gets it, run by a bare Python of its own."""

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
SAY = """
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
    """The module alone in a folder of packages."""
    (folder / "sim").mkdir(parents=True)
    shutil.copy(extras.__file__, folder / "sim" / "extras.py")
    return folder


def put_metadata(folder: Path, installer: str = "pip", direct_url: str | None = None) -> Path:
    """What an installer leaves next to the packages."""
    described = folder / "simulation_flight_recorder-0.1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(METADATA)
    (described / "INSTALLER").write_text(f"{installer}\n")
    if direct_url is not None:
        (described / "direct_url.json").write_text(direct_url)
    return folder


def said(sources: Path, *path: Path, extra: str = "parquet") -> str:
    """The message in a Python that sees these folders and no site-packages."""
    words = [sys.executable, "-I", "-S", "-c", SAY, str(sources), extra, *map(str, path)]
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
    """It needs neither an index that has this distribution nor the file or folder that it came from."""
    site = put_metadata(put_sources(tmp_path / "lib"), direct_url=direct_url)

    assert said(site, site) == "writing Parquet needs pyarrow: pip install 'pyarrow>=15'"
    assert said(site, site, extra="minari").endswith(": pip install 'minari[hdf5]>=0.5.4' 'pillow>=10'")


def test_an_environment_of_uv_has_no_pip(tmp_path: Path) -> None:
    site = put_metadata(put_sources(tmp_path / "lib"), installer="uv")

    assert said(site, site) == "writing Parquet needs pyarrow: uv pip install 'pyarrow>=15'"


def test_an_editable_installation_reads_its_checkout(tmp_path: Path) -> None:
    """Its metadata is as old as the installation."""
    site, sources = put_metadata(tmp_path / "lib", installer="uv"), put_sources(tmp_path / "checkout" / "src")
    (tmp_path / "checkout" / "pyproject.toml").write_text(CHECKOUT)

    assert said(sources, sources, site) == "writing Parquet needs pyarrow: uv pip install 'pyarrow>=99'"


def test_sources_on_pythonpath_read_their_checkout(tmp_path: Path) -> None:
    sources = put_sources(tmp_path / "src")
    (tmp_path / "pyproject.toml").write_text(CHECKOUT)

    assert said(sources, sources) == "writing Parquet needs pyarrow: pip install 'pyarrow>=99'"


def test_the_project_of_a_user_is_not_this_checkout(tmp_path: Path) -> None:
    """One that holds an installed copy in its own src folder."""
    site = put_metadata(put_sources(tmp_path / "src"))
    (tmp_path / "pyproject.toml").write_text(CHECKOUT.replace("simulation-flight-recorder", "game"))

    assert said(site, site) == "writing Parquet needs pyarrow: pip install 'pyarrow>=15'"


def test_no_command_is_invented(tmp_path: Path) -> None:
    """Copied files without metadata, and an extra that does not exist: the package is named alone."""
    bare = put_sources(tmp_path / "bare")
    site = put_metadata(put_sources(tmp_path / "lib"))

    assert said(bare, bare) == "writing Parquet needs pyarrow"
    assert said(site, site, extra="par.uet") == "writing Parquet needs pyarrow"


@pytest.mark.parametrize("extra", sorted(set(PROJECT["optional-dependencies"]) - {"all"}))
def test_every_extra_of_this_checkout_has_a_command(extra: str) -> None:
    command = extras.install_command(extra)

    assert command is not None
    assert all(package in command for package in PROJECT["optional-dependencies"][extra])
    assert extras.DISTRIBUTION not in command
