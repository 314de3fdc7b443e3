"""What a function does, as text: the same for the same code, on each version of Python."""

from __future__ import annotations

import types

import pytest

from recorder.ambient.outside.code_text import function_text


def text_of(source: str) -> str:
    """The text of the function of this source."""
    made: dict[str, types.FunctionType] = {}
    exec(source, made)
    return function_text(made["step"])


DOCUMENTED = 'def step(x):\n    """Step."""\n    return x + (lambda: "a")() + "b"'


@pytest.mark.parametrize(
    "source",
    [
        DOCUMENTED.replace("Step.", "Make a step."),
        DOCUMENTED.replace("\n    return", "\n\n    # A comment.\n    return"),
    ],
)
def test_docstrings_and_comments_do_not_count(source: str) -> None:
    assert text_of(source) == text_of(DOCUMENTED)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"a"', '"c"'), ('"b"', '"c"'), ("x +", "x -"), ("step(x)", "step(x=1)"), ('    """Step."""\n', '    "a" + x\n')],
)
def test_anything_else_does(old: str, new: str) -> None:
    assert old in DOCUMENTED
    assert text_of(DOCUMENTED.replace(old, new)) != text_of(DOCUMENTED)


def test_the_first_text_of_a_function_without_a_docstring_counts() -> None:
    assert text_of('def step(x):\n    return x + "a"') != text_of('def step(x):\n    return x + "b"')
