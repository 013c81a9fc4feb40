#!/usr/bin/env python3
"""Recurrent networks as programs of TensorFlow 1 write them: cells with peepholes, projections and clipping, GRUs and block cells, in
tf.nn.dynamic_rnn, static_rnn, bidirectional forms and raw_rnn, with and without lengths of sequences, and gradients by their weights, which are frozen with Switch and Merge.
One program for any batch, and any number of steps, where these are a loop, gives TensorFlow's results; under a policy it is no worse than TensorFlow on the
graph that `convert` writes.  So do variants with functional control flow.

On each day ctest tries a share of the graphs; HALFTONE_LONG=1 tries all.

Exit code 77: nothing to test with.
"""
import argparse
import faulthandler
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../python']
import package  # noqa: E402
import halftone as ht  # noqa: E402
import live  # noqa: E402
from live import TOLERANCE, close, np, tf  # noqa: E402

v1 = tf.compat.v1
raw = tf.raw_ops
F32 = tf.float32
ROWS, STEPS, FEATURES = 4, 7, 3  # the largest sizes
SHARE = 11  # days until each graph had its turn
POLICIES = {'force_fp16': 2**-11, 'allow_mix_precision_bf16': 2**-8, 'allow_mix_precision_fp16': 2**-11, 'optimal': 2**-8}


# ---- cells, with the interface that dynamic_rnn and its kin ask for ----

class Cell:
    """`width` is that of the results, `states` those of the states, which are one or a tuple."""

    def __init__(self, r, width, *states):
        self.r, self.output_size, self.state_size = r, width, states if len(states) > 1 else states[0]
        self.all = []  # the weights

    def weights(self, *shape):
        self.all.append(tf.constant((self.r.standard_normal(shape) * .4).astype('f4')))
        return self.all[-1]

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        rows = tf.shape(inputs)[0] if inputs is not None else batch_size
        return tf.nest.map_structure(lambda n: tf.zeros(tf.stack([rows, n]), dtype or F32), self.state_size)

    def zero_state(self, rows, dtype):
        return self.get_initial_state(batch_size=rows, dtype=dtype)


class LSTM(Cell):
    """As LSTMCell, with peepholes, a projection and clipping."""

    def __init__(self, r, inputs, units, peepholes=False, projection=0, clip=0.):
        super().__init__(r, projection or units, units, projection or units)
        self.kernel, self.bias = self.weights(inputs + (projection or units), 4 * units), self.weights(4 * units)
        self.peep = [self.weights(units) for _ in range(3)] if peepholes else [0.] * 3
        self.projection, self.clip = self.weights(units, projection) if projection else None, clip

    def __call__(self, x, state, scope=None):
        c, h = state
        i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), self.kernel), self.bias), 4, 1)
        c = tf.sigmoid(f + 1. + self.peep[0] * c) * c + tf.sigmoid(i + self.peep[1] * c) * tf.tanh(j)
        c = tf.clip_by_value(c, -self.clip, self.clip) if self.clip else c
        h = tf.sigmoid(o + self.peep[2] * c) * tf.tanh(c)
        if self.projection is not None:
            h = tf.matmul(h, self.projection)
        return h, (c, h)


class GRU(Cell):
    def __init__(self, r, inputs, units):
        super().__init__(r, units, units)
        self.gates, self.candidate = self.weights(inputs + units, 2 * units), self.weights(inputs + units, units)
        self.bias = self.weights(2 * units)

    def __call__(self, x, h, scope=None):
        reset, update = tf.split(tf.sigmoid(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), self.gates), self.bias)), 2, 1)
        c = tf.tanh(tf.matmul(tf.concat([x, reset * h], 1), self.candidate))
        h = update * h + (1. - update) * c
        return h, h


