"""Import the simulation that a user names as ``module:factory`` or ``file.py:factory``. A tape never names an import."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from recorder.processes.seeds.process_generators import noting_imported_states
from sim.near_names import did_you_mean

Factory = Callable[[], Any]
OUR_NAMES = ("sim", "recorder", "replayer")
# The modules of files of the user's that have the name of one of our packages.
_MODULES_OF_FILES = {f"{name}.py": f"_{name}_py" for name in OUR_NAMES}


def load_factory(spec: str) -> Factory:
    """Import the factory that a user names as ``module:attribute``, from the current folder or the installed packages.

    ``folder/file.py:attribute`` is ``folder.file:attribute``; it finds the modules beside it, as a program does, unless the
    folder is a package. A file in the current folder with the name of one of our
    packages, such as ``./sim.py:World``, is loaded as a module of another name.

    Raises ValueError, with a message of one sentence, if it cannot be imported or called.
    """
    module_name, _, attribute = spec.partition(":")
    module_name = _module_of(spec, module_name, attribute)
    _ensure_names(spec, module_name, attribute)
    _add_to_path(Path.cwd())
    beside = Path(spec.partition(":")[0]).parent
    if spec.partition(":")[0].endswith(".py") and not (beside / "__init__.py").exists():
        _add_to_path(Path.cwd() / beside)
    factory = _import(spec, module_name)
    try:
        for name in attribute.split("."):
            factory = getattr(factory, name)
    except AttributeError:
        near = did_you_mean(name, [known for known in dir(factory) if not known.startswith("_")])
        kind = "module" if isinstance(factory, ModuleType) else type(factory).__name__
        where = spec.partition(":")[0] if kind == "module" else getattr(factory, "__name__", kind)
        raise ValueError(f"{spec}: {kind} {where!r} has no attribute {name!r}{near}") from None
    if not callable(factory):
        raise ValueError(  # noqa: TRY004 - every mistake in what the user typed is one kind of error
            f"{spec}: expected a class or function to call, got {type(factory).__name__}"
        )
    return factory  # type: ignore[no-any-return]


def _add_to_path(folder: Path) -> None:
    """Let modules of a folder be found first; but for ours, also in processes begun here."""
    if str(folder) not in sys.path:
        hides = any((folder / file).exists() for file in _MODULES_OF_FILES)
        sys.path.insert(len(sys.path) if hides else 0, str(folder))


def sim_option(recorded: Any) -> str:
    """Return the --sim option for a simulation whose class is recorded in a tape.

    A class of a script, or one made by a function, cannot be imported by name: return a placeholder for it.
    """
    module_name, _, name = recorded.rpartition(".") if isinstance(recorded, str) else ("", "", "")
    parts = [*module_name.split("."), name]
    if module_name == "__main__" or not all(part.isidentifier() for part in parts):
        return "--sim module:factory"
    for file, module in _MODULES_OF_FILES.items():
        if module_name == module:
            return f"--sim ./{file}:{name}"
    return f"--sim {module_name}:{name}"


def _module_of(spec: str, name: str, attribute: str) -> str:
    """Return the module of a file that is named by a path from the current folder; any other name as it is."""
    if not name.endswith(".py"):
        if name in OUR_NAMES and Path(f"{name}.py").exists():
            raise ValueError(f"{spec}: {name} is one of our packages; name your file as ./{name}.py:{attribute}")
        return name
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:  # Elsewhere, such as in another commit, it would be the same file.
        raise ValueError(f"{spec}: name the module as in an import: go to its folder and use {path.stem}:{attribute}")
    if not attribute:
        raise ValueError(f"{spec}: name the class or function in it, too: {name}:factory")
    if not path.is_file():
        raise ValueError(f"{spec}: there is no file {path} in {Path.cwd()}")
    return _MODULES_OF_FILES.get(str(path)) or ".".join(path.with_suffix("").parts)


def _ensure_names(spec: str, module_name: str, attribute: str) -> None:
    """Raise ValueError for anything but a module and a name in it, with the spelling that was probably meant."""
    if attribute.endswith(")"):
        raise ValueError(
            f"{spec}: expected the name alone, {module_name}:{attribute.partition('(')[0]}; "
            "it is called whenever a simulation is needed"
        )
    if not all(name.isidentifier() for name in [*module_name.split("."), *attribute.split(".")]):
        raise ValueError(f"{spec!r}: expected module:factory, such as walkers:Walkers")


def _import(spec: str, module_name: str) -> Any:
    try:
        with noting_imported_states():
            return _loaded_file(module_name) or importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"{spec}: {error}") from None
    except SyntaxError as error:
        raise ValueError(f"{spec}: {error.filename}, line {error.lineno}: {error.msg}") from None
    except PermissionError as error:
        raise ValueError(f"{spec}: {error.filename}: {error.strerror}") from None
    except SystemExit as error:
        failure = f"ended with sys.exit({'' if error.code is None else repr(error.code)})"
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything when it is imported
        failure = f"raised {type(error).__name__}: {error}"
    raise ValueError(
        f"{spec}: importing {module_name} {failure} "
        "(move code that should not run on import below: if __name__ == '__main__')"
    )


def _loaded_file(module_name: str) -> Any:
    """Load a file with the name of one of our packages; None for any other module, or one that is loaded already."""
    file = next((file for file, module in _MODULES_OF_FILES.items() if module == module_name), None)
    if file is None or module_name in sys.modules:
        return None
    spec = importlib.util.spec_from_file_location(module_name, Path.cwd() / file)
    assert spec is not None and spec.loader is not None  # noqa: PT018 - of a file that ends in .py
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module
