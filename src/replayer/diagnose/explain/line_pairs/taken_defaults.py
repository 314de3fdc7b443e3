"""Defaults of attributes that a constructor gives which was made for a class, as by dataclasses, and the calls that take them."""

from __future__ import annotations

import ast
import re

DEFAULT = re.compile(r"c(?P<kind>[^:(]+)\((?P<number>\d+)\):(?P<name>.*)")  # As values.class_data names them.


def calls_in(text: str) -> list[ast.Call]:
    """The calls in a statement, or in the head of one; none if it cannot be parsed."""
    for whole in (text, f"{text} pass"):
        try:
            return [node for node in ast.walk(ast.parse(whole)) if isinstance(node, ast.Call)]
        except SyntaxError:
            continue
    return []


def called_name(call: ast.Call) -> str | None:
    """The last part of what is called, as written."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None


def may_pass(call: ast.Call, default: re.Match[str]) -> bool:
    """Return True if a call may give the attribute a value."""
    is_open = any(isinstance(one, ast.Starred) for one in call.args)
    named = any(one.arg in (None, default["name"]) for one in call.keywords)
    return is_open or named or len(call.args) > int(default["number"])