class Block(Cell):
    """An LSTM whose step is one op."""

    def __init__(self, r, inputs, units):
        super().__init__(r, units, units, units)
        self.words = {'w': self.weights(inputs + units, 4 * units), 'b': self.weights(4 * units), **{n: self.weights(units) for n in ('wci', 'wcf', 'wco')},
                      'use_peephole': bool(r.integers(2)), 'forget_bias': 1.}

    def __call__(self, x, state, scope=None):
        y = raw.LSTMBlockCell(x=x, cs_prev=state[0], h_prev=state[1], **self.words)
        return y.h, (y.cs, y.h)


class BlockGRU(Cell):
    def __init__(self, r, inputs, units):
        super().__init__(r, units, units)
        self.words = {'w_ru': self.weights(inputs + units, 2 * units), 'w_c': self.weights(inputs + units, units), 'b_ru': self.weights(2 * units),
                      'b_c': self.weights(units)}

    def __call__(self, x, h, scope=None):
        h = raw.GRUBlockCell(x=x, h_prev=h, **self.words).h
        return h, h


class Several(Cell):
    """As MultiRNNCell."""

    def __init__(self, *cells):
        super().__init__(None, cells[-1].output_size, *(c.state_size for c in cells))
        self.cells = cells
        self.all = [w for c in cells for w in c.all]

    def __call__(self, x, states, scope=None):
        after = []
        for cell, state in zip(self.cells, states):
            x, state = cell(x, state)
            after.append(state)
        return x, tuple(after)


def width(r):
    return int(r.integers(2, 6))


def several(r, n):
    a = LSTM(r, n, width(r))
    return Several(a, GRU(r, a.output_size, width(r)))


CELLS = {
    'LSTM': lambda r, n: LSTM(r, n, width(r)), 'peepholes': lambda r, n: LSTM(r, n, width(r), peepholes=True),
    'projection': lambda r, n: LSTM(r, n, width(r), projection=3), 'peepholes and projection': lambda r, n: LSTM(r, n, width(r), True, 2, .5),
    'GRU': lambda r, n: GRU(r, n, width(r)), 'LSTMBlockCell': lambda r, n: Block(r, n, width(r)),
    'GRUBlockCell': lambda r, n: BlockGRU(r, n, width(r)), 'several': several,
}


# ---- networks: each of [rows, steps, features] and the lengths of the rows ----

def dynamic(lengths, time_major=False):
    def f(r, cell, x, n):
        y, state = v1.nn.dynamic_rnn(cell(r, FEATURES), tf.transpose(x, [1, 0, 2]) if time_major else x, sequence_length=n if lengths else None, dtype=F32,
                                     time_major=time_major)
        return [y, state]
    return f


def gradients(lengths, swaps=False):
    """Gradients by the inputs and the weights, as a step of a training computes them."""
    def f(r, cell, x, n):
        c = cell(r, FEATURES)
        y, state = v1.nn.dynamic_rnn(c, x, sequence_length=n if lengths else None, dtype=F32, swap_memory=swaps)
        loss = tf.reduce_mean(y ** 2) + sum(tf.reduce_sum(tf.sin(s)) for s in tf.nest.flatten(state))
        return [loss, *tf.clip_by_global_norm(tf.gradients(loss, [x, *c.all]), 1.)[0]]
    return f


def began(r, cell, x, n):
    """The states are computed of the first step."""
    c = cell(r, FEATURES)
    state = tf.nest.map_structure(lambda size: tf.tanh(tf.matmul(x[:, 0], c.weights(FEATURES, size) if c.r else tf.ones([FEATURES, size]))), c.state_size)
    return [v1.nn.dynamic_rnn(c, x, initial_state=state)[0][:, -1]]


def both(lengths):
    def f(r, cell, x, n):
        y, states = v1.nn.bidirectional_dynamic_rnn(cell(r, FEATURES), cell(r, FEATURES), x, sequence_length=n if lengths else None, dtype=F32)
        return [tf.concat(y, 2), states]
    return f


