#!/usr/bin/env python3
"""Recurrent cells that are one op, and layers of them, against live TensorFlow: LSTMBlockCell and GRUBlockCell, alone
and in a loop, BlockLSTM and BlockLSTMV2, with and without peepholes, clipping and steps that do not count, in
float32 and float16, with their gradients; in each way to run a model, and converted under policies.

Exit code 77: nothing to test with.
"""
import argparse
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
from live import check, check_stops, close, freeze, np, run, tf, tool  # noqa: E402

raw = tf.raw_ops
HALF = 1e-2


class Halves:
    """A generator whose normal numbers are those of another one, rounded to float16."""

    def __init__(self, r):
        self.r = r

    def standard_normal(self, shape):
        return self.r.standard_normal(shape).astype('f2').astype('f8')

    def __getattr__(self, name):
        return getattr(self.r, name)


def weights(r, t, *shape):
    return tf.constant((r.standard_normal(shape) * .5).astype(t))


class Cell:
    def __init__(self, r, t, newer=False):
        self.rows, self.inputs, self.units = (int(n) for n in r.integers(1, 9, 3))
        self.t, self.newer = t, newer
        self.words = {'w': weights(r, t, self.inputs + self.units, 4 * self.units), 'b': weights(r, t, 4 * self.units),
                      **{n: weights(r, t, self.units) for n in ('wci', 'wcf', 'wco')},
                      'cell_clip': float(r.choice([-1, 0, .3, 3])), 'use_peephole': bool(r.integers(2))}
        if not newer:
            self.words['forget_bias'] = float(r.choice([0, 1, .5]))

    def states(self, r):
        return {n: r.standard_normal((self.rows, self.units)).astype(self.t) for n in ('c', 'h')}


def one_cell(r, t):
    cell = Cell(r, t)

    def f(x, c, h):
        return tuple(raw.LSTMBlockCell(x=x, cs_prev=c, h_prev=h, **cell.words))
    return f, {'x': r.standard_normal((cell.rows, cell.inputs)).astype(t), **cell.states(r)}


def gru_cell(r, t):
    rows, inputs, units = (int(n) for n in r.integers(1, 9, 3))
    words = {'w_ru': weights(r, t, inputs + units, 2 * units), 'w_c': weights(r, t, inputs + units, units),
             'b_ru': weights(r, t, 2 * units), 'b_c': weights(r, t, units)}

    def f(x, h):
        return tuple(raw.GRUBlockCell(x=x, h_prev=h, **words))
    return f, {'x': r.standard_normal((rows, inputs)).astype(t), 'h': r.standard_normal((rows, units)).astype(t)}


def in_loop(r, t):
    """A cell in the body of a loop of which only the states are used."""
    cell, steps = Cell(r, t), int(r.integers(1, 6))

    def f(x, c, h):
        def body(i, c, h):
            y = raw.LSTMBlockCell(x=x[i], cs_prev=c, h_prev=h, **cell.words)
            return i + 1, y.cs, y.h
        return tf.while_loop(lambda i, c, h: i < steps, body, (0, c, h))[1:]
    return f, {'x': r.standard_normal((steps, cell.rows, cell.inputs)).astype(t), **cell.states(r)}


def layer(newer, some, fed):
    """All results are used, or only the last two; the number of steps that count is fed or constant."""
    op = raw.BlockLSTMV2 if newer else raw.BlockLSTM

    def make(r, t):
        cell, steps = Cell(r, t, newer), int(r.integers(1, 8))
        count = int(r.integers(0, steps + 1)) if fed else steps

        def f(x, c, h, n=count):
            y = op(seq_len_max=tf.cast(n, tf.int64), x=x, cs_prev=c, h_prev=h, **cell.words)
            if some:
                return y.h * 2, y.cs[-1]
            # For steps that do not count, TensorFlow sets states to zero and leaves gates
            # uninitialised.
            counts = tf.reshape(tf.range(steps) < n, (steps, 1, 1))
            return tuple(v if k in ('cs', 'h') else tf.where(counts, v, tf.zeros_like(v)) for k, v in y._asdict().items())
        feeds = {'x': r.standard_normal((steps, cell.rows, cell.inputs)).astype(t), **cell.states(r)}
        return f, {**feeds, 'n': np.int32(count)} if fed else feeds
    return make


def one_cell_gradient(r, t):
    cell = Cell(r, t)
    gate_words = {k: v for k, v in cell.words.items() if k not in ('cell_clip', 'forget_bias')}

    def f(x, c, h, g, s):
        y = raw.LSTMBlockCell(x=x, cs_prev=c, h_prev=h, **cell.words)
        return tuple(raw.LSTMBlockCellGrad(x=x, cs_prev=c, h_prev=h, **gate_words, **{k: getattr(y, k) for k in ('i', 'cs', 'f', 'o', 'ci', 'co')},
                                           cs_grad=g, h_grad=s))
    return f, {'x': r.standard_normal((cell.rows, cell.inputs)).astype(t), **cell.states(r), **dict(zip('gs', cell.states(r).values()))}


