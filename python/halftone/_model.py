"""Models: graphs as imported, and what can be made of them."""
from __future__ import annotations

import ctypes
import os

from . import _api
from ._arrays import Tensor, tensor_of
from ._errors import InputError, UsageError
from ._library import Handle, Out, Owner, call, created, filled, int64, json_of, lib, long_call, names, raw, raw_or_none, text_of
from ._policy import Policy, handle_of
from ._program import Program, bounds_of, dimensions, for_nets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from ._report import Report
    from ._session import Session
    from .cache import Cache

    Shapes = Mapping[str, tuple[int | str | None, ...]]


class Model(Owner):
    """A graph as imported, with the choice of what to feed and what to ask for.  It never changes: with_() makes
    another one.  `inputs` and `outputs` are lists of tensors with name, dtype and shape.

    >>> import halftone as ht
    >>> m = ht.load(GRAPH)
    >>> m.inputs, m.outputs
    ([x: float32[?,4]], [y: float32[?,3], top: int64[?]])
    """
    __slots__ = ('path', '_settings', '_state', '_outputs')
    path: str
    _settings: dict[str, Any]
    _outputs: list[Tensor] | None

    def __init__(self, path: Any, *, signature: str | None = None, max_nodes: int = 0,
                 inputs: Iterable[str] | None = None, outputs: Iterable[str] | None = None,
                 shapes: Shapes | None = None, batch: int | None = None, widen: str | None = None,
                 steady: Iterable[str] | None = None):
        self.path = os.fspath(path)
        self._settings = dict(signature=signature, max_nodes=max_nodes, inputs=inputs, outputs=outputs,
                              shapes=dict(shapes or {}), batch=batch, widen=widen, steady=steady)
        self._state = _state(self.path)
        self._outputs = None
        self._held = self._loaded()

    def _loaded(self) -> Handle:
        """A model of the library with our settings, that nobody else has."""
        s = self._settings
        options = filled(_api.ht_load_options_init(), dict(signature=s['signature'], max_nodes=s['max_nodes']))
        cancel = ctypes.c_int32(0)
        options.cancel = ctypes.pointer(cancel)
        try:
            handle = created(lib.ht_model_free, lib.ht_model_load, raw(self.path), ctypes.byref(options), long=True)
        except KeyboardInterrupt:
            cancel.value = 1
            raise
        if s['outputs'] is not None:
            call(lib.ht_model_set_outputs, handle, *names(s['outputs']))
        if s['inputs'] is not None:
            call(lib.ht_model_set_inputs, handle, *names(s['inputs']))
        for name, shape in s['shapes'].items():
            sizes = dimensions(shape)
            call(lib.ht_model_set_shape, handle, raw(name), len(sizes), (ctypes.c_int64 * len(sizes))(*sizes))
        if s['batch'] is not None:
            call(lib.ht_model_set_batch, handle, int64('batch', s['batch']))
        if s['widen'] is not None:
            call(lib.ht_model_widen, handle, raw(s['widen']))
        for name in s['steady'] or ():
            call(lib.ht_model_set_steady, handle, raw(name))
        for i, bounds in _open_sizes(s['shapes'], handle):
            if i or s['batch'] is None:
                call(lib.ht_model_set_open_dimension, handle, i, *bounds)
        return handle

    def with_(self, *, inputs: Iterable[str] | None = None, outputs: Iterable[str] | None = None,
              shapes: Shapes | None = None, batch: int | None = None, widen: str | None = None,
              steady: Iterable[str] | None = None) -> Model:
        """Another model of the same file.  What is not stated is as it is here.

        `inputs` are tensors to feed in place of computing them, `outputs` tensors to ask for, `shapes` those of
        inputs (None: as the graph says; "?" or "1..64": open, where the graph leaves it open), `batch` the first dimension of inputs where it is open.
        `widen` "f64" is the float64 variant: all floating-point tensors but the inputs are float64.
        `steady` are inputs of which programs keep what they make, such as packed weights, where Context.unchanged() tells
        that they are as they were.
        Raises UsageError for names that the graph lacks, InputError where the file is no longer the same.
        """
        self._handle
        if _state(self.path) != self._state:
            raise InputError(f'{self.path} has changed since it was loaded')
        s = dict(self._settings)
        s['shapes'] = {**s['shapes'], **(shapes or {})}
        s.update({k: v for k, v in dict(inputs=inputs, outputs=outputs, batch=batch, widen=widen,
                                         steady=steady).items() if v is not None})
        return type(self)(self.path, **s)

    def _set(self, shapes: Shapes | None, batch: int | None) -> Model:
        return self if not shapes and batch is None else self.with_(shapes=shapes, batch=batch)

    def _sized(self, shapes: Shapes | None, batch: int | None) -> Model:
        """As _set(), where first dimensions that stay open are one row: for what measures runs."""
        sized = self._set(shapes, batch)
        return sized.with_(batch=1) if any(v.shape and v.shape[0] is None for v in sized.inputs) else sized

    @property
    def inputs(self) -> list[Tensor]:
        found = []
        for i in range(lib.ht_model_inputs(self._handle)):
            v = _api.ht_value_info()
            lib.ht_model_input(self._handle, i, v)
            found.append(tensor_of(v))
        return found

    @property
    def outputs(self) -> list[Tensor]:
        if self._outputs is None:
            self._outputs = [
                Tensor(o['name'], o['dtype'],
                       None if o['shape'] is None else tuple(None if n < 0 else n for n in o['shape']))
                for o in self.inspect()['outputs']]
        return self._outputs

    @property
    def finite(self) -> bool:
        """Whether all float constants that the outputs need are finite (values of checkpoints are not looked at)."""
        return bool(lib.ht_model_is_finite(self._handle))

    def inspect(self) -> dict[str, Any]:
        """Signatures, inputs, outputs, op histogram, what is unsupported, multiply-adds, bytes."""
        found: dict[str, Any] = json_of(lib.ht_model_inspect, self._handle, _api.HT_FORMAT_JSON, long=True)
        return found

    def missing(self) -> list[dict[str, Any]]:
        """What has no kernel: a dictionary each of an op and a reason, with `op`, `why`, `nodes` (their names) and `blocks`, how
        many other nodes wait for these.  Variables without values count as zeros."""
        found: list[dict[str, Any]] = json_of(lib.ht_model_missing, self._handle, _api.HT_FORMAT_JSON, long=True)['missing']
        return found

    def compile(self, policy: Policy | str | None = None, target: str | None = None, *,
                inputs: Shapes | None = None, batch: int | None = None, options: Mapping[str, object] | None = None,
                threads: int = 1, cache: Cache | str | None = None, numerics: bool = False,
                conv_method: str | None = None, block_method: str | None = None,
                batch_method: str | None = None, sources: bool = False, lines: bool = False, nodes: bool = False,
                progress: Callable[[str, int, int], None] | bool | None = None) -> Program:
        """Compiles for a target ("host", "x86-64-v3", …) under a policy, by default the one that keeps every dtype.

        `inputs` states shapes, `batch` the first dimension of those inputs where it is open.  A dimension of
        "?" or "1..64" stays open: the program then runs for any of these sizes, and so does one that is open
        and not stated.  `options` are the policy's.  `threads` are the compiler's.  `cache` is
        a halftone.cache.Cache, or "off", "ro" or "rw" for the one of the user; None is $HALFTONE_CACHE_MODE, or "rw".
        With `numerics` Context.numerics() has counts; methods are those of docs/modes.md; with `sources` an
        artefact names the model's files by their SHA-256; with `lines` Program.announce() tells lines; with `nodes`
        Context.divide() knows every node that a kernel computes.

        A compilation that takes longer than a second shows how far it is in a terminal and in a notebook; elsewhere
        the logger "halftone" gets a line every ten seconds.  With `progress` False it does not; with True it does
        anywhere; a function is called with a phase and how many of how many parts are done, in the thread that
        compiles, and ends the compilation if it raises.

        >>> import halftone as ht
        >>> ht.load(GRAPH).compile("allow_mix_precision_bf16", inputs={"x": (8, 4)}).inputs
        [x: float32[8,4]]
        """
        from ._progress import Watch
        from .cache import opened
        watch = Watch(progress)
        made, keep = compile_options(policy, options, target, threads=threads, numerics=int(numerics),
                                     conv_method=conv_method, block_method=block_method, batch_method=batch_method,
                                     sources=int(sources), lines=int(lines), nodes=int(nodes))
        with opened(cache) as store:
            if store is None:
                handle = self._set(inputs, batch)._handle
            else:  # a model of its own, since a cache is set on it
                handle = self.with_(shapes=inputs, batch=batch)._handle
                handle.keeps = (store._handle,)
                lib.ht_model_set_cache(handle, store._handle)
            with watch.of(made):
                compiled = Handle(lib.ht_program_free)
                long_call(lib.ht_compile, handle, Struct(made, keep, watch), late=(Out(compiled),), waiting=watch.show)
            return Program(compiled)

    def explain(self, policy: Policy | str | None = None, target: str | None = None, *,
                inputs: Shapes | None = None, batch: int | None = None,
                options: Mapping[str, object] | None = None) -> Report:
        """What a policy decides for every tensor, and why.  Arguments as of compile().

        >>> import halftone as ht
        >>> ht.load(GRAPH).explain("force_fp16").casts[0]["source"]
        'w'
        """
        from ._report import Report
        handle = self._set(inputs, batch)._handle
        made, keep = compile_options(policy, options, target)
        return Report(created(lib.ht_report_free, lib.ht_report_new, handle, Struct(made, keep), long=True,
                              keeps=(handle, keep)))

    def convert(self, policy: Policy | str | None = None, path: Any = None, *,
                inputs: Shapes | None = None, batch: int | None = None,
                options: Mapping[str, object] | None = None) -> None:
        """Writes the graph with the policy's casts, in TensorFlow's ops, for other programs.

        By the suffix of `path`: .pbtxt, .hir, .json (TF.js), else a GraphDef.  Without a policy the graph as
        imported.  Raises UsageError where `path` is a file of the model.
        """
        if path is None:
            raise UsageError('convert() needs the path of the file to write')
        long_call(lib.ht_convert, self._set(inputs, batch)._handle, handle_of(policy, options), raw(path))

    def rewrite(self, pipeline: str, *, stop_after: str | None = None, policy: Policy | str | None = None,
                options: Mapping[str, object] | None = None, target: str | None = None, path: Any = None) -> str:
        """The text form of the graph behind passes, named with commas; or "" where it goes to the file `path`."""
        made, keep = compile_options(policy, options, target)
        return text_of(lib.ht_rewrite, self._handle, raw(pipeline), raw_or_none(stop_after), Struct(made, keep),
                       raw_or_none(path), long=True).decode()

    def emit(self, form: str, *, stop_after: str | None = None, policy: Policy | str | None = None,
             options: Mapping[str, object] | None = None, target: str | None = None, path: Any = None) -> bytes:
        """A stage of compiling: "hir", "kernels", "llvm", "asm", or "obj", an archive of object files."""
        made, keep = compile_options(policy, options, target)
        return text_of(lib.ht_emit_code, self._handle, Struct(made, keep), raw(form), raw_or_none(stop_after),
                       raw_or_none(path), long=True)

    def session(self, *, train_op: str | None = None, loss: str | None = None, fetches: Iterable[str] = (),
                policy: Policy | str | None = None, options: Mapping[str, object] | None = None,
                target: str | None = None, threads: int = 1, seed: int | None = None,
                init_op: str | None = None, loss_scale: str | None = None, accelerate_train_mode: str | None = None,
                steps: int | None = None, target_loss: float | None = None, iterations_per_loop: int = 1,
                timeout: float | None = None, kernel_timeout: float | None = None, wait_timeout: float | None = None,
                device: int | None = None, pages: str | None = None) -> Session:
        """A session, whose variables steps of a training change (docs/train.md).

        Session.step() runs `train_op` (default: the one that a MetaGraphDef lists) and returns `loss` and `fetches`.  Random
        ops without seeds draw by `seed` (None: by a seed of the system's).  `init_op` initialises variables before the ops that the model names.
        `loss_scale` is a value of the option --loss-scale, such as 'dynamic' or 'fixed:1024'; Session.loss_scale has its state.
        `accelerate_train_mode`, such as 'fast1|step|0.9' or 'phases=fast1:100,original', computes phases of the steps in low
        precision, with `steps` as the number of all steps or `target_loss`; Session.phase and Session.counters have its state.
        `iterations_per_loop` is the number of steps that Session.loop() runs.
        Limits of time, in seconds, are of each run, as of Program.context(); so is `device`.  `pages` says what variables are in, as
        Program.use_pages() does of constants.

        >>> import halftone as ht
        >>> with ht.load(GRAPH).session() as s:
        ...     s.run("y", x=[[1, 1, 1, 1]])["y"]
        array([[3.   , 0.875, 1.375]], dtype=float32)
        """
        from ._program import limits, pages_of
        from ._session import Session
        limited = limits(timeout=timeout, kernel_timeout=kernel_timeout, wait_timeout=wait_timeout, device=device)
        return Session(self, train_op, loss, fetches, policy, options, threads, seed, init_op, target, loss_scale, accelerate_train_mode,
                       steps, target_loss, iterations_per_loop, limited, pages_of(pages))

    def gradients(self, train_op: str) -> list[str]:
        """Names of the tensors that the optimiser steps which `train_op` runs take as gradients; a session can fetch them."""
        found, n = ctypes.POINTER(ctypes.c_char_p)(), ctypes.c_size_t()
        call(lib.ht_model_gradients, self._handle, raw(train_op), late=(ctypes.byref(found), ctypes.byref(n)))
        return [os.fsdecode(found[i]) for i in range(n.value)]

    def __repr__(self) -> str:
        if self.closed:
            return f'<Model {self.path!r}, closed>'
        return f'<Model {self.path!r}: {self.inputs} -> {self.outputs}>'


