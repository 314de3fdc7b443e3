"""Registry of HTML renderers for results in notebooks. A result is data and imports no rendering.

The package names the module that registers the renderers. It is imported when a notebook first shows a result.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

Renderer = TypeVar("Renderer", bound=Callable[[Any], str])

_renderers: dict[type, Callable[[Any], str]] = {}
_modules: list[str] = []  # Modules that register renderers and are not imported yet.


def renderers_are_in(module: str) -> None:
    """Name the module that registers renderers; it is imported when the first result is shown."""
    _modules.append(module)


def renders(shown: type) -> Callable[[Renderer], Renderer]:
    """Register the decorated function as the renderer of a class and of its subclasses."""

    def register(renderer: Renderer) -> Renderer:
        _renderers[shown] = renderer
        return renderer

    return register


class RenderedAsHtml:
    """Base of classes whose instances a notebook shows with a registered renderer."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        while _modules:
            importlib.import_module(_modules[-1])
            _modules.pop()
        renderer = next(_renderers[cls] for cls in type(self).__mro__ if cls in _renderers)
        return renderer(self)
