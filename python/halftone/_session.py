"""Sessions: training, step by step."""
from __future__ import annotations

import ctypes
import os
import struct
from time import perf_counter
from typing import NamedTuple

from . import _api
from ._arrays import Tensor, checked, code_of, dense, fill_strings, numpy_dtype, tensor_of
from ._errors import UsageError, Verdict
from ._library import Owner, call, created, filled, int64, lib, long_call, names, raw, raw_or_none, text
from ._model import Model, Struct, compile_options
from ._program import artefact_options, fitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ._policy import Policy


_LONG = 0.05  # seconds after which Ctrl-C must not have to wait for a run


class LossScale(NamedTuple):
    """A loss scale and its counters."""
    scale: float  # the scale of the next step
    good: int     # steps with finite gradients since the last reset of the counters or the last overflow
    bad: int      # steps whose gradients overflowed, since the last reset of the counters
    runs: int     # all steps with a loss scale
    skipped: int  # steps whose gradients were not finite
    finite: bool  # whether the gradients of the last step were finite
    diverges: bool  # the last 100 steps or more were skipped, and the scale is fixed or 1


class StepMemory(NamedTuple):
    """The memory of a training step, in bytes, by what it is for (docs/train-memory.md)."""
    variables: int    # those that other nodes than updates read
    slots: int        # all other variables
    gradients: int    # that updates take: the most that are alive at once
    copies: int       # of variables in another type or order: likewise; constants; what is kept from run to run
    activations: int  # all other intermediate results: likewise
    arena: int        # of intermediate results
    peak: int         # variables, slots, what is kept from run to run, and arena
    bound: int        # variables + slots + gradients + copies + 1.15 activations


class Counters(NamedTuple):
    """The counters of the vendor's TellMeStepOrLossHook, on which phases by step or by loss depend."""
    step_now: int      # finished steps, including those of earlier trainings
    total_step: int    # number of steps of the training
    loss_now: float    # the last loss; 0: it is not known
    target_loss: float


class Loop(NamedTuple):
    """The results of a loop of steps."""
    steps: int
    loss: float       # of the last step; NaN: the session has no loss, or the loop ran no step
    mean_loss: float
    results: dict[str, Any]  # of the last step


class _Phases(Owner):
    """The phase of each step, and the policies of the phases."""
    __slots__ = ('compile', 'kinds', 'kind')

    def __init__(self, mode: str | None, steps: int | None, target_loss: float | None, loop: int, policy: Policy | str | None,
                 options: Mapping[str, object] | None, target: str | None, threads: int):
        if mode is not None and not isinstance(policy, (str, type(None))):
            raise UsageError('accelerate_train_mode makes policies of its own: state yours by its name, and its options as options')
        if mode is not None and steps is None and not mode.startswith('phases=') and '|loss' not in mode:
            raise UsageError('phases by step need steps, the number of all steps of the training')
        own = compile_options(policy, options, target, threads=threads)
        made = filled(_api.ht_train_phases_options_init(), dict(
            mode=mode, steps=steps or 0, loop=loop, has_target_loss=int(target_loss is not None), target_loss=target_loss or 0., environment=1))
        if own[1]:
            made.policy = own[1]._as_parameter_
        self._held = created(lib.ht_train_phases_free, lib.ht_train_phases_new, ctypes.byref(made))
        self.kinds = [lib.ht_train_phases_kind(self._handle, i) for i in range(lib.ht_train_phases_count(self._handle))]
        self.kind = self.kinds[0]
        self.compile = {k: own if k == _api.HT_PHASE_ORIGINAL else self._low(k, options or {}, target, threads) for k in {*self.kinds}}

    @staticmethod
    def _low(kind: int, options: Mapping[str, object], target: str | None, threads: int) -> tuple[Any, Any]:
        """The policy of a phase in low precision; a mode among the options applies to the other phases."""
        name = text(lib.ht_phase_policy(kind, int(any('precision_mode_v2' in key for key in options))))
        others = {k: v for k, v in options.items() if 'precision_mode' not in k or 'op_precision' in k}
        return compile_options(name, others, target, threads=threads)

    def next(self) -> None:
        self.kind = self.kinds[lib.ht_train_phases_next(self._handle)]

    def counters(self) -> Any:
        made = _api.ht_phase_counters_init()
        lib.ht_train_phases_counters(self._handle, made)
        return made


