"""Compiled programs and their runs."""
from __future__ import annotations

import ctypes
import math
import re
from collections import defaultdict
from time import perf_counter

from . import _api
from ._arrays import Tensor, checked, code_of, dense, fill_strings, numpy_dtype, same_type, spelled, tensor_of
from ._errors import InputError, UsageError, Verdict
from ._library import (
    Bytes, Diags, Handle, Owner, call, created, filled, heed, int64, json_of, lib, long_call, names, raw, text,
)
from ._no_call import NoCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

try:
    from ._call import Call
except ImportError:  # an interpreter other than CPython
    Call = NoCall  # type: ignore[assignment, misc]

_RUN = ctypes.cast(lib.ht_context_run, ctypes.c_void_p).value  # the function's address
_MOST_TARGETS = 64  # in one net
# Ctrl-C must be able to end a run that takes longer than this, in seconds.
LONG_RUN = 0.05
_WORDS = ctypes.sizeof(_api.ht_array) // 8  # the first word of an ht_array is the address of its data


class Info:
    """Figures of a program: sizes in bytes, numbers of nodes, the time of each phase in ns."""

    def __init__(self, about: Any):
        for name, *kind in _api.ht_program_info._fields_:
            if kind == [ctypes.c_size_t] and name not in ('struct_size', 'phases', 'without_effects'):
                setattr(self, name, getattr(about, name))
        self.target, self.policy = text(about.target), text(about.policy)
        self.phases = {text(about.phase[i].name): about.phase[i].ns for i in range(about.phases)}
        self.without_effect = [text(about.without_effect[i]) for i in range(about.without_effects)]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f'Info({", ".join(f"{k}={v!r}" for k, v in vars(self).items())})'


class _Slots:
    """The inputs or the outputs of a program: their tensors and an array of ht_array for the runs."""

    def __init__(self, program: Handle, count: Any, get: Any, named: Any):
        self.program, self._named = program, named
        self.tensors: list[Tensor] = []
        self.has_value: list[bool] = []
        for i in range(count(program)):
            v = _api.ht_value_info()
            get(program, i, v)
            self.tensors.append(tensor_of(v))
            self.has_value.append(bool(v.value))
        self.numbers = {t.name: i for i, t in enumerate(self.tensors)}
        self._dtypes: list[Any] | None = None
        self.open = any(None in (t.shape or ()) for t in self.tensors)  # sizes may differ from run to run
        self.strings = [i for i, t in enumerate(self.tensors) if t.dtype == 'string']

    def number(self, name: str, what: str) -> int:
        """The index of the tensor with this name."""
        if name in self.numbers:
            return self.numbers[name]
        i = ctypes.c_size_t()
        if not self._named(self.program, raw(name), i):
            import difflib
            near = difflib.get_close_matches(name, self.numbers, 3)
            raise UsageError(f'the program has no {what} {name!r}; ' + (
                f'did you mean {" or ".join(map(repr, near))}?' if near else f'there are {", ".join(self.numbers)}'))
        self.numbers[name] = i.value
        return i.value

    @property
    def dtypes(self) -> list[Any]:
        """NumPy's dtypes of the tensors."""
        if self._dtypes is None:
            self._dtypes = [numpy_dtype(t.dtype) for t in self.tensors]
        return self._dtypes

    def described(self) -> tuple[Any, ...]:
        """The arguments for halftone._call.Call."""
        shapes = tuple(tuple(n or 0 for n in t.shape or ()) for t in self.tensors)
        return self.numbers, tuple(t.name for t in self.tensors), tuple(self.dtypes), shapes

    def arrays(self) -> Any:
        made = (_api.ht_array * len(self.tensors))()
        for a, t in zip(made, self.tensors):
            shape = tuple(n or 0 for n in t.shape or ())
            a.dtype, a.rank = code_of(t.dtype), len(shape)
            a.dim = (ctypes.c_int64 * len(shape))(*shape)
            a.bytes = lib.ht_dtype_bytes(a.dtype)
            for n in shape:
                a.bytes *= n
        return made


def limits(**stated: Any) -> dict[str, Any]:
    """Members of struct ht_context_options: limits of time, which are stated in seconds, of tables, in bytes, and the device."""
    members: dict[str, Any] = {}
    for name, value in stated.items():
        if value is None:
            continue
        if name == 'table_bytes':
            if not 0 < int64(name, value):
                raise UsageError(f'table_bytes: a limit of {value} bytes')
            members[name] = value
        elif name == 'device':
            members[name] = ctypes.pointer(ctypes.c_int32(int64(name, value)))
            if members[name].contents.value != value:
                raise UsageError(f'device {value}')
        elif not 0 < value < 1e9:
            raise UsageError(f'{name}: a limit of {value} seconds')
        else:
            members[f'{name}_ns'] = max(1, int(value * 1e9))
    return members


