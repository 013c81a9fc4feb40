#!/usr/bin/env python3
"""TensorFlow 1's control flow, Switch and Merge and frames, and its TensorArrays: nested random graphs of branches,
loops and recurrent layers give TensorFlow's results, in each way to run a model, and under policies; so do gradients
of loops, with stacks and arrays of gradients.  Graphs without a functional form are refused with the node's name.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import live  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
v1.disable_control_flow_v2()
SHAPE = 3, 4
KINDS = 'tanh', 'scale', 'product', 'outer', 'branch', 'loop', 'two', 'again', 'index', 'case', 'only one', 'map', 'scan', 'array',\
    'recurrent'


class Cell:
    output_size = state_size = 4

    def __init__(self, w):
        self.w = w

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        return tf.zeros([batch_size, self.state_size], dtype)

    zero_state = get_initial_state

    def __call__(self, x, state, scope=None):
        state = tf.tanh(x + state @ self.w)
        return state, state


class Maker:
    """Random statements on tensors of one shape; `outer` are values of the enclosing scopes."""

    def __init__(self, r):
        self.r = r
        self.w = tf.constant((r.standard_normal((4, 4)) * 0.4).astype('f4'))
        self.made = set()

    def predicate(self, y):
        return tf.reduce_mean(y) > float(self.r.uniform(-0.5, 0.5))

    def statements(self, y, outer, depth):
        for _ in range(int(self.r.integers(1, 4))):
            kinds = KINDS if depth < 2 else KINDS[:4]
            kind = kinds[self.r.integers(len(kinds))]
            self.made.add(kind)
            y = getattr(self, kind.replace(' ', '_'))(y, outer, depth)
        return y

    def tanh(self, y, outer, depth):
        return tf.tanh(y)

    def scale(self, y, outer, depth):
        return y * float(self.r.uniform(-1, 1)) + 0.3

    def product(self, y, outer, depth):
        return y @ self.w

    def outer(self, y, outer, depth):
        return tf.tanh(y + outer[self.r.integers(len(outer))])

    def branch(self, y, outer, depth):
        return v1.cond(self.predicate(y), lambda: self.statements(y, outer + [y], depth + 1),
                       lambda: self.statements(y, outer + [y], depth + 1))

    def two(self, y, outer, depth):
        """Two results of one branch, one of which is its operand."""
        a, b = v1.cond(self.predicate(outer[-1]), lambda: (y, self.statements(y, outer, depth + 1)),
                       lambda: (tf.tanh(y), y))
        return a - b * 0.5

    def again(self, y, outer, depth):
        """Two branches with one predicate, the second of which depends on the first, and one that depends on neither."""
        p = self.predicate(y)
        first = v1.cond(p, lambda: self.statements(y, outer, depth + 1), lambda: tf.tanh(y))
        second = v1.cond(p, lambda: first * 0.5, lambda: self.statements(first, outer, depth + 1))
        return second - v1.cond(p, lambda: outer[0] * 0.25, lambda: outer[-1])

    def index(self, y, outer, depth):
        """Merge also gives the index of the operand that it passes on."""
        off, on = v1.raw_ops.Switch(data=y, pred=self.predicate(y))
        either, index = v1.raw_ops.Merge(inputs=[tf.tanh(on), off * 0.5])
        return either + tf.cast(index, tf.float32)

    def only_one(self, y, outer, depth):
        """A branch in which one side is a constant."""
        return y + v1.cond(self.predicate(y), lambda: tf.constant(0.25), lambda: tf.reduce_max(tf.tanh(outer[0])))

    def case(self, y, outer, depth):
        return v1.case([(self.predicate(y), lambda: tf.tanh(y)), (self.predicate(outer[0]), lambda: y * 0.5)],
                       default=lambda: self.statements(y, outer, depth + 1))

    def map(self, y, outer, depth):
        return tf.map_fn(lambda row: tf.tanh(row + outer[0][1]), y)

    def scan(self, y, outer, depth):
        return tf.scan(lambda state, row: tf.tanh(state + row), y, initializer=outer[0][0], reverse=bool(self.r.integers(2)))

    def array(self, y, outer, depth):
        """An array that a loop reads, also partly, and one that it writes in branches, whose elements are joined."""
        rows = tf.TensorArray(tf.float32, 3, clear_after_read=False).unstack(y)

        def body(i, parts):
            step = tf.tanh(rows.read(i) + rows.read(0) * 0.5)[None]
            return i + 1, v1.cond(step[0, 0] > 0, lambda: parts.write(i, step), lambda: parts.write(i, -step))
        _, parts = v1.while_loop(lambda i, parts: i < 3, body, (0, tf.TensorArray(tf.float32, 3)))
        some = rows.gather(tf.constant(self.r.integers(0, 3, 3).astype('i4')))
        return some * tf.cast(rows.size(), tf.float32) * 0.1 + parts.concat()

    def recurrent(self, y, outer, depth):
        """A recurrent layer of TensorFlow 1, for 2 sequences of 3 steps, with and without their lengths."""
        lengths = tf.constant(self.r.integers(1, 4, 2).astype('i4')) if self.r.integers(2) else None
        both, last = v1.nn.dynamic_rnn(Cell(self.w), tf.stack([y, -y]), sequence_length=lengths, dtype=tf.float32,
                                       time_major=False)
        return both[0] + last[1]

    def loop(self, y, outer, depth):
        n = int(self.r.integers(0, 4))

        def body(i, z, last):
            return i + 1, tf.tanh(self.statements(z, outer + [y], depth + 1)), z
        _, z, last = v1.while_loop(lambda i, z, last: tf.logical_and(i < n, tf.reduce_sum(tf.abs(z)) < 100),
                                   body, (0, y, outer[-1]))
        return z + last * 0.1


def graph(r):
    with tf.Graph().as_default() as g:
        x = v1.placeholder(tf.float32, SHAPE, name='x')
        m = Maker(r)
        y = m.statements(x, [x], 0)
        while not m.made & set(KINDS[4:]):
            y = m.statements(y, [x, y], 0)
        tf.identity(y, name='y')
        tf.identity(tf.reduce_sum(y), name='z')
    return g, m.made


def check(r, folder):
    g, made = graph(r)
    x = (r.standard_normal(SHAPE) * 2).astype('f4')
    try:
        with v1.Session(graph=g) as s:
            want = s.run(['y:0', 'z:0'], {'x:0': x})
    except tf.errors.InvalidArgumentError as e:  # for some loops in branches that are not taken
        if 'does not have value' in e.message:
            return set()
        raise
    proto = v1.graph_util.extract_sub_graph(g.as_graph_def(), ['y', 'z'])
    with open(f'{folder}/m.pb', 'wb') as f:
        f.write(proto.SerializeToString())
    live.check(str(sorted(made)), folder, f'{folder}/m.pb', {'x': x}, ['y', 'z'], want, policies={})
    for policy in live.POLICIES:  # rounding may change which branch is taken
        got = live.run(folder, f'{folder}/m.pb', {'x': x}, ['y', 'z'], '--outputs', 'y,z', '--policy', policy)
        if not all(np.isfinite(g).all() for g in got):
            sys.exit(f'{sorted(made)}, {policy}: {got}')
    return made


def check_outputs(folder):
    """A tensor within a branch is no output, even if nothing uses it."""
    with tf.Graph().as_default() as g:
        x = v1.placeholder(tf.float32, [2], name='x')
        tf.identity(v1.cond(x[0] > 0, lambda: x + 1, lambda: tf.tanh(x)), name='y')
    with open(f'{folder}/plain.pb', 'wb') as f:
        f.write(g.as_graph_def().SerializeToString())
    said = live.tool('run', f'{folder}/plain.pb', '--input', 'x=f32[2]:1')
    if [line.split()[0] for line in said.splitlines() if line.strip() and not line.startswith('halftone: note: ')] != ['y']:
        sys.exit(f'outputs are not y alone: {said}')


def loop(x, n, step):
    return v1.while_loop(lambda i, *_: i < n, lambda i, *y: (i + 1, *step(*y)), (0, x))[1]


def grown(x):
    """An array that grows; a range of its size."""
    rows = v1.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a.write(a.size(), x * tf.cast(i, tf.float32))),
                         (0, tf.TensorArray(tf.float32, 0, dynamic_size=True)))[1]
    return rows.stack(), rows.size()


def layer(w, lengths):
    return lambda x: v1.nn.dynamic_rnn(Cell(w), tf.stack([x, -x]), sequence_length=lengths, dtype=tf.float32)[0]


def check_gradients(r, folder):
    """Gradients push the values that they need on stacks, and pop them in a loop of their own; an element of an array
    that is read twice gets the sum of two gradients."""
    w, n = (r.standard_normal((4, 4)) * 0.4).astype('f4'), int(r.integers(2, 6))

    def nested(y):
        return tf.tanh(loop(y, 3, lambda z: (tf.sin(z) * z + y,))),

    def twice(x):
        rows = tf.TensorArray(tf.float32, 3, clear_after_read=False).unstack(x)
        return v1.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * rows.read(i) + rows.read(0)), (0, x[1]))[1]
    graphs = {'loop': lambda x: loop(x, n, lambda y: (tf.tanh(y @ w + 0.3) * y,)), 'loops': lambda x: loop(x, n, nested),
              'layer': layer(w, None), 'layer with lengths': layer(w, [2, 3]), 'twice': twice}
    made = {k: lambda x, f=f: v1.gradients(tf.reduce_sum(tf.square(f(x))), [x]) for k, f in graphs.items()}
    for name, f in {**made, 'grown': grown}.items():
        with tf.Graph().as_default() as g, v1.Session() as s:
            x = v1.placeholder(tf.float32, SHAPE, name='x')
            outputs = [tf.identity(y, name=f'out{i}').op.name for i, y in enumerate(f(x))]
            feeds = {'x': r.standard_normal(SHAPE).astype('f4')}
            want = s.run([f'{o}:0' for o in outputs], {'x:0': feeds['x']})
        with open(f'{folder}/m.pb', 'wb') as out:
            out.write(g.as_graph_def().SerializeToString())
        live.check(name, folder, f'{folder}/m.pb', feeds, outputs, want, policies={})


STEP = 'train/rnn_dynamic_backprop.meta'


def check_step(r, folder):
    """A training step of a model from another program: a layer of 24 LSTM cells with gradients.  The model has a loss for each element."""
    model, names = os.path.join(live.environment.SHARED, 'models', STEP), ('kernel', 'bias')
    if not os.path.exists(model):
        return
    feeds = {'a': (4, 6, 24), 'c_init_state': (4, 24), 'h_init_state': (4, 24)}
    feeds = {k: r.standard_normal(v).astype('f4') for k, v in feeds.items()}
    feeds['out_correct'] = r.integers(0, 24, (4, 6)).astype('i4')
    with tf.Graph().as_default() as g, v1.Session() as s:
        v1.train.import_meta_graph(model)
        tf.reduce_mean(g.get_tensor_by_name('softmax/Reshape_2:0'), name='loss')
        v1.train.export_meta_graph(f'{folder}/step.meta')
        variables = {n: g.get_tensor_by_name(f'rnn/basic_lstm_cell/{n}:0') for n in names}
        for n, v in variables.items():
            assign = g.get_operation_by_name(f'{v.op.name}/Assign')
            s.run(assign.outputs[0], {assign.inputs[1]: (r.standard_normal(v.shape) * 0.2).astype('f4')})
        v1.train.Saver().save(s, f'{folder}/start', write_meta_graph=False)
        s.run('Gradient/Apply/GradientDescent', {f'{k}:0': v for k, v in feeds.items()})
        want = s.run(variables)
    np.savez(f'{folder}/rows.npz', **feeds)
    data = [o for k in feeds for o in ('--data', f'{k}=@{folder}/rows.npz#{k}')]
    live.tool('train', '-q', f'{folder}/step.meta', *data, '--batch', '4', '--steps', '1', '--restore', f'{folder}/start', '--loss', 'loss', '--train-op',
              'Gradient/Apply/GradientDescent', '--save', f'{folder}/after')
    after = tf.train.load_checkpoint(tf.train.latest_checkpoint(f'{folder}/after'))
    for n in names:
        got = after.get_tensor(f'rnn/basic_lstm_cell/{n}')
        if not live.close(got, want[n], live.TOLERANCE):
            sys.exit(f'{STEP}: {n} is off by {live.error(got, want[n])}')


def check_refusals(folder):
    """A Merge with operands from Switches of different predicates."""
    with tf.Graph().as_default() as g:
        x = v1.placeholder(tf.float32, [2], name='x')
        off, _ = v1.raw_ops.Switch(data=x, pred=x[0] > 0)
        _, on = v1.raw_ops.Switch(data=x, pred=x[1] > 0)
        tf.identity(v1.raw_ops.Merge(inputs=[off, on])[0], name='y')
    with open(f'{folder}/bad.pb', 'wb') as f:
        f.write(g.as_graph_def().SerializeToString())
    said = live.tool('run', f'{folder}/bad.pb', '--outputs', 'y', code=4)
    if 'Switch is control flow of a form that is not supported' not in said:
        sys.exit(said)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=19)
    p.add_argument('--rounds', type=int, default=100 if live.environment.LONG else 4 if live.environment.SANITIZED else 12)
    a = p.parse_args()
    made = set()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(a.rounds):
            made |= check(np.random.default_rng(a.seed + i), folder)
        check_gradients(np.random.default_rng(a.seed), folder)
        check_step(np.random.default_rng(a.seed), folder)
        check_outputs(folder)
        check_refusals(folder)
    if made != set(KINDS) and a.rounds >= 8:
        sys.exit(f'no {set(KINDS) - made}')
    print(f'{a.rounds} graphs with Switch and Merge agree with TensorFlow')


main()
