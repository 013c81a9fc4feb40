"""Results as one HTML page."""
from __future__ import annotations

from . import _api
from ._library import lib, raw, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any


def page_of(sources: Sequence[tuple[Any, bytes | None]]) -> str:
    """Makes a page of pairs of name and JSON; JSON None: the name is a file."""
    made = (_api.ht_page_source * len(sources))()
    for to, (path, text) in zip(made, sources):
        to.path, to.text, to.bytes = raw(path), text, len(text or b'')
    return text_of(lib.ht_page_print, made, len(made), long=True).decode()


def report_page(results: Iterable[Any]) -> str:
    """One HTML page with results, which needs no other file, no network and no script (docs/report.md).

    `results` are those of compare() and Model.explain(), or paths of the JSON files that these save and the tool
    writes (`--format json`); each result has its own sections.

    >>> import halftone as ht
    >>> page = ht.report_page([ht.load(GRAPH).explain("force_fp16")])
    >>> "<h3>Decisions by op and rule</h3>" in page
    True
    """
    from ._comparison import Comparison
    from ._report import Report
    sources: list[tuple[Any, bytes | None]] = []
    for i, r in enumerate(results):
        if isinstance(r, Comparison):
            sources.append((f'<result {i}>', r.text('json').encode()))
        elif isinstance(r, Report):
            sources.append((f'<result {i}>', r._printed(_api.HT_FORMAT_JSON)))
        else:
            sources.append((r, None))
    return page_of(sources)
