"""Notice when a file of the user's hides one of our packages, and name it instead of failing in the depths."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path


def ensure_not_shadowed(package: str, asker: str) -> None:
    """Raise ImportError, naming the file, if importing package would not give the one that lies beside asker's.

    asker: the name of the package of ours that needs it.
    """
    ours = Path(sys.modules[asker].__file__ or "").parent.parent / package / "__init__.py"
    found = find_spec(package)
    origin = found.origin if found is not None else None
    if ours.exists() and origin is not None and not Path(origin).samefile(ours):
        raise ImportError(f"{origin} hides the package {package!r} that {asker} needs: give that file another name")
