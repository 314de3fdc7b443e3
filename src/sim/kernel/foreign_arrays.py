"""Arrays of other libraries (JAX, PyTorch, CuPy, the array API): their bits as NumPy arrays, and arrays made from them.

Nothing is imported here. The library of an array is in memory already if the array is, and an array is made again only
by a library that the program itself has imported. A tape gives the names of a dtype and of a kind of keys; each is
checked against the result, bit for bit.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

import attrs
import numpy as np

from sim.kernel.class_names import module_of, package_of

_PLAIN_KINDS = "biufc"  # The dtypes whose bytes are the value, for NumPy, too.
# The names that a tape may give: NumPy and PyTorch would look up far more.
_DTYPE_NAME = re.compile(r"bool|bfloat16|u?int\d{1,2}|float\d{1,2}(_e\d\w{2,12})?|complex\d{2,3}")
_SMALL_FLOATS = re.compile(r"bfloat16|float[468]_e\d\w{2,12}|u?int[124]")  # The dtypes of ml_dtypes.
_BITS = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
_TORCH_CLASSES = ("torch.Tensor", "torch.nn.parameter.Parameter")


class ForeignArrayError(TypeError):
    """An array that cannot be saved, or not be made again; the message states the reason and a remedy."""


@attrs.frozen
class ArrayKind:
    """All of an array that its bits do not tell.

    Attributes:
        library: the package of its class, such as "jax".
        dtype: the name of its dtype, or of the kind of keys for random keys of JAX.
        shape: of the array.
        traits: further properties that steps can see, sorted by name: weak_type, key, requires_grad, parameter, strides.
    """

    library: str
    dtype: str
    shape: tuple[int, ...]
    traits: tuple[tuple[str, Any], ...] = ()

    def to_plain(self) -> list[Any]:
        """The kind as plain data."""
        return [
            self.library,
            self.dtype,
            list(self.shape),
            [[name, list(value) if isinstance(value, tuple) else value] for name, value in self.traits],
        ]


def array_kind_from_plain(plain: Any) -> ArrayKind:
    """The kind that to_plain described. Raises ValueError for anything else."""
    match plain:
        case [str(library), str(dtype), list(shape), list(traits)] if all(isinstance(one, int) for one in shape):
            pairs = [(str(name), tuple(value) if isinstance(value, list) else value) for name, value in traits]
            return ArrayKind(library, dtype, tuple(shape), tuple(pairs))
    raise ValueError("expected the kind of an array")


def is_foreign_array(value: Any) -> bool:
    """Return True for an array of another library that can be made again: JAX, PyTorch, CuPy, the array API."""
    kind: Any = type(value)  # Any: mypy takes no class for hashable.
    return _is_array_class(kind)


def has_array_interface(value: Any) -> bool:
    """Return True for any object that gives itself as an array: by ``__array__`` or by DLPack."""
    kind = type(value)
    return not isinstance(value, type) and (hasattr(kind, "__array__") or hasattr(kind, "__dlpack__"))


def is_compiled_function(value: Any) -> bool:
    """Return True for a function that JAX has compiled (``jax.jit``): it is called as the function that it was."""
    kind = type(value)
    return kind.__name__ == "PjitFunction" and package_of(kind) in ("jax", "jaxlib")


def is_immutable_array(value: Any) -> bool:
    """Return True for an array that nothing can write to, such as JAX's."""
    return package_of(type(value)) in ("jax", "jaxlib")


def kind_of(value: Any) -> ArrayKind:
    """The kind of a foreign array. Raises ForeignArrayError for one that cannot be saved."""
    library = _library_of(type(value))
    if library == "jax":
        return _kind_in_jax(value)
    if library == "torch":
        return _kind_in_torch(value)
    return ArrayKind(library, str(np.dtype(_bits_dtype(_generic_to_numpy(value))).name), tuple(value.shape))


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """A copy of the array's bits: of its own dtype if NumPy has it, of unsigned integers of that size otherwise.

    A random key of JAX gives its data. Raises ForeignArrayError for an array that cannot be saved.
    """
    library = _library_of(type(value))
    if library == "jax":
        _refuse_in_jax(value)
        if _is_key(value):
            value = sys.modules["jax"].random.key_data(value)
        return _plain(np.asarray(value)).copy()
    if library == "torch":
        return _torch_to_numpy(value)
    return _plain(_generic_to_numpy(value))


def like(present: Any, saved: np.ndarray[Any, Any], kind: ArrayKind) -> Any:
    """The array of this kind with these bits, on the device of the present one.

    present: the value that is replaced, which gives the device; anything else stands for the library's default device.
    A mutable array of the same kind is filled in place, so that its views stay valid.

    Raises ForeignArrayError if the program has not imported the library, or the result would differ.
    """
    saved = np.array(saved, order="C")  # JAX may keep the memory that it is given.
    if not (is_foreign_array(present) and _library_of(type(present)) == kind.library):
        present = None
    if kind.library == "jax":
        made = _make_in_jax(present, saved, kind)
    elif kind.library == "torch":
        made = _make_in_torch(present, saved, kind)
    else:
        made = _make_generic(present, saved, kind)
    if kind_of(made) != kind or to_numpy(made).tobytes() != saved.tobytes():
        raise ForeignArrayError(
            f"expected {kind.library} to make a {kind.dtype} of shape {list(kind.shape)} as it was saved, got "
            f"{kind_of(made).dtype}: {_remedy(kind)}"
        )
    return made