def stacked(r, cell, x, n):
    first = cell(r, FEATURES)
    with v1.variable_scope('first'):
        y, _ = v1.nn.dynamic_rnn(first, x, dtype=F32)
    with v1.variable_scope('second'):
        y, state = v1.nn.dynamic_rnn(cell(r, first.output_size), y, sequence_length=n, dtype=F32)
    return [y[:, -1], state]


def own_loop(r, cell, x, n):
    """raw_rnn, whose body decides what the next step gets."""
    c, steps = cell(r, FEATURES), tf.shape(x)[1]
    inputs = tf.TensorArray(F32, steps).unstack(tf.transpose(x, [1, 0, 2]))

    def step(time, output, state, loop):
        done = time >= n
        after = c.zero_state(tf.shape(x)[0], F32) if output is None else state
        taken = tf.cond(tf.reduce_all(done), lambda: tf.zeros([tf.shape(x)[0], FEATURES]), lambda: inputs.read(time))
        return done, tf.ensure_shape(taken, [None, FEATURES]), after, output, None
    y, state, _ = v1.nn.raw_rnn(c, step)
    return [y.stack(), state]


def static(r, cell, x, n):
    y, state = v1.nn.static_rnn(cell(r, FEATURES), tf.unstack(x, axis=1), dtype=F32)
    return [tf.stack(y, 1), state]


def static_lengths(r, cell, x, n):
    y, state = v1.nn.static_rnn(cell(r, FEATURES), tf.unstack(x, axis=1), dtype=F32, sequence_length=n)
    return [y[-1], state]


def static_both(r, cell, x, n):
    y, *states = v1.nn.static_bidirectional_rnn(cell(r, FEATURES), cell(r, FEATURES), tf.unstack(x, axis=1), dtype=F32)
    return [tf.stack(y, 1), states]


NETWORKS = {'dynamic': dynamic(False), 'dynamic, lengths': dynamic(True), 'dynamic, time major': dynamic(True, True), 'began': began, 'both': both(False),
            'both, lengths': both(True), 'stacked': stacked, 'own loop': own_loop, 'static': static, 'static, lengths': static_lengths,
            'static, both': static_both, 'gradients': gradients(False), 'gradients, lengths': gradients(True), 'gradients, swapped': gradients(True, True)}


def block_layer(r, x, newer):
    """All steps in one op."""
    cell, op = Block(r, FEATURES, width(r)), raw.BlockLSTMV2 if newer else raw.BlockLSTM
    words = {k: v for k, v in cell.words.items() if k != 'forget_bias' or not newer}
    c, h = cell.get_initial_state(inputs=x)
    y = op(seq_len_max=tf.cast(tf.shape(x)[1], tf.int64), x=tf.transpose(x, [1, 0, 2]), cs_prev=c, h_prev=h, **words)
    return [y.h, y.cs[-1]]


BLOCKS = {'BlockLSTM': lambda r, x, n: block_layer(r, x, False), 'BlockLSTMV2': lambda r, x, n: block_layer(r, x, True)}
# TensorFlow has no gradients of block cells.
NAMES = [f'{cell}, {network}' for network in NETWORKS for cell in CELLS if not ('Block' in cell and network.startswith('gradients'))] + list(BLOCKS)


# ---- graphs ----

class Wrong(Exception):
    """A number that is not TensorFlow's."""


def graph_of(name, seed, lowered, path):
    """Writes the graph, whose lengths are fed as floats; returns it, the names of its outputs and the shape of x."""
    r = np.random.default_rng([seed, NAMES.index(name)])
    cell, _, network = name.partition(', ')
    shape = [None, 4 if network.startswith('static') else None, FEATURES]
    with tf.Graph().as_default() as g:
        (v1.disable_control_flow_v2 if lowered else v1.enable_control_flow_v2)()
        x, n = v1.placeholder(F32, shape, 'x'), v1.placeholder(tf.int32, shape[:1], 'lengths')
        results = BLOCKS[name](r, x, n) if name in BLOCKS else NETWORKS[network](r, CELLS[cell], x, n)
        outputs = [tf.identity(y, f'y{i}').op.name for i, y in enumerate(tf.nest.flatten(results))]
    proto = v1.graph_util.extract_sub_graph(g.as_graph_def(), outputs)
    with open(path, 'wb') as out:
        out.write(proto.SerializeToString())
    return proto, outputs, shape, any(node.name == 'lengths' for node in proto.node)


