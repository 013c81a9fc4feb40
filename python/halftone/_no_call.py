"""What stands for halftone._call, which speeds runs up, where the interpreter is not CPython."""
from __future__ import annotations

from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NoCall:
    """Runs nothing in its own way, and is taken by one thread at a time."""
    __slots__ = ('acquire', 'release')

    def __init__(self, *_: Any):
        lock = allocate_lock()
        self.acquire, self.release = lock.acquire, lock.release

    def run(self, *_: Any) -> None:
        pass

    again = slow = close = run
