"""Models: graphs as imported, and the operations on them."""
from __future__ import annotations

import ctypes
import os

from . import _api
from ._arrays import Tensor, tensor_of
from ._errors import InputError, UsageError
from ._library import Handle, Out, Owner, call, created, filled, int64, json_of, lib, long_call, names, raw, raw_or_none, text_of
from ._policy import Policy, handle_of
from ._program import Program, bounds_of, dimensions, for_nets, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from ._report import Report
    from ._session import Session
    from .cache import Cache

    Shapes = Mapping[str, tuple[int | str | None, ...]]


class Model(Owner):
    """A graph as imported, with the choice of its inputs and outputs.  It never changes: with_() makes another one.
    `inputs` and `outputs` are lists of tensors with name, dtype and shape.

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
        """A model of the library with the settings of this one, which nothing else uses."""
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
            for i, n in enumerate(shape):
                if (size := name_of(n)) is not None:
                    call(lib.ht_model_set_open_size, handle, raw(name), i, raw(size), *(bounds_of(n) or (0, 0)))
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
        """Another model of the same file.  Settings that are not given are those of this model.

        `inputs` are tensors that the caller supplies instead of letting the program compute them, `outputs` the tensors
        to return, `shapes` those of inputs (None: as in the graph; "?" or "1..64": open, even if the graph states a
        size; "length=1..64": likewise, a size of its own that all dimensions with this name have), `batch` the first dimension of inputs in which it is open.  `widen` "f64" makes the float64
        variant: all floating-point tensors except the inputs are float64.  `steady` are inputs from which programs keep
        derived data, such as packed weights, between runs for which Context.unchanged() says that they did not change.
        Raises UsageError for names that the graph lacks, InputError if the file has changed.
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
        """As _set(), but open first dimensions become one row: for functions that measure runs."""
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
        """Whether all float constants that the outputs need are finite (values of checkpoints are not checked)."""
        return bool(lib.ht_model_is_finite(self._handle))

    def inspect(self) -> dict[str, Any]:
        """Signatures, inputs, outputs, op histogram, unsupported ops, multiply-adds, bytes."""
        found: dict[str, Any] = json_of(lib.ht_model_inspect, self._handle, _api.HT_FORMAT_JSON, long=True)
        return found

    def missing(self) -> list[dict[str, Any]]:
        """The ops without a kernel: for each op and reason a dictionary with `op`, `why`, `nodes` (their names) and
        `blocks`, the number of other nodes that depend on these.  Variables without values count as zeros."""
        found: list[dict[str, Any]] = json_of(lib.ht_model_missing, self._handle, _api.HT_FORMAT_JSON, long=True)['missing']
        return found

    def compile(self, policy: Policy | str | None = None, target: str | None = None, *,
                inputs: Shapes | None = None, batch: int | None = None, options: Mapping[str, object] | None = None,
                threads: int = 1, cache: Cache | str | None = None, numerics: bool = False,
                conv_method: str | None = None, block_method: str | None = None,
                batch_method: str | None = None, sources: bool = False, lines: bool = False, nodes: bool = False,
                progress: Callable[[str, int, int], None] | bool | None = None) -> Program:
        """Compiles for a target ("host", "x86-64-v3", …) under a policy, by default the one that keeps every dtype.

        `inputs` states shapes, `batch` the first dimension of inputs in which it is open.  A dimension of "?" or
        "1..64" stays open: the program then runs for any of these sizes, and likewise for a dimension that is open and
        not stated.  `options` are the policy's, `threads` the number of the compiler's threads. `cache` is a
        halftone.cache.Cache, or "off", "ro" or "rw" for the user's cache; None means $HALFTONE_CACHE_MODE, or "rw".
        With `numerics`, Context.numerics() has counts.  docs/modes.md describes the methods.  With `sources`, an
        artefact names the model's files by their SHA-256; with `lines`, Program.announce() gives line numbers; with
        `nodes`, Context.divide() knows every node that a kernel computes.

        A compilation that takes longer than a second shows its progress in a terminal and in a notebook; elsewhere the
        logger "halftone" gets a line every ten seconds. `progress` False turns this off, True turns it on everywhere.
        A function is called in the thread that compiles, with a phase, the number of finished parts and the number of
        all parts; if it raises an exception, the compilation ends.

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
            else:  # the cache is set on the model, so it must be a separate one
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
        """The decisions of a policy for every tensor, with reasons.  The arguments are those of compile().

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

        The suffix of `path` selects the format: .pbtxt, .hir, .json (TF.js), otherwise GraphDef.  Without a policy, it
        writes the graph as imported.  Raises UsageError if `path` is a file of the model.
        """
        if path is None:
            raise UsageError('convert() needs the path of the file to write')
        long_call(lib.ht_convert, self._set(inputs, batch)._handle, handle_of(policy, options), raw(path))

    def rewrite(self, pipeline: str, *, stop_after: str | None = None, policy: Policy | str | None = None,
                options: Mapping[str, object] | None = None, target: str | None = None, path: Any = None) -> str:
        """The text form of the graph after passes, whose names are separated by commas; "" if it is written to the file
        `path`."""
        made, keep = compile_options(policy, options, target)
        return text_of(lib.ht_rewrite, self._handle, raw(pipeline), raw_or_none(stop_after), Struct(made, keep),
                       raw_or_none(path), long=True).decode()

    def emit(self, form: str, *, stop_after: str | None = None, policy: Policy | str | None = None,
             options: Mapping[str, object] | None = None, target: str | None = None, path: Any = None) -> bytes:
        """The result of a stage of compilation: "hir", "kernels", "llvm", "asm", or "obj", an archive of object files."""
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
        """A session, whose variables training steps change (docs/train.md).

        Session.step() runs `train_op` (default: the one that a MetaGraphDef lists) and returns `loss` and `fetches`.
        Random ops without seeds draw numbers by `seed` (None: by a seed from the system).  `init_op` initialises
        variables before the ops that the model names. `loss_scale` is a value of the option --loss-scale, such as
        'dynamic' or 'fixed:1024'; Session.loss_scale has its state. `accelerate_train_mode`, such as 'fast1|step|0.9'
        or 'phases=fast1:100,original', computes phases of the steps in low precision, with `steps` as the number of all
        steps, or `target_loss`; Session.phase and Session.counters have its state. `iterations_per_loop` is the number
        of steps that Session.loop() runs. Limits of time, in seconds, apply to each run, as in Program.context(); so
        does `device`.  `pages` is the kind of memory pages of variables, as in Program.use_pages().

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

    def gradients(self, train_op: str, loss: str | None = None) -> list[str]:
        """Names of the tensors that `train_op` uses as gradients; a session can fetch them.  Those of updates that consist of elementary ops are
        found if the loss is stated."""
        found, n = ctypes.POINTER(ctypes.c_char_p)(), ctypes.c_size_t()
        call(lib.ht_model_gradients, self._handle, raw_or_none(loss), raw(train_op), late=(ctypes.byref(found), ctypes.byref(n)))
        return [os.fsdecode(found[i]) for i in range(n.value)]

    def __repr__(self) -> str:
        if self.closed:
            return f'<Model {self.path!r}, closed>'
        return f'<Model {self.path!r}: {self.inputs} -> {self.outputs}>'