class Struct:
    """A struct to pass by its address, with what its members refer to."""
    __slots__ = ('_as_parameter_', 'keeps')

    def __init__(self, struct: Any, *keeps: object):
        self._as_parameter_, self.keeps = ctypes.byref(struct), keeps


def compile_options(policy: Policy | str | None, options: Mapping[str, object] | None, target: str | None,
                    **others: object) -> tuple[Any, Handle | None]:
    """A struct ht_compile_options, and the policy that it refers to."""
    handle = handle_of(policy, options)
    made = filled(_api.ht_compile_options_init(), dict(target=target, **others))
    if handle:
        made.policy = handle._as_parameter_
    return made, handle


def _is_open(model: Handle, name: str, dimension: int) -> bool:
    """Whether an input leaves a dimension open."""
    i, v = ctypes.c_size_t(), _api.ht_value_info()
    return bool(lib.ht_model_input_named(model, raw(name), i) and lib.ht_model_input(model, i, v) and (
        v.rank < 0 or (v.rank > dimension and v.dim[dimension] < 0)))


def _open_sizes(shapes: Shapes, model: Handle) -> Iterable[tuple[int, tuple[int, int]]]:
    """The bounds that all dimensions of one number have in common that are "?" or "1..64"."""
    for i in range(max((len(shape) for shape in shapes.values()), default=0)):
        stated = [b for name, shape in shapes.items()
                  if i < len(shape) and (b := bounds_of(shape[i])) and _is_open(model, name, i)]
        least, most = max((b[0] for b in stated), default=0), min((b[1] for b in stated if b[1]), default=0)
        if most and most < least:
            raise UsageError('open inputs have one size, and their ranges have none in common')
        if stated:
            yield i, (least, most)


