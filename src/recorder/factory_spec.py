"""Import the simulation that a user names on the command line as ``module:factory``: their own choice, never a tape's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Factory = Callable[[], Any]


def load_factory(spec: str) -> Factory:
    """The factory that a user names as ``module:attribute``, imported from the current folder or what is installed.

    Raises ValueError, in one sentence, if there is no such thing.
    """
    module_name, _, attribute = spec.partition(":")
    _ensure_names(spec, module_name, attribute)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found = _import(spec, module_name)
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise ValueError(f"{spec}: {error}{_hidden_by_us(module_name)}") from None
    if not callable(found):
        raise ValueError(  # noqa: TRY004 - whatever is wrong with what the user typed is one kind of error
            f"{spec} is {type(found).__name__}, not something to be called"
        )
    return found  # type: ignore[no-any-return]


def sim_option(recorded: Any) -> str:
    """How to name a simulation on the command line, if a tape says that it was recorded from this class.

    A class of a script, or one that a function made, has no such name: then it is said what belongs there.
    """
    module_name, _, name = recorded.rpartition(".") if isinstance(recorded, str) else ("", "", "")
    parts = [*module_name.split("."), name]
    if module_name == "__main__" or not all(part.isidentifier() for part in parts):
        return "--sim module:factory"
    return f"--sim {module_name}:{name}"


def _ensure_names(spec: str, module_name: str, attribute: str) -> None:
    """Refuse what cannot be a module and a name in it, and say what was probably meant."""
    if module_name.endswith(".py"):
        path = Path(module_name)
        if not path.is_absolute() and ".." not in path.parts:
            meant = ".".join(path.with_suffix("").parts)
            raise ValueError(f"{spec}: a module is named as in an import, {meant}:{attribute or 'factory'}")
        raise ValueError(f"{spec}: a module is named as in an import; go to its folder and say {path.stem}:{attribute}")
    if attribute.endswith(")"):
        raise ValueError(
            f"{spec}: the name alone was expected, {module_name}:{attribute.partition('(')[0]}; "
            "it is called whenever a simulation is needed"
        )
    if not all(name.isidentifier() for name in [*module_name.split("."), *attribute.split(".")]):
        raise ValueError(f"{spec!r}: module:factory was expected, for example walkers:Walkers")


def _import(spec: str, module_name: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"{spec}: {error}{_hidden_by_us(module_name)}") from None
    except SyntaxError as error:
        raise ValueError(f"{spec}: {error.filename}, line {error.lineno}: {error.msg}") from None
    except SystemExit as error:
        what = f"ended with sys.exit({'' if error.code is None else repr(error.code)})"
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything when it is imported
        what = f"raised {type(error).__name__}: {error}"
    raise ValueError(
        f"{spec}: importing {module_name} {what} "
        "(code that should not run on import belongs below: if __name__ == '__main__')"
    )


def _hidden_by_us(module_name: str) -> str:
    top = module_name.partition(".")[0]
    if top in {"sim", "recorder", "replayer"} and (Path.cwd() / f"{top}.py").exists():
        return f"; {Path.cwd() / f'{top}.py'} has the name of a package of ours: give that file another name"
    return ""
