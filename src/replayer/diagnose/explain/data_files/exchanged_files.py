"""Let the code of this process find other files at some paths. The files themselves are not touched.

C code that opens files by itself is not reached.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from typing import Any

from replayer.diagnose.explain.outside.replaced_files import ONE_PATH, with_paths


def exchange_files(exchanged: Sequence[tuple[str, str]]) -> None:
    """Replace what opens and inspects files, before the user's modules are loaded. exchanged: whole paths, each with the other one."""
    if not exchanged:
        return
    others = {one: other for path, other in exchanged for one in (path, os.path.realpath(path))}

    def elsewhere(path: Any) -> Any:
        if not isinstance(path, str | bytes | os.PathLike):
            return path
        other = others.get(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 - a Path would ask the replaced functions for links
        if other is None:
            return path
        return os.fsencode(other) if isinstance(path, bytes) else other

    known = [builtins.open, *(getattr(os, name) for name in ONE_PATH if hasattr(os, name))]
    substitutes = {id(one): (one, with_paths(one, elsewhere, 1)) for one in known}
    for module in (builtins, io, os, *filter(_is_of_paths, list(sys.modules.values()))):
        names = vars(module)
        for name, value in list(names.items()):
            found = substitutes.get(id(value))
            if found is not None and found[0] is value:
                names[name] = found[1]
    of_loader, get_data = SourceFileLoader, SourceFileLoader.get_data
    setattr(of_loader, "get_data", lambda self, path: get_data(self, elsewhere(path)))  # noqa: B010 - pkgutil.get_data


def _is_of_paths(module: Any) -> bool:
    return getattr(module, "__name__", "").partition(".")[0] in ("pathlib", "genericpath", "posixpath", "tokenize")
