"""Reports: the decisions of a policy, with reasons."""
from __future__ import annotations

from . import _api
from ._arrays import code_of
from ._library import Owner, call, created, json_of, lib, long_call, raw, raw_or_none, text_of
from ._page import page_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COLUMNS = ('node', 'op', 'attribute', 'from', 'to', 'rule')


class Table(list['dict[str, Any]']):
    """Rows as dicts, printed in columns if pandas is not installed."""

    def __repr__(self) -> str:
        cells = [list(COLUMNS)] + [[str(row.get(c, '')) for c in COLUMNS] for row in self]
        widths = [max(map(len, column)) for column in zip(*cells)]
        return '\n'.join('  '.join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells)


class Report(Owner):
    """The decisions of a policy for a model; one thread at a time may use it.  docs/decisions.md describes its members.

    >>> import halftone as ht
    >>> r = ht.load(GRAPH).explain("force_fp16")
    >>> r.why_not("x", "float16")
    'fixed: a graph input'
    """
    __slots__ = ('_dict',)

    def __init__(self, handle: Any):
        self._held = handle
        self._dict: dict[str, Any] | None = None

    @classmethod
    def read(cls, path: Any) -> Report:
        """A report that save() or `halftone explain --format json` wrote, for diff() and check()."""
        return cls(created(lib.ht_report_free, lib.ht_report_read, raw(path), long=True))

    def _printed(self, form: int, node: str | None = None) -> bytes:
        printed: bytes = self._alone(lambda: text_of(lib.ht_report_print, self._handle, form, raw_or_none(node), long=True))
        return printed

    def to_dict(self) -> dict[str, Any]:
        """The whole report, as docs/decisions.md describes it."""
        if self._dict is None:
            import json
            self._dict = json.loads(self._printed(_api.HT_FORMAT_JSON))
        assert self._dict is not None
        return self._dict

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Every node with floating-point tensors, in the order of the graph."""
        nodes: list[dict[str, Any]] = self.to_dict()['nodes']
        return nodes

    @property
    def casts(self) -> list[dict[str, Any]]:
        """The casts that the policy placed, by name."""
        casts: list[dict[str, Any]] = self.to_dict()['casts']
        return casts

    def table(self) -> Any:
        """A row for each type attribute on which the policy decided: node, op, attribute, from, to, rule, and the
        report's other members.  A pandas.DataFrame if pandas is installed, else a list of dicts."""
        rows = Table({'node': n['node'], 'op': n['op'], **unit} for n in self.nodes for unit in n['units'])
        try:
            import pandas
        except ImportError:
            return rows
        return pandas.DataFrame(list(rows), columns=None if rows else list(COLUMNS))

    def text(self, node: str | None = None) -> str:
        """The report as the tool prints it; with `node` only for that one."""
        return self._printed(_api.HT_FORMAT_TEXT, node).decode()

    def to_html(self) -> str:
        """One HTML page with tables, as report_page() makes it."""
        return page_of([('<Report>', self._printed(_api.HT_FORMAT_JSON))])

    def dot(self) -> str:
        """The graph for Graphviz."""
        return self._printed(_api.HT_FORMAT_DOT).decode()

    def node_data(self) -> str:
        """Model Explorer's node data, as JSON."""
        return self._printed(_api.HT_FORMAT_NODE_DATA).decode()

    def save(self, path: Any) -> None:
        """Writes JSON, which is also a policy: compile(policy="report.json")."""
        data = self._printed(_api.HT_FORMAT_JSON)
        call(lib.ht_file_write, raw(path), data, len(data))

    def why_not(self, node: str | None = None, dtype: str = 'float16') -> Any:
        """The first reason against a dtype (float32, float16, bfloat16).

        For one node the reason, "" if it has that dtype; for all nodes a list of dicts with node, attribute, dtype and
        why_not.
        """
        units: list[dict[str, Any]] = self._alone(lambda: json_of(
            lib.ht_report_why_not, self._handle, code_of(dtype), raw_or_none(node), _api.HT_FORMAT_JSON, long=True))['units']
        return units if node is None else '; '.join(dict.fromkeys(u['why_not'] for u in units))

    def diff(self, after: Report) -> dict[str, Any]:
        """The units and casts in which a later report differs, with both reasons."""
        found: dict[str, Any] = self._alone(lambda: after._alone(lambda: json_of(
            lib.ht_report_diff, self._handle, after._handle, _api.HT_FORMAT_JSON, long=True)))
        return found

    def check(self, after: Report, *conditions: str) -> None:
        """Raises Verdict if a later report is worse by a condition: "new-cast", "lower-precision", "cost+5%"."""
        self._alone(lambda: after._alone(lambda: long_call(
            lib.ht_report_check, self._handle, after._handle, raw(','.join(conditions)))))

    def __repr__(self) -> str:
        if self.closed:
            return '<Report, closed>'
        d = self.to_dict()
        return f'<Report {d["policy"]} of {d["model"]!r}: {d["low_nodes"]} of {d["float_nodes"]} nodes in 16 bits>'
