"""The substitute for halftone._call on interpreters other than CPython."""
from __future__ import annotations

from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NoCall:
    """A Call that never runs anything itself; it is only a lock for one thread at a time."""
    __slots__ = ('acquire', 'release')

    def __init__(self, *_: Any):
        lock = allocate_lock()
        self.acquire, self.release = lock.acquire, lock.release

    def run(self, *_: Any) -> None:
        pass

    again = slow = close = run
