"""The shared library: finds it, calls it, and passes its messages on."""
from __future__ import annotations

import ctypes
import os
import sys

from . import _api
from ._errors import BY_CODE, HalftoneError, HalftoneWarning, Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
SONAME = f'libhalftone.so.{_api.HALFTONE_ABI}'
LOGGER = 'halftone'
SEVERITIES = ('error', 'warning', 'note')


def _refuse_subinterpreters() -> None:
    state = ctypes.pythonapi.PyInterpreterState_Get
    state.restype, state.argtypes = ctypes.c_void_p, []
    number = ctypes.pythonapi.PyInterpreterState_GetID
    number.restype, number.argtypes = ctypes.c_int64, [ctypes.c_void_p]
    if number(state()) != 0:
        raise ImportError('halftone works in the main interpreter only, not in sub-interpreters')


def _load() -> ctypes.CDLL:
    """The path of the library: $HALFTONE_LIBRARY, or the library in the package, or the system's."""
    inside = os.path.join(HERE, 'lib', SONAME)
    path = os.environ.get('HALFTONE_LIBRARY') or (inside if os.path.exists(inside) else SONAME)
    try:
        library = ctypes.CDLL(path)
        library.ht_abi.argtypes = []
        library.ht_version.restype = ctypes.c_char_p
        abi, version = library.ht_abi(), library.ht_version().decode()
    except (OSError, AttributeError) as error:
        raise ImportError(f'halftone cannot load its library {path}: {error}') from None
    if (abi, version) != (_api.HALFTONE_ABI, _api.HALFTONE_VERSION):
        raise ImportError(f'halftone {_api.HALFTONE_VERSION} (ABI {_api.HALFTONE_ABI}) cannot use the library {path}, '
                          f'which is version {version} (ABI {abi})')
    return library


def _declare(library: ctypes.CDLL) -> Any:
    for name, (result, arguments) in _api.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_refuse_subinterpreters()
lib: Any = _declare(_load())
lib.ht_guard_files()


def text(s: bytes | None) -> str | None:
    """A C string of the library as str; NULL is None.  Bytes that are not UTF-8 survive a round trip through raw()."""
    return None if s is None else s.decode('utf-8', 'surrogateescape')


def raw(s: object) -> bytes:
    """Text or a path as bytes for the library."""
    if isinstance(s, (str, bytes, os.PathLike)):
        out = os.fsencode(s) if not isinstance(s, str) else s.encode('utf-8', 'surrogateescape')
        if b'\0' in out:
            raise ValueError(f'{s!r} has a zero byte')
        return out
    raise TypeError(f'expected text or a path, not {type(s).__name__}')


def raw_or_none(s: object) -> bytes | None:
    return None if s is None else raw(s)


def names(of: str | Iterable[str]) -> tuple[Any, int]:
    """An array of C strings and its length, from one name or several."""
    items = [raw(n) for n in ([of] if isinstance(of, str) else of)]
    return (ctypes.c_char_p * len(items))(*items), len(items)


class Handle:
    """Owns an object of the library and frees it when nothing refers to it any more.

    `keeps` are the objects that must outlive it.  A call that runs in another thread refers to the handle, so close()
    never frees an object that a call uses.
    """
    __slots__ = ('_as_parameter_', '_free', 'keeps')

    def __init__(self, free: Callable[..., None], *keeps: object):
        self._as_parameter_, self._free, self.keeps = ctypes.c_void_p(), free, keeps

    def __del__(self) -> None:
        self._free(self._as_parameter_)


class Out:
    """The argument with which a call returns the object of a handle."""
    __slots__ = ('_as_parameter_', 'handle')

    def __init__(self, handle: Handle):
        self._as_parameter_, self.handle = ctypes.byref(handle._as_parameter_), handle


class Bytes(_api.ht_bytes):
    """Bytes that a call returns, freed with the object."""
    __slots__ = ()

    def __bytes__(self) -> bytes:
        return ctypes.string_at(ctypes.c_void_p.from_buffer(self).value or 0, self.n) if self.n else b''

    def __del__(self) -> None:
        lib.ht_bytes_free(self)


class Owner:
    """An object that holds a Handle until it is closed, by close(), `with`, or the garbage collector."""
    __slots__ = ('_held', '__weakref__')
    _held: Handle | None

    @property
    def _handle(self) -> Handle:
        if self._held is None:
            raise ValueError(f'this {type(self).__name__} is closed')
        return self._held

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._held is None

    def close(self) -> None:
        """Releases the object.  Calls in progress in other threads finish normally."""
        self._held = None

    def _alone(self, use: Callable[[], Any]) -> Any:
        """As use(), for an object that only one thread at a time may use: if Ctrl-C ends the call, the object is
        closed, since the library still works with it."""
        try:
            return use()
        except KeyboardInterrupt:
            self.close()
            raise

    def __enter__(self) -> Any:
        self._handle
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _message(diags: int, i: int) -> Message:
    m, line = _api.ht_message(), Bytes()
    lib.ht_diags_get(diags, i, m)
    printed = bytes(line) if lib.ht_diags_line(diags, i, line) == _api.HT_OK else m.text
    return Message(
        SEVERITIES[m.severity], text(m.text) or '', text(printed) or '', text(m.path), m.line or None, m.column or None,
        m.offset if m.offset >= 0 else None, text(m.node), text(m.op))


