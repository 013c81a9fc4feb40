"""Shows the progress of a compilation, and ends it on request."""
from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from time import monotonic

from . import _api
from ._library import LOGGER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_FIELDS: Any = _api.ht_compile_options._fields_
_FUNCTION = dict(_FIELDS)['progress']


class _Terminal:
    """Shows progress in one line of a terminal, which is cleared in the end."""
    every = 0.1

    def put(self, line: str) -> None:
        sys.stderr.write(f'\r\033[K{line}')
        sys.stderr.flush()

    def end(self, seconds: float) -> None:
        self.put('')


class _Notebook:
    """Shows progress in the output of a notebook's cell."""
    every = 0.5

    def __init__(self) -> None:
        self._handle: Any = None

    def put(self, line: str) -> None:
        from IPython.display import display
        data = {'text/plain': line}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def end(self, seconds: float) -> None:
        self.put(f'compiled in {seconds:.1f} s')


class _Log:
    """Logs a line from time to time."""
    every = 10.0

    def put(self, line: str) -> None:
        import logging
        logging.getLogger(LOGGER).info('%s', line)

    def end(self, seconds: float) -> None:
        pass


def _in_notebook() -> bool:
    shell = sys.modules.get('IPython') and sys.modules['IPython'].get_ipython()
    return hasattr(shell, 'kernel')


def _place() -> _Terminal | _Notebook | _Log:
    import os
    if _in_notebook():
        return _Notebook()
    terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get('TERM') != 'dumb'
    return _Terminal() if terminal else _Log()


class Watch:
    """Watches one compilation; `show` is called in the main thread meanwhile."""

    def __init__(self, progress: Callable[[str, int, int], None] | bool | None):
        self._told: Callable[[str, int, int], None] | None = progress if callable(progress) else None
        self._quiet = progress is False or callable(progress)
        self._place: Any = _Terminal() if progress is True and not _in_notebook() else None
        self._state: tuple[str, int, int] | None = None
        self._begin = monotonic()
        self._last: float | None = None
        self._cancel = ctypes.c_int32(0)
        self._error: BaseException | None = None
        self._function = _FUNCTION(self._tell)

    def _tell(self, _: Any, phase: bytes, done: int, total: int) -> None:
        self._state = phase.decode(), done, total
        if self._told and not self._error:
            try:
                self._told(*self._state)
            except BaseException as error:
                self._error = error
                self._cancel.value = 1

    def show(self) -> None:
        """Shows the last report, from the second second on."""
        now = monotonic()
        if self._quiet or not self._state or now - self._begin < 1:
            return
        if self._place is None:
            self._place = _place()
        if self._last is not None and now - self._last < self._place.every:
            return
        self._last = now
        phase, done, total = self._state
        self._place.put(f'compiling: {phase}' + (f', {done} of {total} kernels' if total > 1 else ''))

    @contextmanager
    def of(self, options: Any) -> Iterator[None]:
        """Watches the compilation with these options; an exception in the caller's thread ends it."""
        options.progress, options.cancel = self._function, ctypes.pointer(self._cancel)
        try:
            yield
        except BaseException:
            self._cancel.value = 1
            if self._error:
                raise self._error from None
            raise
        finally:
            if self._last is not None:
                self._place.end(monotonic() - self._begin)