class Struct:
    """A struct that is passed by its address, with the objects to which its members refer."""
    __slots__ = ('_as_parameter_', 'keeps')

    def __init__(self, struct: Any, *keeps: object):
        self._as_parameter_, self.keeps = ctypes.byref(struct), keeps


def compile_options(policy: Policy | str | None, options: Mapping[str, object] | None, target: str | None,
                    **others: object) -> tuple[Any, Handle | None]:
    """A struct ht_compile_options, and the policy to which it refers."""
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
    """The common bounds of all dimensions of one number that are "?" or "1..64"."""
    for i in range(max((len(shape) for shape in shapes.values()), default=0)):
        stated = [b for name, shape in shapes.items()
                  if i < len(shape) and name_of(shape[i]) is None and (b := bounds_of(shape[i])) and _is_open(model, name, i)]
        least, most = max((b[0] for b in stated), default=0), min((b[1] for b in stated if b[1]), default=0)
        if most and most < least:
            raise UsageError('open inputs have one size, and their ranges have none in common')
        if stated:
            yield i, (least, most)


def _state(path: str) -> tuple[int, ...]:
    """A value that changes when the file does; empty if the system does not provide it, since loading reports the error
    better."""
    try:
        s = os.stat(path)
    except (OSError, ValueError):
        return ()
    return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns


def load(path: Any, *, signature: str | None = None, max_nodes: int = 0, inputs: Iterable[str] | None = None,
         outputs: Iterable[str] | None = None, shapes: Shapes | None = None, batch: int | None = None,
         widen: str | None = None, steady: Iterable[str] | None = None) -> Model:
    """Reads a GraphDef (.pb, .pbtxt), MetaGraphDef (.meta), TF.js model (model.json), SavedModel folder or .hir file.

    `signature` is one of a SavedModel; a graph with more than `max_nodes` nodes raises LimitError; the other arguments
    are those of Model.with_().  Raises InputError with path and place if the file is not valid.  The file is mapped:
    replace it by renaming, and never write into it.

    >>> import halftone as ht
    >>> ht.load(GRAPH, outputs=["y"]).outputs
    [y: float32[?,3]]
    """
    return Model(path, signature=signature, max_nodes=max_nodes, inputs=inputs, outputs=outputs, shapes=shapes,
                 batch=batch, widen=widen, steady=steady)


def run(what: Any, *inputs: Any, policy: Policy | str | None = None, out: Mapping[str, Any] | None = None,
        threads: int = 1, **named: Any) -> dict[str, Any]:
    """Runs an artefact, a model, or the file at a path once, and returns its outputs by name.

    A model is compiled first; its open dimensions get the sizes of the arrays.

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

    A Model is compiled for every target, by default for this machine's.  A path is that of an artefact, whose variants
    are used, by default for all targets.  (To compile a model file, load() it first.)  `name` is that of the net and
    its files, `prefix` that of its C names.  A loop that runs more often than `max_iterations` ends the run (0: no
    limit). Returns the files and their sizes.  Raises UnsupportedError if a kernel of the library computes a node.
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
