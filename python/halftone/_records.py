"""Files of records: reads examples, and writes scalars for TensorBoard."""
from __future__ import annotations

import ctypes
from typing import NamedTuple

from . import _api
from ._arrays import code_of, numpy_dtype
from ._library import Owner, call, created, lib, long_call, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


class Feature(NamedTuple):
    """A feature of a record."""
    kind: str  # 'bytes', 'float' or 'int64'
    elements: int  # floats, integers, or strings
    bytes: int  # of all strings together


class Records(Owner):
    """A mapped TFRecord file of tf.train.Example; one thread at a time may use it."""
    __slots__ = ()

    def __init__(self, path: Any):
        self._held = created(lib.ht_records_free, lib.ht_records_open, raw(path), long=True)

    def __len__(self) -> int:
        return int(lib.ht_records_count(self._handle))

    def feature(self, record: int, name: str) -> Feature:
        """The description of the feature with this name in a record."""
        made = _api.ht_feature_init()
        call(lib.ht_records_feature, self._handle, record, raw(name), late=(ctypes.byref(made),))
        return Feature(('bytes', 'float', 'int64')[made.kind], made.elements, made.bytes)

    def read(self, record: int, name: str, dtype: str, shape: Iterable[int]) -> Any:
        """A feature as an array: floats as float32, integers as any integer type or bool, a single string as the bytes
        of the elements."""
        import numpy
        array = numpy.empty(tuple(shape), numpy_dtype(dtype))
        call(lib.ht_records_read, self._handle, record, raw(name), code_of(dtype), array.size, array.ctypes.data)
        return array


def _close(handle: Any) -> None:
    """Closes a file that the caller did not close; a failed write is not reported."""
    lib.ht_event_file_close(handle, None)


class EventFile(Owner):
    """A new file in a folder, from which TensorBoard shows scalars by step; one thread at a time may use it.

    `first` above 0 begins a run that continues after that many steps.
    """
    __slots__ = ()

    def __init__(self, folder: Any, first: int = 0):
        self._held = created(_close, lib.ht_event_file_open, raw(folder), first)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Adds values by tag.  They reach the file within two seconds of the next call, or when it is closed."""
        made = (_api.ht_event_scalar * len(values))()
        for to, (tag, value) in zip(made, values.items()):
            to.tag, to.value = raw(tag), value
        lib.ht_event_file_scalars(self._handle, step, made, len(made))

    def close(self) -> None:
        """Raises SystemFailure if the file could not be written."""
        held, self._held = self._held, None
        if held is None:
            return
        pointer, held._as_parameter_ = held._as_parameter_, ctypes.c_void_p()
        long_call(lib.ht_event_file_close, pointer)