def memory_of(value: Any) -> tuple[int, int] | None:
    """The first and the last address of the memory that a mutable array lives in; None if it is not known.

    Two arrays of which one sees what is written to the other have overlapping memory.
    """
    if _library_of(type(value)) != "torch" or str(value.layout) != "torch.strided":
        return None
    storage = value.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


# --- classes and dtypes


@functools.lru_cache(1024)
def _is_array_class(kind: type) -> bool:
    if issubclass(kind, np.ndarray | np.generic):
        return False
    package = package_of(kind)
    if package in ("jax", "jaxlib"):
        return kind.__name__ in ("ArrayImpl", "PRNGKeyArray") or kind.__name__.endswith("Tracer")
    if _is_tensor_class(kind):
        return True
    return package == "cupy" or hasattr(kind, "__array_namespace__")


def _library_of(kind: type) -> str:
    package = package_of(kind)
    if package == "jaxlib":
        return "jax"
    return "torch" if _is_tensor_class(kind) else package


def _is_tensor_class(kind: type) -> bool:
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)  # None while a different thread imports it.
    return tensor is not None and issubclass(kind, tensor)


def _loaded(library: str) -> Any:
    module = sys.modules.get(library)
    if module is None:
        raise ForeignArrayError(
            f"expected the package {library!r} to be imported, which an array of the recorded state belongs to: import "
            "it where the simulation is made"
        )
    return module


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in a dtype that a state can hold. Raises ForeignArrayError for objects and texts."""
    if array.dtype.kind in _PLAIN_KINDS and array.dtype.isbuiltin == 1:
        return array
    return np.ascontiguousarray(array).reshape(array.shape).view(_bits_dtype(array))


def _bits_dtype(array: np.ndarray[Any, Any]) -> np.dtype[Any]:
    dtype: np.dtype[Any] = array.dtype
    if dtype.kind in _PLAIN_KINDS and dtype.isbuiltin == 1:
        return dtype
    if package_of(dtype.type) == "ml_dtypes" and dtype.itemsize in _BITS:
        return np.dtype(_BITS[dtype.itemsize])
    raise ForeignArrayError(f"expected an array of numbers or booleans, got the dtype {dtype}")


def _dtype_named(name: str) -> np.dtype[Any]:
    """The dtype of ml_dtypes of this name, or NumPy's own."""
    if not _DTYPE_NAME.fullmatch(name):
        raise ForeignArrayError(f"expected the name of a dtype of numbers, got {name!r}")
    source: Any = getattr(_loaded("ml_dtypes"), name) if _SMALL_FLOATS.fullmatch(name) else name
    made: np.dtype[Any] = np.dtype(source)
    return made


def _remedy(kind: ArrayKind) -> str:
    if kind.library == "jax" and kind.dtype in ("float64", "int64", "uint64", "complex128"):
        return 'call jax.config.update("jax_enable_x64", True) first, as the recorded program did'
    return "use the version of the library that made the recording"


# --- JAX


def _is_key(value: Any) -> bool:
    dtypes = sys.modules["jax"].dtypes
    return bool(dtypes.issubdtype(value.dtype, dtypes.prng_key))


def _refuse_in_jax(value: Any) -> None:
    name = type(value).__name__
    if name.endswith("Tracer"):
        raise ForeignArrayError(
            "a JAX tracer: the value of a running transformation such as jit, which holds no numbers; return it from "
            "the jitted function and keep the result"
        )
    if value.is_deleted():
        raise ForeignArrayError("a JAX array that was donated or deleted: keep the result of the function instead")
    if not value.is_fully_addressable:
        raise ForeignArrayError("a JAX array with parts in other processes: record each process's own part")


def _kind_in_jax(value: Any) -> ArrayKind:
    _refuse_in_jax(value)
    if _is_key(value):
        return ArrayKind("jax", str(sys.modules["jax"].random.key_impl(value)), tuple(value.shape), (("key", True),))
    traits = (("weak_type", True),) if value.weak_type else ()
    return ArrayKind("jax", value.dtype.name, tuple(value.shape), traits)


def _make_in_jax(present: Any, saved: np.ndarray[Any, Any], kind: ArrayKind) -> Any:
    jax = _loaded("jax")
    traits = dict(kind.traits)
    sharding = None
    if present is not None and getattr(present, "committed", getattr(present, "_committed", False)):
        # A sharding over several devices is for arrays of its own shape.
        sharding = present.sharding if present.shape == kind.shape or len(present.devices()) == 1 else None
    if traits.get("key"):
        made = jax.random.wrap_key_data(jax.device_put(saved), impl=kind.dtype)
        return made if sharding is None else jax.device_put(made, sharding)
    dtype = _dtype_named(kind.dtype)
    array = saved if saved.dtype == dtype else saved.view(dtype)
    if traits.get("weak_type"):
        # Only a Python number makes a weakly typed array. Writing into one keeps it so.
        jnp = jax.numpy
        number = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}[dtype.kind]
        made = jnp.broadcast_to(jnp.asarray(number), kind.shape).at[...].set(jax.device_put(array))
    else:
        made = jax.device_put(array)
    return made if sharding is None else jax.device_put(made, sharding)


