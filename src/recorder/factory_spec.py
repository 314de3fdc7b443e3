"""Import the simulation that a user names on the command line as ``module:factory``. A tape never names an import."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recorder.processes.seeds.process_generators import noting_imported_states

Factory = Callable[[], Any]


def load_factory(spec: str) -> Factory:
    """Import the factory that a user names as ``module:attribute``, from the current folder or the installed packages.

    Raises ValueError, with a message of one sentence, if it cannot be imported or called.
    """
    module_name, _, attribute = spec.partition(":")
    _ensure_names(spec, module_name, attribute)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    factory = _import(spec, module_name)
    try:
        for name in attribute.split("."):
            factory = getattr(factory, name)
    except AttributeError as error:
        raise ValueError(f"{spec}: {error}{_hint_if_we_hide_it(module_name)}") from None
    if not callable(factory):
        raise ValueError(  # noqa: TRY004 - every mistake in what the user typed is one kind of error
            f"{spec}: expected a class or function to call, got {type(factory).__name__}"
        )
    return factory  # type: ignore[no-any-return]


def sim_option(recorded: Any) -> str:
    """Return the --sim option for a simulation whose class is recorded in a tape.

    A class of a script, or one made by a function, cannot be imported by name: return a placeholder for it.
    """
    module_name, _, name = recorded.rpartition(".") if isinstance(recorded, str) else ("", "", "")
    parts = [*module_name.split("."), name]
    if module_name == "__main__" or not all(part.isidentifier() for part in parts):
        return "--sim module:factory"
    return f"--sim {module_name}:{name}"


def _ensure_names(spec: str, module_name: str, attribute: str) -> None:
    """Raise ValueError for anything but a module and a name in it, with the spelling that was probably meant."""
    if module_name.endswith(".py"):
        path = Path(module_name)
        if not path.is_absolute() and ".." not in path.parts:
            module_path = ".".join(path.with_suffix("").parts)
            raise ValueError(f"{spec}: name the module as in an import, {module_path}:{attribute or 'factory'}")
        raise ValueError(f"{spec}: name the module as in an import: go to its folder and use {path.stem}:{attribute}")
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
            return importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"{spec}: {error}{_hint_if_we_hide_it(module_name)}") from None
    except SyntaxError as error:
        raise ValueError(f"{spec}: {error.filename}, line {error.lineno}: {error.msg}") from None
    except SystemExit as error:
        failure = f"ended with sys.exit({'' if error.code is None else repr(error.code)})"
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything when it is imported
        failure = f"raised {type(error).__name__}: {error}"
    raise ValueError(
        f"{spec}: importing {module_name} {failure} "
        "(move code that should not run on import below: if __name__ == '__main__')"
    )


def _hint_if_we_hide_it(module_name: str) -> str:
    """Return a hint if the user's module has the name of one of our packages; "" if it has not."""
    top = module_name.partition(".")[0]
    if top in {"sim", "recorder", "replayer"} and (Path.cwd() / f"{top}.py").exists():
        return f"; {Path.cwd() / f'{top}.py'} has the name of one of our packages: rename that file"
    return ""
