"""Element types and arrays: NumPy, DLPack, ml_dtypes."""
from __future__ import annotations

import ctypes

from . import _api
from ._errors import InputError, UsageError
from ._library import lib, note, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNKNOWN = -1
_BY_NAME: dict[str, int] = {
    lib.ht_dtype_name(t).decode(): t for t in range(1, _api.HT_DTYPE_END) if lib.ht_dtype_bytes(t)
}
_BY_NAME['string'] = _api.HT_STRING  # its elements have no fixed size
_no_ml_dtypes_said = False


class Tensor:
    """An input or output: `name`, `dtype` (a name such as "float32"), `shape` (a tuple, in which None is an open
    dimension; None if the rank is open)."""
    __slots__ = ('name', 'dtype', 'shape')

    def __init__(self, name: str, dtype: str, shape: tuple[int | None, ...] | None):
        self.name, self.dtype, self.shape = name, dtype, shape

    def __repr__(self) -> str:
        return f'{self.name}: {spelled(self.dtype, self.shape)}'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def spelled(dtype: str, shape: tuple[int | None, ...] | None) -> str:
    """The tensor as the tool prints it: float32[?,4]."""
    if shape is None:
        return dtype + '[...]'
    return f'{dtype}[{",".join("?" if n is None else str(n) for n in shape)}]'


def tensor_of(v: Any) -> Tensor:
    """The tensor that a struct ht_value_info describes."""
    shape = None if v.rank < 0 else tuple(None if v.dim[i] < 0 else v.dim[i] for i in range(v.rank))
    return Tensor(text(v.name) or '', lib.ht_dtype_name(v.dtype).decode(), shape)


def code_of(dtype: str) -> int:
    """The number of a dtype's name; short names such as f16 are accepted, too."""
    short = {'f16': 'float16', 'f32': 'float32', 'f64': 'float64', 'bf16': 'bfloat16'}
    try:
        return _BY_NAME[short.get(dtype, dtype)]
    except KeyError:
        raise InputError(f'there is no dtype {dtype!r}; there are {", ".join(_BY_NAME)}') from None


def numpy_dtype(name: str) -> Any:
    """NumPy's dtype for a type: bfloat16 is that of ml_dtypes, or uint16 if this is not installed; strings are objects."""
    global _no_ml_dtypes_said
    import numpy
    if name == 'string':
        return numpy.dtype(object)
    try:
        return numpy.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        bits = 8 * lib.ht_dtype_bytes(code_of(name))
        if not _no_ml_dtypes_said:
            note(f'{name} arrays are uint{bits}, since ml_dtypes is not installed')
            _no_ml_dtypes_said = True
        return numpy.dtype(f'uint{bits}')


# The struct in a DLPack capsule.
class _DLTensor(ctypes.Structure):
    if TYPE_CHECKING:
        data: Any
        device_type: Any
        ndim: Any
        code: Any
        bits: Any
        lanes: Any
        shape: Any
        strides: Any
        byte_offset: Any
    _fields_ = [
        ('data', ctypes.c_void_p), ('device_type', ctypes.c_int32), ('device_id', ctypes.c_int32),
        ('ndim', ctypes.c_int32), ('code', ctypes.c_uint8), ('bits', ctypes.c_uint8), ('lanes', ctypes.c_uint16),
        ('shape', ctypes.POINTER(ctypes.c_int64)), ('strides', ctypes.POINTER(ctypes.c_int64)),
        ('byte_offset', ctypes.c_uint64),
    ]


_DL_CPU = 1
_DL_KINDS = {0: 'int', 1: 'uint', 2: 'float', 4: 'bfloat', 5: 'complex', 6: 'bool'}


class Dense:
    """The memory of an array: `address`, `bytes`, `dtype`, `shape`, whether it is `writable`, and `keeps`, the object
    that owns it."""
    __slots__ = ('address', 'bytes', 'dtype', 'shape', 'writable', 'keeps', 'copied')

    def __init__(self, address: int, dtype: str, shape: tuple[int, ...], writable: bool, keeps: object, copied: bool):
        self.address, self.dtype, self.shape = address, dtype, shape
        self.writable, self.keeps, self.copied = writable, keeps, copied
        self.bytes = lib.ht_dtype_bytes(code_of(dtype))
        for n in shape:
            self.bytes *= n


def _of_dlpack(what: str, x: Any) -> Dense | None:
    """A view of the memory that `x` exports by DLPack; None if it is not dense or has an unknown type."""
    capsule = x.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    t = _DLTensor.from_address(pointer(capsule, b'dltensor'))
    if t.device_type != _DL_CPU:
        raise InputError(f'{what}: the array is not in the memory of the CPU (DLPack device type {t.device_type})')
    shape = tuple(t.shape[i] for i in range(t.ndim))
    bits = '' if t.code == 6 else str(t.bits)
    name = f'{_DL_KINDS.get(t.code, "?")}{bits}'
    if t.lanes != 1 or name not in _BY_NAME:
        raise InputError(f'{what}: DLPack type {t.code} of {t.bits} bits and {t.lanes} lanes has no dtype here')
    step = 1
    for i in reversed(range(t.ndim)):
        if t.strides and shape[i] > 1 and t.strides[i] != step:
            return None
        step *= shape[i]
    return Dense((t.data or 0) + t.byte_offset, name, shape, True, (x, capsule), False)


