"""Searches for the fewest nodes that must stay in float32."""
from __future__ import annotations

import ctypes

from . import _api
from ._comparison import comparison_options, run_samples, tensors
from ._errors import UsageError
from ._library import Bytes, Owner, call, created, filled, lib, long_call, raw, raw_or_none, text_of
from ._model import Model, Struct, load
from ._oracle import live
from ._policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ._model import Shapes


class Search(Owner):
    """The result of search(): a policy and its evidence (docs/search.md)."""
    __slots__ = ('_dict',)

    def __init__(self, handle: Any):
        self._held = handle
        self._dict: dict[str, Any] | None = None

    def _printed(self) -> bytes:
        return text_of(lib.ht_search_print, self._handle, _api.HT_SEARCH_POLICY, None, long=True)

    @property
    def policy(self) -> Policy:
        """The policy, for compile() and all other functions that take one."""
        return Policy.of_report('search', self._printed())

    def to_dict(self) -> dict[str, Any]:
        """The decision report, with the evidence in its member "search"."""
        if self._dict is None:
            import json
            self._dict = json.loads(self._printed())
        assert self._dict is not None
        return self._dict

    @property
    def float32(self) -> list[str]:
        """The nodes that must stay in float32."""
        return [n['node'] for n in self.to_dict()['search']['float32']]

    @property
    def slower(self) -> list[str]:
        """The other nodes that the policy has in float32, because the prices of the target say that low types are slower there."""
        return list(self.to_dict()['search']['slower'])

    def without(self, node: str) -> Policy:
        """The policy in which only the other nodes of `float32` are in float32.  It exceeds a tolerance."""
        if node not in self.float32:
            raise UsageError(f'{node!r} is none of the nodes that stay in float32')
        name, text = ctypes.c_char_p(), Bytes()
        long_call(lib.ht_search_member, self._handle, self.float32.index(node), late=(name, text))
        return Policy.of_report('search', bytes(text))

    def save(self, path: Any) -> None:
        """Writes the policy to a file.  compile() and every verb take a file as a policy if its name ends in ".json"."""
        data = self._printed()
        call(lib.ht_file_write, raw(path), data, len(data))

    def text(self) -> str:
        """The result as `halftone search` prints it."""
        return text_of(lib.ht_search_print, self._handle, _api.HT_SEARCH_TEXT, None).decode()

    def __repr__(self) -> str:
        if self.closed:
            return '<Search, closed>'
        return f'<Search {len(self.float32)} of {self.to_dict()["search"]["units"]} nodes in float32>'


def search(model: Model | Any, samples: Any, *, tolerances: Iterable[str] = (), types: Iterable[str] = ('f16', 'bf16'),
           labels: Iterable[Any] | None = None, metric: str | None = None, reference: Any = None, rule: str | None = None,
           prefer: str | None = None, journal: Any = None, resume: bool = False, target: str | None = None, threads: int = 1,
           inputs: Shapes | None = None, batch: int | None = None) -> Search:
    """Finds the fewest nodes that must stay in float32 so that the model keeps the tolerances (docs/search.md).

    Samples, labels, reference, metric and tolerances are given as to compare().  The search iterates samples, labels and
    reference once for each trial, and keeps those that can be iterated only once in a list.  `journal` is the path of a file to
    which each trial is appended; with `resume`, trials that the file has are not run again.  The policy has
    also those nodes in float32 that are slower in a low type, unless `prefer` is "fewest".  Raises Verdict if not even
    float32 keeps the tolerances.

    >>> import halftone as ht
    >>> ht.search(GRAPH, [[[1, 2, 3, 4]]], tolerances=["rel<=0.1"])
    <Search 0 of 2 nodes in float32>
    """
    opened = model if isinstance(model, Model) else load(model)
    handle = opened._sized(inputs, batch)._handle
    comparing, referred = comparison_options(metric, reference, tolerances, target, threads)
    made = filled(_api.ht_search_options_init(), dict(types=','.join(types), rule=rule, prefer=prefer, resume=int(resume)))
    path = raw_or_none(journal)
    made.compare, made.journal = ctypes.pointer(comparing), path
    found = Search(created(
        lib.ht_search_free, lib.ht_search_new, handle, Struct(made, comparing, *referred, path), long=True,
        keeps=(handle, comparing, *referred)))
    samples, reference, labels = (list(s) if s is not None and iter(s) is s else s for s in (samples, reference, labels))
    with live(reference, opened, *tensors(lib.ht_search_program(found._handle))) as referee:
        _run(found, samples, referee, labels)
    call(lib.ht_search_verdict, found._handle)
    return found


def _run(found: Search, samples: Any, reference: Any, labels: Any) -> None:
    more = ctypes.c_int32()
    program = lib.ht_search_program(found._handle)
    while True:
        long_call(lib.ht_search_next, found._handle, late=(more,))
        if not more.value:
            return
        run_samples(lib.ht_search_sample, found._handle, program, samples, reference, labels)