# --- PyTorch


def _refuse_in_torch(value: Any) -> None:
    kind = type(value)
    if f"{module_of(kind)}.{kind.__qualname__}" not in _TORCH_CLASSES:
        raise ForeignArrayError(f"a tensor of the class {kind.__qualname__}: keep a plain torch.Tensor")
    if str(value.layout) != "torch.strided" or value.is_quantized:
        raise ForeignArrayError("a sparse or quantized tensor: keep its dense parts")
    if value.device.type == "meta":
        raise ForeignArrayError("a tensor on the device 'meta', which has no values")
    if not value.is_leaf:
        raise ForeignArrayError("a tensor that autograd will differentiate through: keep tensor.detach()")
    if value.grad is not None:
        raise ForeignArrayError("a tensor with a gradient, which is not saved: call zero_grad() before the step ends")
    if any(stride == 0 and size > 1 for stride, size in zip(value.stride(), value.shape, strict=True)):
        raise ForeignArrayError("an expanded tensor, whose elements share their memory: keep tensor.contiguous()")


def _kind_in_torch(value: Any) -> ArrayKind:
    _refuse_in_torch(value)
    traits: dict[str, Any] = {}
    if type(value).__name__ == "Parameter":
        traits["parameter"] = True
    if value.requires_grad:
        traits["requires_grad"] = True
    if value.is_conj() or value.is_neg():
        raise ForeignArrayError("a lazily conjugated or negated tensor: keep tensor.resolve_conj().resolve_neg()")
    if not value.is_contiguous():
        traits["strides"] = tuple(value.stride())
    dtype = str(value.dtype).removeprefix("torch.")
    return ArrayKind("torch", dtype, tuple(value.shape), tuple(sorted(traits.items())))


def _torch_to_numpy(value: Any) -> np.ndarray[Any, Any]:
    _refuse_in_torch(value)
    torch = sys.modules["torch"]
    dense = value.detach().cpu().contiguous()
    try:
        array: np.ndarray[Any, Any] = dense.numpy()
    except TypeError:  # NumPy has no such dtype.
        flat = dense.reshape(-1).view(torch.uint8).numpy()
        array = flat.view(_BITS.get(value.element_size(), "u1")).reshape(tuple(value.shape))
    return array.copy()


def _make_in_torch(present: Any, saved: np.ndarray[Any, Any], kind: ArrayKind) -> Any:
    torch = _loaded("torch")
    dtype = getattr(torch, kind.dtype, None) if _DTYPE_NAME.fullmatch(kind.dtype) else None
    if not isinstance(dtype, torch.dtype):
        raise ForeignArrayError(f"expected a dtype of PyTorch, got {kind.dtype!r}")
    traits = dict(kind.traits)
    flat = torch.from_numpy(saved.reshape(-1).view(np.uint8))
    source = flat.view(dtype).reshape(kind.shape)
    if present is not None and _fits(present, kind):
        made = present
    else:
        strides = traits.get("strides")
        device = present.device if present is not None else None
        if strides is None:
            made = torch.empty(kind.shape, dtype=dtype, device=device)
        else:
            made = torch.empty_strided(kind.shape, strides, dtype=dtype, device=device)
        wanted = bool(traits.get("requires_grad"))
        if traits.get("parameter"):
            made = torch.nn.Parameter(made, requires_grad=wanted)
        elif wanted:
            made.requires_grad_(requires_grad=True)
    with torch.no_grad():
        made.copy_(source)
    return made


def _fits(present: Any, kind: ArrayKind) -> bool:
    try:
        return kind_of(present) == kind
    except ForeignArrayError:
        return False


# --- any other library


def _generic_to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """A copy of the array: by its own method (CuPy), by ``__array__``, or by DLPack."""
    if package_of(type(value)) == "cupy":
        return np.array(value.get())
    made = np.array(value) if hasattr(type(value), "__array__") else np.from_dlpack(value).copy()
    _bits_dtype(made)  # Refuses an array of objects.
    return made


def _make_generic(present: Any, saved: np.ndarray[Any, Any], kind: ArrayKind) -> Any:
    if present is None:
        raise ForeignArrayError(
            f"expected an array of {kind.library} in its place, to make the saved one like it, got none: make the "
            "simulation as it was made for the recording"
        )
    namespace = present.__array_namespace__() if hasattr(present, "__array_namespace__") else _loaded(kind.library)
    dtype = _dtype_named(kind.dtype)
    array = saved if saved.dtype == dtype else saved.view(dtype)
    device = getattr(present, "device", None)
    if package_of(type(present)) == "cupy":
        with device:  # type: ignore[union-attr]  # CuPy allocates on the device that is entered.
            return namespace.asarray(array)
    return namespace.asarray(array, device=device) if device is not None else namespace.asarray(array)