def _of_numpy(a: Any, copied: bool) -> Dense:
    if not (a.flags.c_contiguous and a.flags.aligned):
        a, copied = a.copy(), True
    return Dense(a.ctypes.data, a.dtype.name, a.shape, a.flags.writeable, a, copied)


def _encoded(what: str, x: Any) -> bytes:
    if isinstance(x, bytes):
        return x
    if isinstance(x, str):
        return x.encode()
    raise InputError(f'{what} takes strings, not {type(x).__name__}')


def _of_strings(what: str, x: Any) -> Dense:
    """Copies an array of bytes or str, the latter as UTF-8, to the form of struct ht_array."""
    import numpy
    # For other objects than arrays NumPy would choose a dtype that drops trailing zeros.
    a = x if isinstance(x, numpy.ndarray) else numpy.asarray(x, dtype=object)
    try:
        texts = [_encoded(what, text) for text in a.ravel().tolist()]
    except UnicodeEncodeError as error:
        raise InputError(f'{what}: {error}') from None
    offsets: Any = numpy.zeros(len(texts) + 1, numpy.uint64)
    numpy.cumsum([len(text) for text in texts], dtype=numpy.uint64, out=offsets[1:])
    block = numpy.frombuffer(offsets.tobytes() + b''.join(texts), numpy.uint8)
    d = Dense(block.ctypes.data, 'string', a.shape, False, block, True)
    d.bytes = block.nbytes
    return d


def fill_strings(to: Any, address: int, size: int) -> None:
    """Sets the elements of an array of objects to the strings, as bytes, of a block in the form of struct ht_array."""
    block = ctypes.string_at(address, size)
    offsets = memoryview(block)[:8 * (to.size + 1)].cast('Q')
    begin = 8 * (to.size + 1)
    to.flat = [block[begin + offsets[i]:begin + offsets[i + 1]] for i in range(to.size)]


def dense(what: str, x: Any, wanted: Tensor) -> Dense:
    """The memory of an array-like: NumPy arrays in place, other arrays by DLPack, everything else as NumPy converts it.
    Strings are copied."""
    import numpy
    if wanted.dtype == 'string':
        return _of_strings(what, x)
    if not isinstance(x, (numpy.ndarray, numpy.generic)) and hasattr(x, '__dlpack__'):
        seen = _of_dlpack(what, x)
        if seen:
            return seen
        x = x.contiguous() if hasattr(x, 'contiguous') else numpy.from_dlpack(x)
        return dense(what, x, wanted)
    if isinstance(x, numpy.ndarray):
        if not x.dtype.isnative:
            raise InputError(f'{what}: the bytes of {x.dtype} stand in the other order than this machine\'s')
        return _of_numpy(x, False)
    if hasattr(x, 'dtype') and hasattr(x, '__array__'):
        return _of_numpy(numpy.asarray(x), True)
    try:  # lists and numbers have no dtype of their own
        return _of_numpy(numpy.asarray(x, dtype=numpy_dtype(wanted.dtype)), True)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f'{what} takes {wanted.dtype}: {error}') from None


def same_type(got: str, wanted: str) -> bool:
    return got == wanted or (wanted == 'bfloat16' and got == 'uint16')


def checked(what: str, d: Dense, wanted: Tensor) -> Dense:
    """Refuses memory that does not have the dtype and the shape, in which None means any size."""
    fits = d.shape == wanted.shape or (
        wanted.shape is not None and len(d.shape) == len(wanted.shape) and
        all(n is None or n == m for n, m in zip(wanted.shape, d.shape)))
    if not same_type(d.dtype, wanted.dtype) or not fits:
        raise InputError(f'{what} is {spelled(wanted.dtype, wanted.shape)}, not {spelled(d.dtype, d.shape)}')
    return d


def widen(x: Any) -> Any:
    """A float32 array with the numbers of a float16, bfloat16 or uint16 array; uint16 stands for the bits of bfloat16.

    >>> import halftone as ht, numpy as np
    >>> ht.widen(np.array([0x3f80, 0xc000], np.uint16))
    array([ 1., -2.], dtype=float32)
    """
    import numpy
    x = numpy.array(x, order='C')
    dtype = 'bfloat16' if x.dtype == numpy.uint16 else x.dtype.name
    out = numpy.empty(x.shape, numpy.float32)
    _convert(lib.ht_widen, x.ctypes.data, code_of(dtype), out.ctypes.data, x.size, dtype)
    return out


def narrow(x: Any, dtype: str) -> Any:
    """Numbers as "float16" or "bfloat16", rounded as programs round.  A bfloat16 array has the dtype of outputs in
    bfloat16.

    >>> import halftone as ht
    >>> ht.narrow([1 / 3], "float16")
    array([0.3333], dtype=float16)
    """
    import numpy
    x = numpy.array(x, numpy.float32, order='C')
    out = numpy.empty(x.shape, numpy_dtype(dtype))
    _convert(lib.ht_narrow, x.ctypes.data, code_of(dtype), out.ctypes.data, x.size, dtype)
    return out


def _convert(function: Any, source: int, code: int, to: int, n: int, dtype: str) -> None:
    if function(source, code, to, n):
        raise UsageError(f'{dtype} is neither float16 nor bfloat16')
