"""Comparisons: policies of one model on the same samples."""
from __future__ import annotations

import ctypes

from . import _api
from ._arrays import Tensor, code_of, dense, tensor_of
from ._errors import HalftoneError, SystemFailure, UsageError
from ._library import Owner, call, created, filled, lib, long_call, names, raw, text_of
from ._model import Model, Struct, load
from ._oracle import Oracle, live
from ._page import page_of
from ._policy import Policy, handle_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from ._model import Shapes

FORMS = {'text': _api.HT_COMPARISON_TEXT, 'json': _api.HT_COMPARISON_JSON, 'csv': _api.HT_COMPARISON_CSV,
         'md': _api.HT_COMPARISON_MARKDOWN, 'junit': _api.HT_COMPARISON_JUNIT, 'github': _api.HT_COMPARISON_GITHUB,
         'nodes-csv': _api.HT_COMPARISON_NODES_CSV, 'node-data': _api.HT_COMPARISON_NODE_DATA}


class Comparison(Owner):
    """The result of compare().  docs/compare.md describes its members, statistics and intervals."""
    __slots__ = ('_dict',)

    def __init__(self, handle: Any):
        self._held = handle
        self._dict: dict[str, Any] | None = None

    def text(self, form: str = 'text') -> str:
        """The report as "text", "json", "csv", "md", "junit" or "github"; the errors of nodes alone as "nodes-csv", or
        as "node-data" for Model Explorer."""
        if form not in FORMS:
            raise UsageError(f'there is no form {form!r}; there are {", ".join(FORMS)}')
        one = (ctypes.c_void_p * 1)(self._handle._as_parameter_.value)
        return text_of(lib.ht_comparison_print, one, 1, FORMS[form], None).decode()

    def to_html(self) -> str:
        """One HTML page with tables and plots, as report_page() makes it."""
        return page_of([('<Comparison>', self.text('json').encode())])

    def to_dict(self) -> dict[str, Any]:
        """The whole report, for its only model: target, samples, policies and more."""
        if self._dict is None:
            import json
            self._dict = json.loads(self.text('json'))['models'][0]
        assert self._dict is not None
        return self._dict

    @property
    def policies(self) -> list[dict[str, Any]]:
        """A dict for each policy: verdict, nodes, bytes, latency, metric, errors of outputs, tolerances."""
        found: list[dict[str, Any]] = self.to_dict()['policies']
        return found

    def __getitem__(self, policy: str) -> dict[str, Any]:
        for p in self.policies:
            if p['policy'] == policy:
                return p
        raise KeyError(policy)

    @property
    def passed(self) -> bool:
        """Whether every policy was compiled and run, and is within its tolerances."""
        return all(p['verdict'] == 'pass' for p in self.policies)

    def check(self) -> None:
        """Raises Verdict if a policy is not within its tolerances, or else the error of a policy that failed."""
        call(lib.ht_comparison_verdict, self._handle)

    def table(self) -> Any:
        """A row for each policy and output with all statistics: a pandas.DataFrame if pandas is installed, else a list
        of dicts."""
        return _frame([{'policy': p['policy'], 'verdict': p['verdict'], **o} for p in self.policies for o in p['outputs']])

    def nodes(self, policy: str | None = None) -> Any:
        """The errors of tensors that compare(nodes=True) measured under one policy (None: under all): a row for each tensor, in
        the order of the program, as a pandas.DataFrame if pandas is installed, else as a list of dicts."""
        of = self.policies if policy is None else [self[policy]]
        if not any('nodes' in p for p in of):
            raise UsageError('nodes were not compared: compare(nodes=True)')
        return _frame([{'policy': p['policy'], **t} for p in of if 'nodes' in p for t in p['nodes']['tensors']])

    def save(self, path: Any, form: str = 'json') -> None:
        """Writes the report to a file."""
        data = self.text(form).encode()
        call(lib.ht_file_write, raw(path), data, len(data))

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style and that of the notebook do not affect each other."""
        import html
        return (f'<iframe title="Comparison" srcdoc="{html.escape(self.to_html())}" '
                'style="width: 100%; height: 40em; border: 0; resize: vertical"></iframe>')

    def _repr_markdown_(self) -> str:
        return self.text('md')

    def __repr__(self) -> str:
        if self.closed:
            return '<Comparison, closed>'
        return f'<Comparison {", ".join(p["policy"] + " " + p["verdict"] for p in self.policies)}>'


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def compare(model: Model | Any, policies: Iterable[Policy | str], samples: Any, *, labels: Iterable[Any] | None = None,
            metric: str | None = None, reference: Any = None, tolerances: Iterable[str] = (), target: str | None = None,
            threads: int = 1, rounds: int = 10, inputs: Shapes | None = None, batch: int | None = None,
            options: Mapping[str, object] | None = None, nodes: bool = False, nodes_memory: int = 0) -> Comparison:
    """Runs a model, or the model at a path, under policies on the same samples.

    `samples` are arrays in the shape of the only input, or dicts of arrays by input: any iterable, which is read one
    sample at a time; or one dict of arrays that are stacked along a new first dimension.  `reference` has the expected
    outputs in the same form (None: the outputs of the model as it is; "f64": those of its float64 variant;
    "tensorflow": those that TensorFlow computes in another process, of this interpreter or of the one that
    HALFTONE_PYTHON names), `labels` the right answers for `metric`. `tolerances` are written as on the command line
    ("prob:cos>=0.999").  `rounds` is the number of rounds that measure latencies; `options` apply to policies that are
    given by name.  With `nodes`, the errors of every tensor are measured, too (docs/compare.md); `samples` are then
    iterated once more for each policy, and samples that can be iterated only once are kept in a list.  `nodes_memory`
    limits the bytes of the reference's tensors that are kept at a time (0: as many as the programs of the model and of
    the policy take, at least 64 MiB).

    >>> import halftone as ht
    >>> ht.compare(GRAPH, ["must_keep_origin_dtype", "force_fp16"], [[[1, 2, 3, 4]]], rounds=0)
    <Comparison must_keep_origin_dtype pass, force_fp16 pass>
    """
    opened = model if isinstance(model, Model) else load(model)
    handle = opened._sized(inputs, batch)._handle
    made, referred = comparison_options(metric, reference, tolerances, target, threads)
    comparison = Comparison(created(
        lib.ht_comparison_free, lib.ht_comparison_new, handle, Struct(made, *referred), long=True, keeps=(handle, *referred)))
    added = [one for policy in policies if (one := _add(comparison, policy, options))]
    if nodes and iter(samples) is samples:
        samples = list(samples)
    program = lib.ht_comparison_program(comparison._handle)
    with live(reference, opened, *tensors(program)) as referee:
        run_samples(lib.ht_comparison_sample, comparison._handle, program, samples, referee, labels)
    for _ in range(rounds):
        long_call(lib.ht_comparison_time, comparison._handle, 1)
    if nodes:
        _compare_nodes(comparison, added, samples, nodes_memory)
    return comparison


def comparison_options(metric: str | None, reference: Any, tolerances: Iterable[str], target: str | None,
                       threads: int) -> tuple[Any, tuple[Any, ...]]:
    """A struct ht_comparison_options, and the objects to which it refers, which the caller keeps alive."""
    compiling = filled(_api.ht_compile_options_init(), dict(target=target, threads=threads))
    stated = names(list(tolerances))
    made = filled(_api.ht_comparison_options_init(), dict(
        metric=metric, reference=_reference_named(reference), tolerances=stated[1]))
    made.compile, made.tolerance = ctypes.pointer(compiling), stated[0]
    return made, (compiling, stated)


def _reference_named(reference: Any) -> str | None:
    """The reference as struct ht_comparison_options names it."""
    return reference if reference is None or isinstance(reference, str) and reference != 'tensorflow' else 'given'


def _add(comparison: Comparison, policy: Policy | str, options: Mapping[str, object] | None) -> tuple[bytes, Any] | None:
    """Adds a policy and returns its name and handle; None: the model cannot be compiled under it, and the report
    contains the error."""
    made = handle_of(policy, None if isinstance(policy, Policy) else options)
    name = raw(policy.name if isinstance(policy, Policy) else policy)
    try:
        long_call(lib.ht_comparison_add, comparison._handle, name, made)
    except (UsageError, SystemFailure):
        raise
    except HalftoneError:
        return None
    return name, made


def _compare_nodes(comparison: Comparison, added: list[tuple[bytes, Any]], samples: Any, memory: int) -> None:
    program = lib.ht_comparison_program(comparison._handle)
    inputs = _tensors(program, lib.ht_program_inputs, lib.ht_program_input)
    for name, made in added:
        long_call(lib.ht_comparison_nodes, comparison._handle, name, made, memory)
        for i, sample in enumerate(_each(samples, inputs)):
            fed = _fitted(f'sample {i}: input', sample, inputs)
            long_call(lib.ht_comparison_nodes_sample, comparison._handle, raw(f'sample {i}'), fed.structs, fed.n)
    call(lib.ht_comparison_nodes, comparison._handle, None, None, 0)


def tensors(program: Any) -> tuple[list[Tensor], list[Tensor]]:
    """The inputs and outputs of a program."""
    return (_tensors(program, lib.ht_program_inputs, lib.ht_program_input),
            _tensors(program, lib.ht_program_outputs, lib.ht_program_output))


def _tensors(program: Any, count: Any, at: Any) -> list[Tensor]:
    found = []
    for i in range(count(program)):
        v = _api.ht_value_info()
        at(program, i, v)
        found.append(tensor_of(v))
    return found


def _each(sets: Any, tensors: list[Tensor]) -> Iterator[dict[str, Any]]:
    """A dict of arrays for each sample."""
    if hasattr(sets, 'items'):
        keys = list(sets)
        sets = (dict(zip(keys, arrays)) for arrays in zip(*sets.values(), strict=True))
    for one in sets:
        yield dict(one) if hasattr(one, 'items') else {tensors[0].name: one}


class _Arrays:
    """Structs for the library, and the memory to which they refer."""
    __slots__ = ('structs', 'n', 'memory')

    def __init__(self, what: str, arrays: Iterable[tuple[Any, Tensor]]):
        self.memory = [dense(f'{what} {t.name!r}', x, t) for x, t in arrays]
        self.n = len(self.memory)
        self.structs = (_api.ht_array * self.n)()
        for a, d in zip(self.structs, self.memory):
            a.data, a.bytes, a.dtype, a.rank = d.address, d.bytes, code_of(d.dtype), len(d.shape)
            a.dim = (ctypes.c_int64 * len(d.shape))(*d.shape)


def _fitted(what: str, one: dict[str, Any], tensors: list[Tensor]) -> _Arrays:
    missing, unknown = [t.name for t in tensors if t.name not in one], set(one) - {t.name for t in tensors}
    if missing or unknown:
        raise UsageError(f'{what}: ' + (f'there is nothing for {missing[0]!r}' if missing
                                        else f'there is no tensor {sorted(unknown)[0]!r}'))
    return _Arrays(what, ((one[t.name], t) for t in tensors))


_END = object()


def _label(label: Any) -> _Arrays:
    import numpy
    return _Arrays('label', [(numpy.asarray(label), Tensor('label', 'int64', None))])


def run_samples(run: Any, handle: Any, program: Any, samples: Any, reference: Any, labels: Iterable[Any] | None) -> None:
    """Calls `run`, ht_comparison_sample() or ht_search_sample(), with each sample, its expected outputs, which an Oracle computes, and its
    label.  `program` has the inputs and outputs of samples."""
    inputs, outputs = tensors(program)
    oracle = reference if isinstance(reference, Oracle) else None
    expected = _each(reference, outputs) if not oracle and _reference_named(reference) == 'given' else None
    answers = None if labels is None else iter(labels)
    n = 0
    for i, sample in enumerate(_each(samples, inputs)):
        n += 1
        fed = _fitted(f'sample {i}: input', sample, inputs)
        one = oracle.compute(fed.memory) if oracle else _next(expected, i, 'reference') if expected else None
        want = None if one is None else _fitted(f'sample {i}: reference', one, outputs)
        label = None if answers is None else _label(_next(answers, i, 'label'))
        long_call(run, handle, raw(f'sample {i}'), fed.structs, fed.n, want and want.structs, want.n if want else 0,
                  label and label.structs)
    if not n:
        raise UsageError('there are no samples')
    for more in (e for e in (expected, answers) if e is not None):
        if next(more, _END) is not _END:
            raise UsageError('there are fewer samples than references or labels')


def _next(of: Iterator[Any], i: int, what: str) -> Any:
    one = next(of, _END)
    if one is _END:
        raise UsageError(f'sample {i} has no {what}')
    return one