class _Entry:
    """A program of the session, and how its arrays are passed."""
    __slots__ = ('name', 'program', 'inputs', 'outputs', 'keeps', 'defaults', 'long')

    def __init__(self, name: str, program: Any, keeps: object):
        self.name, self.program, self.keeps = raw(name), program, keeps
        self.defaults: set[int] = set()
        self.long = True  # the duration of a run is not known yet
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        for of, count, at in ((self.inputs, lib.ht_program_inputs, lib.ht_program_input),
                              (self.outputs, lib.ht_program_outputs, lib.ht_program_output)):
            for i in range(count(program)):
                v = _api.ht_value_info()
                at(program, i, v)
                of.append(tensor_of(v))
                if of is self.inputs and v.value:
                    self.defaults.add(i)

    def input_name(self, name: str) -> str:
        """The name of the input that is called so, also by the key of a signature."""
        i = ctypes.c_size_t()
        return self.inputs[i.value].name if lib.ht_program_input_named(self.program, raw(name), i) else name

    def room(self, ins: Any, i: int) -> tuple[int, ...]:
        """The shape of the array for output `i`: the largest, where data decide."""
        shape = self.outputs[i].shape or ()
        if None not in shape:
            return shape  # type: ignore[return-value]
        dim, size = (ctypes.c_int64 * len(shape))(), ctypes.c_size_t()
        call(lib.ht_program_output_for, self.program, ins, len(ins), i, dim, size)
        return tuple(dim)


class _Variables(Owner):
    """Variables, and runs of the entries that use them."""
    __slots__ = ()

    def _run_entry(self, entry: _Entry, feeds: Mapping[str, Any]) -> dict[str, Any]:
        import numpy
        ins = (_api.ht_array * len(entry.inputs))()
        given = {entry.input_name(name): x for name, x in feeds.items()}
        held = []
        for i, t in enumerate(entry.inputs):
            if t.name not in given and i not in entry.defaults:
                raise UsageError(f'input {t.name!r} is not fed')
            array = checked(f'input {t.name!r}', dense(f'input {t.name!r}', given[t.name], t), t) if t.name in given else None
            held.append(array)
            shape = tuple(n or 0 for n in t.shape or ())
            ins[i].dtype, ins[i].rank, ins[i].dim = code_of(t.dtype), len(shape), (ctypes.c_int64 * len(shape))(*shape)
            ins[i].data = array.address if array else None
            ins[i].bytes = array.bytes if array else _bytes(t)
        outs, results = (_api.ht_array * len(entry.outputs))(), {}
        for i, (a, t) in enumerate(zip(outs, entry.outputs)):
            results[t.name] = r = numpy.empty(entry.room(ins, i), numpy_dtype(t.dtype))
            at = None if t.dtype == 'string' else r.ctypes.data  # strings stay in the entry's context
            a.data, a.bytes, a.dtype, a.rank = at, r.nbytes, code_of(t.dtype), r.ndim
            a.dim = (ctypes.c_int64 * r.ndim)(*r.shape)
        run = long_call if entry.long else call
        begun = perf_counter()
        self._alone(lambda: run(lib.ht_session_run, self._handle, entry.name, ins, len(ins), outs, len(outs)))
        entry.long = perf_counter() - begun > _LONG
        context = lib.ht_session_context(self._handle, entry.name)
        for i, t in enumerate(entry.outputs):
            if None in (t.shape or ()):
                results[t.name] = fitted(context, i, results[t.name])
            if t.dtype == 'string':
                size = ctypes.c_size_t()
                block = lib.ht_context_strings(context, i, size)
                fill_strings(results[t.name], block, size.value)
        return results

    def variables(self) -> dict[str, Any]:
        """The variables that have values, as copies, by name."""
        import numpy
        got = {}
        for i in range(lib.ht_session_variables(self._handle)):
            v = _api.ht_value_info()
            lib.ht_session_variable(self._handle, i, v)
            if v.value:
                t = tensor_of(v)
                got[t.name] = numpy.empty([n or 0 for n in t.shape or ()], numpy_dtype(t.dtype))
                ctypes.memmove(got[t.name].ctypes.data, v.value, got[t.name].nbytes)
        return got

    def assign(self, values: Mapping[str, Any]) -> None:
        """Sets variables by name."""
        known = {}
        for i in range(lib.ht_session_variables(self._handle)):
            v = _api.ht_value_info()
            lib.ht_session_variable(self._handle, i, v)
            known[text(v.name)] = i, tensor_of(v)
        for name, value in values.items():
            if name not in known:
                raise UsageError(f'the session has no variable {name!r}')
            i, t = known[name]
            a, d = _api.ht_array(), checked(f'variable {name!r}', dense(f'variable {name!r}', value, t), t)
            a.data, a.bytes, a.dtype, a.rank = d.address, d.bytes, code_of(t.dtype), len(d.shape)
            a.dim = (ctypes.c_int64 * len(d.shape))(*d.shape)
            call(lib.ht_session_assign, self._handle, i, ctypes.byref(a))


