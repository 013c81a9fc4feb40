"""The compile cache, which keeps compiled code by its content.

The functions of this module use the user's cache, in the place where the command line tool has it (docs/cache.md).  A
Cache is one in any directory, or on a server.

>>> import halftone as ht
>>> sorted(ht.cache.stats())[:3]
['bytes', 'damaged', 'dir']
"""
from __future__ import annotations

import ctypes
import os

from . import _api
from ._errors import UsageError
from ._library import Owner, call, created, filled, int64, json_of, lib, long_call, raw, text, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ._model import Model
    from ._policy import Policy

MODES = {'off': _api.HT_CACHE_OFF, 'ro': _api.HT_CACHE_RO, 'rw': _api.HT_CACHE_RW}
__all__ = ['Cache', 'Cleaned', 'stats', 'reset', 'verify', 'gc']


class Cleaned:
    """The result of a clean-up: `entries`, `removed`, `temporary`, `foreign` are counts of entries and files that are
    left or removed, `bytes` and `removed_bytes` sizes."""

    def __init__(self, c: Any):
        self.entries, self.removed, self.temporary, self.foreign = c.entries, c.removed, c.temporary, c.foreign
        self.bytes, self.removed_bytes = c.bytes, c.removed_bytes

    def __repr__(self) -> str:
        return f'Cleaned({", ".join(f"{k}={v}" for k, v in vars(self).items())})'


class Cache(Owner):
    """A compile cache; one thread at a time may use it.

    `dir` is by default $HALFTONE_CACHE_DIR, $XDG_CACHE_HOME/halftone or ~/.cache/halftone; `mode` "ro" only reads,
    "off" uses only the remote cache; `max_bytes` 0 means 5 GiB, but at most a tenth of the file system.  The other
    arguments are options of the tool, which docs/cache.md explains.  Raises SystemFailure if the directory belongs to
    another user, UsageError if no directory is known.  A person who can write to the directory can put code into
    programs.
    """
    __slots__ = ('_busy',)

    def __init__(self, dir: Any = None, mode: str = 'rw', *, max_bytes: int = 0, sync: bool = False,
                 shared: bool = False, must_hit: bool = False, kernels: bool = True, remote: str | None = None,
                 remote_write: bool = False, remote_token_file: Any = None, remote_netrc: Any = None,
                 remote_ca_file: Any = None, graph_key: str | None = None):
        if mode not in MODES:
            raise UsageError(f'there is no cache mode {mode!r}; there are {", ".join(MODES)}')
        settings = filled(_api.ht_cache_settings_init(), dict(
            dir=dir, mode=MODES[mode], max_bytes=max_bytes, sync=int(sync), shared=int(shared),
            must_hit=int(must_hit), no_kernels=int(not kernels), remote=remote, remote_write=int(remote_write),
            remote_token_file=remote_token_file, remote_netrc=remote_netrc, remote_ca_file=remote_ca_file,
            graph_key=graph_key))
        self._held = created(_close, lib.ht_cache_open, ctypes.byref(settings))
        self._busy = False

    @property
    def dir(self) -> str:
        """Its directory; "" is none."""
        return text(lib.ht_cache_dir(self._handle)) or ''

    def stats(self) -> dict[str, Any]:
        """Counters of all processes that have ended, and the present contents."""
        found: dict[str, Any] = self._alone(lambda: json_of(lib.ht_cache_stats, self._handle, _api.HT_FORMAT_JSON, long=True))
        return found

    def reset(self) -> None:
        """Sets the counters of stats() to 0."""
        call(lib.ht_cache_stats_reset, self._handle)

    def _cleaned(self, function: Any, *arguments: object) -> Cleaned:
        out = _api.ht_cache_cleaned()
        self._alone(lambda: long_call(function, self._handle, *arguments, late=(ctypes.byref(out),)))
        return Cleaned(out)

    def verify(self) -> Cleaned:
        """Reads all entries and removes damaged ones; raises Verdict if there is one."""
        return self._cleaned(lib.ht_cache_verify)

    def gc(self, max_bytes: int) -> Cleaned:
        """Evicts the least recently used entries until so many bytes are left."""
        return self._cleaned(lib.ht_cache_gc, _natural(max_bytes))

    def age(self, above_bytes: int, to_bytes: int, recent_seconds: int) -> Cleaned:
        """As gc() to `to_bytes`, if the cache has more than `above_bytes`; entries used in the last `recent_seconds`
        stay."""
        return self._cleaned(_aged, _natural(above_bytes), _natural(to_bytes), int64('seconds', recent_seconds))

    def export(self, path: Any) -> Cleaned:
        """Writes all entries to one file."""
        return self._cleaned(lib.ht_cache_export, raw(path))

    def import_(self, path: Any) -> Cleaned:
        """Adds the entries of a file that export() wrote, after checking each."""
        return self._cleaned(lib.ht_cache_import, raw(path))

    def key(self, model: Model, policy: Policy | str | None = None, target: str | None = None, *,
            options: Mapping[str, object] | None = None, kernels: bool = False) -> list[str]:
        """The names of the entries that a compilation looks for: that of the graph, or with `kernels` those of its
        kernels."""
        from ._model import Struct, compile_options
        made, keep = compile_options(policy, options, target)
        keys: bytes = self._alone(lambda: text_of(
            lib.ht_cache_key_of, self._handle, model._handle, Struct(made, keep), int(kernels), long=True))
        return keys.decode().split()

    def why_miss(self, model: Model, policy: Policy | str | None = None, target: str | None = None, *,
                 options: Mapping[str, object] | None = None) -> str:
        """Raises Verdict with the reason if a compilation would miss."""
        from ._errors import Verdict
        from ._library import Bytes
        from ._model import Struct, compile_options
        made, keep = compile_options(policy, options, target)
        out = Bytes()
        try:
            self._alone(lambda: long_call(lib.ht_cache_why_miss, self._handle, model._handle, Struct(made, keep),
                                          _api.HT_FORMAT_TEXT, late=(out,)))
        except Verdict as verdict:
            raise Verdict(bytes(out).decode().rstrip() or str(verdict), verdict.messages) from None
        return bytes(out).decode()

    def pin(self, digits: str, pinned: bool = True) -> None:
        """Keeps an entry, given by enough digits to identify it, from removal by gc(); or ends that."""
        call(lib.ht_cache_pin, self._handle, raw(digits), int(pinned))

    def path(self, digits: str) -> str:
        """The path of an entry's file."""
        return text_of(lib.ht_cache_entry_path, self._handle, raw(digits)).decode().rstrip('\n')

    def __repr__(self) -> str:
        return '<Cache, closed>' if self.closed else f'<Cache {self.dir!r}>'


