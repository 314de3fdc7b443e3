"""Optional packages: the message for a missing package, with a command that installs it.

The command names the packages, not the extra. It works for every kind of installation: an index, a wheel file, a folder,
an editable installation, and sources on PYTHONPATH. An index that lacks this distribution cannot install its extras.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

DISTRIBUTION = "simulation-flight-recorder"


def missing_package(task: str, package: str, extra: str) -> str:
    """The message for a missing package that a task needs, with the command that installs it.

    extra: the extra of this distribution that names the package. An unknown one adds no command.
    """
    command = install_command(extra)
    return f"{task} needs {package}: {command}" if command else f"{task} needs {package}"


def install_command(extra: str) -> str | None:
    """The command that installs the packages of an extra; None if they are not known."""
    requirements = _checkout_requirements(extra)
    if requirements is None:
        requirements = _installed_requirements(extra)
    return f"{_installer()} {shlex.join(requirements)}" if requirements else None


def _checkout_requirements(extra: str) -> list[str] | None:
    """The packages of an extra as pyproject.toml lists them; None if this code does not run from a checkout.

    The metadata of an editable installation is as old as the installation. Sources on PYTHONPATH have none.
    """
    sources = Path(__file__).parents[1]
    configuration = sources.parent / "pyproject.toml"
    if sources.name != "src" or not configuration.is_file():
        return None
    import tomllib  # noqa: PLC0415 - only for a message

    project = tomllib.loads(configuration.read_text(encoding="utf-8")).get("project", {})
    if project.get("name") != DISTRIBUTION:  # Installed below the src folder of a different project.
        return None
    return list(project.get("optional-dependencies", {}).get(extra, []))


def _installed_requirements(extra: str) -> list[str]:
    from importlib import metadata  # noqa: PLC0415 - takes long to import, and only a message needs it

    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []  # Copied files, without metadata.
    requirements = [line.partition(";") for line in lines]
    return [
        package.strip()
        for package, _, marker in requirements
        if re.search(rf"\bextra\s*==\s*['\"]{re.escape(extra)}['\"]", marker)
    ]


def _installer() -> str:
    """The start of the command: environments that uv made have no pip."""
    from importlib import metadata  # noqa: PLC0415 - takes long to import, and only a message needs it

    try:
        installer = metadata.distribution(DISTRIBUTION).read_text("INSTALLER") or ""
    except metadata.PackageNotFoundError:
        return "pip install"
    return "uv pip install" if installer.strip() == "uv" else "pip install"
