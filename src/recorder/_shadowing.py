"""Detect a user's file that hides one of our packages. Name it instead of failing later with an unclear error.

Uses os.path and the finders directly: pathlib and importlib.util would take most of the import time of our packages.
"""

from __future__ import annotations

import os
import sys


def ensure_not_shadowed(package: str, asker: str) -> None:
    """Raise ImportError, naming the file, if importing package would not give the one installed next to asker.

    asker: our package that needs it.
    """
    folder = os.path.dirname(os.path.dirname(sys.modules[asker].__file__ or ""))  # noqa: PTH120
    ours, origin = os.path.join(folder, package, "__init__.py"), _origin(package)  # noqa: PTH118
    if os.path.exists(ours) and origin is not None and not os.path.samefile(origin, ours):  # noqa: PTH110, PTH121
        raise ImportError(f"{origin} hides the package {package!r} that {asker} needs: give that file another name")


def _origin(package: str) -> str | None:
    """Return the file that importing a package would load."""
    loaded = sys.modules.get(package)
    if loaded is not None:
        return loaded.__file__
    specs = (finder.find_spec(package, None) for finder in sys.meta_path)
    return next((spec.origin for spec in specs if spec is not None), None)