def feeds_of(r, shape, lengths, rows, steps):
    rows, steps = shape[0] or rows, shape[1] or steps
    x = {'x': r.standard_normal([rows, steps, FEATURES]).astype('f4')}
    return {**x, 'lengths': r.integers(1, steps + 1, rows).astype('i4')} if lengths else x


def session_run(proto, feeds, outputs):
    with tf.Graph().as_default() as g, v1.Session(graph=g) as s:
        tf.import_graph_def(proto, name='')
        return s.run([f'{o}:0' for o in outputs], {f'{k}:0': x for k, x in feeds.items()})


def agree(how, got, want):
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if not close(g, w, TOLERANCE):
            raise Wrong(f'{how}: output {i} is {g}, not {w}')


def check(name, seed, lowered, policy, folder):
    proto, outputs, shape, lengths = graph_of(name, seed, lowered, f'{folder}/m.pb')
    r = np.random.default_rng(seed)
    rows = shape[0] or f'1..{ROWS}'
    bounds = {'x': (rows, shape[1] or f'1..{STEPS}', FEATURES), **({'lengths': (rows,)} if lengths else {})}
    model = ht.load(f'{folder}/m.pb', outputs=outputs)
    program = model.with_(shapes=bounds).compile(cache='off')
    low = model.with_(shapes=bounds).compile(policy, cache='off')
    for rows, steps in (ROWS, STEPS), (1, 1), (int(r.integers(1, ROWS + 1)), int(r.integers(1, STEPS + 1))):
        feeds = feeds_of(r, shape, lengths, rows, steps)
        want = session_run(proto, feeds, outputs)
        agree(f'sizes {rows, steps}', [program.context(threads=1 + rows % 2).run(**feeds)[o] for o in outputs], want)
    model.with_(shapes={k: x.shape for k, x in feeds.items()}).convert(policy, f'{folder}/low.pb')
    theirs = session_run(live.imported(f'{folder}/low.pb'), feeds, outputs)
    for o, g, t, w in zip(outputs, low.context().run(**feeds).values(), theirs, want):
        if not live.error(g, w) <= 2 * live.error(t, w) + POLICIES[policy] + TOLERANCE:
            raise Wrong(f'{policy}: {o} is off by {live.error(g, w)}, TensorFlow by {live.error(t, w)}')


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('--part', help='I/N: every N-th graph, from the I-th on')
    p.add_argument('name', nargs='*')
    a = p.parse_args()
    faulthandler.enable()
    print(f'seed {a.seed}', flush=True)
    wrong = ran = 0
    chosen = a.name or (NAMES[int(a.part.split('/')[0])::int(a.part.split('/')[1])] if a.part else package.environment.in_turn(NAMES, SHARE))
    for i, name in enumerate(chosen):
        for lowered in (True, False) if a.name or a.part or package.environment.LONG else [bool((i + package.environment.TURN) % 3)]:
            policy = list(POLICIES)[(i + lowered + package.environment.TURN) % len(POLICIES)]
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check(name, a.seed, lowered, policy, folder)
                    ran += 1
                except (Wrong, ht.HalftoneError, tf.errors.OpError, ValueError, TypeError) as e:
                    wrong += 1
                    print(f'WRONG {name}, {"TensorFlow 1" if lowered else "functional"}: {type(e).__name__}: {str(e)[:800]}', flush=True)
    print(f'{ran} graphs as TensorFlow has them, {wrong} not: seed {a.seed}')
    sys.exit(wrong > 0)


main()
