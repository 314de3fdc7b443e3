"""HTML of results in notebooks. A result is data and imports no rendering: renderers are registered for its class.

The package names the module that registers them; it is imported when a notebook first shows a result.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

Renderer = TypeVar("Renderer", bound=Callable[[Any], str])

_renderers: dict[type, Callable[[Any], str]] = {}
_modules: list[str] = []  # Those that register renderers and are not imported yet.


def renderers_are_in(module: str) -> None:
    """Import this module when the first result is shown; it registers renderers."""
    _modules.append(module)


def renders(shown: type) -> Callable[[Renderer], Renderer]:
    """Register the decorated function as the renderer of a class and of its subclasses."""

    def register(renderer: Renderer) -> Renderer:
        _renderers[shown] = renderer
        return renderer

    return register


class RenderedAsHtml:
    """A class whose instances notebooks show by a registered renderer."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        while _modules:
            importlib.import_module(_modules[-1])
            _modules.pop()
        renderer = next(_renderers[cls] for cls in type(self).__mro__ if cls in _renderers)
        return renderer(self)
