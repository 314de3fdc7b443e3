"""Notice when a file of the user's hides one of our packages, and name it instead of failing in the depths.

By os.path and the finders themselves: pathlib and importlib.util would be most of what importing a package of ours takes.
"""

from __future__ import annotations

import os
import sys


def ensure_not_shadowed(package: str, asker: str) -> None:
    """Raise ImportError, naming the file, if importing package would not give the one that lies beside asker's.

    asker: the name of the package of ours that needs it.
    """
    folder = os.path.dirname(os.path.dirname(sys.modules[asker].__file__ or ""))  # noqa: PTH120
    ours, origin = os.path.join(folder, package, "__init__.py"), _origin(package)  # noqa: PTH118
    if os.path.exists(ours) and origin is not None and not os.path.samefile(origin, ours):  # noqa: PTH110, PTH121
        raise ImportError(f"{origin} hides the package {package!r} that {asker} needs: give that file another name")


def _origin(package: str) -> str | None:
    """The file that importing a package would give."""
    loaded = sys.modules.get(package)
    if loaded is not None:
        return loaded.__file__
    specs = (finder.find_spec(package, None) for finder in sys.meta_path)
    return next((spec.origin for spec in specs if spec is not None), None)