def _state(path: str) -> tuple[int, ...]:
    """What changes when the file does; nothing where it cannot be asked, which loading says better."""
    try:
        s = os.stat(path)
    except (OSError, ValueError):
        return ()
    return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns


def load(path: Any, *, signature: str | None = None, max_nodes: int = 0, inputs: Iterable[str] | None = None,
         outputs: Iterable[str] | None = None, shapes: Shapes | None = None, batch: int | None = None,
         widen: str | None = None, steady: Iterable[str] | None = None) -> Model:
    """Reads a GraphDef (.pb, .pbtxt), MetaGraphDef (.meta), TF.js model (model.json), SavedModel folder or .hir file.

    `signature` is one of a SavedModel; graphs with more than `max_nodes` nodes raise LimitError; the others are
    those of Model.with_().  Raises InputError with path and place where the file is not valid.  The file is
    mapped: replace it by renaming, never by writing into it.

    >>> import halftone as ht
    >>> ht.load(GRAPH, outputs=["y"]).outputs
    [y: float32[?,3]]
    """
    return Model(path, signature=signature, max_nodes=max_nodes, inputs=inputs, outputs=outputs, shapes=shapes,
                 batch=batch, widen=widen, steady=steady)


def run(what: Any, *inputs: Any, policy: Policy | str | None = None, out: Mapping[str, Any] | None = None,
        threads: int = 1, **named: Any) -> dict[str, Any]:
    """Runs an artefact, a model or the path of either once, and returns its outputs by their names.

    A model is compiled first; open dimensions get the sizes of what is fed.

    >>> import halftone as ht
    >>> ht.run(GRAPH, x=[[1, 2, 3, 4], [0, 0, 0, 0]])["top"]
    array([0, 0])
    """
    from ._program import is_artefact
    if isinstance(what, Program):
        return what(*inputs, out=out, threads=threads, **named)
    if not isinstance(what, Model) and is_artefact(what):
        return Program.load(what, policy=policy if isinstance(policy, str) else None)(
            *inputs, out=out, threads=threads, **named)
    model = what if isinstance(what, Model) else load(what)
    if len(inputs) == 1 and isinstance(inputs[0], dict):
        named = {**inputs[0], **named}
        inputs = ()
    feeds = dict(zip([t.name for t in model.inputs], inputs))
    shapes = {name: _shape(x) for name, x in {**feeds, **named}.items()}
    return model.compile(policy, inputs=shapes)(*inputs, out=out, threads=threads, **named)