class Entries(_Variables):
    """Programs of artefacts over one set of variables (docs/artefact.md), without their model; one thread at a time may
    use it.

        entries = ht.Entries()
        entries.load('m.htx', entry='step', policy='allow_mix_precision_bf16')
        entries.run('step', x=x, y=y)['loss']
    """
    __slots__ = ('_entries',)

    def __init__(self, *, threads: int = 1, seed: int | None = None):
        made = filled(_api.ht_session_options_init(), dict(
            threads=threads, seeded=int(seed is not None), seed=0 if seed is None else int64('seed', seed)))
        self._held = created(lib.ht_session_free, lib.ht_session_new, ctypes.byref(made))
        self._entries: dict[str, _Entry] = {}

    def load(self, path: Any, *, entry: str | None = None, name: str | None = None, policy: str | None = None, target: str | None = None,
             batch: int = 0, inputs: Mapping[str, tuple[int | str | None, ...]] | None = None, require_signature: Any = None) -> None:
        """Adds an entry of an artefact as `name`, by default under its own name; the other arguments are those of
        Program.load().

        Variables that no earlier entry had begin with the artefact's values.
        """
        options, keep = artefact_options(policy, target, batch, inputs, False, require_signature, entry)
        program = ctypes.c_void_p()
        long_call(lib.ht_program_load, raw(path), ctypes.byref(options), late=(ctypes.byref(program),))
        info = _api.ht_program_info_init()
        lib.ht_program_about(program, info)
        name = name or text(info.entry) or 'entry'
        call(lib.ht_session_take, self._handle, raw(name), program)
        self._entries[name] = _Entry(name, lib.ht_session_program(self._handle, raw(name)), keep)

    def run(self, name: str, feeds: Mapping[str, Any] | None = None, **named: Any) -> dict[str, Any]:
        """Runs an entry once, and returns its outputs by name."""
        if name not in self._entries:
            raise UsageError(f'there is no entry {name!r}; there are {", ".join(map(repr, self._entries)) or "none"}')
        return self._run_entry(self._entries[name], {**(feeds or {}), **named})

    def save(self, prefix: Any) -> None:
        """Writes a checkpoint that TensorFlow restores: PREFIX.index and its shard."""
        self._alone(lambda: long_call(lib.ht_session_save, self._handle, raw(prefix)))

    def restore(self, prefix: Any) -> None:
        """Sets the variables to the values of a checkpoint.  After a checkpoint of save(), runs continue with the same
        bits."""
        long_call(lib.ht_session_restore, self._handle, None, raw(prefix), None)

    def __repr__(self) -> str:
        return '<Entries, closed>' if self.closed else f'<Entries: {", ".join(self._entries)}>'