def fitted(context: Any, i: int, x: Any) -> Any:
    """The array for output `i`, with the extents that it has behind a run."""
    dim, size = (ctypes.c_int64 * x.ndim)(), ctypes.c_size_t()
    call(lib.ht_context_output, context, i, dim, size)
    shape = tuple(dim)
    return x if shape == x.shape else x.reshape(-1)[:math.prod(shape)].reshape(shape)


def pages_of(name: str | None) -> int:
    """The value of enum ht_pages for a name."""
    known = {None: _api.HT_PAGES_USUAL, '1G': _api.HT_PAGES_1G, '1G-or-less': _api.HT_PAGES_1G_OR_LESS}
    if name not in known:
        raise UsageError(f"there are no pages {name!r}; there are '1G' and '1G-or-less'")
    return int(known[name])


class Context(Owner):
    """An arena and its threads, which run one program; one thread at a time may use it.

    A program makes its own contexts when `program(...)` is called.  Make one with `program.context()` to set a seed, to
    measure times, to have separate streams of random numbers, or for a session of a model that changes its variables:
    streams and variables continue from run to run of one context.
    """
    __slots__ = ('_program', '_ins', '_outs', '_in', '_out', '_in_words', '_out_words', '_diags', '_long', '_call',
                 '_loops', '_arguments', '_cancel', '_changed')

    _call: Any

    def __init__(self, program: Program, threads: int = 1, keep_subnormals: bool = False, seed: int | None = None,
                 guard: str | None = None, max_iterations: int = 0, limited: Mapping[str, Any] | None = None,
                 max_depth: int = 0):
        handle = program._handle
        guards = {None: _api.HT_GUARD_NONE, 'behind': _api.HT_GUARD_BEHIND, 'before': _api.HT_GUARD_BEFORE}
        if guard not in guards:
            raise UsageError(f'there is no guard {guard!r}; there are None, "behind" and "before"')
        if threads < 1:
            raise UsageError(f'{threads} threads')
        options = filled(_api.ht_context_options_init(), dict(
            threads=threads, keep_subnormals=int(keep_subnormals), guard=guards[guard], max_iterations=max_iterations,
            max_depth=max_depth))
        for name, value in (limited or {}).items():
            setattr(options, name, value)
        self._cancel = ctypes.c_int32(0)
        options.cancel = ctypes.pointer(self._cancel)
        self._held = created(lib.ht_context_free, lib.ht_context_new, handle, ctypes.byref(options),
                             keeps=(handle, self._cancel))
        self._program = handle
        self._ins, self._outs = program._ins, program._outs
        self._changed = program.variables
        self._in, self._out = self._ins.arrays(), self._outs.arrays()
        self._in_words = memoryview(self._in).cast('B').cast('Q') if len(self._in) else memoryview(b'')
        self._out_words = memoryview(self._out).cast('B').cast('Q') if len(self._out) else memoryview(b'')
        self._diags = Diags()
        self._long = True  # the duration of a run is not known yet
        self._loops = program._loops or program._turns  # Ctrl-C can end a run early
        self._arguments: tuple[Any, ...] = (self._held, self._in, len(self._in), self._out, len(self._out))
        import numpy
        self._call = Call(
            _RUN, self._held._as_parameter_.value,
            ctypes.addressof(self._in), ctypes.addressof(self._out), ctypes.addressof(self._cancel),
            self._ins.described(), self._outs.described(), numpy.empty, self._loops, (self._held, self._in, self._out))
        if seed is not None:
            self.seed = seed

    @property
    def seed(self) -> int:
        """The seed of random ops without seeds of their own; setting it restarts all streams of random numbers."""
        return int(lib.ht_context_seed(self._handle))

    @seed.setter
    def seed(self, value: int) -> None:
        if not 0 <= value < 1 << 64:
            raise UsageError(f'a seed of {value}')
        lib.ht_context_set_seed(self._handle, value)

    def variables(self) -> dict[str, Any]:
        """The variables that runs change, as copies, by name."""
        import numpy
        got = {}
        for i, t in enumerate(self._changed):
            got[t.name] = numpy.empty([n or 0 for n in t.shape or ()], numpy_dtype(t.dtype))
            ctypes.memmove(got[t.name].ctypes.data, lib.ht_context_variable(self._handle, i), got[t.name].nbytes)
        return got

    def assign(self, **values: Any) -> None:
        """Sets variables for the following runs; if one of the values does not fit, none is set.

        Names that are no identifiers are given as `assign(**{"layer/n": value})`.
        """
        numbers = {t.name: i for i, t in enumerate(self._changed)}
        arrays = {}
        for name, value in values.items():
            if name not in numbers:
                raise UsageError(f'the program changes no variable {name!r}; it changes {", ".join(numbers) or "none"}')
            tensor, what = self._changed[numbers[name]], f'variable {name!r}'
            arrays[name] = checked(what, dense(what, value, tensor), tensor)
        for name, array in arrays.items():
            ctypes.memmove(lib.ht_context_variable(self._handle, numbers[name]), array.address, array.bytes)

    def unchanged(self, *names: str) -> None:
        """Tells the next run that these inputs have the same elements as in the last run, so that it reuses the data
        derived from them.  Only inputs that were `steady` when the model was compiled have such data."""
        for name in names:
            i = ctypes.c_size_t()
            if not lib.ht_program_input_named(self._program, raw(name), i):
                raise UsageError(f'the program has no input {name!r}')
            call(lib.ht_context_input_unchanged, self._handle, i.value)

    def reset(self) -> None:
        """Sets all variables to their initial values."""
        lib.ht_context_reset(self._handle)

    def profile(self, on: bool = True) -> None:
        """Turns the times of steps() on, from the next run on."""
        lib.ht_context_profile(self._handle, int(on))

    def steps(self) -> list[tuple[str, int, str | None]]:
        """Times of the last run after profile(): (node, ns, method), in the order of computation."""
        got = (_api.ht_step_time * lib.ht_context_steps(self._handle, None, 0))()
        lib.ht_context_steps(self._handle, got, len(got))
        return [(text(s.node) or '', s.ns, text(s.method)) for s in got]

    def record(self, events: int = _api.HT_EVENTS) -> None:
        """Records the following runs: the last `events` kernels, and totals of all; 0 ends the recording."""
        if events < 0:
            raise UsageError(f'{events} events')
        call(lib.ht_context_record, self._handle, events)

    def profile_table(self) -> list[dict[str, Any]]:
        """For each step of all runs since record(): what it computes, how often and how long, and the machine's limit.

        `ns` is the sum of all executions over all threads; `multiply_adds`, `bytes` and `limit_ps` are for one
        execution.
        """
        got = (_api.ht_step_profile * lib.ht_context_step_profiles(self._handle, None, 0))()
        lib.ht_context_step_profiles(self._handle, got, len(got))
        words, numbers = ('node', 'op', 'result', 'dtypes', 'method'), ('executions', 'ns', 'multiply_adds', 'bytes', 'limit_ps')
        return [{**{w: text(getattr(s, w)) for w in words}, **{n: getattr(s, n) for n in numbers}} for s in got]

    def divide(self, forward: str | None = None, backward: str | None = None) -> None:
        """Divides the runs since record() into parts for iterations(): the forward pass begins with the kernel of node
        `forward`, by default the first one; the backward pass ends with that of `backward`, by default the last one
        that changes no variable."""
        call(lib.ht_context_divide, self._handle, *(n.encode() if n is not None else None for n in (forward, backward)))

    def iterations(self) -> list[dict[str, int | None]]:
        """The last 4096 runs since divide() that passed both points, with times in nanoseconds: `run` counts from 0;
        `ns` is the time since the end of the previous run, or since `forward`; `forward_ns` the time of both passes,
        `refresh_ns` the time after them, `gap_ns` the time before them, None in the first run."""
        found: list[dict[str, int | None]] = []
        x = _api.ht_iteration()
        while lib.ht_context_iteration(self._handle, len(found), x):
            found.append(dict(run=x.run, ns=x.end - (x.before or x.forward), forward_ns=x.backward - x.forward,
                              refresh_ns=x.end - x.backward, gap_ns=x.forward - x.before if x.before else None))
        return found

    def count(self, on: bool = True) -> None:
        """Turns on counting of processor and system events from the next run on, for counters()."""
        call(lib.ht_context_count, self._handle, int(on))

    def counters(self) -> dict[str, list[float] | str]:
        """The counters of all runs since count(), by name: a number for each step, in the order of profile_table(), or
        the reason why the system does not count."""
        found: dict[str, list[float] | str] = {}
        info = _api.ht_counter_info()
        while lib.ht_context_counter(self._handle, len(found), info):
            got = (ctypes.c_double * lib.ht_context_counts(self._handle, len(found), None, 0))()
            lib.ht_context_counts(self._handle, len(found), got, len(got))
            found[text(info.name) or ''] = text(info.refused) or list(got)
        return found

    def trace(self) -> dict[str, Any]:
        """The timeline since record(), which Perfetto and chrome://tracing read after json.dump() has written it."""
        return dict(self._alone(lambda: json_of(lib.ht_context_trace, self._handle, long=True)))

    def numerics(self) -> list[dict[str, Any]]:
        """The effects of rounding to 16 bits on each tensor in the last run, for programs compiled with `numerics`."""
        got = (_api.ht_numerics * lib.ht_context_numerics(self._handle, None, 0))()
        lib.ht_context_numerics(self._handle, got, len(got))
        counts = ('elements', 'overflow', 'underflow', 'subnormal', 'sentinel', 'infinite', 'nan')
        return [dict(tensor=text(n.tensor), dtype=text(n.format) or lib.ht_dtype_name(n.dtype).decode(), emulated=bool(n.format),
                     **{c: getattr(n, c) for c in counts}) for n in got]

    def _place(self, slots: _Slots, i: int, x: Any, words: Any, out: bool) -> object:
        """Puts the address of an array into its slot, and returns the object that keeps the memory alive."""
        t = slots.tensors[i]
        what = f'{"output" if out else "input"} {t.name!r}'
        if out and t.dtype == 'string':
            return self._place_strings(what, i, x)
        d = checked(what, dense(what, x, t), t)
        if out and (d.copied or not d.writable):
            raise InputError(f'{what}: the array for it has to be {"dense and aligned" if d.copied else "writable"}')
        words[_WORDS * i] = d.address
        if slots.open:
            a = (self._out if out else self._in)[i]
            a.dim = (ctypes.c_int64 * len(d.shape))(*d.shape)
            a.bytes = math.prod(d.shape) * lib.ht_dtype_bytes(a.dtype)
        if t.dtype == 'string':
            (self._out if out else self._in)[i].bytes = d.bytes
        return d

    def _place_strings(self, what: str, i: int, x: Any) -> Any:
        """A run leaves the strings of an output in the context; _fitted() copies them to `x`."""
        if getattr(x, 'dtype', None) != object or x.shape != self._shape(i):
            raise InputError(f'{what}: the array for it has to be one of objects, of shape {list(self._shape(i))}')
        self._out_words[_WORDS * i] = 0
        self._out[i].dim = (ctypes.c_int64 * x.ndim)(*x.shape)
        return x

    def _shape(self, i: int) -> tuple[int, ...]:
        """The shape of an output for the inputs of this run."""
        shape = self._outs.tensors[i].shape or ()
        if not self._outs.open:
            return shape  # type: ignore[return-value]
        dim, size = (ctypes.c_int64 * len(shape))(), ctypes.c_size_t()
        call(lib.ht_program_output_for, self._program, self._in, len(self._in), i, dim, size)
        return tuple(dim)

    def _fitted(self, results: dict[str, Any]) -> dict[str, Any]:
        """The outputs after the run: sizes that depend on data may be smaller than the arrays."""
        if self._outs.open:
            results = {name: fitted(self._handle, i, x) for i, (name, x) in enumerate(results.items())}
        for i in self._outs.strings:
            size = ctypes.c_size_t()
            block = lib.ht_context_strings(self._handle, i, size)
            fill_strings(results[self._outs.tensors[i].name], block, size.value)
        return results

    def _feed(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        ins = self._ins
        if len(given) == 1 and isinstance(given[0], dict):
            named = {**given[0], **named}
            given = ()
        if len(given) > len(ins.tensors):
            raise UsageError(f'{len(given)} arrays for {len(ins.tensors)} inputs')
        fed: list[Any] = list(given) + [None] * (len(ins.tensors) - len(given))
        for name, x in named.items():
            i = ins.number(name, 'input')
            if fed[i] is not None:
                raise UsageError(f'input {ins.tensors[i].name!r} is fed twice')
            fed[i] = x
        keeps = []
        for i, x in enumerate(fed):
            if x is None:
                if not ins.has_value[i]:
                    raise UsageError(f'input {ins.tensors[i]!r} is not fed')
                self._in_words[_WORDS * i] = 0
            else:
                keeps.append(self._place(ins, i, x, self._in_words, False))
        return keeps

    def _results(self, out: Mapping[str, Any] | None) -> list[Any]:
        """The arrays for the outputs: the caller's, or new ones."""
        outs = self._outs
        arrays: list[Any] = [None] * len(outs.tensors)
        if out is not None:
            for name, x in out.items():
                arrays[outs.number(name, 'output')] = x
        for i, x in enumerate(arrays):
            if x is None:
                import numpy
                arrays[i] = numpy.empty(self._shape(i), outs.dtypes[i])
        return arrays

    def _apart(self) -> None:
        """Refuses outputs that share memory with inputs or with each other."""
        ins, outs = self._in_words, self._out_words  # for each array the address, then the bytes
        for i in range(0, len(outs), _WORDS):
            begin, size = outs[i], outs[i + 1]
            for words, last in (ins, len(ins)), (outs, i):
                for j in range(0, last, _WORDS):
                    if words[j] < begin + size and begin < words[j] + words[j + 1] and size and words[j]:
                        raise InputError(
                            f'output {self._outs.tensors[i // _WORDS].name!r} shares memory with an input or another output')

    def _prepare(self, inputs: tuple[Any, ...], named: Mapping[str, Any], out: Mapping[str, Any] | None) -> Any:
        """Puts all addresses into their slots; returns the outputs and the objects that keep the memory alive."""
        keeps = self._feed(inputs, named)
        results = self._results(out)
        for i, x in enumerate(results):
            keeps.append(self._place(self._outs, i, x, self._out_words, True))
        if out is not None:
            self._apart()
        return dict(zip(self._outs.numbers, results)), keeps

    def run(self, *inputs: Any, out: Mapping[str, Any] | None = None, **named: Any) -> dict[str, Any]:
        """Runs once, as a call of the program does, but always in this context."""
        return self._run(inputs, named, out)

    def _run(self, inputs: tuple[Any, ...], named: Mapping[str, Any], out: Mapping[str, Any] | None) -> dict[str, Any]:
        call = self._call
        ins, outs = self._ins, self._outs
        done = None if ins.open or outs.open or ins.strings or outs.strings else call.run(inputs, named, out, self._diags.pointer)
        if done.__class__ is dict:
            return done
        if done is not None:
            self._failed(done)
        if not call.acquire(False):
            raise UsageError('a context runs in one thread at a time')
        try:
            results, keeps = self._prepare(inputs, named, out)
            self._start(self._arguments, keeps)
            return self._fitted(results)
        finally:
            call.release()

    def bind(self, *inputs: Any, out: Mapping[str, Any] | None = None, **named: Any) -> Callable[[], dict[str, Any]]:
        """A function that runs with these arrays, whatever they contain when it is called, and returns the outputs.

        For loops in which every microsecond counts: all checks are done once.  Every call writes to the same outputs.

        >>> import halftone as ht, numpy as np
        >>> x = np.ones((1, 4), np.float32)
        >>> again = ht.load(GRAPH).compile().context().bind(x)
        >>> float(again()["y"][0, 0])
        3.0
        >>> x[:] = 2
        >>> float(again()["y"][0, 0])
        6.0
        """
        if self._ins.strings or self._outs.strings:
            raise UsageError('bind() takes arrays where they lie, and strings are copied; call the context\'s run()')
        call = self._call
        if not call.acquire(False):
            raise UsageError('a context runs in one thread at a time')
        try:
            results, keeps = self._prepare(inputs, named, out)
            handle, ins, number, outs, results_number = self._arguments
            # The function needs its own arrays, since other runs of this context change the
            # context's.
            arguments = (handle, type(ins).from_buffer_copy(ins), number, type(outs).from_buffer_copy(outs), results_number)
            keeps.append([a.dim for a in (*ins, *outs)])
        finally:
            call.release()
        addresses = ctypes.addressof(arguments[1]), ctypes.addressof(arguments[3])
        run = call.again

        def again() -> dict[str, Any]:
            done = run(*addresses, self._diags.pointer)
            if done:
                self._failed(done)
            if done is None:
                if not call.acquire(False):
                    raise UsageError('a context runs in one thread at a time')
                try:
                    self._start(arguments, keeps)
                finally:
                    call.release()
            return self._fitted(results)

        return again

    def _start(self, arguments: tuple[Any, ...], keeps: list[Any]) -> None:
        """Runs; a run that may take long is run in a thread, so that Ctrl-C can end it."""
        self._handle
        begin = perf_counter()
        diags = self._diags
        try:
            if self._long:
                long_call(_kept(keeps), *arguments)
            elif status := lib.ht_context_run(*arguments, diags.pointer):
                self._failed(status)
        except KeyboardInterrupt:
            self._cancel.value = 1
            self.close()  # the run continues to its end, or to the end of an iteration, and still uses the context
            raise
        slow = perf_counter() - begin > LONG_RUN
        self._long = slow or self._loops
        self._call.slow(slow)

    def _failed(self, status: int) -> None:
        diags, self._diags = self._diags, Diags()
        heed(status, diags.pointer)

    def close(self) -> None:
        super().close()
        self._arguments, self._long = (None, *self._arguments[1:]), True
        self._call.close()
        self._call = NoCall()

    def __repr__(self) -> str:
        return '<Context, closed>' if self.closed else f'<Context of {len(self._in)} inputs, {len(self._out)} outputs>'


def _kept(keeps: list[Any]) -> Any:
    """A call of ht_context_run() that keeps arrays alive while it runs."""
    return lambda *arguments, keeps=keeps: lib.ht_context_run(*arguments)


class Program(Owner):
    """Machine code, constants and a memory plan; any number of threads may call it.

    Call it with arrays in the order of `inputs`, by name, or with a dict by name.  NumPy arrays and objects that export
    DLPack are used in place if they are dense.  Their dtypes and shapes must be those of `inputs`; lists and numbers
    are converted.  A call of a program with `variables` begins with their initial values; a context keeps them from run
    to run.  `out` names arrays of the caller for outputs.  `threads` includes the caller's thread; the result has the
    same bits for every number.  Returns a dict of arrays by the names of the outputs.

    Raises UsageError for names, InputError for arrays and for faults of the graph, such as a division of integers by
    zero.

    >>> import halftone as ht, numpy as np
    >>> p = ht.load(GRAPH).compile()
    >>> p(x=np.ones((1, 4), np.float32))["y"]
    array([[3.   , 0.875, 1.375]], dtype=float32)
    >>> y = np.zeros((1, 3), np.float32)
    >>> p([[0, 0, 0, 1]], out={"y": y})["y"] is y
    True
    """
    __slots__ = ('_ins', '_outs', '_free', '_loops', '_turns', 'variables')
    variables: list[Tensor]  # variables that runs change; others are constants
    _ins: _Slots
    _outs: _Slots
    _free: defaultdict[tuple[int, bool], list[Context]]

    def __init__(self, handle: Handle):
        self._held = handle
        self._ins = _Slots(handle, lib.ht_program_inputs, lib.ht_program_input, lib.ht_program_input_named)
        self.variables = []
        for i in range(lib.ht_program_variables(handle)):
            v = _api.ht_value_info()
            lib.ht_program_variable(handle, i, v)
            self.variables.append(tensor_of(v))
        self._outs = _Slots(handle, lib.ht_program_outputs, lib.ht_program_output, lib.ht_program_output_named)
        self._free = defaultdict(list)
        self._loops = self.info.loops > 0
        self._turns = False

    @classmethod
    def load(cls, path: Any, *, policy: str | None = None, target: str | None = None, batch: int = 0,
             inputs: Mapping[str, tuple[int | str | None, ...]] | None = None, verify: bool = False,
             require_signature: Any = None, entry: str | None = None) -> Program:
        """Loads an artefact (`program.save()`, `halftone compile -o m.htx`).

        `entry` names one of several programs over the same variables, which Entries can run together
        (docs/artefact.md). `policy`, `target`, `batch` and the shapes in `inputs` select one of several variants.  With
        `verify`, every byte is checked against its SHA-256; `require_signature` is the PEM file of the public key whose
        owner must have signed it.  Do not write to the file while the program exists.
        """
        options, keep = artefact_options(policy, target, batch, inputs, verify, require_signature, entry)
        return cls(created(lib.ht_program_free, lib.ht_program_load, raw(path), ctypes.byref(options), long=True,
                           keeps=(keep,)))

    @property
    def inputs(self) -> list[Tensor]:
        """The inputs, in the order in which arrays are given."""
        return list(self._ins.tensors)

    @property
    def outputs(self) -> list[Tensor]:
        return list(self._outs.tensors)

    def memory(self, threads: int = 1, shapes: Mapping[str, tuple[int, ...]] | None = None) -> int:
        """The bytes that a context takes for runs: with inputs of any sizes, or with inputs of these shapes, by name.

        Inputs without open sizes need no shape.
        """
        if threads < 1:
            raise UsageError(f'{threads} threads')
        if shapes is None:
            return int(lib.ht_program_memory(self._handle, threads))
        arrays, size = self._ins.arrays(), ctypes.c_size_t()
        for name, shape in shapes.items():
            a = arrays[self._ins.number(name, 'input')]
            a.rank, a.dim = len(shape), (ctypes.c_int64 * len(shape))(*shape)
        call(lib.ht_program_memory_for, self._handle, threads, arrays, len(arrays), size)
        return size.value

    @property
    def open_sizes(self) -> tuple[int, int] | None:
        """The bounds of the first dimension if it is open (None in the shapes of `inputs`), else None."""
        return self.open_dimensions.get(0)

    @property
    def named_sizes(self) -> dict[str, tuple[int, int]]:
        """The bounds of each open size that has a name, by the name."""
        found = {}
        for i, t in enumerate(self.inputs):
            for k in range(len(t.shape or ())):
                size = _api.ht_size_info()
                if lib.ht_program_open_size(self._handle, i, k, size) and (name := text(size.name) or '').startswith('dim_'):
                    found[name.removeprefix('dim_')] = size.least, size.most
        return found

    @property
    def open_dimensions(self) -> dict[int, tuple[int, int]]:
        """The bounds of each open dimension of inputs, by its number; where sizes have names, those of the first input."""
        found = {}
        for i in range(max((len(t.shape or ()) for t in self.inputs), default=0)):
            least, most = ctypes.c_int64(), ctypes.c_int64()
            if lib.ht_program_open_dimension(self._handle, i, least, most):
                found[i] = least.value, most.value
        return found

    @property
    def info(self) -> Info:
        """Sizes, times of compiling, numbers of nodes and casts."""
        about = _api.ht_program_info_init()
        lib.ht_program_about(self._handle, about)
        return Info(about)

    def save(self, path: Any, *, external_weight: int = 0, sign_key: Any = None) -> None:
        """Writes the program as an artefact, which appears whole or not at all.

        `external_weight` 1 puts large weights into files of their own beside it, 2 all into one file; `sign_key` is the
        PEM file of the Ed25519 key that signs it.
        """
        save([self], path, external_weight=external_weight, sign_key=sign_key)

    def announce(self, folder: Any = None, *, jitdump: bool = False, perf_map: bool = False, gdb: bool = False) -> None:
        """Tells profilers and debuggers the names of kernels in machine code; call it before the runs
        (docs/profile.md).

        `jitdump`: folder/jit-PID.dump for `perf record -k 1` and `perf inject --jit`; `perf_map`: /tmp/perf-PID.map for
        `perf report`; `gdb`: its JIT interface.  The tile programs, to which the line numbers of a program compiled
        with `lines` refer, are written to the folder.
        """
        to = (jitdump * _api.HT_ANNOUNCE_JITDUMP | perf_map * _api.HT_ANNOUNCE_PERF_MAP | gdb * _api.HT_ANNOUNCE_GDB)
        call(lib.ht_program_announce, self._handle, to, None if folder is None else raw(folder))

    def context(self, threads: int = 1, *, seed: int | None = None, keep_subnormals: bool = False,
                guard: str | None = None, max_iterations: int = 0, timeout: float | None = None,
                sync_timeout: float | None = None, turn_timeout: float | None = None,
                kernel_timeout: float | None = None, wait_timeout: float | None = None,
                device: int | None = None, max_depth: int = 0, table_bytes: int | None = None) -> Context:
        """An arena of its own, with its own streams of random numbers.

        A loop of the graph that runs more often than `max_iterations`, if that is not 0, raises LimitError; so does a run
        that takes longer than `timeout` seconds, before its next kernel or iteration.  `turn_timeout` bounds the wait for a
        turn (run_at_most()), `sync_timeout` that wait and the run, `kernel_timeout` each kernel, and `wait_timeout` each
        wait (docs/limits.md).  Runs are on the cores of NUMA node `device`, if that is given.  `max_depth` is how many calls
        of a procedure by itself there is memory for, inside of each other (0: 64); no graph of TensorFlow has any.
        A run stops that adds keys to a table of more than `table_bytes` bytes (1 GiB).
        """
        return Context(self, threads, keep_subnormals, seed, guard, max_iterations, limits(
            timeout=timeout, sync_timeout=sync_timeout, turn_timeout=turn_timeout, kernel_timeout=kernel_timeout,
            wait_timeout=wait_timeout, device=device, table_bytes=table_bytes), max_depth)

    def run_at_most(self, contexts: int) -> None:
        """Lets at most so many contexts of the program run at once; the others wait for their turns; 0: any number.

        Call it while none runs, and before contexts are made.
        """
        call(lib.ht_program_run_at_most, self._handle, int64('contexts', contexts))
        self._turns = contexts > 0
        self._free.clear()

    def use_pages(self, pages: str) -> None:
        """Puts the program's constants, and the variables of contexts that are made later, into pages of '1G', or
        '1G-or-less' (docs/limits.md)."""
        call(lib.ht_program_use_pages, self._handle, pages_of(pages))
        self._free.clear()

    def __call__(self, *inputs: Any, out: Mapping[str, Any] | None = None, threads: int = 1,
                 keep_subnormals: bool = False, **named: Any) -> dict[str, Any]:
        key = (threads, keep_subnormals)
        idle = self._free[key]
        try:
            context = idle.pop()
        except IndexError:  # also if the program is closed, which a new context reports
            context = Context(self, threads, keep_subnormals)
        try:
            if self.variables:
                context.reset()
            return context._run(inputs, named, out)
        finally:
            if context._held is not None and self._held is not None:
                idle.append(context)

    run = __call__

    def close(self) -> None:
        super().close()
        self._free.clear()

    def __repr__(self) -> str:
        if self.closed:
            return '<Program, closed>'
        return f'<Program {self.inputs} -> {self.outputs}, {self.info.policy}, {self.info.target}>'


def artefact_options(policy: str | None, target: str | None, batch: int, inputs: Any, verify: bool,
                     signature: Any, entry: str | None = None) -> tuple[Any, Any]:
    """A struct ht_artefact_options, and the objects to which it refers."""
    options = filled(_api.ht_artefact_options_init(), dict(
        policy=policy, target=target, batch=batch or 0, verify_full=int(verify), require_signature=signature, entry=entry))
    values = (_api.ht_value_info * len(inputs or {}))()
    for v, (name, shape) in zip(values, (inputs or {}).items()):
        v.name, v.rank = raw(name), len(shape)
        v.dim = (ctypes.c_int64 * len(shape))(*dimensions(shape))
    options.input, options.inputs = values, len(values)
    return options, values


def name_of(n: Any) -> str | None:
    """The name of an open size, "length=1..64", of its own."""
    return n.partition('=')[0] if isinstance(n, str) and '=' in n else None


def bounds_of(n: Any) -> tuple[int, int] | None:
    """The least and the largest value of an open size, "?", "1..64" or "length=1..64"; 0: not stated."""
    n = n.partition('=')[2] if name_of(n) else n
    if n == '?':
        return 0, 0
    found = re.fullmatch(r'(\d+)\.\.(\d+)', n) if isinstance(n, str) else None
    if not found:
        return None
    least, most = int(found[1]), int(found[2])
    if most < 1 or most < least:
        raise UsageError(f'a dimension of {n!r} has no size')
    return int64('a dimension', least), int64('a dimension', most)


def dimensions(shape: Any) -> list[int]:
    """A shape as numbers.  None and -1 are what the graph says; "?", "1..64" and "length=1..64" are open."""
    sizes = []
    for n in shape:
        if bounds_of(n):
            sizes.append(_api.HT_DIMENSION_OPEN)
            continue
        if n is None:
            n = _api.HT_DIMENSION_KEPT
        if isinstance(n, bool) or not hasattr(n, '__index__') or n.__index__() < -1:
            raise UsageError(f'a dimension of {n!r}: sizes are integers, and None or "?" is open')
        sizes.append(int64('a dimension', n))
    return sizes


def save(programs: list[Program], path: Any, *, external_weight: int = 0, sign_key: Any = None) -> None:
    """Writes several programs of one model as one artefact: variants for other targets, policies and shapes.

    The arguments are those of Program.save().  Raises UsageError if two programs have the same policy, target and
    shapes.
    """
    options = filled(_api.ht_save_options_init(), dict(external_weight=external_weight, sign_key=sign_key))
    handles = tuple(p._handle for p in programs)
    writer = created(lib.ht_artefact_writer_free, lib.ht_artefact_writer_new, ctypes.byref(options), keeps=handles)
    for handle in handles:
        call(lib.ht_artefact_writer_add, writer, handle)
    long_call(lib.ht_artefact_writer_write, writer, raw(path))


def is_artefact(path: Any) -> bool:
    """Whether the file begins like an artefact."""
    return bool(lib.ht_is_artefact(raw(path)))


def manifest(path: Any, *, policy: str | None = None, target: str | None = None, batch: int = 0,
             inputs: Mapping[str, tuple[int | str | None, ...]] | None = None, verify: bool = False,
             require_signature: Any = None) -> dict[str, Any]:
    """The manifest of an artefact; the arguments are those of Program.load()."""
    options, _ = artefact_options(policy, target, batch, inputs, verify, require_signature)
    found: dict[str, Any] = json_of(lib.ht_artefact_manifest, raw(path), ctypes.byref(options), long=True)
    return found


def diff(before: Any, after: Any) -> dict[str, Any]:
    """The differences of two artefacts: members of the manifests, variants, code of kernels, weights, signatures.

    The list `differences` of the result is empty if there are none.
    """
    out = Bytes()
    try:
        long_call(lib.ht_artefact_diff, raw(before), raw(after), None, _api.HT_FORMAT_JSON, late=(out,))
    except Verdict:  # raised if they differ
        pass
    import json
    found: dict[str, Any] = json.loads(bytes(out))
    return found


def sign(path: Any, key: Any, to: Any = None) -> None:
    """Signs an artefact with an Ed25519 key (a PEM file), in place or as the file `to`.

    Raises InputError if the artefact is damaged or the file contains no such key.
    """
    long_call(lib.ht_artefact_sign, raw(path), raw(key), raw(path if to is None else to))


def for_nets(path: Any, targets: Iterable[str], policy: str | None, batch: int, inputs: Any) -> list[Program]:
    """The programs of an artefact that make one net, each for another target; without targets for all targets of the
    artefact."""
    options, _ = artefact_options(policy, None, batch, inputs, False, None)
    wanted, wants = names(targets)
    found, n = (ctypes.c_void_p * _MOST_TARGETS)(), ctypes.c_size_t()
    long_call(lib.ht_aot_load, raw(path), ctypes.byref(options), wanted, wants, late=(found, len(found), ctypes.byref(n)))
    programs = []
    for pointer in found[:n.value]:
        handle = Handle(lib.ht_program_free)
        handle._as_parameter_.value = pointer
        programs.append(Program(handle))
    return programs