def _shape(x: Any) -> tuple[int, ...]:
    import numpy
    return tuple(x.shape) if hasattr(x, 'shape') else numpy.shape(x)


def aot(model: Model | Program | Iterable[Program] | str | os.PathLike[str], directory: Any, *, name: str | None = None,
        prefix: str | None = None, policy: Policy | str | None = None,
        targets: Iterable[str] | None = None, inputs: Shapes | None = None, batch: int | None = None,
        external_weights: bool = False, keep_subnormals: bool = False, max_iterations: int = 0) -> dict[str, Any]:
    """Writes files with which C and C++ programs run a model without Halftone (docs/aot.md) to a folder.

    A model is compiled for every target, by default for this machine's.  The path is that of an artefact, whose
    variants are taken, by default for all targets; of a model load() is needed first.  `name` is that of the net and its files, `prefix` that of its C names.
    A loop that runs more often than `max_iterations` ends the run (0: no limit).
    Returns the files and their sizes.  Raises UnsupportedError where nodes are computed by the library.
    """
    if isinstance(model, Model):
        programs = [model.compile(policy, t, inputs=inputs, batch=batch) for t in targets or ('host',)]
    elif isinstance(model, (str, os.PathLike)):
        programs = for_nets(model, targets or (), policy.name if isinstance(policy, Policy) else policy, batch or 0, inputs)
    else:
        programs = [model] if isinstance(model, Program) else list(model)
    options = filled(_api.ht_aot_options_init(), dict(
        name=name, prefix=prefix, external_weights=int(external_weights), keep_subnormals=int(keep_subnormals), max_iterations=max_iterations))
    handles = [p._handle for p in programs]
    pointers = (ctypes.c_void_p * len(handles))(*[h._as_parameter_.value for h in handles])
    found: dict[str, Any] = json_of(lib.ht_aot_write, pointers, len(handles), Struct(options, handles), raw(directory),
                                    _api.HT_FORMAT_JSON, long=True)
    return found
