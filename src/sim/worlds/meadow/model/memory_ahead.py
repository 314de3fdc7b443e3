"""Fetch memory into the cache before it is used, in compiled loops; it never changes a result.

A processor fetches ahead by itself where addresses follow a pattern. Those of the cells of plants and swarms do not.
"""

from __future__ import annotations

import functools
from typing import Any


def fetch_ahead(values: Any, index: int) -> None:
    """Begin to load an item of a one-dimensional array; an index outside of it is no error. Interpreted: do nothing."""


@functools.cache
def teach_numba() -> None:
    """Let numba compile calls of fetch_ahead to the processor's instruction."""
    from llvmlite import ir  # noqa: PLC0415 - with numba, which takes half a second
    from numba import types  # noqa: PLC0415
    from numba.core import cgutils  # noqa: PLC0415
    from numba.extending import intrinsic, overload  # noqa: PLC0415

    @intrinsic  # type: ignore[untyped-decorator]
    def fetch(_: Any, array: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            how = [ir.Constant(number, value) for value in (0, 3, 1)]  # To read, keep it in all caches, data.
            builder.call(function, [builder.bitcast(builder.gep(data, [arguments[1]]), byte), *how])
            return context.get_dummy_value()

        return types.void(array, place), generate

    @overload(fetch_ahead, inline="always")  # type: ignore[untyped-decorator]
    def compiled_form(values: Any, index: Any) -> Any:  # noqa: ARG001 - numba asks with the types
        def form(values: Any, index: Any) -> Any:
            fetch(values, index)

        return form