class Session(_Variables):
    """The variables of a model, and programs over them: training steps, evaluations, checkpoints.

    Made by Model.session(); one thread at a time may use it.
    """
    __slots__ = ('_model', '_loss', '_train_op', '_fetches', '_entries', '_phases', '_policy', '_begun', '_checked', 'steps', '_init', '_loop', '_last', '_stepped')

    def __init__(self, model: Model, train_op: str | None, loss: str | None, fetches: Iterable[str],
                 policy: Policy | str | None, options: Mapping[str, object] | None, threads: int, seed: int | None,
                 init_op: str | None, target: str | None, loss_scale: str | None, accelerate_train_mode: str | None, steps: int | None,
                 target_loss: float | None, iterations_per_loop: int, limited: Mapping[str, Any], pages: int):
        if iterations_per_loop < 1:
            raise UsageError('iterations_per_loop: a loop has at least one step')
        self._phases = _Phases(accelerate_train_mode, steps, target_loss, iterations_per_loop, policy, options, target, threads)
        self._loop, self._last = iterations_per_loop, float('nan')
        made = filled(_api.ht_session_options_init(), dict(
            threads=threads, seeded=int(seed is not None), seed=0 if seed is None else int64('seed', seed), pages=pages))
        bounds = _api.ht_context_options_init()
        for member, value in limited.items():
            setattr(bounds, member, value)
        made.limits = ctypes.pointer(bounds)
        self._held = created(lib.ht_session_free, lib.ht_session_new, ctypes.byref(made))
        self._model, self._loss, self._fetches = model, loss, list(fetches)
        named = lib.ht_model_train_op(model._handle)
        self._train_op = train_op if train_op is not None else text(named) if named else None
        self._policy = compile_options(policy, options, target, threads=threads)
        if len(self._phases.kinds) > 1 and loss is None:
            raise UsageError('accelerate_train_mode needs the loss')
        self._entries: dict[Any, _Entry] = {}
        self._begun, self._checked, self._init = False, False, init_op
        self._stepped: _Entry | None = None
        if loss_scale is not None:
            if loss is None:
                raise UsageError('loss_scale needs the loss')
            call(lib.ht_session_scale_loss, self._handle, raw(loss), raw(loss_scale))
        self.steps = 0

    def _entry(self, kind: str, wanted: list[str], feeds: Mapping[str, Any], policy: tuple[Any, Any], phase: int | None = None) -> _Entry:
        """The entry for a set of tensors and shapes, compiled once; steps are compiled once for each kind of phase."""
        import numpy
        shapes = {name: tuple(numpy.shape(x)) for name, x in feeds.items()}
        key = (phase, tuple(wanted), tuple(sorted(shapes.items())))
        if key not in self._entries:
            entry_model = self._model.with_(outputs=wanted, inputs=list(feeds) or None, shapes=shapes)
            name = f'{kind} {len(self._entries)}'
            long_call(lib.ht_session_add, self._handle, raw(name), entry_model._handle,
                      Struct(*policy), late=(None,))
            self._entries[key] = _Entry(name, lib.ht_session_program(self._handle, raw(name)), entry_model)
        return self._entries[key]

    def _run(self, entry: _Entry, feeds: Mapping[str, Any]) -> dict[str, Any]:
        if not self._begun:
            self.initialise()
        return self._run_entry(entry, feeds)

    def step(self, feeds: Mapping[str, Any] | None = None, **named: Any) -> dict[str, Any]:
        """Runs the training op once, and returns the loss and the session's other fetches by name.

        Raises Verdict if the loss is not finite; the variables are then those after the step.  If a loss scale skips
        the step, the loss may be infinite or NaN; Verdict is then raised only if loss_scale.diverges is true.
        """
        import numpy
        self._check_step()
        wanted = [name for name in (self._loss, *self._fetches, self._train_op) if name]
        feeds = {**(feeds or {}), **named}
        entries = {k: self._entry('step', wanted, feeds, policy, k) for k, policy in self._phases.compile.items()}  # before the first step
        self._phases.next()
        self._stepped = entries[self._phases.kind]
        got = self._run(self._stepped, feeds)
        self.steps += 1
        if self._loss:
            self._last = float(numpy.mean(numpy.asarray(got[self._loss.removesuffix(':0')], 'f8')))
        lib.ht_train_phases_count_step(self._phases._handle, self._last)
        scale = self.loss_scale
        if scale and scale.diverges:
            raise Verdict(f'step {self.steps}: gradients overflow at loss scale {scale.scale:g}')
        if scale and not scale.finite:
            return got
        if self._loss and not numpy.isfinite(self._last):
            raise Verdict(f'step {self.steps}: the loss {self._loss!r} is {self._last}')
        return got

    def _check_step(self) -> None:
        """Before the first step: whether steps can change the loss.  A session without a train_op has one where its loss is of a signature
        that trains."""
        if self._checked:
            return
        if self._loss is not None:
            call(lib.ht_model_check_step, self._model._handle, raw(self._loss), raw_or_none(self._train_op))
        elif self._train_op is None:
            raise UsageError('the session has no train_op')
        self._checked = True

    def loop(self, batches: Iterable[Mapping[str, Any]]) -> Loop:
        """Runs the steps of one loop (iterations_per_loop): up to the next multiple of that number, or to the end of
        the batches.

        Each batch is an argument of step().  Further batches stay in an iterator that is passed.
        """
        done, total, results = 0, 0., {}
        end = self._loop - self.steps % self._loop
        batches = iter(batches)
        while done < end and (feeds := next(batches, None)) is not None:
            results = self.step(feeds)
            done, total = done + 1, total + self._last
        return Loop(done, self._last if done else float('nan'), total / done if done else float('nan'), results)

    @property
    def phase(self) -> str:
        """The phase of the last step, or before the first step the first phase: 'original', 'fast' or 'fast1'."""
        return text(lib.ht_phase_name(self._phases.kind)) or ''

    @property
    def counters(self) -> Counters:
        """The counters on which phases depend.  Setting them replaces all four; steps and losses continue from these
        values."""
        c = self._phases.counters()
        return Counters(c.step_now, c.total_step, c.loss_now, c.target_loss)

    @counters.setter
    def counters(self, value: Counters) -> None:
        call(lib.ht_train_phases_set_counters, self._phases._handle, ctypes.byref(filled(_api.ht_phase_counters_init(), value._asdict())))

    def run(self, fetches: str | Iterable[str], feeds: Mapping[str, Any] | None = None, **named: Any) -> dict[str, Any]:
        """Computes tensors, or runs ops, with the present values of the variables."""
        feeds = {**(feeds or {}), **named}
        return self._run(self._entry('run', [fetches] if isinstance(fetches, str) else list(fetches), feeds, self._policy), feeds)

    def initialise(self) -> None:
        """Sets variables without a value to that of the model's checkpoint, or runs the ops that initialise them.

        The first run calls it.
        """
        long_call(lib.ht_session_initialise, self._handle, self._model.with_()._handle, raw_or_none(self._init),
                  Struct(self._policy[0], self._policy[1]))
        self._begun = True

    @property
    def loss_scale(self) -> LossScale | None:
        """The loss scale after the last step; None if the session does not scale the loss."""
        made = _api.ht_loss_scale_init()
        if not lib.ht_session_loss_scale(self._handle, made):
            return None
        return LossScale(made.scale, made.good, made.bad, made.runs, made.skipped, bool(made.finite), bool(made.diverges))

    @property
    def step_memory(self) -> StepMemory | None:
        """The memory of the last step's program; None before the first step."""
        held = self._handle  # a closed session has no programs
        if self._stepped is None:
            return None
        made = _api.ht_step_memory_init()
        call(lib.ht_program_step_memory, self._stepped.program, late=(made,))
        del held
        return StepMemory(*(getattr(made, name) for name in StepMemory._fields))

    def save(self, directory: Any) -> str:
        """Writes a checkpoint that TensorFlow restores, as ckpt-STEPS in a folder, and returns its prefix.

        The file "checkpoint" of the folder names it, as tf.train.latest_checkpoint() expects.
        """
        os.makedirs(directory, exist_ok=True)
        name = f'ckpt-{self.steps}'
        prefix = os.path.join(os.fspath(directory), name)
        state = (ctypes.c_int64 * 2)()
        lib.ht_train_phases_state(self._phases._handle, state)
        call(lib.ht_session_note, self._handle, b'steps', (ctypes.c_int64 * 1)(self.steps), 1)
        call(lib.ht_session_note, self._handle, b'phase', (ctypes.c_int64 * 3)(*state, struct.unpack('<q', struct.pack('<d', self._last))[0]), 3)
        self._alone(lambda: long_call(lib.ht_session_save, self._handle, raw(prefix)))
        data = f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'.encode()
        call(lib.ht_file_write, raw(os.path.join(os.fspath(directory), 'checkpoint')), data, len(data))
        return prefix

    def restore(self, path: Any) -> None:
        """Sets the variables of all entries so far to the values of a checkpoint: a prefix, or a folder for its latest.

        After a checkpoint of save(), steps continue with the same bits.
        """
        path = os.fspath(path)
        if os.path.isdir(path):
            with open(os.path.join(path, 'checkpoint')) as f:
                latest = [line.split('"')[1] for line in f if line.startswith('model_checkpoint_path:')]
            path = os.path.join(path, latest[0])
        long_call(lib.ht_session_restore, self._handle, self._model.with_()._handle, raw(path), None)
        n = ctypes.c_size_t()
        noted = lib.ht_session_noted(self._handle, b'steps', ctypes.byref(n))
        self.steps = noted[0] if n.value else 0
        noted = lib.ht_session_noted(self._handle, b'phase', ctypes.byref(n))
        if n.value == 3:
            self._last = struct.unpack('<d', struct.pack('<q', noted[2]))[0]
            lib.ht_train_phases_go_on(self._phases._handle, (ctypes.c_int64 * 2)(*noted[:2]), self.steps, self._last)

    def __repr__(self) -> str:
        return '<Session, closed>' if self.closed else f'<Session, {self.steps} steps>'


def _bytes(t: Tensor) -> int:
    n = _api_bytes(t.dtype)
    for d in t.shape or ():
        n *= d or 0
    return n


def _api_bytes(dtype: str) -> int:
    return int(lib.ht_dtype_bytes(code_of(dtype)))