def _close(pointer: Any) -> None:
    lib.ht_cache_close(pointer, None)


def _aged(cache: Any, above: int, to: int, recent: int, diags: Any, out: Any) -> int:
    status: int = lib.ht_cache_age(cache, above, to, recent, diags, out)
    return status


def _natural(n: int) -> int:
    if int64('bytes', n) < 0:
        raise UsageError(f'{n} bytes')
    return n


class opened:
    """`with opened(cache) as c:` gives the cache that compile() uses for this argument: the caller's, or the user's for
    one compilation; None: no cache."""
    __slots__ = ('_cache',)

    def __init__(self, cache: Cache | str | None):
        self._cache: Cache | None
        if isinstance(cache, Cache):
            self._cache = cache
        else:
            mode = cache or os.environ.get('HALFTONE_CACHE_MODE') or 'rw'
            self._cache = None if mode == 'off' else Cache(mode=mode)

    def __enter__(self) -> Cache | None:
        if self._cache is not None:
            if self._cache._busy:
                raise UsageError('a cache is used by one thread at a time')
            self._cache._busy = True
        return self._cache

    def __exit__(self, kind: object, *_: object) -> None:
        if self._cache is not None:
            self._cache._busy = False
            if kind is KeyboardInterrupt:  # the library still works with it
                self._cache.close()


def stats() -> dict[str, Any]:
    """Cache.stats() of the user's cache."""
    return Cache().stats()


def reset() -> None:
    """Cache.reset() of the user's cache."""
    Cache().reset()


def verify() -> Cleaned:
    """Cache.verify() of the user's cache."""
    return Cache().verify()


def gc(max_bytes: int) -> Cleaned:
    """Cache.gc() of the user's cache."""
    return Cache().gc(max_bytes)
