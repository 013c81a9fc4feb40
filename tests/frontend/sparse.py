#!/usr/bin/env python3
"""Rows and slices of variables, by reference and by handle, against TensorFlow: scattering, gathering and sparse steps
of optimisers, one after the other over several runs of a session; and shapes of a variable without its value.

Exit code 77: nothing to test with.
"""
import random
import sys
import tempfile

import optimizers
from optimizers import RUNS, np, tf, v1

DTYPES = {'float32': 2e-5, 'float64': 1e-12, 'int32': 0, 'int64': 0}
# Shape of the variable, of indices of rows, and of indices of slices.
SHAPES = [((9,), (4,), (5, 1)), ((6, 5), (7,), (3, 2)), ((4, 3, 70), (2, 3), (4, 2)), ((3, 2), (), (2, 2)), ((5, 300), (11,), (2, 1))]
KINDS = 'update', 'add', 'sub', 'mul', 'div', 'min', 'max'
SLICES = 'Update', 'Add', 'Sub', 'Min', 'Max'
# The step, its slots, and the operands that follow them.
STEPS = {
    'Adagrad': (1, 'lr grad indices'), 'AdagradV2': (1, 'lr epsilon grad indices'), 'Momentum': (1, 'lr grad indices momentum'),
    'RMSProp': (2, 'lr rho momentum epsilon grad indices'), 'CenteredRMSProp': (3, 'lr rho momentum epsilon grad indices'),
    'Ftrl': (2, 'grad indices lr l1 l2 lr_power'), 'KerasMomentum': (1, 'lr grad indices momentum'),
    'Adadelta': (2, 'lr rho epsilon grad indices'), 'ProximalGradientDescent': (0, 'alpha l1 l2 grad indices'), 'ProximalAdagrad': (1, 'lr l1 l2 grad indices'),
    'FtrlV2': (2, 'grad indices lr l1 l2 l2_shrinkage lr_power'), 'AdagradDA': (2, 'grad indices lr l1 l2 global_step'),
}
SLOTS = {'Momentum': ['accum'], 'KerasMomentum': ['accum'], 'Adagrad': ['accum'], 'AdagradV2': ['accum'], 'RMSProp': ['ms', 'mom'],
         'CenteredRMSProp': ['mg', 'ms', 'mom'], 'Ftrl': ['accum', 'linear'], 'Adadelta': ['accum', 'accum_update'], 'ProximalGradientDescent': [],
         'ProximalAdagrad': ['accum'], 'FtrlV2': ['accum', 'linear'], 'AdagradDA': ['gradient_accumulator', 'gradient_squared_accumulator']}
SCALARS = {'lr': .1, 'alpha': .1, 'epsilon': .01, 'momentum': .9, 'rho': .8, 'l1': .01, 'l2': .02, 'lr_power': -.5, 'l2_shrinkage': .03}


def values(r, dtype, shape):
    if dtype.startswith('int'):
        return r.integers(1, 9, shape).astype(dtype)
    return (r.uniform(.5, 2, shape) * r.choice([-1, 1], shape)).astype(dtype)