def _depth() -> int:
    """The number of frames from the caller to the first one outside of this package, as warnings.warn() counts."""
    level, frame = 1, sys._getframe(1)
    while frame and os.path.dirname(frame.f_code.co_filename) == HERE and frame.f_back:
        level, frame = level + 1, frame.f_back
    return level


def _say(messages: list[Message]) -> None:
    for m in messages:
        if m.severity == 'warning':
            import warnings
            warnings.warn(str(m), HalftoneWarning, stacklevel=_depth())
        elif m.severity == 'note':
            import logging
            logging.getLogger(LOGGER).info('%s', m)


def note(line: str) -> None:
    """A note of the package's own."""
    _say([Message('note', line, line)])


def failure(status: int, messages: list[Message]) -> HalftoneError:
    errors = [m for m in messages if m.severity == 'error']
    said = '\n'.join(map(str, errors)) or text(lib.ht_status_text(status)) or ''
    return BY_CODE.get(status, HalftoneError)(said, errors)


def heed(status: int, diags: int) -> None:
    """Passes the library's messages on: raises, warns, logs."""
    messages = [_message(diags, i) for i in range(lib.ht_diags_count(diags))]
    dropped = lib.ht_diags_dropped(diags)
    if dropped:
        messages.append(Message('note', '', f'{dropped} more messages'))
    try:
        _say([m for m in messages if m.severity != 'error'])
    finally:
        if status != _api.HT_OK:  # no variable: an exception to which its own frames refer would keep all their objects alive
            raise failure(status, messages)


class Diags:
    """Diagnostics of one call."""
    __slots__ = ('pointer',)

    def __init__(self) -> None:
        self.pointer = lib.ht_diags_new()
        if not self.pointer:
            raise MemoryError

    def __del__(self) -> None:
        lib.ht_diags_free(self.pointer)


def call(function: Callable[..., int], *arguments: object, late: tuple[object, ...] = ()) -> None:
    """Calls function(*arguments, diags, *late), raises its failure and passes its warnings on."""
    diags = Diags()
    heed(function(*arguments, diags.pointer, *late), diags.pointer)


def long_call(function: Callable[..., int], *arguments: object, late: tuple[object, ...] = (),
              waiting: Callable[[], None] | None = None) -> None:
    """As call(), but Ctrl-C in the main thread raises KeyboardInterrupt at once; the main thread calls waiting() from
    time to time.

    The call continues in a thread, which keeps all objects that it uses, and its result is dropped.  The interpreter
    waits for it before it ends.
    """
    import threading
    if threading.current_thread() is not threading.main_thread():
        return call(function, *arguments, late=late)
    diags = Diags()
    status: list[int] = []
    done = threading.Lock()
    done.acquire()

    def work() -> None:
        try:
            status.append(function(*arguments, diags.pointer, *late))
        finally:
            done.release()

    thread = threading.Thread(target=work, name='halftone')
    thread.start()
    while not done.acquire(timeout=0.1):  # a signal just before a wait does not end that wait
        if waiting:
            waiting()
    thread.join()
    heed(status[0], diags.pointer)


def text_of(function: Callable[..., int], *arguments: object, long: bool = False) -> bytes:
    """The bytes that function(*arguments, diags, &bytes) returns."""
    out = Bytes()
    (long_call if long else call)(function, *arguments, late=(out,))
    return bytes(out)


def created(free: Callable[..., None], function: Callable[..., int], *arguments: object, long: bool = False,
            keeps: tuple[object, ...] = ()) -> Handle:
    """The object that function(*arguments, diags, &object) makes, which `free` frees."""
    handle = Handle(free, *keeps)
    (long_call if long else call)(function, *arguments, late=(Out(handle),))
    return handle


def json_of(function: Callable[..., int], *arguments: object, long: bool = False) -> Any:
    import json
    return json.loads(text_of(function, *arguments, long=long))


def filled(options: Any, members: Mapping[str, object]) -> Any:
    """A struct of options with the members that are not None.  Values are checked, since ctypes would take an integer
    for an address and truncate one that is too large."""
    kinds = dict(options._fields_)
    for name, value in members.items():
        if value is None:
            continue
        if kinds[name] is ctypes.c_char_p:
            setattr(options, name, raw(value))
        else:
            setattr(options, name, value)
            if getattr(options, name) != value:
                raise BY_CODE[_api.HT_E_USAGE](f'{name}: {value} is out of range')
    return options


def int64(what: str, value: object) -> int:
    """Checks that `value` is an integer that fits the library's type, and returns it."""
    if isinstance(value, bool) or not hasattr(value, '__index__'):
        raise TypeError(f'{what}: expected an integer, not {type(value).__name__}')
    n: int = value.__index__()
    if not -1 << 63 <= n < 1 << 63:
        raise BY_CODE[_api.HT_E_USAGE](f'{what}: {n} is out of range')
    return n