def gru_cell_gradient(r, t):
    f, feeds = gru_cell(r, t)
    rows, inputs, units = *feeds['x'].shape, feeds['h'].shape[1]
    words = {'w_ru': weights(r, t, inputs + units, 2 * units), 'w_c': weights(r, t, inputs + units, units),
             'b_ru': weights(r, t, 2 * units), 'b_c': weights(r, t, units)}

    def g(x, h, d):
        y = raw.GRUBlockCell(x=x, h_prev=h, **words)
        return tuple(raw.GRUBlockCellGrad(x=x, h_prev=h, **words, r=y.r, u=y.u, c=y.c, d_h=d))
    return g, {**feeds, 'd': r.standard_normal((rows, units)).astype(t)}


def layer_gradient(newer, fed):
    """By the sequence, the first states and all weights, of a sum of the states and results."""
    op = raw.BlockLSTMV2 if newer else raw.BlockLSTM

    def make(r, t):
        cell, steps = Cell(r, t, newer), int(r.integers(1, 8))
        count = int(r.integers(1, steps + 1)) if fed else steps
        names = 'w', 'b', 'wci', 'wcf', 'wco'

        def f(x, c, h, n=count):
            words = {**cell.words, **{k: tf.identity(cell.words[k]) for k in names}}
            by = [x, c, h, *(words[k] for k in names)]
            with tf.GradientTape() as tape:
                tape.watch(by)
                y = op(seq_len_max=tf.cast(n, tf.int64), x=x, cs_prev=c, h_prev=h, **words)
                loss = tf.reduce_sum(y.h ** 2) + tf.reduce_sum(y.cs * y.h)
            gradient = tape.gradient(loss, by)
            # TensorFlow leaves the gradient by steps that do not count uninitialised.
            counts = tf.reshape(tf.range(steps) < n, (steps, 1, 1))
            return (tf.where(counts, gradient[0], tf.zeros_like(x)), *gradient[1:])
        feeds = {'x': r.standard_normal((steps, cell.rows, cell.inputs)).astype(t), **cell.states(r)}
        return f, {**feeds, 'n': np.int32(count)} if fed else feeds
    return make


MODELS = {'cell': one_cell, 'gru': gru_cell, 'loop': in_loop,
          **{f'layer {newer:d}{some:d}{fed:d}': layer(newer, some, fed) for newer in (0, 1) for some in (0, 1) for fed in (0, 1)},
          'cell gradient': one_cell_gradient, 'gru gradient': gru_cell_gradient,
          **{f'layer gradient {newer:d}{fed:d}': layer_gradient(newer, fed) for newer in (0, 1) for fed in (0, 1)}}


def results(f, feeds):
    return [y.numpy() for y in tf.nest.flatten(f(*map(tf.constant, feeds.values())))]


def written(f, feeds, folder):
    """The frozen function, whose graph is written, and the names of its outputs."""
    frozen = freeze(f, [tf.TensorSpec(x.shape, x.dtype, name=n) for n, x in feeds.items()], f'{folder}/m.pb')
    return frozen, [y.name.removesuffix(':0') for y in frozen.outputs]


def check_single(r, folder, name):
    f, feeds = MODELS[name](r, 'f4')
    frozen, outputs = written(f, feeds, folder)
    order = [i['name'] for i in json.loads(tool('inspect', f'{folder}/m.pb', '--format', 'json'))['inputs']]
    # The program of a net takes the inputs in this order.  A policy rounds gradients of few elements once more or less by chance.
    check(name, folder, f'{folder}/m.pb', {n: feeds[n] for n in order}, outputs, results(frozen, feeds), **{'policies': {}} if 'gradient' in name else {})


def check_half(seed, folder, name):
    """float16, against TensorFlow's results in float32 for the same numbers: in float16 it rounds each term of sums of products,
    which may be far larger than the sum."""
    f, feeds = MODELS[name](Halves(np.random.default_rng(seed)), 'f2')
    _, outputs = written(f, feeds, folder)
    for o, g, w in zip(outputs, run(folder, f'{folder}/m.pb', feeds, outputs, '--outputs', ','.join(outputs)),
                       results(*MODELS[name](Halves(np.random.default_rng(seed)), 'f4')), strict=True):
        if g.dtype != 'f2' or not close(g.astype('f4'), w, HALF):
            sys.exit(f'{name}, float16: {o} is {g!r}, not {w!r}')


def check_too_many_steps(r, folder):
    """A number of steps beyond the sequence stops the run."""
    f, feeds = layer(0, 1, 1)(r, 'f4')
    freeze(f, [tf.TensorSpec(x.shape, x.dtype, name=n) for n, x in feeds.items()], f'{folder}/m.pb')
    feeds['n'] = np.int32(len(feeds['x']) + 1)
    check_stops('too many steps', folder, f'{folder}/m.pb', feeds, 'out of range')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('name', nargs='*', help=', '.join(MODELS))
    a = p.parse_args()
    print('seed', a.seed, flush=True)
    for name in a.name or MODELS:
        seed = [a.seed, list(MODELS).index(name)]
        with tempfile.TemporaryDirectory() as folder:
            check_single(np.random.default_rng(seed), folder, name)
            if 'gru' not in name:
                check_half(seed, folder, name)
    with tempfile.TemporaryDirectory() as folder:
        check_too_many_steps(np.random.default_rng(a.seed), folder)


if __name__ == '__main__':
    main()
