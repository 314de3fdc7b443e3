"""Work as bytes for workers of other machines: the work itself, and what a process there needs to load it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import attrs

from recorder.processes.engines.code_identity import changed_module, user_modules
from recorder.processes.engines.engine_error import EngineError
from recorder.processes.seeds.process_generators import noting_imported_states

# Variables that change what a simulation computes, or how tapes are read. Ray sets some of them for its workers.
_PASSED_ON = ("OMP_", "OPENBLAS_", "MKL_", "NPY_", "NUMBA_", "PYTHONHASHSEED", "REPLAY_")


@attrs.frozen
class SentWork:
    """Work for another process, perhaps on another machine.

    Attributes:
        pickled: the work.
        modules: the user's modules with digests, see user_modules.
        paths: sys.path.
        python_path: the variable PYTHONPATH, for interpreters that the work starts.
        folder: the current folder.
        patience_s: see ForkPool.
    """

    pickled: bytes
    modules: Mapping[str, str]
    paths: Sequence[str]
    python_path: str
    folder: str
    patience_s: float

    def load(self) -> Any:
        """In a worker: go to the folder if it is there, import what the work needs, return the work.

        Raises EngineError if a module is missing, or is not the same.
        """
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        python_path = [path for path in (self.python_path, os.environ.get("PYTHONPATH")) if path]
        if python_path:
            os.environ["PYTHONPATH"] = os.pathsep.join(python_path)
        sys.path[:] = dict.fromkeys([*(path for path in self.paths if Path(path).exists()), *sys.path])
        try:
            with noting_imported_states():
                work = ForkingPickler.loads(self.pickled)
        except (ImportError, AttributeError) as error:
            raise EngineError(
                f"a worker cannot load the simulation ({error}): its code must be in a shared folder, installed there, or "
                "in the runtime_env of RayEngine"
            ) from None
        changed = changed_module(self.modules)
        if changed is not None:
            raise EngineError(f"a worker has another version of the module {changed}")
        return work


def pack(value: Any) -> bytes:
    """Pickle by reference what can be imported, and the rest, such as a class of a script, by value.

    Raises TypeError, with a message of one sentence.
    """
    try:
        pickled = bytes(ForkingPickler.dumps(value))
    except Exception:  # noqa: BLE001 - a user's class may raise anything there
        pickled = b""
    if pickled and b"__main__" not in pickled:
        return pickled
    cloudpickle = _cloudpickle()
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TypeError(
            f"the simulation cannot be sent to other machines ({reason}): give it as module:factory, or as a class"
        ) from error


def _cloudpickle() -> Any:
    return importlib.import_module("ray.cloudpickle")  # An extra, which takes a while to import.


def sent_work(work: Any, patience_s: float) -> bytes:
    """The bytes of some work; SentWork when they are unpickled. Raises TypeError."""
    folder = str(Path.cwd())
    paths = [path or folder for path in sys.path]
    sent = SentWork(pack(work), user_modules(), paths, os.environ.get("PYTHONPATH", ""), folder, patience_s)
    return bytes(ForkingPickler.dumps(sent))


def passed_on_environment() -> dict[str, str]:
    """The variables of this process that its workers get."""
    return {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}


def set_passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Give this process these variables instead of its own of the same kinds; return its own."""
    own = passed_on_environment()
    for name in own:
        del os.environ[name]
    os.environ.update(environment)
    return own