class Program:
    """A sequence of statements of a graph on one variable and its slots."""

    def __init__(self, r, dtype, resource, shapes):
        self.r, self.dtype, self.resource = r, dtype, resource
        self.shape, self.rows, self.slices = shapes
        self.variable = self.make('v', values(r, dtype, self.shape))
        self.feeds, self.last, self.outputs = {}, None, []

    def make(self, name, start):
        return v1.get_variable(name, initializer=tf.constant(start), use_resource=self.resource)

    def feed(self, value):
        name = f'x{len(self.feeds)}'
        self.feeds[name] = np.asarray(value)
        return v1.placeholder(self.feeds[name].dtype, self.feeds[name].shape, name)

    def do(self, statement):
        with tf.control_dependencies([self.last] if self.last is not None else []):
            made = statement()
        self.last = made.op if hasattr(made, 'op') else made

    def read(self, statement):
        name = f'y{len(self.outputs)}'
        self.outputs.append(name)
        self.do(lambda: tf.identity(statement(), name))

    def handle(self):
        return self.variable.handle if self.resource else self.variable._ref()  # pylint: disable=protected-access

    def scatter_rows(self, kind):
        index = self.feed(self.r.integers(0, self.shape[0], self.rows).astype(self.r.choice([np.int32, np.int64])))
        by = values(self.r, self.dtype, () if self.r.random() < .3 else (*self.rows, *self.shape[1:]))
        by = self.feed(by)
        if kind != 'update' or by.shape.rank or not self.shape[1:]:
            self.do(lambda: getattr(v1, f'scatter_{kind}')(self.variable, index, by))

    def scatter_slices(self, kind):
        limits = np.array(self.shape[:self.slices[-1]])
        if len(self.shape) < self.slices[-1]:
            return
        index = self.feed((self.r.random(self.slices) * limits).astype(np.int32))
        by = self.feed(values(self.r, self.dtype, (*self.slices[:-1], *self.shape[self.slices[-1]:])))
        op = getattr(tf.raw_ops, f'{"Resource" if self.resource else ""}ScatterNd{kind}')
        self.do(lambda: op(ref=self.handle(), indices=index, updates=by))

    def step(self, kind):
        count, names = STEPS[kind]
        slots = [self.make(f'{kind}{i}', np.abs(values(self.r, self.dtype, self.shape)) * (1 if i < count else 0))
                 for i in range(count)]
        if kind == 'CenteredRMSProp':  # the mean of squares must be larger than the square of the mean
            slots[1] = self.make(f'{kind}s', np.full(self.shape, 9, self.dtype))
        n = int(self.r.integers(1, 9))
        given = {s: tf.constant(x, self.dtype) for s, x in SCALARS.items()}
        given['global_step'] = tf.constant(5, tf.int64)
        given['grad'] = self.feed(values(self.r, self.dtype, (n, *self.shape[1:])))
        given['indices'] = self.feed(self.r.integers(0, self.shape[0], n).astype(np.int64))
        get = (lambda v: v.handle) if self.resource else (lambda v: v._ref())  # pylint: disable=protected-access
        words = {'var': get(self.variable), **{name: get(s) for name, s in zip(SLOTS[kind], slots)},
                 **{name: given[name] for name in names.split()}}
        if kind.endswith('Momentum'):
            words['use_nesterov'] = bool(self.r.random() < .5)
        if kind.startswith('Ftrl'):
            words['multiply_linear_by_lr'] = bool(self.r.random() < .5)
        op = getattr(tf.raw_ops, f'{"Resource" if self.resource else ""}SparseApply{kind}')
        self.do(lambda: op(**words))
        for s in slots:
            self.read(s.read_value)

    def gather(self):
        index = self.feed(self.r.integers(0, self.shape[0], self.rows).astype(np.int32))
        self.read(lambda: tf.gather(self.variable if self.resource else self.variable.read_value(), index))
        limits = np.array(self.shape[:self.slices[-1]])
        if self.resource and len(self.shape) >= self.slices[-1]:
            slices = self.feed((self.r.random(self.slices) * limits).astype(np.int64))
            self.read(lambda: tf.raw_ops.ResourceGatherNd(resource=self.handle(), indices=slices, dtype=self.dtype))

    def known(self):
        if self.resource:
            self.read(lambda: tf.raw_ops.VariableShape(input=self.handle(), out_type=tf.int64))
        self.read(lambda: v1.is_variable_initialized(self.variable))


def statements(p):
    """First all kinds once, then random ones."""
    floats = p.dtype.startswith('float')
    for kind in p.r.permutation(KINDS):
        p.scatter_rows(kind)
        p.gather()
    for kind in p.r.permutation(SLICES):
        p.scatter_slices(kind)
    p.known()
    for kind in STEPS if floats else ():
        if p.resource or kind != 'KerasMomentum':
            p.step(kind)
    p.read(p.variable.read_value)


def check(dtype, resource, shapes, seed):
    r = np.random.default_rng(seed)
    what = f'{dtype} {"handle" if resource else "reference"} {shapes} seed {seed}'
    with tempfile.TemporaryDirectory() as folder:
        with tf.Graph().as_default() as g, v1.Session() as session:
            p = Program(r, dtype, resource, shapes)
            statements(p)
            session.run(v1.global_variables_initializer())
            inputs = {n: g.get_tensor_by_name(n + ':0') for n in p.feeds}
            v1.saved_model.simple_save(session, folder + '/model', inputs, {'y': g.get_tensor_by_name(p.outputs[-1] + ':0')})
            fetched = [session.run([n + ':0' for n in p.outputs], {n + ':0': a for n, a in p.feeds.items()}) for _ in range(RUNS)]
        for runs, threads in (1, 1), (RUNS, 2):
            got = optimizers.run(folder, p.outputs, p.feeds, runs, '--threads', str(threads))
            for n, a, b in zip(p.outputs, got, fetched[runs - 1]):
                b = np.asarray(b)
                if a.shape != b.shape or a.dtype != b.dtype:
                    sys.exit(f'{what}: {n} is {a.dtype}{a.shape}, TensorFlow has {b.dtype}{b.shape}')
                error = np.max(np.abs(a.astype('f8') - b), initial=0) / max(np.max(np.abs(b.astype('f8')), initial=0), 1)
                if not error <= DTYPES[dtype] * runs:
                    sys.exit(f'{what}: {n} after {runs} runs: error {error}')


def main():
    cases = [(dtype, resource, shapes, seed) for seed, shapes in enumerate(SHAPES) for resource in (False, True) for dtype in DTYPES]
    cases = optimizers.environment.share(cases, random.randrange(3))
    for case in cases:
        check(*case)
    print(f'{len(cases)} programs agree with TensorFlow')


if __name__ == '__main__':
    main()
